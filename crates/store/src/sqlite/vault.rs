//! Identities and their trail, in the file.

use std::sync::LazyLock;

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{ExecutionId, TenantId, Text, Timestamp, TokenId};
use rusqlite::{Connection, params, params_from_iter};

use super::SqliteStore;
use super::bind::{all, execute, failure, first, micros};
use super::shared::{insert, select};
use super::writer::Durability;
use crate::error::StoreError;
use crate::model::{ApiToken, AuditEntry, NewAudit, SecretActFilter, Trails};
use crate::row::{self, AUDIT, TOKEN, audit_row, token_row};
use crate::vault::Vault;

static PUT_TOKEN: LazyLock<String> = LazyLock::new(|| insert("INSERT OR IGNORE", &TOKEN));

static SELECT_TOKEN: LazyLock<String> = LazyLock::new(|| select(&TOKEN, "WHERE prefix = ?1"));

static TOKEN_OF: LazyLock<String> =
    LazyLock::new(|| select(&TOKEN, "WHERE tenant_id = ?1 AND token_id = ?2"));

static TOKENS_OF: LazyLock<String> = LazyLock::new(|| {
    let behind = "WHERE tenant_id = ?1 AND token_id > ?2 ORDER BY token_id LIMIT ?3";
    select(&TOKEN, behind)
});

static PUT_AUDIT: LazyLock<String> = LazyLock::new(|| insert("INSERT", &AUDIT));

static AUDITS_OF: LazyLock<String> = LazyLock::new(|| {
    let before = "WHERE tenant_id = ?1 AND seq < ?2 ORDER BY seq DESC LIMIT ?3";
    select(&AUDIT, before)
});

/// The acts on secrets: of all of them or one, for all runs or one. Each choice has its own index.
static SECRET_ACTS: LazyLock<[[String; 2]; 2]> = LazyLock::new(|| {
    let acts = |credential: &str, run: &str| {
        let rest = format!(
            "WHERE operation IS NOT NULL AND {credential} AND {run} AND occurred_at >= ?3
             AND (occurred_at, audit_id) < (?4, ?5)
             ORDER BY occurred_at DESC, audit_id DESC LIMIT ?6"
        );
        select(&AUDIT, &rest)
    };
    let runs =
        |credential: &str| ["?2 IS NULL", "execution_id = ?2"].map(|run| acts(credential, run));
    ["?1 IS NULL", "credential = ?1"].map(runs)
});

pub(super) fn secret_acts(filter: &SecretActFilter) -> &'static str {
    let of_secret = &SECRET_ACTS[usize::from(filter.credential.is_some())];
    &of_secret[usize::from(filter.execution_id.is_some())]
}

fn put_token(connection: &Connection, token: &ApiToken) -> Result<bool, StoreError> {
    let row = params_from_iter(token_row(token));
    Ok(execute(connection, &PUT_TOKEN, row).map_err(failure)? > 0)
}

fn has_tokens(connection: &Connection) -> Result<bool, StoreError> {
    let sql = "SELECT '', count(*) FROM (SELECT 1 FROM api_token LIMIT 1)";
    let found = first(connection, sql, [], row::count_of::<Text>)?;
    Ok(found.is_some_and(|(_, count)| count > 0))
}

fn common_secret(connection: &Connection, fresh: &Text) -> Result<Text, StoreError> {
    let put = "INSERT OR IGNORE INTO meta (key, value) VALUES ('common_secret', ?1)";
    execute(connection, put, [fresh.as_str()]).map_err(failure)?;
    let sql = "SELECT value, 1 FROM meta WHERE key = 'common_secret'";
    let found = first(connection, sql, [], row::count_of::<Text>)?;
    Ok(found.map_or_else(|| fresh.clone(), |(secret, _)| secret))
}

fn audits(
    connection: &Connection,
    tenant_id: &TenantId,
    before: Option<i64>,
    limit: u32,
) -> Result<Vec<AuditEntry>, StoreError> {
    let params = params![tenant_id.as_str(), before.unwrap_or(i64::MAX), limit];
    all(connection, &AUDITS_OF, params, row::audit)
}

fn is_known(connection: &Connection, act: &NewAudit) -> Result<bool, StoreError> {
    let sql = "SELECT '', count(*) FROM audit WHERE audit_id = ?1";
    let found = first(connection, sql, [act.audit_id.get()], row::count_of::<Text>)?;
    Ok(found.is_some_and(|(_, count)| count > 0))
}

fn add(connection: &Connection, acts: &[NewAudit]) -> Result<(), StoreError> {
    let mut trails = Trails::default();
    for act in acts {
        if is_known(connection, act)? {
            continue;
        }
        if !trails.knows(&act.tenant_id) {
            let last = audits(connection, &act.tenant_id, None, 1)?;
            trails.ends(act.tenant_id.clone(), last.first());
        }
        let row = audit_row(&trails.link(act.clone()));
        execute(connection, &PUT_AUDIT, params_from_iter(row)).map_err(failure)?;
    }
    Ok(())
}

#[async_trait]
impl Vault for SqliteStore {
    async fn put_token(&self, token: ApiToken) -> Result<bool, StoreError> {
        self.writer
            .run(Durability::Synced, move |connection| {
                put_token(connection, &token)
            })
            .await
    }

    async fn put_first_token(&self, token: ApiToken) -> Result<bool, StoreError> {
        self.writer
            .run(Durability::Synced, move |connection| {
                Ok(!has_tokens(connection)? && put_token(connection, &token)?)
            })
            .await
    }

    async fn token(&self, prefix: &Text) -> Result<Option<ApiToken>, StoreError> {
        let prefix = prefix.clone();
        self.readers
            .run(move |connection| first(connection, &SELECT_TOKEN, [prefix.as_str()], row::token))
            .await
    }

    async fn tokens(
        &self,
        tenant_id: &TenantId,
        after: Option<TokenId>,
        limit: PageLimit,
    ) -> Result<Vec<ApiToken>, StoreError> {
        let (tenant_id, after) = (tenant_id.clone(), after.map_or(0, TokenId::get));
        self.readers
            .run(move |connection| {
                let params = params![tenant_id.as_str(), after, limit.get()];
                all(connection, &TOKENS_OF, params, row::token)
            })
            .await
    }

    async fn revoke_token(
        &self,
        tenant_id: &TenantId,
        token_id: TokenId,
        now: Timestamp,
    ) -> Result<Option<ApiToken>, StoreError> {
        let tenant_id = tenant_id.clone();
        self.writer
            .run(Durability::Synced, move |connection| {
                let sql = "UPDATE api_token SET revoked_at = ?3
                    WHERE tenant_id = ?1 AND token_id = ?2 AND revoked_at IS NULL";
                let params = params![tenant_id.as_str(), token_id.get(), micros(now)];
                execute(connection, sql, params).map_err(failure)?;
                let key = (tenant_id.as_str(), token_id.get());
                first(connection, &TOKEN_OF, key, row::token)
            })
            .await
    }

    async fn touch_token(&self, token_id: TokenId, now: Timestamp) -> Result<(), StoreError> {
        self.writer
            .run(Durability::Forgettable, move |connection| {
                let sql = "UPDATE api_token SET last_used_at = ?2
                    WHERE token_id = ?1 AND (last_used_at IS NULL OR last_used_at < ?2)";
                execute(connection, sql, (token_id.get(), micros(now))).map_err(failure)?;
                Ok(())
            })
            .await
    }

    async fn common_secret(&self, fresh: Text) -> Result<Text, StoreError> {
        self.writer
            .run(Durability::Synced, move |connection| {
                common_secret(connection, &fresh)
            })
            .await
    }

    async fn audit(&self, acts: Vec<NewAudit>) -> Result<(), StoreError> {
        self.writer
            .run(Durability::Synced, move |connection| add(connection, &acts))
            .await
    }

    async fn audits(
        &self,
        tenant_id: &TenantId,
        before: Option<i64>,
        limit: PageLimit,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        let tenant_id = tenant_id.clone();
        self.readers
            .run(move |connection| audits(connection, &tenant_id, before, limit.get()))
            .await
    }
    async fn secret_acts(
        &self,
        filter: SecretActFilter,
        limit: PageLimit,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        self.readers
            .run(move |connection| {
                let (until, before) = filter.end();
                let params = params![
                    filter.credential.as_ref().map(Text::as_str),
                    filter.execution_id.map(ExecutionId::get),
                    micros(filter.begin()),
                    micros(until),
                    before,
                    limit.get(),
                ];
                all(connection, secret_acts(&filter), params, row::audit)
            })
            .await
    }
}

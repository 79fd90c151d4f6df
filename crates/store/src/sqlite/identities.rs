//! [`IdentityStore`](crate::identities::IdentityStore) in SQLite: API tokens and the audit log.

use std::sync::LazyLock;

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{ExecutionId, TenantId, Text, Timestamp, TokenId};
use rusqlite::{Connection, params, params_from_iter};

use super::SqliteStore;
use super::bind::{execute_cached, query_all, query_first, to_micros, to_store_error};
use super::coordination_queries::{insert_sql, select_sql};
use super::writer::Durability;
use crate::error::StoreError;
use crate::identities::IdentityStore;
use crate::model::{ApiToken, AuditChains, AuditEntry, NewAuditEntry, SecretAuditFilter};
use crate::row::{self, AUDIT, TOKEN, encode_audit_entry, encode_token};

static PUT_TOKEN: LazyLock<String> = LazyLock::new(|| insert_sql("INSERT OR IGNORE", &TOKEN));

static SELECT_TOKEN: LazyLock<String> = LazyLock::new(|| select_sql(&TOKEN, "WHERE prefix = ?1"));

static SELECT_TOKEN_BY_ID: LazyLock<String> =
    LazyLock::new(|| select_sql(&TOKEN, "WHERE tenant_id = ?1 AND token_id = ?2"));

static LIST_TOKENS: LazyLock<String> = LazyLock::new(|| {
    let page = "WHERE tenant_id = ?1 AND token_id > ?2 ORDER BY token_id LIMIT ?3";
    select_sql(&TOKEN, page)
});

static PUT_AUDIT: LazyLock<String> = LazyLock::new(|| insert_sql("INSERT", &AUDIT));

static LIST_AUDIT_ENTRIES: LazyLock<String> = LazyLock::new(|| {
    let before = "WHERE tenant_id = ?1 AND seq < ?2 ORDER BY seq DESC LIMIT ?3";
    select_sql(&AUDIT, before)
});

/// Lists audit entries about secrets: for any or one credential, and for any or one execution. Each
/// combination has its own index.
static SECRET_AUDIT_QUERIES: LazyLock<[[String; 2]; 2]> = LazyLock::new(|| {
    let sql = |credential: &str, execution: &str| {
        let rest = format!(
            "WHERE operation IS NOT NULL AND {credential} AND {execution} AND occurred_at >= ?3
             AND (occurred_at, audit_id) < (?4, ?5)
             ORDER BY occurred_at DESC, audit_id DESC LIMIT ?6"
        );
        select_sql(&AUDIT, &rest)
    };
    let by_execution = |credential: &str| {
        ["?2 IS NULL", "execution_id = ?2"].map(|execution| sql(credential, execution))
    };
    ["?1 IS NULL", "credential = ?1"].map(by_execution)
});

pub(super) fn secret_audit_query(filter: &SecretAuditFilter) -> &'static str {
    let by_credential = &SECRET_AUDIT_QUERIES[usize::from(filter.credential.is_some())];
    &by_credential[usize::from(filter.execution_id.is_some())]
}

fn insert_token(connection: &Connection, token: &ApiToken) -> Result<bool, StoreError> {
    let row = params_from_iter(encode_token(token));
    Ok(execute_cached(connection, &PUT_TOKEN, row).map_err(to_store_error)? > 0)
}

fn has_tokens(connection: &Connection) -> Result<bool, StoreError> {
    let sql = "SELECT '', count(*) FROM (SELECT 1 FROM api_token LIMIT 1)";
    let found = query_first(connection, sql, [], row::decode_count::<Text>)?;
    Ok(found.is_some_and(|(_, count)| count > 0))
}

fn get_or_init_shared_secret(connection: &Connection, fresh: &Text) -> Result<Text, StoreError> {
    let insert = "INSERT OR IGNORE INTO meta (key, value) VALUES ('common_secret', ?1)";
    execute_cached(connection, insert, [fresh.as_str()]).map_err(to_store_error)?;
    let sql = "SELECT value, 1 FROM meta WHERE key = 'common_secret'";
    let found = query_first(connection, sql, [], row::decode_count::<Text>)?;
    Ok(found.map_or_else(|| fresh.clone(), |(secret, _)| secret))
}

fn list_audit_entries(
    connection: &Connection,
    tenant_id: &TenantId,
    before: Option<i64>,
    limit: u32,
) -> Result<Vec<AuditEntry>, StoreError> {
    let params = params![tenant_id.as_str(), before.unwrap_or(i64::MAX), limit];
    query_all(connection, &LIST_AUDIT_ENTRIES, params, row::decode_audit_entry)
}

fn has_audit_entry(connection: &Connection, entry: &NewAuditEntry) -> Result<bool, StoreError> {
    let sql = "SELECT '', count(*) FROM audit WHERE audit_id = ?1";
    let found = query_first(connection, sql, [entry.audit_id.get()], row::decode_count::<Text>)?;
    Ok(found.is_some_and(|(_, count)| count > 0))
}

fn append_audit_entries(
    connection: &Connection,
    entries: &[NewAuditEntry],
) -> Result<(), StoreError> {
    let mut chains = AuditChains::default();
    for entry in entries {
        if has_audit_entry(connection, entry)? {
            continue;
        }
        if !chains.has_tenant(&entry.tenant_id) {
            let last = list_audit_entries(connection, &entry.tenant_id, None, 1)?;
            chains.set_last_entry(entry.tenant_id.clone(), last.first());
        }
        let row = encode_audit_entry(&chains.link_entry(entry.clone()));
        execute_cached(connection, &PUT_AUDIT, params_from_iter(row)).map_err(to_store_error)?;
    }
    Ok(())
}

#[async_trait]
impl IdentityStore for SqliteStore {
    async fn put_token(&self, token: ApiToken) -> Result<bool, StoreError> {
        self.writer
            .run_write(Durability::Synced, move |connection| insert_token(connection, &token))
            .await
    }

    async fn put_first_token(&self, token: ApiToken) -> Result<bool, StoreError> {
        self.writer
            .run_write(Durability::Synced, move |connection| {
                Ok(!has_tokens(connection)? && insert_token(connection, &token)?)
            })
            .await
    }

    async fn find_token(&self, prefix: &Text) -> Result<Option<ApiToken>, StoreError> {
        let prefix = prefix.clone();
        self.readers
            .run_query(move |connection| {
                query_first(connection, &SELECT_TOKEN, [prefix.as_str()], row::decode_token)
            })
            .await
    }

    async fn list_tokens(
        &self,
        tenant_id: &TenantId,
        after: Option<TokenId>,
        limit: PageLimit,
    ) -> Result<Vec<ApiToken>, StoreError> {
        let (tenant_id, after) = (tenant_id.clone(), after.map_or(0, TokenId::get));
        self.readers
            .run_query(move |connection| {
                let params = params![tenant_id.as_str(), after, limit.get()];
                query_all(connection, &LIST_TOKENS, params, row::decode_token)
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
            .run_write(Durability::Synced, move |connection| {
                let sql = "UPDATE api_token SET revoked_at = ?3
                    WHERE tenant_id = ?1 AND token_id = ?2 AND revoked_at IS NULL";
                let params = params![tenant_id.as_str(), token_id.get(), to_micros(now)];
                execute_cached(connection, sql, params).map_err(to_store_error)?;
                let key = (tenant_id.as_str(), token_id.get());
                query_first(connection, &SELECT_TOKEN_BY_ID, key, row::decode_token)
            })
            .await
    }

    async fn record_token_use(&self, token_id: TokenId, now: Timestamp) -> Result<(), StoreError> {
        self.writer
            .run_write(Durability::Unsynced, move |connection| {
                let sql = "UPDATE api_token SET last_used_at = ?2
                    WHERE token_id = ?1 AND (last_used_at IS NULL OR last_used_at < ?2)";
                execute_cached(connection, sql, (token_id.get(), to_micros(now)))
                    .map_err(to_store_error)?;
                Ok(())
            })
            .await
    }

    async fn get_or_init_shared_secret(&self, fresh: Text) -> Result<Text, StoreError> {
        self.writer
            .run_write(Durability::Synced, move |connection| {
                get_or_init_shared_secret(connection, &fresh)
            })
            .await
    }

    async fn append_audit_log(&self, entries: Vec<NewAuditEntry>) -> Result<(), StoreError> {
        self.writer
            .run_write(Durability::Synced, move |connection| {
                append_audit_entries(connection, &entries)
            })
            .await
    }

    async fn list_audit_entries(
        &self,
        tenant_id: &TenantId,
        before: Option<i64>,
        limit: PageLimit,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        let tenant_id = tenant_id.clone();
        self.readers
            .run_query(move |connection| {
                list_audit_entries(connection, &tenant_id, before, limit.get())
            })
            .await
    }
    async fn list_secret_audit_entries(
        &self,
        filter: SecretAuditFilter,
        limit: PageLimit,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        self.readers
            .run_query(move |connection| {
                let (until, before) = filter.upper_bound();
                let params = params![
                    filter.credential.as_ref().map(Text::as_str),
                    filter.execution_id.map(ExecutionId::get),
                    to_micros(filter.start_time()),
                    to_micros(until),
                    before,
                    limit.get(),
                ];
                query_all(connection, secret_audit_query(&filter), params, row::decode_audit_entry)
            })
            .await
    }
}

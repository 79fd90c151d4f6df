//! Identities and their trail, in the database.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{ExecutionId, TenantId, Text, Timestamp, TokenId};

use super::PostgresStore;
use super::bind::{failure, read_all};
use super::query::{Param, insert, lock_name, params, rows, select};
use crate::error::StoreError;
use crate::model::{ApiToken, AuditEntry, NewAudit, SecretActFilter, Trails};
use crate::row::{self, AUDIT, TOKEN, ToCell as _, audit_row, token_row};
use crate::vault::Vault;

static PUT_TOKEN: LazyLock<String> =
    LazyLock::new(|| insert(&TOKEN, "ON CONFLICT DO NOTHING RETURNING 1"));

static SELECT_TOKEN: LazyLock<String> = LazyLock::new(|| select(&TOKEN, "WHERE prefix = $1"));

static TOKENS_OF: LazyLock<String> = LazyLock::new(|| {
    let behind = "WHERE tenant_id = $1 AND token_id > $2 ORDER BY token_id LIMIT $3::bigint";
    select(&TOKEN, behind)
});

/// The row is written even where nothing changes, so that it can be told in one statement.
static REVOKE: LazyLock<String> = LazyLock::new(|| {
    let columns = TOKEN.list();
    format!(
        "UPDATE api_token SET revoked_at = coalesce(revoked_at, $3::timestamptz)
         WHERE tenant_id = $1 AND token_id = $2 RETURNING {columns}"
    )
});

const TOUCH: &str = "UPDATE api_token SET last_used_at = $2::timestamptz
    WHERE token_id = $1 AND (last_used_at IS NULL OR last_used_at < $2::timestamptz)";

const PUT_SECRET: &str = "INSERT INTO meta (key, value) VALUES ('common_secret', $1)
    ON CONFLICT DO NOTHING";

const SELECT_SECRET: &str = "SELECT value FROM meta WHERE key = 'common_secret'";

static PUT_AUDIT: LazyLock<String> = LazyLock::new(|| insert(&AUDIT, ""));

static AUDITS_OF: LazyLock<String> = LazyLock::new(|| {
    let before = "WHERE tenant_id = $1 AND seq < $2::bigint ORDER BY seq DESC LIMIT $3::bigint";
    select(&AUDIT, before)
});

/// The acts on secrets: of all of them or one, for all runs or one. Each choice has its own index.
static SECRET_ACTS: LazyLock<[[String; 2]; 2]> = LazyLock::new(|| {
    let acts = |credential: &str, run: &str| {
        let rest = format!(
            "WHERE operation IS NOT NULL AND {credential} AND {run}
             AND occurred_at >= $3::timestamptz
             AND (occurred_at, audit_id) < ($4::timestamptz, $5::bigint)
             ORDER BY occurred_at DESC, audit_id DESC LIMIT $6::bigint"
        );
        select(&AUDIT, &rest)
    };
    let runs = |credential: &str| {
        ["$2::bigint IS NULL", "execution_id = $2"].map(|run| acts(credential, run))
    };
    ["$1::text IS NULL", "credential = $1"].map(runs)
});

fn secret_acts(filter: &SecretActFilter) -> &'static str {
    let of_secret = &SECRET_ACTS[usize::from(filter.credential.is_some())];
    &of_secret[usize::from(filter.execution_id.is_some())]
}

#[async_trait]
impl Vault for PostgresStore {
    async fn put_token(&self, token: ApiToken) -> Result<bool, StoreError> {
        let mut client = self.pool.get().await?;
        let cells = token_row(&token);
        Ok(!client.rows(&PUT_TOKEN, &params(&cells)).await?.is_empty())
    }

    async fn put_first_token(&self, token: ApiToken) -> Result<bool, StoreError> {
        let mut client = self.pool.get().await?;
        let transaction = client.transaction().await?;
        lock_name(&transaction, "the first token").await?;
        let known = rows(&transaction, "SELECT 1 FROM api_token LIMIT 1", &[]).await?;
        if !known.is_empty() {
            transaction.rollback().await.map_err(failure)?;
            return Ok(false);
        }
        let cells = token_row(&token);
        let put = rows(&transaction, &PUT_TOKEN, &params(&cells)).await?;
        transaction.commit().await.map_err(failure)?;
        Ok(!put.is_empty())
    }

    async fn token(&self, prefix: &Text) -> Result<Option<ApiToken>, StoreError> {
        let mut client = self.pool.get().await?;
        let found = client.rows(&SELECT_TOKEN, &[&prefix.as_str()]).await?;
        Ok(read_all(&found, row::token)?.into_iter().next())
    }

    async fn tokens(
        &self,
        tenant_id: &TenantId,
        after: Option<TokenId>,
        limit: PageLimit,
    ) -> Result<Vec<ApiToken>, StoreError> {
        let mut client = self.pool.get().await?;
        let after = after.map_or(0, TokenId::get);
        let params: [Param<'_>; 3] = [&tenant_id.as_str(), &after, &i64::from(limit.get())];
        read_all(&client.rows(&TOKENS_OF, &params).await?, row::token)
    }

    async fn revoke_token(
        &self,
        tenant_id: &TenantId,
        token_id: TokenId,
        now: Timestamp,
    ) -> Result<Option<ApiToken>, StoreError> {
        let mut client = self.pool.get().await?;
        let params: [Param<'_>; 3] = [&tenant_id.as_str(), &token_id.get(), &now.to_cell()];
        let revoked = client.rows(&REVOKE, &params).await?;
        Ok(read_all(&revoked, row::token)?.into_iter().next())
    }

    async fn touch_token(&self, token_id: TokenId, now: Timestamp) -> Result<(), StoreError> {
        let mut client = self.pool.get().await?;
        client
            .rows(TOUCH, &[&token_id.get(), &now.to_cell()])
            .await?;
        Ok(())
    }

    async fn common_secret(&self, fresh: Text) -> Result<Text, StoreError> {
        let mut client = self.pool.get().await?;
        // Who comes second waits for the first and then finds what it kept.
        client.rows(PUT_SECRET, &[&fresh.as_str()]).await?;
        let found = client.rows(SELECT_SECRET, &[]).await?;
        let found = found.first().map(|row| Text::from(row.get::<_, &str>(0)));
        Ok(found.unwrap_or(fresh))
    }

    /// One writes to a trail at a time; trails are locked in the order of their tenants.
    async fn audit(&self, acts: Vec<NewAudit>) -> Result<(), StoreError> {
        let mut client = self.pool.get().await?;
        let transaction = client.transaction().await?;
        let tenants: BTreeSet<&TenantId> = acts.iter().map(|act| &act.tenant_id).collect();
        let mut trails = Trails::default();
        for tenant_id in tenants {
            lock_name(&transaction, &format!("audit {tenant_id}")).await?;
            let newest: [Param<'_>; 3] = [&tenant_id.as_str(), &i64::MAX, &1_i64];
            let last = rows(&transaction, &AUDITS_OF, &newest).await?;
            let last = read_all(&last, row::audit)?;
            trails.ends(tenant_id.clone(), last.first());
        }
        for act in acts {
            let sql = "SELECT 1 FROM audit WHERE audit_id = $1";
            let known = rows(&transaction, sql, &[&act.audit_id.get()]).await?;
            if known.is_empty() {
                let cells = audit_row(&trails.link(act));
                rows(&transaction, &PUT_AUDIT, &params(&cells)).await?;
            }
        }
        transaction.commit().await.map_err(failure)
    }

    async fn audits(
        &self,
        tenant_id: &TenantId,
        before: Option<i64>,
        limit: PageLimit,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        let mut client = self.pool.get().await?;
        let before = before.unwrap_or(i64::MAX);
        let params: [Param<'_>; 3] = [&tenant_id.as_str(), &before, &i64::from(limit.get())];
        read_all(&client.rows(&AUDITS_OF, &params).await?, row::audit)
    }
    async fn secret_acts(
        &self,
        filter: SecretActFilter,
        limit: PageLimit,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        let mut client = self.pool.get().await?;
        let (until, before) = filter.end();
        let params: [Param<'_>; 6] = [
            &filter.credential.as_ref().map(Text::as_str),
            &filter.execution_id.map(ExecutionId::get),
            &filter.begin().to_cell(),
            &until.to_cell(),
            &before,
            &i64::from(limit.get()),
        ];
        let found = client.rows(secret_acts(&filter), &params).await?;
        read_all(&found, row::audit)
    }
}

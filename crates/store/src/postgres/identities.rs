//! [`IdentityStore`](crate::identities::IdentityStore) in PostgreSQL: API tokens and the audit log.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{ExecutionId, TenantId, Text, Timestamp, TokenId};

use super::PostgresStore;
use super::bind::{decode_rows, to_store_error};
use super::query::{Param, insert_sql, lock_by_name, query_rows, select_sql, to_params};
use crate::error::StoreError;
use crate::identities::IdentityStore;
use crate::model::{ApiToken, AuditChains, AuditEntry, NewAuditEntry, SecretAuditFilter};
use crate::row::{self, AUDIT, TOKEN, ToCell as _, encode_audit_entry, encode_token};

static PUT_TOKEN: LazyLock<String> =
    LazyLock::new(|| insert_sql(&TOKEN, "ON CONFLICT DO NOTHING RETURNING 1"));

static SELECT_TOKEN: LazyLock<String> = LazyLock::new(|| select_sql(&TOKEN, "WHERE prefix = $1"));

static LIST_TOKENS: LazyLock<String> = LazyLock::new(|| {
    let page = "WHERE tenant_id = $1 AND token_id > $2 ORDER BY token_id LIMIT $3::bigint";
    select_sql(&TOKEN, page)
});

/// Revokes a token. The row is updated even if it is already revoked, so that one statement can
/// return it.
static REVOKE_TOKEN: LazyLock<String> = LazyLock::new(|| {
    let columns = TOKEN.column_list();
    format!(
        "UPDATE api_token SET revoked_at = coalesce(revoked_at, $3::timestamptz)
         WHERE tenant_id = $1 AND token_id = $2 RETURNING {columns}"
    )
});

const RECORD_TOKEN_USE: &str = "UPDATE api_token SET last_used_at = $2::timestamptz
    WHERE token_id = $1 AND (last_used_at IS NULL OR last_used_at < $2::timestamptz)";

const INSERT_SHARED_SECRET: &str = "INSERT INTO meta (key, value) VALUES ('common_secret', $1)
    ON CONFLICT DO NOTHING";

const SELECT_SHARED_SECRET: &str = "SELECT value FROM meta WHERE key = 'common_secret'";

static PUT_AUDIT: LazyLock<String> = LazyLock::new(|| insert_sql(&AUDIT, ""));

static LIST_AUDIT_ENTRIES: LazyLock<String> = LazyLock::new(|| {
    let before = "WHERE tenant_id = $1 AND seq < $2::bigint ORDER BY seq DESC LIMIT $3::bigint";
    select_sql(&AUDIT, before)
});

/// Lists audit entries about secrets: for any or one credential, and for any or one execution. Each
/// combination has its own index.
static SECRET_AUDIT_QUERIES: LazyLock<[[String; 2]; 2]> = LazyLock::new(|| {
    let sql = |credential: &str, execution: &str| {
        let rest = format!(
            "WHERE operation IS NOT NULL AND {credential} AND {execution}
             AND occurred_at >= $3::timestamptz
             AND (occurred_at, audit_id) < ($4::timestamptz, $5::bigint)
             ORDER BY occurred_at DESC, audit_id DESC LIMIT $6::bigint"
        );
        select_sql(&AUDIT, &rest)
    };
    let by_execution = |credential: &str| {
        ["$2::bigint IS NULL", "execution_id = $2"].map(|execution| sql(credential, execution))
    };
    ["$1::text IS NULL", "credential = $1"].map(by_execution)
});

fn secret_audit_query(filter: &SecretAuditFilter) -> &'static str {
    let by_credential = &SECRET_AUDIT_QUERIES[usize::from(filter.credential.is_some())];
    &by_credential[usize::from(filter.execution_id.is_some())]
}

#[async_trait]
impl IdentityStore for PostgresStore {
    async fn put_token(&self, token: ApiToken) -> Result<bool, StoreError> {
        let mut client = self.pool.acquire().await?;
        let cells = encode_token(&token);
        Ok(!client.query_rows(&PUT_TOKEN, &to_params(&cells)).await?.is_empty())
    }

    async fn put_first_token(&self, token: ApiToken) -> Result<bool, StoreError> {
        let mut client = self.pool.acquire().await?;
        let transaction = client.begin_transaction().await?;
        lock_by_name(&transaction, "the first token").await?;
        let existing = query_rows(&transaction, "SELECT 1 FROM api_token LIMIT 1", &[]).await?;
        if !existing.is_empty() {
            transaction.rollback().await.map_err(to_store_error)?;
            return Ok(false);
        }
        let cells = encode_token(&token);
        let inserted = query_rows(&transaction, &PUT_TOKEN, &to_params(&cells)).await?;
        transaction.commit().await.map_err(to_store_error)?;
        Ok(!inserted.is_empty())
    }

    async fn find_token(&self, prefix: &Text) -> Result<Option<ApiToken>, StoreError> {
        let mut client = self.pool.acquire().await?;
        let found = client.query_rows(&SELECT_TOKEN, &[&prefix.as_str()]).await?;
        Ok(decode_rows(&found, row::decode_token)?.into_iter().next())
    }

    async fn list_tokens(
        &self,
        tenant_id: &TenantId,
        after: Option<TokenId>,
        limit: PageLimit,
    ) -> Result<Vec<ApiToken>, StoreError> {
        let mut client = self.pool.acquire().await?;
        let after = after.map_or(0, TokenId::get);
        let params: [Param<'_>; 3] = [&tenant_id.as_str(), &after, &i64::from(limit.get())];
        decode_rows(&client.query_rows(&LIST_TOKENS, &params).await?, row::decode_token)
    }

    async fn revoke_token(
        &self,
        tenant_id: &TenantId,
        token_id: TokenId,
        now: Timestamp,
    ) -> Result<Option<ApiToken>, StoreError> {
        let mut client = self.pool.acquire().await?;
        let params: [Param<'_>; 3] = [&tenant_id.as_str(), &token_id.get(), &now.to_cell()];
        let revoked = client.query_rows(&REVOKE_TOKEN, &params).await?;
        Ok(decode_rows(&revoked, row::decode_token)?.into_iter().next())
    }

    async fn record_token_use(&self, token_id: TokenId, now: Timestamp) -> Result<(), StoreError> {
        let mut client = self.pool.acquire().await?;
        client.query_rows(RECORD_TOKEN_USE, &[&token_id.get(), &now.to_cell()]).await?;
        Ok(())
    }

    async fn get_or_init_shared_secret(&self, fresh: Text) -> Result<Text, StoreError> {
        let mut client = self.pool.acquire().await?;
        // A concurrent second insert waits for the first, and then reads its secret.
        client.query_rows(INSERT_SHARED_SECRET, &[&fresh.as_str()]).await?;
        let found = client.query_rows(SELECT_SHARED_SECRET, &[]).await?;
        let found = found.first().map(|row| Text::from(row.get::<_, &str>(0)));
        Ok(found.unwrap_or(fresh))
    }

    /// Each tenant's audit chain has one writer at a time. Chains are locked in the order of their
    /// tenants, to avoid deadlocks.
    async fn append_audit_log(&self, entries: Vec<NewAuditEntry>) -> Result<(), StoreError> {
        let mut client = self.pool.acquire().await?;
        let transaction = client.begin_transaction().await?;
        let tenants: BTreeSet<&TenantId> = entries.iter().map(|entry| &entry.tenant_id).collect();
        let mut chains = AuditChains::default();
        for tenant_id in tenants {
            lock_by_name(&transaction, &format!("audit {tenant_id}")).await?;
            let newest: [Param<'_>; 3] = [&tenant_id.as_str(), &i64::MAX, &1_i64];
            let last = query_rows(&transaction, &LIST_AUDIT_ENTRIES, &newest).await?;
            let last = decode_rows(&last, row::decode_audit_entry)?;
            chains.set_last_entry(tenant_id.clone(), last.first());
        }
        for entry in entries {
            let sql = "SELECT 1 FROM audit WHERE audit_id = $1";
            let existing = query_rows(&transaction, sql, &[&entry.audit_id.get()]).await?;
            if existing.is_empty() {
                let cells = encode_audit_entry(&chains.link_entry(entry));
                query_rows(&transaction, &PUT_AUDIT, &to_params(&cells)).await?;
            }
        }
        transaction.commit().await.map_err(to_store_error)
    }

    async fn list_audit_entries(
        &self,
        tenant_id: &TenantId,
        before: Option<i64>,
        limit: PageLimit,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        let mut client = self.pool.acquire().await?;
        let before = before.unwrap_or(i64::MAX);
        let params: [Param<'_>; 3] = [&tenant_id.as_str(), &before, &i64::from(limit.get())];
        decode_rows(
            &client.query_rows(&LIST_AUDIT_ENTRIES, &params).await?,
            row::decode_audit_entry,
        )
    }
    async fn list_secret_audit_entries(
        &self,
        filter: SecretAuditFilter,
        limit: PageLimit,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        let mut client = self.pool.acquire().await?;
        let (until, before) = filter.upper_bound();
        let params: [Param<'_>; 6] = [
            &filter.credential.as_ref().map(Text::as_str),
            &filter.execution_id.map(ExecutionId::get),
            &filter.start_time().to_cell(),
            &until.to_cell(),
            &before,
            &i64::from(limit.get()),
        ];
        let found = client.query_rows(secret_audit_query(&filter), &params).await?;
        decode_rows(&found, row::decode_audit_entry)
    }
}

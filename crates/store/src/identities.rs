//! API tokens and the audit log.

use std::collections::BTreeSet;

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{Digest, TenantId, Text, Timestamp, TokenId};

use crate::error::StoreError;
use crate::model::{ApiToken, AuditChains, AuditEntry, NewAuditEntry, SecretAuditFilter};
use crate::row::{AUDIT, TOKEN, ToRow as _, cells};
use crate::sql::{Database, Durability, PlanMode, Session, Statement, select_sql};

/// The part of a [`crate::Store`] for identities and the audit log.
///
/// Only the digest of a token is stored. Audit entries are never changed or deleted.
#[async_trait]
pub trait IdentityStore {
    /// Stores a token. Returns `false` if its id or its prefix is taken.
    async fn put_token(&self, token: ApiToken) -> Result<bool, StoreError>;

    /// Stores a token if there is no token at all. Returns `false` otherwise. Of several concurrent
    /// callers exactly one succeeds.
    async fn put_first_token(&self, token: ApiToken) -> Result<bool, StoreError>;

    /// Returns the token with a prefix, even if it is revoked or expired.
    async fn find_token(&self, prefix: &Text) -> Result<Option<ApiToken>, StoreError>;

    /// Returns the tokens of a tenant, ordered by id, after the last one of the previous page.
    async fn list_tokens(
        &self,
        tenant_id: &TenantId,
        after: Option<TokenId>,
        limit: PageLimit,
    ) -> Result<Vec<ApiToken>, StoreError>;

    /// Returns the tokens of all tenants, ordered by id, after one.
    async fn list_all_tokens(
        &self,
        after: Option<TokenId>,
        limit: PageLimit,
    ) -> Result<Vec<ApiToken>, StoreError>;

    /// Sets the seal of a token, unless its revocation has changed.
    async fn seal_token(
        &self,
        token_id: TokenId,
        revoked_at: Option<Timestamp>,
        seal: Digest,
    ) -> Result<bool, StoreError>;

    /// Revokes a token of a tenant and returns it, or `None` if it does not exist. The seal is the
    /// one of the revoked token. An earlier revocation keeps its time and its seal.
    async fn revoke_token(
        &self,
        tenant_id: &TenantId,
        token_id: TokenId,
        now: Timestamp,
        seal: Option<Digest>,
    ) -> Result<Option<ApiToken>, StoreError>;

    /// Records the last use of a token. The recorded time never decreases. Not durable by itself.
    async fn record_token_use(&self, token_id: TokenId, now: Timestamp) -> Result<(), StoreError>;

    /// Returns the secret shared by all servers on this store. If no secret is stored, stores
    /// `fresh`. Concurrent callers all get the same secret.
    async fn get_or_init_shared_secret(&self, fresh: Text) -> Result<Text, StoreError>;

    /// Appends to the audit logs of tenants, each entry chained to the previous one. Appending the
    /// same entries again is a no-op.
    async fn append_audit_log(&self, entries: Vec<NewAuditEntry>) -> Result<(), StoreError>;

    /// Returns the audit log of a tenant, newest first, before a sequence number or from the end.
    async fn list_audit_entries(
        &self,
        tenant_id: &TenantId,
        before: Option<i64>,
        limit: PageLimit,
    ) -> Result<Vec<AuditEntry>, StoreError>;

    /// Returns the audit entries about secrets of all tenants, newest first.
    async fn list_secret_audit_entries(
        &self,
        filter: SecretAuditFilter,
        limit: PageLimit,
    ) -> Result<Vec<AuditEntry>, StoreError>;
}

static INSERT_TOKEN: Statement = Statement::insert(&TOKEN, "ON CONFLICT DO NOTHING");

static ANY_TOKEN: Statement = Statement::new("SELECT token_id FROM api_token LIMIT 1");

static TOKEN_BY_PREFIX: Statement = Statement::select(&TOKEN, "WHERE prefix = $1");

static LIST_TOKENS: Statement = Statement::select(
    &TOKEN,
    "WHERE tenant_id = $1 AND token_id > $2 ORDER BY token_id LIMIT $3::bigint",
);

/// Revokes a token. The row is updated even if it is already revoked, so that one statement can
/// return it.
static REVOKE_TOKEN: Statement = Statement::build(|| {
    let columns = TOKEN.column_list();
    format!(
        "UPDATE api_token SET revoked_at = coalesce(revoked_at, $3::timestamptz),
             seal = CASE WHEN revoked_at IS NULL THEN $4::bytea ELSE seal END
         WHERE tenant_id = $1 AND token_id = $2 RETURNING {columns}"
    )
});

static LIST_ALL_TOKENS: Statement =
    Statement::select(&TOKEN, "WHERE token_id > $1 ORDER BY token_id LIMIT $2::bigint");

static SEAL_TOKEN: Statement = Statement::new(
    "UPDATE api_token SET seal = $3::bytea WHERE token_id = $1
         AND coalesce(revoked_at = $2::timestamptz, revoked_at IS NULL AND $2::timestamptz IS NULL)",
);

static RECORD_TOKEN_USE: Statement = Statement::new(
    "UPDATE api_token SET last_used_at = $2::timestamptz
     WHERE token_id = $1 AND (last_used_at IS NULL OR last_used_at < $2::timestamptz)",
);

static INSERT_SHARED_SECRET: Statement = Statement::new(
    "INSERT INTO meta (key, value) VALUES ('common_secret', $1) ON CONFLICT DO NOTHING",
);

static SELECT_SHARED_SECRET: Statement =
    Statement::new("SELECT value FROM meta WHERE key = 'common_secret'");

static INSERT_AUDIT_ENTRY: Statement = Statement::insert(&AUDIT, "");

static AUDIT_ENTRY_EXISTS: Statement =
    Statement::new("SELECT audit_id FROM audit WHERE audit_id = $1");

static LIST_AUDIT_ENTRIES: Statement = Statement::select(
    &AUDIT,
    "WHERE tenant_id = $1 AND seq < $2::bigint ORDER BY seq DESC LIMIT $3::bigint",
);

/// Lists audit entries about secrets: for any or one credential, and for any or one execution. Each
/// combination has its own index.
static SECRET_AUDIT_QUERIES: [[Statement; 2]; 2] = [
    [
        Statement::build(|| secret_audit_sql("$1::text IS NULL", "$2::bigint IS NULL")),
        Statement::build(|| secret_audit_sql("$1::text IS NULL", "execution_id = $2")),
    ],
    [
        Statement::build(|| secret_audit_sql("credential = $1", "$2::bigint IS NULL")),
        Statement::build(|| secret_audit_sql("credential = $1", "execution_id = $2")),
    ],
];

fn secret_audit_sql(credential: &str, execution: &str) -> String {
    let rest = format!(
        "WHERE operation IS NOT NULL AND {credential} AND {execution}
         AND occurred_at >= $3::timestamptz
         AND (occurred_at, audit_id) < ($4::timestamptz, $5::bigint)
         ORDER BY occurred_at DESC, audit_id DESC LIMIT $6::bigint"
    );
    select_sql(&AUDIT, &rest)
}

pub(crate) fn secret_audit_query(filter: &SecretAuditFilter) -> &'static Statement {
    let by_credential = &SECRET_AUDIT_QUERIES[usize::from(filter.credential.is_some())];
    &by_credential[usize::from(filter.execution_id.is_some())]
}

async fn put_first_token(session: &mut dyn Session, token: &ApiToken) -> Result<bool, StoreError> {
    session.lock_by_name("the first token").await?;
    let existing = session.query_first::<(TokenId,)>(&ANY_TOKEN, vec![]).await?;
    Ok(existing.is_none() && session.execute(&INSERT_TOKEN, token.to_row()).await? > 0)
}

/// Each tenant's audit chain has one writer at a time. Chains are locked in the order of their
/// tenants, to avoid deadlocks.
async fn append_audit_entries(
    session: &mut dyn Session,
    entries: &[NewAuditEntry],
) -> Result<(), StoreError> {
    let tenants: BTreeSet<&TenantId> = entries.iter().map(|entry| &entry.tenant_id).collect();
    let mut chains = AuditChains::default();
    for tenant_id in tenants {
        session.lock_by_name(&format!("audit {tenant_id}")).await?;
        let newest = cells![tenant_id, i64::MAX, 1_i64];
        let last = session.query_first(&LIST_AUDIT_ENTRIES, newest).await?;
        chains.set_last_entry(tenant_id.clone(), last.as_ref());
    }
    for entry in entries {
        let id = cells![entry.audit_id];
        let existing: Option<(i64,)> = session.query_first(&AUDIT_ENTRY_EXISTS, id).await?;
        if existing.is_none() {
            let row = chains.link_entry(entry.clone()).to_row();
            session.execute(&INSERT_AUDIT_ENTRY, row).await?;
        }
    }
    Ok(())
}

#[async_trait]
impl<D: Database> IdentityStore for D {
    async fn put_token(&self, token: ApiToken) -> Result<bool, StoreError> {
        Ok(self.execute(Durability::Synced, &INSERT_TOKEN, token.to_row()).await? > 0)
    }

    async fn put_first_token(&self, token: ApiToken) -> Result<bool, StoreError> {
        self.transaction(Durability::Synced, PlanMode::Generic, token, |session, token| {
            Box::pin(put_first_token(session, token))
        })
        .await
    }

    async fn find_token(&self, prefix: &Text) -> Result<Option<ApiToken>, StoreError> {
        self.query_first(&TOKEN_BY_PREFIX, cells![prefix]).await
    }

    async fn list_tokens(
        &self,
        tenant_id: &TenantId,
        after: Option<TokenId>,
        limit: PageLimit,
    ) -> Result<Vec<ApiToken>, StoreError> {
        let after = after.map_or(0, TokenId::get);
        self.query(&LIST_TOKENS, cells![tenant_id, after, limit]).await
    }

    async fn list_all_tokens(
        &self,
        after: Option<TokenId>,
        limit: PageLimit,
    ) -> Result<Vec<ApiToken>, StoreError> {
        let after = after.map_or(0, TokenId::get);
        self.query(&LIST_ALL_TOKENS, cells![after, limit]).await
    }

    async fn seal_token(
        &self,
        token_id: TokenId,
        revoked_at: Option<Timestamp>,
        seal: Digest,
    ) -> Result<bool, StoreError> {
        let params = cells![token_id, revoked_at, seal];
        Ok(self.execute(Durability::Synced, &SEAL_TOKEN, params).await? > 0)
    }

    async fn revoke_token(
        &self,
        tenant_id: &TenantId,
        token_id: TokenId,
        now: Timestamp,
        seal: Option<Digest>,
    ) -> Result<Option<ApiToken>, StoreError> {
        let params = cells![tenant_id, token_id, now, seal];
        let revoked = self.execute_returning(Durability::Synced, &REVOKE_TOKEN, params).await?;
        Ok(revoked.into_iter().next())
    }

    async fn record_token_use(&self, token_id: TokenId, now: Timestamp) -> Result<(), StoreError> {
        let params = cells![token_id, now];
        self.execute(Durability::Unsynced, &RECORD_TOKEN_USE, params).await.map(drop)
    }

    async fn get_or_init_shared_secret(&self, fresh: Text) -> Result<Text, StoreError> {
        // A concurrent second insert waits for the first, and then reads its secret.
        self.execute(Durability::Synced, &INSERT_SHARED_SECRET, cells![fresh]).await?;
        let found: Option<(Text,)> = self.query_first(&SELECT_SHARED_SECRET, vec![]).await?;
        Ok(found.map_or(fresh, |(secret,)| secret))
    }

    async fn append_audit_log(&self, entries: Vec<NewAuditEntry>) -> Result<(), StoreError> {
        self.transaction(Durability::Synced, PlanMode::Generic, entries, |session, entries| {
            Box::pin(append_audit_entries(session, entries))
        })
        .await
    }

    async fn list_audit_entries(
        &self,
        tenant_id: &TenantId,
        before: Option<i64>,
        limit: PageLimit,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        let params = cells![tenant_id, before.unwrap_or(i64::MAX), limit];
        self.query(&LIST_AUDIT_ENTRIES, params).await
    }

    async fn list_secret_audit_entries(
        &self,
        filter: SecretAuditFilter,
        limit: PageLimit,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        let statement = secret_audit_query(&filter);
        let (until, before) = filter.upper_bound();
        let start = filter.start_time();
        let params = cells![filter.credential, filter.execution_id, start, until, before, limit];
        self.query(statement, params).await
    }
}

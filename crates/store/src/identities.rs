//! API tokens and the audit log.

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{TenantId, Text, Timestamp, TokenId};

use crate::error::StoreError;
use crate::model::{ApiToken, AuditEntry, NewAuditEntry, SecretAuditFilter};

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

    /// Revokes a token of a tenant and returns it, or `None` if it does not exist. An earlier
    /// revocation keeps its time.
    async fn revoke_token(
        &self,
        tenant_id: &TenantId,
        token_id: TokenId,
        now: Timestamp,
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

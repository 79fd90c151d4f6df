//! Who may come in, and what was done.

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{TenantId, Text, Timestamp, TokenId};

use crate::error::StoreError;
use crate::model::{ApiToken, AuditEntry, NewAudit, SecretActFilter};

/// The part of a [`crate::Store`] that is about identities and the trail that they leave.
///
/// A token is known by a digest alone. Nothing of the trail is ever changed or forgotten.
#[async_trait]
pub trait Vault {
    /// Keeps a token; `false` if its id or its prefix is taken.
    async fn put_token(&self, token: ApiToken) -> Result<bool, StoreError>;

    /// Keeps a token if there is none at all; `false` if there is. Of many that try at once, one does.
    async fn put_first_token(&self, token: ApiToken) -> Result<bool, StoreError>;

    /// The token with a prefix, revoked and expired ones included.
    async fn token(&self, prefix: &Text) -> Result<Option<ApiToken>, StoreError>;

    /// The tokens of a tenant in the order of their ids, behind the last one of the page before.
    async fn tokens(
        &self,
        tenant_id: &TenantId,
        after: Option<TokenId>,
        limit: PageLimit,
    ) -> Result<Vec<ApiToken>, StoreError>;

    /// Revokes a token of a tenant; `None` if there is none, else the token as it is now. One that was
    /// revoked before stays so since then.
    async fn revoke_token(
        &self,
        tenant_id: &TenantId,
        token_id: TokenId,
        now: Timestamp,
    ) -> Result<Option<ApiToken>, StoreError>;

    /// Notes that a token was used. It never goes back, and is not durable by itself.
    async fn touch_token(&self, token_id: TokenId, now: Timestamp) -> Result<(), StoreError>;

    /// The secret that all servers on this store share: the one that is kept, or else this one, which
    /// is kept from now on. Of many that bring one at once, all get the same.
    async fn common_secret(&self, fresh: Text) -> Result<Text, StoreError>;

    /// Adds to the trails of tenants, each entry linked to the one before. The same entries again are
    /// fine.
    async fn audit(&self, acts: Vec<NewAudit>) -> Result<(), StoreError>;

    /// The trail of a tenant, newest first: what lies before a number, or its end.
    async fn audits(
        &self,
        tenant_id: &TenantId,
        before: Option<i64>,
        limit: PageLimit,
    ) -> Result<Vec<AuditEntry>, StoreError>;

    /// What was done to secrets, in the trails of all tenants, newest first.
    async fn secret_acts(
        &self,
        filter: SecretActFilter,
        limit: PageLimit,
    ) -> Result<Vec<AuditEntry>, StoreError>;
}

//! Tokens, without their secrets.

use noetl_types::{Digest, OrganizationId, PoolName, Scopes, TenantId, Text, Timestamp, TokenId};

/// What is known of a token. The secret is not: its digest tells the right one from a wrong one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiToken {
    /// The id.
    pub token_id: TokenId,
    /// Whose data it opens.
    pub tenant_id: TenantId,
    /// The organization inside of the tenant.
    pub organization_id: OrganizationId,
    /// What it is found by.
    pub prefix: Text,
    /// The digest of its secret.
    pub sha256: Digest,
    /// What people call it.
    pub name: Text,
    /// What it may do.
    pub scopes: Scopes,
    /// The pools that it may work for; `None` means all of its tenant.
    pub pools: Option<Vec<PoolName>>,
    /// The paths that it may touch; `None` means all of its tenant.
    pub path_globs: Option<Vec<Text>>,
    /// When it was made.
    pub created_at: Timestamp,
    /// Who made it.
    pub created_by: Text,
    /// From when on it opens nothing.
    pub expires_at: Option<Timestamp>,
    /// When it was used last, roughly.
    pub last_used_at: Option<Timestamp>,
    /// Since when it opens nothing because somebody said so.
    pub revoked_at: Option<Timestamp>,
}

//! API tokens, without their secrets.

use noetl_types::{Digest, OrganizationId, PoolName, ScopeSet, TenantId, Text, Timestamp, TokenId};

/// A stored API token. The secret is not stored, only its digest for comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiToken {
    pub token_id: TokenId,
    /// Tenant that it grants access to.
    pub tenant_id: TenantId,
    /// Organization within the tenant.
    pub organization_id: OrganizationId,
    /// Lookup key.
    pub prefix: Text,
    /// Digest of the secret.
    pub sha256: Digest,
    pub name: Text,
    pub scopes: ScopeSet,
    /// Pools that it may work for. `None` means all pools of the tenant.
    pub pools: Option<Vec<PoolName>>,
    /// Paths that it may access. `None` means all paths of the tenant.
    pub path_globs: Option<Vec<Text>>,
    pub created_at: Timestamp,
    pub created_by: Text,
    pub expires_at: Option<Timestamp>,
    /// Approximate time of last use.
    pub last_used_at: Option<Timestamp>,
    /// Time of revocation.
    pub revoked_at: Option<Timestamp>,
    /// Proof that a server with the installation's key wrote the token.
    pub seal: Option<Digest>,
}

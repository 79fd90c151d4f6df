//! Stored credentials: plain metadata and sealed secrets.

use noetl_types::{CredentialId, Json, TenantId, Text, Timestamp};

#[derive(Debug, Clone, PartialEq)]
pub struct Credential {
    pub credential_id: CredentialId,
    pub tenant_id: TenantId,
    /// Unique within the tenant.
    pub name: Text,
    /// Type of the credential.
    pub kind: Text,
    /// Number of writes of the secret, from 1.
    pub version: i64,
    /// The sealed secret. The store cannot unseal it.
    pub sealed: Json,
    /// Id of the sealing key.
    pub kid: Text,
    /// User-defined metadata.
    pub meta: Option<Json>,
    /// Search tags: a list of strings.
    pub tags: Json,
    pub description: Option<Text>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CredentialPut {
    pub credential: Credential,
    /// Version that it replaces. `None` if no credential of that name may exist.
    pub replaces: Option<i64>,
}

/// Lookup key of a credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CredentialKey {
    Id(CredentialId),
    Name(Text),
}

/// Filter of credentials.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CredentialFilter {
    /// `None` selects all tenants.
    pub tenant_id: Option<TenantId>,
    pub kind: Option<Text>,
    /// Substring of the name.
    pub text: Option<Text>,
    /// Only credentials that are sealed under another key than this.
    pub excluded_kid: Option<Text>,
    /// Last id of the previous page.
    pub after: Option<CredentialId>,
}

impl CredentialFilter {
    /// Selects all credentials of a tenant.
    pub const fn for_tenant(tenant_id: TenantId) -> Self {
        Self { tenant_id: Some(tenant_id), kind: None, text: None, excluded_kid: None, after: None }
    }
}

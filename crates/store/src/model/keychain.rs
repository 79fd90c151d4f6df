//! The keychain cache: sealed secrets that workers resolved, stored for a limited time.

use std::collections::BTreeMap;

use noetl_types::{CatalogId, ExecutionId, Json, KeychainId, TenantId, Text, Timestamp};

/// Scope of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeychainScope {
    /// One execution.
    Local,
    /// The executions of a tree, or of a definition.
    Shared,
    /// All executions of a definition.
    Global,
}

/// Parse error of a keychain scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a keychain scope; use `local`, `shared`, `global` or `catalog`")]
pub struct UnknownKeychainScope(pub String);

impl KeychainScope {
    /// Canonical name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Shared => "shared",
            Self::Global => "global",
        }
    }

    /// Parses the canonical name. Earlier releases wrote `catalog` for `shared`.
    pub fn parse(text: &str) -> Result<Self, UnknownKeychainScope> {
        match text {
            "local" => Ok(Self::Local),
            "shared" | "catalog" => Ok(Self::Shared),
            "global" => Ok(Self::Global),
            other => Err(UnknownKeychainScope(other.to_owned())),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct KeychainEntry {
    pub keychain_id: KeychainId,
    pub tenant_id: TenantId,
    /// Lookup key, unique within the tenant.
    pub cache_key: Text,
    /// Name in the playbook.
    pub name: Text,
    pub catalog_id: CatalogId,
    pub scope: KeychainScope,
    /// The execution that it belongs to, unless it is shared.
    pub execution_id: Option<ExecutionId>,
    /// Number of writes, from 1.
    pub version: i64,
    /// The sealed secret. The store cannot unseal it.
    pub sealed: Json,
    /// Id of the sealing key.
    pub kid: Text,
    /// True if workers resolve it again after it expires.
    pub auto_renew: bool,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub expires_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq)]
pub struct KeychainPut {
    pub entry: KeychainEntry,
    /// Version that it replaces. `None` if no entry of that key may exist.
    pub replaces: Option<i64>,
}

/// Filter of entries.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeychainFilter {
    /// `None` selects all tenants, for key rotation.
    pub tenant_id: Option<TenantId>,
    /// Filter by definition.
    pub catalog_id: Option<CatalogId>,
    /// Only entries that are sealed under another key than this.
    pub excluded_kid: Option<Text>,
    /// Last id of the previous page.
    pub after: Option<KeychainId>,
}

/// Number of secrets per key, across all tenants.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeyCounts {
    /// Credentials by key id.
    pub credentials: BTreeMap<Text, u64>,
    /// Keychain entries by key id.
    pub keychain: BTreeMap<Text, u64>,
}

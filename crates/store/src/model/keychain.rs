//! The cache of the keychain: what workers resolved, kept for a while, sealed inside.

use std::collections::BTreeMap;

use noetl_types::{CatalogId, ExecutionId, Json, KeychainId, TenantId, Text, Timestamp};

/// Who shares an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeychainScope {
    /// One run.
    Local,
    /// The runs of a tree, or of a definition.
    Shared,
    /// All runs of a definition.
    Global,
}

/// A text that names no scope of an entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a scope: `local`, `shared`, `global` and `catalog` are")]
pub struct UnknownKeychainScope(pub String);

impl KeychainScope {
    /// The one spelling.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Shared => "shared",
            Self::Global => "global",
        }
    }

    /// Reads it; earlier releases say `catalog` for `shared`.
    pub fn parse(text: &str) -> Result<Self, UnknownKeychainScope> {
        match text {
            "local" => Ok(Self::Local),
            "shared" | "catalog" => Ok(Self::Shared),
            "global" => Ok(Self::Global),
            other => Err(UnknownKeychainScope(other.to_owned())),
        }
    }
}

/// An entry of the cache.
#[derive(Debug, Clone, PartialEq)]
pub struct KeychainEntry {
    /// Its id.
    pub keychain_id: KeychainId,
    /// Whose it is.
    pub tenant_id: TenantId,
    /// What it is found by, one of a kind in its tenant.
    pub cache_key: Text,
    /// Its name in the playbook.
    pub name: Text,
    /// The definition that names it.
    pub catalog_id: CatalogId,
    /// Who shares it.
    pub scope: KeychainScope,
    /// The run that it is for, where it is not for all.
    pub execution_id: Option<ExecutionId>,
    /// How often it was written, from 1.
    pub version: i64,
    /// What was resolved, sealed; nothing here can open it.
    pub sealed: Json,
    /// The key that it is sealed under.
    pub kid: Text,
    /// Whether workers are to resolve it anew when it is over.
    pub auto_renew: bool,
    /// When it was first kept.
    pub created_at: Timestamp,
    /// When it was last written.
    pub updated_at: Timestamp,
    /// When it is over.
    pub expires_at: Timestamp,
}

/// An entry to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct KeychainPut {
    /// What it is to be.
    pub entry: KeychainEntry,
    /// The version that it replaces; `None` where there must be none of its key.
    pub replaces: Option<i64>,
}

/// Which entries are meant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeychainFilter {
    /// Whose they are; anybody's where absent, which is for whoever rotates keys.
    pub tenant_id: Option<TenantId>,
    /// Only those of this definition.
    pub catalog_id: Option<CatalogId>,
    /// Only those that are sealed under another key than this.
    pub not_under: Option<Text>,
    /// Only those behind this one.
    pub after: Option<KeychainId>,
}

impl KeychainFilter {
    pub(crate) fn takes(&self, entry: &KeychainEntry) -> bool {
        let tenant_id = self.tenant_id.as_ref();
        tenant_id.is_none_or(|tenant_id| *tenant_id == entry.tenant_id)
            && self.catalog_id.is_none_or(|id| id == entry.catalog_id)
            && self.not_under.as_ref().is_none_or(|kid| *kid != entry.kid)
            && self.after.is_none_or(|after| entry.keychain_id > after)
    }
}

/// How many secrets of all tenants each key wraps.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeyCounts {
    /// Credentials, by the key.
    pub credentials: BTreeMap<Text, u64>,
    /// Entries of the cache of the keychain, by the key.
    pub keychain: BTreeMap<Text, u64>,
}

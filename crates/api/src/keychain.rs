//! The cache of the keychain: what workers resolved for a playbook, kept for a while.

use std::fmt;

use noetl_types::redact::REDACTED;
use noetl_types::{CatalogId, ExecutionId, Json, Text, Timestamp, WorkerId};
use serde::{Deserialize, Serialize};

/// What is to be kept; what was there under the same key is replaced.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PutKeychain {
    /// What was resolved.
    pub data: Json,
    /// Who shares it: `local`, `shared` or `global`, which it is where absent. `catalog` is `shared`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope_type: Option<Text>,
    /// The run that it is for, where it is `local` or `shared`, and that a worker works on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<ExecutionId>,
    /// Who works on it, for a worker; any that holds a command of the run where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<WorkerId>,
    /// When it is over; in 600 seconds where neither this nor `expires_in` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Text>,
    /// The same in seconds from now. Nothing is kept for more than 30 days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<u64>,
    /// Whether workers are to resolve it anew when it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_renew: Option<bool>,
    /// How they would; kept as secret as the data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renew_config: Option<Json>,
}

/// Something is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KeychainKept {
    /// `success`.
    pub status: Text,
    /// The key that it is kept under.
    pub cache_key: Text,
    /// When it is over.
    pub expires_at: Timestamp,
}

/// Whether there is an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum KeychainStatus {
    /// There is.
    Found,
    /// There is none.
    NotFound,
    /// There is one whose time is over.
    Expired,
}

/// An entry, with its data for those alone who may have it.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KeychainView {
    /// Whether there is one.
    pub status: KeychainStatus,
    /// The key that it is kept under.
    pub cache_key: Text,
    /// What was resolved, while it is not over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Json>,
    /// How workers would resolve it anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renew_config: Option<Json>,
    /// What else is known of it.
    #[serde(flatten, default, skip_serializing_if = "Option::is_none")]
    pub about: Option<KeychainAbout>,
}

/// What is known of an entry without opening it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KeychainAbout {
    /// Its name in the playbook.
    pub keychain_name: Text,
    /// The definition that names it.
    pub catalog_id: CatalogId,
    /// Who shares it.
    pub scope_type: Text,
    /// The run that it is for, where it is not for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<ExecutionId>,
    /// Whether workers are to resolve it anew when it is over.
    pub auto_renew: bool,
    /// When it was first kept.
    pub created_at: Timestamp,
    /// When it was last replaced.
    pub updated_at: Timestamp,
    /// When it is over.
    pub expires_at: Timestamp,
}

/// An entry of a list, without its data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KeychainItem {
    /// The key that it is kept under.
    pub cache_key: Text,
    /// Whether its time is over.
    pub is_expired: bool,
    /// What is known of it.
    #[serde(flatten)]
    pub about: KeychainAbout,
}

/// A page of the entries of a definition, without their data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KeychainList {
    /// The definition.
    pub catalog_id: CatalogId,
    /// The entries.
    pub entries: Vec<KeychainItem>,
    /// How many they are.
    pub count: u32,
    /// Where the next page begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<Text>,
}

/// An entry is gone, or was not there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KeychainDeleted {
    /// `deleted` or `not_found`.
    pub status: Text,
    /// The key that it was kept under.
    pub cache_key: Text,
}

impl fmt::Debug for PutKeychain {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("PutKeychain")
            .field("scope_type", &self.scope_type)
            .field("data", &REDACTED)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for KeychainView {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("KeychainView")
            .field("status", &self.status)
            .field("cache_key", &self.cache_key)
            .field("data", &REDACTED)
            .finish_non_exhaustive()
    }
}

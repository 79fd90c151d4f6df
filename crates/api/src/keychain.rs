//! The keychain cache: values that workers resolved for a playbook, kept for a limited time.

use noetl_types::{CatalogId, ExecutionId, Json, Text, Timestamp, WorkerId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Stores a value in the keychain cache. A value with the same key is replaced.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KeychainPutRequest {
    /// Resolved value.
    pub data: Json,
    /// Scope of the entry: `local`, `shared` or `global`; default `global`. `catalog` means
    /// `shared`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope_type: Option<Text>,
    /// Execution of a `local` or `shared` entry. Also the execution that the calling worker works
    /// for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<ExecutionId>,
    /// Worker that stores the value. If absent, any worker that holds a command of the execution is
    /// accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<WorkerId>,
    /// Expiry time. If neither this nor `expires_in` is given, the entry expires after 600 seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Text>,
    /// Seconds until expiry. No entry is kept for more than 30 days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<u64>,
    /// True if workers resolve the value again after it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_renew: Option<bool>,
    /// Configuration for resolving the value again. As secret as the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renew_config: Option<Json>,
}

/// A stored entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeychainPutResponse {
    /// `success`.
    pub status: Text,
    /// Key of the entry.
    pub cache_key: Text,
    /// Expiry time.
    pub expires_at: Timestamp,
}

/// State of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeychainStatus {
    /// The entry exists.
    Found,
    /// There is no entry.
    NotFound,
    /// The entry has expired.
    Expired,
}

/// An entry. The value is only returned to authorized callers.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KeychainView {
    /// State of the entry.
    pub status: KeychainStatus,
    /// Key of the entry.
    pub cache_key: Text,
    /// Resolved value, until it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Json>,
    /// Configuration for resolving the value again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renew_config: Option<Json>,
    /// Metadata of the entry.
    #[serde(flatten, default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<KeychainMetadata>,
}

/// Metadata of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeychainMetadata {
    /// Name of the keychain entry in the playbook.
    pub keychain_name: Text,
    /// Definition that uses it.
    pub catalog_id: CatalogId,
    /// Scope of the entry.
    pub scope_type: Text,
    /// Execution of the entry, if it is not global.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<ExecutionId>,
    /// True if workers resolve the value again after it expires.
    pub auto_renew: bool,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of the last update.
    pub updated_at: Timestamp,
    /// Expiry time.
    pub expires_at: Timestamp,
}

/// An entry in a list, without its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeychainListEntry {
    /// Key of the entry.
    pub cache_key: Text,
    /// True if the entry has expired.
    pub is_expired: bool,
    /// Metadata of the entry.
    #[serde(flatten)]
    pub metadata: KeychainMetadata,
}

/// A page of the entries of a definition, without their values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeychainList {
    /// Id of the definition.
    pub catalog_id: CatalogId,
    /// The entries.
    pub entries: Vec<KeychainListEntry>,
    /// Number of entries.
    pub count: u32,
    /// Cursor of the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<Text>,
}

/// Result of deleting an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeychainDeleteResponse {
    /// `deleted` or `not_found`.
    pub status: Text,
    /// Key of the entry.
    pub cache_key: Text,
}

debug_without_secret!(KeychainPutRequest { scope_type }, KeychainView { status, cache_key });

//! Credentials: named in playbooks, readable only by workers.

use std::collections::BTreeMap;

use noetl_types::{CredentialId, ExecutionId, Json, Text, Timestamp, WorkerId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Stores a credential. A credential with the same name is replaced.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CredentialPutRequest {
    /// Name that playbooks use.
    pub name: Text,
    /// Type of the credential: `postgres`, `bearer`, `basic`, `api_key`, `nats`, `secret`…
    #[serde(rename = "type")]
    pub kind: Text,
    /// The secret: an object with the fields of its type.
    pub data: Json,
    /// Metadata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
    /// Tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Text>,
    /// Description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<Text>,
}

/// A credential. The secret is only returned to authorized callers.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CredentialView {
    /// Id of the credential.
    pub id: CredentialId,
    /// Name of the credential.
    pub name: Text,
    /// Type of the credential.
    #[serde(rename = "type")]
    pub kind: Text,
    /// Metadata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
    /// Tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Text>,
    /// Description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<Text>,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of the last update.
    pub updated_at: Timestamp,
    /// The secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Json>,
}

/// A credential that only one worker can decrypt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SealedCredential {
    /// `x25519-hkdf-sha256-chacha20-poly1305`.
    pub alg: Text,
    /// Version of the format: 1.
    pub v: u32,
    /// Public part of the ephemeral key, in base64.
    pub eph_pub: Text,
    /// Nonce, ciphertext and tag, in base64. The plaintext is the credential with its secret, as
    /// JSON.
    pub ciphertext: Text,
}

/// Maximum number of credentials in one list.
pub const MAX_LISTED_CREDENTIALS: usize = 10_000;

/// A list of credentials without their secrets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CredentialList {
    /// The credentials.
    pub items: Vec<CredentialView>,
    /// Filter of the request, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<Json>,
}

/// A deleted credential.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CredentialDeleteResponse {
    /// Human-readable message.
    pub message: Text,
    /// Id of the credential.
    pub id: CredentialId,
}

/// Limits of one key rotation call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RotationRequest {
    /// Records per batch.
    pub batch_size: u32,
    /// Maximum number of batches.
    pub max_batches: u32,
}

impl Default for RotationRequest {
    fn default() -> Self {
        Self { batch_size: 100, max_batches: 1_000 }
    }
}

/// Result of a key rotation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RotationSummary {
    /// Number of processed records.
    pub processed: u64,
    /// Number of records that now use the current key.
    pub rewrapped: u64,
    /// Number of records that were modified concurrently.
    pub skipped: u64,
    /// Number of records that could not be decrypted.
    pub failed: u64,
}

impl RotationSummary {
    /// Returns the sum of both results.
    #[must_use]
    pub const fn merge(self, other: Self) -> Self {
        Self {
            processed: self.processed.saturating_add(other.processed),
            rewrapped: self.rewrapped.saturating_add(other.rewrapped),
            skipped: self.skipped.saturating_add(other.skipped),
            failed: self.failed.saturating_add(other.failed),
        }
    }
}

/// Result of a key rotation of one table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TableRotation {
    /// Result of the table.
    #[serde(flatten)]
    pub summary: RotationSummary,
    /// Id of the last processed record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_id: Option<i64>,
}

/// Result of a key rotation, by table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WalletRotation {
    /// Credentials.
    pub credential: TableRotation,
    /// Keychain cache.
    pub keychain: TableRotation,
}

/// Keys in use. A key without records may be removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeyStatus {
    /// Key for new records.
    pub current: Text,
    /// Number of credentials per key.
    pub credential: BTreeMap<Text, u64>,
    /// Number of keychain cache entries per key.
    pub keychain: BTreeMap<Text, u64>,
}

/// Requests a credential for a command that a worker holds.
#[derive(Debug, Clone, PartialEq)]
pub struct CredentialRequest {
    /// Name that the playbook uses.
    pub name: Text,
    /// Execution that needs the credential.
    pub execution_id: ExecutionId,
    /// Worker that holds the command.
    pub worker_id: WorkerId,
}

debug_without_secret!(CredentialPutRequest { name, kind }, CredentialView { name, kind });

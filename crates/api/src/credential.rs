//! Credentials: what playbooks name, and only workers read.

use std::collections::BTreeMap;
use std::fmt;

use noetl_types::redact::REDACTED;
use noetl_types::{CredentialId, ExecutionId, Json, Text, Timestamp, WorkerId};
use serde::{Deserialize, Serialize};

/// A credential to be kept; one of the same name is replaced.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PutCredential {
    /// Its name, which playbooks use.
    pub name: Text,
    /// What it is for: `postgres`, `bearer`, `basic`, `api_key`, `nats`, `secret`…
    #[serde(rename = "type")]
    pub kind: Text,
    /// The secret itself: an object with the fields of its type.
    pub data: Json,
    /// What its owner notes about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
    /// Words to find it by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Text>,
    /// What it is for, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<Text>,
}

/// A credential, with its secret for those alone who may have it.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CredentialView {
    /// Its id.
    pub id: CredentialId,
    /// Its name.
    pub name: Text,
    /// What it is for.
    #[serde(rename = "type")]
    pub kind: Text,
    /// What its owner notes about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
    /// Words to find it by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Text>,
    /// What it is for, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<Text>,
    /// When it was first kept.
    pub created_at: Timestamp,
    /// When it was last replaced.
    pub updated_at: Timestamp,
    /// The secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Json>,
}

/// A credential that only one worker can open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SealedCredential {
    /// `x25519-hkdf-sha256-chacha20-poly1305`.
    pub alg: Text,
    /// The form, 1.
    pub v: u32,
    /// The public half of the key that was made for it, in base64.
    pub eph_pub: Text,
    /// Nonce, text and tag, in base64. The text is the credential with its secret, as JSON.
    pub ciphertext: Text,
}

/// Credentials in one list, at most.
pub const MAX_LISTED: usize = 10_000;

/// Credentials without their secrets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CredentialList {
    /// The credentials.
    pub items: Vec<CredentialView>,
    /// What was asked for, where that was anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<Json>,
}

/// A credential is gone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeletedCredential {
    /// For people.
    pub message: Text,
    /// Which one.
    pub id: CredentialId,
}

/// How much of a rotation to do at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct RotationRequest {
    /// Records that are looked at together.
    pub batch_size: u32,
    /// How often.
    pub max_batches: u32,
}

impl Default for RotationRequest {
    fn default() -> Self {
        Self {
            batch_size: 100,
            max_batches: 1_000,
        }
    }
}

/// What a rotation did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rotation {
    /// Records that were looked at.
    pub processed: u64,
    /// Those that are under the current key now.
    pub rewrapped: u64,
    /// Those that somebody wrote meanwhile.
    pub skipped: u64,
    /// Those that could not be opened.
    pub failed: u64,
}

impl Rotation {
    /// Both together.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            processed: self.processed.saturating_add(other.processed),
            rewrapped: self.rewrapped.saturating_add(other.rewrapped),
            skipped: self.skipped.saturating_add(other.skipped),
            failed: self.failed.saturating_add(other.failed),
        }
    }
}

/// What a rotation did to the records of one table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TableRotation {
    /// What was done.
    #[serde(flatten)]
    pub done: Rotation,
    /// The last record that was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_id: Option<i64>,
}

/// What a rotation did, table by table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WalletRotation {
    /// The credentials.
    pub credential: TableRotation,
    /// What workers resolved, and is kept for a while.
    pub keychain: TableRotation,
}

/// Which keys secrets are under. A key that none is under may go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KeyStatus {
    /// The key that seals.
    pub current: Text,
    /// How many credentials are under each key.
    pub credential: BTreeMap<Text, u64>,
    /// The same of what workers resolved.
    pub keychain: BTreeMap<Text, u64>,
}

/// A worker's wish to read a credential for a command that it has.
#[derive(Debug, Clone, PartialEq)]
pub struct CredentialWish {
    /// The name that the playbook uses.
    pub name: Text,
    /// The run that needs it.
    pub execution_id: ExecutionId,
    /// Who works on it.
    pub worker_id: WorkerId,
}

macro_rules! debug_without_secret {
    ($($name:ident),*) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter
                    .debug_struct(stringify!($name))
                    .field("name", &self.name)
                    .field("kind", &self.kind)
                    .field("data", &REDACTED)
                    .finish_non_exhaustive()
            }
        }
    )*};
}

debug_without_secret!(PutCredential, CredentialView);

//! Snapshots of the fold: a state and its position, so that a long log need not be read again.

use noetl_types::replay::ReplayedState;
use noetl_types::{Digest, Text, sha256};
use serde::{Deserialize, Serialize};

use super::REPLAY_FOLD_VERSION;
use super::state::ReplayState;

/// Reason why a snapshot cannot be used. The log can still be folded.
#[derive(Debug, thiserror::Error)]
pub enum ReplaySnapshotError {
    /// The bytes do not match the checksum.
    #[error("the snapshot does not match its checksum")]
    Damaged,
    /// The snapshot was made by another version of the fold.
    #[error(
        "the snapshot has fold version {found}, but this program uses version {REPLAY_FOLD_VERSION}"
    )]
    OtherVersion {
        /// Version of the snapshot.
        found: u32,
    },
    /// The bytes are not a snapshot.
    #[error("the snapshot cannot be read")]
    Unreadable(#[source] serde_json::Error),
}

#[derive(Serialize, Deserialize)]
struct StoredSnapshot<S> {
    fold_version: u32,
    #[serde(default)]
    odd: Vec<Text>,
    #[serde(default)]
    odd_count: u64,
    state: S,
}

impl ReplayState {
    /// Serializes the state. Returns the bytes and their checksum. Equal states give equal bytes.
    pub fn to_snapshot(&self) -> Result<(Vec<u8>, Digest), ReplaySnapshotError> {
        let text = serde_json::to_vec(&StoredSnapshot {
            fold_version: REPLAY_FOLD_VERSION,
            odd: self.stored_warnings.clone(),
            odd_count: self.warning_count,
            state: &self.replayed,
        });
        let text = text.map_err(ReplaySnapshotError::Unreadable)?;
        let checksum = sha256(&text);
        Ok((text, checksum))
    }

    /// Restores the state from a snapshot if its checksum and version match.
    pub fn from_snapshot(bytes: &[u8], checksum: &Digest) -> Result<Self, ReplaySnapshotError> {
        if sha256(bytes) != *checksum {
            return Err(ReplaySnapshotError::Damaged);
        }
        let stored: StoredSnapshot<ReplayedState> =
            serde_json::from_slice(bytes).map_err(ReplaySnapshotError::Unreadable)?;
        if stored.fold_version != REPLAY_FOLD_VERSION {
            return Err(ReplaySnapshotError::OtherVersion { found: stored.fold_version });
        }
        Ok(Self {
            replayed: stored.state,
            stored_warnings: stored.odd,
            warning_count: stored.odd_count,
        })
    }
}

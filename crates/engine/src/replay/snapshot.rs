//! Snapshots of the fold: a state, and how far it goes, so that a long log need not be read again.

use noetl_types::replay::Replayed;
use noetl_types::{Digest, Text, sha256};
use serde::{Deserialize, Serialize};

use super::REPLAY_FOLD_VERSION;
use super::state::ReplayState;

/// A snapshot that cannot be used; the log can.
#[derive(Debug, thiserror::Error)]
pub enum ReplaySnapshotError {
    /// It is not what was stored.
    #[error("the snapshot does not match its checksum")]
    Damaged,
    /// Made by another version of the fold.
    #[error("the snapshot was made by fold version {found}, this is version {REPLAY_FOLD_VERSION}")]
    OtherVersion {
        /// That version.
        found: u32,
    },
    /// Not a snapshot.
    #[error("the snapshot cannot be read")]
    Unreadable(#[source] serde_json::Error),
}

#[derive(Serialize, Deserialize)]
struct Stored<S> {
    fold_version: u32,
    #[serde(default)]
    odd: Vec<Text>,
    #[serde(default)]
    odd_count: u64,
    state: S,
}

impl ReplayState {
    /// The state as bytes, with their checksum. Equal states give equal bytes.
    pub fn to_snapshot(&self) -> Result<(Vec<u8>, Digest), ReplaySnapshotError> {
        let text = serde_json::to_vec(&Stored {
            fold_version: REPLAY_FOLD_VERSION,
            odd: self.odd.clone(),
            odd_count: self.odd_count,
            state: &self.replayed,
        });
        let text = text.map_err(ReplaySnapshotError::Unreadable)?;
        let checksum = sha256(&text);
        Ok((text, checksum))
    }

    /// Reads a snapshot, if it is whole and of this fold.
    pub fn from_snapshot(bytes: &[u8], checksum: &Digest) -> Result<Self, ReplaySnapshotError> {
        if sha256(bytes) != *checksum {
            return Err(ReplaySnapshotError::Damaged);
        }
        let stored: Stored<Replayed> =
            serde_json::from_slice(bytes).map_err(ReplaySnapshotError::Unreadable)?;
        if stored.fold_version != REPLAY_FOLD_VERSION {
            return Err(ReplaySnapshotError::OtherVersion {
                found: stored.fold_version,
            });
        }
        Ok(Self {
            replayed: stored.state,
            odd: stored.odd,
            odd_count: stored.odd_count,
        })
    }
}

//! The hash chain over the log of an execution. A manual edit invalidates every later link.

use serde::{Deserialize, Serialize};

use super::event::{EventRecord, StoredEvent};
use super::order::{ExecutionVersion, Seq};
use crate::digest::{Digest, DigestLengthError, sha256_of_parts};
use crate::text::display_inner;
use crate::time::Timestamp;

/// A link of the hash chain. Its text form is hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ChainHash(Digest);

impl ChainHash {
    /// Link before the first event of an execution.
    pub const START: Self = Self(Digest::from_bytes([0; Digest::LEN]));

    /// Wraps a link that was computed before.
    pub const fn from_bytes(bytes: [u8; Digest::LEN]) -> Self {
        Self(Digest::from_bytes(bytes))
    }

    /// Returns the bytes.
    pub const fn as_bytes(&self) -> &[u8; Digest::LEN] {
        self.0.as_bytes()
    }

    /// Returns the link of the next event.
    #[must_use]
    pub fn next(&self, seq: Seq, ingest_time: Timestamp, envelope: &Digest) -> Self {
        Self(sha256_of_parts(&[
            self.as_bytes(),
            &seq.get().to_be_bytes(),
            &ingest_time.as_micros().to_be_bytes(),
            envelope.as_bytes(),
        ]))
    }

    /// Returns the link of a record that comes next.
    #[must_use]
    pub fn next_for_record(&self, record: &EventRecord) -> Self {
        self.next(record.seq, record.ingest_time, &record.event.envelope_checksum())
    }
}

impl Default for ChainHash {
    fn default() -> Self {
        Self::START
    }
}

impl TryFrom<&[u8]> for ChainHash {
    type Error = DigestLengthError;

    fn try_from(bytes: &[u8]) -> Result<Self, Self::Error> {
        Digest::try_from(bytes).map(Self)
    }
}

display_inner!(ChainHash);

/// Error for a log that differs from what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    /// An event is missing, repeated or out of order.
    #[error("event {expected} is missing: found event {found} instead")]
    Gap {
        /// Expected sequence number.
        expected: Seq,
        /// Sequence number that was found.
        found: Seq,
    },
    /// An event or its link was modified.
    #[error("event {seq} was modified after it was written")]
    Modified {
        /// Sequence number of the event.
        seq: Seq,
    },
}

impl ChainError {
    /// First event that is missing or cannot be trusted.
    pub const fn first_bad_seq(&self) -> Seq {
        match self {
            Self::Gap { expected, .. } => *expected,
            Self::Modified { seq } => *seq,
        }
    }
}

/// Verifies every link of a log, page by page.
#[derive(Debug, Clone, Copy, Default)]
pub struct ChainVerifier {
    version: ExecutionVersion,
    head: ChainHash,
}

impl ChainVerifier {
    /// Starts after an event whose link is known to be valid. [`ChainVerifier::default`] starts at
    /// the first event.
    pub const fn resume_from(version: ExecutionVersion, head: ChainHash) -> Self {
        Self { version, head }
    }

    /// Returns the link of the last accepted event.
    pub const fn head(&self) -> ChainHash {
        self.head
    }

    /// Accepts the next event if its sequence number and its link are correct.
    pub fn verify_event(&mut self, stored: &StoredEvent) -> Result<(), ChainError> {
        let (expected, seq) = (self.version.next_seq(), stored.record.seq);
        if seq != expected {
            return Err(ChainError::Gap { expected, found: seq });
        }
        let link = self.head.next_for_record(&stored.record);
        if link != stored.chain {
            return Err(ChainError::Modified { seq });
        }
        *self = Self { version: seq.into(), head: link };
        Ok(())
    }
}

/// Verifies a whole log from its first event, and returns its last link.
///
/// The events must be as stored: an upcast record has a different envelope.
pub fn verify_chain<'e>(
    events: impl IntoIterator<Item = &'e StoredEvent>,
) -> Result<ChainHash, ChainError> {
    let mut verifier = ChainVerifier::default();
    for event in events {
        verifier.verify_event(event)?;
    }
    Ok(verifier.head())
}

//! The hash chain over the log of an execution: an edit made by hand breaks every link behind it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::event::{EventRecord, StoredEvent};
use super::order::{Seq, Version};
use crate::digest::{Digest, DigestLengthError, sha256_of_parts};
use crate::time::Timestamp;

/// A link of the chain; its text is hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Chain(Digest);

impl Chain {
    /// What the first event of an execution is linked to.
    pub const START: Self = Self(Digest::from_bytes([0; Digest::LEN]));

    /// A link that was computed before.
    pub const fn from_bytes(bytes: [u8; Digest::LEN]) -> Self {
        Self(Digest::from_bytes(bytes))
    }

    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8; Digest::LEN] {
        self.0.as_bytes()
    }

    /// The link of the event that follows.
    #[must_use]
    pub fn next(&self, seq: Seq, ingest_time: Timestamp, envelope: &Digest) -> Self {
        Self(sha256_of_parts(&[
            self.as_bytes(),
            &seq.get().to_be_bytes(),
            &ingest_time.as_micros().to_be_bytes(),
            envelope.as_bytes(),
        ]))
    }

    /// The link of a record that follows.
    #[must_use]
    pub fn link(&self, record: &EventRecord) -> Self {
        self.next(
            record.seq,
            record.ingest_time,
            &record.event.envelope_checksum(),
        )
    }
}

impl Default for Chain {
    fn default() -> Self {
        Self::START
    }
}

impl TryFrom<&[u8]> for Chain {
    type Error = DigestLengthError;

    fn try_from(bytes: &[u8]) -> Result<Self, Self::Error> {
        Digest::try_from(bytes).map(Self)
    }
}

impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Chain({})", self.0)
    }
}

/// Where a log is not what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChainBroken {
    /// An event is missing, repeated or out of place.
    #[error("event {expected} is missing: event {found} stands in its place")]
    Gap {
        /// The place that should have come.
        expected: Seq,
        /// The place that came.
        found: Seq,
    },
    /// An event, or its link, was changed.
    #[error("event {seq} is not what was written")]
    Edited {
        /// Its place.
        seq: Seq,
    },
}

impl ChainBroken {
    /// The first place that cannot be trusted.
    pub const fn first_bad_seq(self) -> Seq {
        match self {
            Self::Gap { expected, .. } => expected,
            Self::Edited { seq } => seq,
        }
    }
}

/// Walks along a log, page by page, and checks every link.
#[derive(Debug, Clone, Copy, Default)]
pub struct ChainCheck {
    version: Version,
    head: Chain,
}

impl ChainCheck {
    /// From an event whose link is known to be good; [`ChainCheck::default`] is from the beginning.
    pub const fn resume(version: Version, head: Chain) -> Self {
        Self { version, head }
    }

    /// The link of the last event that was taken.
    pub const fn head(&self) -> Chain {
        self.head
    }

    /// Takes the following event if its place and its link are right.
    pub fn check(&mut self, stored: &StoredEvent) -> Result<(), ChainBroken> {
        let link = self.follow(&stored.record)?;
        if link != stored.chain {
            return Err(ChainBroken::Edited {
                seq: stored.record.seq,
            });
        }
        self.take(stored.record.seq, link);
        Ok(())
    }

    /// Takes the following event of a log that carries no links, such as an exported one; its head
    /// is then compared with the one that the export names.
    pub fn extend(&mut self, record: &EventRecord) -> Result<(), ChainBroken> {
        let link = self.follow(record)?;
        self.take(record.seq, link);
        Ok(())
    }

    fn follow(&self, record: &EventRecord) -> Result<Chain, ChainBroken> {
        let expected = self.version.next_seq();
        if record.seq != expected {
            return Err(ChainBroken::Gap {
                expected,
                found: record.seq,
            });
        }
        Ok(self.head.link(record))
    }

    fn take(&mut self, seq: Seq, link: Chain) {
        self.version = seq.into();
        self.head = link;
    }
}

/// Checks a whole log from its first event, and gives its last link.
///
/// The events must be as they are stored: an upcast record has another envelope.
pub fn verify_chain<'e>(
    events: impl IntoIterator<Item = &'e StoredEvent>,
) -> Result<Chain, ChainBroken> {
    let mut check = ChainCheck::default();
    for event in events {
        check.check(event)?;
    }
    Ok(check.head())
}

//! The order of events: `seq` within an execution, the feed position across all executions.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::text::display_inner;

/// Sequence number of an event in its execution: 1, 2, 3 and so on without gaps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seq(i64);

/// Error for a number that is not a sequence number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not a seq: the first event of an execution has 1")]
pub struct SeqError(pub i64);

impl Seq {
    /// Sequence number of the first event.
    pub const FIRST: Self = Self(1);

    /// Wraps a number.
    pub const fn new(number: i64) -> Result<Self, SeqError> {
        if number < 1 {
            return Err(SeqError(number));
        }
        Ok(Self(number))
    }

    /// Returns the number.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// Returns the next sequence number. The largest number, which no log reaches, is its own
    /// successor.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

display_inner!(Seq);

impl Serialize for Seq {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(self.get())
    }
}

impl<'de> Deserialize<'de> for Seq {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(i64::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// Version of an execution: the seq of its last event, 0 before the first. Appends state the
/// version that they expect.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct ExecutionVersion(i64);

impl ExecutionVersion {
    /// Version of an execution without events.
    pub const EMPTY: Self = Self(0);

    /// Wraps a number.
    pub const fn new(number: i64) -> Result<Self, SeqError> {
        if number < 0 {
            return Err(SeqError(number));
        }
        Ok(Self(number))
    }

    /// Returns the number.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// Returns the sequence number of the next event.
    pub const fn next_seq(self) -> Seq {
        Seq(self.0.saturating_add(1))
    }
}

impl From<Seq> for ExecutionVersion {
    fn from(seq: Seq) -> Self {
        Self(seq.0)
    }
}

impl fmt::Display for ExecutionVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Position of an event in the feed of the whole log.
///
/// The pair defines the commit order. Neither part has a meaning alone.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FeedPosition {
    // Field order defines comparison order.
    /// Transaction that wrote the event.
    pub tx: u64,
    /// Row number.
    pub position: i64,
}

#[cfg(test)]
mod tests;

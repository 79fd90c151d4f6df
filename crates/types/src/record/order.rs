//! What orders events: `seq` inside of an execution, the feed position across all of them.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Place of an event in its execution: 1, 2, 3 and so on without gaps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seq(i64);

/// A number that is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not a seq: the first event of an execution has 1")]
pub struct SeqError(pub i64);

impl Seq {
    /// Of the first event.
    pub const FIRST: Self = Self(1);

    /// The place with a number.
    pub const fn new(number: i64) -> Result<Self, SeqError> {
        if number < 1 {
            return Err(SeqError(number));
        }
        Ok(Self(number))
    }

    /// The number.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// The following place. No log reaches the last one, which follows itself.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Seq({})", self.0)
    }
}

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

/// Version of an execution: the seq of its last event, 0 before the first. Appends name the one
/// that they expect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(i64);

impl Version {
    /// Of an execution without events.
    pub const EMPTY: Self = Self(0);

    /// The version with a number.
    pub const fn new(number: i64) -> Result<Self, SeqError> {
        if number < 0 {
            return Err(SeqError(number));
        }
        Ok(Self(number))
    }

    /// The number.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// The place that the next event gets.
    pub const fn next_seq(self) -> Seq {
        Seq(self.0.saturating_add(1))
    }
}

impl From<Seq> for Version {
    fn from(seq: Seq) -> Self {
        Self(seq.0)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Place of an event in the feed of a whole log.
///
/// The order of commits is that of the pair; neither part alone means anything.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FeedPosition {
    // The fields stand in the order in which they are compared.
    /// The transaction that wrote the event.
    pub tx: u64,
    /// The number of the row.
    pub position: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_places() {
        assert_eq!(Seq::FIRST.get(), 1);
        assert_eq!(Version::EMPTY.next_seq(), Seq::FIRST);
        let third = Seq::new(3).unwrap();
        assert_eq!(Version::from(third).next_seq().get(), 4);
        assert_eq!(third.next().get(), 4);
        assert_eq!(Version::new(0), Ok(Version::EMPTY));
        assert_eq!(Version::new(3).unwrap().get(), 3);
        assert!(Version::EMPTY < Version::from(Seq::FIRST));
        for wrong in [0, -1, i64::MIN] {
            assert_eq!(Seq::new(wrong), Err(SeqError(wrong)));
        }
        assert_eq!(Version::new(-1), Err(SeqError(-1)));
    }

    #[test]
    fn the_feed_is_ordered_by_the_pair() {
        let late_row = FeedPosition {
            tx: 7,
            position: 90,
        };
        let early_row = FeedPosition {
            tx: 8,
            position: 12,
        };
        assert!(late_row < early_row);
        assert!(
            early_row
                < FeedPosition {
                    tx: 8,
                    position: 13
                }
        );
    }
}

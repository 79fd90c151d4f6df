//! The feed: all events of a store in an order that no late commit can change.

use noetl_types::{FeedPosition, StoredEvent};

use super::message::{FeedMessage, Unreadable};

/// How much of the feed one read gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeedLimit(u32);

impl FeedLimit {
    /// The most events of one read.
    pub const MAX: Self = Self(1_000);

    /// A number of events, or the nearest one between one and the most.
    pub fn clamped(events: u32) -> Self {
        Self(events.clamp(1, Self::MAX.0))
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// About how many bytes of events one read gives, but for its last event.
pub const FEED_BYTES: usize = 8 * 1024 * 1024;

/// Some of the feed: whole events, or what is published of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedBatch<T = StoredEvent> {
    /// The events, in the order of the feed.
    pub events: Vec<T>,
    /// Where the next read goes on: behind the last event, or where this one began.
    pub next: FeedPosition,
    /// Whether there may be more right now.
    pub is_full: bool,
}

/// What has a place in the feed.
pub(crate) trait InFeed {
    /// The place.
    fn place(&self) -> FeedPosition;
}

impl InFeed for StoredEvent {
    fn place(&self) -> FeedPosition {
        self.feed
    }
}

impl InFeed for FeedMessage {
    fn place(&self) -> FeedPosition {
        self.feed
    }
}

/// What cannot be read has a place all the same.
impl<T: InFeed> InFeed for Result<T, Unreadable> {
    fn place(&self) -> FeedPosition {
        self.as_ref().map_or_else(|it| it.feed, InFeed::place)
    }
}

impl<T> FeedBatch<T> {
    /// A read that gives all that was asked for, unless it was cut because of its bytes.
    pub(crate) fn of(events: Vec<T>, after: FeedPosition, limit: FeedLimit, is_cut: bool) -> Self
    where
        T: InFeed,
    {
        let is_full = events.len() >= usize::try_from(limit.get()).unwrap_or(usize::MAX);
        Self {
            next: events.last().map_or(after, InFeed::place),
            events,
            is_full: is_full || is_cut,
        }
    }

    /// Whether it gives nothing while there may be more behind it: all of it was passed by.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn is_passed_by(&self) -> bool {
        self.events.is_empty() && self.is_full
    }
}

#[cfg(any(feature = "sqlite", feature = "postgres"))]
impl<T> FeedBatch<Result<T, Unreadable>> {
    /// What can be read of it. The next read goes on behind all of it.
    pub(crate) fn readable(self) -> FeedBatch<T> {
        FeedBatch {
            events: self.events.into_iter().flatten().collect(),
            next: self.next,
            is_full: self.is_full,
        }
    }
}

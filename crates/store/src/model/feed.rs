//! The feed: all events of a store in an order that later commits only append to.

use noetl_types::{FeedPosition, StoredEvent};

use super::message::{FeedMessage, UnreadableEvent};

/// Maximum number of events per feed read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeedLimit(u32);

impl FeedLimit {
    pub const MAX: Self = Self(1_000);

    /// Clamps the number to the allowed range.
    pub fn clamped(events: u32) -> Self {
        Self(events.clamp(1, Self::MAX.0))
    }

    pub const fn get(self) -> u32 {
        self.0
    }
}

/// Approximate maximum size of a batch. The last event may exceed it.
pub const MAX_FEED_BATCH_BYTES: usize = 8 * 1024 * 1024;

/// A batch of the feed: complete events or messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedBatch<T = StoredEvent> {
    /// In feed order.
    pub events: Vec<T>,
    /// Position for the next read: that of the last event, or the start of this read.
    pub next: FeedPosition,
    /// True if more entries may be available.
    pub is_full: bool,
}

/// An entry with a feed position.
pub(crate) trait FeedEntry {
    fn feed_position(&self) -> FeedPosition;
}

impl FeedEntry for StoredEvent {
    fn feed_position(&self) -> FeedPosition {
        self.feed
    }
}

impl FeedEntry for FeedMessage {
    fn feed_position(&self) -> FeedPosition {
        self.feed
    }
}

/// An unreadable entry also has a position.
impl<T: FeedEntry> FeedEntry for Result<T, UnreadableEvent> {
    fn feed_position(&self) -> FeedPosition {
        self.as_ref().map_or_else(|it| it.feed, FeedEntry::feed_position)
    }
}

impl<T> FeedBatch<T> {
    /// Creates a batch. It is full if it reached the limit or was cut because of its size.
    pub(crate) fn from_items(
        events: Vec<T>,
        after: FeedPosition,
        limit: FeedLimit,
        is_cut: bool,
    ) -> Self
    where
        T: FeedEntry,
    {
        let is_full = events.len() >= usize::try_from(limit.get()).unwrap_or(usize::MAX);
        Self {
            next: events.last().map_or(after, FeedEntry::feed_position),
            events,
            is_full: is_full || is_cut,
        }
    }

    /// True if it is empty but more may follow, because all of its entries were skipped.
    pub(crate) fn is_all_skipped(&self) -> bool {
        self.events.is_empty() && self.is_full
    }
}

impl<T> FeedBatch<Result<T, UnreadableEvent>> {
    /// Returns the readable entries. The next read continues after all entries.
    pub(crate) fn into_readable(self) -> FeedBatch<T> {
        FeedBatch {
            events: self.events.into_iter().flatten().collect(),
            next: self.next,
            is_full: self.is_full,
        }
    }
}

//! Publishing of events from the store, and projection of external events into it.

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{FeedPosition, OutboxId, Text, Timestamp};

use crate::error::StoreError;
use crate::model::{
    ClaimedBatch, CursorMove, EventKey, FailureOutcome, FeedBatch, FeedItem, FeedLag, FeedLimit,
    KnownEvents, LogEpoch, OutboxClaim, OutboxFailure, OutboxFilter, OutboxMark, OutboxRow,
    OutboxStats, QuarantineFilter, QuarantinedItem, StreamCursor, StreamLeaseOutcome,
    StreamLeaseRequest, StreamOwner,
};

/// The part of a [`crate::Store`] that publishers and projectors use.
///
/// Outbox rows are written by appends that request them ([`crate::AppendRequest::use_outbox`]). A
/// claim gives a publisher a row for a limited time. The attempt number is the fence, because it
/// increases with every claim.
#[async_trait]
pub trait PublishingStore {
    /// Claims rows for a publisher: due rows and rows whose publisher let its lease expire, ordered
    /// by the time at which they may be claimed, then by id.
    ///
    /// Concurrent callers do not block each other, and no row is claimed twice. A call may return
    /// fewer rows than are available, because payloads are bounded by [`crate::MAX_CLAIM_BYTES`].
    async fn claim_outbox(&self, claim: OutboxClaim) -> Result<ClaimedBatch, StoreError>;

    /// Marks rows as published and returns the number changed. Only a row in flight changes, and
    /// only if the attempt matches.
    async fn mark_published(
        &self,
        marks: Vec<OutboxMark>,
        now: Timestamp,
    ) -> Result<u64, StoreError>;

    /// Records that a row could not be published. Returns `None` if the caller no longer holds the
    /// row.
    async fn mark_failed(
        &self,
        failure: OutboxFailure,
    ) -> Result<Option<FailureOutcome>, StoreError>;

    /// Counts the rows that can be claimed.
    async fn count_claimable_outbox_rows(&self, now: Timestamp) -> Result<u64, StoreError>;

    /// Returns a page of rows, ordered by id.
    async fn list_outbox_rows(&self, filter: OutboxFilter) -> Result<Vec<OutboxRow>, StoreError>;

    /// Returns the number of rows, the age of the oldest unpublished row, and if a dead row awaits
    /// an operator's decision.
    async fn outbox_stats(&self) -> Result<OutboxStats, StoreError>;

    /// Returns the creation time of the newest row.
    async fn newest_outbox_row_at(&self) -> Result<Option<Timestamp>, StoreError>;

    /// Makes dead rows claimable again. Returns how many were dead and not discarded.
    async fn requeue_outbox_rows(
        &self,
        rows: Vec<OutboxId>,
        now: Timestamp,
    ) -> Result<u64, StoreError>;

    /// Discards dead rows, so that they count as published. Returns how many were dead.
    async fn discard_outbox_rows(
        &self,
        rows: Vec<OutboxId>,
        now: Timestamp,
    ) -> Result<u64, StoreError>;

    /// Counts the rows that were published or discarded before a time.
    async fn count_old_outbox_rows(&self, before: Timestamp) -> Result<u64, StoreError>;

    /// Deletes rows that were published before a time, then rows that were discarded before it, the
    /// oldest first. Returns the number deleted, at most `limit`.
    async fn purge_outbox_rows(
        &self,
        before: Timestamp,
        limit: PageLimit,
    ) -> Result<u64, StoreError>;

    /// Returns the events that the log already has and their executions, in one read.
    async fn find_known_events(&self, events: Vec<EventKey>) -> Result<KnownEvents, StoreError>;

    /// Stores rejected items. See [`QuarantinedItem`].
    async fn quarantine_items(&self, items: Vec<QuarantinedItem>) -> Result<(), StoreError>;

    /// Returns a page of rejected items, oldest first.
    async fn list_quarantined_items(
        &self,
        filter: QuarantineFilter,
    ) -> Result<Vec<QuarantinedItem>, StoreError>;

    /// Deletes items that were rejected before a time, the oldest first. Returns the number
    /// deleted, at most `limit`.
    async fn purge_quarantined_items(
        &self,
        before: Timestamp,
        limit: PageLimit,
    ) -> Result<u64, StoreError>;

    /// Returns the current log epoch.
    async fn log_epoch(&self) -> Result<LogEpoch, StoreError>;

    /// Starts a new log epoch. All unpublished messages get new ids.
    async fn start_log_epoch(&self) -> Result<LogEpoch, StoreError>;

    /// Leases a stream to the caller, which becomes its publisher. A stream of a new name is
    /// created, and its position is stored immediately.
    async fn lease_stream(
        &self,
        request: StreamLeaseRequest,
    ) -> Result<StreamLeaseOutcome, StoreError>;

    /// Extends the lease of a stream. Returns `false` if another publisher holds it.
    async fn renew_stream_lease(
        &self,
        owner: StreamOwner,
        lease_until: Timestamp,
    ) -> Result<bool, StoreError>;

    /// Moves the cursor of a stream. Returns `false` if another publisher holds the stream or the
    /// cursor is elsewhere.
    async fn move_stream_cursor(
        &self,
        owner: StreamOwner,
        to: CursorMove,
    ) -> Result<bool, StoreError>;

    /// Releases the lease of a stream. Returns `false` if another publisher holds it.
    async fn release_stream_lease(&self, owner: StreamOwner) -> Result<bool, StoreError>;

    /// Returns the cursor of a stream.
    async fn find_stream_cursor(&self, name: &Text) -> Result<Option<StreamCursor>, StoreError>;

    /// Returns the messages of events, in the order and with the bounds of
    /// [`crate::Store::read_feed`]. An event whose row cannot be read is returned as
    /// [`crate::UnreadableEvent`].
    async fn read_feed_messages(
        &self,
        after: FeedPosition,
        limit: FeedLimit,
    ) -> Result<FeedBatch<FeedItem>, StoreError>;

    /// Returns the position of the last event dropped by retention, or 0 if none was dropped. A
    /// consumer that resumes the feed from before it may have missed events.
    async fn last_dropped_position(&self) -> Result<i64, StoreError>;

    /// Returns how far the feed is ahead of a position, and since when events are held back.
    async fn feed_lag(&self, after: FeedPosition) -> Result<FeedLag, StoreError>;
}

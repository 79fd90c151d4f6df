//! How events leave the store, and how events of others come in.

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{FeedPosition, OutboxId, Text, Timestamp};

use crate::error::StoreError;
use crate::model::{
    Claimed, EventKey, Failed, FeedBatch, FeedItem, FeedLag, FeedLimit, Known, LogEpoch,
    OutboxClaim, OutboxFacts, OutboxFailure, OutboxFilter, OutboxMark, OutboxRow, QuarantineFilter,
    Quarantined, StreamCursor, StreamMove, StreamOwner, StreamTake, StreamTaken,
};

/// The part of a [`crate::Store`] that publishers and projectors use.
///
/// Rows of the outbox come with appends that ask for them ([`crate::Append::outbox`]). Whoever claims
/// a row has it for a while; the number of the attempt is the fence, since it rises with every claim.
#[async_trait]
pub trait Outlets {
    /// Hands rows to a publisher: those whose time has come and those whose publisher let its lease
    /// run out, by the time at which they may be claimed, then by id.
    ///
    /// However many ask at once, nobody waits for another, and no row is handed out twice. A call
    /// may give fewer rows than there are, since payloads are bounded by [`crate::MAX_CLAIM_BYTES`].
    async fn claim_outbox(&self, claim: OutboxClaim) -> Result<Claimed, StoreError>;

    /// Notes that rows are out; says how many that changed. Only a row in hand changes, and only
    /// by the attempt that is named.
    async fn mark_published(
        &self,
        marks: Vec<OutboxMark>,
        now: Timestamp,
    ) -> Result<u64, StoreError>;

    /// Notes that a row could not be published; `None` if it is not the caller's any more.
    async fn mark_failed(&self, failure: OutboxFailure) -> Result<Option<Failed>, StoreError>;

    /// How many rows a claim could be given.
    async fn outbox_pending(&self, now: Timestamp) -> Result<u64, StoreError>;

    /// A page of rows, by id.
    async fn outbox(&self, filter: OutboxFilter) -> Result<Vec<OutboxRow>, StoreError>;

    /// How many rows there are, how old the oldest is that is still to be published, and whether
    /// somebody has to decide about one.
    async fn outbox_facts(&self) -> Result<OutboxFacts, StoreError>;

    /// When the newest row was written that is still there.
    async fn newest_outbox(&self) -> Result<Option<Timestamp>, StoreError>;

    /// Sends dead rows out again; says how many were dead and not given up.
    async fn replay_outbox(&self, rows: Vec<OutboxId>, now: Timestamp) -> Result<u64, StoreError>;

    /// Gives dead rows up, so that they count as published; says how many were dead.
    async fn discard_outbox(&self, rows: Vec<OutboxId>, now: Timestamp) -> Result<u64, StoreError>;

    /// How many rows were published or given up before a time.
    async fn old_outbox(&self, before: Timestamp) -> Result<u64, StoreError>;

    /// Forgets rows that were published before a time, then those that were given up before it, the
    /// oldest first; says how many there were, up to the limit.
    async fn purge_outbox(&self, before: Timestamp, limit: PageLimit) -> Result<u64, StoreError>;

    /// What the log has of some events and their executions: one look for all of them.
    async fn known(&self, events: Vec<EventKey>) -> Result<Known, StoreError>;

    /// Keeps what was refused; see [`Quarantined`].
    async fn quarantine(&self, refused: Vec<Quarantined>) -> Result<(), StoreError>;

    /// A page of what was refused, oldest first.
    async fn quarantined(&self, filter: QuarantineFilter) -> Result<Vec<Quarantined>, StoreError>;

    /// Forgets what was refused before a time, the oldest first; says how many there were, up to the
    /// limit.
    async fn purge_quarantine(
        &self,
        before: Timestamp,
        limit: PageLimit,
    ) -> Result<u64, StoreError>;

    /// The present life of the log.
    async fn log_epoch(&self) -> Result<LogEpoch, StoreError>;

    /// Begins a new life of the log: all messages that are still to be published get new ids.
    async fn begin_log_epoch(&self) -> Result<LogEpoch, StoreError>;

    /// Makes the caller the publisher of a stream. A stream of a new name begins, and its place is
    /// kept at once.
    async fn take_stream(&self, take: StreamTake) -> Result<StreamTaken, StoreError>;

    /// Keeps a stream for longer; `false` if it is somebody else's by now.
    async fn renew_stream(
        &self,
        owner: StreamOwner,
        lease_until: Timestamp,
    ) -> Result<bool, StoreError>;

    /// Moves the cursor of a stream; `false` if it is somebody else's by now, or stands elsewhere.
    async fn move_stream(&self, owner: StreamOwner, to: StreamMove) -> Result<bool, StoreError>;

    /// Gives a stream up; `false` if it is somebody else's by now.
    async fn release_stream(&self, owner: StreamOwner) -> Result<bool, StoreError>;

    /// Where a stream stands.
    async fn stream_cursor(&self, name: &Text) -> Result<Option<StreamCursor>, StoreError>;

    /// The messages of events, in the order of [`crate::Store::feed`] and as bounded as that. An event
    /// whose row cannot be read is there as such.
    async fn messages(
        &self,
        after: FeedPosition,
        limit: FeedLimit,
    ) -> Result<FeedBatch<FeedItem>, StoreError>;

    /// The position of the last event that was dropped for its age; 0 where none was. Whoever resumes
    /// the feed from before it may have missed events.
    async fn last_dropped(&self) -> Result<i64, StoreError>;

    /// How far the feed is ahead of a place, and since when it is held back.
    async fn feed_lag(&self, after: FeedPosition) -> Result<FeedLag, StoreError>;
}

//! The event log.

use async_trait::async_trait;
use noetl_types::{EventId, ExecutionId, ExecutionVersion, FeedPosition, StoredEvent};

use crate::error::StoreError;
use crate::model::{
    AppendError, AppendReceipt, AppendRequest, EventKey, FeedBatch, FeedItem, FeedLag, FeedLimit,
    KnownEvents, LoadedLog, LogPageLimit, ReplayPage, SnapshotKey,
};

/// The part of a [`crate::Store`] that appends events and reads them, by execution or as a feed.
#[async_trait]
pub trait EventLog {
    /// Writes events and their effects, and returns one result per append.
    ///
    /// Appends are independent: none fails because of another. If two appends of one call name the
    /// same execution, the later one is applied on top of the earlier one. An append is durable
    /// once its result is returned.
    async fn append_events(
        &self,
        appends: Vec<AppendRequest>,
    ) -> Vec<Result<AppendReceipt, AppendError>>;

    /// Returns an execution, its newest usable snapshot and the first page of the events after it.
    async fn load_execution(
        &self,
        execution_id: ExecutionId,
        snapshot: &SnapshotKey,
        page: LogPageLimit,
    ) -> Result<Option<LoadedLog>, StoreError>;

    /// Returns the events after a version, in order. Only the last page of a log is shorter than
    /// requested.
    async fn read_events(
        &self,
        execution_id: ExecutionId,
        after: ExecutionVersion,
        page: LogPageLimit,
    ) -> Result<Vec<StoredEvent>, StoreError>;

    /// Returns the columns of the events after a version that a replay reads, in order. A page is
    /// empty only at the end of the log. It may be shorter than requested if the events are large.
    async fn read_replay_rows(
        &self,
        execution_id: ExecutionId,
        after: ExecutionVersion,
        page: LogPageLimit,
    ) -> Result<ReplayPage, StoreError>;

    /// Returns one event of an execution, by its id.
    async fn find_event(
        &self,
        execution_id: ExecutionId,
        event_id: EventId,
    ) -> Result<Option<StoredEvent>, StoreError>;

    /// Returns events of the whole store in an order to which later commits only append. Events
    /// whose rows cannot be read are skipped. [`EventLog::read_feed_messages`]
    /// reports them.
    async fn read_feed(
        &self,
        after: FeedPosition,
        limit: FeedLimit,
    ) -> Result<FeedBatch, StoreError>;

    /// Returns the events that the log already has and their executions, in one read.
    async fn find_known_events(&self, events: Vec<EventKey>) -> Result<KnownEvents, StoreError>;

    /// Returns the messages of events, in the order and with the bounds of
    /// [`EventLog::read_feed`]. An event whose row cannot be read is returned as
    /// [`crate::UnreadableEvent`].
    async fn read_feed_messages(
        &self,
        after: FeedPosition,
        limit: FeedLimit,
    ) -> Result<FeedBatch<FeedItem>, StoreError>;

    /// Returns how far the feed is ahead of a position, and since when events are held back.
    async fn feed_lag(&self, after: FeedPosition) -> Result<FeedLag, StoreError>;
}

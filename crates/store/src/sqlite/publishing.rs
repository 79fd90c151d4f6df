//! [`PublishingStore`](crate::publishing::PublishingStore) in SQLite.

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{FeedPosition, OutboxId, Text, Timestamp};

use super::writer::Durability;
use super::{SqliteStore, outbox, query, stream};
use crate::error::StoreError;
use crate::model::{
    ClaimedBatch, CursorMove, EventKey, FailureOutcome, FeedBatch, FeedItem, FeedLag, FeedLimit,
    KnownEvents, LogEpoch, OutboxClaim, OutboxFailure, OutboxFilter, OutboxMark, OutboxRow,
    OutboxStats, QuarantineFilter, QuarantinedItem, StreamCursor, StreamLeaseOutcome,
    StreamLeaseRequest, StreamOwner,
};
use crate::publishing::PublishingStore;

#[async_trait]
impl PublishingStore for SqliteStore {
    /// A power failure may lose a claim. The rows are then claimed again and may be published
    /// twice, as after any crash of a publisher.
    async fn claim_outbox(&self, claim: OutboxClaim) -> Result<ClaimedBatch, StoreError> {
        self.writer
            .run_write(Durability::Unsynced, move |connection| {
                outbox::claim_outbox(connection, &claim)
            })
            .await
    }

    async fn mark_published(
        &self,
        marks: Vec<OutboxMark>,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        self.writer
            .run_write(Durability::Synced, move |connection| {
                outbox::mark_published(connection, &marks, now)
            })
            .await
    }

    async fn mark_failed(
        &self,
        failure: OutboxFailure,
    ) -> Result<Option<FailureOutcome>, StoreError> {
        self.writer
            .run_write(Durability::Synced, move |connection| {
                outbox::mark_failed(connection, &failure)
            })
            .await
    }

    async fn count_claimable_outbox_rows(&self, now: Timestamp) -> Result<u64, StoreError> {
        self.readers
            .run_query(move |connection| {
                outbox::count_rows_at(connection, outbox::COUNT_CLAIMABLE, now)
            })
            .await
    }

    async fn list_outbox_rows(&self, filter: OutboxFilter) -> Result<Vec<OutboxRow>, StoreError> {
        self.readers
            .run_query(move |connection| outbox::list_outbox_rows(connection, &filter))
            .await
    }

    async fn outbox_stats(&self) -> Result<OutboxStats, StoreError> {
        self.readers.run_query(outbox::outbox_stats).await
    }

    async fn newest_outbox_row_at(&self) -> Result<Option<Timestamp>, StoreError> {
        self.readers.run_query(outbox::newest_outbox_row_at).await
    }

    async fn requeue_outbox_rows(
        &self,
        rows: Vec<OutboxId>,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        self.writer
            .run_write(Durability::Synced, move |connection| {
                outbox::update_dead_rows(connection, outbox::REQUEUE_DEAD, &rows, now)
            })
            .await
    }

    async fn discard_outbox_rows(
        &self,
        rows: Vec<OutboxId>,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        self.writer
            .run_write(Durability::Synced, move |connection| {
                outbox::update_dead_rows(connection, outbox::DISCARD_DEAD, &rows, now)
            })
            .await
    }

    async fn count_old_outbox_rows(&self, before: Timestamp) -> Result<u64, StoreError> {
        self.readers
            .run_query(move |connection| {
                outbox::count_rows_at(connection, outbox::COUNT_OLD, before)
            })
            .await
    }

    async fn purge_outbox_rows(
        &self,
        before: Timestamp,
        limit: PageLimit,
    ) -> Result<u64, StoreError> {
        self.writer
            .run_write(Durability::Unsynced, move |connection| {
                outbox::purge_outbox_rows(connection, before, limit)
            })
            .await
    }

    async fn find_known_events(&self, events: Vec<EventKey>) -> Result<KnownEvents, StoreError> {
        self.readers
            .run_query(move |connection| query::find_known_events(connection, &events))
            .await
    }

    async fn quarantine_items(&self, items: Vec<QuarantinedItem>) -> Result<(), StoreError> {
        let bytes = items.iter().map(|item| item.raw.len()).sum();
        self.writer
            .run_large_write(bytes, move |connection, _| {
                outbox::quarantine_items(connection, &items)
            })
            .await
    }

    async fn purge_quarantined_items(
        &self,
        before: Timestamp,
        limit: PageLimit,
    ) -> Result<u64, StoreError> {
        self.writer
            .run_write(Durability::Unsynced, move |connection| {
                outbox::purge_quarantined_items(connection, before, limit)
            })
            .await
    }

    async fn list_quarantined_items(
        &self,
        filter: QuarantineFilter,
    ) -> Result<Vec<QuarantinedItem>, StoreError> {
        self.readers
            .run_query(move |connection| outbox::list_quarantined_items(connection, &filter))
            .await
    }

    async fn log_epoch(&self) -> Result<LogEpoch, StoreError> {
        self.readers.run_query(stream::log_epoch).await
    }

    async fn start_log_epoch(&self) -> Result<LogEpoch, StoreError> {
        self.writer.run_write(Durability::Synced, stream::start_log_epoch).await
    }

    async fn lease_stream(
        &self,
        request: StreamLeaseRequest,
    ) -> Result<StreamLeaseOutcome, StoreError> {
        self.writer
            .run_write(Durability::Synced, move |connection| {
                stream::lease_stream(connection, &request)
            })
            .await
    }

    async fn renew_stream_lease(
        &self,
        owner: StreamOwner,
        lease_until: Timestamp,
    ) -> Result<bool, StoreError> {
        self.writer
            .run_write(Durability::Unsynced, move |connection| {
                stream::renew_stream_lease(connection, &owner, lease_until)
            })
            .await
    }

    /// If a power failure moves a cursor back, the events after it are published again.
    async fn move_stream_cursor(
        &self,
        owner: StreamOwner,
        to: CursorMove,
    ) -> Result<bool, StoreError> {
        self.writer
            .run_write(Durability::Unsynced, move |connection| {
                stream::move_stream_cursor(connection, &owner, to)
            })
            .await
    }

    async fn release_stream_lease(&self, owner: StreamOwner) -> Result<bool, StoreError> {
        self.writer
            .run_write(Durability::Unsynced, move |connection| {
                stream::release_stream_lease(connection, &owner)
            })
            .await
    }

    async fn find_stream_cursor(&self, name: &Text) -> Result<Option<StreamCursor>, StoreError> {
        let name = name.clone();
        self.readers
            .run_query(move |connection| stream::find_stream_cursor(connection, &name))
            .await
    }

    async fn last_dropped_position(&self) -> Result<i64, StoreError> {
        self.readers.run_query(stream::last_dropped_position).await
    }

    async fn read_feed_messages(
        &self,
        after: FeedPosition,
        limit: FeedLimit,
    ) -> Result<FeedBatch<FeedItem>, StoreError> {
        self.readers
            .run_query(move |connection| stream::read_feed_messages(connection, after, limit))
            .await
    }

    async fn feed_lag(&self, after: FeedPosition) -> Result<FeedLag, StoreError> {
        self.readers.run_query(move |connection| stream::feed_lag(connection, after)).await
    }
}

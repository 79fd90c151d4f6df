//! [`PublishingStore`](crate::publishing::PublishingStore) in PostgreSQL.

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{FeedPosition, OutboxId, Text, Timestamp};

use super::{PostgresStore, known_events, outbox, stream};
use crate::error::StoreError;
use crate::model::{
    ClaimedBatch, CursorMove, EventKey, FailureOutcome, FeedBatch, FeedItem, FeedLag, FeedLimit,
    KnownEvents, LogEpoch, OutboxClaim, OutboxFailure, OutboxFilter, OutboxMark, OutboxRow,
    OutboxStats, QuarantineFilter, QuarantinedItem, StreamCursor, StreamLeaseOutcome,
    StreamLeaseRequest, StreamOwner,
};
use crate::publishing::PublishingStore;

#[async_trait]
impl PublishingStore for PostgresStore {
    async fn claim_outbox(&self, claim: OutboxClaim) -> Result<ClaimedBatch, StoreError> {
        outbox::claim_outbox(&self.pool, &claim).await
    }

    async fn mark_published(
        &self,
        marks: Vec<OutboxMark>,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        outbox::mark_published(&self.pool, &marks, now).await
    }

    async fn mark_failed(
        &self,
        failure: OutboxFailure,
    ) -> Result<Option<FailureOutcome>, StoreError> {
        outbox::mark_failed(&self.pool, &failure).await
    }

    async fn count_claimable_outbox_rows(&self, now: Timestamp) -> Result<u64, StoreError> {
        outbox::count_rows_at(&self.pool, outbox::COUNT_CLAIMABLE, now).await
    }

    async fn list_outbox_rows(&self, filter: OutboxFilter) -> Result<Vec<OutboxRow>, StoreError> {
        outbox::list_outbox_rows(&self.list_pool, &filter).await
    }

    async fn outbox_stats(&self) -> Result<OutboxStats, StoreError> {
        outbox::outbox_stats(&self.list_pool).await
    }

    async fn newest_outbox_row_at(&self) -> Result<Option<Timestamp>, StoreError> {
        outbox::newest_outbox_row_at(&self.list_pool).await
    }

    async fn requeue_outbox_rows(
        &self,
        rows: Vec<OutboxId>,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        outbox::update_dead_rows(&self.list_pool, outbox::REQUEUE_DEAD, &rows, now).await
    }

    async fn discard_outbox_rows(
        &self,
        rows: Vec<OutboxId>,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        outbox::update_dead_rows(&self.list_pool, outbox::DISCARD_DEAD, &rows, now).await
    }

    async fn count_old_outbox_rows(&self, before: Timestamp) -> Result<u64, StoreError> {
        outbox::count_rows_at(&self.list_pool, outbox::COUNT_OLD, before).await
    }

    async fn purge_outbox_rows(
        &self,
        before: Timestamp,
        limit: PageLimit,
    ) -> Result<u64, StoreError> {
        outbox::purge_outbox_rows(&self.list_pool, before, limit).await
    }

    async fn find_known_events(&self, events: Vec<EventKey>) -> Result<KnownEvents, StoreError> {
        known_events::find_known_events(&self.pool, &events).await
    }

    async fn quarantine_items(&self, items: Vec<QuarantinedItem>) -> Result<(), StoreError> {
        outbox::quarantine_items(&self.list_pool, &items).await
    }

    async fn purge_quarantined_items(
        &self,
        before: Timestamp,
        limit: PageLimit,
    ) -> Result<u64, StoreError> {
        outbox::purge_quarantined_items(&self.list_pool, before, limit).await
    }

    async fn list_quarantined_items(
        &self,
        filter: QuarantineFilter,
    ) -> Result<Vec<QuarantinedItem>, StoreError> {
        outbox::list_quarantined_items(&self.list_pool, &filter).await
    }

    async fn log_epoch(&self) -> Result<LogEpoch, StoreError> {
        stream::log_epoch(&self.list_pool).await
    }

    async fn start_log_epoch(&self) -> Result<LogEpoch, StoreError> {
        stream::start_log_epoch(&self.list_pool).await
    }

    async fn lease_stream(
        &self,
        request: StreamLeaseRequest,
    ) -> Result<StreamLeaseOutcome, StoreError> {
        stream::lease_stream(&self.list_pool, &request).await
    }

    async fn renew_stream_lease(
        &self,
        owner: StreamOwner,
        lease_until: Timestamp,
    ) -> Result<bool, StoreError> {
        stream::renew_stream_lease(&self.pool, &owner, lease_until).await
    }

    async fn move_stream_cursor(
        &self,
        owner: StreamOwner,
        to: CursorMove,
    ) -> Result<bool, StoreError> {
        stream::move_stream_cursor(&self.pool, &owner, to).await
    }

    async fn release_stream_lease(&self, owner: StreamOwner) -> Result<bool, StoreError> {
        stream::release_stream_lease(&self.pool, &owner).await
    }

    async fn find_stream_cursor(&self, name: &Text) -> Result<Option<StreamCursor>, StoreError> {
        stream::find_stream_cursor(&self.pool, name).await
    }

    async fn last_dropped_position(&self) -> Result<i64, StoreError> {
        stream::last_dropped_position(&self.list_pool).await
    }

    async fn read_feed_messages(
        &self,
        after: FeedPosition,
        limit: FeedLimit,
    ) -> Result<FeedBatch<FeedItem>, StoreError> {
        stream::read_feed_messages(&self.pool, &self.feed_base, after, limit).await
    }

    async fn feed_lag(&self, after: FeedPosition) -> Result<FeedLag, StoreError> {
        stream::feed_lag(&self.list_pool, after).await
    }
}

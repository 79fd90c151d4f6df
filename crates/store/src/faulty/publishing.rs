//! [`crate::PublishingStore`] with faults.

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{FeedPosition, OutboxId, Text, Timestamp};

use super::{FaultyStore, StoreMethod};
use crate::error::StoreError;
use crate::model::{
    ClaimedBatch, CursorMove, EventKey, FailureOutcome, FeedBatch, FeedItem, FeedLag, FeedLimit,
    KnownEvents, LogEpoch, OutboxClaim, OutboxFailure, OutboxFilter, OutboxMark, OutboxRow,
    OutboxStats, QuarantineFilter, QuarantinedItem, StreamCursor, StreamLeaseOutcome,
    StreamLeaseRequest, StreamOwner,
};
use crate::publishing::PublishingStore;
use crate::store::Store;

#[async_trait]
impl<S: Store> PublishingStore for FaultyStore<S> {
    async fn claim_outbox(&self, claim: OutboxClaim) -> Result<ClaimedBatch, StoreError> {
        let mode = self.inject_fault(StoreMethod::ClaimOutbox).await?;
        mode.apply_to(self.inner.claim_outbox(claim).await)
    }

    async fn mark_published(
        &self,
        marks: Vec<OutboxMark>,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let mode = self.inject_fault(StoreMethod::MarkPublished).await?;
        mode.apply_to(self.inner.mark_published(marks, now).await)
    }

    async fn mark_failed(
        &self,
        failure: OutboxFailure,
    ) -> Result<Option<FailureOutcome>, StoreError> {
        let mode = self.inject_fault(StoreMethod::MarkFailed).await?;
        mode.apply_to(self.inner.mark_failed(failure).await)
    }

    async fn count_claimable_outbox_rows(&self, now: Timestamp) -> Result<u64, StoreError> {
        let mode = self.inject_fault(StoreMethod::CountClaimableOutboxRows).await?;
        mode.apply_to(self.inner.count_claimable_outbox_rows(now).await)
    }

    async fn list_outbox_rows(&self, filter: OutboxFilter) -> Result<Vec<OutboxRow>, StoreError> {
        let mode = self.inject_fault(StoreMethod::ListOutboxRows).await?;
        mode.apply_to(self.inner.list_outbox_rows(filter).await)
    }

    async fn outbox_stats(&self) -> Result<OutboxStats, StoreError> {
        let mode = self.inject_fault(StoreMethod::OutboxStats).await?;
        mode.apply_to(self.inner.outbox_stats().await)
    }

    async fn newest_outbox_row_at(&self) -> Result<Option<Timestamp>, StoreError> {
        let mode = self.inject_fault(StoreMethod::NewestOutboxRowAt).await?;
        mode.apply_to(self.inner.newest_outbox_row_at().await)
    }

    async fn requeue_outbox_rows(
        &self,
        rows: Vec<OutboxId>,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let mode = self.inject_fault(StoreMethod::RequeueOutboxRows).await?;
        mode.apply_to(self.inner.requeue_outbox_rows(rows, now).await)
    }

    async fn discard_outbox_rows(
        &self,
        rows: Vec<OutboxId>,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let mode = self.inject_fault(StoreMethod::DiscardOutboxRows).await?;
        mode.apply_to(self.inner.discard_outbox_rows(rows, now).await)
    }

    async fn count_old_outbox_rows(&self, before: Timestamp) -> Result<u64, StoreError> {
        let mode = self.inject_fault(StoreMethod::CountOldOutboxRows).await?;
        mode.apply_to(self.inner.count_old_outbox_rows(before).await)
    }

    async fn purge_outbox_rows(
        &self,
        before: Timestamp,
        limit: PageLimit,
    ) -> Result<u64, StoreError> {
        let mode = self.inject_fault(StoreMethod::PurgeOutboxRows).await?;
        mode.apply_to(self.inner.purge_outbox_rows(before, limit).await)
    }

    async fn find_known_events(&self, events: Vec<EventKey>) -> Result<KnownEvents, StoreError> {
        let mode = self.inject_fault(StoreMethod::FindKnownEvents).await?;
        mode.apply_to(self.inner.find_known_events(events).await)
    }

    async fn quarantine_items(&self, items: Vec<QuarantinedItem>) -> Result<(), StoreError> {
        let mode = self.inject_fault(StoreMethod::QuarantineItems).await?;
        mode.apply_to(self.inner.quarantine_items(items).await)
    }

    async fn purge_quarantined_items(
        &self,
        before: Timestamp,
        limit: PageLimit,
    ) -> Result<u64, StoreError> {
        let mode = self.inject_fault(StoreMethod::PurgeQuarantinedItems).await?;
        mode.apply_to(self.inner.purge_quarantined_items(before, limit).await)
    }

    async fn list_quarantined_items(
        &self,
        filter: QuarantineFilter,
    ) -> Result<Vec<QuarantinedItem>, StoreError> {
        let mode = self.inject_fault(StoreMethod::ListQuarantinedItems).await?;
        mode.apply_to(self.inner.list_quarantined_items(filter).await)
    }

    async fn log_epoch(&self) -> Result<LogEpoch, StoreError> {
        let mode = self.inject_fault(StoreMethod::LogEpoch).await?;
        mode.apply_to(self.inner.log_epoch().await)
    }

    async fn start_log_epoch(&self) -> Result<LogEpoch, StoreError> {
        let mode = self.inject_fault(StoreMethod::StartLogEpoch).await?;
        mode.apply_to(self.inner.start_log_epoch().await)
    }

    async fn lease_stream(
        &self,
        request: StreamLeaseRequest,
    ) -> Result<StreamLeaseOutcome, StoreError> {
        let mode = self.inject_fault(StoreMethod::LeaseStream).await?;
        mode.apply_to(self.inner.lease_stream(request).await)
    }

    async fn renew_stream_lease(
        &self,
        owner: StreamOwner,
        lease_until: Timestamp,
    ) -> Result<bool, StoreError> {
        let mode = self.inject_fault(StoreMethod::RenewStreamLease).await?;
        mode.apply_to(self.inner.renew_stream_lease(owner, lease_until).await)
    }

    async fn move_stream_cursor(
        &self,
        owner: StreamOwner,
        to: CursorMove,
    ) -> Result<bool, StoreError> {
        let mode = self.inject_fault(StoreMethod::MoveStreamCursor).await?;
        mode.apply_to(self.inner.move_stream_cursor(owner, to).await)
    }

    async fn release_stream_lease(&self, owner: StreamOwner) -> Result<bool, StoreError> {
        let mode = self.inject_fault(StoreMethod::ReleaseStreamLease).await?;
        mode.apply_to(self.inner.release_stream_lease(owner).await)
    }

    async fn find_stream_cursor(&self, name: &Text) -> Result<Option<StreamCursor>, StoreError> {
        let mode = self.inject_fault(StoreMethod::FindStreamCursor).await?;
        mode.apply_to(self.inner.find_stream_cursor(name).await)
    }

    async fn last_dropped_position(&self) -> Result<i64, StoreError> {
        let mode = self.inject_fault(StoreMethod::LastDroppedPosition).await?;
        mode.apply_to(self.inner.last_dropped_position().await)
    }

    async fn read_feed_messages(
        &self,
        after: FeedPosition,
        limit: FeedLimit,
    ) -> Result<FeedBatch<FeedItem>, StoreError> {
        let mode = self.inject_fault(StoreMethod::ReadFeedMessages).await?;
        mode.apply_to(self.inner.read_feed_messages(after, limit).await)
    }

    async fn feed_lag(&self, after: FeedPosition) -> Result<FeedLag, StoreError> {
        let mode = self.inject_fault(StoreMethod::FeedLag).await?;
        mode.apply_to(self.inner.feed_lag(after).await)
    }
}

//! How events leave and come in, with faults.

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{FeedPosition, OutboxId, Text, Timestamp};

use super::{FaultyStore, Method};
use crate::error::StoreError;
use crate::model::{
    Claimed, EventKey, Failed, FeedBatch, FeedItem, FeedLag, FeedLimit, Known, LogEpoch,
    OutboxClaim, OutboxFacts, OutboxFailure, OutboxFilter, OutboxMark, OutboxRow, QuarantineFilter,
    Quarantined, StreamCursor, StreamMove, StreamOwner, StreamTake, StreamTaken,
};
use crate::outlets::Outlets;
use crate::store::Store;

#[async_trait]
impl<S: Store> Outlets for FaultyStore<S> {
    async fn claim_outbox(&self, claim: OutboxClaim) -> Result<Claimed, StoreError> {
        let answer = self.fault(Method::ClaimOutbox).await?;
        answer.of(self.inner.claim_outbox(claim).await)
    }

    async fn mark_published(
        &self,
        marks: Vec<OutboxMark>,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let answer = self.fault(Method::MarkPublished).await?;
        answer.of(self.inner.mark_published(marks, now).await)
    }

    async fn mark_failed(&self, failure: OutboxFailure) -> Result<Option<Failed>, StoreError> {
        let answer = self.fault(Method::MarkFailed).await?;
        answer.of(self.inner.mark_failed(failure).await)
    }

    async fn outbox_pending(&self, now: Timestamp) -> Result<u64, StoreError> {
        let answer = self.fault(Method::OutboxPending).await?;
        answer.of(self.inner.outbox_pending(now).await)
    }

    async fn outbox(&self, filter: OutboxFilter) -> Result<Vec<OutboxRow>, StoreError> {
        let answer = self.fault(Method::Outbox).await?;
        answer.of(self.inner.outbox(filter).await)
    }

    async fn outbox_facts(&self) -> Result<OutboxFacts, StoreError> {
        let answer = self.fault(Method::OutboxFacts).await?;
        answer.of(self.inner.outbox_facts().await)
    }

    async fn newest_outbox(&self) -> Result<Option<Timestamp>, StoreError> {
        let answer = self.fault(Method::NewestOutbox).await?;
        answer.of(self.inner.newest_outbox().await)
    }

    async fn replay_outbox(&self, rows: Vec<OutboxId>, now: Timestamp) -> Result<u64, StoreError> {
        let answer = self.fault(Method::ReplayOutbox).await?;
        answer.of(self.inner.replay_outbox(rows, now).await)
    }

    async fn discard_outbox(&self, rows: Vec<OutboxId>, now: Timestamp) -> Result<u64, StoreError> {
        let answer = self.fault(Method::DiscardOutbox).await?;
        answer.of(self.inner.discard_outbox(rows, now).await)
    }

    async fn old_outbox(&self, before: Timestamp) -> Result<u64, StoreError> {
        let answer = self.fault(Method::OldOutbox).await?;
        answer.of(self.inner.old_outbox(before).await)
    }

    async fn purge_outbox(&self, before: Timestamp, limit: PageLimit) -> Result<u64, StoreError> {
        let answer = self.fault(Method::PurgeOutbox).await?;
        answer.of(self.inner.purge_outbox(before, limit).await)
    }

    async fn known(&self, events: Vec<EventKey>) -> Result<Known, StoreError> {
        let answer = self.fault(Method::Known).await?;
        answer.of(self.inner.known(events).await)
    }

    async fn quarantine(&self, refused: Vec<Quarantined>) -> Result<(), StoreError> {
        let answer = self.fault(Method::Quarantine).await?;
        answer.of(self.inner.quarantine(refused).await)
    }

    async fn purge_quarantine(
        &self,
        before: Timestamp,
        limit: PageLimit,
    ) -> Result<u64, StoreError> {
        let answer = self.fault(Method::PurgeQuarantine).await?;
        answer.of(self.inner.purge_quarantine(before, limit).await)
    }

    async fn quarantined(&self, filter: QuarantineFilter) -> Result<Vec<Quarantined>, StoreError> {
        let answer = self.fault(Method::Quarantined).await?;
        answer.of(self.inner.quarantined(filter).await)
    }

    async fn log_epoch(&self) -> Result<LogEpoch, StoreError> {
        let answer = self.fault(Method::LogEpoch).await?;
        answer.of(self.inner.log_epoch().await)
    }

    async fn begin_log_epoch(&self) -> Result<LogEpoch, StoreError> {
        let answer = self.fault(Method::BeginLogEpoch).await?;
        answer.of(self.inner.begin_log_epoch().await)
    }

    async fn take_stream(&self, take: StreamTake) -> Result<StreamTaken, StoreError> {
        let answer = self.fault(Method::TakeStream).await?;
        answer.of(self.inner.take_stream(take).await)
    }

    async fn renew_stream(
        &self,
        owner: StreamOwner,
        lease_until: Timestamp,
    ) -> Result<bool, StoreError> {
        let answer = self.fault(Method::RenewStream).await?;
        answer.of(self.inner.renew_stream(owner, lease_until).await)
    }

    async fn move_stream(&self, owner: StreamOwner, to: StreamMove) -> Result<bool, StoreError> {
        let answer = self.fault(Method::MoveStream).await?;
        answer.of(self.inner.move_stream(owner, to).await)
    }

    async fn release_stream(&self, owner: StreamOwner) -> Result<bool, StoreError> {
        let answer = self.fault(Method::ReleaseStream).await?;
        answer.of(self.inner.release_stream(owner).await)
    }

    async fn stream_cursor(&self, name: &Text) -> Result<Option<StreamCursor>, StoreError> {
        let answer = self.fault(Method::StreamCursor).await?;
        answer.of(self.inner.stream_cursor(name).await)
    }

    async fn last_dropped(&self) -> Result<i64, StoreError> {
        let answer = self.fault(Method::LastDropped).await?;
        answer.of(self.inner.last_dropped().await)
    }

    async fn messages(
        &self,
        after: FeedPosition,
        limit: FeedLimit,
    ) -> Result<FeedBatch<FeedItem>, StoreError> {
        let answer = self.fault(Method::Messages).await?;
        answer.of(self.inner.messages(after, limit).await)
    }

    async fn feed_lag(&self, after: FeedPosition) -> Result<FeedLag, StoreError> {
        let answer = self.fault(Method::FeedLag).await?;
        answer.of(self.inner.feed_lag(after).await)
    }
}

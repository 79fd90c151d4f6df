//! How events leave and come in, in the database.

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{FeedPosition, OutboxId, Text, Timestamp};

use super::{PostgresStore, known, outbox, stream};
use crate::error::StoreError;
use crate::model::{
    Claimed, EventKey, Failed, FeedBatch, FeedItem, FeedLag, FeedLimit, Known, LogEpoch,
    OutboxClaim, OutboxFacts, OutboxFailure, OutboxFilter, OutboxMark, OutboxRow, QuarantineFilter,
    Quarantined, StreamCursor, StreamMove, StreamOwner, StreamTake, StreamTaken,
};
use crate::outlets::Outlets;

#[async_trait]
impl Outlets for PostgresStore {
    async fn claim_outbox(&self, claim: OutboxClaim) -> Result<Claimed, StoreError> {
        outbox::claim(&self.pool, &claim).await
    }

    async fn mark_published(
        &self,
        marks: Vec<OutboxMark>,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        outbox::mark_published(&self.pool, &marks, now).await
    }

    async fn mark_failed(&self, failure: OutboxFailure) -> Result<Option<Failed>, StoreError> {
        outbox::mark_failed(&self.pool, &failure).await
    }

    async fn outbox_pending(&self, now: Timestamp) -> Result<u64, StoreError> {
        outbox::number(&self.pool, outbox::PENDING, now).await
    }

    async fn outbox(&self, filter: OutboxFilter) -> Result<Vec<OutboxRow>, StoreError> {
        outbox::list(&self.lists, &filter).await
    }

    async fn outbox_facts(&self) -> Result<OutboxFacts, StoreError> {
        outbox::facts(&self.lists).await
    }

    async fn newest_outbox(&self) -> Result<Option<Timestamp>, StoreError> {
        outbox::newest(&self.lists).await
    }

    async fn replay_outbox(&self, rows: Vec<OutboxId>, now: Timestamp) -> Result<u64, StoreError> {
        outbox::settle(&self.lists, outbox::REPLAY, &rows, now).await
    }

    async fn discard_outbox(&self, rows: Vec<OutboxId>, now: Timestamp) -> Result<u64, StoreError> {
        outbox::settle(&self.lists, outbox::DISCARD, &rows, now).await
    }

    async fn old_outbox(&self, before: Timestamp) -> Result<u64, StoreError> {
        outbox::number(&self.lists, outbox::OLD, before).await
    }

    async fn purge_outbox(&self, before: Timestamp, limit: PageLimit) -> Result<u64, StoreError> {
        outbox::purge(&self.lists, before, limit).await
    }

    async fn known(&self, events: Vec<EventKey>) -> Result<Known, StoreError> {
        known::known(&self.pool, &events).await
    }

    async fn quarantine(&self, refused: Vec<Quarantined>) -> Result<(), StoreError> {
        outbox::quarantine(&self.lists, &refused).await
    }

    async fn purge_quarantine(
        &self,
        before: Timestamp,
        limit: PageLimit,
    ) -> Result<u64, StoreError> {
        outbox::purge_quarantine(&self.lists, before, limit).await
    }

    async fn quarantined(&self, filter: QuarantineFilter) -> Result<Vec<Quarantined>, StoreError> {
        outbox::quarantined(&self.lists, &filter).await
    }

    async fn log_epoch(&self) -> Result<LogEpoch, StoreError> {
        stream::log_epoch(&self.lists).await
    }

    async fn begin_log_epoch(&self) -> Result<LogEpoch, StoreError> {
        stream::begin_log_epoch(&self.lists).await
    }

    async fn take_stream(&self, take: StreamTake) -> Result<StreamTaken, StoreError> {
        stream::take(&self.lists, &take).await
    }

    async fn renew_stream(
        &self,
        owner: StreamOwner,
        lease_until: Timestamp,
    ) -> Result<bool, StoreError> {
        stream::renew(&self.pool, &owner, lease_until).await
    }

    async fn move_stream(&self, owner: StreamOwner, to: StreamMove) -> Result<bool, StoreError> {
        stream::go(&self.pool, &owner, to).await
    }

    async fn release_stream(&self, owner: StreamOwner) -> Result<bool, StoreError> {
        stream::release(&self.pool, &owner).await
    }

    async fn stream_cursor(&self, name: &Text) -> Result<Option<StreamCursor>, StoreError> {
        stream::cursor(&self.pool, name).await
    }

    async fn last_dropped(&self) -> Result<i64, StoreError> {
        stream::last_dropped(&self.lists).await
    }

    async fn messages(
        &self,
        after: FeedPosition,
        limit: FeedLimit,
    ) -> Result<FeedBatch<FeedItem>, StoreError> {
        stream::messages(&self.pool, &self.feed_base, after, limit).await
    }

    async fn feed_lag(&self, after: FeedPosition) -> Result<FeedLag, StoreError> {
        stream::lag(&self.lists, after).await
    }
}

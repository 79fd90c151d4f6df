//! How events leave and come in, in the file.

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{FeedPosition, OutboxId, Text, Timestamp};

use super::writer::Durability;
use super::{SqliteStore, outbox, query, stream};
use crate::error::StoreError;
use crate::model::{
    Claimed, EventKey, Failed, FeedBatch, FeedItem, FeedLag, FeedLimit, Known, LogEpoch,
    OutboxClaim, OutboxFacts, OutboxFailure, OutboxFilter, OutboxMark, OutboxRow, QuarantineFilter,
    Quarantined, StreamCursor, StreamMove, StreamOwner, StreamTake, StreamTaken,
};
use crate::outlets::Outlets;

#[async_trait]
impl Outlets for SqliteStore {
    /// A claim that a loss of power forgets is made again: what was published then goes out twice,
    /// as after any crash of a publisher.
    async fn claim_outbox(&self, claim: OutboxClaim) -> Result<Claimed, StoreError> {
        self.writer
            .run(Durability::Forgettable, move |connection| {
                outbox::claim(connection, &claim)
            })
            .await
    }

    async fn mark_published(
        &self,
        marks: Vec<OutboxMark>,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        self.writer
            .run(Durability::Synced, move |connection| {
                outbox::mark_published(connection, &marks, now)
            })
            .await
    }

    async fn mark_failed(&self, failure: OutboxFailure) -> Result<Option<Failed>, StoreError> {
        self.writer
            .run(Durability::Synced, move |connection| {
                outbox::mark_failed(connection, &failure)
            })
            .await
    }

    async fn outbox_pending(&self, now: Timestamp) -> Result<u64, StoreError> {
        self.readers
            .run(move |connection| outbox::number(connection, outbox::PENDING, now))
            .await
    }

    async fn outbox(&self, filter: OutboxFilter) -> Result<Vec<OutboxRow>, StoreError> {
        self.readers
            .run(move |connection| outbox::list(connection, &filter))
            .await
    }

    async fn outbox_facts(&self) -> Result<OutboxFacts, StoreError> {
        self.readers.run(outbox::facts).await
    }

    async fn newest_outbox(&self) -> Result<Option<Timestamp>, StoreError> {
        self.readers.run(outbox::newest).await
    }

    async fn replay_outbox(&self, rows: Vec<OutboxId>, now: Timestamp) -> Result<u64, StoreError> {
        self.writer
            .run(Durability::Synced, move |connection| {
                outbox::settle(connection, outbox::REPLAY, &rows, now)
            })
            .await
    }

    async fn discard_outbox(&self, rows: Vec<OutboxId>, now: Timestamp) -> Result<u64, StoreError> {
        self.writer
            .run(Durability::Synced, move |connection| {
                outbox::settle(connection, outbox::DISCARD, &rows, now)
            })
            .await
    }

    async fn old_outbox(&self, before: Timestamp) -> Result<u64, StoreError> {
        self.readers
            .run(move |connection| outbox::number(connection, outbox::OLD, before))
            .await
    }

    async fn purge_outbox(&self, before: Timestamp, limit: PageLimit) -> Result<u64, StoreError> {
        self.writer
            .run(Durability::Forgettable, move |connection| {
                outbox::purge(connection, before, limit)
            })
            .await
    }

    async fn known(&self, events: Vec<EventKey>) -> Result<Known, StoreError> {
        self.readers
            .run(move |connection| query::known(connection, &events))
            .await
    }

    async fn quarantine(&self, refused: Vec<Quarantined>) -> Result<(), StoreError> {
        let bytes = refused.iter().map(|it| it.raw.len()).sum();
        self.writer
            .run_large(bytes, move |connection, _| {
                outbox::quarantine(connection, &refused)
            })
            .await
    }

    async fn purge_quarantine(
        &self,
        before: Timestamp,
        limit: PageLimit,
    ) -> Result<u64, StoreError> {
        self.writer
            .run(Durability::Forgettable, move |connection| {
                outbox::purge_quarantine(connection, before, limit)
            })
            .await
    }

    async fn quarantined(&self, filter: QuarantineFilter) -> Result<Vec<Quarantined>, StoreError> {
        self.readers
            .run(move |connection| outbox::quarantined(connection, &filter))
            .await
    }

    async fn log_epoch(&self) -> Result<LogEpoch, StoreError> {
        self.readers.run(stream::log_epoch).await
    }

    async fn begin_log_epoch(&self) -> Result<LogEpoch, StoreError> {
        self.writer
            .run(Durability::Synced, stream::begin_log_epoch)
            .await
    }

    async fn take_stream(&self, take: StreamTake) -> Result<StreamTaken, StoreError> {
        self.writer
            .run(Durability::Synced, move |connection| {
                stream::take(connection, &take)
            })
            .await
    }

    async fn renew_stream(
        &self,
        owner: StreamOwner,
        lease_until: Timestamp,
    ) -> Result<bool, StoreError> {
        self.writer
            .run(Durability::Forgettable, move |connection| {
                stream::renew(connection, &owner, lease_until)
            })
            .await
    }

    /// A cursor that a loss of power moves back publishes once more what is out already.
    async fn move_stream(&self, owner: StreamOwner, to: StreamMove) -> Result<bool, StoreError> {
        self.writer
            .run(Durability::Forgettable, move |connection| {
                stream::go(connection, &owner, to)
            })
            .await
    }

    async fn release_stream(&self, owner: StreamOwner) -> Result<bool, StoreError> {
        self.writer
            .run(Durability::Forgettable, move |connection| {
                stream::release(connection, &owner)
            })
            .await
    }

    async fn stream_cursor(&self, name: &Text) -> Result<Option<StreamCursor>, StoreError> {
        let name = name.clone();
        self.readers
            .run(move |connection| stream::cursor(connection, &name))
            .await
    }

    async fn last_dropped(&self) -> Result<i64, StoreError> {
        self.readers.run(stream::last_dropped).await
    }

    async fn messages(
        &self,
        after: FeedPosition,
        limit: FeedLimit,
    ) -> Result<FeedBatch<FeedItem>, StoreError> {
        self.readers
            .run(move |connection| stream::messages(connection, after, limit))
            .await
    }

    async fn feed_lag(&self, after: FeedPosition) -> Result<FeedLag, StoreError> {
        self.readers
            .run(move |connection| stream::lag(connection, after))
            .await
    }
}

//! How events leave and come in.

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{FeedPosition, OutboxId, Text, Timestamp};

use super::SqliteStore;
use crate::error::StoreError;
use crate::model::{
    ClaimedMessage, EventKey, Failed, FeedLag, Known, LogEpoch, OutboxClaim, OutboxFacts,
    OutboxFailure, OutboxFilter, OutboxMark, OutboxRow, QuarantineFilter, Quarantined,
    StreamCursor, StreamMove, StreamOwner, StreamTake, StreamTaken,
};
use crate::outlets::Outlets;

fn not_yet<T>() -> Result<T, StoreError> {
    Err(StoreError::fatal("not built yet"))
}

#[async_trait]
impl Outlets for SqliteStore {
    async fn claim_outbox(&self, _claim: OutboxClaim) -> Result<Vec<ClaimedMessage>, StoreError> {
        not_yet()
    }

    async fn mark_published(
        &self,
        _marks: Vec<OutboxMark>,
        _now: Timestamp,
    ) -> Result<u64, StoreError> {
        not_yet()
    }

    async fn mark_failed(&self, _failure: OutboxFailure) -> Result<Option<Failed>, StoreError> {
        not_yet()
    }

    async fn outbox_pending(&self, _now: Timestamp) -> Result<u64, StoreError> {
        not_yet()
    }

    async fn outbox(&self, _filter: OutboxFilter) -> Result<Vec<OutboxRow>, StoreError> {
        not_yet()
    }

    async fn outbox_facts(&self) -> Result<OutboxFacts, StoreError> {
        not_yet()
    }

    async fn replay_outbox(
        &self,
        _rows: Vec<OutboxId>,
        _now: Timestamp,
    ) -> Result<u64, StoreError> {
        not_yet()
    }

    async fn discard_outbox(
        &self,
        _rows: Vec<OutboxId>,
        _now: Timestamp,
    ) -> Result<u64, StoreError> {
        not_yet()
    }

    async fn purge_outbox(&self, _before: Timestamp, _limit: PageLimit) -> Result<u64, StoreError> {
        not_yet()
    }

    async fn known(&self, _events: Vec<EventKey>) -> Result<Known, StoreError> {
        not_yet()
    }

    async fn quarantine(&self, _refused: Vec<Quarantined>) -> Result<(), StoreError> {
        not_yet()
    }

    async fn quarantined(&self, _filter: QuarantineFilter) -> Result<Vec<Quarantined>, StoreError> {
        not_yet()
    }

    async fn log_epoch(&self) -> Result<LogEpoch, StoreError> {
        not_yet()
    }

    async fn begin_log_epoch(&self) -> Result<LogEpoch, StoreError> {
        not_yet()
    }

    async fn take_stream(&self, _take: StreamTake) -> Result<StreamTaken, StoreError> {
        not_yet()
    }

    async fn renew_stream(
        &self,
        _owner: StreamOwner,
        _lease_until: Timestamp,
    ) -> Result<bool, StoreError> {
        not_yet()
    }

    async fn move_stream(&self, _owner: StreamOwner, _to: StreamMove) -> Result<bool, StoreError> {
        not_yet()
    }

    async fn release_stream(&self, _owner: StreamOwner) -> Result<bool, StoreError> {
        not_yet()
    }

    async fn stream_cursor(&self, _name: &Text) -> Result<Option<StreamCursor>, StoreError> {
        not_yet()
    }

    async fn feed_lag(&self, _after: FeedPosition) -> Result<FeedLag, StoreError> {
        not_yet()
    }
}

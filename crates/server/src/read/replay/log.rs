//! Where a log is read from.

use std::sync::Arc;

use async_trait::async_trait;
use noetl_store::{Execution, LogPage, Snapshot, SqliteReader, Store, StoreError};
use noetl_types::{EventId, ExecutionId, StoredEvent, Version};

use super::snapshot_key;

/// A place that holds logs: a store, or a file that nobody needs to serve.
#[async_trait]
pub trait ReplayLog: Send + Sync {
    /// An execution.
    async fn execution(&self, execution_id: ExecutionId) -> Result<Option<Execution>, StoreError>;

    /// Whether retention has dropped it.
    async fn is_gone(&self, execution_id: ExecutionId) -> Result<bool, StoreError>;

    /// The events behind a version, in order.
    async fn events(
        &self,
        execution_id: ExecutionId,
        after: Version,
        page: LogPage,
    ) -> Result<Vec<StoredEvent>, StoreError>;

    /// One event, by its id.
    async fn event(
        &self,
        execution_id: ExecutionId,
        event_id: EventId,
    ) -> Result<Option<StoredEvent>, StoreError>;

    /// The newest folded state of this fold at a version or before.
    async fn snapshot(
        &self,
        execution_id: ExecutionId,
        at_most: Version,
    ) -> Result<Option<Snapshot>, StoreError>;
}

/// Both know the same calls; only the snapshot is asked for by its kind.
macro_rules! replay_log {
    ($place:ty, |$log:ident| $inner:expr) => {
        #[async_trait]
        impl ReplayLog for $place {
            async fn execution(&self, id: ExecutionId) -> Result<Option<Execution>, StoreError> {
                let $log = self;
                $inner.execution(id).await
            }

            async fn is_gone(&self, id: ExecutionId) -> Result<bool, StoreError> {
                let $log = self;
                $inner.is_gone(id).await
            }

            async fn events(
                &self,
                id: ExecutionId,
                after: Version,
                page: LogPage,
            ) -> Result<Vec<StoredEvent>, StoreError> {
                let $log = self;
                $inner.events(id, after, page).await
            }

            async fn event(
                &self,
                id: ExecutionId,
                event_id: EventId,
            ) -> Result<Option<StoredEvent>, StoreError> {
                let $log = self;
                $inner.event(id, event_id).await
            }

            async fn snapshot(
                &self,
                id: ExecutionId,
                at_most: Version,
            ) -> Result<Option<Snapshot>, StoreError> {
                let $log = self;
                $inner.snapshot(id, &snapshot_key(), at_most).await
            }
        }
    };
}

replay_log!(Arc<dyn Store>, |store| store.as_ref());
replay_log!(SqliteReader, |reader| reader);

//! A file that is only looked at, beside whoever writes to it or after everybody has left.

use std::path::Path;
use std::sync::Arc;

use noetl_types::{EventId, ExecutionId, StoredEvent, Version};

use super::open;
use super::query;
use super::readers::Readers;
use crate::error::StoreError;
use crate::model::{Execution, LogPage, Snapshot, SnapshotKey};

/// The logs of a file. It takes no lock and writes nothing.
#[derive(Debug)]
pub struct SqliteReader {
    readers: Arc<Readers>,
}

impl SqliteReader {
    /// Opens a file that is there and whose tables are those of this program. It blocks, and is done
    /// once.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let connection = open::open_to_read(path)?;
        Ok(Self {
            readers: Arc::new(Readers::new(vec![connection])),
        })
    }

    /// An execution.
    pub async fn execution(
        &self,
        execution_id: ExecutionId,
    ) -> Result<Option<Execution>, StoreError> {
        self.readers
            .run(move |connection| query::execution(connection, execution_id))
            .await
    }

    /// Whether retention has dropped the range of ids that an execution lies in.
    pub async fn is_gone(&self, execution_id: ExecutionId) -> Result<bool, StoreError> {
        self.readers
            .run(move |connection| query::is_gone(connection, execution_id))
            .await
    }

    /// The events behind a version, in order; fewer than a page only at the end of the log.
    pub async fn events(
        &self,
        execution_id: ExecutionId,
        after: Version,
        page: LogPage,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        self.readers
            .run(move |connection| query::events(connection, execution_id, after, page))
            .await
    }

    /// One event of an execution, by its id.
    pub async fn event(
        &self,
        execution_id: ExecutionId,
        event_id: EventId,
    ) -> Result<Option<StoredEvent>, StoreError> {
        self.readers
            .run(move |connection| query::event(connection, execution_id, event_id))
            .await
    }

    /// The newest snapshot of an execution that was taken at a version or before.
    pub async fn snapshot(
        &self,
        execution_id: ExecutionId,
        key: &SnapshotKey,
        at_most: Version,
    ) -> Result<Option<Snapshot>, StoreError> {
        let key = key.clone();
        self.readers
            .run(move |connection| query::snapshot(connection, execution_id, &key, at_most))
            .await
    }
}

//! Snapshots and results of executions.

use std::sync::Arc;

use async_trait::async_trait;
use noetl_types::{ExecutionId, ExecutionVersion, ResultId};

use crate::blobs;
use crate::error::StoreError;
use crate::model::{
    PutResultError, ResultPut, Snapshot, SnapshotKey, StoredResult, redundant_snapshot,
};
use crate::row::{ResultRow, SNAPSHOT, STORED_RESULT, ToRow as _, cells};
use crate::sql::{Database, Durability, Statement};

/// The part of a [`crate::Store`] for snapshots and results.
#[async_trait]
pub trait SnapshotStore {
    /// Returns the newest snapshot of an execution at or before a version.
    async fn find_snapshot(
        &self,
        execution_id: ExecutionId,
        key: &SnapshotKey,
        max_version: ExecutionVersion,
    ) -> Result<Option<Snapshot>, StoreError>;

    /// Stores a snapshot. An existing snapshot of the same kind and version is left unchanged. At
    /// most [`crate::MAX_SNAPSHOTS`] of a kind are stored. Beyond that, the ones closest to their
    /// predecessor and successor are deleted.
    async fn write_snapshot(&self, snapshot: Snapshot) -> Result<(), StoreError>;

    /// Deletes the snapshot of a version that proved unusable. A missing snapshot is no error.
    async fn delete_snapshot(
        &self,
        execution_id: ExecutionId,
        key: &SnapshotKey,
        version: ExecutionVersion,
    ) -> Result<(), StoreError>;

    /// Stores a result outside of an append. Storing the same result again succeeds.
    ///
    /// If the store has a blob folder, a large result becomes a file. Otherwise it becomes a row.
    /// It is durable once the call returns.
    async fn put_result(&self, put: ResultPut) -> Result<(), PutResultError>;

    /// Returns a result of an execution, even if it has expired, or `None` if there is no such id.
    async fn find_result(
        &self,
        execution_id: ExecutionId,
        result_id: ResultId,
    ) -> Result<Option<StoredResult>, StoreError>;
}

pub(crate) static NEWEST_SNAPSHOT: Statement = Statement::select(
    &SNAPSHOT,
    "WHERE execution_id = $1 AND kind = $2 AND fold_version = $3::bigint
         AND version <= $4::bigint
     ORDER BY version DESC LIMIT 1",
);

static SNAPSHOT_VERSIONS: Statement = Statement::new(
    "SELECT version FROM projection_snapshot
     WHERE execution_id = $1 AND kind = $2 AND fold_version = $3::bigint ORDER BY version",
);

static INSERT_SNAPSHOT: Statement = Statement::insert(&SNAPSHOT, "ON CONFLICT DO NOTHING");

static DELETE_SNAPSHOT: Statement = Statement::new(
    "DELETE FROM projection_snapshot
     WHERE execution_id = $1 AND kind = $2 AND fold_version = $3::bigint AND version = $4::bigint",
);

static RESULT_BY_ID: Statement =
    Statement::select(&STORED_RESULT, "WHERE execution_id = $1 AND result_id = $2");

static INSERT_RESULT: Statement =
    Statement::insert(&STORED_RESULT, "ON CONFLICT (execution_id, result_id) DO NOTHING")
        .with_auto_plan();

#[async_trait]
impl<D: Database> SnapshotStore for D {
    async fn find_snapshot(
        &self,
        execution_id: ExecutionId,
        key: &SnapshotKey,
        max_version: ExecutionVersion,
    ) -> Result<Option<Snapshot>, StoreError> {
        let params = cells![execution_id, key.kind, key.fold_version, max_version];
        self.query_first(&NEWEST_SNAPSHOT, params).await
    }

    async fn write_snapshot(&self, snapshot: Snapshot) -> Result<(), StoreError> {
        self.execute(Durability::Synced, &INSERT_SNAPSHOT, snapshot.to_row()).await?;
        let Snapshot { execution_id, key, .. } = &snapshot;
        let params = cells![execution_id, key.kind, key.fold_version];
        let versions = self.query(&SNAPSHOT_VERSIONS, params).await?;
        let versions: Vec<_> = versions.into_iter().map(|(version,)| version).collect();
        match redundant_snapshot(&versions) {
            Some(version) => self.delete_snapshot(*execution_id, key, version).await,
            None => Ok(()),
        }
    }

    async fn delete_snapshot(
        &self,
        execution_id: ExecutionId,
        key: &SnapshotKey,
        version: ExecutionVersion,
    ) -> Result<(), StoreError> {
        let params = cells![execution_id, key.kind, key.fold_version, version];
        self.execute(Durability::Synced, &DELETE_SNAPSHOT, params).await.map(drop)
    }

    async fn put_result(&self, put: ResultPut) -> Result<(), PutResultError> {
        let result = put.into_stored()?;
        let (execution_id, result_id) = (result.execution_id, result.result_id);
        let (bytes, digest, now) = (Arc::clone(&result.bytes), result.sha256, result.created_at);
        let row = blobs::store_large_result(self.blobs(), result).await?;
        if self.execute(Durability::Synced, &INSERT_RESULT, row.to_row()).await? == 0 {
            let id = cells![execution_id, result_id];
            let existing: Option<ResultRow> = self.query_first(&RESULT_BY_ID, id).await?;
            // The result existed during the insert, and may have been deleted since.
            let deleted = || StoreError::retry("a result with this id was just deleted; try again");
            let existing = existing.ok_or_else(deleted)?.result;
            row.result.check_same_digest(existing.sha256)?;
        }
        blobs::rewrite_missing_blob(self.blobs(), row.object_key, bytes, digest, now).await?;
        Ok(())
    }

    async fn find_result(
        &self,
        execution_id: ExecutionId,
        result_id: ResultId,
    ) -> Result<Option<StoredResult>, StoreError> {
        let row = self.query_first(&RESULT_BY_ID, cells![execution_id, result_id]).await?;
        blobs::load_result_bytes(self.blobs(), row).await
    }
}

//! Lists for the verification of a store: all rows of a kind, whoever owns them.

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{
    CatalogId, CommandId, ExecutionId, ExecutionStatus, ExecutionVersion, ResultId, Text,
};

use crate::error::StoreError;
use crate::model::{CatalogEntry, Command, DueTimer, SnapshotKey};
use crate::row::{CATALOG, COMMAND, TIMER, cells};
use crate::sql::{Database, Statement};

/// The part of a [`crate::Store`] that verification reads.
#[async_trait]
pub trait VerificationStore {
    /// Returns the executions that have events, in the order of their ids, after one.
    async fn list_logged_executions(
        &self,
        after: Option<ExecutionId>,
        limit: PageLimit,
    ) -> Result<Vec<ExecutionId>, StoreError>;

    /// Returns executions whose column `ended` contradicts their status, in the order of their ids,
    /// after one.
    async fn list_wrongly_ended(
        &self,
        after: Option<ExecutionId>,
        limit: PageLimit,
    ) -> Result<Vec<ExecutionId>, StoreError>;

    /// Returns the snapshots of an execution, in the order of their versions.
    async fn list_snapshot_versions(
        &self,
        execution_id: ExecutionId,
    ) -> Result<Vec<(SnapshotKey, ExecutionVersion)>, StoreError>;

    /// Returns the commands of an execution in the order of their ids, after one.
    async fn list_execution_commands(
        &self,
        execution_id: ExecutionId,
        after: Option<CommandId>,
        limit: PageLimit,
    ) -> Result<Vec<Command>, StoreError>;

    /// Returns the timers of an execution in the order of their ids, after one.
    async fn list_execution_timers(
        &self,
        execution_id: ExecutionId,
        after: &Text,
        limit: PageLimit,
    ) -> Result<Vec<DueTimer>, StoreError>;

    /// Returns the ids of the results of an execution in order, after one.
    async fn list_result_ids(
        &self,
        execution_id: ExecutionId,
        after: Option<ResultId>,
        limit: PageLimit,
    ) -> Result<Vec<ResultId>, StoreError>;

    /// Returns all versions of the definitions of all tenants in the order of their ids, after one.
    async fn list_all_definitions(
        &self,
        after: Option<CatalogId>,
        limit: PageLimit,
    ) -> Result<Vec<CatalogEntry>, StoreError>;
}

/// Finds each execution with one step through the index, so that the length of logs does not
/// matter.
static LIST_LOGGED_EXECUTIONS: Statement = Statement::new(
    "WITH RECURSIVE logged (id) AS (
         SELECT min(execution_id) FROM event WHERE execution_id > $1::bigint
         UNION ALL
         SELECT (SELECT min(execution_id) FROM event WHERE execution_id > logged.id)
         FROM logged WHERE logged.id IS NOT NULL
     )
     SELECT id FROM logged WHERE id IS NOT NULL LIMIT $2::bigint",
)
.with_auto_plan();

static LIST_WRONGLY_ENDED: Statement = Statement::build(|| {
    let ended = ExecutionStatus::ALL.iter().filter(|status| status.is_terminal());
    let ended: Vec<_> = ended.map(|status| format!("'{}'", status.as_str())).collect();
    format!(
        "SELECT execution_id FROM execution
         WHERE ended <> (status IN ({})) AND execution_id > $1::bigint
         ORDER BY execution_id LIMIT $2::bigint",
        ended.join(", ")
    )
})
.with_auto_plan();

static LIST_SNAPSHOT_VERSIONS: Statement = Statement::new(
    "SELECT kind, fold_version, version FROM projection_snapshot WHERE execution_id = $1
     ORDER BY version, kind, fold_version",
);

static LIST_EXECUTION_COMMANDS: Statement = Statement::select(
    &COMMAND,
    "WHERE execution_id = $1 AND command_id > $2::bigint ORDER BY command_id LIMIT $3::bigint",
);

static LIST_EXECUTION_TIMERS: Statement = Statement::select(
    &TIMER,
    "WHERE execution_id = $1 AND timer_id > $2 ORDER BY timer_id LIMIT $3::bigint",
);

static LIST_RESULT_IDS: Statement = Statement::new(
    "SELECT result_id FROM result_store WHERE execution_id = $1 AND result_id > $2::bigint
     ORDER BY result_id LIMIT $3::bigint",
);

static LIST_ALL_DEFINITIONS: Statement = Statement::select(
    &CATALOG,
    "WHERE catalog_id > $1::bigint ORDER BY catalog_id LIMIT $2::bigint",
)
.with_auto_plan();

#[async_trait]
impl<D: Database> VerificationStore for D {
    async fn list_logged_executions(
        &self,
        after: Option<ExecutionId>,
        limit: PageLimit,
    ) -> Result<Vec<ExecutionId>, StoreError> {
        let after = after.map_or(0, ExecutionId::get);
        let ids = self.query(&LIST_LOGGED_EXECUTIONS, cells![after, limit]).await?;
        Ok(ids.into_iter().map(|(id,)| id).collect())
    }

    async fn list_wrongly_ended(
        &self,
        after: Option<ExecutionId>,
        limit: PageLimit,
    ) -> Result<Vec<ExecutionId>, StoreError> {
        let after = after.map_or(0, ExecutionId::get);
        let ids = self.query(&LIST_WRONGLY_ENDED, cells![after, limit]).await?;
        Ok(ids.into_iter().map(|(id,)| id).collect())
    }

    async fn list_snapshot_versions(
        &self,
        execution_id: ExecutionId,
    ) -> Result<Vec<(SnapshotKey, ExecutionVersion)>, StoreError> {
        let rows = self.query(&LIST_SNAPSHOT_VERSIONS, cells![execution_id]).await?;
        let to_entry =
            |(kind, fold_version, version)| (SnapshotKey { kind, fold_version }, version);
        Ok(rows.into_iter().map(to_entry).collect())
    }

    async fn list_execution_commands(
        &self,
        execution_id: ExecutionId,
        after: Option<CommandId>,
        limit: PageLimit,
    ) -> Result<Vec<Command>, StoreError> {
        let after = after.map_or(0, CommandId::get);
        self.query(&LIST_EXECUTION_COMMANDS, cells![execution_id, after, limit]).await
    }

    async fn list_execution_timers(
        &self,
        execution_id: ExecutionId,
        after: &Text,
        limit: PageLimit,
    ) -> Result<Vec<DueTimer>, StoreError> {
        self.query(&LIST_EXECUTION_TIMERS, cells![execution_id, after, limit]).await
    }

    async fn list_result_ids(
        &self,
        execution_id: ExecutionId,
        after: Option<ResultId>,
        limit: PageLimit,
    ) -> Result<Vec<ResultId>, StoreError> {
        let after = after.map_or(0, ResultId::get);
        let ids = self.query(&LIST_RESULT_IDS, cells![execution_id, after, limit]).await?;
        Ok(ids.into_iter().map(|(id,)| id).collect())
    }

    async fn list_all_definitions(
        &self,
        after: Option<CatalogId>,
        limit: PageLimit,
    ) -> Result<Vec<CatalogEntry>, StoreError> {
        let after = after.map_or(0, CatalogId::get);
        self.query(&LIST_ALL_DEFINITIONS, cells![after, limit]).await
    }
}

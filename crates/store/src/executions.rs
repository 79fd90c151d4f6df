//! Executions and their timers.

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{ExecutionId, ExecutionVersion, TenantId, Text, Timestamp};

use crate::error::StoreError;
use crate::model::{
    DueTimer, Execution, ExecutionFilter, ExecutionPage, ExecutionView, LIVE_COUNT_READ_FACTOR,
    StatusCounts, TenantCounts,
};
use crate::row::{EXECUTION, cells, encode_view};
use crate::sql::{Database, Durability, Statement, select_sql};

/// The part of a [`crate::Store`] that finds and counts executions.
#[async_trait]
pub trait ExecutionStore {
    async fn find_execution(
        &self,
        execution_id: ExecutionId,
    ) -> Result<Option<Execution>, StoreError>;

    /// Returns a page of executions, newest first.
    async fn list_executions(&self, filter: ExecutionFilter) -> Result<ExecutionPage, StoreError>;

    /// Returns the execution ids of all tenants in order, after one.
    async fn list_execution_ids(
        &self,
        after: Option<ExecutionId>,
        limit: PageLimit,
    ) -> Result<Vec<ExecutionId>, StoreError>;

    /// Counts the executions and definitions of a tenant.
    async fn tenant_counts(&self, tenant_id: &TenantId) -> Result<TenantCounts, StoreError>;

    /// Counts the executions of all tenants by status. Statuses without executions are omitted.
    async fn count_executions_by_status(&self) -> Result<StatusCounts, StoreError>;

    /// Counts the running executions of a tenant that this system drives, up to `max_count`. Some
    /// may be missed if most running executions are projected, because the number of rows read is
    /// bounded by `max_count`.
    async fn count_live_executions(
        &self,
        tenant_id: &TenantId,
        max_count: u32,
    ) -> Result<u32, StoreError>;

    /// Counts the running descendants of an execution that has no parent, up to `max_count`.
    async fn count_live_descendants(
        &self,
        root: ExecutionId,
        max_count: u32,
    ) -> Result<u32, StoreError>;

    /// True if the parent of a child, or of an ancestor of the child, has a follow-up whose id is a
    /// prefix followed by the id of that child or ancestor.
    async fn has_follow_up_on_path(
        &self,
        parent: ExecutionId,
        child: ExecutionId,
        id_prefix: &Text,
    ) -> Result<bool, StoreError>;

    /// True if retention has dropped the id range that contains the execution.
    async fn is_dropped(&self, execution_id: ExecutionId) -> Result<bool, StoreError>;

    /// Overwrites the view of an execution with the one derived from its log up to a version.
    /// Returns `false` if the log has grown since, or if there is no such execution.
    async fn rewrite_execution_view(
        &self,
        execution_id: ExecutionId,
        version: ExecutionVersion,
        view: ExecutionView,
    ) -> Result<bool, StoreError>;

    /// Returns the timers that are due, earliest first, after the last one of the previous page.
    /// Timers of paused executions do not fire and are omitted.
    async fn list_due_timers(
        &self,
        now: Timestamp,
        after: Option<&DueTimer>,
        limit: PageLimit,
    ) -> Result<Vec<DueTimer>, StoreError>;
}

pub(crate) static EXECUTION_BY_ID: Statement =
    Statement::select(&EXECUTION, "WHERE execution_id = $1");

/// Lists executions of any status, and of one status. They are two statements because they use
/// different indexes, and SQLite plans a statement before its parameters are bound.
pub(crate) static LIST_EXECUTIONS: Statement =
    Statement::build(|| list_executions_sql("$2::text IS NULL")).with_auto_plan();

pub(crate) static LIST_EXECUTIONS_BY_STATUS: Statement =
    Statement::build(|| list_executions_sql("status = $2")).with_auto_plan();

fn list_executions_sql(condition: &str) -> String {
    let rest = format!(
        "WHERE tenant_id = $1 AND {condition} AND ($3::text IS NULL OR path = $3)
             AND ($4::bigint IS NULL OR parent_execution_id = $4)
             AND ($5::timestamptz IS NULL
                 OR (started_at, execution_id) < ($5::timestamptz, $6::bigint))
         ORDER BY started_at DESC, execution_id DESC LIMIT $7::bigint"
    );
    select_sql(&EXECUTION, &rest)
}

static LIST_EXECUTION_IDS: Statement = Statement::new(
    "SELECT execution_id FROM execution WHERE $1::bigint IS NULL OR execution_id > $1
     ORDER BY execution_id LIMIT $2::bigint",
)
.with_auto_plan();

static COUNT_BY_STATUS: Statement =
    Statement::new("SELECT status, count(*) FROM execution GROUP BY status").with_auto_plan();

static COUNT_TENANT_BY_STATUS: Statement =
    Statement::new("SELECT status, count(*) FROM execution WHERE tenant_id = $1 GROUP BY status")
        .with_auto_plan();

/// Counts definitions by kind. Only the newest version of each definition counts.
static COUNT_DEFINITIONS: Statement = Statement::new(
    "SELECT kind, count(*) FROM catalog AS entry
     WHERE tenant_id = $1 AND archived_at IS NULL AND version = (
         SELECT max(newest.version) FROM catalog AS newest
         WHERE newest.tenant_id = entry.tenant_id AND newest.path = entry.path
     )
     GROUP BY kind",
)
.with_auto_plan();

/// Counts the live executions that this store drives, at most `$3`. At most `$2` live executions
/// are read, since `origin` is not in the index.
pub(crate) static COUNT_LIVE_EXECUTIONS: Statement = Statement::new(
    "SELECT count(*) FROM (
         SELECT 1 FROM (
             SELECT origin FROM execution
             WHERE tenant_id = $1 AND status IN ('PENDING', 'RUNNING', 'PAUSED')
             LIMIT $2::bigint
         ) AS going_on
         WHERE origin = 'driven'
         LIMIT $3::bigint
     ) AS live",
)
.with_auto_plan();

/// Counts the live descendants of a root execution, at most `$2`.
pub(crate) static COUNT_LIVE_DESCENDANTS: Statement = Statement::new(
    "SELECT count(*) FROM (
         SELECT 1 FROM execution WHERE root_execution_id = $1 AND ended = false LIMIT $2::bigint
     ) AS live",
);

/// Walks from a child to its root. `UNION` ends the walk if projected executions form a cycle.
pub(crate) static FOLLOW_UP_ON_PATH: Statement = Statement::new(
    "WITH RECURSIVE ancestor (child_id, parent_id) AS (
         SELECT $2::bigint, $1::bigint
         UNION
         SELECT execution.execution_id, execution.parent_execution_id
         FROM ancestor JOIN execution ON execution.execution_id = ancestor.parent_id
         WHERE execution.parent_execution_id IS NOT NULL
     )
     SELECT EXISTS (
         SELECT 1 FROM ancestor JOIN errand
             ON errand.execution_id = ancestor.parent_id
             AND errand.errand_id = $3::text || ancestor.child_id
     )",
);

pub(crate) static IS_DROPPED: Statement = Statement::new(
    "SELECT EXISTS (SELECT 1 FROM retention_range WHERE lo <= $1::bigint AND $1::bigint < hi)",
);

static REWRITE_VIEW: Statement = Statement::new(
    "UPDATE execution
     SET ended = $3::boolean, status = $4::text, paused = $5::boolean, last_node_name = $6::text,
         ended_at = $7::timestamptz, error = $8::text
     WHERE execution_id = $1::bigint AND version = $2::bigint",
);

/// Lists due timers after a position. A subquery finds each execution by its key, since a join
/// might read all executions.
static DUE_TIMERS: Statement = Statement::new(
    "SELECT execution_id, timer_id, fire_at FROM timer
     WHERE fire_at <= $1::timestamptz
         AND (fire_at, execution_id, timer_id) > ($2::timestamptz, $3::bigint, $4::text)
         AND NOT coalesce(
             (SELECT paused FROM execution WHERE execution.execution_id = timer.execution_id),
             false
         )
     ORDER BY fire_at, execution_id, timer_id LIMIT $5::bigint",
);

#[async_trait]
impl<D: Database> ExecutionStore for D {
    async fn find_execution(
        &self,
        execution_id: ExecutionId,
    ) -> Result<Option<Execution>, StoreError> {
        self.query_first(&EXECUTION_BY_ID, cells![execution_id]).await
    }

    async fn list_executions(&self, filter: ExecutionFilter) -> Result<ExecutionPage, StoreError> {
        let statement = match filter.status {
            Some(_) => &LIST_EXECUTIONS_BY_STATUS,
            None => &LIST_EXECUTIONS,
        };
        let params = cells![
            filter.tenant_id,
            filter.status,
            filter.path,
            filter.parent_execution_id,
            filter.after.map(|after| after.started_at),
            filter.after.map(|after| after.execution_id),
            filter.limit,
        ];
        Ok(ExecutionPage::from_rows(self.query(statement, params).await?, filter.limit))
    }

    async fn list_execution_ids(
        &self,
        after: Option<ExecutionId>,
        limit: PageLimit,
    ) -> Result<Vec<ExecutionId>, StoreError> {
        let ids = self.query(&LIST_EXECUTION_IDS, cells![after, limit]).await?;
        Ok(ids.into_iter().map(|(id,)| id).collect())
    }

    async fn tenant_counts(&self, tenant_id: &TenantId) -> Result<TenantCounts, StoreError> {
        let executions = self.query(&COUNT_TENANT_BY_STATUS, cells![tenant_id]).await?;
        let definitions = self.query(&COUNT_DEFINITIONS, cells![tenant_id]).await?;
        Ok(TenantCounts {
            executions: executions.into_iter().collect(),
            definitions: definitions.into_iter().collect(),
        })
    }

    async fn count_executions_by_status(&self) -> Result<StatusCounts, StoreError> {
        Ok(self.query(&COUNT_BY_STATUS, vec![]).await?.into_iter().collect())
    }

    async fn count_live_executions(
        &self,
        tenant_id: &TenantId,
        max_count: u32,
    ) -> Result<u32, StoreError> {
        let max_read = i64::from(max_count) * LIVE_COUNT_READ_FACTOR;
        let params = cells![tenant_id, max_read, max_count];
        let count = self.query_count(&COUNT_LIVE_EXECUTIONS, params).await?;
        Ok(u32::try_from(count).unwrap_or(max_count))
    }

    async fn count_live_descendants(
        &self,
        root: ExecutionId,
        max_count: u32,
    ) -> Result<u32, StoreError> {
        let count = self.query_count(&COUNT_LIVE_DESCENDANTS, cells![root, max_count]).await?;
        Ok(u32::try_from(count).unwrap_or(max_count))
    }

    async fn has_follow_up_on_path(
        &self,
        parent: ExecutionId,
        child: ExecutionId,
        id_prefix: &Text,
    ) -> Result<bool, StoreError> {
        let params = cells![parent, child, *id_prefix];
        let found = self.query_first(&FOLLOW_UP_ON_PATH, params).await?;
        Ok(found.is_some_and(|(exists,)| exists))
    }

    async fn is_dropped(&self, execution_id: ExecutionId) -> Result<bool, StoreError> {
        let found = self.query_first(&IS_DROPPED, cells![execution_id]).await?;
        Ok(found.is_some_and(|(is_dropped,)| is_dropped))
    }

    async fn rewrite_execution_view(
        &self,
        execution_id: ExecutionId,
        version: ExecutionVersion,
        view: ExecutionView,
    ) -> Result<bool, StoreError> {
        let row = encode_view(execution_id, version, &view);
        Ok(self.execute(Durability::Synced, &REWRITE_VIEW, row).await? > 0)
    }

    async fn list_due_timers(
        &self,
        now: Timestamp,
        after: Option<&DueTimer>,
        limit: PageLimit,
    ) -> Result<Vec<DueTimer>, StoreError> {
        let params = match after {
            None => cells![now, Timestamp::MIN, 0_i64, *"", limit],
            Some(after) => cells![now, after.fire_at, after.execution_id, after.timer_id, limit],
        };
        self.query(&DUE_TIMERS, params).await
    }
}

//! The command queue.

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{CommandId, CommandStatus, Millis, TenantId, Timestamp, WorkerId};

use crate::error::StoreError;
use crate::model::{
    Command, CommandFilter, CommandPage, CommandStatusFilter, Fence, LeaseBounds, LeaseExtension,
    LeaseOutcome, LeaseRelease, LeaseRequest, LeaseTerms, LeasedCommand, MAX_POOLS, PoolCount,
};
use crate::row::{COMMAND, ToCell as _, cells};
use crate::sql::{Database, Durability, Statement};

/// Time by which the clocks of two servers may differ although both follow the store's.
const MAX_CLOCK_JITTER: Millis = Millis::from_secs(1);

/// The part of a [`crate::Store`] that grants and ends leases of commands.
#[async_trait]
pub trait CommandQueue {
    /// Grants leases by priority, then oldest first, alternating between executions.
    ///
    /// A grant alone is not durable. If a crash loses it, the command can be leased again, and the
    /// fence rejects the holder of the old grant.
    async fn lease_commands(&self, request: LeaseRequest)
    -> Result<Vec<LeasedCommand>, StoreError>;

    /// Grants the lease of one command if it is free. Returns `None` if the command does not exist
    /// or was purged.
    ///
    /// Like every grant, it is not durable by itself.
    async fn try_lease_command(
        &self,
        command_id: CommandId,
        terms: LeaseTerms,
    ) -> Result<Option<LeaseOutcome>, StoreError>;

    /// Extends leases, at most to the deadline of each command. Returns one result per fence.
    async fn extend_leases(
        &self,
        leases: Vec<Fence>,
        until: Timestamp,
    ) -> Result<Vec<LeaseExtension>, StoreError>;

    /// Releases commands that were not run. Returns for each if the caller still held the lease.
    async fn release_leases(&self, leases: Vec<LeaseRelease>) -> Result<Vec<bool>, StoreError>;

    /// Expires the leases of a tenant's worker that shuts down at `now`. Returns the number of
    /// leases that were still valid. A worker of the same name may serve another tenant.
    ///
    /// The commands remain leased until an append ends the leases, as with any expired lease:
    /// [`CommandStore::list_expired_leases`] returns them from now on. Like a grant, this is not
    /// durable by itself.
    async fn expire_worker_leases(
        &self,
        tenant_id: &TenantId,
        worker: &WorkerId,
        now: Timestamp,
    ) -> Result<u64, StoreError>;
}

/// The part of a [`crate::Store`] that finds commands.
#[async_trait]
pub trait CommandStore {
    /// Returns the commands whose lease has expired, the longest expired first. They remain leased
    /// until an append with [`crate::LeaseCondition::ExpiredBy`] ends the lease.
    async fn list_expired_leases(
        &self,
        now: Timestamp,
        limit: PageLimit,
    ) -> Result<Vec<Command>, StoreError>;

    /// Shortens the leases that a clock ahead of `now` granted or renewed. Returns their number.
    ///
    /// Without this, a lease of a lost worker lasts until the clock has caught up. Like a grant, it
    /// is not durable by itself.
    async fn bound_leases(&self, now: Timestamp, bounds: LeaseBounds) -> Result<u64, StoreError>;

    /// Returns a command, or `None` if it was purged.
    async fn find_command(&self, command_id: CommandId) -> Result<Option<Command>, StoreError>;

    /// Returns a page of the commands of a tenant, oldest first. Used for lists, for heartbeat
    /// responses to a worker, and, with [`CommandFilter::open_in_execution`], for all open commands
    /// of an execution.
    async fn list_commands(&self, filter: CommandFilter) -> Result<CommandPage, StoreError>;

    /// Returns the load of the pools that have commands, by name, for at most [`crate::MAX_POOLS`]
    /// pools.
    async fn pool_counts(&self) -> Result<Vec<PoolCount>, StoreError>;
}

pub(crate) static COMMAND_BY_ID: Statement = Statement::select(&COMMAND, "WHERE command_id = $1");

static EXPIRED_LEASES: Statement = Statement::select(
    &COMMAND,
    "WHERE lease_until <= $1::timestamptz ORDER BY lease_until, command_id LIMIT $2::bigint",
);

static BOUND_LEASES: Statement = Statement::new(
    "WITH ahead AS MATERIALIZED (
         SELECT command_id FROM command
         WHERE lease_until > $2::timestamptz
             AND (lease_until > $3::timestamptz OR claimed_at > $1::timestamptz)
         ORDER BY command_id
         FOR NO KEY UPDATE SKIP LOCKED
     )
     UPDATE command SET lease_until = $2::timestamptz
     WHERE command_id IN (SELECT command_id FROM ahead)",
);

static LIST_COMMANDS: Statement = Statement::build(|| list_commands_sql("")).with_auto_plan();

static LIST_OPEN_COMMANDS: Statement = Statement::build(|| {
    let open = CommandStatus::ALL.iter().filter(|status| !status.is_terminal());
    let open: Vec<_> = open.map(|status| format!("'{}'", status.as_str())).collect();
    list_commands_sql(&format!("AND command.status IN ({})", open.join(", ")))
})
.with_auto_plan();

static LIST_COMMANDS_BY_STATUS: Statement =
    Statement::build(|| list_commands_sql("AND command.status = $7")).with_auto_plan();

fn list_commands_sql(condition: &str) -> String {
    format!(
        "SELECT {} FROM command JOIN execution USING (execution_id)
         WHERE execution.tenant_id = $1 {condition}
             AND ($2::bigint IS NULL OR command.execution_id = $2)
             AND ($3::text IS NULL OR command.pool = $3)
             AND ($4::text IS NULL OR command.worker_id = $4)
             AND ($5::bigint IS NULL OR command.command_id > $5)
         ORDER BY command.command_id LIMIT $6::bigint",
        COMMAND.prefixed_column_list("command.")
    )
}

/// Counts pending and leased commands per pool. Each half reads one small index that excludes
/// completed commands.
static POOL_COUNTS: Statement = Statement::new(
    "WITH waiting AS (
         SELECT pool, count(*) AS pending FROM command
         WHERE status = 'PENDING' AND held = false GROUP BY pool
     ), held AS (
         SELECT pool, count(*) AS leased, min(claimed_at) AS oldest_lease FROM command
         WHERE lease_until IS NOT NULL GROUP BY pool
     )
     SELECT pool, coalesce(pending, 0), coalesce(leased, 0), oldest_lease
     FROM waiting FULL JOIN held USING (pool)
     ORDER BY pool COLLATE \"C\" LIMIT $1::bigint",
)
.with_auto_plan();

#[async_trait]
impl<D: Database> CommandStore for D {
    async fn list_expired_leases(
        &self,
        now: Timestamp,
        limit: PageLimit,
    ) -> Result<Vec<Command>, StoreError> {
        self.query(&EXPIRED_LEASES, cells![now, limit]).await
    }

    async fn bound_leases(&self, now: Timestamp, bounds: LeaseBounds) -> Result<u64, StoreError> {
        let (until, latest) = (now.saturating_add(bounds.new), now.saturating_add(bounds.longest));
        let granted_ahead = now.saturating_add(MAX_CLOCK_JITTER);
        let params = cells![granted_ahead, until, latest];
        self.execute(Durability::Unsynced, &BOUND_LEASES, params).await
    }

    async fn find_command(&self, command_id: CommandId) -> Result<Option<Command>, StoreError> {
        self.query_first(&COMMAND_BY_ID, cells![command_id]).await
    }

    async fn list_commands(&self, filter: CommandFilter) -> Result<CommandPage, StoreError> {
        let CommandFilter { tenant_id, status, execution_id, pool, worker, after, limit } = filter;
        let mut params = cells![tenant_id, execution_id, pool, worker, after, limit];
        let statement = match status {
            CommandStatusFilter::All => &LIST_COMMANDS,
            CommandStatusFilter::Open => &LIST_OPEN_COMMANDS,
            CommandStatusFilter::Only(status) => {
                params.push(status.to_cell());
                &LIST_COMMANDS_BY_STATUS
            }
        };
        Ok(CommandPage::from_rows(self.query(statement, params).await?, limit))
    }

    async fn pool_counts(&self) -> Result<Vec<PoolCount>, StoreError> {
        self.query(&POOL_COUNTS, cells![MAX_POOLS]).await
    }
}

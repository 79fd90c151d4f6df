//! The storage trait that every backend implements.

use std::fmt;

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{
    CommandId, EventId, ExecutionId, ExecutionVersion, FeedPosition, PlaybookPath, ResultId,
    StoredEvent, TenantId, Text, Timestamp, WorkerId,
};

use crate::coordination::CoordinationStore;
use crate::credentials::CredentialStore;
use crate::error::StoreError;
use crate::identities::IdentityStore;
use crate::keychain::KeychainStore;
use crate::maintenance::MaintenanceStore;
use crate::model::{
    AppendError, AppendReceipt, AppendRequest, CatalogEntry, CatalogFilter, CatalogKey,
    CatalogVersionFilter, Command, CommandFilter, CommandPage, DueTimer, Execution,
    ExecutionFilter, ExecutionPage, FeedBatch, FeedLimit, Fence, LeaseExtension, LeaseOutcome,
    LeaseRelease, LeaseRequest, LeaseTerms, LeasedCommand, LoadedLog, LogPageLimit,
    MachineIdRequest, MachineLease, MachineLeaseError, MachineRenewal, NewCatalogEntry, PoolCount,
    PutResultError, RegisterOutcome, RegisteredRuntime, ReplayPage, ResultPut, RuntimeKind,
    RuntimeRegistration, Snapshot, SnapshotKey, StatusCounts, StoredResult, TenantCounts,
};
use crate::notify_channel::NotifyChannel;
use crate::publishing::PublishingStore;

/// Durable storage of a NoETL system.
///
/// Times and tokens are arguments: a store reads no clock and generates no random numbers. A call
/// whose future is dropped may still take effect.
#[async_trait]
pub trait Store:
    CoordinationStore
    + CredentialStore
    + KeychainStore
    + PublishingStore
    + MaintenanceStore
    + IdentityStore
    + Send
    + Sync
    + fmt::Debug
{
    /// Writes events and their effects, and returns one result per append.
    ///
    /// Appends are independent: none fails because of another. If two appends of one call name the
    /// same execution, the later one is applied on top of the earlier one. An append is durable
    /// once its result is returned.
    async fn append_events(
        &self,
        appends: Vec<AppendRequest>,
    ) -> Vec<Result<AppendReceipt, AppendError>>;

    /// Returns an execution, its newest usable snapshot and the first page of the events after it.
    async fn load_execution(
        &self,
        execution_id: ExecutionId,
        snapshot: &SnapshotKey,
        page: LogPageLimit,
    ) -> Result<Option<LoadedLog>, StoreError>;

    /// Returns the events after a version, in order. Only the last page of a log is shorter than
    /// requested.
    async fn read_events(
        &self,
        execution_id: ExecutionId,
        after: ExecutionVersion,
        page: LogPageLimit,
    ) -> Result<Vec<StoredEvent>, StoreError>;

    /// Returns the columns of the events after a version that a replay reads, in order. A page is
    /// empty only at the end of the log. It may be shorter than requested if the events are large.
    async fn read_replay_rows(
        &self,
        execution_id: ExecutionId,
        after: ExecutionVersion,
        page: LogPageLimit,
    ) -> Result<ReplayPage, StoreError>;

    /// Returns one event of an execution, by its id.
    async fn find_event(
        &self,
        execution_id: ExecutionId,
        event_id: EventId,
    ) -> Result<Option<StoredEvent>, StoreError>;

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

    /// Returns events of the whole store in an order to which later commits only append. Events
    /// whose rows cannot be read are skipped. [`crate::PublishingStore::read_feed_messages`]
    /// reports them.
    async fn read_feed(
        &self,
        after: FeedPosition,
        limit: FeedLimit,
    ) -> Result<FeedBatch, StoreError>;

    async fn find_execution(
        &self,
        execution_id: ExecutionId,
    ) -> Result<Option<Execution>, StoreError>;

    /// Returns a page of executions, newest first.
    async fn list_executions(&self, filter: ExecutionFilter) -> Result<ExecutionPage, StoreError>;

    /// Returns the child executions of an execution that have not ended, ordered by id, after the
    /// last one of the previous page.
    async fn list_open_children(
        &self,
        parent: ExecutionId,
        after: Option<ExecutionId>,
        limit: PageLimit,
    ) -> Result<Vec<Execution>, StoreError>;

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

    /// True if retention has dropped the id range that contains the execution.
    async fn is_dropped(&self, execution_id: ExecutionId) -> Result<bool, StoreError>;

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

    /// Returns the commands whose lease has expired, the longest expired first. They remain leased
    /// until an append with [`crate::LeaseCondition::ExpiredBy`] ends the lease.
    async fn list_expired_leases(
        &self,
        now: Timestamp,
        limit: PageLimit,
    ) -> Result<Vec<Command>, StoreError>;

    /// Returns a command, or `None` if it was purged.
    async fn find_command(&self, command_id: CommandId) -> Result<Option<Command>, StoreError>;

    /// Returns a page of the commands of a tenant, oldest first. Used for lists, for heartbeat
    /// responses to a worker, and, with [`CommandFilter::open_in_execution`], for all open commands
    /// of an execution.
    async fn list_commands(&self, filter: CommandFilter) -> Result<CommandPage, StoreError>;

    /// Expires the leases of a tenant's worker that shuts down at `now`. Returns the number of
    /// leases that were still valid. A worker of the same name may serve another tenant.
    ///
    /// The commands remain leased until an append ends the leases, as with any expired lease:
    /// [`Store::list_expired_leases`] returns them from now on. Like a grant, this is not durable
    /// by itself.
    async fn expire_worker_leases(
        &self,
        tenant_id: &TenantId,
        worker: &WorkerId,
        now: Timestamp,
    ) -> Result<u64, StoreError>;

    /// Returns the load of the pools that have commands, by name, for at most [`crate::MAX_POOLS`]
    /// pools.
    async fn pool_counts(&self) -> Result<Vec<PoolCount>, StoreError>;

    /// Returns the timers that are due, earliest first, after the last one of the previous page.
    /// Timers of paused executions do not fire and are omitted.
    async fn list_due_timers(
        &self,
        now: Timestamp,
        after: Option<&DueTimer>,
        limit: PageLimit,
    ) -> Result<Vec<DueTimer>, StoreError>;

    /// Registers a definition. Returns the newest version if its content is the same, otherwise
    /// creates the next one. An archived path becomes active again.
    async fn register_definition(
        &self,
        entry: NewCatalogEntry,
    ) -> Result<RegisterOutcome, StoreError>;

    /// Returns a definition of a tenant.
    async fn find_catalog_entry(
        &self,
        tenant_id: &TenantId,
        key: CatalogKey,
    ) -> Result<Option<CatalogEntry>, StoreError>;

    /// Returns the newest versions of definitions, ordered by path.
    async fn list_catalog(&self, filter: CatalogFilter) -> Result<Vec<CatalogEntry>, StoreError>;

    /// Returns the versions of a definition, newest first.
    async fn list_catalog_versions(
        &self,
        filter: CatalogVersionFilter,
    ) -> Result<Vec<CatalogEntry>, StoreError>;

    /// Archives the definition at a path as of `since`, or restores it if `since` is `None`.
    /// Returns `false` if nothing changes or if there is no such definition.
    async fn set_definition_archived(
        &self,
        tenant_id: &TenantId,
        path: &PlaybookPath,
        since: Option<Timestamp>,
    ) -> Result<bool, StoreError>;

    /// Registers a process, or updates its registration.
    async fn register_runtime(
        &self,
        runtime: RuntimeRegistration,
    ) -> Result<RegisteredRuntime, StoreError>;

    /// Records that a process is alive. Returns `false` if it must register again.
    async fn record_heartbeat(
        &self,
        kind: RuntimeKind,
        name: &Text,
        now: Timestamp,
    ) -> Result<bool, StoreError>;

    /// Returns the processes of a kind, ordered by name.
    async fn list_runtimes(&self, kind: RuntimeKind) -> Result<Vec<RegisteredRuntime>, StoreError>;

    /// Deletes the registration of a process that has shut down. Returns `false` if it does not
    /// exist.
    async fn remove_runtime(&self, kind: RuntimeKind, name: &Text) -> Result<bool, StoreError>;

    /// Leases a machine id that no other process holds: one that was never used or, if there is
    /// none, the one whose lease expired first.
    async fn lease_machine_id(
        &self,
        request: MachineIdRequest,
    ) -> Result<MachineLease, MachineLeaseError>;

    /// Renews the lease of a machine id and raises its high-water mark.
    async fn renew_machine_lease(
        &self,
        renewal: MachineRenewal,
    ) -> Result<MachineLease, MachineLeaseError>;

    /// Opens a channel to the other processes on this store. Returns `None` if the store is never
    /// shared.
    async fn open_notify_channel(&self) -> Result<Option<Box<dyn NotifyChannel>>, StoreError> {
        Ok(None)
    }
}

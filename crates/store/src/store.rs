//! The trait that every backend implements.

use std::fmt;

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{
    CommandId, EventId, ExecutionId, FeedPosition, PlaybookPath, ResultId, StoredEvent, TenantId,
    Text, Timestamp, Version, WorkerId,
};

use crate::commons::Commons;
use crate::credentials::Credentials;
use crate::error::StoreError;
use crate::keychain::Keychain;
use crate::line::Line;
use crate::model::{
    Append, AppendRefused, Appended, CatalogEntry, CatalogFilter, CatalogKey, Claim,
    ClaimedCommand, Command, CommandFilter, CommandPage, Counts, DueTimer, Execution,
    ExecutionFilter, ExecutionPage, Extension, FeedBatch, FeedLimit, Fence, Gists, LeaseRequest,
    LeasedCommand, Loaded, LogPage, MachineLease, MachineRefused, MachineRenewal, MachineRequest,
    NewCatalogEntry, NewRuntime, PoolCount, PutRefused, Registered, Release, ResultPut, Runtime,
    RuntimeKind, Snapshot, SnapshotKey, StatusCounts, StoredResult, VersionFilter,
};
use crate::outlets::Outlets;
use crate::upkeep::Upkeep;
use crate::vault::Vault;

/// Where a system keeps what it knows.
///
/// Times and tokens come in with the call: a store reads no clock and makes no random numbers. A
/// call whose future is dropped may still take effect.
#[async_trait]
pub trait Store:
    Commons + Credentials + Keychain + Outlets + Upkeep + Vault + Send + Sync + fmt::Debug
{
    /// Writes events, and all that follows from them, with one verdict for each append.
    ///
    /// Appends are independent: none fails because of another. Where two of one call name the same
    /// execution, the later one meets what the earlier one left. When an append is answered, it is
    /// durable.
    async fn append(&self, appends: Vec<Append>) -> Vec<Result<Appended, AppendRefused>>;

    /// An execution, its newest usable snapshot and the first page of the events behind that.
    async fn load(
        &self,
        execution_id: ExecutionId,
        snapshot: &SnapshotKey,
        page: LogPage,
    ) -> Result<Option<Loaded>, StoreError>;

    /// The events behind a version, in order; fewer than a page only at the end of the log.
    async fn events(
        &self,
        execution_id: ExecutionId,
        after: Version,
        page: LogPage,
    ) -> Result<Vec<StoredEvent>, StoreError>;

    /// The events behind a version as far as a replay reads them, in order; none only at the end of the
    /// log. A page may have fewer than was asked for where they are large.
    async fn gists(
        &self,
        execution_id: ExecutionId,
        after: Version,
        page: LogPage,
    ) -> Result<Gists, StoreError>;

    /// One event of an execution, by its id.
    async fn event(
        &self,
        execution_id: ExecutionId,
        event_id: EventId,
    ) -> Result<Option<StoredEvent>, StoreError>;

    /// The newest snapshot of an execution that was taken at a version or before.
    async fn snapshot(
        &self,
        execution_id: ExecutionId,
        key: &SnapshotKey,
        at_most: Version,
    ) -> Result<Option<Snapshot>, StoreError>;

    /// Keeps a snapshot. One of the same kind and version that is there already stays. Of a kind no
    /// more than [`crate::MAX_SNAPSHOTS`] are kept: then those go that stand closest to others.
    async fn write_snapshot(&self, snapshot: Snapshot) -> Result<(), StoreError>;

    /// Forgets the snapshot of a version, which turned out to be of no use; that there is none is fine.
    async fn drop_snapshot(
        &self,
        execution_id: ExecutionId,
        key: &SnapshotKey,
        version: Version,
    ) -> Result<(), StoreError>;

    /// Keeps a result that comes by itself. The same one again is fine.
    ///
    /// A large one becomes a file where the store has a folder for such, and a row else. It is
    /// durable when the call is answered.
    async fn put_result(&self, put: ResultPut) -> Result<(), PutRefused>;

    /// A result of an execution, expired or not; `None` if there is none of that id.
    async fn result(
        &self,
        execution_id: ExecutionId,
        result_id: ResultId,
    ) -> Result<Option<StoredResult>, StoreError>;

    /// All events of the store in an order that later commits only add to. One whose row cannot be read
    /// is passed by, which [`crate::Outlets::messages`] tells of.
    async fn feed(&self, after: FeedPosition, limit: FeedLimit) -> Result<FeedBatch, StoreError>;

    /// An execution.
    async fn execution(&self, execution_id: ExecutionId) -> Result<Option<Execution>, StoreError>;

    /// A page of executions, newest first.
    async fn executions(&self, filter: ExecutionFilter) -> Result<ExecutionPage, StoreError>;

    /// Executions that another one started and that have not ended, in the order of their ids, behind
    /// the last one of the page before.
    async fn open_children(
        &self,
        parent: ExecutionId,
        after: Option<ExecutionId>,
        limit: PageLimit,
    ) -> Result<Vec<Execution>, StoreError>;

    /// How many executions and definitions a tenant has.
    async fn counts(&self, tenant_id: &TenantId) -> Result<Counts, StoreError>;

    /// How many executions there are of all tenants, by where they stand; none that nobody has.
    async fn executions_by_status(&self) -> Result<StatusCounts, StoreError>;

    /// How many executions of a tenant go on that are driven here, up to a number; a few may be left out
    /// where most of what goes on are copies. No more is read than follows from that number.
    async fn live_executions(&self, tenant_id: &TenantId, most: u32) -> Result<u32, StoreError>;

    /// Whether retention has dropped the range of ids that an execution lies in.
    async fn is_gone(&self, execution_id: ExecutionId) -> Result<bool, StoreError>;

    /// Grants leases: by priority, then oldest first, taking turns among executions.
    ///
    /// A grant is not durable by itself. A crash may forget it; then the command is there to be
    /// leased again, and the fence refuses whoever still believes in the old grant.
    async fn lease(&self, request: LeaseRequest) -> Result<Vec<LeasedCommand>, StoreError>;

    /// Grants one command, if it is free; `None` where there is no such command, or no more.
    ///
    /// A grant like any other: not durable by itself.
    async fn claim(
        &self,
        command_id: CommandId,
        claim: Claim,
    ) -> Result<Option<ClaimedCommand>, StoreError>;

    /// Keeps leases, up to the deadline of each command; one answer for each fence.
    async fn extend(
        &self,
        leases: Vec<Fence>,
        until: Timestamp,
    ) -> Result<Vec<Extension>, StoreError>;

    /// Gives commands back that were not run; says of each whether the lease still was the caller's.
    async fn release(&self, leases: Vec<Release>) -> Result<Vec<bool>, StoreError>;

    /// Commands whose lease has run out, longest first. They stay leased until an append with
    /// [`crate::Holder::ExpiredBy`] takes the lease away.
    async fn expired(&self, now: Timestamp, limit: PageLimit) -> Result<Vec<Command>, StoreError>;

    /// A command, unless it was purged.
    async fn command(&self, command_id: CommandId) -> Result<Option<Command>, StoreError>;

    /// A page of the commands of a tenant, oldest first: for lists, for what a heartbeat has to tell
    /// a worker, and, with [`CommandFilter::open_of`], for all that is open in an execution.
    async fn commands(&self, filter: CommandFilter) -> Result<CommandPage, StoreError>;

    /// Ends the leases of a tenant's worker that goes away at `now`, and says how many had longer to
    /// go. One of the same name may work for another tenant.
    ///
    /// The commands stay leased until an append takes the leases away, as with any lease that has
    /// run out: [`Store::expired`] tells them from now on. Like a grant it is not durable by itself.
    async fn release_worker(
        &self,
        tenant_id: &TenantId,
        worker: &WorkerId,
        now: Timestamp,
    ) -> Result<u64, StoreError>;

    /// How busy the pools are that have anything to do, by name; at most [`crate::MAX_POOLS`] of
    /// them.
    async fn pool_counts(&self) -> Result<Vec<PoolCount>, StoreError>;

    /// Timers whose time has come, earliest first, behind the last one of the page before. Those of
    /// executions that are paused do not fire, so they are not among them.
    async fn due(
        &self,
        now: Timestamp,
        after: Option<&DueTimer>,
        limit: PageLimit,
    ) -> Result<Vec<DueTimer>, StoreError>;

    /// Registers a definition: the newest version if its content is the same, else the next one. A path
    /// that was archived is not any more.
    async fn register(&self, entry: NewCatalogEntry) -> Result<Registered, StoreError>;

    /// A definition of a tenant.
    async fn catalog_entry(
        &self,
        tenant_id: &TenantId,
        key: CatalogKey,
    ) -> Result<Option<CatalogEntry>, StoreError>;

    /// The newest versions of definitions, in the order of their paths.
    async fn catalog(&self, filter: CatalogFilter) -> Result<Vec<CatalogEntry>, StoreError>;

    /// The versions of a definition, newest first.
    async fn catalog_versions(
        &self,
        filter: VersionFilter,
    ) -> Result<Vec<CatalogEntry>, StoreError>;

    /// Archives the definition at a path since a time, or takes it back with `None`; `false` if it is
    /// so already, or if there is none.
    async fn archive(
        &self,
        tenant_id: &TenantId,
        path: &PlaybookPath,
        since: Option<Timestamp>,
    ) -> Result<bool, StoreError>;

    /// Registers a process, or refreshes what it said before.
    async fn register_runtime(&self, runtime: NewRuntime) -> Result<Runtime, StoreError>;

    /// Notes that a process is alive; `false` if it has to register again.
    async fn heartbeat(
        &self,
        kind: RuntimeKind,
        name: &Text,
        now: Timestamp,
    ) -> Result<bool, StoreError>;

    /// The processes of a kind, by name.
    async fn runtimes(&self, kind: RuntimeKind) -> Result<Vec<Runtime>, StoreError>;

    /// Forgets a process that has gone away; `false` if it was not known.
    async fn remove_runtime(&self, kind: RuntimeKind, name: &Text) -> Result<bool, StoreError>;

    /// Gives a machine id that no other process has: one that was never used, or else the one whose
    /// lease ran out first.
    async fn lease_machine(&self, request: MachineRequest) -> Result<MachineLease, MachineRefused>;

    /// Keeps a machine id and moves its mark forward.
    async fn renew_machine(&self, renewal: MachineRenewal) -> Result<MachineLease, MachineRefused>;

    /// A new line to the other processes on this store; `None` where it is never shared.
    async fn line(&self) -> Result<Option<Box<dyn Line>>, StoreError> {
        Ok(None)
    }
}

//! The reference model of a store: ordered maps behind a lock.
//!
//! The other backends are compared with it, and tests of the layers above run on it. Its data is
//! lost when the process ends.

mod append;
mod coordination;
mod coordination_state;
mod credentials;
mod identities;
mod keychain;
mod maintenance;
mod publishing;
mod queue;
mod state;
#[cfg(test)]
mod tests;

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use noetl_types::id::first_id_at;
use noetl_types::limits::PageLimit;
use noetl_types::{
    CommandId, EventId, ExecutionId, ExecutionVersion, FeedPosition, PlaybookPath, ResultId,
    StoredEvent, TenantId, Text, Timestamp, WorkerId,
};

use self::state::MemoryState;
use crate::error::StoreError;
use crate::model::{
    AppendError, AppendReceipt, AppendRequest, CatalogEntry, CatalogFilter, CatalogKey,
    CatalogVersionFilter, Command, CommandFilter, CommandPage, DueTimer, Execution,
    ExecutionFilter, ExecutionPage, FeedBatch, FeedLimit, Fence, LeaseExtension, LeaseOutcome,
    LeaseRelease, LeaseRequest, LeaseTerms, LeasedCommand, LoadedLog, LogPageLimit,
    MachineIdRequest, MachineLease, MachineLeaseError, MachineRenewal, NewCatalogEntry, PoolCount,
    PutResultError, RegisterOutcome, RegisteredRuntime, ReplayPage, ResultPut, RuntimeKind,
    RuntimeRegistration, Snapshot, SnapshotKey, StatusCounts, StoredResult, TenantCounts,
};
use crate::prepare_append::prepare_appends;
use crate::store::Store;

#[derive(Debug, Default)]
pub struct MemoryStore {
    state: Mutex<MemoryState>,
}

impl MemoryStore {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Drops the executions that were created before a time, as retention does, even if they are
    /// pinned.
    pub fn drop_before(&self, time: Timestamp) {
        self.lock().drop_range(0, first_id_at(time.as_unix_ms()));
    }

    /// Ignores poisoning: no operation leaves the maps partially written.
    fn lock(&self) -> MutexGuard<'_, MemoryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn append_events(
        &self,
        appends: Vec<AppendRequest>,
    ) -> Vec<Result<AppendReceipt, AppendError>> {
        let prepared = prepare_appends(appends);
        let mut state = self.lock();
        prepared.into_iter().map(|prepared| state.apply_append(prepared?)).collect()
    }

    async fn load_execution(
        &self,
        execution_id: ExecutionId,
        snapshot: &SnapshotKey,
        page: LogPageLimit,
    ) -> Result<Option<LoadedLog>, StoreError> {
        Ok(self.lock().load_execution(execution_id, snapshot, page))
    }

    async fn read_events(
        &self,
        execution_id: ExecutionId,
        after: ExecutionVersion,
        page: LogPageLimit,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        Ok(self.lock().read_events(execution_id, after, page))
    }

    async fn read_replay_rows(
        &self,
        execution_id: ExecutionId,
        after: ExecutionVersion,
        page: LogPageLimit,
    ) -> Result<ReplayPage, StoreError> {
        let events = self.lock().read_events(execution_id, after, page);
        Ok(ReplayPage::Events(events))
    }

    async fn find_event(
        &self,
        execution_id: ExecutionId,
        event_id: EventId,
    ) -> Result<Option<StoredEvent>, StoreError> {
        Ok(self.lock().find_event(execution_id, event_id).cloned())
    }

    async fn find_snapshot(
        &self,
        execution_id: ExecutionId,
        key: &SnapshotKey,
        max_version: ExecutionVersion,
    ) -> Result<Option<Snapshot>, StoreError> {
        let state = self.lock();
        Ok(state.find_snapshot(execution_id, key, max_version).cloned())
    }

    async fn write_snapshot(&self, snapshot: Snapshot) -> Result<(), StoreError> {
        self.lock().write_snapshot(snapshot);
        Ok(())
    }

    async fn delete_snapshot(
        &self,
        execution_id: ExecutionId,
        key: &SnapshotKey,
        version: ExecutionVersion,
    ) -> Result<(), StoreError> {
        let snapshot_id = (execution_id, key.clone(), version);
        self.lock().snapshots.remove(&snapshot_id);
        Ok(())
    }

    async fn put_result(&self, put: ResultPut) -> Result<(), PutResultError> {
        self.lock().put_result(put.into_stored()?)
    }

    async fn find_result(
        &self,
        execution_id: ExecutionId,
        result_id: ResultId,
    ) -> Result<Option<StoredResult>, StoreError> {
        let state = self.lock();
        Ok(state.results.get(&(execution_id, result_id)).cloned())
    }

    async fn read_feed(
        &self,
        after: FeedPosition,
        limit: FeedLimit,
    ) -> Result<FeedBatch, StoreError> {
        Ok(self.lock().read_feed(after, limit))
    }

    async fn find_execution(
        &self,
        execution_id: ExecutionId,
    ) -> Result<Option<Execution>, StoreError> {
        Ok(self.lock().executions.get(&execution_id).cloned())
    }

    async fn list_executions(&self, filter: ExecutionFilter) -> Result<ExecutionPage, StoreError> {
        Ok(self.lock().list_executions(&filter))
    }

    async fn list_open_children(
        &self,
        parent: ExecutionId,
        after: Option<ExecutionId>,
        limit: PageLimit,
    ) -> Result<Vec<Execution>, StoreError> {
        Ok(self.lock().open_children(parent, after, limit))
    }

    async fn tenant_counts(&self, tenant_id: &TenantId) -> Result<TenantCounts, StoreError> {
        Ok(self.lock().tenant_counts(tenant_id))
    }

    async fn count_executions_by_status(&self) -> Result<StatusCounts, StoreError> {
        Ok(self.lock().executions_by_status())
    }

    async fn count_live_executions(
        &self,
        tenant_id: &TenantId,
        max_count: u32,
    ) -> Result<u32, StoreError> {
        Ok(self.lock().live_executions(tenant_id, max_count))
    }

    async fn is_dropped(&self, execution_id: ExecutionId) -> Result<bool, StoreError> {
        Ok(self.lock().is_dropped(execution_id))
    }

    async fn lease_commands(
        &self,
        request: LeaseRequest,
    ) -> Result<Vec<LeasedCommand>, StoreError> {
        Ok(self.lock().lease_commands(&request))
    }

    async fn try_lease_command(
        &self,
        command_id: CommandId,
        terms: LeaseTerms,
    ) -> Result<Option<LeaseOutcome>, StoreError> {
        Ok(self.lock().try_lease_command(command_id, &terms))
    }

    async fn extend_leases(
        &self,
        leases: Vec<Fence>,
        until: Timestamp,
    ) -> Result<Vec<LeaseExtension>, StoreError> {
        let mut state = self.lock();
        Ok(leases.iter().map(|fence| state.extend_lease(fence, until)).collect())
    }

    async fn release_leases(&self, leases: Vec<LeaseRelease>) -> Result<Vec<bool>, StoreError> {
        let mut state = self.lock();
        Ok(leases.iter().map(|release| state.release_lease(release)).collect())
    }

    async fn list_expired_leases(
        &self,
        now: Timestamp,
        limit: PageLimit,
    ) -> Result<Vec<Command>, StoreError> {
        Ok(self.lock().list_expired_leases(now, limit))
    }

    async fn find_command(&self, command_id: CommandId) -> Result<Option<Command>, StoreError> {
        Ok(self.lock().commands.get(&command_id).cloned())
    }

    async fn list_commands(&self, filter: CommandFilter) -> Result<CommandPage, StoreError> {
        Ok(self.lock().list_commands(&filter))
    }

    async fn expire_worker_leases(
        &self,
        tenant_id: &TenantId,
        worker: &WorkerId,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        Ok(self.lock().expire_worker_leases(tenant_id, worker, now))
    }

    async fn pool_counts(&self) -> Result<Vec<PoolCount>, StoreError> {
        Ok(self.lock().pool_counts())
    }

    async fn list_due_timers(
        &self,
        now: Timestamp,
        after: Option<&DueTimer>,
        limit: PageLimit,
    ) -> Result<Vec<DueTimer>, StoreError> {
        Ok(self.lock().list_due_timers(now, after, limit))
    }

    async fn register_definition(
        &self,
        entry: NewCatalogEntry,
    ) -> Result<RegisterOutcome, StoreError> {
        self.lock().register_definition(entry)
    }

    async fn find_catalog_entry(
        &self,
        tenant_id: &TenantId,
        key: CatalogKey,
    ) -> Result<Option<CatalogEntry>, StoreError> {
        Ok(self.lock().find_catalog_entry(tenant_id, &key))
    }

    async fn list_catalog(&self, filter: CatalogFilter) -> Result<Vec<CatalogEntry>, StoreError> {
        Ok(self.lock().list_catalog(&filter))
    }

    async fn list_catalog_versions(
        &self,
        filter: CatalogVersionFilter,
    ) -> Result<Vec<CatalogEntry>, StoreError> {
        Ok(self.lock().list_catalog_versions(&filter))
    }

    async fn set_definition_archived(
        &self,
        tenant_id: &TenantId,
        path: &PlaybookPath,
        since: Option<Timestamp>,
    ) -> Result<bool, StoreError> {
        Ok(self.lock().set_definition_archived(tenant_id, path, since))
    }

    async fn register_runtime(
        &self,
        runtime: RuntimeRegistration,
    ) -> Result<RegisteredRuntime, StoreError> {
        Ok(self.lock().register_runtime(runtime))
    }

    async fn record_heartbeat(
        &self,
        kind: RuntimeKind,
        name: &Text,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        Ok(self.lock().record_heartbeat(kind, name, now))
    }

    async fn list_runtimes(&self, kind: RuntimeKind) -> Result<Vec<RegisteredRuntime>, StoreError> {
        Ok(self.lock().list_runtimes(kind))
    }

    async fn remove_runtime(&self, kind: RuntimeKind, name: &Text) -> Result<bool, StoreError> {
        Ok(self.lock().remove_runtime(kind, name))
    }

    async fn lease_machine_id(
        &self,
        request: MachineIdRequest,
    ) -> Result<MachineLease, MachineLeaseError> {
        self.lock().machines.grant_machine_id(request)
    }

    async fn renew_machine_lease(
        &self,
        renewal: MachineRenewal,
    ) -> Result<MachineLease, MachineLeaseError> {
        self.lock().machines.renew_machine_id(&renewal)
    }
}

//! The model of a store: ordered maps behind a lock.
//!
//! It is what the other backends are compared with, and what tests of everything above a store run
//! on. It keeps nothing when the process ends.

mod append;
mod commons;
mod credentials;
mod keychain;
mod outlets;
mod queue;
mod shared;
mod state;
#[cfg(test)]
mod tests;
mod upkeep;
mod vault;

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use noetl_types::id::first_id_at;
use noetl_types::limits::PageLimit;
use noetl_types::{
    CommandId, EventId, ExecutionId, FeedPosition, PlaybookPath, ResultId, StoredEvent, TenantId,
    Text, Timestamp, Version, WorkerId,
};

use self::state::State;
use crate::error::StoreError;
use crate::model::{
    Append, AppendRefused, Appended, CatalogEntry, CatalogFilter, CatalogKey, Claim,
    ClaimedCommand, Command, CommandFilter, CommandPage, Counts, DueTimer, Execution,
    ExecutionFilter, ExecutionPage, Extension, FeedBatch, FeedLimit, Fence, Gists, LeaseRequest,
    LeasedCommand, Loaded, LogPage, MachineLease, MachineRefused, MachineRenewal, MachineRequest,
    NewCatalogEntry, NewRuntime, PoolCount, PutRefused, Registered, Release, ResultPut, Runtime,
    RuntimeKind, Snapshot, SnapshotKey, StatusCounts, StoredResult, VersionFilter,
};
use crate::seal::seal_all;
use crate::store::Store;

/// A store in memory.
#[derive(Debug, Default)]
pub struct MemoryStore {
    state: Mutex<State>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Drops the executions that were made before a time, as retention does, whatever keeps them.
    pub fn drop_before(&self, time: Timestamp) {
        self.lock().drop_range(0, first_id_at(time.as_unix_ms()));
    }

    /// No operation leaves the maps half written, so a panic elsewhere does not spoil them.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn append(&self, appends: Vec<Append>) -> Vec<Result<Appended, AppendRefused>> {
        let sealed = seal_all(appends);
        let mut state = self.lock();
        sealed
            .into_iter()
            .map(|sealed| state.append(sealed?))
            .collect()
    }

    async fn load(
        &self,
        execution_id: ExecutionId,
        snapshot: &SnapshotKey,
        page: LogPage,
    ) -> Result<Option<Loaded>, StoreError> {
        Ok(self.lock().load(execution_id, snapshot, page))
    }

    async fn events(
        &self,
        execution_id: ExecutionId,
        after: Version,
        page: LogPage,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        Ok(self.lock().events(execution_id, after, page))
    }

    async fn gists(
        &self,
        execution_id: ExecutionId,
        after: Version,
        page: LogPage,
    ) -> Result<Gists, StoreError> {
        let events = self.lock().events(execution_id, after, page);
        Ok(Gists::Whole(events))
    }

    async fn event(
        &self,
        execution_id: ExecutionId,
        event_id: EventId,
    ) -> Result<Option<StoredEvent>, StoreError> {
        Ok(self.lock().event(execution_id, event_id).cloned())
    }

    async fn snapshot(
        &self,
        execution_id: ExecutionId,
        key: &SnapshotKey,
        at_most: Version,
    ) -> Result<Option<Snapshot>, StoreError> {
        let state = self.lock();
        Ok(state.snapshot(execution_id, key, at_most).cloned())
    }

    async fn write_snapshot(&self, snapshot: Snapshot) -> Result<(), StoreError> {
        self.lock().write_snapshot(snapshot);
        Ok(())
    }

    async fn drop_snapshot(
        &self,
        execution_id: ExecutionId,
        key: &SnapshotKey,
        version: Version,
    ) -> Result<(), StoreError> {
        let place = (execution_id, key.clone(), version);
        self.lock().snapshots.remove(&place);
        Ok(())
    }

    async fn put_result(&self, put: ResultPut) -> Result<(), PutRefused> {
        self.lock().put_result(put.into_stored()?)
    }

    async fn result(
        &self,
        execution_id: ExecutionId,
        result_id: ResultId,
    ) -> Result<Option<StoredResult>, StoreError> {
        let state = self.lock();
        Ok(state.results.get(&(execution_id, result_id)).cloned())
    }

    async fn feed(&self, after: FeedPosition, limit: FeedLimit) -> Result<FeedBatch, StoreError> {
        Ok(self.lock().feed(after, limit))
    }

    async fn execution(&self, execution_id: ExecutionId) -> Result<Option<Execution>, StoreError> {
        Ok(self.lock().executions.get(&execution_id).cloned())
    }

    async fn executions(&self, filter: ExecutionFilter) -> Result<ExecutionPage, StoreError> {
        Ok(self.lock().list(&filter))
    }

    async fn open_children(
        &self,
        parent: ExecutionId,
        after: Option<ExecutionId>,
        limit: PageLimit,
    ) -> Result<Vec<Execution>, StoreError> {
        Ok(self.lock().open_children(parent, after, limit))
    }

    async fn counts(&self, tenant_id: &TenantId) -> Result<Counts, StoreError> {
        Ok(self.lock().counts(tenant_id))
    }

    async fn executions_by_status(&self) -> Result<StatusCounts, StoreError> {
        Ok(self.lock().executions_by_status())
    }

    async fn live_executions(&self, tenant_id: &TenantId, most: u32) -> Result<u32, StoreError> {
        Ok(self.lock().live_executions(tenant_id, most))
    }

    async fn is_gone(&self, execution_id: ExecutionId) -> Result<bool, StoreError> {
        Ok(self.lock().is_gone(execution_id))
    }

    async fn lease(&self, request: LeaseRequest) -> Result<Vec<LeasedCommand>, StoreError> {
        Ok(self.lock().lease(&request))
    }

    async fn claim(
        &self,
        command_id: CommandId,
        claim: Claim,
    ) -> Result<Option<ClaimedCommand>, StoreError> {
        Ok(self.lock().claim(command_id, &claim))
    }

    async fn extend(
        &self,
        leases: Vec<Fence>,
        until: Timestamp,
    ) -> Result<Vec<Extension>, StoreError> {
        let mut state = self.lock();
        Ok(leases
            .iter()
            .map(|fence| state.extend(fence, until))
            .collect())
    }

    async fn release(&self, leases: Vec<Release>) -> Result<Vec<bool>, StoreError> {
        let mut state = self.lock();
        Ok(leases
            .iter()
            .map(|release| state.release(release))
            .collect())
    }

    async fn expired(&self, now: Timestamp, limit: PageLimit) -> Result<Vec<Command>, StoreError> {
        Ok(self.lock().expired(now, limit))
    }

    async fn command(&self, command_id: CommandId) -> Result<Option<Command>, StoreError> {
        Ok(self.lock().commands.get(&command_id).cloned())
    }

    async fn commands(&self, filter: CommandFilter) -> Result<CommandPage, StoreError> {
        Ok(self.lock().list_commands(&filter))
    }

    async fn release_worker(
        &self,
        tenant_id: &TenantId,
        worker: &WorkerId,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        Ok(self.lock().release_worker(tenant_id, worker, now))
    }

    async fn pool_counts(&self) -> Result<Vec<PoolCount>, StoreError> {
        Ok(self.lock().pool_counts())
    }

    async fn due(
        &self,
        now: Timestamp,
        after: Option<&DueTimer>,
        limit: PageLimit,
    ) -> Result<Vec<DueTimer>, StoreError> {
        Ok(self.lock().due(now, after, limit))
    }

    async fn register(&self, entry: NewCatalogEntry) -> Result<Registered, StoreError> {
        self.lock().register(entry)
    }

    async fn catalog_entry(
        &self,
        tenant_id: &TenantId,
        key: CatalogKey,
    ) -> Result<Option<CatalogEntry>, StoreError> {
        Ok(self.lock().catalog_entry(tenant_id, &key))
    }

    async fn catalog(&self, filter: CatalogFilter) -> Result<Vec<CatalogEntry>, StoreError> {
        Ok(self.lock().catalog(&filter))
    }

    async fn catalog_versions(
        &self,
        filter: VersionFilter,
    ) -> Result<Vec<CatalogEntry>, StoreError> {
        Ok(self.lock().catalog_versions(&filter))
    }

    async fn archive(
        &self,
        tenant_id: &TenantId,
        path: &PlaybookPath,
        since: Option<Timestamp>,
    ) -> Result<bool, StoreError> {
        Ok(self.lock().archive(tenant_id, path, since))
    }

    async fn register_runtime(&self, runtime: NewRuntime) -> Result<Runtime, StoreError> {
        Ok(self.lock().register_runtime(runtime))
    }

    async fn heartbeat(
        &self,
        kind: RuntimeKind,
        name: &Text,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        Ok(self.lock().heartbeat(kind, name, now))
    }

    async fn runtimes(&self, kind: RuntimeKind) -> Result<Vec<Runtime>, StoreError> {
        Ok(self.lock().runtimes_of(kind))
    }

    async fn remove_runtime(&self, kind: RuntimeKind, name: &Text) -> Result<bool, StoreError> {
        Ok(self.lock().remove_runtime(kind, name))
    }

    async fn lease_machine(&self, request: MachineRequest) -> Result<MachineLease, MachineRefused> {
        self.lock().machines.lease(request)
    }

    async fn renew_machine(&self, renewal: MachineRenewal) -> Result<MachineLease, MachineRefused> {
        self.lock().machines.renew(&renewal)
    }
}

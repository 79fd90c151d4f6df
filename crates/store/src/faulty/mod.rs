//! A store wrapper that injects faults.
//!
//! It wraps any other store. A function chooses the fault of every call, so a test can fail each
//! call in turn, or at random from a seed.

mod coordination;
mod credentials;
mod identities;
mod keychain;
mod maintenance;
mod method;
mod publishing;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{
    CommandId, EventId, ExecutionId, ExecutionVersion, FeedPosition, PlaybookPath, ResultId,
    StoredEvent, TenantId, Text, Timestamp, WorkerId,
};

use crate::error::{StoreError, StoreSaturated};
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
use crate::store::Store;

pub use self::method::StoreMethod;

/// Fault injected into a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// No fault.
    None,
    /// Fails without calling the store.
    FailBefore,
    /// Fails without calling the store, because no connection became free.
    Saturated,
    /// Calls the store, then fails with an unknown outcome.
    FailAfter,
    /// Yields to other tasks this many times before the call.
    Yield(u32),
    /// Sleeps before the call.
    Sleep(Duration),
    /// Never calls the store and never returns, so the caller has to be cancelled.
    Hang,
    /// Fails an append with a conflict. Other calls succeed.
    Conflict,
}

/// Chooses the fault of a call.
pub type FaultFn = Box<dyn Fn(StoreMethod) -> Fault + Send + Sync>;

/// A store that injects faults into calls to another store.
pub struct FaultyStore<S> {
    inner: Arc<S>,
    fault_fn: FaultFn,
}

impl<S> FaultyStore<S> {
    pub fn new(inner: S, fault_fn: FaultFn) -> Self {
        Self::with_shared_store(Arc::new(inner), fault_fn)
    }

    /// Wraps a store that other wrappers share, each with different faults.
    pub fn with_shared_store(inner: Arc<S>, fault_fn: FaultFn) -> Self {
        Self { inner, fault_fn }
    }

    /// The wrapped store.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// Returns an error if the call fails before it reaches the store, otherwise the handling of
    /// its response.
    async fn inject_fault(&self, method: StoreMethod) -> Result<ResponseMode, StoreError> {
        match (self.fault_fn)(method) {
            Fault::None | Fault::Conflict => Ok(ResponseMode::Deliver),
            Fault::FailBefore => Err(StoreError::retry("failed on purpose, before the call")),
            Fault::Saturated => Err(saturated_error()),
            Fault::FailAfter => Ok(ResponseMode::Lose),
            Fault::Yield(turns) => {
                for _ in 0..turns {
                    tokio::task::yield_now().await;
                }
                Ok(ResponseMode::Deliver)
            }
            Fault::Sleep(duration) => {
                tokio::time::sleep(duration).await;
                Ok(ResponseMode::Deliver)
            }
            Fault::Hang => std::future::pending().await,
        }
    }
}

/// Handling of the response of a completed call.
enum ResponseMode {
    Deliver,
    Lose,
}

impl ResponseMode {
    fn apply_to<T, E: From<StoreError>>(self, result: Result<T, E>) -> Result<T, E> {
        match self {
            Self::Deliver => result,
            Self::Lose => Err(lost_response_error().into()),
        }
    }
}

fn saturated_error() -> StoreError {
    StoreError::retry(StoreSaturated(Duration::from_secs(30)))
}

fn lost_response_error() -> StoreError {
    StoreError::unknown_outcome("failed on purpose, after the call")
}

impl<S: fmt::Debug> fmt::Debug for FaultyStore<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyStore").field("inner", &self.inner).finish_non_exhaustive()
    }
}

#[async_trait]
impl<S: Store> Store for FaultyStore<S> {
    async fn append_events(
        &self,
        appends: Vec<AppendRequest>,
    ) -> Vec<Result<AppendReceipt, AppendError>> {
        let count = appends.len();
        match (self.fault_fn)(StoreMethod::AppendEvents) {
            Fault::None => self.inner.append_events(appends).await,
            Fault::FailBefore => {
                let error = StoreError::retry("failed on purpose, before the call");
                vec![Err(error.into()); count]
            }
            Fault::Saturated => vec![Err(saturated_error().into()); count],
            Fault::FailAfter => {
                self.inner.append_events(appends).await;
                vec![Err(lost_response_error().into()); count]
            }
            Fault::Yield(turns) => {
                for _ in 0..turns {
                    tokio::task::yield_now().await;
                }
                self.inner.append_events(appends).await
            }
            Fault::Sleep(duration) => {
                tokio::time::sleep(duration).await;
                self.inner.append_events(appends).await
            }
            Fault::Hang => std::future::pending().await,
            Fault::Conflict => appends
                .iter()
                .map(|append| Err(AppendError::Conflict { actual: append.expected_head.version }))
                .collect(),
        }
    }

    async fn load_execution(
        &self,
        execution_id: ExecutionId,
        snapshot: &SnapshotKey,
        page: LogPageLimit,
    ) -> Result<Option<LoadedLog>, StoreError> {
        let mode = self.inject_fault(StoreMethod::LoadExecution).await?;
        mode.apply_to(self.inner.load_execution(execution_id, snapshot, page).await)
    }

    async fn read_events(
        &self,
        execution_id: ExecutionId,
        after: ExecutionVersion,
        page: LogPageLimit,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let mode = self.inject_fault(StoreMethod::ReadEvents).await?;
        mode.apply_to(self.inner.read_events(execution_id, after, page).await)
    }

    async fn read_replay_rows(
        &self,
        execution_id: ExecutionId,
        after: ExecutionVersion,
        page: LogPageLimit,
    ) -> Result<ReplayPage, StoreError> {
        let mode = self.inject_fault(StoreMethod::ReadReplayRows).await?;
        mode.apply_to(self.inner.read_replay_rows(execution_id, after, page).await)
    }

    async fn find_event(
        &self,
        execution_id: ExecutionId,
        event_id: EventId,
    ) -> Result<Option<StoredEvent>, StoreError> {
        let mode = self.inject_fault(StoreMethod::FindEvent).await?;
        mode.apply_to(self.inner.find_event(execution_id, event_id).await)
    }

    async fn find_snapshot(
        &self,
        execution_id: ExecutionId,
        key: &SnapshotKey,
        max_version: ExecutionVersion,
    ) -> Result<Option<Snapshot>, StoreError> {
        let mode = self.inject_fault(StoreMethod::FindSnapshot).await?;
        mode.apply_to(self.inner.find_snapshot(execution_id, key, max_version).await)
    }

    async fn write_snapshot(&self, snapshot: Snapshot) -> Result<(), StoreError> {
        let mode = self.inject_fault(StoreMethod::WriteSnapshot).await?;
        mode.apply_to(self.inner.write_snapshot(snapshot).await)
    }

    async fn delete_snapshot(
        &self,
        execution_id: ExecutionId,
        key: &SnapshotKey,
        version: ExecutionVersion,
    ) -> Result<(), StoreError> {
        let mode = self.inject_fault(StoreMethod::DeleteSnapshot).await?;
        mode.apply_to(self.inner.delete_snapshot(execution_id, key, version).await)
    }

    async fn put_result(&self, put: ResultPut) -> Result<(), PutResultError> {
        let mode = self.inject_fault(StoreMethod::PutResult).await?;
        mode.apply_to(self.inner.put_result(put).await)
    }

    async fn find_result(
        &self,
        execution_id: ExecutionId,
        result_id: ResultId,
    ) -> Result<Option<StoredResult>, StoreError> {
        let mode = self.inject_fault(StoreMethod::FindResult).await?;
        mode.apply_to(self.inner.find_result(execution_id, result_id).await)
    }

    async fn read_feed(
        &self,
        after: FeedPosition,
        limit: FeedLimit,
    ) -> Result<FeedBatch, StoreError> {
        let mode = self.inject_fault(StoreMethod::ReadFeed).await?;
        mode.apply_to(self.inner.read_feed(after, limit).await)
    }

    async fn find_execution(
        &self,
        execution_id: ExecutionId,
    ) -> Result<Option<Execution>, StoreError> {
        let mode = self.inject_fault(StoreMethod::FindExecution).await?;
        mode.apply_to(self.inner.find_execution(execution_id).await)
    }

    async fn list_executions(&self, filter: ExecutionFilter) -> Result<ExecutionPage, StoreError> {
        let mode = self.inject_fault(StoreMethod::ListExecutions).await?;
        mode.apply_to(self.inner.list_executions(filter).await)
    }

    async fn list_open_children(
        &self,
        parent: ExecutionId,
        after: Option<ExecutionId>,
        limit: PageLimit,
    ) -> Result<Vec<Execution>, StoreError> {
        let mode = self.inject_fault(StoreMethod::ListOpenChildren).await?;
        mode.apply_to(self.inner.list_open_children(parent, after, limit).await)
    }

    async fn tenant_counts(&self, tenant_id: &TenantId) -> Result<TenantCounts, StoreError> {
        let mode = self.inject_fault(StoreMethod::TenantCounts).await?;
        mode.apply_to(self.inner.tenant_counts(tenant_id).await)
    }

    async fn count_executions_by_status(&self) -> Result<StatusCounts, StoreError> {
        let mode = self.inject_fault(StoreMethod::CountExecutionsByStatus).await?;
        mode.apply_to(self.inner.count_executions_by_status().await)
    }

    async fn count_live_executions(
        &self,
        tenant_id: &TenantId,
        max_count: u32,
    ) -> Result<u32, StoreError> {
        let mode = self.inject_fault(StoreMethod::CountLiveExecutions).await?;
        mode.apply_to(self.inner.count_live_executions(tenant_id, max_count).await)
    }

    async fn is_dropped(&self, execution_id: ExecutionId) -> Result<bool, StoreError> {
        let mode = self.inject_fault(StoreMethod::IsDropped).await?;
        mode.apply_to(self.inner.is_dropped(execution_id).await)
    }

    async fn lease_commands(
        &self,
        request: LeaseRequest,
    ) -> Result<Vec<LeasedCommand>, StoreError> {
        let mode = self.inject_fault(StoreMethod::LeaseCommands).await?;
        mode.apply_to(self.inner.lease_commands(request).await)
    }

    async fn try_lease_command(
        &self,
        command_id: CommandId,
        terms: LeaseTerms,
    ) -> Result<Option<LeaseOutcome>, StoreError> {
        let mode = self.inject_fault(StoreMethod::TryLeaseCommand).await?;
        mode.apply_to(self.inner.try_lease_command(command_id, terms).await)
    }

    async fn extend_leases(
        &self,
        leases: Vec<Fence>,
        until: Timestamp,
    ) -> Result<Vec<LeaseExtension>, StoreError> {
        let mode = self.inject_fault(StoreMethod::ExtendLeases).await?;
        mode.apply_to(self.inner.extend_leases(leases, until).await)
    }

    async fn release_leases(&self, leases: Vec<LeaseRelease>) -> Result<Vec<bool>, StoreError> {
        let mode = self.inject_fault(StoreMethod::ReleaseLeases).await?;
        mode.apply_to(self.inner.release_leases(leases).await)
    }

    async fn list_expired_leases(
        &self,
        now: Timestamp,
        limit: PageLimit,
    ) -> Result<Vec<Command>, StoreError> {
        let mode = self.inject_fault(StoreMethod::ListExpiredLeases).await?;
        mode.apply_to(self.inner.list_expired_leases(now, limit).await)
    }

    async fn find_command(&self, command_id: CommandId) -> Result<Option<Command>, StoreError> {
        let mode = self.inject_fault(StoreMethod::FindCommand).await?;
        mode.apply_to(self.inner.find_command(command_id).await)
    }

    async fn list_commands(&self, filter: CommandFilter) -> Result<CommandPage, StoreError> {
        let mode = self.inject_fault(StoreMethod::ListCommands).await?;
        mode.apply_to(self.inner.list_commands(filter).await)
    }

    async fn expire_worker_leases(
        &self,
        tenant_id: &TenantId,
        worker: &WorkerId,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let mode = self.inject_fault(StoreMethod::ExpireWorkerLeases).await?;
        mode.apply_to(self.inner.expire_worker_leases(tenant_id, worker, now).await)
    }

    async fn pool_counts(&self) -> Result<Vec<PoolCount>, StoreError> {
        let mode = self.inject_fault(StoreMethod::PoolCounts).await?;
        mode.apply_to(self.inner.pool_counts().await)
    }

    async fn list_due_timers(
        &self,
        now: Timestamp,
        after: Option<&DueTimer>,
        limit: PageLimit,
    ) -> Result<Vec<DueTimer>, StoreError> {
        let mode = self.inject_fault(StoreMethod::ListDueTimers).await?;
        mode.apply_to(self.inner.list_due_timers(now, after, limit).await)
    }

    async fn register_definition(
        &self,
        entry: NewCatalogEntry,
    ) -> Result<RegisterOutcome, StoreError> {
        let mode = self.inject_fault(StoreMethod::RegisterDefinition).await?;
        mode.apply_to(self.inner.register_definition(entry).await)
    }

    async fn find_catalog_entry(
        &self,
        tenant_id: &TenantId,
        key: CatalogKey,
    ) -> Result<Option<CatalogEntry>, StoreError> {
        let mode = self.inject_fault(StoreMethod::FindCatalogEntry).await?;
        mode.apply_to(self.inner.find_catalog_entry(tenant_id, key).await)
    }

    async fn list_catalog(&self, filter: CatalogFilter) -> Result<Vec<CatalogEntry>, StoreError> {
        let mode = self.inject_fault(StoreMethod::ListCatalog).await?;
        mode.apply_to(self.inner.list_catalog(filter).await)
    }

    async fn list_catalog_versions(
        &self,
        filter: CatalogVersionFilter,
    ) -> Result<Vec<CatalogEntry>, StoreError> {
        let mode = self.inject_fault(StoreMethod::ListCatalogVersions).await?;
        mode.apply_to(self.inner.list_catalog_versions(filter).await)
    }

    async fn set_definition_archived(
        &self,
        tenant_id: &TenantId,
        path: &PlaybookPath,
        since: Option<Timestamp>,
    ) -> Result<bool, StoreError> {
        let mode = self.inject_fault(StoreMethod::SetDefinitionArchived).await?;
        mode.apply_to(self.inner.set_definition_archived(tenant_id, path, since).await)
    }

    async fn register_runtime(
        &self,
        runtime: RuntimeRegistration,
    ) -> Result<RegisteredRuntime, StoreError> {
        let mode = self.inject_fault(StoreMethod::RegisterRuntime).await?;
        mode.apply_to(self.inner.register_runtime(runtime).await)
    }

    async fn record_heartbeat(
        &self,
        kind: RuntimeKind,
        name: &Text,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let mode = self.inject_fault(StoreMethod::RecordHeartbeat).await?;
        mode.apply_to(self.inner.record_heartbeat(kind, name, now).await)
    }

    async fn list_runtimes(&self, kind: RuntimeKind) -> Result<Vec<RegisteredRuntime>, StoreError> {
        let mode = self.inject_fault(StoreMethod::ListRuntimes).await?;
        mode.apply_to(self.inner.list_runtimes(kind).await)
    }

    async fn remove_runtime(&self, kind: RuntimeKind, name: &Text) -> Result<bool, StoreError> {
        let mode = self.inject_fault(StoreMethod::RemoveRuntime).await?;
        mode.apply_to(self.inner.remove_runtime(kind, name).await)
    }

    async fn lease_machine_id(
        &self,
        request: MachineIdRequest,
    ) -> Result<MachineLease, MachineLeaseError> {
        let mode = self.inject_fault(StoreMethod::LeaseMachineId).await?;
        mode.apply_to(self.inner.lease_machine_id(request).await)
    }

    async fn renew_machine_lease(
        &self,
        renewal: MachineRenewal,
    ) -> Result<MachineLease, MachineLeaseError> {
        let mode = self.inject_fault(StoreMethod::RenewMachineLease).await?;
        mode.apply_to(self.inner.renew_machine_lease(renewal).await)
    }

    async fn open_notify_channel(&self) -> Result<Option<Box<dyn NotifyChannel>>, StoreError> {
        let mode = self.inject_fault(StoreMethod::OpenNotifyChannel).await?;
        mode.apply_to(self.inner.open_notify_channel().await)
    }
}

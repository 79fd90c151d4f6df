//! A store that fails on purpose.
//!
//! It stands before any other store. A plan is asked at every call and says what goes wrong, so a
//! test can break each call in turn, or at random from a seed.

mod commons;
mod credentials;
mod keychain;
mod method;
mod outlets;
#[cfg(test)]
mod tests;
mod upkeep;
mod vault;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{
    CommandId, EventId, ExecutionId, FeedPosition, PlaybookPath, ResultId, StoredEvent, TenantId,
    Text, Timestamp, Version, WorkerId,
};

use crate::error::{Saturated, StoreError};
use crate::line::Line;
use crate::model::{
    Append, AppendRefused, Appended, CatalogEntry, CatalogFilter, CatalogKey, Claim,
    ClaimedCommand, Command, CommandFilter, CommandPage, Counts, DueTimer, Execution,
    ExecutionFilter, ExecutionPage, Extension, FeedBatch, FeedLimit, Fence, Gists, LeaseRequest,
    LeasedCommand, Loaded, LogPage, MachineLease, MachineRefused, MachineRenewal, MachineRequest,
    NewCatalogEntry, NewRuntime, PoolCount, PutRefused, Registered, Release, ResultPut, Runtime,
    RuntimeKind, Snapshot, SnapshotKey, StatusCounts, StoredResult, VersionFilter,
};
use crate::store::Store;

pub use self::method::Method;

/// What goes wrong with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// It fails and does nothing.
    Before,
    /// It does nothing: no connection became free.
    Saturated,
    /// It does everything, and then fails: nobody knows whether it worked.
    After,
    /// Others get their turn first, a number of times.
    Delay(u32),
    /// Time passes first.
    Wait(Duration),
    /// It is not done and never answered: whoever called is cut off.
    Never,
    /// An append meets another one; any other call goes through.
    Conflict,
}

/// Says what goes wrong with a call.
pub type Plan = Box<dyn Fn(Method) -> Fault + Send + Sync>;

/// A store before another one.
pub struct FaultyStore<S> {
    inner: Arc<S>,
    plan: Plan,
}

impl<S> FaultyStore<S> {
    /// Stands before a store, and fails as planned.
    pub fn new(inner: S, plan: Plan) -> Self {
        Self::sharing(Arc::new(inner), plan)
    }

    /// The same before a store that others use too, each with faults of its own.
    pub fn sharing(inner: Arc<S>, plan: Plan) -> Self {
        Self { inner, plan }
    }

    /// The store behind.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// Fails a call that is to fail before it is done, and says what becomes of its answer else.
    async fn fault(&self, method: Method) -> Result<Answer, StoreError> {
        match (self.plan)(method) {
            Fault::None | Fault::Conflict => Ok(Answer::AsItIs),
            Fault::Before => Err(StoreError::retry("failed on purpose, before the call")),
            Fault::Saturated => Err(saturated()),
            Fault::After => Ok(Answer::Lost),
            Fault::Delay(turns) => {
                for _ in 0..turns {
                    tokio::task::yield_now().await;
                }
                Ok(Answer::AsItIs)
            }
            Fault::Wait(time) => {
                tokio::time::sleep(time).await;
                Ok(Answer::AsItIs)
            }
            Fault::Never => std::future::pending().await,
        }
    }
}

/// What becomes of the answer of a call that was done.
enum Answer {
    AsItIs,
    Lost,
}

impl Answer {
    fn of<T, E: From<StoreError>>(self, answer: Result<T, E>) -> Result<T, E> {
        match self {
            Self::AsItIs => answer,
            Self::Lost => Err(lost().into()),
        }
    }
}

fn saturated() -> StoreError {
    StoreError::retry(Saturated(Duration::from_secs(30)))
}

fn lost() -> StoreError {
    StoreError::unknown("failed on purpose, after the call")
}

impl<S: fmt::Debug> fmt::Debug for FaultyStore<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyStore")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl<S: Store> Store for FaultyStore<S> {
    async fn append(&self, appends: Vec<Append>) -> Vec<Result<Appended, AppendRefused>> {
        let count = appends.len();
        match (self.plan)(Method::Append) {
            Fault::None => self.inner.append(appends).await,
            Fault::Before => {
                let failed = StoreError::retry("failed on purpose, before the call");
                vec![Err(failed.into()); count]
            }
            Fault::Saturated => vec![Err(saturated().into()); count],
            Fault::After => {
                self.inner.append(appends).await;
                vec![Err(lost().into()); count]
            }
            Fault::Delay(turns) => {
                for _ in 0..turns {
                    tokio::task::yield_now().await;
                }
                self.inner.append(appends).await
            }
            Fault::Wait(time) => {
                tokio::time::sleep(time).await;
                self.inner.append(appends).await
            }
            Fault::Never => std::future::pending().await,
            Fault::Conflict => appends
                .iter()
                .map(|append| {
                    Err(AppendRefused::Conflict {
                        actual: append.expected.version,
                    })
                })
                .collect(),
        }
    }

    async fn load(
        &self,
        execution_id: ExecutionId,
        snapshot: &SnapshotKey,
        page: LogPage,
    ) -> Result<Option<Loaded>, StoreError> {
        let answer = self.fault(Method::Load).await?;
        answer.of(self.inner.load(execution_id, snapshot, page).await)
    }

    async fn events(
        &self,
        execution_id: ExecutionId,
        after: Version,
        page: LogPage,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let answer = self.fault(Method::Events).await?;
        answer.of(self.inner.events(execution_id, after, page).await)
    }

    async fn gists(
        &self,
        execution_id: ExecutionId,
        after: Version,
        page: LogPage,
    ) -> Result<Gists, StoreError> {
        let answer = self.fault(Method::Gists).await?;
        answer.of(self.inner.gists(execution_id, after, page).await)
    }

    async fn event(
        &self,
        execution_id: ExecutionId,
        event_id: EventId,
    ) -> Result<Option<StoredEvent>, StoreError> {
        let answer = self.fault(Method::Event).await?;
        answer.of(self.inner.event(execution_id, event_id).await)
    }

    async fn snapshot(
        &self,
        execution_id: ExecutionId,
        key: &SnapshotKey,
        at_most: Version,
    ) -> Result<Option<Snapshot>, StoreError> {
        let answer = self.fault(Method::Snapshot).await?;
        answer.of(self.inner.snapshot(execution_id, key, at_most).await)
    }

    async fn write_snapshot(&self, snapshot: Snapshot) -> Result<(), StoreError> {
        let answer = self.fault(Method::WriteSnapshot).await?;
        answer.of(self.inner.write_snapshot(snapshot).await)
    }

    async fn drop_snapshot(
        &self,
        execution_id: ExecutionId,
        key: &SnapshotKey,
        version: Version,
    ) -> Result<(), StoreError> {
        let answer = self.fault(Method::DropSnapshot).await?;
        answer.of(self.inner.drop_snapshot(execution_id, key, version).await)
    }

    async fn put_result(&self, put: ResultPut) -> Result<(), PutRefused> {
        let answer = self.fault(Method::PutResult).await?;
        answer.of(self.inner.put_result(put).await)
    }

    async fn result(
        &self,
        execution_id: ExecutionId,
        result_id: ResultId,
    ) -> Result<Option<StoredResult>, StoreError> {
        let answer = self.fault(Method::Result).await?;
        answer.of(self.inner.result(execution_id, result_id).await)
    }

    async fn feed(&self, after: FeedPosition, limit: FeedLimit) -> Result<FeedBatch, StoreError> {
        let answer = self.fault(Method::Feed).await?;
        answer.of(self.inner.feed(after, limit).await)
    }

    async fn execution(&self, execution_id: ExecutionId) -> Result<Option<Execution>, StoreError> {
        let answer = self.fault(Method::Execution).await?;
        answer.of(self.inner.execution(execution_id).await)
    }

    async fn executions(&self, filter: ExecutionFilter) -> Result<ExecutionPage, StoreError> {
        let answer = self.fault(Method::Executions).await?;
        answer.of(self.inner.executions(filter).await)
    }

    async fn open_children(
        &self,
        parent: ExecutionId,
        after: Option<ExecutionId>,
        limit: PageLimit,
    ) -> Result<Vec<Execution>, StoreError> {
        let answer = self.fault(Method::OpenChildren).await?;
        answer.of(self.inner.open_children(parent, after, limit).await)
    }

    async fn counts(&self, tenant_id: &TenantId) -> Result<Counts, StoreError> {
        let answer = self.fault(Method::Counts).await?;
        answer.of(self.inner.counts(tenant_id).await)
    }

    async fn executions_by_status(&self) -> Result<StatusCounts, StoreError> {
        let answer = self.fault(Method::ExecutionsByStatus).await?;
        answer.of(self.inner.executions_by_status().await)
    }

    async fn live_executions(&self, tenant_id: &TenantId, most: u32) -> Result<u32, StoreError> {
        let answer = self.fault(Method::LiveExecutions).await?;
        answer.of(self.inner.live_executions(tenant_id, most).await)
    }

    async fn is_gone(&self, execution_id: ExecutionId) -> Result<bool, StoreError> {
        let answer = self.fault(Method::IsGone).await?;
        answer.of(self.inner.is_gone(execution_id).await)
    }

    async fn lease(&self, request: LeaseRequest) -> Result<Vec<LeasedCommand>, StoreError> {
        let answer = self.fault(Method::Lease).await?;
        answer.of(self.inner.lease(request).await)
    }

    async fn claim(
        &self,
        command_id: CommandId,
        claim: Claim,
    ) -> Result<Option<ClaimedCommand>, StoreError> {
        let answer = self.fault(Method::Claim).await?;
        answer.of(self.inner.claim(command_id, claim).await)
    }

    async fn extend(
        &self,
        leases: Vec<Fence>,
        until: Timestamp,
    ) -> Result<Vec<Extension>, StoreError> {
        let answer = self.fault(Method::Extend).await?;
        answer.of(self.inner.extend(leases, until).await)
    }

    async fn release(&self, leases: Vec<Release>) -> Result<Vec<bool>, StoreError> {
        let answer = self.fault(Method::Release).await?;
        answer.of(self.inner.release(leases).await)
    }

    async fn expired(&self, now: Timestamp, limit: PageLimit) -> Result<Vec<Command>, StoreError> {
        let answer = self.fault(Method::Expired).await?;
        answer.of(self.inner.expired(now, limit).await)
    }

    async fn command(&self, command_id: CommandId) -> Result<Option<Command>, StoreError> {
        let answer = self.fault(Method::Command).await?;
        answer.of(self.inner.command(command_id).await)
    }

    async fn commands(&self, filter: CommandFilter) -> Result<CommandPage, StoreError> {
        let answer = self.fault(Method::Commands).await?;
        answer.of(self.inner.commands(filter).await)
    }

    async fn release_worker(
        &self,
        tenant_id: &TenantId,
        worker: &WorkerId,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let answer = self.fault(Method::ReleaseWorker).await?;
        answer.of(self.inner.release_worker(tenant_id, worker, now).await)
    }

    async fn pool_counts(&self) -> Result<Vec<PoolCount>, StoreError> {
        let answer = self.fault(Method::PoolCounts).await?;
        answer.of(self.inner.pool_counts().await)
    }

    async fn due(
        &self,
        now: Timestamp,
        after: Option<&DueTimer>,
        limit: PageLimit,
    ) -> Result<Vec<DueTimer>, StoreError> {
        let answer = self.fault(Method::Due).await?;
        answer.of(self.inner.due(now, after, limit).await)
    }

    async fn register(&self, entry: NewCatalogEntry) -> Result<Registered, StoreError> {
        let answer = self.fault(Method::Register).await?;
        answer.of(self.inner.register(entry).await)
    }

    async fn catalog_entry(
        &self,
        tenant_id: &TenantId,
        key: CatalogKey,
    ) -> Result<Option<CatalogEntry>, StoreError> {
        let answer = self.fault(Method::CatalogEntry).await?;
        answer.of(self.inner.catalog_entry(tenant_id, key).await)
    }

    async fn catalog(&self, filter: CatalogFilter) -> Result<Vec<CatalogEntry>, StoreError> {
        let answer = self.fault(Method::Catalog).await?;
        answer.of(self.inner.catalog(filter).await)
    }

    async fn catalog_versions(
        &self,
        filter: VersionFilter,
    ) -> Result<Vec<CatalogEntry>, StoreError> {
        let answer = self.fault(Method::CatalogVersions).await?;
        answer.of(self.inner.catalog_versions(filter).await)
    }

    async fn archive(
        &self,
        tenant_id: &TenantId,
        path: &PlaybookPath,
        since: Option<Timestamp>,
    ) -> Result<bool, StoreError> {
        let answer = self.fault(Method::Archive).await?;
        answer.of(self.inner.archive(tenant_id, path, since).await)
    }

    async fn register_runtime(&self, runtime: NewRuntime) -> Result<Runtime, StoreError> {
        let answer = self.fault(Method::RegisterRuntime).await?;
        answer.of(self.inner.register_runtime(runtime).await)
    }

    async fn heartbeat(
        &self,
        kind: RuntimeKind,
        name: &Text,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let answer = self.fault(Method::Heartbeat).await?;
        answer.of(self.inner.heartbeat(kind, name, now).await)
    }

    async fn runtimes(&self, kind: RuntimeKind) -> Result<Vec<Runtime>, StoreError> {
        let answer = self.fault(Method::Runtimes).await?;
        answer.of(self.inner.runtimes(kind).await)
    }

    async fn remove_runtime(&self, kind: RuntimeKind, name: &Text) -> Result<bool, StoreError> {
        let answer = self.fault(Method::RemoveRuntime).await?;
        answer.of(self.inner.remove_runtime(kind, name).await)
    }

    async fn lease_machine(&self, request: MachineRequest) -> Result<MachineLease, MachineRefused> {
        let answer = self.fault(Method::LeaseMachine).await?;
        answer.of(self.inner.lease_machine(request).await)
    }

    async fn renew_machine(&self, renewal: MachineRenewal) -> Result<MachineLease, MachineRefused> {
        let answer = self.fault(Method::RenewMachine).await?;
        answer.of(self.inner.renew_machine(renewal).await)
    }

    async fn line(&self) -> Result<Option<Box<dyn Line>>, StoreError> {
        let answer = self.fault(Method::Line).await?;
        answer.of(self.inner.line().await)
    }
}

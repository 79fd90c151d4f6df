//! Cancels runs whose process no longer exists.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::sync::LazyLock;

use noetl_api::execution::CancelRequest;
use noetl_server::{CallContext, ControlPlane, RuntimeError};
use noetl_store::{Execution, ExecutionFilter, RuntimeKind, Store, StoreError};
use noetl_types::limits::PageLimit;
use noetl_types::{ErrorCode, ExecutionId, ExecutionStatus, Millis, PoolName, TenantId, Timestamp};
use rustix::io::Errno;
use rustix::process::{Pid, getpid, test_kill_process};

use super::store::StoreLocation;
use super::worker::random_suffix;
use crate::config::Config;
use crate::config::table::WORKER_OFFLINE_SECS;
use crate::error::{Error, Result};

/// Pool of the local runs of this process, which no other process serves. Contains the process id
/// and its namespace, so that other processes on the same database file can detect its end.
pub(crate) fn local_pool_name() -> PoolName {
    static NAME: LazyLock<PoolName> = LazyLock::new(|| {
        let (prefix, id) = (PoolName::LOCAL_PREFIX, std::process::id());
        // The name is always valid. The shared pool is only a fallback.
        PoolName::new(format!("{prefix}{id:08x}-{:x}-{}", pid_namespace(), random_suffix()))
            .unwrap_or_else(|_| PoolName::shared())
    });
    NAME.clone()
}

/// Number of the namespace in which the process ids of this process are valid. 0 if it is unknown.
fn pid_namespace() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino())
}

/// True if the process of a local pool exists, or if it is in another container, where it cannot be
/// seen.
fn is_process_alive(pool: &PoolName) -> bool {
    if *pool == local_pool_name() {
        return true;
    }
    let name = pool.as_str().strip_prefix(PoolName::LOCAL_PREFIX).unwrap_or_default();
    let mut parts = name.split('-');
    let id = parts.next().and_then(|id| i32::from_str_radix(id, 16).ok()).and_then(Pid::from_raw);
    let namespace = parts.next().and_then(|namespace| u64::from_str_radix(namespace, 16).ok());
    if namespace.is_some_and(|namespace| namespace != pid_namespace()) {
        return true;
    }
    // An id that is in use again can be that of this process.
    id.is_some_and(|id| id != getpid() && !matches!(test_kill_process(id), Err(Errno::SRCH)))
}

/// Multiple of the offline timeout after which a worker on a shared database counts as lost.
/// Machines share the database, and a worker may be paused for a while.
const LOST_TIMEOUT_MULTIPLE: u32 = 5;

/// Maximum runs examined per status.
const MAX_EXAMINED_RUNS: usize = 100_000;

/// Runs that no process will continue.
#[derive(Debug, Clone, Copy)]
enum OrphanScope {
    /// Local runs whose process does not exist. Other processes on this machine use the database
    /// file through this one.
    EndedProcesses,
    /// Local runs whose worker has sent no heartbeat for this time.
    SilentFor(Millis),
}

impl OrphanScope {
    /// Scope for a store. `None` for a store in memory.
    fn for_location(location: &StoreLocation, config: &Config) -> Result<Option<Self>> {
        Ok(match location {
            StoreLocation::Memory => None,
            StoreLocation::File { .. } => Some(Self::EndedProcesses),
            StoreLocation::Database(_) => {
                let silence =
                    config.value(&WORKER_OFFLINE_SECS)?.saturating_mul(LOST_TIMEOUT_MULTIPLE);
                Some(Self::SilentFor(Millis::from_secs(silence.into())))
            }
        })
    }
}

/// Cancels orphaned local runs and returns their number.
pub(crate) async fn cancel_orphans(
    store: &dyn Store,
    runtime: &ControlPlane,
    location: &StoreLocation,
    config: &Config,
) -> Result<usize> {
    match OrphanScope::for_location(location, config)? {
        None => Ok(0),
        Some(scope) => {
            let cancelled = cancel_orphans_in(scope, store, runtime).await;
            cancelled.map_err(|error| Error::from_chain(&error))
        }
    }
}

async fn cancel_orphans_in(
    scope: OrphanScope,
    store: &dyn Store,
    runtime: &ControlPlane,
) -> Result<usize, RuntimeError> {
    let now = runtime.infra.now();
    let (cutoff, live_pools) = match scope {
        OrphanScope::EndedProcesses => (None, BTreeSet::new()),
        // A new run can exist before its worker is registered.
        OrphanScope::SilentFor(silence) => {
            let cutoff = now.saturating_sub(silence);
            (Some(cutoff), active_pools(store, cutoff).await?)
        }
    };
    let is_orphan = |execution: &Execution| {
        let facts = &execution.facts;
        facts.pool.is_local()
            && !live_pools.contains(facts.pool.as_str())
            && match cutoff {
                Some(cutoff) => facts.started_at < cutoff,
                None => !is_process_alive(&facts.pool),
            }
    };
    let mut count = 0;
    for status in [ExecutionStatus::Pending, ExecutionStatus::Running, ExecutionStatus::Paused] {
        for execution_id in list_orphans(store, status, is_orphan).await? {
            let request = CancelRequest {
                reason: Some("the process that ran it no longer exists".into()),
                // No worker could run its final step.
                force: true,
                ..CancelRequest::default()
            };
            match runtime
                .executions
                .cancel_execution(CallContext::server(), execution_id, None, request)
                .await
            {
                Ok(_) => count += 1,
                Err(RuntimeError::Refused(problem))
                    if problem.known_code() == Some(ErrorCode::AlreadyTerminal) => {}
                // On a shared database, one failed cancellation must not prevent the startup.
                Err(error) if matches!(scope, OrphanScope::SilentFor(_)) => {
                    tracing::warn!(%execution_id, %error, "cannot cancel a run whose process no longer exists");
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(count)
}

/// Pools with a worker heartbeat since the given time.
async fn active_pools(store: &dyn Store, since: Timestamp) -> Result<BTreeSet<String>, StoreError> {
    let workers = store.list_runtimes(RuntimeKind::WorkerPool).await?;
    let fresh = workers.iter().filter(|worker| worker.heartbeat >= since);
    let pools = fresh.filter_map(|worker| {
        let labels = worker.detail.as_ref()?.get("labels")?;
        labels.get("pool_name")?.as_str().map(str::to_owned)
    });
    Ok(pools.collect())
}

async fn list_orphans(
    store: &dyn Store,
    status: ExecutionStatus,
    is_orphan: impl Fn(&Execution) -> bool,
) -> Result<Vec<ExecutionId>, StoreError> {
    let mut orphans = Vec::new();
    let mut after = None;
    let mut examined = 0;
    loop {
        let filter = ExecutionFilter {
            tenant_id: TenantId::default(),
            status: Some(status),
            path: None,
            parent_execution_id: None,
            after,
            limit: PageLimit::MAX,
        };
        let page = store.list_executions(filter).await?;
        let matching = page.executions.iter().filter(|execution| is_orphan(execution));
        orphans.extend(matching.map(|execution| execution.execution_id));
        examined += page.executions.len();
        after = page.next;
        if after.is_none() || examined >= MAX_EXAMINED_RUNS {
            return Ok(orphans);
        }
    }
}

//! Runs whose process is gone.

use std::collections::BTreeSet;

use noetl_api::execution::CancelRequest;
use noetl_server::{Clock as _, Runtime, RuntimeError, SystemClock};
use noetl_store::{Execution, ExecutionFilter, RuntimeKind, Store, StoreError};
use noetl_types::limits::PageLimit;
use noetl_types::{ErrorCode, ExecutionId, ExecutionStatus, Millis, TenantId, Timestamp};

use super::store::Place;
use crate::config::table::OFFLINE_AFTER;
use crate::config::{Config, ConfigError};

/// Pools of single runs begin like this. Each run has its own, so that no other process does its
/// work and it does nobody else's.
pub(crate) const POOL_PREFIX: &str = "local-";

/// A worker of a database counts as gone after so many times the silence after which it counts as
/// offline: processes of several machines share it, and their clocks differ.
const SILENCES: u32 = 5;

/// Runs of each status that are looked at, at most.
const MAX_LOOKED: usize = 100_000;

/// Whose runs nobody will ever go on with.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Gone {
    /// Those of all single processes: the store is this process's alone, so no other one lives.
    Everybody,
    /// Those of processes whose worker was not heard of for so long.
    Silent(Millis),
}

impl Gone {
    /// Whose runs can be left behind in a place; nobody's where nothing outlives a process.
    pub(crate) fn of(place: &Place, config: &Config) -> Result<Option<Self>, ConfigError> {
        Ok(match place {
            Place::Memory => None,
            Place::File { .. } => Some(Self::Everybody),
            Place::Database(_) => {
                let silence = config.value(&OFFLINE_AFTER)?.saturating_mul(SILENCES);
                Some(Self::Silent(Millis::from_secs(silence.into())))
            }
        })
    }
}

/// Ends the runs of single processes that are gone, and says how many there were.
pub(crate) async fn bury(
    store: &dyn Store,
    runtime: &Runtime,
    gone: Gone,
) -> Result<usize, RuntimeError> {
    let now = SystemClock.now();
    let (before, alive) = match gone {
        Gone::Everybody => (None, BTreeSet::new()),
        // A run that has just begun may be there before its worker is.
        Gone::Silent(silence) => {
            let since = now.saturating_sub(silence);
            (Some(since), heard_of(store, since).await?)
        }
    };
    let is_left = |execution: &Execution| {
        let facts = &execution.facts;
        facts.pool.as_str().starts_with(POOL_PREFIX)
            && !alive.contains(facts.pool.as_str())
            && before.is_none_or(|before| facts.started_at < before)
    };
    let mut count = 0;
    for status in [
        ExecutionStatus::Pending,
        ExecutionStatus::Running,
        ExecutionStatus::Paused,
    ] {
        for execution_id in left_behind(store, status, is_left).await? {
            let request = CancelRequest {
                reason: Some("the process that ran it is gone".into()),
                cascade: None,
            };
            match runtime.cancel(execution_id, None, request).await {
                Ok(_) => count += 1,
                Err(RuntimeError::Refused(problem))
                    if problem.known_code() == Some(ErrorCode::AlreadyTerminal) => {}
                // The others on the database are not kept from their work by one that cannot end.
                Err(error) if matches!(gone, Gone::Silent(_)) => {
                    tracing::warn!(%execution_id, %error, "a run whose process is gone stays");
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(count)
}

/// The pools with a worker that was heard of since.
async fn heard_of(store: &dyn Store, since: Timestamp) -> Result<BTreeSet<String>, StoreError> {
    let workers = store.runtimes(RuntimeKind::WorkerPool).await?;
    let fresh = workers.iter().filter(|worker| worker.heartbeat >= since);
    let pools = fresh.filter_map(|worker| {
        let labels = worker.detail.as_ref()?.get("labels")?;
        labels.get("pool_name")?.as_str().map(str::to_owned)
    });
    Ok(pools.collect())
}

async fn left_behind(
    store: &dyn Store,
    status: ExecutionStatus,
    is_left: impl Fn(&Execution) -> bool,
) -> Result<Vec<ExecutionId>, StoreError> {
    let mut found = Vec::new();
    let mut after = None;
    let mut looked = 0;
    loop {
        let filter = ExecutionFilter {
            tenant_id: TenantId::default(),
            status: Some(status),
            path: None,
            parent_execution_id: None,
            after,
            limit: PageLimit::MAX,
        };
        let page = store.executions(filter).await?;
        let left = page.executions.iter().filter(|one| is_left(one));
        found.extend(left.map(|execution| execution.execution_id));
        looked += page.executions.len();
        after = page.next;
        if after.is_none() || looked >= MAX_LOOKED {
            return Ok(found);
        }
    }
}

//! Runs whose process is gone.

use noetl_api::execution::CancelRequest;
use noetl_server::{Runtime, RuntimeError};
use noetl_store::{ExecutionFilter, Store, StoreError};
use noetl_types::limits::PageLimit;
use noetl_types::{ErrorCode, ExecutionId, ExecutionStatus, TenantId};

/// Pools of single runs begin like this. Each run has its own, so that no other process does its
/// work and it does nobody else's.
pub(crate) const POOL_PREFIX: &str = "local-";

/// Ends the runs of single processes that are gone, and says how many there were.
///
/// Only for a store that one process has for itself: then whatever such a run left behind, nobody
/// will ever go on with it.
pub(crate) async fn bury(store: &dyn Store, runtime: &Runtime) -> Result<usize, RuntimeError> {
    let mut count = 0;
    for status in [ExecutionStatus::Pending, ExecutionStatus::Running] {
        for execution_id in left_behind(store, status).await? {
            let request = CancelRequest {
                reason: Some("the process that ran it is gone".into()),
                cascade: None,
            };
            match runtime.cancel(execution_id, None, request).await {
                Ok(_) => count += 1,
                Err(RuntimeError::Refused(problem))
                    if problem.known_code() == Some(ErrorCode::AlreadyTerminal) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(count)
}

async fn left_behind(
    store: &dyn Store,
    status: ExecutionStatus,
) -> Result<Vec<ExecutionId>, StoreError> {
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let filter = ExecutionFilter {
            tenant_id: TenantId::default(),
            status: Some(status),
            path: None,
            parent_execution_id: None,
            after,
            limit: PageLimit::default(),
        };
        let page = store.executions(filter).await?;
        let ours = page
            .executions
            .iter()
            .filter(|execution| execution.facts.pool.as_str().starts_with(POOL_PREFIX));
        found.extend(ours.map(|execution| execution.execution_id));
        after = page.next;
        if after.is_none() {
            return Ok(found);
        }
    }
}

//! Lookup of one execution, and its entry in lists.

use noetl_api::execution::ExecutionSummary;
use noetl_store::Execution;
use noetl_types::{ErrorCode, ExecutionId, Timestamp};

use super::elapsed::ExecutionDuration;
use crate::runtime::{Runtime, RuntimeError};

impl Runtime {
    /// Returns an execution that the caller can see. An execution of another tenant is reported as
    /// not found.
    pub(crate) async fn visible_execution(
        &self,
        execution_id: ExecutionId,
    ) -> Result<Execution, RuntimeError> {
        self.auth_context().check_token_execution(execution_id)?;
        let found = self.store().find_execution(execution_id).await?;
        let is_visible = |execution: &Execution| {
            let facts = &execution.facts;
            facts.tenant_id == *self.tenant()
                && self.auth_context().can_see_path(facts.path.as_ref())
        };
        if let Some(execution) = found.filter(is_visible) {
            let facts = &execution.facts;
            let queue = facts.pool.tenant_queue(&facts.tenant_id);
            self.auth_context().check_execution_access(&facts.tenant_id, &queue)?;
            if let Some(observed) = self.observed_seq() {
                observed.record_end(execution.head.version);
            }
            return Ok(execution);
        }
        if self.store().is_dropped(execution_id).await? {
            return Err(RuntimeError::refused(
                ErrorCode::RetentionDropped,
                "the execution was dropped by retention",
            ));
        }
        Err(RuntimeError::no_execution())
    }
}

/// Converts an execution to a list entry. The row has no progress between the first step and the
/// end, so progress is 0 or 100.
pub(super) fn to_execution_summary(execution: &Execution, now: Timestamp) -> ExecutionSummary {
    let (facts, view) = (&execution.facts, &execution.view);
    let elapsed = ExecutionDuration::from_start_to_end(facts.started_at, view.ended_at, now);
    ExecutionSummary {
        execution_id: execution.execution_id,
        catalog_id: facts.catalog_id,
        path: facts.path.clone(),
        version: facts.playbook_version,
        status: view.status,
        started_at: facts.started_at,
        completed_at: view.ended_at,
        start_time: facts.started_at,
        end_time: view.ended_at,
        duration_seconds: elapsed.as_seconds(),
        duration_human: elapsed.to_human_text(),
        progress: if view.status.is_terminal() { 100 } else { 0 },
        parent_execution_id: facts.parent_execution_id,
        event_count: execution.head.version.get(),
        error: view.error.clone(),
    }
}

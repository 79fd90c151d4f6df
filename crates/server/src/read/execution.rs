//! One execution as the store has it, and its line in lists.

use noetl_api::execution::ExecutionLine;
use noetl_store::Execution;
use noetl_types::{ErrorCode, ExecutionId, Timestamp};

use super::elapsed::Elapsed;
use crate::runtime::{Runtime, RuntimeError};

impl Runtime {
    /// An execution that the caller may see. One of somebody else is as good as none.
    pub(crate) async fn execution_row(
        &self,
        execution_id: ExecutionId,
    ) -> Result<Execution, RuntimeError> {
        self.behalf().check_run(execution_id)?;
        let found = self.store().execution(execution_id).await?;
        let is_there = |found: &Execution| {
            let facts = &found.facts;
            facts.tenant_id == *self.tenant() && self.behalf().sees(facts.path.as_ref())
        };
        if let Some(execution) = found.filter(is_there) {
            let facts = &execution.facts;
            let queue = facts.pool.within(&facts.tenant_id);
            self.behalf().check(&facts.tenant_id, &queue)?;
            if let Some(seen) = self.seq_seen() {
                seen.note(execution.head.version);
            }
            return Ok(execution);
        }
        if self.store().is_gone(execution_id).await? {
            return Err(RuntimeError::refused(
                ErrorCode::RetentionDropped,
                "the execution was dropped by retention",
            ));
        }
        Err(RuntimeError::no_execution())
    }
}

/// The line of a list. Where an execution is on its way between its first step and its last, a row
/// does not tell: only an end counts as progress here.
pub(super) fn line(execution: &Execution, now: Timestamp) -> ExecutionLine {
    let (facts, view) = (&execution.facts, &execution.view);
    let elapsed = Elapsed::between(facts.started_at, view.ended_at, now);
    ExecutionLine {
        execution_id: execution.execution_id,
        catalog_id: facts.catalog_id,
        path: facts.path.clone(),
        version: facts.playbook_version,
        status: view.status,
        started_at: facts.started_at,
        completed_at: view.ended_at,
        start_time: facts.started_at,
        end_time: view.ended_at,
        duration_seconds: elapsed.seconds(),
        duration_human: elapsed.human(),
        progress: if view.status.is_terminal() { 100 } else { 0 },
        parent_execution_id: facts.parent_execution_id,
        event_count: execution.head.version.get(),
        error: view.error.clone(),
    }
}

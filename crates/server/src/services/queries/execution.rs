//! Lookup of one execution, and its entry in lists.

use noetl_api::execution::ExecutionSummary;
use noetl_store::Execution;
use noetl_types::{Millis, Text, Timestamp};

/// Converts an execution to a list entry. The row has no progress between the first step and the
/// end, so progress is 0 or 100.
pub(crate) fn to_execution_summary(execution: &Execution, now: Timestamp) -> ExecutionSummary {
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

/// Duration of an operation, or its duration so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExecutionDuration(Millis);

impl ExecutionDuration {
    /// Time from the start to the end, or to now if there is no end.
    pub(crate) fn from_start_to_end(
        start: Timestamp,
        end: Option<Timestamp>,
        now: Timestamp,
    ) -> Self {
        Self(end.unwrap_or(now).duration_since(start))
    }

    pub(crate) fn as_seconds(self) -> f64 {
        self.0.as_secs_f64()
    }

    /// Formats the duration for people.
    pub(crate) fn to_human_text(self) -> Text {
        self.0.to_human().into()
    }
}

#[cfg(test)]
mod tests;

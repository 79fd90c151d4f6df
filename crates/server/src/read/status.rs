//! Status of an execution, from a fold of its log.

use noetl_api::execution::{ExecutionStatusView, StepProgress};
use noetl_engine::{ExecutionState, StepStatus};
use noetl_types::{ExecutionId, ExecutionStatus, Json, Text, Timestamp};

use super::elapsed::ExecutionDuration;
use crate::runtime::{Definition, Runtime, RuntimeError};

impl Runtime {
    /// Returns the status of an execution.
    pub async fn execution_status(
        &self,
        execution_id: ExecutionId,
    ) -> Result<ExecutionStatusView, RuntimeError> {
        let row = self.visible_execution(execution_id).await?;
        let folded = self.execution_state(execution_id).await?;
        let (tally, variables) = match &folded {
            Some((definition, state)) => {
                (StepTally::count_steps(definition, state), state.ctx().clone())
            }
            None => (StepTally::default(), Json::empty_map()),
        };
        let result = self.final_result(&row).await?;
        let (facts, view) = (row.facts, row.view);
        let elapsed =
            ExecutionDuration::from_start_to_end(facts.started_at, view.ended_at, self.now());
        Ok(ExecutionStatusView {
            execution_id,
            status: view.status,
            current_step: view.last_node_name,
            progress: tally.progress,
            is_cancelled: view.status == ExecutionStatus::Cancelled,
            completed: view.status.is_terminal(),
            failed: view.status == ExecutionStatus::Failed,
            completed_steps: tally.completed_steps(),
            completion_inferred: false,
            variables,
            start_time: facts.started_at,
            end_time: view.ended_at,
            duration_seconds: elapsed.as_seconds(),
            duration_human: elapsed.to_human_text(),
            result,
            error: view.error,
        })
    }
}

/// Step counts of an execution.
#[derive(Debug, Default)]
pub(super) struct StepTally {
    progress: StepProgress,
    /// Completed steps with the end of their last pass.
    completed: Vec<(Timestamp, Text)>,
    /// Skipped and cancelled steps, which count as done.
    skipped: u32,
}

impl StepTally {
    /// Counts the steps of an execution.
    pub(super) fn count_steps(definition: &Definition, state: &ExecutionState) -> Self {
        let graph = definition.plan.graph();
        let mut tally = Self::default();
        tally.progress.total_steps = u32::try_from(graph.len()).unwrap_or(u32::MAX);
        for index in graph.steps() {
            let Some(step) = state.step_state(index) else {
                continue;
            };
            if step.run.is_some() {
                tally.progress.running_steps += 1;
            }
            let Some(latest) = &step.latest else {
                tally.skipped += u32::from(step.is_dead);
                continue;
            };
            match latest.status {
                StepStatus::Completed => {
                    let name = Text::from(&**graph.name(index));
                    tally.completed.push((latest.ended_at, name));
                    tally.progress.completed_steps += 1;
                }
                StepStatus::Failed => tally.progress.failed_steps += 1,
                StepStatus::Skipped | StepStatus::Cancelled => tally.skipped += 1,
            }
        }
        tally
    }

    /// Names of the completed steps in order of their ends. Steps that ended at the same time are
    /// in the order of the playbook.
    fn completed_steps(mut self) -> Vec<Text> {
        self.completed.sort_by_key(|(ended_at, _)| *ended_at);
        self.completed.into_iter().map(|(_, name)| name).collect()
    }

    /// Progress of a running execution, at most 99 percent.
    pub(super) fn progress_percent(&self) -> u8 {
        let progress = self.progress;
        let done = progress.completed_steps + progress.failed_steps + self.skipped;
        let percent = u64::from(done) * 100 / u64::from(progress.total_steps.max(1));
        u8::try_from(percent.min(99)).unwrap_or(99)
    }
}

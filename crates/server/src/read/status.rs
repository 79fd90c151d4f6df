//! Where an execution stands: a fold of its log.

use noetl_api::execution::{Progress, StatusView};
use noetl_engine::{State, StepStatus};
use noetl_types::{ExecutionId, ExecutionStatus, Json, Text, Timestamp};

use super::elapsed::Elapsed;
use crate::runtime::{Definition, Runtime, RuntimeError};

impl Runtime {
    /// Where an execution stands.
    pub async fn execution_status(
        &self,
        execution_id: ExecutionId,
    ) -> Result<StatusView, RuntimeError> {
        let row = self.execution_row(execution_id).await?;
        let folded = self.state_of(execution_id).await?;
        let (tally, variables) = match &folded {
            Some((definition, state)) => (Tally::of(definition, state), state.ctx().clone()),
            None => (Tally::default(), Json::empty_map()),
        };
        let result = self.final_result(&row).await?;
        let (facts, view) = (row.facts, row.view);
        let elapsed = Elapsed::between(facts.started_at, view.ended_at, self.now());
        Ok(StatusView {
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
            duration_seconds: elapsed.seconds(),
            duration_human: elapsed.human(),
            result,
            error: view.error,
        })
    }
}

/// How far the steps of an execution are.
#[derive(Debug, Default)]
pub(super) struct Tally {
    progress: Progress,
    /// The steps that went well, with the end of their last run.
    completed: Vec<(Timestamp, Text)>,
    /// The steps that were passed over: they count as dealt with.
    skipped: u32,
}

impl Tally {
    /// Counts the steps of an execution.
    pub(super) fn of(definition: &Definition, state: &State) -> Self {
        let graph = definition.plan.graph();
        let mut tally = Self::default();
        tally.progress.total_steps = u32::try_from(graph.len()).unwrap_or(u32::MAX);
        for index in graph.steps() {
            let Some(step) = state.step(index) else {
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

    /// The names of the steps that went well, in the order of their ends; where two ended at once,
    /// in that of the playbook.
    fn completed_steps(mut self) -> Vec<Text> {
        self.completed.sort_by_key(|(ended_at, _)| *ended_at);
        self.completed.into_iter().map(|(_, name)| name).collect()
    }

    /// How much of a run that goes on is dealt with. It is never done before it says so.
    pub(super) fn percent(&self) -> u8 {
        let progress = self.progress;
        let done = progress.completed_steps + progress.failed_steps + self.skipped;
        let percent = u64::from(done) * 100 / u64::from(progress.total_steps.max(1));
        u8::try_from(percent.min(99)).unwrap_or(99)
    }
}

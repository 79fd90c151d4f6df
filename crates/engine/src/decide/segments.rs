//! Segments: the commands into which tasks that suspend split a pipeline.

use std::sync::Arc;

use noetl_playbook::command_context::CommandContext;
use noetl_playbook::command_machine::{
    CommandSpec, ContinuationState, MAX_TASK_DATA, MAX_TASK_RUNS,
};
use noetl_playbook::graph::StepIndex;
use noetl_playbook::model::Task;
use noetl_playbook::segments;
use noetl_types::{Seq, Text, Timestamp};

use super::draft::Draft;
use super::routing::SelectedArcs;
use super::{DecisionError, Result, command_context, exit, issue, loops};
use crate::event::StepEnd;
use crate::payload::EventData;
use crate::state::{SplitPipelineState, StepWork};

/// Position in its pipeline at which a command begins.
pub(super) struct SegmentStart<'d> {
    pub(super) tasks: &'d [Task],
    /// Index of its first task.
    pub(super) at: usize,
    /// Index of the command in the pipeline, if there are several.
    pub(super) segment: Option<u32>,
    pub(super) not_before: Option<Timestamp>,
}

impl<'d> SegmentStart<'d> {
    /// Finds the position of the open or next command.
    pub(super) fn locate(draft: &Draft<'d>, step: StepIndex, index: Option<u32>) -> Result<Self> {
        let tasks = draft.plan.step_model(step).tool.tasks();
        let pipeline = draft.active_pass(step)?.pipeline_state(index);
        let Some(pipeline) = pipeline else {
            return Ok(Self {
                tasks,
                at: 0,
                segment: segments::is_split(tasks).then_some(0),
                not_before: None,
            });
        };
        let at = pipeline.onward.next_task_index(tasks);
        Ok(Self {
            tasks,
            at: at.ok_or_else(|| draft.invariant_error("label"))?,
            segment: Some(pipeline.segment.saturating_add(1)),
            not_before: pipeline.not_before,
        })
    }

    pub(super) fn is_on_server(&self) -> bool {
        segments::runs_on_server(self.tasks, self.at)
    }

    pub(super) fn first_task(&self) -> Option<&'d Task> {
        self.tasks.get(self.at)
    }

    /// Tasks of the command.
    pub(super) fn segment_tasks(&self) -> &'d [Task] {
        &self.tasks[segments::command_segment(self.tasks, self.at)]
    }
}

/// Collects the context of a command, including the state of its split pipeline.
pub(super) fn segment_context(
    draft: &Draft<'_>,
    step: StepIndex,
    index: Option<u32>,
) -> Result<CommandContext> {
    let item = match index {
        Some(index) if draft.step_plan(step).context_needs.item => {
            Some(loops::iteration_item(draft, step, index)?)
        }
        Some(_) | None => None,
    };
    let mut context = command_context::collect_context(draft, step, item)?;
    if let Some(pipeline) = draft.active_pass(step)?.pipeline_state(index) {
        context.continuation = Some(pipeline_continuation(draft, pipeline)?);
    }
    Ok(context)
}

fn pipeline_continuation(
    draft: &Draft<'_>,
    pipeline: &SplitPipelineState,
) -> Result<ContinuationState> {
    let results = match &pipeline.results {
        EventData::Inline(results) => results.clone(),
        EventData::External(reference) => match draft.payload_source().get(reference) {
            Some(results) => results,
            None => return Err(DecisionError::NeedsPayload(reference.uri().into())),
        },
    };
    Ok(ContinuationState {
        continuation: pipeline.onward.clone(),
        results: results.as_map().cloned().unwrap_or_default(),
    })
}

/// Creates the job of a command that the server performs, with the current state of the execution.
pub(super) fn server_command_spec(
    draft: &Draft<'_>,
    step: StepIndex,
    index: Option<u32>,
    issued: Seq,
) -> Result<CommandSpec> {
    let execution_id = draft.execution_id()?;
    let total = match &draft.active_pass(step)?.work {
        StepWork::Single { .. } | StepWork::Cursor(_) => 0,
        StepWork::Loop(looping) => looping.iterations,
    };
    Ok(CommandSpec {
        playbook: Arc::clone(draft.plan.playbook()),
        step: Text::from(draft.step_plan(step).name.as_str()),
        execution_id,
        command_id: None,
        worker_id: None,
        idempotency_key: format!("{execution_id}:{issued}").into(),
        context: segment_context(draft, step, index)?,
        iteration: index.map(|index| (index, total)),
        frame_max_rows: None,
        issued_at: draft.now,
        limits: draft.plan.limits(),
        budget: Some(draft.fuel.clone()),
        max_data: MAX_TASK_DATA,
        max_task_runs: MAX_TASK_RUNS,
    })
}

/// Returns true if the next command of a pipeline has not been issued yet.
pub(super) fn has_pending_segment(draft: &Draft<'_>, step: StepIndex, index: Option<u32>) -> bool {
    let pass = draft.state.active_pass(step);
    let pipeline = pass.and_then(|pass| pass.pipeline_state(index));
    pipeline.is_some_and(|pipeline| pipeline.is_pending)
}

/// Issues the next command of a pipeline. While the execution is failing nothing is issued, so the
/// pipeline never ends and its step is cancelled.
pub(super) fn continue_pipeline(
    draft: &mut Draft<'_>,
    step: StepIndex,
    index: Option<u32>,
) -> Result<()> {
    let pass = draft.active_pass(step)?;
    let cause = draft.last_event_id().unwrap_or(pass.entered);
    if !draft.state.is_failing() {
        return issue::issue_command(draft, step, index, cause);
    }
    match pass.work {
        StepWork::Loop(_) => loops::continue_loop(draft, step, cause),
        // No pipeline is split in a loop over a cursor.
        StepWork::Single { .. } | StepWork::Cursor(_) => {
            exit::record_exit(draft, step, StepEnd::Cancelled, &SelectedArcs::default(), None)
        }
    }
}

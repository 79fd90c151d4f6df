//! Issues commands.

use noetl_playbook::bounds::fits_within;
use noetl_playbook::command_context::CommandContext;
use noetl_playbook::graph::StepIndex;
use noetl_playbook::model::ToolKind;
use noetl_playbook::timeout;
use noetl_types::limits::MAX_COMMAND_CONTEXT_SIZE;
use noetl_types::{EventId, Json, Text};

use super::draft::Draft;
use super::segments::{self, SegmentStart};
use super::{Result, suspension};
use crate::event::{CommandIssued, EventKind, FrameRequest, IssuedContext, SuspensionKind};
use crate::state::StepWork;

/// Issues the next command of a step, or of one of its iterations.
pub(super) fn issue_command(
    draft: &mut Draft<'_>,
    step: StepIndex,
    index: Option<u32>,
    cause: EventId,
) -> Result<()> {
    let segment_start = SegmentStart::locate(draft, step, index)?;
    if segment_start.is_on_server() {
        return suspension::suspend_task(draft, step, index, cause);
    }
    let context = segments::segment_context(draft, step, index)?;
    let context = inline_or_store_context(draft, step, context)?;
    let issued = new_command(draft, step, index, &segment_start)?;
    let issued = CommandIssued { context, ..issued };
    draft.emit_caused_by(EventKind::CommandIssued(Box::new(issued)), cause)?;
    Ok(())
}

/// Issues a command that the server performs.
pub(super) fn issue_suspended(
    draft: &mut Draft<'_>,
    step: StepIndex,
    index: Option<u32>,
    suspension: SuspensionKind,
    cause: EventId,
) -> Result<EventId> {
    let segment_start = SegmentStart::locate(draft, step, index)?;
    let issued = CommandIssued {
        suspension: Some(suspension),
        max_attempts: 1,
        ..new_command(draft, step, index, &segment_start)?
    };
    draft.emit_caused_by(EventKind::CommandIssued(Box::new(issued)), cause)
}

/// Creates a command without its context.
fn new_command(
    draft: &Draft<'_>,
    step: StepIndex,
    index: Option<u32>,
    segment_start: &SegmentStart<'_>,
) -> Result<CommandIssued> {
    let step_plan = draft.step_plan(step);
    let pass = draft.active_pass(step)?;
    let looping = pass.loop_ref();
    let (frame, max_attempts) = match &pass.work {
        StepWork::Single { .. } | StepWork::Loop(_) => {
            (None, draft.plan.defaults().max_attempts.get())
        }
        StepWork::Cursor(cursor) => {
            let request = FrameRequest {
                max_rows: cursor.ask,
                lease: cursor.terms.lease,
                heartbeat: cursor.terms.heartbeat,
            };
            (Some(request), cursor.terms.max_attempts)
        }
    };
    let execution_priority = draft.state.start_event().and_then(|started| started.priority);
    let deadline = match segment_start.segment {
        None => step_plan.attempt_deadline,
        Some(_) => timeout::pipeline_timeout(draft.plan.playbook(), segment_start.segment_tasks()),
    };
    Ok(CommandIssued {
        step: step_plan.name.clone(),
        run: pass.number,
        index,
        segment: segment_start.segment,
        looping,
        frame,
        tool: segment_start.first_task().map_or(ToolKind::Noop, |task| task.kind.value),
        max_attempts,
        deadline,
        priority: pass.priority.or(execution_priority),
        not_before: segment_start.not_before,
        trace: traceparent(draft),
        suspension: None,
        context: IssuedContext::Inline(CommandContext::default()),
    })
}

/// Returns the trace in which the execution was started.
fn traceparent(draft: &Draft<'_>) -> Option<Text> {
    let trace = draft.state.start_event()?.trace.as_ref()?;
    trace.get("traceparent")?.as_str().map(Text::from)
}

fn inline_or_store_context(
    draft: &mut Draft<'_>,
    step: StepIndex,
    context: CommandContext,
) -> Result<IssuedContext> {
    // The values and the pipeline state are most of the size. The markers are small.
    let budget = usize::try_from(MAX_COMMAND_CONTEXT_SIZE.as_bytes()).unwrap_or(usize::MAX);
    let is_small = match &context.continuation {
        None => {
            context.values.is_empty() || fits_within(&Json::from(context.values.clone()), budget)
        }
        Some(_) => fits_within(&Json::from(context.to_json()), budget),
    };
    if is_small {
        return Ok(IssuedContext::Inline(context));
    }
    let content = Json::from(context.to_json());
    let name = draft.step_name(step);
    draft.store_payload(&name, content).map(IssuedContext::External)
}

//! Issuing a command.

use noetl_playbook::bounds::fits;
use noetl_playbook::carried::Carried;
use noetl_playbook::graph::StepIndex;
use noetl_playbook::model::ToolKind;
use noetl_playbook::timeout;
use noetl_types::limits::MAX_COMMAND_CONTEXT;
use noetl_types::{EventId, Json, Text};

use super::draft::Draft;
use super::segments::{self, Place};
use super::{Refused, parking};
use crate::event::{CommandIssued, EventKind, FrameAsk, IssuedContext, Park};
use crate::state::Work;

/// Issues the next command of a step, or of one of its iterations.
pub(super) fn issue(
    draft: &mut Draft<'_>,
    step: StepIndex,
    index: Option<u32>,
    cause: EventId,
) -> Result<(), Refused> {
    let place = Place::of(draft, step, index)?;
    if place.is_on_server() {
        return parking::park(draft, step, index, cause);
    }
    let carried = segments::carried(draft, step, index)?;
    let context = context(draft, step, carried)?;
    let issued = command(draft, step, index, &place)?;
    let issued = CommandIssued { context, ..issued };
    draft.emit_because(EventKind::CommandIssued(Box::new(issued)), cause)?;
    Ok(())
}

/// Issues a command that the server carries out.
pub(super) fn issue_parked(
    draft: &mut Draft<'_>,
    step: StepIndex,
    index: Option<u32>,
    park: Park,
    cause: EventId,
) -> Result<EventId, Refused> {
    let place = Place::of(draft, step, index)?;
    let issued = CommandIssued {
        parked: Some(park),
        max_attempts: 1,
        ..command(draft, step, index, &place)?
    };
    draft.emit_because(EventKind::CommandIssued(Box::new(issued)), cause)
}

/// A command, but for what it knows.
fn command(
    draft: &Draft<'_>,
    step: StepIndex,
    index: Option<u32>,
    place: &Place<'_>,
) -> Result<CommandIssued, Refused> {
    let facts = draft.step(step);
    let run = draft.run(step)?;
    let looping = run.loop_ref();
    let (frame, max_attempts) = match &run.work {
        Work::Single { .. } | Work::Loop(_) => (None, draft.plan.defaults().max_attempts.get()),
        Work::Cursor(cursor) => {
            let ask = FrameAsk {
                max_rows: cursor.ask,
                lease: cursor.terms.lease,
                heartbeat: cursor.terms.heartbeat,
            };
            (Some(ask), cursor.terms.max_attempts)
        }
    };
    let of_run = draft.state.started().and_then(|started| started.priority);
    let deadline = match place.segment {
        None => facts.attempt_deadline,
        Some(_) => timeout::of_tasks(draft.plan.playbook(), place.stretch()),
    };
    Ok(CommandIssued {
        step: facts.name.clone(),
        run: run.number,
        index,
        segment: place.segment,
        looping,
        frame,
        tool: place.task().map_or(ToolKind::Noop, |task| task.kind.value),
        max_attempts,
        deadline,
        priority: run.priority.or(of_run),
        not_before: place.not_before,
        trace: traceparent(draft),
        parked: None,
        context: IssuedContext::Inline(Carried::default()),
    })
}

/// The trace that the run was started in.
fn traceparent(draft: &Draft<'_>) -> Option<Text> {
    let trace = draft.state.started()?.trace.as_ref()?;
    trace.get("traceparent")?.as_str().map(Text::from)
}

fn context(
    draft: &mut Draft<'_>,
    step: StepIndex,
    carried: Carried,
) -> Result<IssuedContext, Refused> {
    // The values and what is handed on are most of it; what marks them is small.
    let budget = usize::try_from(MAX_COMMAND_CONTEXT.as_bytes()).unwrap_or(usize::MAX);
    let is_small = match &carried.relay {
        None => carried.values.is_empty() || fits(&Json::from(carried.values.clone()), budget),
        Some(_) => fits(&Json::from(carried.to_json()), budget),
    };
    if is_small {
        return Ok(IssuedContext::Inline(carried));
    }
    let content = Json::from(carried.to_json());
    let name = draft.name(step);
    draft.store(&name, content).map(IssuedContext::External)
}

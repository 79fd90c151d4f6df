//! Issuing a command.

use noetl_playbook::bounds::fits;
use noetl_playbook::graph::StepIndex;
use noetl_types::limits::{MAX_COMMAND_CONTEXT, MaxAttempts};
use noetl_types::{EventId, Json};

use super::draft::Draft;
use super::{Refused, carry, loops};
use crate::event::{CommandIssued, EventKind, IssuedContext, LoopRef};
use crate::state::Work;

/// Issues the command of a step, or of one of its iterations.
pub(super) fn issue(
    draft: &mut Draft<'_>,
    step: StepIndex,
    index: Option<u32>,
    cause: EventId,
) -> Result<(), Refused> {
    let facts = draft.step(step);
    let item = match index {
        Some(index) if facts.carry.item => Some(loops::item(draft, step, index)?),
        Some(_) | None => None,
    };
    let carried = carry::collect(draft, step, item)?;
    let run = draft.run(step)?;
    let (number, of_step) = (run.number, run.priority);
    let looping = match &run.work {
        Work::Single { .. } => None,
        Work::Loop(looping) => Some(LoopRef {
            loop_id: run.entered,
            size: looping.iterations,
        }),
    };
    let of_run = draft.state.started().and_then(|started| started.priority);
    // The values are most of it; what marks them is small.
    let budget = usize::try_from(MAX_COMMAND_CONTEXT.as_bytes()).unwrap_or(usize::MAX);
    let is_small = carried.values.is_empty() || fits(&Json::from(carried.values.clone()), budget);
    let context = if is_small {
        IssuedContext::Inline(carried)
    } else {
        let content = Json::from(carried.to_json());
        IssuedContext::External(draft.store(&facts.name, content)?)
    };
    let kind = EventKind::CommandIssued(Box::new(CommandIssued {
        step: facts.name.clone(),
        run: number,
        index,
        looping,
        tool: facts.tool,
        max_attempts: MaxAttempts::default().get(),
        deadline: facts.attempt_deadline,
        priority: of_step.or(of_run),
        context,
    }));
    draft.emit_because(kind, cause)?;
    Ok(())
}

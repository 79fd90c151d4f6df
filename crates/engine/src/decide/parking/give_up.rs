//! Waits that nobody needs any more.

use noetl_playbook::graph::StepIndex;
use noetl_types::Seq;

use crate::decide::draft::Draft;
use crate::decide::routing::Route;
use crate::decide::{Errand, Refused, exit, fence, loops};
use crate::event::{CommandAt, CommandClosed, EventKind, StepEnd};
use crate::state::{Command, Work};

/// Gives up the waits of a run that fails: nothing can come of them. Children and workers finish.
pub(in crate::decide) fn give_up(draft: &mut Draft<'_>) -> Result<(), Refused> {
    let mut waits: Vec<(Seq, StepIndex, CommandAt)> = draft
        .state
        .parked()
        .filter(|(_, _, parked)| parked.ends_with_failure())
        .map(|(id, command, _)| (command.issued, command.step, fence::at(draft, id, command)))
        .collect();
    waits.sort_unstable_by_key(|(issued, ..)| *issued);
    let mut steps: Vec<StepIndex> = Vec::new();
    for (_, step, _) in &waits {
        if !steps.contains(step) {
            steps.push(*step);
        }
    }
    for step in steps {
        let of_step = waits.iter().filter(|(_, other, _)| *other == step);
        for (_, _, at) in of_step {
            draft.emit(EventKind::CommandCancelled(Box::new(CommandClosed {
                at: at.clone(),
                why: "the run fails".into(),
            })))?;
        }
        leave(draft, step)?;
    }
    Ok(())
}

/// Leaves a step whose last open command was given up.
fn leave(draft: &mut Draft<'_>, step: StepIndex) -> Result<(), Refused> {
    if draft.unfinished(step) > 0 {
        return Ok(());
    }
    let run = draft.run(step)?;
    match run.work {
        Work::Loop(_) => {
            let cause = draft.last_event().unwrap_or(run.entered);
            loops::go_on(draft, step, cause)
        }
        // No task parks in a loop over a cursor.
        Work::Single { .. } | Work::Cursor(_) => {
            exit::record(draft, step, StepEnd::Cancelled, &Route::default(), None)
        }
    }
}

/// Has the child of a command that is withdrawn cancelled.
pub(in crate::decide) fn forget_children(errands: &mut Vec<Errand>, command: &Command) {
    let call = command.parked().and_then(|parked| parked.awaited_child());
    if let Some(call) = call {
        let child = call.child;
        errands.push(Errand::CancelChild { child });
    }
}

//! Cancellation of waits.

use noetl_playbook::graph::StepIndex;
use noetl_types::Seq;

use crate::decide::draft::Draft;
use crate::decide::routing::SelectedArcs;
use crate::decide::{FollowUp, Result, exit, fence, loops};
use crate::event::{CommandClosed, CommandRef, EventKind, StepEnd};
use crate::state::{Command, StepWork};

/// Cancels the waits of a failing execution, because they have no effect any more. Children and
/// workers finish.
pub(in crate::decide) fn cancel_waits(draft: &mut Draft<'_>) -> Result<()> {
    let mut waits: Vec<(Seq, StepIndex, CommandRef)> = draft
        .state
        .suspended_tasks()
        .filter(|(_, _, suspended)| suspended.is_ended_by_failure())
        .map(|(id, command, _)| {
            (command.issued, command.step, fence::command_ref(draft, id, command))
        })
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
            draft.emit_event(EventKind::CommandCancelled(Box::new(CommandClosed {
                at: at.clone(),
                reason: "the execution is failing".into(),
            })))?;
        }
        leave_cancelled_step(draft, step)?;
    }
    Ok(())
}

/// Leaves a step whose last open command was cancelled.
fn leave_cancelled_step(draft: &mut Draft<'_>, step: StepIndex) -> Result<()> {
    if draft.unfinished_commands(step) > 0 {
        return Ok(());
    }
    let pass = draft.active_pass(step)?;
    match pass.work {
        StepWork::Loop(_) => {
            let cause = draft.last_event_id().unwrap_or(pass.entered);
            loops::continue_loop(draft, step, cause)
        }
        // No task suspends in a loop over a cursor.
        StepWork::Single { .. } | StepWork::Cursor(_) => {
            exit::record_exit(draft, step, StepEnd::Cancelled, &SelectedArcs::default(), None)
        }
    }
}

/// Requests the cancellation of the child that a cancelled command waits for.
pub(in crate::decide) fn cancel_awaited_child(follow_ups: &mut Vec<FollowUp>, command: &Command) {
    let call = command.suspended_task().and_then(|suspended| suspended.awaited_child());
    if let Some(call) = call {
        let child = call.child;
        follow_ups.push(FollowUp::CancelChild { child });
    }
}

//! Steering: pause, resume, cancel.

use noetl_playbook::graph::StepIndex;
use noetl_types::CommandId;

use super::draft::Draft;
use super::{Refused, Verdict, fence, finish, report};
use crate::event::{CommandAt, CommandClosed, EventKind, Steering};

/// Nothing is entered, issued or fired until the run is resumed.
pub(super) fn pause(draft: &mut Draft<'_>, steering: Steering) -> Result<Verdict, Refused> {
    draft.must_go_on()?;
    if draft.state.is_paused() {
        return Err(Refused::Paused);
    }
    draft.emit(EventKind::PlaybookPaused(steering))?;
    Ok(Verdict::Accepted)
}

/// The run goes on: first with what was held back, in order.
pub(super) fn resume(draft: &mut Draft<'_>, steering: Steering) -> Result<Verdict, Refused> {
    draft.must_go_on()?;
    if !draft.state.is_paused() {
        return Err(Refused::NotPaused);
    }
    let held = draft.state.held.clone();
    for closing in held.values() {
        *draft.still_held.entry(closing.step).or_default() += 1;
    }
    draft.emit(EventKind::PlaybookResumed(steering))?;
    for closing in held.values() {
        if let Some(count) = draft.still_held.get_mut(&closing.step) {
            *count -= 1;
        }
        report::consequences(draft, closing.clone())?;
    }
    finish::finish(draft)?;
    Ok(Verdict::Accepted)
}

/// The run ends now.
pub(super) fn cancel(draft: &mut Draft<'_>, steering: Steering) -> Result<Verdict, Refused> {
    draft.must_go_on()?;
    withdraw(draft, None, "cancelled")?;
    draft.emit(EventKind::PlaybookCancelled(steering))?;
    Ok(Verdict::Accepted)
}

/// Withdraws the open commands of a step, or of all, in the order of their issue.
pub(super) fn withdraw(
    draft: &mut Draft<'_>,
    step: Option<StepIndex>,
    reason: &str,
) -> Result<(), Refused> {
    let mut open: Vec<(noetl_types::Seq, CommandId, CommandAt)> = draft
        .state
        .commands()
        .filter(|(_, command)| step.is_none_or(|step| command.step == step))
        .map(|(id, command)| (command.issued, id, fence::at(draft, id, command)))
        .collect();
    open.sort_unstable_by_key(|(issued, ..)| *issued);
    for (_, _, at) in open {
        draft.emit(EventKind::CommandCancelled(Box::new(CommandClosed {
            at,
            why: reason.into(),
        })))?;
    }
    Ok(())
}

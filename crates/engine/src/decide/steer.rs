//! Steering: pause, resume, cancel, finalize.

use noetl_playbook::graph::StepIndex;
use noetl_types::{CommandId, Json};

use super::draft::Draft;
use super::routing::Route;
use super::{
    Beside, Errand, Finalize, Refused, Verdict, exit, fence, finish, joins, parking, report,
};
use crate::event::{CommandAt, CommandClosed, EventKind, Failed, Steering, StepEnd};

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
    // Slots that came while the run was paused were given back, so they are asked for again.
    joins::enter_ready(draft)?;
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

/// The run ends now, and those that it waits for go on.
pub(super) fn cancel_alone(draft: &mut Draft<'_>, steering: Steering) -> Result<Verdict, Refused> {
    let verdict = cancel(draft, steering)?;
    let ends_child = |errand: &Errand| matches!(errand, Errand::CancelChild { .. });
    draft.errands.retain(|errand| !ends_child(errand));
    Ok(verdict)
}

/// The run ends now, as somebody says who knows more than the log.
pub(super) fn finalize(draft: &mut Draft<'_>, finalize: Finalize) -> Result<Verdict, Refused> {
    draft.must_go_on()?;
    let Finalize { error, steering } = finalize;
    if draft.state.is_paused() {
        // Only a run that goes on comes to such an end. What was held back is no longer wanted.
        draft.emit(EventKind::PlaybookResumed(steering.clone()))?;
    }
    withdraw(draft, None, "finalized")?;
    let failure = draft.state.failure.clone();
    // A failure that nothing caught is not undone by calling the run done.
    let error = error.or_else(|| failure.as_ref().map(|failure| failure.error.clone()));
    let end = if let Some(error) = error {
        let steps = failure.iter().flat_map(|failure| &failure.steps);
        let failed_steps = steps.map(|step| draft.name(*step)).collect();
        EventKind::PlaybookFailed(Box::new(Failed {
            error,
            failed_steps,
        }))
    } else {
        let open: Vec<StepIndex> = draft.state.runs().map(|(step, _)| step).collect();
        for step in open {
            exit::record(draft, step, StepEnd::Cancelled, &Route::default(), None)?;
        }
        EventKind::PlaybookCompleted {
            result: finish::result(draft),
        }
    };
    let event_id = draft.emit(end)?;
    let said = [("actor", steering.actor), ("reason", steering.reason)];
    let said = said.into_iter().filter_map(|(key, text)| {
        let text = text?;
        Some((key.into(), Json::from(text)))
    });
    draft.put_beside(event_id, Beside::Meta(said.collect()));
    Ok(Verdict::Accepted)
}

/// Withdraws the open commands of a step, or of all, in the order of their issue, and the runs that
/// they wait for.
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
    for (_, id, at) in open {
        if let Some(command) = draft.state.command(id) {
            parking::forget_children(&mut draft.errands, command);
        }
        draft.emit(EventKind::CommandCancelled(Box::new(CommandClosed {
            at,
            why: reason.into(),
        })))?;
    }
    Ok(())
}

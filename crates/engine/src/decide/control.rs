//! Control operations: pause, resume, cancel, finalize.

use noetl_playbook::graph::StepIndex;
use noetl_types::{CommandId, Json};

use super::draft::Draft;
use super::routing::SelectedArcs;
use super::{
    CancelInput, DecisionError, EventExtras, FinalizeInput, FollowUp, InputVerdict, Result, exit,
    fence, finish, joins, report, suspension,
};
use crate::event::{CommandClosed, CommandRef, ControlInfo, EventKind, PlaybookFailed, StepEnd};

/// Pauses the execution: nothing is entered, issued or fired until it is resumed.
pub(super) fn pause_execution(draft: &mut Draft<'_>, control: ControlInfo) -> Result<InputVerdict> {
    draft.ensure_not_ended()?;
    if draft.state.is_paused() {
        return Err(DecisionError::Paused);
    }
    draft.emit_event(EventKind::PlaybookPaused(control))?;
    Ok(InputVerdict::Accepted)
}

/// Resumes the execution. Deferred commands are processed first, in order.
pub(super) fn resume_execution(
    draft: &mut Draft<'_>,
    control: ControlInfo,
) -> Result<InputVerdict> {
    draft.ensure_not_ended()?;
    if !draft.state.is_paused() {
        return Err(DecisionError::NotPaused);
    }
    let deferred = draft.state.deferred.clone();
    for closed in deferred.values() {
        *draft.deferred_counts.entry(closed.step).or_default() += 1;
    }
    draft.emit_event(EventKind::PlaybookResumed(control))?;
    for closed in deferred.values() {
        if let Some(count) = draft.deferred_counts.get_mut(&closed.step) {
            *count -= 1;
        }
        report::advance_after_close(draft, closed.clone())?;
    }
    // Slots that were granted during the pause were released, so they are requested again.
    joins::enter_ready(draft)?;
    finish::finish_if_done(draft)?;
    Ok(InputVerdict::Accepted)
}

/// Cancels the execution. Its final step runs first, unless the cancel is forced.
pub(super) fn cancel_execution(draft: &mut Draft<'_>, cancel: CancelInput) -> Result<InputVerdict> {
    draft.ensure_not_ended()?;
    let CancelInput { control, keeps_children, is_forced } = cancel;
    if draft.state.is_cancelling() && !is_forced {
        return Ok(InputVerdict::Duplicate);
    }
    if draft.state.has_final_step_ahead(draft.plan) && !is_forced {
        if draft.state.is_paused() {
            // The final step runs. Deferred commands are discarded.
            draft.emit_event(EventKind::PlaybookResumed(control.clone()))?;
        }
        let event = EventKind::PlaybookCancelRequested(control);
        finish::interrupt_execution(draft, event, "cancelled")?;
    } else {
        cancel_commands(draft, None, "cancelled")?;
        draft.emit_event(EventKind::PlaybookCancelled(control))?;
    }
    if keeps_children {
        let is_cancel = |follow_up: &FollowUp| matches!(follow_up, FollowUp::CancelChild { .. });
        draft.follow_ups.retain(|follow_up| !is_cancel(follow_up));
    }
    Ok(InputVerdict::Accepted)
}

/// Ends the execution with the status that an operator gives.
pub(super) fn finalize_execution(
    draft: &mut Draft<'_>,
    finalize: FinalizeInput,
) -> Result<InputVerdict> {
    draft.ensure_not_ended()?;
    let FinalizeInput { error, control } = finalize;
    if draft.state.is_cancelling() {
        // A cancel is not undone by finalizing the execution.
        let cancel = CancelInput { is_forced: true, ..control.into() };
        return cancel_execution(draft, cancel);
    }
    if draft.state.is_paused() {
        // Only a running execution can end this way. Deferred commands are discarded.
        draft.emit_event(EventKind::PlaybookResumed(control.clone()))?;
    }
    cancel_commands(draft, None, "finalized")?;
    let failure = draft.state.uncaught_failure.clone();
    // An uncaught failure is not undone by finalizing the execution as completed.
    let error = error.or_else(|| failure.as_ref().map(|failure| failure.error.clone()));
    let end = if let Some(error) = error {
        let steps = failure.iter().flat_map(|failure| &failure.steps);
        let failed_steps = steps.map(|step| draft.step_name(*step)).collect();
        EventKind::PlaybookFailed(Box::new(PlaybookFailed { error, failed_steps }))
    } else {
        let active_steps: Vec<StepIndex> =
            draft.state.active_passes().map(|(step, _)| step).collect();
        for step in active_steps {
            exit::record_exit(draft, step, StepEnd::Cancelled, &SelectedArcs::default(), None)?;
        }
        EventKind::PlaybookCompleted { result: finish::execution_result(draft) }
    };
    let event_id = draft.emit_event(end)?;
    let meta = [("actor", control.actor), ("reason", control.reason)];
    let meta = meta.into_iter().filter_map(|(key, text)| {
        let text = text?;
        Some((key.into(), Json::from(text)))
    });
    draft.attach_extras(event_id, EventExtras::Meta(meta.collect()));
    Ok(InputVerdict::Accepted)
}

/// Cancels the open commands of a step, or all of them, in the order of their issue, and the child
/// executions that they wait for.
pub(super) fn cancel_commands(
    draft: &mut Draft<'_>,
    step: Option<StepIndex>,
    reason: &str,
) -> Result<()> {
    let mut open: Vec<(noetl_types::Seq, CommandId, CommandRef)> = draft
        .state
        .commands()
        .filter(|(_, command)| step.is_none_or(|step| command.step == step))
        .map(|(id, command)| (command.issued, id, fence::command_ref(draft, id, command)))
        .collect();
    open.sort_unstable_by_key(|(issued, ..)| *issued);
    for (_, id, at) in open {
        if let Some(command) = draft.state.command(id) {
            suspension::cancel_awaited_child(&mut draft.follow_ups, command);
        }
        draft.emit_event(EventKind::CommandCancelled(Box::new(CommandClosed {
            at,
            reason: reason.into(),
        })))?;
    }
    Ok(())
}

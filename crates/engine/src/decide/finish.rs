//! The end of an execution: when no step is active any more.

use noetl_playbook::graph::StepIndex;

use super::control::cancel_commands;
use super::draft::Draft;
use super::routing::SelectedArcs;
use super::{Result, exit, joins, report};
use crate::event::{EventKind, PlaybookFailed, StepEnd};
use crate::payload::EventData;
use crate::state::Interruption;

/// Processes the commands that were closed at once, and ends the execution if nothing is left to
/// do.
pub(super) fn finish_if_done(draft: &mut Draft<'_>) -> Result<()> {
    while let Some(closed) = draft.closed_at_once.pop_front() {
        if let Some(count) = draft.deferred_counts.get_mut(&closed.step) {
            *count -= 1;
        }
        report::advance_after_close(draft, closed)?;
    }
    let state = &draft.state;
    if state.is_ended() || state.is_paused() || state.active_passes().next().is_some() {
        return Ok(());
    }
    // Steps that wait for a slot may still enter, unless the execution fails.
    if !state.is_failing() && !state.active.is_empty() {
        return Ok(());
    }
    end_execution(draft)
}

/// Ends the execution with the status that its state implies.
fn end_execution(draft: &mut Draft<'_>) -> Result<()> {
    let state = &draft.state;
    let end = match (&state.interruption, state.uncaught_failure.as_ref()) {
        (Some(Interruption::Cancel(control)), _) => EventKind::PlaybookCancelled(control.clone()),
        (_, Some(failure)) => {
            let steps = failure.steps.iter();
            EventKind::PlaybookFailed(Box::new(PlaybookFailed {
                error: failure.error.clone(),
                failed_steps: steps.map(|step| draft.step_name(*step)).collect(),
            }))
        }
        (_, None) => EventKind::PlaybookCompleted { result: execution_result(draft) },
    };
    draft.emit_event(end)?;
    Ok(())
}

/// Stops everything that is open for a reason that an event states. If the final step is still
/// ahead, it runs before the execution ends.
pub(super) fn interrupt_execution(
    draft: &mut Draft<'_>,
    event: EventKind,
    reason: &str,
) -> Result<()> {
    let has_final_step_ahead = draft.state.has_final_step_ahead(draft.plan);
    draft.emit_event(event)?;
    cancel_commands(draft, None, reason)?;
    if !has_final_step_ahead {
        return end_execution(draft);
    }
    let active: Vec<StepIndex> = draft.state.active_passes().map(|(step, _)| step).collect();
    for step in active {
        exit::record_exit(draft, step, StepEnd::Cancelled, &SelectedArcs::default(), None)?;
    }
    joins::enter_ready(draft)?;
    finish_if_done(draft)
}

/// Result of an execution: the data of its final step, else of `end` if it ran, else of the last
/// step that selected no arc.
pub(super) fn execution_result(draft: &Draft<'_>) -> Option<EventData> {
    let state = &draft.state;
    let output_of = |step| state.step_state(step).and_then(|step| step.output.as_ref());
    let final_output = draft.plan.final_step().and_then(output_of);
    let end_output = || draft.plan.find_step("end").and_then(output_of);
    let output =
        final_output.or_else(end_output).or_else(|| state.last_exit.and_then(output_of))?;
    Some(output.data.clone())
}

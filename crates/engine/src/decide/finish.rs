//! The end of an execution: when no step is active any more.

use super::draft::Draft;
use super::{Result, report};
use crate::event::{EventKind, PlaybookFailed};
use crate::payload::EventData;

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
    if let Some(failure) = state.uncaught_failure.clone() {
        let steps = failure.steps.iter();
        let failed = PlaybookFailed {
            error: failure.error.clone(),
            failed_steps: steps.map(|step| draft.step_name(*step)).collect(),
        };
        draft.emit_event(EventKind::PlaybookFailed(Box::new(failed)))?;
    } else {
        let result = execution_result(draft);
        draft.emit_event(EventKind::PlaybookCompleted { result })?;
    }
    Ok(())
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

//! The end of a run: when no step is active any more.

use super::draft::Draft;
use super::{Refused, report};
use crate::event::{EventKind, Failed};
use crate::payload::Data;

/// Draws the consequences of what ended at once, and ends the run if there is nothing left to do.
pub(super) fn finish(draft: &mut Draft<'_>) -> Result<(), Refused> {
    while let Some(closing) = draft.at_once.pop_front() {
        if let Some(count) = draft.still_held.get_mut(&closing.step) {
            *count -= 1;
        }
        report::consequences(draft, closing)?;
    }
    let state = &draft.state;
    if state.is_ended() || state.is_paused() || state.runs().next().is_some() {
        return Ok(());
    }
    // What waits for a slot may still enter, unless the run fails.
    if !state.is_failing() && !state.active.is_empty() {
        return Ok(());
    }
    if let Some(failure) = state.failure.clone() {
        let steps = failure.steps.iter();
        let failed = Failed {
            error: failure.error.clone(),
            failed_steps: steps.map(|step| draft.name(*step)).collect(),
        };
        draft.emit(EventKind::PlaybookFailed(Box::new(failed)))?;
    } else {
        let result = result(draft);
        draft.emit(EventKind::PlaybookCompleted { result })?;
    }
    Ok(())
}

/// What comes out of a run: the data of its final step, else of `end` if it ran, else that of the last
/// step that led nowhere.
pub(super) fn result(draft: &Draft<'_>) -> Option<Data> {
    let state = &draft.state;
    let output_of = |step| state.step(step).and_then(|step| step.output.as_ref());
    let last = draft.plan.final_step().and_then(output_of);
    let end = || draft.plan.find("end").and_then(output_of);
    let output = last
        .or_else(end)
        .or_else(|| state.last_exit.and_then(output_of))?;
    Some(output.data.clone())
}

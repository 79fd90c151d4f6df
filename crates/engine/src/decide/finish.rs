//! The end of a run: when no step is active any more.

use super::Refused;
use super::draft::Draft;
use crate::event::{EventKind, Failed};
use crate::payload::Data;

/// Ends the run if there is nothing left to do.
pub(super) fn finish(draft: &mut Draft<'_>) -> Result<(), Refused> {
    let state = &draft.state;
    if state.is_ended() || state.is_paused() || state.runs().next().is_some() {
        return Ok(());
    }
    if let Some(failure) = state.failure.clone() {
        let steps = failure.steps.iter();
        let failed = Failed {
            error: failure.error.clone(),
            failed_steps: steps.map(|step| draft.name(*step)).collect(),
        };
        draft.emit(EventKind::PlaybookFailed(Box::new(failed)))?;
    } else if state.active.is_empty() {
        let result = result(draft);
        draft.emit(EventKind::PlaybookCompleted { result })?;
    }
    Ok(())
}

/// What comes out of a run: the data of `end` if it ran, else that of the last step that led
/// nowhere.
fn result(draft: &Draft<'_>) -> Option<Data> {
    let state = &draft.state;
    let output_of = |step| state.step(step).and_then(|step| step.output.as_ref());
    let end = draft.plan.find("end").and_then(output_of);
    let output = end.or_else(|| state.last_exit.and_then(output_of))?;
    Some(output.data.clone())
}

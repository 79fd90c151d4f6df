//! Skips: steps that nothing alive leads to any more.

use noetl_playbook::graph::StepIndex;

use super::Refused;
use super::draft::Draft;
use crate::event::{EventKind, SkipReason, StepSkipped};

/// Notes the steps that have just died, in document order. To be called after every routing
/// decision, when its arrivals are known. After a failure that nothing caught, nothing is said of
/// steps that were never come to.
pub(super) fn note(draft: &mut Draft<'_>) -> Result<(), Refused> {
    if draft.state.failure.is_some() {
        return Ok(());
    }
    for step in dead(draft) {
        let name = draft.name(step);
        draft.emit(EventKind::StepSkipped(StepSkipped {
            step: name,
            reason: SkipReason::NotRouted,
        }))?;
    }
    Ok(())
}

/// A death removes no way to any other step: what a dead step could reach was out of reach too. So
/// one look finds all of them.
fn dead(draft: &Draft<'_>) -> Vec<StepIndex> {
    let (state, plan) = (&draft.state, draft.plan);
    if state.undecided.is_empty() {
        return Vec::new();
    }
    let mut alive = state.active.clone();
    for step in state.active.iter() {
        alive.extend(&plan.step(step).reaches);
    }
    state.undecided.without(&alive).collect()
}

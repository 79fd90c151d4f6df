//! Dead steps: steps that no active step can lead to any more.

use noetl_playbook::graph::StepIndex;

use super::DecisionError;
use super::draft::Draft;
use crate::event::{EventKind, SkipReason, StepSkipped};

/// Records the steps that have become dead, in document order. Must be called after every routing
/// decision, when its arrivals are known. After an uncaught failure, nothing is recorded for steps
/// that were never reached.
pub(super) fn record_dead_steps(draft: &mut Draft<'_>) -> Result<(), DecisionError> {
    if draft.state.uncaught_failure.is_some() {
        return Ok(());
    }
    for step in find_dead_steps(draft) {
        let name = draft.step_name(step);
        draft.emit_event(EventKind::StepSkipped(StepSkipped {
            step: name,
            reason: SkipReason::NotRouted,
        }))?;
    }
    Ok(())
}

/// Finds the dead steps. A dead step removes no path to any other step, because the steps that it
/// could reach were unreachable too. So one pass finds all of them.
fn find_dead_steps(draft: &Draft<'_>) -> Vec<StepIndex> {
    let (state, plan) = (&draft.state, draft.plan);
    if state.undecided.is_empty() {
        return Vec::new();
    }
    let mut alive = state.active.clone();
    for step in state.active.iter() {
        alive.insert_all(&plan.step(step).reaches);
    }
    state.undecided.difference(&alive).collect()
}

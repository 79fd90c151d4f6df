//! Joins: selects the waiting steps that may enter, and the steps that never can.

use noetl_playbook::graph::StepIndex;

use super::draft::Draft;
use super::{Result, enter, slots};
use crate::event::{EventKind, SkipReason, StepSkipped};
use crate::state::StepStage;

/// Enters every ready step, in order of arrival.
pub(super) fn enter_ready(draft: &mut Draft<'_>) -> Result<()> {
    // Steps that waited for a slot are evaluated again: they may have been skipped since, or may
    // need another slot.
    draft.waiting_for_slot.clear();
    draft.execution_slot_request = None;
    draft.has_evaluated_entries = true;
    loop {
        let Some(step) = next_to_enter(draft) else {
            return Ok(());
        };
        if !slots::can_enter_steps(draft) {
            return Ok(());
        }
        enter::enter_step(draft, step)?;
    }
}

/// Returns the step that enters next: the one that has waited longest among those that no other
/// active step can still lead to.
fn next_to_enter(draft: &Draft<'_>) -> Option<StepIndex> {
    let (state, plan) = (&draft.state, draft.plan);
    let is_scheduled = state.scheduled_start().is_some();
    if is_scheduled || state.is_failing() || state.is_paused() || state.is_ended() {
        return None;
    }
    let mut waiting: Vec<(u64, StepIndex)> = state
        .waiting_steps
        .iter()
        .filter(|step| state.step_stage(*step) == StepStage::Waiting)
        .filter(|step| !draft.waiting_for_slot.contains_key(step))
        .filter_map(|step| Some((state.step_state(step)?.waiting.as_ref()?.order, step)))
        .collect();
    waiting.sort_unstable();
    let first = |may_enter: &dyn Fn(StepIndex) -> bool| {
        let mut waiting = waiting.iter().map(|(_, step)| *step);
        waiting.find(|step| may_enter(*step))
    };
    let ready = first(&|step| state.blocking_steps(plan, step).next().is_none());
    if ready.is_some()
        || state.active_passes().next().is_some()
        || !draft.waiting_for_slot.is_empty()
    {
        return ready;
    }
    // Only waiting steps are left, and they block each other. A step whose blockers are all on a
    // cycle with it would wait for itself, so it enters. There always is one: following the
    // blockers upstream ends in one cycle.
    first(&|step| {
        let mut blockers = state.blocking_steps(plan, step);
        blockers.all(|other| plan.graph().share_cycle(other, step))
    })
}

/// Records the steps that have become dead, in document order. Must be called after every routing
/// decision, when its arrivals are known. After an uncaught failure or an interruption, nothing is
/// recorded for steps that were never reached.
pub(super) fn record_dead_steps(draft: &mut Draft<'_>) -> Result<()> {
    if draft.state.is_cut_short() {
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

//! Joins: which of the waiting steps may enter.

use noetl_playbook::graph::StepIndex;

use super::draft::Draft;
use super::{Refused, enter, slots};
use crate::state::StepStage;

/// Enters every step that may, in order of arrival.
pub(super) fn enter_ready(draft: &mut Draft<'_>) -> Result<(), Refused> {
    // What was found to wait for a slot is looked at anew: it may have been passed over since, or
    // share another one.
    draft.parked.clear();
    draft.wants_of_run = None;
    draft.has_looked = true;
    loop {
        let Some(step) = next_to_enter(draft) else {
            return Ok(());
        };
        if !slots::may_begin(draft) {
            return Ok(());
        }
        enter::enter(draft, step)?;
    }
}

/// The step that enters next: the one that has waited longest among those that no other live step
/// can still lead to.
fn next_to_enter(draft: &Draft<'_>) -> Option<StepIndex> {
    let (state, plan) = (&draft.state, draft.plan);
    let is_early = state.start_time().is_some();
    if is_early || state.is_failing() || state.is_paused() || state.is_ended() {
        return None;
    }
    let mut waiting: Vec<(u64, StepIndex)> = state
        .waiting
        .iter()
        .filter(|step| state.step_stage(*step) == StepStage::Waiting)
        .filter(|step| !draft.parked.contains_key(step))
        .filter_map(|step| Some((state.step(step)?.waiting.as_ref()?.order, step)))
        .collect();
    waiting.sort_unstable();
    let first = |may_enter: &dyn Fn(StepIndex) -> bool| {
        let mut waiting = waiting.iter().map(|(_, step)| *step);
        waiting.find(|step| may_enter(*step))
    };
    let ready = first(&|step| state.blockers(plan, step).next().is_none());
    if ready.is_some() || state.runs().next().is_some() || !draft.parked.is_empty() {
        return ready;
    }
    // Only waiting steps are left, and they block each other. One whose blockers all lie on a cycle
    // with it would wait for itself, so it goes on. There always is one: follow the blockers
    // upstream, and the last ones are on one cycle.
    first(&|step| {
        let mut blockers = state.blockers(plan, step);
        blockers.all(|other| plan.graph().on_cycle_with(other, step))
    })
}

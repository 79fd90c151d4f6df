//! Slots: what waits for one before it is entered, and what a slot that was granted leads to.
//!
//! A wish for a slot is no event: it follows from the log, and is told again by every decision that
//! looks at what may enter. That a slot is held is part of the event that enters.

use noetl_playbook::graph::StepIndex;
use noetl_playbook::model::{ConcurrencyOverlap, Setting};
use noetl_types::{ErrorCode, Json, StepName, TaskError, TaskErrorKind, Text};

use super::draft::{Draft, Trouble};
use super::eval::Site;
use super::scope::RunScope;
use super::{Moment, Refused, Verdict, finish, joins};
use crate::invariant;
use crate::plan::Plan;
use crate::slot::{Slot, SlotChange, SlotGrant, SlotHolder, SlotWant};
use crate::state::{State, StepStage};

/// Bytes of a key: as many as a store finds rows by.
const MAX_KEY_BYTES: usize = 190;

/// Whether the run as a whole may enter steps. Where it may not, the slot that it lacks is wanted.
pub(super) fn may_begin(draft: &mut Draft<'_>) -> bool {
    let Some(wanted) = draft.state.wanted_slot() else {
        return true;
    };
    // Steps ask for slots of their own only once the run has its own.
    if draft.grant.is_some() {
        return true;
    }
    let Some(beginning) = draft.state.beginning.as_ref() else {
        return false;
    };
    draft.wants_of_run = Some(SlotWant {
        holder: SlotHolder::Run,
        slot: wanted.slot.clone(),
        overlap: wanted.overlap,
        priority: beginning.started.priority.unwrap_or_default(),
        since: beginning.at,
    });
    false
}

/// Whether a step may be entered that shares a slot. Where it may not, the slot is wanted.
pub(super) fn may_enter(
    draft: &mut Draft<'_>,
    step: StepIndex,
    slot: &Slot,
    priority: Option<i16>,
) -> Result<bool, Refused> {
    let known = draft.state.step(step);
    let Some(waiting) = known.and_then(|known| known.waiting.as_ref()) else {
        return Err(draft.broken("arrivals"));
    };
    let holder = SlotHolder::Step {
        step: draft.name(step),
        run: known.map_or(0, |known| known.runs).saturating_add(1),
    };
    let is_granted = |grant: &SlotGrant| grant.holder == holder && grant.key == slot.key;
    if draft.grant.as_ref().is_some_and(is_granted) {
        draft.grant = None;
        return Ok(true);
    }
    let of_run = draft.state.started().and_then(|started| started.priority);
    let want = SlotWant {
        holder,
        slot: slot.clone(),
        overlap: ConcurrencyOverlap::Queue,
        priority: priority.or(of_run).unwrap_or_default(),
        since: waiting.since,
    };
    draft.parked.insert(step, want);
    Ok(false)
}

/// The key that a template or a text tells.
pub(super) fn key(
    site: &Site<'_>,
    written: &Setting<std::sync::Arc<str>>,
    scope: &RunScope<'_>,
) -> Result<Text, Trouble> {
    let key = site.setting(written, scope, |value| key_of(value).map(Into::into))?;
    bounded(&key).map_err(|error| {
        let message = format!("{site}: {}", error.message);
        TaskError::new(error.kind, message).into()
    })
}

/// A text, a number or a bool is a key.
pub(super) fn key_of(value: &Json) -> Option<String> {
    match value {
        Json::Str(text) => Some(text.to_string()),
        Json::Int(_) | Json::UInt(_) | Json::Float(_) | Json::Bool(_) => Some(value.to_string()),
        Json::Null | Json::List(_) | Json::Map(_) => None,
    }
}

/// A key that is small enough to be shared.
pub(super) fn bounded(key: &str) -> Result<Text, TaskError> {
    if key.len() > MAX_KEY_BYTES {
        let message = format!("a key is at most {MAX_KEY_BYTES} bytes long");
        return Err(TaskError::new(TaskErrorKind::Limit, message));
    }
    Ok(Text::lossy(key))
}

/// The slots that a run waits for before a decision. Where that cannot be told now, a wish may be left
/// that nobody has any more; it is granted in vain one day, and goes on to the next.
pub(super) fn wished(state: &State, plan: &Plan, moment: &mut Moment<'_>) -> Vec<SlotWant> {
    if !invariant::waits_for_slot(state, plan) {
        return Vec::new();
    }
    super::wanted_slots(state, plan, moment).unwrap_or_default()
}

/// The slots that were wanted before a decision and are not any more.
///
/// The run keeps its own turn to its end: that it has the slot is told by the first step that it
/// enters, and until then nobody can tell from its log. One that is paused asks for all of them again.
pub(super) fn withdrawn(draft: &Draft<'_>) -> impl Iterator<Item = SlotGrant> {
    let (state, has_ended) = (&draft.state, draft.state.is_ended());
    let is_known = draft.has_looked && !state.is_paused();
    let held = state.held_slots(draft.plan);
    let is_wanted = move |grant: &SlotGrant| {
        let mut wants = draft.parked.values();
        let by_run = grant.holder == SlotHolder::Run && !has_ended;
        held.contains(grant) || by_run || wants.any(|want| want.granted() == *grant)
    };
    let wished = draft.wished.iter();
    let wished = wished.filter(move |_| is_known || has_ended || state.is_failing());
    wished
        .map(SlotWant::granted)
        .filter(move |grant| !is_wanted(grant))
}

/// Somebody asks which slots the run waits for.
pub(super) fn asked(draft: &mut Draft<'_>) -> Result<Verdict, Refused> {
    draft.must_go_on()?;
    if draft.state.is_paused() {
        return Err(Refused::Paused);
    }
    joins::enter_ready(draft)?;
    finish::finish(draft)?;
    Ok(Verdict::Accepted)
}

/// A slot was granted: what waited for it goes on.
pub(super) fn granted(draft: &mut Draft<'_>, grant: SlotGrant) -> Result<Verdict, Refused> {
    draft.must_go_on()?;
    if draft.state.is_paused() {
        return Err(Refused::Paused);
    }
    let held = draft.state.held_slots(draft.plan);
    if held.contains(&grant) {
        return Ok(Verdict::Duplicate);
    }
    let waiting = match &grant.holder {
        SlotHolder::Run => {
            let wanted = draft.state.wanted_slot();
            if wanted.is_none_or(|wanted| wanted.slot.key != grant.key) {
                return Err(Refused::NoSlotWanted(grant));
            }
            None
        }
        SlotHolder::Step { step, run } => match waiting_step(draft, step, *run) {
            Some(index) => Some(index),
            None => return Err(Refused::NoSlotWanted(grant)),
        },
    };
    draft.grant = Some(grant.clone());
    joins::enter_ready(draft)?;
    let is_used = draft.grant.take().is_none();
    let verdict = match waiting {
        None => Verdict::Accepted,
        Some(_) if is_used => Verdict::Accepted,
        // It waits for another slot by now.
        Some(step) if draft.parked.contains_key(&step) => {
            draft.slots.push(SlotChange::Free(grant));
            Verdict::Ignored(ErrorCode::IllegalTransition)
        }
        // It was passed over just now.
        Some(step) if draft.state.step_stage(step) != StepStage::Waiting => {
            draft.slots.push(SlotChange::Free(grant));
            Verdict::Accepted
        }
        Some(_) => return Err(Refused::NoSlotWanted(grant)),
    };
    finish::finish(draft)?;
    Ok(verdict)
}

/// The step, if it waits for this run of it.
fn waiting_step(draft: &Draft<'_>, name: &StepName, run: u32) -> Option<StepIndex> {
    let step = draft.plan.find(name.as_str())?;
    let known = draft.state.step(step)?;
    let waits = known.stage() == StepStage::Waiting && known.runs.saturating_add(1) == run;
    (waits && !draft.state.is_failing()).then_some(step)
}

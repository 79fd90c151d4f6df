//! Slots: requests before entry, and the effect of a grant.
//!
//! A slot request is not an event. It follows from the log, and every decision that evaluates ready
//! steps repeats it. That a slot is held is part of the event of the entry.

use noetl_playbook::graph::StepIndex;
use noetl_playbook::model::{ConcurrencyOverlap, ValueOrTemplate};
use noetl_types::{ErrorCode, Json, StepName, TaskError, TaskErrorKind, Text};

use super::draft::{Draft, StepEvalError};
use super::environment::ExecutionEnvironment;
use super::rendering::FieldLocation;
use super::{DecisionContext, DecisionError, InputVerdict, Result, finish, joins};
use crate::invariant;
use crate::plan::Plan;
use crate::slot::{Slot, SlotChange, SlotGrant, SlotHolder, SlotRequest};
use crate::state::{ExecutionState, StepStage};

/// Maximum size of a key: the limit of indexed columns in stores.
const MAX_KEY_BYTES: usize = 190;

/// Returns true if the execution may enter steps. Otherwise requests the slot that it lacks.
pub(super) fn can_enter_steps(draft: &mut Draft<'_>) -> bool {
    let Some(execution_slot) = draft.state.awaited_execution_slot() else {
        return true;
    };
    // Steps request slots only after the execution has its own.
    if draft.grant.is_some() {
        return true;
    }
    let Some(start_record) = draft.state.start_record.as_ref() else {
        return false;
    };
    draft.execution_slot_request = Some(SlotRequest {
        holder: SlotHolder::Execution,
        slot: execution_slot.slot.clone(),
        overlap: execution_slot.overlap,
        priority: start_record.started.priority.unwrap_or_default(),
        since: start_record.at,
    });
    false
}

/// Returns true if a step that needs a slot may be entered. Otherwise requests the slot.
pub(super) fn try_use_grant(
    draft: &mut Draft<'_>,
    step: StepIndex,
    slot: &Slot,
    priority: Option<i16>,
) -> Result<bool> {
    let state = draft.state.step_state(step);
    let Some(waiting) = state.and_then(|state| state.waiting.as_ref()) else {
        return Err(draft.invariant_error("arrivals"));
    };
    let holder = SlotHolder::Step {
        step: draft.step_name(step),
        run: state.map_or(0, |state| state.runs).saturating_add(1),
    };
    let is_granted = |grant: &SlotGrant| grant.holder == holder && grant.key == slot.key;
    if draft.grant.as_ref().is_some_and(is_granted) {
        draft.grant = None;
        return Ok(true);
    }
    let execution_priority = draft.state.start_event().and_then(|started| started.priority);
    let request = SlotRequest {
        holder,
        slot: slot.clone(),
        overlap: ConcurrencyOverlap::Queue,
        priority: priority.or(execution_priority).unwrap_or_default(),
        since: waiting.since,
    };
    draft.waiting_for_slot.insert(step, request);
    Ok(false)
}

/// Resolves a concurrency or cache key.
pub(super) fn resolve_key(
    location: &FieldLocation<'_>,
    setting: &ValueOrTemplate<std::sync::Arc<str>>,
    environment: &ExecutionEnvironment<'_>,
) -> Result<Text, StepEvalError> {
    let key = location
        .resolve_setting(setting, environment, |value| key_from_json(value).map(Into::into))?;
    bounded_key(&key).map_err(|error| {
        let message = format!("{location}: {}", error.message);
        TaskError::new(error.kind, message).into()
    })
}

/// Converts a string, a number or a bool to a key.
pub(super) fn key_from_json(value: &Json) -> Option<String> {
    match value {
        Json::Str(text) => Some(text.to_string()),
        Json::Int(_) | Json::UInt(_) | Json::Float(_) | Json::Bool(_) => Some(value.to_string()),
        Json::Null | Json::List(_) | Json::Map(_) => None,
    }
}

/// Checks the size of a key.
pub(super) fn bounded_key(key: &str) -> Result<Text, TaskError> {
    if key.len() > MAX_KEY_BYTES {
        let message = format!("a key is at most {MAX_KEY_BYTES} bytes long");
        return Err(TaskError::new(TaskErrorKind::Limit, message));
    }
    Ok(Text::from_lossy(key))
}

/// Returns the slot requests before a decision. If they cannot be determined now, an obsolete
/// request may remain. It is granted once without effect, and then released.
pub(super) fn previous_requests(
    state: &ExecutionState,
    plan: &Plan,
    context: &mut DecisionContext<'_>,
) -> Vec<SlotRequest> {
    if !invariant::is_waiting_for_slot(state, plan) {
        return Vec::new();
    }
    super::requested_slots(state, plan, context).unwrap_or_default()
}

/// Returns the slot requests that the decision makes obsolete.
///
/// The execution keeps its own request until it ends: the log shows that it holds the slot only
/// after the first step is entered. A paused execution requests all slots again.
pub(super) fn obsolete_requests(draft: &Draft<'_>) -> impl Iterator<Item = SlotGrant> {
    let (state, has_ended) = (&draft.state, draft.state.is_ended());
    let has_evaluated = draft.has_evaluated_entries && !state.is_paused();
    let held = state.held_slots(draft.plan);
    let is_needed = move |grant: &SlotGrant| {
        let mut requests = draft.waiting_for_slot.values();
        let is_execution_request = grant.holder == SlotHolder::Execution && !has_ended;
        held.contains(grant)
            || is_execution_request
            || requests.any(|request| request.to_grant() == *grant)
    };
    let previous = draft.previous_slot_requests.iter();
    let previous = previous.filter(move |_| has_evaluated || has_ended || state.is_failing());
    previous.map(SlotRequest::to_grant).filter(move |grant| !is_needed(grant))
}

/// Repeats the slot requests of the execution.
pub(super) fn refresh_requests(draft: &mut Draft<'_>) -> Result<InputVerdict> {
    draft.ensure_not_ended()?;
    if draft.state.is_paused() {
        return Err(DecisionError::Paused);
    }
    joins::enter_ready(draft)?;
    finish::finish_if_done(draft)?;
    Ok(InputVerdict::Accepted)
}

/// Accepts a grant: the waiting step or execution continues.
pub(super) fn accept_grant(draft: &mut Draft<'_>, grant: SlotGrant) -> Result<InputVerdict> {
    draft.ensure_not_ended()?;
    if draft.state.is_paused() {
        return Err(DecisionError::Paused);
    }
    let held = draft.state.held_slots(draft.plan);
    if held.contains(&grant) {
        return Ok(InputVerdict::Duplicate);
    }
    let waiting = match &grant.holder {
        SlotHolder::Execution => {
            let execution_slot = draft.state.awaited_execution_slot();
            if execution_slot.is_none_or(|execution_slot| execution_slot.slot.key != grant.key) {
                return Err(DecisionError::SlotNotRequested(grant));
            }
            None
        }
        SlotHolder::Step { step, run } => match waiting_step(draft, step, *run) {
            Some(index) => Some(index),
            None => return Err(DecisionError::SlotNotRequested(grant)),
        },
    };
    draft.grant = Some(grant.clone());
    joins::enter_ready(draft)?;
    let is_used = draft.grant.take().is_none();
    let verdict = match waiting {
        None => InputVerdict::Accepted,
        Some(_) if is_used => InputVerdict::Accepted,
        // It now waits for another slot.
        Some(step) if draft.waiting_for_slot.contains_key(&step) => {
            draft.slot_changes.push(SlotChange::Release(grant));
            InputVerdict::Ignored(ErrorCode::IllegalTransition)
        }
        // It was just skipped.
        Some(step) if draft.state.step_stage(step) != StepStage::Waiting => {
            draft.slot_changes.push(SlotChange::Release(grant));
            InputVerdict::Accepted
        }
        Some(_) => return Err(DecisionError::SlotNotRequested(grant)),
    };
    finish::finish_if_done(draft)?;
    Ok(verdict)
}

/// Returns the step if it waits for this pass.
fn waiting_step(draft: &Draft<'_>, name: &StepName, run: u32) -> Option<StepIndex> {
    let step = draft.plan.find_step(name.as_str())?;
    let state = draft.state.step_state(step)?;
    let waits = state.stage() == StepStage::Waiting && state.runs.saturating_add(1) == run;
    (waits && !draft.state.is_failing()).then_some(step)
}

//! Step caches: looking up an earlier result, reusing it, and selecting results to store.

use noetl_playbook::graph::StepIndex;
use noetl_playbook::model::StepCache;

use super::DecisionError;
use super::Result;
use super::draft::{Draft, StepEvalError};
use super::environment::TemplateFocus;
use super::exit::{self, StepSuccess};
use super::rendering::{FieldLocation, TemplateField};
use super::slots;
use crate::cache::{CacheEntry, CacheHit, CacheKey, CacheLookupResult, CachedResult};
use crate::event::{CachedResultUsed, EventKind, StepEnd, StepExited};
use crate::state::{CommandOutcome, StepOutput, StepWork, TriggerEvent};

/// Result of the cache lookup of a step.
pub(super) enum CacheDecision {
    /// The step runs, and its result is stored under this key.
    Store(CacheKey),
    /// The step reuses this result.
    Reuse(Box<CacheHit>),
}

/// Looks up a cached result for a step that is about to start.
pub(super) fn look_up_result(
    draft: &Draft<'_>,
    step: StepIndex,
    cache: &StepCache,
    focus: TemplateFocus<'_>,
) -> Result<CacheDecision, StepEvalError> {
    let step_plan = draft.step_plan(step);
    let location = FieldLocation { step: &step_plan.name, field: TemplateField::CacheKey };
    let key_text =
        slots::resolve_key(&location, &cache.key.value, &draft.environment(step, focus))?;
    let (Some(definition), Some(started)) = (step_plan.definition, draft.state.start_event())
    else {
        return Err(draft.invariant_error("cache").into());
    };
    let key = CacheKey::new(cache.scope, &key_text, definition, &started.path);
    match draft.look_up_cache(&key) {
        None => Err(DecisionError::NeedsCache(key).into()),
        Some(CacheLookupResult::Miss) => Ok(CacheDecision::Store(key)),
        Some(CacheLookupResult::Hit(hit)) => Ok(CacheDecision::Reuse(hit)),
    }
}

/// Reuses a cached result in place of running a step that was entered.
pub(super) fn reuse_result(draft: &mut Draft<'_>, step: StepIndex, hit: CacheHit) -> Result<()> {
    let run = draft.active_pass(step)?.number;
    draft.emit_event(EventKind::CachedResultUsed(Box::new(CachedResultUsed {
        step: draft.step_name(step),
        run,
        origin: hit.origin,
        result: hit.result,
    })))?;
    // Use the data as the fold stores it.
    let StepWork::Single { outcome: Some(outcome), .. } = &draft.active_pass(step)?.work else {
        return Err(draft.invariant_error("outcome"));
    };
    let success = StepSuccess {
        event: match draft.step_plan(step).loop_plan {
            None => TriggerEvent::CallDone,
            Some(_) => TriggerEvent::LoopDone,
        },
        outcome: outcome.clone(),
        data: None,
    };
    exit::complete_step(draft, step, success)
}

/// Returns the cache entry of a step that exits, if its pass succeeded and has a cache key.
pub(super) fn entry_on_exit(draft: &Draft<'_>, exited: &StepExited) -> Option<CacheEntry> {
    if exited.end != StepEnd::Completed {
        return None;
    }
    let step = draft.plan.find_step(exited.step.as_str())?;
    let pass = draft.state.active_pass(step)?;
    let key = pass.cache?;
    let result = match (&pass.work, &exited.data) {
        (
            StepWork::Single {
                outcome: Some(CommandOutcome { output: StepOutput { data, labels }, .. }),
                ..
            },
            _,
        ) => CachedResult { data: data.clone(), labels: labels.clone() },
        (StepWork::Loop(_), Some(data)) => CachedResult { data: data.clone(), labels: None },
        (StepWork::Single { outcome: None, .. } | StepWork::Loop(_) | StepWork::Cursor(_), _) => {
            return None;
        }
    };
    Some(CacheEntry {
        key,
        ttl: draft.plan.step_model(step).spec.cache.as_ref()?.ttl,
        result,
        origin_seq: draft.state.version().next_seq(),
    })
}

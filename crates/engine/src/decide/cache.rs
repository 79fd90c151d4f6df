//! Step caches: asking for an earlier result, taking it over, and telling which one to keep.

use noetl_playbook::graph::StepIndex;
use noetl_playbook::model::StepCache;

use super::Refused;
use super::draft::{Draft, Trouble};
use super::eval::{Field, Site};
use super::exit::{self, Success};
use super::scope::Focus;
use super::slots;
use crate::cache::{CacheAnswer, CacheEntry, CacheHit, CacheKey, CachedResult};
use crate::event::{EventKind, StepEnd, StepExited, TakenOver};
use crate::state::{LeadEvent, Outcome, Output, Work};

/// What a step does about earlier results.
pub(super) enum Cached {
    /// It runs, and its result is kept under this key.
    Keep(CacheKey),
    /// It takes this one over.
    Take(Box<CacheHit>),
}

/// Asks whether a step that is about to start can take a result over.
pub(super) fn ask(
    draft: &Draft<'_>,
    step: StepIndex,
    cache: &StepCache,
    focus: Focus<'_>,
) -> Result<Cached, Trouble> {
    let facts = draft.step(step);
    let site = Site {
        step: &facts.name,
        field: Field::CacheKey,
    };
    let written = slots::key(&site, &cache.key.value, &draft.scope(step, focus))?;
    let (Some(definition), Some(started)) = (facts.definition, draft.state.started()) else {
        return Err(draft.broken("cache").into());
    };
    let key = CacheKey::new(cache.scope, &written, definition, &started.path);
    match draft.look_up(&key) {
        None => Err(Refused::NeedsCache(key).into()),
        Some(CacheAnswer::Miss) => Ok(Cached::Keep(key)),
        Some(CacheAnswer::Hit(hit)) => Ok(Cached::Take(hit)),
    }
}

/// Takes a result over in place of running a step that was entered.
pub(super) fn take_over(
    draft: &mut Draft<'_>,
    step: StepIndex,
    hit: CacheHit,
) -> Result<(), Refused> {
    let run = draft.run(step)?.number;
    draft.emit(EventKind::TakenOver(Box::new(TakenOver {
        step: draft.name(step),
        run,
        origin: hit.origin,
        result: hit.result,
    })))?;
    // The data as the fold has it.
    let Work::Single {
        outcome: Some(outcome),
        ..
    } = &draft.run(step)?.work
    else {
        return Err(draft.broken("outcome"));
    };
    let success = Success {
        event: match draft.step(step).looping {
            None => LeadEvent::CallDone,
            Some(_) => LeadEvent::LoopDone,
        },
        outcome: outcome.clone(),
        data: None,
    };
    exit::complete(draft, step, success)
}

/// What is to be kept of a step that is left: the result of a run that went well, and that was asked
/// for under a key.
pub(super) fn entry(draft: &Draft<'_>, exited: &StepExited) -> Option<CacheEntry> {
    if exited.end != StepEnd::Completed {
        return None;
    }
    let step = draft.plan.find(exited.step.as_str())?;
    let run = draft.state.run(step)?;
    let key = run.cache?;
    let result = match (&run.work, &exited.data) {
        (
            Work::Single {
                outcome:
                    Some(Outcome {
                        output: Output { data, labels },
                        ..
                    }),
                ..
            },
            _,
        ) => CachedResult {
            data: data.clone(),
            labels: labels.clone(),
        },
        (Work::Loop(_), Some(data)) => CachedResult {
            data: data.clone(),
            labels: None,
        },
        (Work::Single { outcome: None, .. } | Work::Loop(_) | Work::Cursor(_), _) => return None,
    };
    Some(CacheEntry {
        key,
        ttl: draft.plan.model(step).spec.cache.as_ref()?.ttl,
        result,
        origin_seq: draft.state.version().next_seq(),
    })
}

//! Failure of a step: caught by an arc, or the beginning of the end.

use std::cell::OnceCell;

use noetl_playbook::graph::StepIndex;
use noetl_types::{Json, TaskError};

use super::draft::{Draft, Trouble};
use super::routing::{self, Leaving, Route, Way};
use super::{Refused, exit, parking};
use crate::event::StepEnd;
use crate::state::{LeadEvent, Outcome, Work};

/// Fails a step; its arcs may catch that. This is so even when the run fails already, only that
/// nothing is entered any more.
pub(super) fn fail(
    draft: &mut Draft<'_>,
    step: StepIndex,
    error: TaskError,
) -> Result<(), Refused> {
    match catch(draft, step, &error) {
        Err(Trouble::Refused(refused)) => Err(refused),
        Err(Trouble::Failed(broken)) => fail_uncaught(draft, step, with_cause(*broken, &error)),
        Ok(true) => Ok(()),
        Ok(false) => fail_uncaught(draft, step, error),
    }
}

/// The arc that was to catch a failure is broken itself: that comes first, the failure is its cause.
fn with_cause(mut broken: TaskError, cause: &TaskError) -> TaskError {
    let mut details = broken.details.take().and_then(|map| map.as_map().cloned());
    let cause = ("cause".into(), cause.to_json());
    details.get_or_insert_default().extend([cause]);
    broken.details = details.map(Json::from);
    broken
}

/// Fails a step for good.
pub(super) fn fail_uncaught(
    draft: &mut Draft<'_>,
    step: StepIndex,
    error: TaskError,
) -> Result<(), Refused> {
    let end = StepEnd::Failed {
        error,
        caught: false,
    };
    exit::record(draft, step, end, &Route::default(), None)?;
    parking::give_up(draft)
}

/// Leaves a failed step along the arcs that catch its failure. Whether there are any.
fn catch(draft: &mut Draft<'_>, step: StepIndex, error: &TaskError) -> Result<bool, Trouble> {
    if draft.step(step).arcs.iter().all(|arc| !arc.catches) {
        return Ok(false);
    }
    let run = draft.run(step)?;
    let known = match &run.work {
        Work::Single { outcome, .. } => outcome.clone(),
        Work::Loop(_) | Work::Cursor(_) => None,
    };
    let outcome = Outcome {
        error: Some(error.clone()),
        ..known.unwrap_or_else(Outcome::went_well)
    };
    let mut leaving = Leaving {
        step,
        run: run.number,
        arrival: run.arrival.clone(),
        event: LeadEvent::CallError,
        outcome: Some(outcome),
        variables: run.variables.clone(),
        iter: run.iter.clone(),
        envelope: OnceCell::new(),
    };
    let route = routing::route(draft, &leaving, Way::Catch)?;
    if route.next.is_empty() {
        return Ok(false);
    }
    let end = StepEnd::Failed {
        error: error.clone(),
        caught: true,
    };
    exit::leave(draft, &mut leaving, end, &route, None)?;
    Ok(true)
}

//! Failure of a step: caught by an arc, or failing the execution.

use std::cell::OnceCell;

use noetl_playbook::graph::StepIndex;
use noetl_types::{Json, TaskError};

use super::draft::{Draft, StepEvalError};
use super::routing::{self, ArcFilter, SelectedArcs, StepExit};
use super::{Result, exit, suspension};
use crate::event::StepEnd;
use crate::state::{CommandOutcome, StepWork, TriggerEvent};

/// Fails a step. Its arcs may catch the failure. They may do so even while the execution is
/// failing, but then no step is entered.
pub(super) fn fail_step(draft: &mut Draft<'_>, step: StepIndex, error: TaskError) -> Result<()> {
    match catch_failure(draft, step, &error) {
        Err(StepEvalError::Decision(error)) => Err(error),
        Err(StepEvalError::Task(broken)) => fail_uncaught(draft, step, with_cause(*broken, &error)),
        Ok(true) => Ok(()),
        Ok(false) => fail_uncaught(draft, step, error),
    }
}

/// Combines the error of a broken catching arc with the failure that it was to catch, as its cause.
fn with_cause(mut broken: TaskError, cause: &TaskError) -> TaskError {
    let mut details = broken.details.take().and_then(|map| map.as_map().cloned());
    let cause = ("cause".into(), cause.to_json());
    details.get_or_insert_default().extend([cause]);
    broken.details = details.map(Json::from);
    broken
}

/// Fails a step without catching.
pub(super) fn fail_uncaught(
    draft: &mut Draft<'_>,
    step: StepIndex,
    error: TaskError,
) -> Result<()> {
    let end = StepEnd::Failed { error, caught: false };
    exit::record_exit(draft, step, end, &SelectedArcs::default(), None)?;
    suspension::cancel_waits(draft)
}

/// Leaves a failed step along the arcs that catch its failure. Returns false if there are none.
fn catch_failure(
    draft: &mut Draft<'_>,
    step: StepIndex,
    error: &TaskError,
) -> Result<bool, StepEvalError> {
    if draft.step_plan(step).arcs.iter().all(|arc| !arc.catches_failure) {
        return Ok(false);
    }
    let pass = draft.active_pass(step)?;
    let recorded = match &pass.work {
        StepWork::Single { outcome, .. } => outcome.clone(),
        StepWork::Loop(_) | StepWork::Cursor(_) => None,
    };
    let outcome = CommandOutcome {
        error: Some(error.clone()),
        ..recorded.unwrap_or_else(CommandOutcome::empty_success)
    };
    let mut step_exit = StepExit {
        step,
        run: pass.number,
        arrival: pass.arrival.clone(),
        event: TriggerEvent::CallError,
        outcome: Some(outcome),
        variables: pass.variables.clone(),
        iter: pass.iter.clone(),
        envelope: OnceCell::new(),
    };
    let selected = routing::select_arcs(draft, &step_exit, ArcFilter::Catching)?;
    if selected.next.is_empty() {
        return Ok(false);
    }
    let end = StepEnd::Failed { error: error.clone(), caught: true };
    exit::leave_step(draft, &mut step_exit, end, &selected, None)?;
    Ok(true)
}

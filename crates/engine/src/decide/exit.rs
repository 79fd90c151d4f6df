//! Leaving a step: its `set`, its arcs, and the steps that follow.

use std::cell::OnceCell;

use noetl_playbook::graph::StepIndex;
use noetl_playbook::model::NoMatch;
use noetl_types::{Json, TaskError, TaskErrorKind};

use super::draft::{Draft, StepEvalError};
use super::rendering::TemplateField;
use super::routing::{self, ArcFilter, SelectedArcs, StepExit};
use super::{Result, failure, joins};
use crate::event::{CtxSource, EventKind, StepEnd, StepExited};
use crate::state::{CommandOutcome, TriggerEvent};

/// Outcome of a successful step.
pub(super) struct StepSuccess {
    pub(super) event: TriggerEvent,
    pub(super) outcome: CommandOutcome,
    /// Data of a loop, recorded with the exit.
    pub(super) data: Option<Json>,
}

/// Leaves a successful step.
pub(super) fn complete_step(
    draft: &mut Draft<'_>,
    step: StepIndex,
    success: StepSuccess,
) -> Result<()> {
    let pass = draft.active_pass(step)?;
    let mut step_exit = StepExit {
        step,
        run: pass.number,
        arrival: pass.arrival.clone(),
        event: success.event,
        outcome: Some(success.outcome),
        variables: pass.variables.clone(),
        iter: pass.iter.clone(),
        envelope: OnceCell::new(),
    };
    match set_and_leave(draft, &mut step_exit, success.data) {
        Err(StepEvalError::Decision(error)) => Err(error),
        Err(StepEvalError::Task(error)) => failure::fail_uncaught(draft, step, *error),
        Ok(()) => Ok(()),
    }
}

/// Applies the `set` of a step and leaves it along its arcs.
fn set_and_leave(
    draft: &mut Draft<'_>,
    step_exit: &mut StepExit,
    data: Option<Json>,
) -> Result<(), StepEvalError> {
    let plan = draft.plan;
    step_exit.write_set(
        draft,
        CtxSource::Step,
        &plan.step_model(step_exit.step).set,
        TemplateField::Set,
    )?;
    let selected = routing::select_arcs(draft, step_exit, ArcFilter::All)?;
    if let Some(error) = dead_end_error(draft, step_exit.step, &selected) {
        return Err(error.into());
    }
    leave_step(draft, step_exit, StepEnd::Completed, &selected, data)
}

/// Returns the error of a step that must select an arc and has selected none.
pub(super) fn dead_end_error(
    draft: &Draft<'_>,
    step: StepIndex,
    selected: &SelectedArcs,
) -> Option<TaskError> {
    let router = draft.plan.step_model(step).next.as_ref()?;
    let must_match = router.on_no_match() == NoMatch::Error
        || draft.plan.playbook().executor.spec.no_next_is_error;
    if !selected.next.is_empty() || router.arcs.is_empty() || !must_match {
        return None;
    }
    let message = format!("no arc of step `{}` matched", draft.step_plan(step).name);
    Some(TaskError::new(TaskErrorKind::Routing, message))
}

/// Leaves a step along its arcs. The writes of arcs are recorded after the exit. If they fail, the
/// exit is rolled back.
pub(super) fn leave_step(
    draft: &mut Draft<'_>,
    step_exit: &mut StepExit,
    end: StepEnd,
    selected: &SelectedArcs,
    data: Option<Json>,
) -> Result<(), StepEvalError> {
    let checkpoint = selected.writes.then(|| draft.checkpoint());
    record_exit(draft, step_exit.step, end, selected, data)?;
    let result = routing::write_arc_sets(draft, step_exit, selected);
    if let (Err(StepEvalError::Task(_)), Some(checkpoint)) = (&result, checkpoint) {
        draft.roll_back(checkpoint);
    }
    result
}

/// Records the end of a step pass and the steps that become unreachable.
pub(super) fn record_exit(
    draft: &mut Draft<'_>,
    step: StepIndex,
    end: StepEnd,
    selected: &SelectedArcs,
    data: Option<Json>,
) -> Result<()> {
    let step_plan = draft.step_plan(step);
    let run = draft.active_pass(step)?.number;
    let data = match data {
        None => None,
        Some(data) => {
            Some(draft.inline_or_store(&step_plan.name, data, step_plan.inline_max.as_bytes())?)
        }
    };
    draft.emit_event(EventKind::StepExited(Box::new(StepExited {
        step: step_plan.name.clone(),
        run,
        end,
        next: selected.next.clone(),
        data,
    })))?;
    joins::record_dead_steps(draft)
}

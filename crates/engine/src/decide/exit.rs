//! Leaving a step: its `set`, its arcs, and what follows from them.

use std::cell::OnceCell;

use noetl_playbook::graph::StepIndex;
use noetl_playbook::model::NoMatch;
use noetl_types::{Json, TaskError, TaskErrorKind};

use super::draft::{Draft, Trouble};
use super::eval::Field;
use super::routing::{self, Leaving, Route, Way};
use super::{Refused, failure, skips};
use crate::event::{CtxSource, EventKind, StepEnd, StepExited};
use crate::state::{LeadEvent, Outcome};

/// A step that went well.
pub(super) struct Success {
    pub(super) event: LeadEvent,
    pub(super) outcome: Outcome,
    /// The data of a loop, which the exit records.
    pub(super) data: Option<Json>,
}

/// Leaves a step that went well.
pub(super) fn complete(
    draft: &mut Draft<'_>,
    step: StepIndex,
    success: Success,
) -> Result<(), Refused> {
    let run = draft.run(step)?;
    let mut leaving = Leaving {
        step,
        run: run.number,
        arrival: run.arrival.clone(),
        event: success.event,
        outcome: Some(success.outcome),
        variables: run.variables.clone(),
        iter: run.iter.clone(),
        envelope: OnceCell::new(),
    };
    match set_and_leave(draft, &mut leaving, success.data) {
        Err(Trouble::Refused(refused)) => Err(refused),
        Err(Trouble::Failed(error)) => failure::fail_uncaught(draft, step, *error),
        Ok(()) => Ok(()),
    }
}

/// Applies the `set` of a step and leaves it along its arcs.
fn set_and_leave(
    draft: &mut Draft<'_>,
    leaving: &mut Leaving,
    data: Option<Json>,
) -> Result<(), Trouble> {
    let plan = draft.plan;
    leaving.write(
        draft,
        CtxSource::Step,
        &plan.model(leaving.step).set,
        Field::Set,
    )?;
    let route = routing::route(draft, leaving, Way::On)?;
    if let Some(error) = dead_end(draft, leaving.step, &route) {
        return Err(error.into());
    }
    leave(draft, leaving, StepEnd::Completed, &route, data)
}

/// The failure of a step whose arcs all stay untaken, where one had to be taken.
pub(super) fn dead_end(draft: &Draft<'_>, step: StepIndex, route: &Route) -> Option<TaskError> {
    let router = draft.plan.model(step).next.as_ref()?;
    let must_go_on = router.on_no_match() == NoMatch::Error
        || draft.plan.playbook().executor.spec.no_next_is_error;
    if !route.next.is_empty() || router.arcs.is_empty() || !must_go_on {
        return None;
    }
    let message = format!("no arc of step `{}` matched", draft.step(step).name);
    Some(TaskError::new(TaskErrorKind::Routing, message))
}

/// Leaves a step along its arcs. What an arc writes is recorded after the exit; when that goes wrong
/// the exit is void.
pub(super) fn leave(
    draft: &mut Draft<'_>,
    leaving: &mut Leaving,
    end: StepEnd,
    route: &Route,
    data: Option<Json>,
) -> Result<(), Trouble> {
    let mark = route.writes.then(|| draft.mark());
    record(draft, leaving.step, end, route, data)?;
    let written = routing::write_arcs(draft, leaving, route);
    if let (Err(Trouble::Failed(_)), Some(mark)) = (&written, mark) {
        draft.go_back(mark);
    }
    written
}

/// Records the end of a run of a step, and the steps that die of it.
pub(super) fn record(
    draft: &mut Draft<'_>,
    step: StepIndex,
    end: StepEnd,
    route: &Route,
    data: Option<Json>,
) -> Result<(), Refused> {
    let facts = draft.step(step);
    let run = draft.run(step)?.number;
    let data = match data {
        None => None,
        Some(data) => Some(draft.keep(&facts.name, data, facts.inline_max.as_bytes())?),
    };
    draft.emit(EventKind::StepExited(Box::new(StepExited {
        step: facts.name.clone(),
        run,
        end,
        next: route.next.clone(),
        data,
    })))?;
    skips::note(draft)
}

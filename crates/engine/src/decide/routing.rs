//! Routing: which arcs of a step are taken, and what they write.

use std::cell::OnceCell;

use noetl_playbook::graph::StepIndex;
use noetl_playbook::model::{RouterMode, Set};
use noetl_types::{Json, StepName};

use super::draft::{Draft, Trouble};
use super::eval::{Field, Site};
use super::scope::{Ending, Focus};
use super::writes::{self, with_writes};
use crate::event::CtxSource;
use crate::state::{Arrival, LeadEvent, Outcome};

/// A step that is being left, with all that its `set` and its arcs see of it.
pub(super) struct Leaving {
    pub(super) step: StepIndex,
    pub(super) run: u32,
    /// What led to it.
    pub(super) arrival: Arrival,
    /// What became of it.
    pub(super) event: LeadEvent,
    /// Nothing where it is passed over.
    pub(super) outcome: Option<Outcome>,
    /// What `set` wrote under `step.` and `iter.`.
    pub(super) variables: Json,
    pub(super) iter: Json,
    /// What `output` says besides the data: the same for all of its templates.
    pub(super) envelope: OnceCell<Json>,
}

impl Leaving {
    pub(super) fn focus(&self) -> Focus<'_> {
        Focus {
            arrival: Some(&self.arrival),
            ending: Some(Ending {
                event: self.event,
                outcome: self.outcome.as_ref(),
                envelope: &self.envelope,
            }),
            variables: Some(&self.variables),
            iter: Some(&self.iter),
        }
    }

    /// Renders a `set` and records it.
    pub(super) fn write<'s>(
        &mut self,
        draft: &mut Draft<'_>,
        source: CtxSource,
        set: &'s Set,
        field: impl Fn(&'s noetl_playbook::model::SetTarget) -> Field<'s>,
    ) -> Result<(), Trouble> {
        if set.is_empty() {
            return Ok(());
        }
        let scope = draft.scope(self.step, self.focus());
        let written = writes::render(set, &draft.step(self.step).name, field, &scope)?;
        self.variables = with_writes(&self.variables, &written.step);
        self.iter = with_writes(&self.iter, &written.iter);
        writes::record(draft, self.step, self.run, source, written.ctx.into())?;
        Ok(())
    }
}

/// The arcs that are taken, by their place in the router.
#[derive(Debug, Default)]
pub(super) struct Route {
    arcs: Vec<usize>,
    /// Their targets, in order.
    pub(super) next: Vec<StepName>,
    /// Whether any of them writes something.
    pub(super) writes: bool,
}

/// Which arcs come into question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// All of them: the step went well or was passed over.
    On,
    /// Those that may catch a failure.
    Catch,
}

/// Works out the arcs that are taken. All conditions see the same state.
pub(super) fn route(draft: &Draft<'_>, leaving: &Leaving, way: Way) -> Result<Route, Trouble> {
    let step = leaving.step;
    let facts = draft.step(step);
    let mut route = Route::default();
    let Some(router) = &draft.plan.model(step).next else {
        return Ok(route);
    };
    let scope = draft.scope(step, leaving.focus());
    for (at, (arc, plan)) in router.arcs.iter().zip(&facts.arcs).enumerate() {
        let is_in_question = match way {
            Way::On => true,
            Way::Catch => plan.catches,
        };
        if !is_in_question {
            continue;
        }
        let site = Site {
            step: &facts.name,
            field: Field::ArcWhen(at),
        };
        let holds = match &arc.when {
            None => true,
            Some(when) => site.test(&when.value, &scope)?.0,
        };
        if holds {
            route.arcs.push(at);
            route.next.push(plan.name.clone());
            route.writes |= !arc.set.is_empty();
            if router.mode() == RouterMode::Exclusive {
                break;
            }
        }
    }
    Ok(route)
}

/// Records what the arcs that are taken write; each sees the writes of those before it.
pub(super) fn write_arcs(
    draft: &mut Draft<'_>,
    leaving: &mut Leaving,
    route: &Route,
) -> Result<(), Trouble> {
    let plan = draft.plan;
    let Some(router) = &plan.model(leaving.step).next else {
        return Ok(());
    };
    for at in &route.arcs {
        let field = |target| Field::ArcSet(*at, target);
        let Some(arc) = router.arcs.get(*at) else {
            return Err(draft.broken("arc").into());
        };
        leaving.write(draft, CtxSource::Arc, &arc.set, field)?;
    }
    Ok(())
}

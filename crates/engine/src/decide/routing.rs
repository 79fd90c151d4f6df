//! Routing: selects the arcs of a step and records their writes.

use std::cell::OnceCell;

use noetl_playbook::graph::StepIndex;
use noetl_playbook::model::{RouterMode, SetClause};
use noetl_types::{Json, StepName};

use super::draft::{Draft, StepEvalError};
use super::environment::{StepEnding, TemplateFocus};
use super::rendering::{FieldLocation, TemplateField};
use super::writes::{self, with_writes};
use crate::event::CtxSource;
use crate::state::{Arrival, CommandOutcome, TriggerEvent};

/// A step that is being left, with everything that its `set` and its arcs can see.
pub(super) struct StepExit {
    pub(super) step: StepIndex,
    pub(super) run: u32,
    /// Arrival that led to it.
    pub(super) arrival: Arrival,
    /// Event that ended it.
    pub(super) event: TriggerEvent,
    /// `None` if it is skipped.
    pub(super) outcome: Option<CommandOutcome>,
    /// Variables that `set` wrote under `step.` and `iter.`.
    pub(super) variables: Json,
    pub(super) iter: Json,
    /// The fields of `output` besides the data. Shared by all of its templates.
    pub(super) envelope: OnceCell<Json>,
}

impl StepExit {
    pub(super) fn focus(&self) -> TemplateFocus<'_> {
        TemplateFocus {
            arrival: Some(&self.arrival),
            ending: Some(StepEnding {
                event: self.event,
                outcome: self.outcome.as_ref(),
                envelope: &self.envelope,
            }),
            variables: Some(&self.variables),
            iter: Some(&self.iter),
        }
    }

    /// Renders a `set` and records it.
    pub(super) fn write_set<'s>(
        &mut self,
        draft: &mut Draft<'_>,
        source: CtxSource,
        set: &'s SetClause,
        field: impl Fn(&'s noetl_playbook::model::SetTarget) -> TemplateField<'s>,
    ) -> Result<(), StepEvalError> {
        if set.is_empty() {
            return Ok(());
        }
        let environment = draft.environment(self.step, self.focus());
        let set_writes =
            writes::render_set(set, &draft.step_plan(self.step).name, field, &environment)?;
        self.variables = with_writes(&self.variables, &set_writes.step);
        self.iter = with_writes(&self.iter, &set_writes.iter);
        writes::record_writes(draft, self.step, self.run, source, set_writes.ctx.into())?;
        Ok(())
    }
}

/// Selected arcs, by index in the router.
#[derive(Debug, Default)]
pub(super) struct SelectedArcs {
    arcs: Vec<usize>,
    /// Targets, in order.
    pub(super) next: Vec<StepName>,
    /// True if any of them has a `set`.
    pub(super) writes: bool,
}

/// Selects the arcs to evaluate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ArcFilter {
    /// All arcs: the step succeeded or was skipped.
    All,
    /// Arcs that may catch a failure.
    Catching,
}

/// Selects arcs. All conditions see the same state.
pub(super) fn select_arcs(
    draft: &Draft<'_>,
    step_exit: &StepExit,
    filter: ArcFilter,
) -> Result<SelectedArcs, StepEvalError> {
    let step = step_exit.step;
    let step_plan = draft.step_plan(step);
    let mut selected = SelectedArcs::default();
    let Some(router) = &draft.plan.step_model(step).next else {
        return Ok(selected);
    };
    let environment = draft.environment(step, step_exit.focus());
    for (index, (arc, arc_plan)) in router.arcs.iter().zip(&step_plan.arcs).enumerate() {
        let is_candidate = match filter {
            ArcFilter::All => true,
            ArcFilter::Catching => arc_plan.catches_failure,
        };
        if !is_candidate {
            continue;
        }
        let location =
            FieldLocation { step: &step_plan.name, field: TemplateField::ArcWhen(index) };
        let holds = match &arc.when {
            None => true,
            Some(when) => location.test_condition(&when.value, &environment)?.0,
        };
        if holds {
            selected.arcs.push(index);
            selected.next.push(arc_plan.name.clone());
            selected.writes |= !arc.set.is_empty();
            if router.mode() == RouterMode::Exclusive {
                break;
            }
        }
    }
    Ok(selected)
}

/// Records the writes of the selected arcs. Each arc sees the writes of those before it.
pub(super) fn write_arc_sets(
    draft: &mut Draft<'_>,
    step_exit: &mut StepExit,
    selected: &SelectedArcs,
) -> Result<(), StepEvalError> {
    let plan = draft.plan;
    let Some(router) = &plan.step_model(step_exit.step).next else {
        return Ok(());
    };
    for index in &selected.arcs {
        let field = |target| TemplateField::ArcSet(*index, target);
        let Some(arc) = router.arcs.get(*index) else {
            return Err(draft.invariant_error("arc").into());
        };
        step_exit.write_set(draft, CtxSource::Arc, &arc.set, field)?;
    }
    Ok(())
}

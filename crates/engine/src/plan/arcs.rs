//! Plans the arcs of a step: their targets and which of them may catch a failure.

use std::sync::Arc;

use noetl_playbook::graph::{EdgeTarget, StepGraph, StepIndex};
use noetl_playbook::model::Step;
use noetl_types::StepName;

use super::PlanError;

/// Plan of an arc.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArcPlan {
    /// Target of the arc.
    pub target: EdgeTarget,
    /// Name of the target.
    pub name: StepName,
    /// True if the arc may catch a failure of its step, because its condition refers to the
    /// outcome.
    pub catches_failure: bool,
}

/// A condition that mentions one of these names is assumed to handle failures.
const OUTCOME_NAMES: [&str; 4] = ["event", "error", "output", "outcome"];

pub(super) fn plan_arcs(
    graph: &StepGraph,
    index: StepIndex,
    step: &Step,
) -> Result<Vec<ArcPlan>, PlanError> {
    let arcs = step.next.iter().flat_map(|router| &router.arcs);
    let edges = graph.edges(index).iter();
    arcs.zip(edges)
        .map(|(arc, edge)| {
            let condition = arc.when.as_ref().and_then(|when| when.as_template());
            let target = edge.target.ok_or_else(|| PlanError::UnknownTarget {
                step: Arc::clone(&step.name.value),
                target: Arc::clone(&arc.step.value),
            })?;
            Ok(ArcPlan {
                target,
                name: StepName::new(Arc::clone(&arc.step.value))?,
                catches_failure: condition
                    .is_some_and(|when| OUTCOME_NAMES.iter().any(|name| when.reads_name(name))),
            })
        })
        .collect()
}

//! The arcs of a step: where they lead, and which of them may catch a failure.

use std::sync::Arc;

use noetl_playbook::graph::{Graph, StepIndex, Target};
use noetl_playbook::model::Step;
use noetl_types::StepName;

use super::PlanError;

/// An arc.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArcPlan {
    /// Where it leads.
    pub target: Target,
    /// The name of the target.
    pub name: StepName,
    /// Whether it may catch a failure of its step: its condition asks for the outcome.
    pub catches: bool,
}

/// Names whose mention in a condition says that its author thought of failures.
const OUTCOME_NAMES: [&str; 4] = ["event", "error", "output", "outcome"];

pub(super) fn plan(
    graph: &Graph,
    index: StepIndex,
    step: &Step,
) -> Result<Vec<ArcPlan>, PlanError> {
    let arcs = step.next.iter().flat_map(|router| &router.arcs);
    let edges = graph.edges(index).iter();
    arcs.zip(edges)
        .map(|(arc, edge)| {
            let condition = arc.when.as_ref().and_then(|when| when.template());
            let target = edge.target.ok_or_else(|| PlanError::UnknownTarget {
                step: Arc::clone(&step.name.value),
                target: Arc::clone(&arc.step.value),
            })?;
            Ok(ArcPlan {
                target,
                name: StepName::new(Arc::clone(&arc.step.value))?,
                catches: condition
                    .is_some_and(|when| OUTCOME_NAMES.iter().any(|name| when.mentions(name))),
            })
        })
        .collect()
}

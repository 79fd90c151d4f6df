//! Reachability of steps along arcs.

use noetl_playbook::graph::StepGraph;

use crate::step_set::StepSet;

/// Returns, for each step, the steps that can be reached from it along at least one arc.
///
/// Components are numbered so that arcs lead to equal or smaller numbers. Processed in that order,
/// the set of a target is complete before it is needed, and the steps of a cycle share one set.
pub(super) fn reachable_sets(graph: &StepGraph) -> Vec<StepSet> {
    let empty = StepSet::with_capacity(graph.len());
    let components = graph.steps().map(|step| graph.component(step) as usize + 1);
    let count = components.max().unwrap_or_default();
    let mut members = vec![Vec::new(); count];
    for step in graph.steps() {
        members[graph.component(step) as usize].push(step);
    }
    let mut by_component: Vec<StepSet> = Vec::with_capacity(count);
    for steps in members {
        let mut reached = empty.clone();
        for step in steps {
            for target in graph.successors(step) {
                reached.insert(target);
                if let Some(further) = by_component.get(graph.component(target) as usize) {
                    reached.insert_all(further);
                }
            }
        }
        by_component.push(reached);
    }
    graph.steps().map(|step| by_component[graph.component(step) as usize].clone()).collect()
}

//! The steps of a playbook as a graph: arcs, reachability and cycles.
//!
//! Steps are numbered in document order. The engine routes along this graph, the checker searches
//! it for dead ends, and `noetl graph` draws it.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::model::{Playbook, RouterMode};

/// Index of a step, in document order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StepIndex(pub u32);

impl StepIndex {
    /// Returns the index as `usize`.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Target of an arc.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EdgeTarget {
    /// A step.
    Step(StepIndex),
    /// The implicit `end`, which ends the path. It is not a declared step.
    End,
}

/// An arc of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GraphEdge {
    /// Target of the arc. `None` if the target does not exist.
    pub target: Option<EdgeTarget>,
    /// True if the arc has a condition.
    pub conditional: bool,
}

/// The steps of a playbook as a graph.
#[derive(Debug, Clone)]
pub struct StepGraph {
    names: Vec<Arc<str>>,
    by_name: HashMap<Arc<str>, StepIndex>,
    edges: Vec<Vec<GraphEdge>>,
    modes: Vec<RouterMode>,
    entry: Option<StepIndex>,
    final_step: Option<StepIndex>,
    /// Strongly connected component of each step.
    component: Vec<u32>,
    /// True for each component that contains a cycle.
    cyclic: Vec<bool>,
}

impl StepGraph {
    /// Builds the graph of a playbook.
    pub fn new(playbook: &Playbook) -> Self {
        let names: Vec<Arc<str>> =
            playbook.workflow.iter().map(|step| step.name.value.clone()).collect();
        let by_name: HashMap<Arc<str>, StepIndex> =
            names.iter().cloned().zip((0..).map(StepIndex)).collect();
        let edges: Vec<Vec<GraphEdge>> = playbook
            .workflow
            .iter()
            .map(|step| {
                let arcs = step.next.iter().flat_map(|router| &router.arcs);
                arcs.map(|arc| GraphEdge {
                    target: match by_name.get(&arc.step.value) {
                        Some(index) => Some(EdgeTarget::Step(*index)),
                        None if &*arc.step.value == "end" => Some(EdgeTarget::End),
                        None => None,
                    },
                    conditional: arc.when.is_some(),
                })
                .collect()
            })
            .collect();
        let modes = playbook
            .workflow
            .iter()
            .map(|step| step.next.as_ref().map(crate::model::Router::mode).unwrap_or_default())
            .collect();
        let find = |name: &str| by_name.get(name).copied();
        let entry = playbook.entry_step().and_then(|step| find(&step.name));
        let final_step = playbook.executor.spec.final_step.as_ref().and_then(|name| find(name));
        let (component, cyclic) = strongly_connected_components(&edges);
        Self { names, by_name, edges, modes, entry, final_step, component, cyclic }
    }

    /// Returns the number of steps.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// True if there are no steps.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Iterates over all steps, in document order.
    pub fn steps(&self) -> impl Iterator<Item = StepIndex> + use<> {
        (0..self.names.len()).map(|index| StepIndex(u32::try_from(index).unwrap_or(u32::MAX)))
    }

    /// Finds a step by name.
    pub fn find_step(&self, name: &str) -> Option<StepIndex> {
        self.by_name.get(name).copied()
    }

    /// Returns the name of a step.
    pub fn name(&self, step: StepIndex) -> &Arc<str> {
        &self.names[step.index()]
    }

    /// Returns the first step to run.
    pub fn entry(&self) -> Option<StepIndex> {
        self.entry
    }

    /// Returns the step that runs before the execution ends.
    pub fn final_step(&self) -> Option<StepIndex> {
        self.final_step
    }

    /// Returns the arcs of a step, in order.
    pub fn edges(&self, step: StepIndex) -> &[GraphEdge] {
        &self.edges[step.index()]
    }

    /// Returns the mode that selects among the arcs of a step.
    pub fn mode(&self, step: StepIndex) -> RouterMode {
        self.modes[step.index()]
    }

    /// Iterates over the target steps of the arcs of a step, in order. A step may occur more than
    /// once.
    pub fn successors(&self, step: StepIndex) -> impl Iterator<Item = StepIndex> {
        self.edges[step.index()].iter().filter_map(|edge| match edge.target {
            Some(EdgeTarget::Step(step)) => Some(step),
            Some(EdgeTarget::End) | None => None,
        })
    }

    /// Returns a flag for each step: true if it can be reached from the given steps, which are
    /// included.
    pub fn reachable_from(&self, from: impl IntoIterator<Item = StepIndex>) -> Vec<bool> {
        let mut seen = vec![false; self.len()];
        let mut open: Vec<StepIndex> = from.into_iter().collect();
        while let Some(step) = open.pop() {
            if !std::mem::replace(&mut seen[step.index()], true) {
                open.extend(self.successors(step).filter(|next| !seen[next.index()]));
            }
        }
        seen
    }

    /// True if two steps are on a common cycle. For a step and itself: true if it is on any cycle.
    pub fn share_cycle(&self, a: StepIndex, b: StepIndex) -> bool {
        let component = self.component[a.index()];
        component == self.component[b.index()] && self.cyclic[component as usize]
    }

    /// True if a step is on a cycle.
    pub fn is_on_cycle(&self, step: StepIndex) -> bool {
        self.share_cycle(step, step)
    }

    /// Returns the strongly connected component of a step. Arcs lead to components with equal or
    /// smaller numbers.
    pub fn component(&self, step: StepIndex) -> u32 {
        self.component[step.index()]
    }

    /// Returns the components that contain a cycle, each with its steps in document order.
    pub fn cycles(&self) -> Vec<Vec<StepIndex>> {
        let mut cycles: Vec<Vec<StepIndex>> = vec![Vec::new(); self.cyclic.len()];
        for step in self.steps() {
            cycles[self.component(step) as usize].push(step);
        }
        let mut cycles: Vec<_> = cycles
            .into_iter()
            .zip(&self.cyclic)
            .filter_map(|(steps, cyclic)| cyclic.then_some(steps))
            .collect();
        cycles.sort();
        cycles
    }
}

/// Tarjan's strongly connected components algorithm. It is not recursive, because untrusted
/// playbooks could otherwise overflow the stack.
fn strongly_connected_components(edges: &[Vec<GraphEdge>]) -> (Vec<u32>, Vec<bool>) {
    const UNSEEN: u32 = u32::MAX;
    let count = edges.len();
    let next = |step: usize, edge_index: usize| match edges[step].get(edge_index)?.target {
        Some(EdgeTarget::Step(target)) => Some(Some(target.index())),
        Some(EdgeTarget::End) | None => Some(None),
    };
    let mut order = vec![UNSEEN; count];
    let mut low = vec![0; count];
    let mut component = vec![UNSEEN; count];
    let mut cyclic = Vec::new();
    let mut path = Vec::new();
    let mut next_order = 0;
    for root in 0..count {
        if order[root] != UNSEEN {
            continue;
        }
        let mut calls = vec![(root, 0)];
        while let Some((step, edge_index)) = calls.pop() {
            if edge_index == 0 {
                order[step] = next_order;
                low[step] = next_order;
                next_order += 1;
                path.push(step);
            }
            if let Some(target) = next(step, edge_index) {
                calls.push((step, edge_index + 1));
                match target {
                    Some(target) if order[target] == UNSEEN => calls.push((target, 0)),
                    Some(target) if component[target] == UNSEEN => {
                        low[step] = low[step].min(order[target]);
                    }
                    Some(_) | None => {}
                }
                continue;
            }
            if low[step] == order[step] {
                let number = u32::try_from(cyclic.len()).unwrap_or(UNSEEN - 1);
                let mut size = 0;
                while let Some(member) = path.pop() {
                    component[member] = number;
                    size += 1;
                    if member == step {
                        break;
                    }
                }
                let is_self_loop = |edge: &GraphEdge| matches!(edge.target, Some(EdgeTarget::Step(to)) if to.index() == step);
                cyclic.push(size > 1 || edges[step].iter().any(is_self_loop));
            }
            if let Some((parent, _)) = calls.last() {
                low[*parent] = low[*parent].min(low[step]);
            }
        }
    }
    (component, cyclic)
}

#[cfg(test)]
mod tests;

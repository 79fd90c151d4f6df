//! The steps of a playbook as a graph: who leads where, what can be reached, what turns in a circle.
//!
//! Steps are numbered in document order. The engine routes along this graph, the checker looks for
//! dead ends in it, and `noetl graph` draws it.

use std::collections::HashMap;
use std::sync::Arc;

use crate::model::{Playbook, RouterMode};

/// The number of a step, in document order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepIndex(pub u32);

impl StepIndex {
    /// The number as an index into a list.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Where an arc leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// To a step.
    Step(StepIndex),
    /// To the `end` that nobody declared: the path ends.
    End,
}

/// An arc, in the order in which its step writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// Where it leads; `None` where the target does not exist.
    pub target: Option<Target>,
    /// Whether it has a condition.
    pub conditional: bool,
}

/// The steps of a playbook as a graph.
#[derive(Debug, Clone)]
pub struct Graph {
    names: Vec<Arc<str>>,
    by_name: HashMap<Arc<str>, StepIndex>,
    edges: Vec<Vec<Edge>>,
    modes: Vec<RouterMode>,
    entry: Option<StepIndex>,
    final_step: Option<StepIndex>,
    /// Component of each step; steps of one component lie on cycles with each other.
    component: Vec<u32>,
    /// Whether each component has a cycle.
    cyclic: Vec<bool>,
}

impl Graph {
    /// The graph of a playbook.
    pub fn new(playbook: &Playbook) -> Self {
        let names: Vec<Arc<str>> = playbook
            .workflow
            .iter()
            .map(|step| step.name.value.clone())
            .collect();
        let by_name: HashMap<Arc<str>, StepIndex> =
            names.iter().cloned().zip((0..).map(StepIndex)).collect();
        let edges: Vec<Vec<Edge>> = playbook
            .workflow
            .iter()
            .map(|step| {
                let arcs = step.next.iter().flat_map(|router| &router.arcs);
                arcs.map(|arc| Edge {
                    target: match by_name.get(&arc.step.value) {
                        Some(index) => Some(Target::Step(*index)),
                        None if &*arc.step.value == "end" => Some(Target::End),
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
            .map(|step| {
                step.next
                    .as_ref()
                    .map(crate::model::Router::mode)
                    .unwrap_or_default()
            })
            .collect();
        let find = |name: &str| by_name.get(name).copied();
        let entry = playbook.entry().and_then(|step| find(&step.name));
        let final_step = playbook
            .executor
            .spec
            .final_step
            .as_ref()
            .and_then(|name| find(name));
        let (component, cyclic) = components(&edges);
        Self {
            names,
            by_name,
            edges,
            modes,
            entry,
            final_step,
            component,
            cyclic,
        }
    }

    /// How many steps there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there is no step.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Every step, in document order.
    pub fn steps(&self) -> impl Iterator<Item = StepIndex> + use<> {
        (0..self.names.len()).map(|index| StepIndex(u32::try_from(index).unwrap_or(u32::MAX)))
    }

    /// A step by its name.
    pub fn find(&self, name: &str) -> Option<StepIndex> {
        self.by_name.get(name).copied()
    }

    /// The name of a step.
    pub fn name(&self, step: StepIndex) -> &Arc<str> {
        &self.names[step.index()]
    }

    /// The step that runs first.
    pub fn entry(&self) -> Option<StepIndex> {
        self.entry
    }

    /// The step that runs when the run is about to end.
    pub fn final_step(&self) -> Option<StepIndex> {
        self.final_step
    }

    /// The arcs of a step, in order.
    pub fn edges(&self, step: StepIndex) -> &[Edge] {
        &self.edges[step.index()]
    }

    /// How the arcs of a step are chosen.
    pub fn mode(&self, step: StepIndex) -> RouterMode {
        self.modes[step.index()]
    }

    /// The steps that the arcs of a step lead to, in order; one may occur more than once.
    pub fn successors(&self, step: StepIndex) -> impl Iterator<Item = StepIndex> {
        self.edges[step.index()]
            .iter()
            .filter_map(|edge| match edge.target {
                Some(Target::Step(step)) => Some(step),
                Some(Target::End) | None => None,
            })
    }

    /// Which steps can be reached along arcs from these, themselves included.
    pub fn reachable(&self, from: impl IntoIterator<Item = StepIndex>) -> Vec<bool> {
        let mut seen = vec![false; self.len()];
        let mut open: Vec<StepIndex> = from.into_iter().collect();
        while let Some(step) = open.pop() {
            if !std::mem::replace(&mut seen[step.index()], true) {
                open.extend(self.successors(step).filter(|next| !seen[next.index()]));
            }
        }
        seen
    }

    /// Whether two steps lie on a cycle with each other (a step with itself: on any cycle).
    pub fn on_cycle_with(&self, a: StepIndex, b: StepIndex) -> bool {
        let component = self.component[a.index()];
        component == self.component[b.index()] && self.cyclic[component as usize]
    }

    /// Whether a step lies on a cycle.
    pub fn on_cycle(&self, step: StepIndex) -> bool {
        self.on_cycle_with(step, step)
    }

    /// The component of a step; components are numbered so that arcs lead to equal or smaller numbers.
    pub fn component(&self, step: StepIndex) -> u32 {
        self.component[step.index()]
    }

    /// The components that are cycles, each with its steps in document order.
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

/// Tarjan's strongly connected components, without recursion: graphs come from strangers.
fn components(edges: &[Vec<Edge>]) -> (Vec<u32>, Vec<bool>) {
    const UNSEEN: u32 = u32::MAX;
    let count = edges.len();
    let next = |step: usize, at: usize| match edges[step].get(at)?.target {
        Some(Target::Step(target)) => Some(Some(target.index())),
        Some(Target::End) | None => Some(None),
    };
    let mut order = vec![UNSEEN; count];
    let mut low = vec![0; count];
    let mut component = vec![UNSEEN; count];
    let mut cyclic = Vec::new();
    let mut path = Vec::new();
    let mut clock = 0;
    for root in 0..count {
        if order[root] != UNSEEN {
            continue;
        }
        let mut calls = vec![(root, 0)];
        while let Some((step, at)) = calls.pop() {
            if at == 0 {
                order[step] = clock;
                low[step] = clock;
                clock += 1;
                path.push(step);
            }
            if let Some(target) = next(step, at) {
                calls.push((step, at + 1));
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
                let own = |edge: &Edge| matches!(edge.target, Some(Target::Step(to)) if to.index() == step);
                cyclic.push(size > 1 || edges[step].iter().any(own));
            }
            if let Some((parent, _)) = calls.last() {
                low[*parent] = low[*parent].min(low[step]);
            }
        }
    }
    (component, cyclic)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CheckOptions, Document, check};

    fn graph(arcs: &[(&str, &[&str])]) -> Graph {
        let mut steps = Vec::new();
        for (name, targets) in arcs {
            let arcs: Vec<String> = targets
                .iter()
                .map(|target| format!("{{step: {target}, when: \"x\"}}"))
                .collect();
            let arcs = arcs.join(", ");
            steps.push(format!(
                "  - {{step: {name}, tool: {{kind: noop}}, next: {{arcs: [{arcs}]}}}}"
            ));
        }
        let steps = steps.join("\n");
        let text = format!(
            "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: g}}\nworkload: {{x: 1}}\nworkflow:\n{steps}"
        );
        match check(&text, &CheckOptions::default()).document {
            Some(Document::Playbook(playbook)) => Graph::new(&playbook),
            other => panic!("{other:?}\n{text}"),
        }
    }

    fn names(graph: &Graph, steps: &[StepIndex]) -> Vec<String> {
        steps
            .iter()
            .map(|step| graph.name(*step).to_string())
            .collect()
    }

    #[test]
    fn cycles_are_found_and_kept_apart() {
        let graph = graph(&[
            ("a", &["b", "e"]),
            ("b", &["c"]),
            ("c", &["b", "d"]),
            ("d", &["d", "end"]),
            ("e", &[]),
        ]);
        let cycles: Vec<_> = graph
            .cycles()
            .iter()
            .map(|cycle| names(&graph, cycle))
            .collect();
        assert_eq!(cycles, [vec!["b", "c"], vec!["d"]]);
        let find = |name| graph.find(name).unwrap();
        assert!(graph.on_cycle_with(find("b"), find("c")));
        assert!(!graph.on_cycle_with(find("c"), find("d")));
        assert!(!graph.on_cycle(find("a")) && !graph.on_cycle(find("e")));
    }

    #[test]
    fn what_arcs_lead_to_is_reached() {
        let graph = graph(&[("a", &["b"]), ("b", &["end"]), ("c", &["a"])]);
        assert_eq!(graph.reachable(graph.entry()), [true, true, false]);
        let a = graph.find("a").unwrap();
        assert_eq!(graph.reachable(graph.successors(a)), [false, true, false]);
        assert_eq!(
            graph.edges(graph.find("b").unwrap())[0].target,
            Some(Target::End)
        );
    }
}

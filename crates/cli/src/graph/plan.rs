//! Positions of the steps in a text drawing.
//!
//! Every step is drawn once. A step with one predecessor is a *branch* of it. A step with several
//! predecessors is a *join*: it is placed after the last step that all paths to it pass, at the
//! same depth. If one arc continues and the others only leave, its target is on the *trunk*, below
//! its predecessor and not to the right, so that a long playbook reads downwards. Every traversal
//! uses its own stack, since playbooks are untrusted and a chain of ten thousand steps must not
//! overflow the stack.

use std::collections::HashSet;

use noetl_playbook::graph::{EdgeTarget, StepIndex};
use noetl_playbook::model::RouterMode;

use super::flow::FlowGraph;

/// Maximum depth of branches. Deeper ones move to the left margin at the end, unless they consist
/// of one step.
const MAX_BRANCH_DEPTH: usize = 8;

/// Arcs from one step to one target.
#[derive(Debug, Clone)]
pub(super) struct ArcGroup {
    pub(super) target: EdgeTarget,
    /// Positions of the arcs in their step.
    pub(super) arcs: Vec<usize>,
    /// True if it leads back to a step on the current path.
    pub(super) is_back: bool,
}

/// Position of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StepPlacement {
    /// At the left margin.
    Margin,
    /// After an arc of its only predecessor.
    Branch,
    /// After the step that all paths to it pass.
    Join,
}

/// Section of the drawing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DrawingSection {
    /// Steps reachable from the entry.
    Main,
    /// The final step.
    Final,
    /// Unreachable steps.
    Unreached,
}

/// Positions of all steps.
#[derive(Debug)]
pub(super) struct DrawingPlan {
    /// Steps at the left margin with their sections, in order.
    pub(super) margin: Vec<(DrawingSection, StepIndex)>,
    groups: Vec<Vec<ArcGroup>>,
    /// Forward predecessors of each step, in drawing order.
    predecessors: Vec<Vec<StepIndex>>,
    /// Steps that lead back to each step.
    back_from: Vec<Vec<StepIndex>>,
    placements: Vec<StepPlacement>,
    trunk: Vec<Option<StepIndex>>,
    joins: Vec<Vec<StepIndex>>,
}

impl DrawingPlan {
    pub(super) fn new(flow: &FlowGraph) -> Self {
        PlanBuilder::new(flow).build()
    }

    /// Arcs of a step, grouped by target.
    pub(super) fn groups(&self, step: StepIndex) -> &[ArcGroup] {
        &self.groups[step.index()]
    }

    /// Forward predecessors of a step.
    pub(super) fn predecessors(&self, step: StepIndex) -> &[StepIndex] {
        &self.predecessors[step.index()]
    }

    /// Steps that lead back to a step.
    pub(super) fn back_from(&self, step: StepIndex) -> &[StepIndex] {
        &self.back_from[step.index()]
    }

    /// Step that is drawn directly after an arc of `step`.
    pub(super) fn branch_target(&self, step: StepIndex, group: &ArcGroup) -> Option<StepIndex> {
        match group.target {
            // An arc from another tree can also lead to it, but does not determine its position.
            EdgeTarget::Step(target) if !group.is_back && self.predecessors(target) == [step] => {
                self.is_branch(target).then_some(target)
            }
            EdgeTarget::Step(_) | EdgeTarget::End => None,
        }
    }

    /// True if a step is drawn after the arc that leads to it.
    pub(super) fn is_branch(&self, step: StepIndex) -> bool {
        self.placements[step.index()] == StepPlacement::Branch
    }

    /// True if `step` is a join placed after `fork`.
    pub(super) fn is_join_of(&self, step: StepIndex, fork: StepIndex) -> bool {
        self.joins[fork.index()].contains(&step)
    }

    /// Number of joins.
    pub(super) fn join_count(&self) -> usize {
        self.predecessors.iter().filter(|steps| steps.len() > 1).count()
    }

    /// Steps below `first` at the same depth, including `first`.
    pub(super) fn column_steps(&self, first: StepIndex) -> Vec<StepIndex> {
        let mut column = Vec::new();
        let mut open = vec![first];
        while let Some(step) = open.pop() {
            column.push(step);
            open.extend(self.joins[step.index()].iter().rev());
            open.extend(self.trunk[step.index()]);
        }
        column
    }

    /// Forward targets of the arcs of a step.
    fn forward_targets(&self, step: StepIndex) -> impl Iterator<Item = StepIndex> {
        self.groups(step).iter().filter(|group| !group.is_back).filter_map(|group| {
            match group.target {
                EdgeTarget::Step(target) => Some(target),
                EdgeTarget::End => None,
            }
        })
    }
}

/// Builds a plan, with intermediate data for each step.
struct PlanBuilder<'f> {
    flow: &'f FlowGraph,
    plan: DrawingPlan,
    /// Root of the tree that reached the step first.
    tree: Vec<Option<StepIndex>>,
    /// Position in the drawing order.
    rank: Vec<usize>,
    /// Immediate dominator: the last step that all paths to it pass.
    fork: Vec<StepIndex>,
    /// Number of steps that it dominates, including itself.
    size: Vec<usize>,
    depth: Vec<usize>,
}

impl<'f> PlanBuilder<'f> {
    fn new(flow: &'f FlowGraph) -> Self {
        let count = flow.steps.len();
        let plan = DrawingPlan {
            margin: Vec::new(),
            groups: flow.step_indices().map(|step| group_arcs(flow, step)).collect(),
            predecessors: vec![Vec::new(); count],
            back_from: vec![Vec::new(); count],
            placements: vec![StepPlacement::Margin; count],
            trunk: vec![None; count],
            joins: vec![Vec::new(); count],
        };
        Self {
            flow,
            plan,
            tree: vec![None; count],
            rank: vec![0; count],
            fork: flow.step_indices().collect(),
            size: vec![1; count],
            depth: vec![0; count],
        }
    }

    fn build(mut self) -> DrawingPlan {
        let flow = self.flow;
        let main = [(DrawingSection::Main, flow.entry)];
        let last = flow.final_step.map(|step| (DrawingSection::Final, step));
        let rest = flow.step_indices().map(|step| (DrawingSection::Unreached, step));
        for (section, root) in main.into_iter().chain(last).chain(rest) {
            if self.tree[root.index()].is_none() {
                self.mark_back_arcs(root);
                self.place_tree(section, root);
            }
        }
        self.plan
    }

    /// Walks the arcs from `root` in order and marks those that lead to a step on the current path.
    fn mark_back_arcs(&mut self, root: StepIndex) {
        let mut on_path = HashSet::from([root]);
        let mut path = vec![(root, 0)];
        self.tree[root.index()] = Some(root);
        while let Some((step, at)) = path.last_mut() {
            let step = *step;
            let Some(group) = self.plan.groups[step.index()].get_mut(*at) else {
                on_path.remove(&step);
                path.pop();
                continue;
            };
            *at += 1;
            let EdgeTarget::Step(target) = group.target else {
                continue;
            };
            if on_path.contains(&target) {
                group.is_back = true;
                self.plan.back_from[target.index()].push(step);
            } else if self.tree[target.index()].is_none() {
                self.tree[target.index()] = Some(root);
                on_path.insert(target);
                path.push((target, 0));
            }
        }
    }

    fn place_tree(&mut self, section: DrawingSection, root: StepIndex) {
        let order = self.drawing_order(root);
        for (rank, &step) in order.iter().enumerate() {
            self.rank[step.index()] = rank;
            for group in &self.plan.groups[step.index()] {
                let EdgeTarget::Step(target) = group.target else {
                    continue;
                };
                // An arc from an unreachable step does not count in another tree.
                if !group.is_back && self.tree[target.index()] == Some(root) {
                    self.plan.predecessors[target.index()].push(step);
                }
            }
        }
        for &step in &order[1..] {
            let predecessors = &self.plan.predecessors[step.index()];
            self.plan.placements[step.index()] =
                if predecessors.len() == 1 { StepPlacement::Branch } else { StepPlacement::Join };
            self.fork[step.index()] = self.fork_of(step);
        }
        for &step in order[1..].iter().rev() {
            self.size[self.fork[step.index()].index()] += self.size[step.index()];
        }
        self.plan.margin.push((section, root));
        for &step in &order {
            if step != root {
                self.assign_depth(section, step);
            }
            self.plan.trunk[step.index()] = self.trunk_of(step);
        }
    }

    /// Steps of a tree in topological order, first arcs first.
    fn drawing_order(&self, root: StepIndex) -> Vec<StepIndex> {
        let mut seen = HashSet::from([root]);
        let mut order = Vec::new();
        let mut path: Vec<(StepIndex, Vec<StepIndex>)> =
            vec![(root, self.plan.forward_targets(root).collect())];
        while let Some((step, open)) = path.last_mut() {
            if let Some(next) = open.pop() {
                if self.tree[next.index()] == Some(root) && seen.insert(next) {
                    path.push((next, self.plan.forward_targets(next).collect()));
                }
            } else {
                order.push(*step);
                path.pop();
            }
        }
        order.reverse();
        order
    }

    /// Immediate dominator of a step, computed from its predecessors.
    fn fork_of(&self, step: StepIndex) -> StepIndex {
        let meet = |mut a: StepIndex, mut b: StepIndex| {
            while a != b {
                if self.rank[a.index()] > self.rank[b.index()] {
                    a = self.fork[a.index()];
                } else {
                    b = self.fork[b.index()];
                }
            }
            a
        };
        self.plan.predecessors(step).iter().copied().reduce(meet).unwrap_or(step)
    }

    /// Assigns the depth of a step, and moves it to the margin if it is too deep.
    fn assign_depth(&mut self, section: DrawingSection, step: StepIndex) {
        let fork = self.fork[step.index()];
        let depth = self.depth[fork.index()];
        match self.plan.placements[step.index()] {
            StepPlacement::Margin => {}
            StepPlacement::Join => {
                self.depth[step.index()] = depth;
                self.plan.joins[fork.index()].push(step);
            }
            StepPlacement::Branch if self.plan.trunk[fork.index()] == Some(step) => {
                self.depth[step.index()] = depth;
            }
            StepPlacement::Branch if depth < MAX_BRANCH_DEPTH || self.size[step.index()] == 1 => {
                self.depth[step.index()] = depth + 1;
            }
            StepPlacement::Branch => {
                self.plan.placements[step.index()] = StepPlacement::Margin;
                self.plan.margin.push((section, step));
            }
        }
    }

    /// Step below this one on the trunk: the target of its last arc if the other arcs only leave.
    /// Branches that meet again are equal and are all drawn to the right.
    fn trunk_of(&self, step: StepIndex) -> Option<StepIndex> {
        let (last, others) = self.plan.groups(step).split_last()?;
        let branch = |group| self.plan.branch_target(step, group);
        let next = branch(last)?;
        let mut sides = others.iter().filter_map(branch).peekable();
        if sides.peek().is_none() {
            return Some(next);
        }
        let meets_again = |side: StepIndex| {
            self.plan.forward_targets(side).any(|target| {
                self.plan.placements[target.index()] == StepPlacement::Join
                    && self.fork[target.index()] == step
            })
        };
        let is_trunk = self.flow.flow_step(step).mode == RouterMode::Exclusive
            && self.size[next.index()] > 1
            && sides.all(|side| self.size[side.index()] == 1 && !meets_again(side));
        is_trunk.then_some(next)
    }
}

fn group_arcs(flow: &FlowGraph, step: StepIndex) -> Vec<ArcGroup> {
    let mut groups: Vec<ArcGroup> = Vec::new();
    for (index, arc) in flow.flow_step(step).arcs.iter().enumerate() {
        match groups.iter_mut().find(|group| group.target == arc.target) {
            Some(group) => group.arcs.push(index),
            None => groups.push(ArcGroup { target: arc.target, arcs: vec![index], is_back: false }),
        }
    }
    groups
}

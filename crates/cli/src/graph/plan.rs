//! Where each step stands in a text drawing.
//!
//! Every step is drawn once. A step that only one other leads to is a *branch* of that one. A step
//! that several lead to is a *join*: it stands behind the last step that every way to it passes, at
//! the same depth. Where one arc plainly goes on and the others only leave, the step that it leads to
//! stands on the *trunk*, below its predecessor and not to its right, so that a long playbook reads
//! downwards. Every walk here keeps its own stack: playbooks come from strangers, and a chain of ten
//! thousand steps is no reason to overflow.

use std::collections::HashSet;

use noetl_playbook::graph::{StepIndex, Target};
use noetl_playbook::model::RouterMode;

use super::flow::Flow;

/// Branches deeper than this move to the left margin, behind everything else, unless they end at once.
const MAX_DEPTH: usize = 8;

/// The arcs from one step to one target.
#[derive(Debug, Clone)]
pub(super) struct Group {
    pub(super) target: Target,
    /// Positions of the arcs in their step.
    pub(super) arcs: Vec<usize>,
    /// Whether it leads back to a step that is already running its course.
    pub(super) back: bool,
}

/// Where a step stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// At the left margin.
    Margin,
    /// Behind an arc of its only predecessor.
    Branch,
    /// Behind the step that every way to it passes.
    Join,
}

/// A part of the drawing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    /// What the entry leads to.
    Main,
    /// The final step.
    Final,
    /// What nothing leads to.
    Unreached,
}

/// Where every step stands.
#[derive(Debug)]
pub(super) struct Plan {
    /// The steps at the left margin with their parts, in order.
    pub(super) margin: Vec<(Section, StepIndex)>,
    groups: Vec<Vec<Group>>,
    /// The steps that lead to each without turning back, in the order of drawing.
    before: Vec<Vec<StepIndex>>,
    /// The steps that lead back to each.
    back_from: Vec<Vec<StepIndex>>,
    place: Vec<Place>,
    trunk: Vec<Option<StepIndex>>,
    joins: Vec<Vec<StepIndex>>,
}

impl Plan {
    pub(super) fn new(flow: &Flow) -> Self {
        Builder::new(flow).build()
    }

    /// The arcs of a step, those to the same target together.
    pub(super) fn groups(&self, step: StepIndex) -> &[Group] {
        &self.groups[step.index()]
    }

    /// The steps that lead here without turning back.
    pub(super) fn before(&self, step: StepIndex) -> &[StepIndex] {
        &self.before[step.index()]
    }

    /// The steps that lead back here.
    pub(super) fn back_from(&self, step: StepIndex) -> &[StepIndex] {
        &self.back_from[step.index()]
    }

    /// The step that is drawn right behind an arc of `step`.
    pub(super) fn branch(&self, step: StepIndex, group: &Group) -> Option<StepIndex> {
        match group.target {
            // An arc from another tree leads to it, too, but is not why it stands where it does.
            Target::Step(target) if !group.back && self.before(target) == [step] => {
                self.is_branch(target).then_some(target)
            }
            Target::Step(_) | Target::End => None,
        }
    }

    /// Whether a step stands behind the arc that leads to it.
    pub(super) fn is_branch(&self, step: StepIndex) -> bool {
        self.place[step.index()] == Place::Branch
    }

    /// Whether `step` is a join that stands behind `fork`.
    pub(super) fn is_join_of(&self, step: StepIndex, fork: StepIndex) -> bool {
        self.joins[fork.index()].contains(&step)
    }

    /// How many joins there are.
    pub(super) fn join_count(&self) -> usize {
        self.before.iter().filter(|before| before.len() > 1).count()
    }

    /// The steps below `first` at its own depth, itself included.
    pub(super) fn column(&self, first: StepIndex) -> Vec<StepIndex> {
        let mut column = Vec::new();
        let mut open = vec![first];
        while let Some(step) = open.pop() {
            column.push(step);
            open.extend(self.joins[step.index()].iter().rev());
            open.extend(self.trunk[step.index()]);
        }
        column
    }

    /// The steps that the arcs of a step lead on to.
    fn onward(&self, step: StepIndex) -> impl Iterator<Item = StepIndex> {
        self.groups(step)
            .iter()
            .filter(|group| !group.back)
            .filter_map(|group| match group.target {
                Target::Step(target) => Some(target),
                Target::End => None,
            })
    }
}

/// A plan in the making, and what is known about each step on the way.
struct Builder<'f> {
    flow: &'f Flow,
    plan: Plan,
    /// The tree that reached it first, numbered by its root.
    tree: Vec<Option<StepIndex>>,
    /// Its place in the order of drawing.
    rank: Vec<usize>,
    /// The last step that every way to it passes: its immediate dominator.
    fork: Vec<StepIndex>,
    /// How many steps it is such a step for, itself included.
    size: Vec<usize>,
    depth: Vec<usize>,
}

impl<'f> Builder<'f> {
    fn new(flow: &'f Flow) -> Self {
        let count = flow.steps.len();
        let plan = Plan {
            margin: Vec::new(),
            groups: flow.indices().map(|step| groups(flow, step)).collect(),
            before: vec![Vec::new(); count],
            back_from: vec![Vec::new(); count],
            place: vec![Place::Margin; count],
            trunk: vec![None; count],
            joins: vec![Vec::new(); count],
        };
        Self {
            flow,
            plan,
            tree: vec![None; count],
            rank: vec![0; count],
            fork: flow.indices().collect(),
            size: vec![1; count],
            depth: vec![0; count],
        }
    }

    fn build(mut self) -> Plan {
        let flow = self.flow;
        let main = [(Section::Main, flow.entry)];
        let last = flow.final_step.map(|step| (Section::Final, step));
        let rest = flow.indices().map(|step| (Section::Unreached, step));
        for (section, root) in main.into_iter().chain(last).chain(rest) {
            if self.tree[root.index()].is_none() {
                self.mark_back(root);
                self.place_tree(section, root);
            }
        }
        self.plan
    }

    /// Walks the arcs from `root` in order and marks those that meet a step still being walked.
    fn mark_back(&mut self, root: StepIndex) {
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
            let Target::Step(target) = group.target else {
                continue;
            };
            if on_path.contains(&target) {
                group.back = true;
                self.plan.back_from[target.index()].push(step);
            } else if self.tree[target.index()].is_none() {
                self.tree[target.index()] = Some(root);
                on_path.insert(target);
                path.push((target, 0));
            }
        }
    }

    fn place_tree(&mut self, section: Section, root: StepIndex) {
        let order = self.order(root);
        for (rank, &step) in order.iter().enumerate() {
            self.rank[step.index()] = rank;
            for group in &self.plan.groups[step.index()] {
                let Target::Step(target) = group.target else {
                    continue;
                };
                // An arc from a step that is never reached leads nowhere in another tree.
                if !group.back && self.tree[target.index()] == Some(root) {
                    self.plan.before[target.index()].push(step);
                }
            }
        }
        for &step in &order[1..] {
            let before = &self.plan.before[step.index()];
            self.plan.place[step.index()] = if before.len() == 1 {
                Place::Branch
            } else {
                Place::Join
            };
            self.fork[step.index()] = self.fork_of(step);
        }
        for &step in order[1..].iter().rev() {
            self.size[self.fork[step.index()].index()] += self.size[step.index()];
        }
        self.plan.margin.push((section, root));
        for &step in &order {
            if step != root {
                self.settle(section, step);
            }
            self.plan.trunk[step.index()] = self.trunk_of(step);
        }
    }

    /// The steps of a tree so that each stands behind all that lead to it, first arcs first.
    fn order(&self, root: StepIndex) -> Vec<StepIndex> {
        let mut seen = HashSet::from([root]);
        let mut order = Vec::new();
        let mut path: Vec<(StepIndex, Vec<StepIndex>)> =
            vec![(root, self.plan.onward(root).collect())];
        while let Some((step, open)) = path.last_mut() {
            if let Some(next) = open.pop() {
                if self.tree[next.index()] == Some(root) && seen.insert(next) {
                    path.push((next, self.plan.onward(next).collect()));
                }
            } else {
                order.push(*step);
                path.pop();
            }
        }
        order.reverse();
        order
    }

    /// The nearest step that every way to this one passes, found from those that lead to it.
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
        self.plan
            .before(step)
            .iter()
            .copied()
            .reduce(meet)
            .unwrap_or(step)
    }

    /// Settles the depth of a step, and with it whether it stays where it belongs.
    fn settle(&mut self, section: Section, step: StepIndex) {
        let fork = self.fork[step.index()];
        let depth = self.depth[fork.index()];
        match self.plan.place[step.index()] {
            Place::Margin => {}
            Place::Join => {
                self.depth[step.index()] = depth;
                self.plan.joins[fork.index()].push(step);
            }
            Place::Branch if self.plan.trunk[fork.index()] == Some(step) => {
                self.depth[step.index()] = depth;
            }
            Place::Branch if depth < MAX_DEPTH || self.size[step.index()] == 1 => {
                self.depth[step.index()] = depth + 1;
            }
            Place::Branch => {
                self.plan.place[step.index()] = Place::Margin;
                self.plan.margin.push((section, step));
            }
        }
    }

    /// The step that stands below this one on the trunk: the target of its last arc, where the other
    /// arcs only leave. Branches that meet again are equals and all stand to the right.
    fn trunk_of(&self, step: StepIndex) -> Option<StepIndex> {
        let (last, others) = self.plan.groups(step).split_last()?;
        let branch = |group| self.plan.branch(step, group);
        let next = branch(last)?;
        let mut sides = others.iter().filter_map(branch).peekable();
        if sides.peek().is_none() {
            return Some(next);
        }
        let meets_again = |side: StepIndex| {
            self.plan.onward(side).any(|target| {
                self.plan.place[target.index()] == Place::Join && self.fork[target.index()] == step
            })
        };
        let plain = self.flow.step(step).mode == RouterMode::Exclusive
            && self.size[next.index()] > 1
            && sides.all(|side| self.size[side.index()] == 1 && !meets_again(side));
        plain.then_some(next)
    }
}

fn groups(flow: &Flow, step: StepIndex) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (at, arc) in flow.step(step).arcs.iter().enumerate() {
        match groups.iter_mut().find(|group| group.target == arc.target) {
            Some(group) => group.arcs.push(at),
            None => groups.push(Group {
                target: arc.target,
                arcs: vec![at],
                back: false,
            }),
        }
    }
    groups
}

//! Determines the names that a template may read, depending on its location.

use std::collections::BTreeSet;

use crate::model::{Playbook, RuleAction, SetClause, SetTarget, Step, Task, Tool};

use super::template_sites::{SiteKind, TemplateSite};

/// Names available everywhere in an execution.
const GLOBAL_NAMES: [&str; 13] = [
    "execution_id", "workload", "ctx", "steps", "catalog_id", "job", "path", "version", "step",
    "node_name", "server_url", "result", "iter",
];
/// Names available at the start of an execution.
const START_NAMES: [&str; 5] = ["env", "job", "input", "payload", "execution_id"];
/// Names available inside a task, in addition to those of its step.
const TASK_NAMES: [&str; 10] = [
    "keychain", "input", "worker_id", "command_id", "idempotency_key", "_prev", "results", "_task",
    "_attempt", "__frame_max_rows",
];
/// Names available in an iteration.
const LOOP_NAMES: [&str; 4] = ["_index", "_total", "loop_index", "loop"];

/// Names that the playbook itself defines. They are common to all of its templates.
pub(super) struct PlaybookNames<'p> {
    pub(super) workload: BTreeSet<&'p str>,
    pub(super) ctx: BTreeSet<&'p str>,
}

impl<'p> PlaybookNames<'p> {
    pub(super) fn new(playbook: &'p Playbook) -> Self {
        let mut names = Self {
            workload: playbook.workload.iter().map(|field| &*field.name.value).collect(),
            ctx: BTreeSet::new(),
        };
        for step in &playbook.workflow {
            for (set, _) in step_sets(step) {
                names.ctx.extend(set.0.iter().filter_map(|entry| match &entry.target.value {
                    SetTarget::Ctx(path) => path.first().map(|name| &**name),
                    SetTarget::Iter(_) | SetTarget::Step(_) | SetTarget::Bare(_) => None,
                }));
            }
        }
        names
    }
}

/// Returns every `set` of a step, and true if it belongs to a task or rule.
pub(super) fn step_sets(step: &Step) -> impl Iterator<Item = (&SetClause, bool)> {
    let task_sets = step.tool.tasks().iter().flat_map(|task| {
        let rules = task.spec.policy.iter().flat_map(|policy| &policy.rules);
        std::iter::once(&task.set).chain(rules.map(|rule| &rule.then.set))
    });
    let arc_sets = step.next.iter().flat_map(|router| &router.arcs).map(|arc| &arc.set);
    task_sets
        .map(|set| (set, true))
        .chain(std::iter::once(&step.set).chain(arc_sets).map(|set| (set, false)))
}

/// Returns the names that a template may read in addition to steps, workload keys and variables of
/// the execution.
///
/// Returns a list, because most templates look up only one or two names and a set would be more
/// expensive to build.
pub(super) fn local_names<'p>(site: &TemplateSite<'p>) -> Vec<&'p str> {
    let mut names = Vec::new();
    if site.kind == SiteKind::Workload {
        names.extend(START_NAMES);
        return names;
    }
    names.extend(GLOBAL_NAMES);
    match site.kind {
        SiteKind::Workload | SiteKind::Root | SiteKind::LoopItems | SiteKind::StepKey => {}
        SiteKind::Guard => names.extend(["event"]),
        SiteKind::Keychain | SiteKind::Claim | SiteKind::Task => names.extend(TASK_NAMES),
        SiteKind::Rule | SiteKind::TaskSet => {
            names.extend(TASK_NAMES.iter().chain(&["output", "outcome", "error"]));
        }
        SiteKind::StepSet | SiteKind::ArcSet | SiteKind::ArcWhen => {
            names.extend(["event", "output", "outcome", "error", "results"]);
        }
    }
    if let Some(step) = site.step {
        names.extend(step_names(step, site.kind));
        names.extend(readable_labels(step, site));
    }
    if let Some(task) = site.task {
        names.extend(task.input.iter().map(|field| &*field.name.value));
    }
    names
}

/// Returns the labels of the tasks whose data a template can see. Without a jump, the tasks run in
/// order.
fn readable_labels<'p>(step: &'p Step, site: &TemplateSite<'p>) -> Vec<&'p str> {
    if !matches!(site.kind, SiteKind::Task | SiteKind::Rule | SiteKind::TaskSet | SiteKind::Claim) {
        return Vec::new();
    }
    let tasks = step.tool.tasks();
    let mut rules =
        tasks.iter().filter_map(|task| task.spec.policy.as_ref()).flat_map(|policy| &policy.rules);
    let jumps = rules.any(|rule| matches!(rule.then.action, RuleAction::Jump(_)));
    let own = match (site.task, &step.tool) {
        (Some(own), _) => Some(own),
        (None, Tool::Single(task)) => Some(&**task),
        // The input of the step is rendered for each of its tasks.
        (None, Tool::Pipeline(_)) => None,
    };
    let is_own = |task: &Task| own.is_some_and(|own| std::ptr::eq(task, own));
    let before = tasks.iter().take_while(|task| jumps || !is_own(task));
    let own = own.filter(|_| site.kind.sees_own_data());
    before.chain(own).map(|task| &*task.label.value).collect()
}

/// Returns the names that a step defines for itself.
fn step_names(step: &Step, kind: SiteKind) -> Vec<&str> {
    let mut names = Vec::new();
    let in_task =
        matches!(kind, SiteKind::Task | SiteKind::Rule | SiteKind::TaskSet | SiteKind::Claim);
    if in_task {
        names.extend(step.input.iter().map(|field| &*field.name.value));
        if let Some(looping) = &step.looping {
            names.push(&*looping.iterator.value);
            names.extend(LOOP_NAMES);
        }
    }
    for (set, _) in step_sets(step) {
        for entry in &set.0 {
            match &entry.target.value {
                SetTarget::Bare(name) if in_task => names.push(&**name),
                SetTarget::Step(path) => names.extend(path.first().map(|name| &**name)),
                SetTarget::Bare(_) | SetTarget::Ctx(_) | SetTarget::Iter(_) => {}
            }
        }
    }
    names
}

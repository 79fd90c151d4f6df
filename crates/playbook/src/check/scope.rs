//! Which names a template may read, by the place where it stands.

use std::collections::BTreeSet;

use crate::model::{Playbook, Set, SetTarget, Step};

use super::sites::{Place, Site};

/// Names that are there everywhere in a run.
const EVERYWHERE: [&str; 13] = [
    "execution_id",
    "workload",
    "ctx",
    "steps",
    "catalog_id",
    "job",
    "path",
    "version",
    "step",
    "node_name",
    "server_url",
    "result",
    "iter",
];
/// Names of the start.
const AT_START: [&str; 5] = ["env", "job", "input", "payload", "execution_id"];
/// Names inside of a task, on top of those of its step.
const IN_TASK: [&str; 10] = [
    "keychain",
    "input",
    "worker_id",
    "command_id",
    "idempotency_key",
    "_prev",
    "results",
    "_task",
    "_attempt",
    "__frame_max_rows",
];
/// Names of an iteration.
const IN_LOOP: [&str; 4] = ["_index", "_total", "loop_index", "loop"];

/// Names that a playbook makes itself, the same for all of its templates.
pub(super) struct OwnNames<'p> {
    pub(super) workload: BTreeSet<&'p str>,
    pub(super) ctx: BTreeSet<&'p str>,
    /// Aliases that `output.as` gives.
    pub(super) aliases: BTreeSet<&'p str>,
}

impl<'p> OwnNames<'p> {
    pub(super) fn of(playbook: &'p Playbook) -> Self {
        let mut own = Self {
            workload: playbook
                .workload
                .iter()
                .map(|field| &*field.name.value)
                .collect(),
            ctx: BTreeSet::new(),
            aliases: BTreeSet::new(),
        };
        for step in &playbook.workflow {
            for (set, _) in sets(step) {
                own.ctx
                    .extend(set.0.iter().filter_map(|entry| match &entry.target.value {
                        SetTarget::Ctx(path) => path.first().map(|name| &**name),
                        SetTarget::Iter(_) | SetTarget::Step(_) | SetTarget::Bare(_) => None,
                    }));
            }
            let outputs = step.output.iter().chain(
                step.tool
                    .tasks()
                    .iter()
                    .filter_map(|task| task.output.as_ref()),
            );
            own.aliases.extend(
                outputs
                    .filter_map(|output| output.alias.as_ref())
                    .map(|alias| &*alias.value),
            );
        }
        own
    }
}

/// Every `set` of a step, and whether a task or rule makes it.
pub(super) fn sets(step: &Step) -> impl Iterator<Item = (&Set, bool)> {
    let of_tasks = step.tool.tasks().iter().flat_map(|task| {
        let rules = task.spec.policy.iter().flat_map(|policy| &policy.rules);
        std::iter::once(&task.set).chain(rules.map(|rule| &rule.then.set))
    });
    let of_arcs = step
        .next
        .iter()
        .flat_map(|router| &router.arcs)
        .map(|arc| &arc.set);
    of_tasks.map(|set| (set, true)).chain(
        std::iter::once(&step.set)
            .chain(of_arcs)
            .map(|set| (set, false)),
    )
}

/// The names that a template may read besides steps, workload keys and variables of the execution.
///
/// A list, because most templates ask for one or two names and a set would cost more to build.
pub(super) fn local_names<'p>(site: &Site<'p>) -> Vec<&'p str> {
    let mut names = Vec::new();
    if site.place == Place::Workload {
        names.extend(AT_START);
        return names;
    }
    names.extend(EVERYWHERE);
    match site.place {
        Place::Workload | Place::Root | Place::LoopItems | Place::StepKey => {}
        Place::Guard => names.extend(["event"]),
        Place::Keychain | Place::Claim | Place::Task => names.extend(IN_TASK),
        Place::Rule | Place::TaskSet => {
            names.extend(IN_TASK.iter().chain(&["output", "outcome", "error"]));
        }
        Place::StepSet | Place::ArcSet | Place::ArcWhen => {
            names.extend(["event", "output", "outcome", "error", "results"]);
        }
    }
    if let Some(step) = site.step {
        names.extend(step_names(step, site.place));
    }
    if let Some(task) = site.task {
        names.extend(task.input.iter().map(|field| &*field.name.value));
    }
    names
}

/// Names that a step makes for its own run.
fn step_names(step: &Step, place: Place) -> Vec<&str> {
    let mut names = Vec::new();
    let in_task = matches!(
        place,
        Place::Task | Place::Rule | Place::TaskSet | Place::Claim
    );
    if in_task {
        names.extend(step.input.iter().map(|field| &*field.name.value));
        names.extend(step.tool.tasks().iter().map(|task| &*task.label.value));
        if let Some(looping) = &step.looping {
            names.push(&*looping.iterator.value);
            names.extend(IN_LOOP);
        }
    }
    for (set, _) in sets(step) {
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

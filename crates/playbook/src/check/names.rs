//! Names that templates read: whether something provides them, and whether it can have by then.

use std::sync::Arc;

use crate::diag::{Code, Sink, near};
use crate::graph::StepIndex;
use crate::model::Step;
use crate::source::Span;
use crate::template::Read;

use super::Subject;
use super::scope::{OwnNames, local_names};
use super::sites::{Place, Site, sites};

/// The names of events that lead to a place; `event.name` is never anything else.
const EVENT_NAMES: [&str; 6] = [
    "call.done",
    "call.error",
    "loop.done",
    "step.skipped",
    "playbook.started",
    "run.ending",
];

pub(super) fn check(sink: &mut Sink<'_>, subject: &Subject<'_>) {
    let own = OwnNames::of(subject.playbook);
    let reach = Reach::of(subject);
    for site in sites(subject.playbook) {
        let local = local_names(&site);
        for read in &site.template.facts().reads {
            name(
                sink,
                subject,
                &Known {
                    own: &own,
                    local: &local,
                    reach: &reach,
                },
                &site,
                read,
            );
        }
        comparisons(sink, &site);
    }
}

/// What there is to know about names where a template stands.
struct Known<'k, 'p> {
    own: &'k OwnNames<'p>,
    local: &'k [&'p str],
    reach: &'k Reach,
}

fn name(
    sink: &mut Sink<'_>,
    subject: &Subject<'_>,
    known: &Known<'_, '_>,
    site: &Site<'_>,
    read: &Read,
) {
    let root = read.root();
    let in_run = site.place != Place::Workload;
    let is_step = in_run && subject.declares(root);
    let is_free = !matches!(root, "keychain" | "steps");
    if is_free && (known.local.contains(&root) || (in_run && known.own.provides(root))) {
        return;
    }
    // Where a read stands in the document is worked out only for the few that are looked at.
    let at = sink
        .source
        .inside(site.span, site.template.source(), read.range.clone());
    match root {
        "keychain" => keychain(sink, subject, site, read, at),
        "steps" if in_run => {
            if let Some(name) = read.path.get(1) {
                named_step(sink, subject, name, at);
            }
        }
        _ if is_step => known
            .reach
            .check(sink, subject, site, &RootRead { root, at }),
        _ if read.maybe_local => {}
        _ => unknown(sink, subject, known, &RootRead { root, at }),
    }
}

impl OwnNames<'_> {
    fn provides(&self, name: &str) -> bool {
        self.workload.contains(name) || self.ctx.contains(name) || self.aliases.contains(name)
    }
}

/// A name that is read, and where.
struct RootRead<'n> {
    root: &'n str,
    at: Span,
}

fn unknown(sink: &mut Sink<'_>, subject: &Subject<'_>, known: &Known<'_, '_>, name: &RootRead<'_>) {
    let known = subject
        .declared
        .iter()
        .map(String::as_str)
        .chain(known.own.workload.iter().copied())
        .chain(known.own.ctx.iter().copied())
        .chain(known.local.iter().copied());
    let near = near(name.root, known);
    let message = format!("unknown name '{}'", name.root);
    if near.is_some() {
        sink.misspelt(Code::NP503, name.at, message, near);
    } else {
        let hint =
            "declare it under 'workload', write it with 'set', or read it as workload.<name>";
        sink.hinted(Code::NP503, name.at, message, hint);
    }
}

fn named_step(sink: &mut Sink<'_>, subject: &Subject<'_>, name: &Arc<str>, at: Span) {
    if !subject.declares(name) {
        let message = format!("unknown name 'steps.{name}'");
        sink.misspelt(Code::NP503, at, message, subject.near_step(name));
    }
}

fn keychain(sink: &mut Sink<'_>, subject: &Subject<'_>, site: &Site<'_>, read: &Read, at: Span) {
    if site.on_server {
        let message = format!(
            "keychain cannot be read on the server ({})",
            place_name(site.place)
        );
        sink.hinted(
            Code::NP602,
            at,
            message,
            "read it inside a task, which runs on a worker",
        );
    }
    let Some(name) = read.path.get(1) else { return };
    let declared = &subject.playbook.keychain;
    if declared.iter().all(|entry| entry.name.value != *name) {
        let text = site.template.source();
        // The entry's own name stands after the word `keychain`.
        let from = read.range.start + "keychain".len();
        let within = text
            .get(from..read.range.end)
            .and_then(|rest| rest.find(&**name));
        let at = within.map_or(at, |offset| {
            sink.source
                .inside(site.span, text, from + offset..from + offset + name.len())
        });
        let near = near(name, declared.iter().map(|entry| &*entry.name.value));
        sink.misspelt(
            Code::NP603,
            at,
            format!("keychain entry '{name}' is not declared"),
            near,
        );
    }
}

fn place_name(place: Place) -> &'static str {
    match place {
        Place::Workload => "workload",
        Place::Keychain => "keychain",
        Place::Root => "concurrency or priority",
        Place::Guard => "guard",
        Place::LoopItems | Place::Claim => "loop",
        Place::StepKey => "cache, concurrency or priority",
        Place::Task => "a task that the server runs",
        Place::Rule => "rule of a task that the server runs",
        Place::TaskSet => "set of a task that the server runs",
        Place::StepSet => "step set",
        Place::ArcWhen => "arc when",
        Place::ArcSet => "arc set",
    }
}

fn comparisons(sink: &mut Sink<'_>, site: &Site<'_>) {
    let source = site.template.source();
    let facts = site.template.facts();
    for mismatch in &facts.mismatches {
        let at = sink
            .source
            .inside(site.span, source, mismatch.range.clone());
        sink.add(
            Code::NP508,
            at,
            format!("compares {} with {}", mismatch.left, mismatch.right),
        );
    }
    for event in &facts.event_names {
        if !EVENT_NAMES.contains(&&*event.name) {
            let at = sink.source.inside(site.span, source, event.range.clone());
            let near = near_event(&event.name);
            sink.misspelt(
                Code::NP509,
                at,
                format!("event.name is never '{}'", event.name),
                near,
            );
        }
    }
}

/// Words of other dialects have a meaning here, near in sense rather than in spelling.
fn near_event(name: &str) -> Option<&'static str> {
    match name {
        "step.done" | "step.exit" | "step.completed" | "call.completed" | "command.completed" => {
            Some("call.done")
        }
        "step.failed" | "step.error" | "call.failed" | "command.failed" => Some("call.error"),
        "loop.completed" => Some("loop.done"),
        other => near(other, EVENT_NAMES),
    }
}

/// Which steps can have run before which.
struct Reach {
    /// For each step, what can be reached from it by at least one arc.
    after: Vec<Vec<bool>>,
}

/// A step count above which the question "what can have run before" is not asked: it is quadratic.
const MAX_REACH_STEPS: usize = 2_000;

impl Reach {
    fn of(subject: &Subject<'_>) -> Self {
        let graph = &subject.graph;
        if !subject.is_whole() || graph.len() > MAX_REACH_STEPS {
            return Self { after: Vec::new() };
        }
        Self {
            after: graph
                .steps()
                .map(|step| graph.reachable(graph.successors(step)))
                .collect(),
        }
    }

    fn check(
        &self,
        sink: &mut Sink<'_>,
        subject: &Subject<'_>,
        site: &Site<'_>,
        read: &RootRead<'_>,
    ) {
        let graph = &subject.graph;
        let here = site.step.and_then(|step| graph.find(&step.name));
        let (Some(here), Some(read_step)) = (here, graph.find(read.root)) else {
            return;
        };
        let Some(after) = self.after.get(read_step.index()) else {
            return;
        };
        // The last step of all comes after everything.
        if graph.final_step() == Some(here)
            || after[here.index()]
            || Self::own_result(site, here, read_step)
        {
            return;
        }
        let message = format!(
            "'{}' cannot have run before '{}'",
            read.root,
            name_of(site.step)
        );
        sink.add(Code::NP504, read.at, message);
    }

    /// A step's own result is there for what comes after its task.
    fn own_result(site: &Site<'_>, here: StepIndex, read: StepIndex) -> bool {
        here == read && matches!(site.place, Place::StepSet | Place::ArcWhen | Place::ArcSet)
    }
}

fn name_of(step: Option<&Step>) -> &str {
    step.map_or("", |step| &step.name.value)
}

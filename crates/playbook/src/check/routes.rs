//! Routes: targets that exist, arcs that can be taken, cycles that end, steps that are reached.

use std::sync::Arc;

use noetl_types::Json;

use crate::diag::{Code, Sink};
use crate::graph::{StepIndex, Target};
use crate::model::{Condition, RouteArc, Router, RouterMode, Step};
use crate::template::{Binding, MapScope, Output, OutputPlace, Template};

use super::Subject;

/// Names that a step's name would stand before.
const ENGINE_NAMES: [&str; 11] = [
    "execution_id",
    "workload",
    "ctx",
    "steps",
    "keychain",
    "output",
    "error",
    "event",
    "iter",
    "input",
    "results",
];

pub(super) fn check(sink: &mut Sink<'_>, subject: &Subject<'_>) {
    named_steps(sink, subject);
    for step in &subject.playbook.workflow {
        hidden_names(sink, subject, step);
        if let Some(router) = &step.next {
            targets(sink, subject, step, router);
            never_taken(sink, router);
            catching(sink, step, router);
        }
    }
    if subject.is_whole() {
        unreachable(sink, subject);
        endless(sink, subject);
    }
}

fn named_steps(sink: &mut Sink<'_>, subject: &Subject<'_>) {
    let spec = &subject.playbook.executor.spec;
    for (what, name) in [
        ("entry_step", &spec.entry_step),
        ("final_step", &spec.final_step),
    ] {
        if let Some(name) = name
            && !subject.declares(name)
        {
            let message = format!("{what} '{}' is not a step", name.value);
            sink.misspelt(Code::NP105, name.span, message, subject.near_step(name));
        }
    }
}

fn hidden_names(sink: &mut Sink<'_>, subject: &Subject<'_>, step: &Step) {
    let name = &*step.name.value;
    let hidden = if ENGINE_NAMES.contains(&name) {
        "name"
    } else if subject.playbook.workload.get(name).is_some() {
        "workload key"
    } else {
        return;
    };
    sink.add(
        Code::NP107,
        step.name.span,
        format!("step '{name}' hides the {hidden} '{name}'"),
    );
}

fn targets(sink: &mut Sink<'_>, subject: &Subject<'_>, step: &Step, router: &Router) {
    let final_step = subject.playbook.executor.spec.final_step.as_ref();
    for arc in &router.arcs {
        let target = &*arc.step.value;
        if !subject.declares(target) && target != "end" {
            let message = format!(
                "arc of '{}' goes to '{target}', which is not a step",
                step.name.value
            );
            sink.misspelt(
                Code::NP201,
                arc.step.span,
                message,
                subject.near_step(target),
            );
        }
        if final_step.is_some_and(|name| &*name.value == target) {
            sink.add(
                Code::NP108,
                arc.step.span,
                format!("final_step '{target}' is the target of an arc"),
            );
        }
    }
}

/// Whether an arc is taken whenever its step succeeds.
fn always(arc: &RouteArc) -> bool {
    match arc.when.as_ref().map(|when| &when.value) {
        None => true,
        Some(Condition::Fixed(value)) => *value,
        Some(Condition::Test(_)) => false,
    }
}

/// Whether an arc may be taken when its step has failed.
fn catches(arc: &RouteArc) -> bool {
    test_of(arc).is_some_and(|test| {
        test.mentions("event") || test.mentions("error") || holds_after_failure(test)
    })
}

/// Whether a condition over `output` holds after a failure. That can be tried: with the output of a
/// failed task and nothing else known.
fn holds_after_failure(test: &Template) -> bool {
    if !test.mentions("output") && !test.mentions("outcome") {
        return false;
    }
    let failed = Json::object([("status", Json::from("error"))]);
    let output = Binding::Output(Arc::new(Output::new(OutputPlace::Set, failed, Json::Null)));
    let scope = MapScope::new()
        .with("output", output.clone())
        .with("outcome", output);
    test.test(&scope).unwrap_or(false)
}

fn test_of(arc: &RouteArc) -> Option<&Template> {
    arc.when.as_ref()?.value.template()
}

fn never_taken(sink: &mut Sink<'_>, router: &Router) {
    if router.mode() != RouterMode::Exclusive {
        return;
    }
    let mut closed = false;
    for arc in &router.arcs {
        // An arc without a condition never fires on a failure, so one that catches is still reached.
        if closed && !catches(arc) {
            let message = format!(
                "arc to '{}' is never taken: an unconditional arc precedes it",
                arc.step.value
            );
            sink.add(Code::NP202, arc.step.span, message);
        }
        closed |= always(arc);
    }
}

/// A condition over `output` alone is also looked at after a failure, which is seldom meant.
fn catching(sink: &mut Sink<'_>, step: &Step, router: &Router) {
    for arc in &router.arcs {
        let Some(test) = test_of(arc) else { continue };
        if test.mentions("event") || test.mentions("error") || !holds_after_failure(test) {
            continue;
        }
        let read = test
            .facts()
            .reads
            .iter()
            .find(|read| matches!(read.root(), "output" | "outcome"));
        let Some(read) = read else { continue };
        let span = arc.when.as_ref().map(|when| when.span).unwrap_or_default();
        let at = sink.source.inside(span, test.source(), read.range.clone());
        let message = format!(
            "condition may also catch a failure of '{}'; test event.name or error",
            step.name.value
        );
        sink.hinted(
            Code::NP203,
            at,
            message,
            "add: and event.name == 'call.done'",
        );
    }
}

fn unreachable(sink: &mut Sink<'_>, subject: &Subject<'_>) {
    let graph = &subject.graph;
    let Some(entry) = graph.entry() else { return };
    let reached = graph.reachable([entry].into_iter().chain(graph.final_step()));
    for (step, reached) in subject.playbook.workflow.iter().zip(reached) {
        if !reached {
            let message = format!("step '{}' can never be reached", step.name.value);
            sink.hinted(
                Code::NP106,
                step.name.span,
                message,
                "add an arc to it, or remove it",
            );
        }
    }
}

fn endless(sink: &mut Sink<'_>, subject: &Subject<'_>) {
    for cycle in subject.graph.cycles() {
        if cycle.iter().any(|step| has_way_out(subject, *step, &cycle)) {
            continue;
        }
        let names = walk(subject, &cycle);
        let first = &subject.playbook.workflow[cycle[0].index()].name;
        let message = format!("cycle {} has no way out", names.join(", "));
        sink.hinted(
            Code::NP204,
            first.span,
            message,
            "give an arc of it a condition",
        );
    }
}

/// Whether a run can leave the cycle at this step: by an arc that leads out, or because no arc is
/// taken for sure.
fn has_way_out(subject: &Subject<'_>, step: StepIndex, cycle: &[StepIndex]) -> bool {
    let Some(router) = &subject.playbook.workflow[step.index()].next else {
        return true;
    };
    for (arc, edge) in router.arcs.iter().zip(subject.graph.edges(step)) {
        let inside = matches!(edge.target, Some(Target::Step(target)) if cycle.contains(&target));
        if !inside {
            return true;
        }
        if always(arc) && router.mode() == RouterMode::Exclusive {
            return false;
        }
    }
    !router.arcs.iter().any(always)
}

/// The names around the cycle, the first one again at the end.
fn walk(subject: &Subject<'_>, cycle: &[StepIndex]) -> Vec<String> {
    let graph = &subject.graph;
    let mut names = vec![graph.name(cycle[0]).to_string()];
    let mut seen = vec![cycle[0]];
    let mut at = cycle[0];
    while let Some(next) = graph
        .successors(at)
        .find(|next| cycle.contains(next) && !seen.contains(next))
    {
        names.push(graph.name(next).to_string());
        seen.push(next);
        at = next;
    }
    names.push(names[0].clone());
    names
}

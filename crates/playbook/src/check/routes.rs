//! Checks routes: existing targets, arcs that can be taken, cycles that end, reachable steps.

use std::sync::Arc;

use noetl_types::Json;

use crate::diag::{Code, DiagnosticSink};
use crate::graph::{EdgeTarget, StepIndex};
use crate::model::{Condition, RouteArc, Router, RouterMode, Step};
use crate::template::{Binding, MapEnvironment, OutputPlace, TaskOutput, Template};

use super::CheckContext;

/// Built-in names that a step of the same name would hide.
const BUILTIN_NAMES: [&str; 11] = [
    "execution_id", "workload", "ctx", "steps", "keychain", "output", "error", "event", "iter",
    "input", "results",
];

pub(super) fn check_routes(sink: &mut DiagnosticSink<'_>, context: &CheckContext<'_>) {
    check_special_steps(sink, context);
    for step in &context.playbook.workflow {
        check_hidden_names(sink, context, step);
        if let Some(router) = &step.next {
            check_arc_targets(sink, context, step, router);
            check_unreachable_arcs(sink, router);
            check_failure_conditions(sink, step, router);
        }
    }
    if context.is_complete() {
        check_unreachable_steps(sink, context);
        check_endless_cycles(sink, context);
    }
}

fn check_special_steps(sink: &mut DiagnosticSink<'_>, context: &CheckContext<'_>) {
    let spec = &context.playbook.executor.spec;
    for (key, name) in [("entry_step", &spec.entry_step), ("final_step", &spec.final_step)] {
        if let Some(name) = name
            && !context.declares_step(name)
        {
            let message = format!("{key} '{}' is not a step", name.value);
            sink.add_with_suggestion(Code::NP105, name.span, message, context.nearest_step(name));
        }
    }
}

fn check_hidden_names(sink: &mut DiagnosticSink<'_>, context: &CheckContext<'_>, step: &Step) {
    let name = &*step.name.value;
    let hidden = if BUILTIN_NAMES.contains(&name) {
        "name"
    } else if context.playbook.workload.get(name).is_some() {
        "workload key"
    } else {
        return;
    };
    sink.add_finding(
        Code::NP107,
        step.name.span,
        format!("step '{name}' hides the {hidden} '{name}'"),
    );
}

fn check_arc_targets(
    sink: &mut DiagnosticSink<'_>,
    context: &CheckContext<'_>,
    step: &Step,
    router: &Router,
) {
    let final_step = context.playbook.executor.spec.final_step.as_ref();
    for arc in &router.arcs {
        let target = &*arc.step.value;
        if !context.declares_step(target) && target != "end" {
            let message =
                format!("arc of '{}' goes to '{target}', which is not a step", step.name.value);
            sink.add_with_suggestion(
                Code::NP201,
                arc.step.span,
                message,
                context.nearest_step(target),
            );
        }
        if final_step.is_some_and(|name| &*name.value == target) {
            sink.add_finding(
                Code::NP108,
                arc.step.span,
                format!("final_step '{target}' is the target of an arc"),
            );
        }
    }
}

/// True if an arc is taken whenever its step succeeds.
fn is_unconditional(arc: &RouteArc) -> bool {
    match arc.when.as_ref().map(|when| &when.value) {
        None => true,
        Some(Condition::Fixed(value)) => *value,
        Some(Condition::Test(_)) => false,
    }
}

/// True if an arc may be taken after its step failed.
fn may_catch_failure(arc: &RouteArc) -> bool {
    condition_template(arc).is_some_and(|test| {
        test.reads_name("event") || test.reads_name("error") || holds_after_failure(test)
    })
}

/// True if a condition on `output` holds after a failure. Evaluates the condition with the output
/// of a failed task and no other values.
fn holds_after_failure(test: &Template) -> bool {
    if !test.reads_name("output") && !test.reads_name("outcome") {
        return false;
    }
    let failed = Json::object([("status", Json::from("error"))]);
    let output = Binding::Output(Arc::new(TaskOutput::new(OutputPlace::Set, failed, Json::Null)));
    let environment =
        MapEnvironment::new().with_name("output", output.clone()).with_name("outcome", output);
    test.render_condition(&environment).unwrap_or(false)
}

fn condition_template(arc: &RouteArc) -> Option<&Template> {
    arc.when.as_ref()?.value.as_template()
}

fn check_unreachable_arcs(sink: &mut DiagnosticSink<'_>, router: &Router) {
    if router.mode() != RouterMode::Exclusive {
        return;
    }
    let mut follows_unconditional = false;
    for arc in &router.arcs {
        // An arc without a condition is not taken after a failure, so an arc that handles failures
        // is still reachable.
        if follows_unconditional && !may_catch_failure(arc) {
            let message = format!(
                "arc to '{}' is never taken: an unconditional arc precedes it",
                arc.step.value
            );
            sink.add_finding(Code::NP202, arc.step.span, message);
        }
        follows_unconditional |= is_unconditional(arc);
    }
}

/// Reports conditions on `output` alone: they are also evaluated after a failure, which is rarely
/// intended.
fn check_failure_conditions(sink: &mut DiagnosticSink<'_>, step: &Step, router: &Router) {
    for arc in &router.arcs {
        let Some(test) = condition_template(arc) else {
            continue;
        };
        if test.reads_name("event") || test.reads_name("error") || !holds_after_failure(test) {
            continue;
        }
        let read =
            test.facts().reads.iter().find(|read| matches!(read.root(), "output" | "outcome"));
        let Some(read) = read else { continue };
        let condition_span = arc.when.as_ref().map(|when| when.span).unwrap_or_default();
        let span = sink.source.span_in_scalar(condition_span, test.source(), read.range.clone());
        let message = format!(
            "condition may also catch a failure of '{}'; test event.name or error",
            step.name.value
        );
        sink.add_with_hint(Code::NP203, span, message, "add: and event.name == 'call.done'");
    }
}

fn check_unreachable_steps(sink: &mut DiagnosticSink<'_>, context: &CheckContext<'_>) {
    let graph = &context.graph;
    let Some(entry) = graph.entry() else { return };
    let reached = graph.reachable_from([entry].into_iter().chain(graph.final_step()));
    for (step, reached) in context.playbook.workflow.iter().zip(reached) {
        if !reached {
            let message = format!("step '{}' can never be reached", step.name.value);
            sink.add_with_hint(
                Code::NP106,
                step.name.span,
                message,
                "add an arc to it, or remove it",
            );
        }
    }
}

fn check_endless_cycles(sink: &mut DiagnosticSink<'_>, context: &CheckContext<'_>) {
    for cycle in context.graph.cycles() {
        if cycle.iter().any(|step| can_leave_cycle(context, *step, &cycle)) {
            continue;
        }
        let names = cycle_path(context, &cycle);
        let first = &context.playbook.workflow[cycle[0].index()].name;
        let message = format!("cycle {} has no exit", names.join(", "));
        sink.add_with_hint(Code::NP204, first.span, message, "add a condition to one of its arcs");
    }
}

/// True if an execution can leave the cycle at this step: by an arc that leads out of it, or
/// because no arc is certain to be taken.
fn can_leave_cycle(context: &CheckContext<'_>, step: StepIndex, cycle: &[StepIndex]) -> bool {
    let Some(router) = &context.playbook.workflow[step.index()].next else {
        return true;
    };
    for (arc, edge) in router.arcs.iter().zip(context.graph.edges(step)) {
        let inside =
            matches!(edge.target, Some(EdgeTarget::Step(target)) if cycle.contains(&target));
        if !inside {
            return true;
        }
        if is_unconditional(arc) && router.mode() == RouterMode::Exclusive {
            return false;
        }
    }
    !router.arcs.iter().any(is_unconditional)
}

/// Returns the step names around the cycle, with the first one repeated at the end.
fn cycle_path(context: &CheckContext<'_>, cycle: &[StepIndex]) -> Vec<String> {
    let graph = &context.graph;
    let mut names = vec![graph.name(cycle[0]).to_string()];
    let mut seen = vec![cycle[0]];
    let mut current = cycle[0];
    while let Some(next) =
        graph.successors(current).find(|next| cycle.contains(next) && !seen.contains(next))
    {
        names.push(graph.name(next).to_string());
        seen.push(next);
        current = next;
    }
    names.push(names[0].clone());
    names
}

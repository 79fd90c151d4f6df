//! Checks names that templates read: that they are defined, and that a step can have run before it
//! is read.

use std::sync::Arc;

use crate::diag::{Code, DiagnosticSink, nearest_name};
use crate::graph::StepIndex;
use crate::model::Step;
use crate::source::Span;
use crate::template::NameRead;

use super::CheckContext;
use super::template_sites::{SiteKind, TemplateSite, collect_template_sites};
use super::visible_names::{PlaybookNames, local_names};

/// All possible values of `event.name`.
const EVENT_NAMES: [&str; 6] =
    ["call.done", "call.error", "loop.done", "step.skipped", "playbook.started", "run.ending"];

pub(super) fn check_names(sink: &mut DiagnosticSink<'_>, context: &CheckContext<'_>) {
    let playbook = PlaybookNames::new(context.playbook);
    let reachability = StepReachability::new(context);
    let final_step = context.playbook.executor.spec.final_step.as_ref();
    let final_step = final_step.map(|name| &*name.value);
    for site in collect_template_sites(context.playbook) {
        let mut local = local_names(&site);
        if final_step.is_some() && site.step.map(|step| &*step.name.value) == final_step {
            local.push("event");
        }
        for read in &site.template.facts().reads {
            check_name(
                sink,
                context,
                &VisibleNames { playbook: &playbook, local: &local, reachability: &reachability },
                &site,
                read,
            );
        }
        check_comparisons(sink, &site);
    }
}

/// Names that are visible at the location of a template.
struct VisibleNames<'k, 'p> {
    playbook: &'k PlaybookNames<'p>,
    local: &'k [&'p str],
    reachability: &'k StepReachability,
}

fn check_name(
    sink: &mut DiagnosticSink<'_>,
    context: &CheckContext<'_>,
    visible: &VisibleNames<'_, '_>,
    site: &TemplateSite<'_>,
    read: &NameRead,
) {
    let root = read.root();
    let in_run = site.kind != SiteKind::Workload;
    let is_step = in_run && context.declares_step(root);
    let is_plain_name = !matches!(root, "keychain" | "steps");
    if is_plain_name
        && (visible.local.contains(&root) || (in_run && visible.playbook.defines_name(root)))
    {
        return;
    }
    // The position is computed only for the few reads that need further checks.
    let span = sink.source.span_in_scalar(site.span, site.template.source(), read.range.clone());
    match root {
        "keychain" => check_keychain_read(sink, context, site, read, span),
        "steps" if in_run => {
            if let Some(name) = read.path.get(1) {
                check_step_name(sink, context, name, span);
                check_own_facts(sink, site, read, span);
            }
        }
        _ if is_step => {
            visible.reachability.check_step_read(sink, context, site, &RootRead { root, span });
        }
        _ if is_label(site, root) => report_early_read(sink, span, root, task_label(site), None),
        _ if read.maybe_local => {}
        // The template says what happens if there is no such name.
        _ if site.template.facts().optional_names.iter().any(|name| **name == *root) => {}
        _ => report_unknown_name(sink, context, visible, &RootRead { root, span }),
    }
}

impl PlaybookNames<'_> {
    fn defines_name(&self, name: &str) -> bool {
        self.workload.contains(name) || self.ctx.contains(name)
    }
}

/// A name that is read, and its position.
struct RootRead<'n> {
    root: &'n str,
    span: Span,
}

fn report_unknown_name(
    sink: &mut DiagnosticSink<'_>,
    context: &CheckContext<'_>,
    visible: &VisibleNames<'_, '_>,
    name: &RootRead<'_>,
) {
    let candidates = context
        .declared
        .iter()
        .map(String::as_str)
        .chain(visible.playbook.workload.iter().copied())
        .chain(visible.playbook.ctx.iter().copied())
        .chain(visible.local.iter().copied());
    let nearest = nearest_name(name.root, candidates);
    let message = format!("unknown name '{}'", name.root);
    if nearest.is_some() {
        sink.add_with_suggestion(Code::NP503, name.span, message, nearest);
    } else {
        let hint = match name.root {
            "output" | "outcome" | "error" | "event" => {
                "it exists in arcs, rules and 'set'; elsewhere, read steps.<name>.data or \
                 steps.<name>.error"
            }
            _ => "declare it under 'workload', write it with 'set', or read it as workload.<name>",
        };
        sink.add_with_hint(Code::NP503, name.span, message, hint);
    }
}

fn check_step_name(
    sink: &mut DiagnosticSink<'_>,
    context: &CheckContext<'_>,
    name: &Arc<str>,
    span: Span,
) {
    if !context.declares_step(name) {
        let message = format!("unknown name 'steps.{name}'");
        sink.add_with_suggestion(Code::NP503, span, message, context.nearest_step(name));
    }
}

/// Reports a read of the data of a step through `steps` while the step runs.
fn check_own_facts(
    sink: &mut DiagnosticSink<'_>,
    site: &TemplateSite<'_>,
    read: &NameRead,
    span: Span,
) {
    let Some(step) =
        site.step.filter(|step| site.kind.is_during_step() && step.name.value == read.path[1])
    else {
        return;
    };
    if read.path.get(2).is_some_and(|fact| &**fact == "data") {
        // Other names would be read as an expression.
        let is_expression = step.name.value.contains(['-', '/']);
        let own_name =
            if is_expression { String::new() } else { format!(" or '{}'", step.name.value) };
        let hint = site.kind.sees_own_data().then(|| format!("read 'output'{own_name}"));
        let subject = format!("steps.{}.data", step.name.value);
        report_early_read(sink, span, &subject, &step.name.value, hint);
    }
}

/// Reports a read of data that does not exist yet.
fn report_early_read(
    sink: &mut DiagnosticSink<'_>,
    span: Span,
    subject: &str,
    reader: &str,
    hint: Option<String>,
) {
    let message = format!("'{subject}' cannot have run before '{reader}'");
    match hint {
        Some(hint) => sink.add_with_hint(Code::NP504, span, message, hint),
        None => sink.add_finding(Code::NP504, span, message),
    }
}

/// True if the name is the label of a task in the pipeline of the template.
fn is_label(site: &TemplateSite<'_>, name: &str) -> bool {
    let tasks = site.step.filter(|_| site.task.is_some()).map(|step| step.tool.tasks());
    tasks.into_iter().flatten().any(|task| &*task.label.value == name)
}

fn task_label<'p>(site: &TemplateSite<'p>) -> &'p str {
    site.task.map_or("", |task| &task.label.value)
}

fn check_keychain_read(
    sink: &mut DiagnosticSink<'_>,
    context: &CheckContext<'_>,
    site: &TemplateSite<'_>,
    read: &NameRead,
    span: Span,
) {
    if site.on_server {
        let message =
            format!("keychain cannot be read on the server ({})", describe_site(site.kind));
        sink.add_with_hint(
            Code::NP602,
            span,
            message,
            "read it inside a task, which runs on a worker",
        );
    }
    let Some(name) = read.path.get(1) else { return };
    let declared = &context.playbook.keychain;
    if declared.iter().all(|entry| entry.name.value != *name) {
        let text = site.template.source();
        // The name of the entry follows the word `keychain`.
        let from = read.range.start + "keychain".len();
        let name_offset = text.get(from..read.range.end).and_then(|rest| rest.find(&**name));
        let span = name_offset.map_or(span, |offset| {
            sink.source.span_in_scalar(site.span, text, from + offset..from + offset + name.len())
        });
        let nearest = nearest_name(name, declared.iter().map(|entry| &*entry.name.value));
        sink.add_with_suggestion(
            Code::NP603,
            span,
            format!("keychain entry '{name}' is not declared"),
            nearest,
        );
    }
}

fn describe_site(kind: SiteKind) -> &'static str {
    match kind {
        SiteKind::Workload => "workload",
        SiteKind::Keychain => "keychain",
        SiteKind::Root => "concurrency or priority",
        SiteKind::Guard => "guard",
        SiteKind::LoopItems | SiteKind::Claim => "loop",
        SiteKind::StepKey => "cache, concurrency or priority",
        SiteKind::Task => "a task that the server runs",
        SiteKind::Rule => "rule of a task that the server runs",
        SiteKind::TaskSet => "set of a task that the server runs",
        SiteKind::StepSet => "step set",
        SiteKind::ArcWhen => "arc when",
        SiteKind::ArcSet => "arc set",
    }
}

fn check_comparisons(sink: &mut DiagnosticSink<'_>, site: &TemplateSite<'_>) {
    let source = site.template.source();
    let facts = site.template.facts();
    for mismatch in &facts.mismatches {
        let span = sink.source.span_in_scalar(site.span, source, mismatch.range.clone());
        sink.add_finding(
            Code::NP508,
            span,
            format!("compares {} with {}", mismatch.left, mismatch.right),
        );
    }
    for event in &facts.event_names {
        if !EVENT_NAMES.contains(&&*event.name) {
            let span = sink.source.span_in_scalar(site.span, source, event.range.clone());
            let nearest = suggest_event_name(&event.name);
            sink.add_with_suggestion(
                Code::NP509,
                span,
                format!("event.name is never '{}'", event.name),
                nearest,
            );
        }
    }
}

/// Suggests the event name for a term of another dialect, which may be similar in meaning but not
/// in spelling.
fn suggest_event_name(name: &str) -> Option<&'static str> {
    match name {
        "step.done" | "step.exit" | "step.completed" | "call.completed" | "command.completed" => {
            Some("call.done")
        }
        "step.failed" | "step.error" | "call.failed" | "command.failed" => Some("call.error"),
        "loop.completed" => Some("loop.done"),
        other => nearest_name(other, EVENT_NAMES),
    }
}

/// Determines which steps can run before which.
struct StepReachability {
    /// For each step, the steps that can be reached from it by at least one arc.
    after: Vec<Vec<bool>>,
}

/// Maximum number of steps for the reachability check, because its cost is quadratic.
const MAX_REACHABILITY_STEPS: usize = 2_000;

impl StepReachability {
    fn new(context: &CheckContext<'_>) -> Self {
        let graph = &context.graph;
        if !context.is_complete() || graph.len() > MAX_REACHABILITY_STEPS {
            return Self { after: Vec::new() };
        }
        Self {
            after: graph.steps().map(|step| graph.reachable_from(graph.successors(step))).collect(),
        }
    }

    fn check_step_read(
        &self,
        sink: &mut DiagnosticSink<'_>,
        context: &CheckContext<'_>,
        site: &TemplateSite<'_>,
        read: &RootRead<'_>,
    ) {
        let graph = &context.graph;
        let current_step = site.step.and_then(|step| graph.find_step(&step.name));
        let (Some(current_step), Some(read_step)) = (current_step, graph.find_step(read.root))
        else {
            return;
        };
        let Some(after) = self.after.get(read_step.index()) else {
            return;
        };
        // The final step runs after all others.
        if graph.final_step() == Some(current_step)
            || after[current_step.index()]
            || Self::is_own_result(site, current_step, read_step)
        {
            return;
        }
        let is_own = current_step == read_step;
        let hint =
            is_own.then(|| "it is the data of an earlier pass, and no arc leads back".to_owned());
        report_early_read(sink, read.span, read.root, step_name_or_empty(site.step), hint);
    }

    /// True if the step reads its own result after its task has run.
    fn is_own_result(site: &TemplateSite<'_>, current_step: StepIndex, read: StepIndex) -> bool {
        current_step == read && site.kind.sees_own_data()
    }
}

fn step_name_or_empty(step: Option<&Step>) -> &str {
    step.map_or("", |step| &step.name.value)
}

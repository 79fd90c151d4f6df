//! Tasks: jumps, loops around them, SQL and code.

use noetl_types::Json;

use crate::diag::{Code, Sink, near};
use crate::model::{
    Action, Field, JumpTarget, LoopMode, LoopSource, SetTarget, Step, Task, ToolKind,
};
use crate::segments::parks;
use crate::source::Span;
use crate::template::Dynamic;

use super::Subject;
use super::python;
use super::scope::sets;

pub(super) fn check(sink: &mut Sink<'_>, subject: &Subject<'_>) {
    for step in &subject.playbook.workflow {
        looping(sink, step);
        for task in step.tool.tasks() {
            jumps(sink, step, task);
            task_config(sink, task);
        }
    }
    for task in &subject.playbook.workbook {
        task_config(sink, &task.tool);
    }
}

fn looping(sink: &mut Sink<'_>, step: &Step) {
    let Some(looping) = &step.looping else { return };
    if matches!(looping.source, LoopSource::Cursor(_)) {
        for task in step.tool.tasks().iter().filter(|task| parks(task)) {
            let message = format!("'{}' cannot run inside a cursor loop", task.kind.value);
            sink.add(Code::NP305, task.kind.span, message);
        }
        if let Some(cache) = &step.spec.cache {
            sink.add(
                Code::NP705,
                cache.key.span,
                "cache cannot be combined with a cursor loop",
            );
        }
    }
    if looping.spec.mode == LoopMode::Parallel {
        let of_tasks = sets(step)
            .filter(|(_, of_task)| *of_task)
            .flat_map(|(set, _)| &set.0);
        for entry in of_tasks {
            if let SetTarget::Ctx(_) = &entry.target.value {
                let message = format!(
                    "parallel iterations write {}; the last to finish wins",
                    entry.target.value.key()
                );
                let hint = "gather from the loop's results in the step's own 'set' instead";
                sink.hinted(Code::NP307, entry.target.span, message, hint);
            }
        }
    }
}

fn jumps(sink: &mut Sink<'_>, step: &Step, task: &Task) {
    for rule in task.spec.policy.iter().flat_map(|policy| &policy.rules) {
        let Action::Jump(JumpTarget::Label(label)) = &rule.then.action else {
            continue;
        };
        let labels = || step.tool.tasks().iter().map(|task| &*task.label.value);
        if !labels().any(|known| known == &*label.value) {
            let message = format!("jump to unknown label '{}'", label.value);
            sink.misspelt(Code::NP414, label.span, message, near(label, labels()));
        }
    }
}

fn task_config(sink: &mut Sink<'_>, task: &Task) {
    if task.kind.value.is_sql() {
        sql(sink, task);
    }
    if task.kind.value == ToolKind::Python
        && let Some(code) = task.config.get("code")
    {
        python_code(sink, code);
    }
}

/// Keys that hold statements as they are written.
pub(crate) const STATEMENT_KEYS: [&str; 5] = ["command", "query", "commands", "queries", "cmd"];

fn sql(sink: &mut Sink<'_>, task: &Task) {
    let mut statements = 0;
    for field in STATEMENT_KEYS.iter().filter_map(|key| task.config.get(key)) {
        for (text, span) in texts(&field.value) {
            let span = span.unwrap_or(field.span());
            statements += crate::sql::split_statements(text).len();
            for range in pasted(text) {
                let at = sink.source.inside(span, text, range);
                let hint = "put $1 into the statement and the value into 'params'";
                sink.hinted(
                    Code::NP420,
                    at,
                    "value pasted into SQL quotes; use params",
                    hint,
                );
            }
        }
    }
    if statements > 1
        && let Some(params) = task.config.get("params")
    {
        let message = format!("params need a single statement, found {statements}");
        let hint = "give each statement a task of its own";
        sink.hinted(Code::NP418, params.name.span, message, hint);
    }
}

/// The texts of a value or of a list, with their places where these are kept.
fn texts(value: &Dynamic) -> Vec<(&str, Option<Span>)> {
    match value {
        Dynamic::Const(Json::Str(text)) => vec![(text, None)],
        Dynamic::Const(Json::List(items)) => items
            .iter()
            .filter_map(Json::as_str)
            .map(|text| (text, None))
            .collect(),
        Dynamic::Text(leaf) => vec![(leaf.template.source(), leaf.span)],
        Dynamic::List(items) => items.iter().flat_map(texts).collect(),
        Dynamic::Const(_) | Dynamic::Map(_) => Vec::new(),
    }
}

/// Where `'{{ … }}'` stands, unless its quotes are escaped on the way.
fn pasted(text: &str) -> Vec<std::ops::Range<usize>> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(start) = text[from..].find("'{{").map(|at| from + at) {
        let Some(end) = text[start..].find("}}").map(|at| start + at + 2) else {
            break;
        };
        if text[end..].starts_with('\'') && !text[start..end].contains("replace(") {
            found.push(start..end + 1);
        }
        from = end;
    }
    found
}

fn python_code(sink: &mut Sink<'_>, field: &Field) {
    // Code that is still to be rendered cannot be read yet.
    let Some(code) = field.value.as_const().and_then(Json::as_str) else {
        return;
    };
    if let Some(fault) = python::fault(code) {
        let at = sink.source.inside(field.span(), code, fault.range);
        sink.add(
            Code::NP419,
            at,
            format!("python code does not parse: {}", fault.reason),
        );
    }
}

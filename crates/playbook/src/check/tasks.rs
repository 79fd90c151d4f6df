//! Checks tasks: jumps, loops, SQL and Python code.

use noetl_types::Json;

use crate::diag::{Code, DiagnosticSink, nearest_name};
use crate::model::{
    JumpTarget, LoopMode, LoopSource, NamedValue, RuleAction, SetTarget, Step, Task, ToolKind,
};
use crate::segments::is_suspending;
use crate::source::Span;
use crate::template::DynamicValue;
use crate::value_schema::check_schema;

use super::CheckContext;
use super::python;
use super::visible_names::step_sets;

pub(super) fn check_tasks(sink: &mut DiagnosticSink<'_>, context: &CheckContext<'_>) {
    for step in &context.playbook.workflow {
        check_loop(sink, step);
        for task in step.tool.tasks() {
            check_jumps(sink, step, task);
            check_task_config(sink, task);
        }
    }
    for task in &context.playbook.workbook {
        check_task_config(sink, &task.tool);
    }
}

fn check_loop(sink: &mut DiagnosticSink<'_>, step: &Step) {
    let Some(looping) = &step.looping else { return };
    if matches!(looping.source, LoopSource::Cursor(_)) {
        for task in step.tool.tasks().iter().filter(|task| is_suspending(task)) {
            let message = format!("'{}' cannot run inside a cursor loop", task.kind.value);
            sink.add_finding(Code::NP305, task.kind.span, message);
        }
        if let Some(cache) = &step.spec.cache {
            sink.add_finding(
                Code::NP705,
                cache.key.span,
                "cache cannot be combined with a cursor loop",
            );
        }
    }
    if looping.spec.mode == LoopMode::Parallel {
        let task_entries =
            step_sets(step).filter(|(_, is_task)| *is_task).flat_map(|(set, _)| &set.0);
        for entry in task_entries {
            if let SetTarget::Ctx(_) = &entry.target.value {
                let message = format!(
                    "parallel iterations write {}; the last to finish wins",
                    entry.target.value.key()
                );
                let hint = "collect the values from the loop's results in the 'set' of the step";
                sink.add_with_hint(Code::NP307, entry.target.span, message, hint);
            }
        }
    }
}

fn check_jumps(sink: &mut DiagnosticSink<'_>, step: &Step, task: &Task) {
    for rule in task.spec.policy.iter().flat_map(|policy| &policy.rules) {
        let RuleAction::Jump(JumpTarget::Label(label)) = &rule.then.action else {
            continue;
        };
        let labels = || step.tool.tasks().iter().map(|task| &*task.label.value);
        if !labels().any(|other| other == &*label.value) {
            let message = format!("jump to unknown label '{}'", label.value);
            sink.add_with_suggestion(
                Code::NP414,
                label.span,
                message,
                nearest_name(label, labels()),
            );
        }
    }
}

fn check_task_config(sink: &mut DiagnosticSink<'_>, task: &Task) {
    if task.kind.value.is_sql() {
        check_sql(sink, task);
    }
    if task.kind.value == ToolKind::Python
        && let Some(code) = task.config.get("code")
    {
        check_python_code(sink, code);
    }
    let schema_key = match task.kind.value {
        ToolKind::Wait => "schema",
        ToolKind::Approval => "form",
        _ => return,
    };
    if let Some(field) = task.config.get(schema_key)
        && let Some(schema) = field.value.as_const()
        && let Err(violation) = check_schema(schema)
    {
        let message = format!("'{schema_key}' is not a supported JSON Schema: {violation}");
        sink.add_finding(Code::NP421, field.span(), message);
    }
}

/// Keys that contain statements as written.
pub(crate) const STATEMENT_KEYS: [&str; 5] = ["command", "query", "commands", "queries", "cmd"];

fn check_sql(sink: &mut DiagnosticSink<'_>, task: &Task) {
    let mut statements = 0;
    for field in STATEMENT_KEYS.iter().filter_map(|key| task.config.get(key)) {
        for (text, span) in collect_texts(&field.value) {
            let span = span.unwrap_or(field.span());
            statements += crate::sql::split_statements(text).len();
            for range in find_quoted_templates(text) {
                let template_span = sink.source.span_in_scalar(span, text, range);
                let hint = "put $1 into the statement and the value into 'params'";
                sink.add_with_hint(
                    Code::NP420,
                    template_span,
                    "value interpolated into SQL quotes; use params",
                    hint,
                );
            }
        }
    }
    if statements > 1
        && let Some(params) = task.config.get("params")
    {
        let message = format!("params need a single statement, found {statements}");
        let hint = "put each statement into a separate task";
        sink.add_with_hint(Code::NP418, params.name.span, message, hint);
    }
}

/// Returns the strings of a value or list, with their positions if known.
fn collect_texts(value: &DynamicValue) -> Vec<(&str, Option<Span>)> {
    match value {
        DynamicValue::Const(Json::Str(text)) => vec![(text, None)],
        DynamicValue::Const(Json::List(items)) => {
            items.iter().filter_map(Json::as_str).map(|text| (text, None)).collect()
        }
        DynamicValue::Text(leaf) => vec![(leaf.template.source(), leaf.span)],
        DynamicValue::List(items) => items.iter().flat_map(collect_texts).collect(),
        DynamicValue::Const(_) | DynamicValue::Map(_) => Vec::new(),
    }
}

/// Returns the positions of `'{{ … }}'`, unless the template escapes quotes with `replace`.
fn find_quoted_templates(text: &str) -> Vec<std::ops::Range<usize>> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(start) = text[from..].find("'{{").map(|offset| from + offset) {
        let Some(end) = text[start..].find("}}").map(|offset| start + offset + 2) else {
            break;
        };
        if text[end..].starts_with('\'') && !text[start..end].contains("replace(") {
            found.push(start..end + 1);
        }
        from = end;
    }
    found
}

fn check_python_code(sink: &mut DiagnosticSink<'_>, field: &NamedValue) {
    // Code that contains templates cannot be parsed before it is rendered.
    let Some(code) = field.value.as_const().and_then(Json::as_str) else {
        return;
    };
    if let Some(error) = python::find_syntax_error(code) {
        let span = sink.source.span_in_scalar(field.span(), code, error.range);
        sink.add_finding(
            Code::NP419,
            span,
            format!("python code does not parse: {}", error.reason),
        );
    }
}

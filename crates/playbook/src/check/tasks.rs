//! Checks tasks: jumps, loops, SQL and Python code.

use std::ops::Range;

use noetl_types::Json;

use crate::diag::{Code, DiagnosticSink, nearest_name};
use crate::model::{
    JumpTarget, LoopMode, LoopSource, NamedValue, RuleAction, SetTarget, Step, Task, ToolKind,
};
use crate::segments::is_suspending;
use crate::source::Span;
use crate::sql::{GivenParams, SqlDialect, find_param_mismatch, split_statements};
use crate::template::{DynamicKey, DynamicValue, Template, TemplatePlace};
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
    let mut rendered = Some(Vec::new());
    for field in STATEMENT_KEYS.iter().filter_map(|key| task.config.get(key)) {
        for (text, span) in collect_texts(&field.value) {
            let span = span.unwrap_or(field.span());
            for statement in split_statements(text) {
                check_quoted_templates(sink, text, span, statement);
            }
            // Placeholders may also come from a template.
            rendered = rendered.filter(|_| !Template::has_markers(text));
            if let Some(texts) = &mut rendered {
                texts.push(text);
            }
        }
    }
    if let Some(texts) = rendered.filter(|texts| !texts.is_empty())
        && let Some(params) = task.config.get("params")
        && let Some(given) = given_params(&params.value)
    {
        let dialect = match task.kind.value {
            ToolKind::Sqlite => SqlDialect::Sqlite,
            ToolKind::Duckdb => SqlDialect::Duckdb,
            _ => SqlDialect::Postgres,
        };
        if let Some(mismatch) = find_param_mismatch(texts, dialect, &given) {
            sink.add_finding(Code::NP418, params.name.span, mismatch);
        }
    }
}

/// Returns the shape of `params`, unless a template yields the whole value.
fn given_params(value: &DynamicValue) -> Option<GivenParams<'_>> {
    Some(match value {
        DynamicValue::Const(Json::List(items)) => GivenParams::List(items.len()),
        DynamicValue::List(items) => GivenParams::List(items.len()),
        DynamicValue::Const(Json::Map(map)) => {
            GivenParams::Names(map.keys().map(|name| &**name).collect())
        }
        DynamicValue::Map(entries) => {
            let names = entries.iter().map(|(key, _)| match key {
                DynamicKey::Name(name) => Some(&**name),
                DynamicKey::Template(_) => None,
            });
            GivenParams::Names(names.collect::<Option<_>>()?)
        }
        DynamicValue::Const(_) | DynamicValue::Text(_) => return None,
    })
}

/// Reports values that a statement takes from templates in quotes, once per statement.
fn check_quoted_templates(
    sink: &mut DiagnosticSink<'_>,
    text: &str,
    span: Span,
    statement: Range<usize>,
) {
    let unsafe_ranges: Vec<Range<usize>> = find_quoted_templates(&text[statement.clone()])
        .into_iter()
        .map(|range| statement.start + range.start..statement.start + range.end)
        .filter(|range| !is_safe_in_quotes(&text[range.start + 1..range.end - 1]))
        .collect();
    let Some(first) = unsafe_ranges.first() else { return };
    let message = match unsafe_ranges.len() {
        1 => "value interpolated into SQL quotes; use params".to_owned(),
        count => format!("{count} values interpolated into SQL quotes; use params"),
    };
    let template_span = sink.source.span_in_scalar(span, text, first.clone());
    let hint = "put $1 into the statement and the value into 'params'";
    sink.add_with_hint(Code::NP420, template_span, message, hint);
}

/// True if a template yields text that cannot end a quoted string: a value that the engine makes,
/// a number, or a digest.
fn is_safe_in_quotes(template: &str) -> bool {
    let Ok(template) = Template::parse(template, TemplatePlace::Run) else {
        return false;
    };
    template.yields_plain_text()
        || template.facts().reads.iter().all(|read| {
            let path: Vec<&str> = read.path.iter().map(|key| &**key).collect();
            ENGINE_VALUES.contains(&path.as_slice())
                || matches!(
                    path.as_slice(),
                    ["steps", _, "run" | "status" | "started_at" | "ended_at"]
                )
        })
}

/// Values that the engine makes: ids, numbers, times, and names whose characters are restricted.
const ENGINE_VALUES: &[&[&str]] = &[
    &["execution_id"],
    &["catalog_id"],
    &["command_id"],
    &["idempotency_key"],
    &["version"],
    &["step"],
    &["node_name"],
    &["_task"],
    &["_attempt"],
    &["_index"],
    &["_total"],
    &["loop_index"],
    &["loop", "index"],
    &["loop", "length"],
    &["loop", "first"],
    &["loop", "last"],
    &["iter", "index"],
    &["iter", "_index"],
    &["iter", "_total"],
    &["iter", "_first"],
    &["iter", "_last"],
    &["job", "uuid"],
    &["job", "id"],
    &["job", "execution_id"],
    &["event", "name"],
    &["event", "step"],
];

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
fn find_quoted_templates(text: &str) -> Vec<Range<usize>> {
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

//! Checks that the build can run what a playbook requires.

use crate::diag::{Code, DiagnosticSink};
use crate::model::{NamedValue, Playbook, Task, ToolKind};
use crate::parse::report_missing_kind;
use crate::source::Span;
use crate::template::{DynamicKey, DynamicValue};

pub(super) fn check_build(
    sink: &mut DiagnosticSink<'_>,
    playbook: &Playbook,
    features: Option<&[&str]>,
) {
    let requires = &playbook.executor.requires;
    for tool in &requires.tools {
        report_missing_kind(sink, tool, tool.span, features);
    }
    for feature in &requires.features {
        if features.is_some_and(|features| !features.contains(&&*feature.value)) {
            report_missing(sink, feature.span, &format!("feature '{}'", feature.value), None);
        }
    }
    let tasks = playbook.workflow.iter().flat_map(|step| step.tool.tasks());
    for task in tasks.chain(playbook.workbook.iter().map(|task| &task.tool)) {
        check_task(sink, task);
    }
}

/// Reports literal settings of a task that no build supports.
fn check_task(sink: &mut DiagnosticSink<'_>, task: &Task) {
    match task.kind.value {
        ToolKind::Container => {
            if let Some(field) = task.config.get("runtime")
                && literal_text(field) == Some("kubernetes")
            {
                let hint = "use runtime: local";
                report_missing(sink, field.span(), "runtime 'kubernetes'", Some(hint));
            }
        }
        ToolKind::Script => {
            if let Some(field) = task.config.get("job") {
                let hint = "remove 'job' to run the script on the worker";
                report_missing(sink, field.name.span, "a script with 'job'", Some(hint));
            }
        }
        ToolKind::Subscription => {
            if let Some(field) = task.config.get("source")
                && let Some(source @ ("kafka" | "pubsub")) = literal_text(field)
            {
                let subject = format!("source '{source}'");
                report_missing(sink, field.span(), &subject, Some("use nats"));
            }
        }
        ToolKind::Transfer => {
            for (end, field) in ["source", "target"].map(|end| (end, task.config.get(end))) {
                let Some(field) = field else { continue };
                let kind = ["type", "kind"].iter().find_map(|key| literal_member(field, key));
                if let Some(kind @ ("duckdb" | "snowflake")) = kind {
                    let hint = "use http, postgres or sqlite";
                    let subject = format!("a {end} of type '{kind}'");
                    report_missing(sink, field.span(), &subject, Some(hint));
                }
            }
        }
        _ => {}
    }
    if let Some(field) = task.config.get("script")
        && let Some(kind @ ("gcs" | "s3")) = literal_member(field, "type")
    {
        let hint = "use inline, file or http";
        report_missing(sink, field.span(), &format!("a script of type '{kind}'"), Some(hint));
    }
}

fn report_missing(sink: &mut DiagnosticSink<'_>, span: Span, subject: &str, hint: Option<&str>) {
    let message = format!("{subject} is not part of this build");
    match hint {
        Some(hint) => sink.add_with_hint(Code::NP402, span, message, hint),
        None => sink.add_finding(Code::NP402, span, message),
    }
}

fn literal_text(field: &NamedValue) -> Option<&str> {
    field.value.as_const()?.as_str()
}

fn literal_member<'f>(field: &'f NamedValue, key: &str) -> Option<&'f str> {
    // A map whose other members are templates is not a constant, but this member may be one.
    match &field.value {
        DynamicValue::Const(value) => value.get(key)?.as_str(),
        DynamicValue::Map(entries) => {
            let is_key =
                |name: &DynamicKey| matches!(name, DynamicKey::Name(name) if **name == *key);
            let (_, value) = entries.iter().find(|(name, _)| is_key(name))?;
            value.as_const()?.as_str()
        }
        DynamicValue::Text(_) | DynamicValue::List(_) => None,
    }
}

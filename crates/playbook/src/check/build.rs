//! Checks that the build can run what a playbook requires.

use crate::diag::{Code, DiagnosticSink, nearest_name};
use crate::model::{Playbook, RESERVED_KINDS, Task, ToolKind};
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
        let is_known =
            ToolKind::find_by_name(tool).is_some() || RESERVED_KINDS.contains(&&*tool.value);
        if is_known {
            report_missing_kind(sink, tool, tool.span, features);
        } else {
            let nearest = nearest_name(tool, ToolKind::WORDS.iter().copied());
            let message = format!("kind '{}' is not part of this build", tool.value);
            sink.add_with_suggestion(Code::NP402, tool.span, message, nearest);
        }
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
    let literal = |key: &str, path: &[&str]| {
        let field = task.config.get(key)?;
        Some((field, literal_at(&field.value, path)?))
    };
    match task.kind.value {
        ToolKind::Container => {
            if let Some((field, "kubernetes")) = literal("runtime", &[]) {
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
            if let Some((field, source @ ("kafka" | "pubsub"))) = literal("source", &[]) {
                let subject = format!("source '{source}'");
                report_missing(sink, field.span(), &subject, Some("use nats"));
            }
        }
        ToolKind::Transfer => {
            for end in ["source", "target"] {
                if let Some((field, kind)) = literal(end, &["type"]).or(literal(end, &["kind"]))
                    && !["http", "postgres", "postgresql", "sqlite"].contains(&kind)
                {
                    let hint = "use http, postgres or sqlite";
                    let subject = format!("a {end} of type '{kind}'");
                    report_missing(sink, field.span(), &subject, Some(hint));
                }
            }
        }
        _ => {}
    }
    if let Some((field, kind)) =
        literal("script", &["source", "type"]).or(literal("script", &["type"]))
        && !["inline", "file", "local", "http", "https"].contains(&kind)
    {
        let hint = "use inline, file or http";
        report_missing(sink, field.span(), &format!("a script of type '{kind}'"), Some(hint));
    }
    check_credential_type(sink, task);
}

/// Reports a credential in the playbook whose type the tool cannot use.
fn check_credential_type(sink: &mut DiagnosticSink<'_>, task: &Task) {
    let usable: &[&str] = match task.kind.value {
        ToolKind::Http => &["bearer", "bearer_token", "basic", "api_key"],
        ToolKind::Postgres => &["postgres"],
        ToolKind::Nats | ToolKind::Subscription => &["nats"],
        _ => return,
    };
    let Some(auth) = &task.auth else { return };
    let kind = literal_at(auth, &["type"]).filter(|kind| !usable.contains(kind));
    if let Some(kind) = kind.filter(|_| literal_at(auth, &["source"]).is_none()) {
        let message = format!("'{kind}' is not one of {}", usable.join(", "));
        sink.add_with_suggestion(
            Code::NP011,
            task.auth_span.span,
            message,
            nearest_name(kind, usable.iter().copied()),
        );
    }
}

fn report_missing(sink: &mut DiagnosticSink<'_>, span: Span, subject: &str, hint: Option<&str>) {
    let message = format!("{subject} is not part of this build");
    match hint {
        Some(hint) => sink.add_with_hint(Code::NP402, span, message, hint),
        None => sink.add_finding(Code::NP402, span, message),
    }
}

/// Returns a literal text at a path in a value. Other members of its maps may be templates.
fn literal_at<'v>(value: &'v DynamicValue, path: &[&str]) -> Option<&'v str> {
    match (value, path) {
        (DynamicValue::Const(value), path) => {
            path.iter().try_fold(value, |value, key| value.get(key))?.as_str()
        }
        (DynamicValue::Map(entries), [key, rest @ ..]) => {
            let is_key =
                |name: &DynamicKey| matches!(name, DynamicKey::Name(name) if **name == **key);
            let (_, value) = entries.iter().find(|(name, _)| is_key(name))?;
            literal_at(value, rest)
        }
        _ => None,
    }
}

//! Shared parsing of subscriptions and schedules: values that are not rendered.

use std::ops::RangeInclusive;
use std::sync::Arc;

use noetl_types::name::NameError;
use noetl_types::{Json, Millis, PlaybookPath, PoolName};

use crate::diag::{Code, DiagnosticSink};
use crate::model::DocumentMetadata;
use crate::source::{Span, Spanned};
use crate::yaml::{NodeValue, YamlEntry, YamlNode};

use super::playbook::parse_metadata;
use super::reader::{MapReader, read_duration, read_integer, read_text, report_wrong_type};
use super::values::is_template;

/// Parses a document with a `spec`: its metadata, and the spec with `parse_spec`.
pub(super) fn parse_resource<T>(
    sink: &mut DiagnosticSink<'_>,
    root: &YamlNode,
    context: &'static str,
    parse_spec: impl FnOnce(&mut DiagnosticSink<'_>, &YamlNode) -> Option<T>,
) -> Option<(DocumentMetadata, T)> {
    let mut reader = MapReader::open(sink, "document", context, root)?;
    reader.mark_known(["apiVersion", "kind"]);
    let metadata = parse_metadata(sink, &mut reader);
    let spec = reader.require_entry(sink, "spec").and_then(|entry| parse_spec(sink, &entry.value));
    reader.report_unread(sink);
    Some((metadata?, spec?))
}

/// Reads a literal string, which must not be empty or a template.
pub(super) fn read_literal(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> Option<Arc<str>> {
    let text = read_text(sink, entry)?;
    check_literal(sink, &entry.key, entry.value.span, &text).then_some(text)
}

/// Reads a literal string with its position.
pub(super) fn read_spanned_literal(
    sink: &mut DiagnosticSink<'_>,
    entry: &YamlEntry,
) -> Option<Spanned<Arc<str>>> {
    read_literal(sink, entry).map(|text| Spanned::new(text, entry.value.span))
}

/// Reads the literal string of a required key.
pub(super) fn require_literal(
    sink: &mut DiagnosticSink<'_>,
    reader: &mut MapReader<'_>,
    key: &'static str,
) -> Option<Arc<str>> {
    reader.require_entry(sink, key).and_then(|entry| read_literal(sink, entry))
}

/// Reads a list of literal strings with their positions. A single string is accepted as a list of
/// one.
pub(super) fn read_literals(
    sink: &mut DiagnosticSink<'_>,
    entry: &YamlEntry,
) -> Vec<Spanned<Arc<str>>> {
    let items = entry.value.as_list().unwrap_or(std::slice::from_ref(&entry.value));
    let mut literals = Vec::with_capacity(items.len());
    for item in items {
        match item.as_text() {
            Some(text) if check_literal(sink, &entry.key, item.span, text) => {
                literals.push(Spanned::new(Arc::clone(text), item.span));
            }
            Some(_) => {}
            None => report_wrong_type(sink, &entry.key, "a list of strings", item),
        }
    }
    literals
}

fn check_literal(sink: &mut DiagnosticSink<'_>, key: &str, span: Span, text: &str) -> bool {
    if text.trim().is_empty() {
        sink.add_finding(Code::NP006, span, format!("'{key}' must be text, found an empty string"));
        return false;
    }
    if is_template(text) {
        let message = format!("'{key}' must be plain text, found a template");
        sink.add_with_hint(
            Code::NP006,
            span,
            message,
            "templates are not rendered here; write the literal value",
        );
        return false;
    }
    true
}

/// Reads the path of a playbook.
pub(super) fn read_playbook_path(
    sink: &mut DiagnosticSink<'_>,
    entry: &YamlEntry,
) -> Option<Spanned<PlaybookPath>> {
    let path = read_spanned_literal(sink, entry)?;
    validate_name(sink, &path, PlaybookPath::new)
}

/// Reads the name of a worker pool.
pub(super) fn read_pool_name(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> Option<PoolName> {
    let pool = read_spanned_literal(sink, entry)?;
    validate_name(sink, &pool, PoolName::new).map(|pool| pool.value)
}

/// Converts a string to a validated name. Reports an invalid one.
pub(super) fn validate_name<N>(
    sink: &mut DiagnosticSink<'_>,
    text: &Spanned<Arc<str>>,
    new: impl FnOnce(Arc<str>) -> Result<N, NameError>,
) -> Option<Spanned<N>> {
    match new(Arc::clone(&text.value)) {
        Ok(name) => Some(Spanned::new(name, text.span)),
        Err(error) => {
            sink.add_with_hint(
                Code::NP013,
                text.span,
                format!("'{}' is not a valid name", text.value),
                error.to_string(),
            );
            None
        }
    }
}

/// Reads an integer number of milliseconds, the form of keys that end in `_ms`.
pub(super) fn read_millis(
    sink: &mut DiagnosticSink<'_>,
    entry: &YamlEntry,
    range: RangeInclusive<i64>,
) -> Option<Millis> {
    read_integer(sink, entry, range).and_then(|ms| u64::try_from(ms).ok()).map(Millis::from_ms)
}

/// Reads a duration in whole seconds within a range.
pub(super) fn read_whole_seconds(
    sink: &mut DiagnosticSink<'_>,
    entry: &YamlEntry,
    range: RangeInclusive<Millis>,
) -> Option<Millis> {
    let span = entry.value.span;
    let duration = read_duration(sink, &entry.value)?;
    if !range.contains(&duration) {
        let message = format!(
            "{} = {duration} is out of range {}..{}",
            entry.key,
            range.start(),
            range.end()
        );
        sink.add_finding(Code::NP704, span, message);
        return None;
    }
    if !duration.as_ms().is_multiple_of(Millis::from_secs(1).as_ms()) {
        sink.add_finding(
            Code::NP012,
            span,
            format!("'{duration}' is not a duration in whole seconds"),
        );
        return None;
    }
    Some(duration)
}

/// Reports two settings that cannot be combined, at the position of the later one.
pub(super) fn report_conflict(
    sink: &mut DiagnosticSink<'_>,
    spans: [Span; 2],
    message: impl Into<String>,
    hint: &str,
) {
    let [first, second] = spans;
    sink.add_with_hint(Code::NP705, first.max(second), message, hint);
}

/// Reports a known key that has no effect here.
pub(super) fn report_no_effect(
    sink: &mut DiagnosticSink<'_>,
    entry: &YamlEntry,
    hint: impl Into<String>,
) {
    sink.add_with_hint(Code::NP018, entry.key_span, format!("'{}' has no effect", entry.key), hint);
}

/// Reads a string or a number, the form of values in a directive's `map`.
pub(super) fn read_scalar(
    sink: &mut DiagnosticSink<'_>,
    key: &str,
    node: &YamlNode,
) -> Option<Json> {
    match &node.value {
        NodeValue::Text(text) => {
            check_literal(sink, key, node.span, text).then(|| Json::Str(Arc::clone(text)))
        }
        NodeValue::Plain(json) if !json.is_null() => Some(json.clone()),
        NodeValue::Plain(_) | NodeValue::List(_) | NodeValue::Map(_) => {
            report_wrong_type(sink, key, "text or a number", node);
            None
        }
    }
}

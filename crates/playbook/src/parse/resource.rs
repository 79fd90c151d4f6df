//! What subscriptions and schedules have in common: values that nothing renders.

use std::ops::RangeInclusive;
use std::sync::Arc;

use noetl_types::name::NameError;
use noetl_types::{Json, Millis, PlaybookPath, PoolName};

use crate::diag::{Code, Sink};
use crate::model::Metadata;
use crate::source::{Span, Spanned};
use crate::yaml::{Entry, Node, NodeValue};

use super::playbook::metadata;
use super::reader::{MapReader, duration, integer, text, wrong_type};
use super::values::is_template;

/// The document around a `spec`: what it says about itself, and what `read` makes of the rest.
pub(super) fn document<T>(
    sink: &mut Sink<'_>,
    (root, place): (&Node, &'static str),
    read: impl FnOnce(&mut Sink<'_>, &Node) -> Option<T>,
) -> Option<(Metadata, T)> {
    let mut reader = MapReader::open(sink, "document", place, root)?;
    reader.know(["apiVersion", "kind"]);
    let metadata = metadata(sink, &mut reader);
    let spec = reader
        .require(sink, "spec")
        .and_then(|entry| read(sink, &entry.value));
    reader.finish(sink);
    Some((metadata?, spec?))
}

/// A text that is used as it is written, and so is neither empty nor a template.
pub(super) fn literal(sink: &mut Sink<'_>, entry: &Entry) -> Option<Arc<str>> {
    let text = text(sink, entry)?;
    is_literal(sink, &entry.key, entry.value.span, &text).then_some(text)
}

/// Such a text with its place.
pub(super) fn spanned_literal(sink: &mut Sink<'_>, entry: &Entry) -> Option<Spanned<Arc<str>>> {
    literal(sink, entry).map(|text| Spanned::new(text, entry.value.span))
}

/// A key that must be there, with such a text.
pub(super) fn required_literal(
    sink: &mut Sink<'_>,
    reader: &mut MapReader<'_>,
    key: &'static str,
) -> Option<Arc<str>> {
    reader
        .require(sink, key)
        .and_then(|entry| literal(sink, entry))
}

/// A list of such texts with their places; a single text stands for a list of one.
pub(super) fn literals(sink: &mut Sink<'_>, entry: &Entry) -> Vec<Spanned<Arc<str>>> {
    let items = entry
        .value
        .as_list()
        .unwrap_or(std::slice::from_ref(&entry.value));
    let mut read = Vec::with_capacity(items.len());
    for item in items {
        match item.as_text() {
            Some(text) if is_literal(sink, &entry.key, item.span, text) => {
                read.push(Spanned::new(Arc::clone(text), item.span));
            }
            Some(_) => {}
            None => wrong_type(sink, &entry.key, "a list of texts", item),
        }
    }
    read
}

fn is_literal(sink: &mut Sink<'_>, key: &str, span: Span, text: &str) -> bool {
    if text.trim().is_empty() {
        sink.add(
            Code::NP006,
            span,
            format!("'{key}' must be a text, found an empty one"),
        );
        return false;
    }
    if is_template(text) {
        let message = format!("'{key}' must be a plain text, found a template");
        sink.hinted(
            Code::NP006,
            span,
            message,
            "nothing is rendered here; write the value out",
        );
        return false;
    }
    true
}

/// The path of a playbook.
pub(super) fn playbook_path(sink: &mut Sink<'_>, entry: &Entry) -> Option<Spanned<PlaybookPath>> {
    let path = spanned_literal(sink, entry)?;
    named(sink, &path, PlaybookPath::new)
}

/// The name of a pool.
pub(super) fn pool(sink: &mut Sink<'_>, entry: &Entry) -> Option<PoolName> {
    let pool = spanned_literal(sink, entry)?;
    named(sink, &pool, PoolName::new).map(|pool| pool.value)
}

/// A text that must obey the rule of its kind of name.
pub(super) fn named<N>(
    sink: &mut Sink<'_>,
    text: &Spanned<Arc<str>>,
    new: impl FnOnce(Arc<str>) -> Result<N, NameError>,
) -> Option<Spanned<N>> {
    match new(Arc::clone(&text.value)) {
        Ok(name) => Some(Spanned::new(name, text.span)),
        Err(error) => {
            sink.hinted(
                Code::NP013,
                text.span,
                format!("'{}' is not a valid name", text.value),
                error.to_string(),
            );
            None
        }
    }
}

/// A number of milliseconds, as keys that end in `_ms` have it.
pub(super) fn millis(
    sink: &mut Sink<'_>,
    entry: &Entry,
    range: RangeInclusive<i64>,
) -> Option<Millis> {
    integer(sink, entry, range)
        .and_then(|ms| u64::try_from(ms).ok())
        .map(Millis::from_ms)
}

/// A duration in whole seconds within a range.
pub(super) fn whole_seconds(
    sink: &mut Sink<'_>,
    entry: &Entry,
    range: RangeInclusive<Millis>,
) -> Option<Millis> {
    let span = entry.value.span;
    let read = duration(sink, &entry.value)?;
    if !range.contains(&read) {
        let message = format!(
            "{} = {read} is out of range {}..{}",
            entry.key,
            range.start(),
            range.end()
        );
        sink.add(Code::NP704, span, message);
        return None;
    }
    if !read.as_ms().is_multiple_of(Millis::from_secs(1).as_ms()) {
        sink.add(
            Code::NP012,
            span,
            format!("'{read}' is not a duration in whole seconds"),
        );
        return None;
    }
    Some(read)
}

/// Two settings that cannot both hold; the later one is pointed at.
pub(super) fn conflict(
    sink: &mut Sink<'_>,
    between: [Span; 2],
    message: impl Into<String>,
    hint: &str,
) {
    let [one, other] = between;
    sink.hinted(Code::NP705, one.max(other), message, hint);
}

/// A key that is known and does nothing here.
pub(super) fn no_effect(sink: &mut Sink<'_>, entry: &Entry, hint: impl Into<String>) {
    sink.hinted(
        Code::NP018,
        entry.key_span,
        format!("'{}' has no effect", entry.key),
        hint,
    );
}

/// A text or a number, as the values of a map that translates have it.
pub(super) fn scalar(sink: &mut Sink<'_>, key: &str, node: &Node) -> Option<Json> {
    match &node.value {
        NodeValue::Text(text) => {
            is_literal(sink, key, node.span, text).then(|| Json::Str(Arc::clone(text)))
        }
        NodeValue::Plain(json) if !json.is_null() => Some(json.clone()),
        NodeValue::Plain(_) | NodeValue::List(_) | NodeValue::Map(_) => {
            wrong_type(sink, key, "a text or a number", node);
            None
        }
    }
}

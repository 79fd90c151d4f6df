//! Reads maps and scalars. Reports invalid values and returns valid ones with their type.

use std::sync::Arc;

use noetl_types::time::Millis;
use noetl_types::{ByteSize, Json};

use crate::diag::{Code, DiagnosticSink, nearest_name};
use crate::source::Spanned;
use crate::string_enum::StringEnum;
use crate::yaml::{NodeValue, YamlEntry, YamlNode};

/// Reads a map key by key. Keys that are never read are reported as unknown.
pub(super) struct MapReader<'n> {
    node: &'n YamlNode,
    entries: &'n [YamlEntry],
    context: &'static str,
    read_keys: Vec<&'static str>,
}

impl<'n> MapReader<'n> {
    /// Opens a map. Reports any other type under `key`.
    pub(super) fn open(
        sink: &mut DiagnosticSink<'_>,
        key: &str,
        context: &'static str,
        node: &'n YamlNode,
    ) -> Option<Self> {
        let Some(entries) = node.as_map() else {
            report_wrong_type(sink, key, "a map", node);
            return None;
        };
        Some(Self { node, entries, context, read_keys: Vec::new() })
    }

    /// Returns the entry of a key, treating null as absent.
    pub(super) fn take_entry(&mut self, key: &'static str) -> Option<&'n YamlEntry> {
        self.take_nullable(key).filter(|entry| !entry.value.is_null())
    }

    /// Returns the entry of a key, including null.
    pub(super) fn take_nullable(&mut self, key: &'static str) -> Option<&'n YamlEntry> {
        self.read_keys.push(key);
        self.entries.iter().find(|entry| &*entry.key == key)
    }

    /// Returns the entry of a required key.
    pub(super) fn require_entry(
        &mut self,
        sink: &mut DiagnosticSink<'_>,
        key: &'static str,
    ) -> Option<&'n YamlEntry> {
        let entry = self.take_entry(key);
        if entry.is_none() {
            let message = format!("{} lacks required key '{key}'", self.context);
            sink.add_finding(Code::NP005, self.node.head_span(), message);
        }
        entry
    }

    /// Marks keys as known without reading them.
    pub(super) fn mark_known(&mut self, keys: impl IntoIterator<Item = &'static str>) {
        self.read_keys.extend(keys);
    }

    /// Reports known keys that have no effect.
    pub(super) fn report_keys_without_effect(
        &mut self,
        sink: &mut DiagnosticSink<'_>,
        keys: &[&'static str],
    ) {
        for key in keys {
            if let Some(entry) = self.take_nullable(key) {
                report_no_effect(sink, entry);
            }
        }
    }

    /// Returns the entries that have not been read.
    pub(super) fn unread_entries(&self) -> impl Iterator<Item = &'n YamlEntry> {
        self.entries.iter().filter(|entry| !self.read_keys.contains(&&*entry.key))
    }

    /// Reports the entries that have not been read.
    pub(super) fn report_unread(self, sink: &mut DiagnosticSink<'_>) {
        for entry in self.unread_entries() {
            let nearest = nearest_name(&entry.key, self.read_keys.iter().copied());
            let message = format!("unknown key '{}' in {}", entry.key, self.context);
            sink.add_with_suggestion(Code::NP010, entry.key_span, message, nearest);
        }
    }
}

/// Reports a key of other runtimes that has no effect in this one.
pub(super) fn report_no_effect(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) {
    let message = format!("'{}' has no effect", entry.key);
    sink.add_with_hint(Code::NP018, entry.key_span, message, "this release ignores it; remove it");
}

/// Reports a value of the wrong type.
pub(super) fn report_wrong_type(
    sink: &mut DiagnosticSink<'_>,
    key: &str,
    expected: &str,
    node: &YamlNode,
) {
    let message = format!("'{key}' must be {expected}, found {}", node.type_name());
    sink.add_finding(Code::NP006, node.span, message);
}

/// Reads a string. Numbers and bools are accepted as written, because `version: 1.10` means a
/// string.
pub(super) fn read_text(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> Option<Arc<str>> {
    match &entry.value.value {
        NodeValue::Text(text) => Some(Arc::clone(text)),
        NodeValue::Plain(Json::Null) | NodeValue::List(_) | NodeValue::Map(_) => {
            report_wrong_type(sink, &entry.key, "text", &entry.value);
            None
        }
        NodeValue::Plain(_) => {
            let span = entry.value.span;
            let written = sink.source.text().get(span.start as usize..span.end as usize);
            Some(written.unwrap_or_default().into())
        }
    }
}

/// Reads a string with its position.
pub(super) fn read_spanned_text(
    sink: &mut DiagnosticSink<'_>,
    entry: &YamlEntry,
) -> Option<Spanned<Arc<str>>> {
    read_text(sink, entry).map(|text| Spanned::new(text, entry.value.span))
}

/// Reads a bool.
pub(super) fn read_bool(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> Option<bool> {
    if let NodeValue::Plain(Json::Bool(value)) = &entry.value.value {
        return Some(*value);
    }
    report_wrong_type(sink, &entry.key, "a bool", &entry.value);
    None
}

/// Reads an integer in a range. Reports values out of range.
pub(super) fn read_integer(
    sink: &mut DiagnosticSink<'_>,
    entry: &YamlEntry,
    range: std::ops::RangeInclusive<i64>,
) -> Option<i64> {
    let NodeValue::Plain(Json::Int(value)) = &entry.value.value else {
        report_wrong_type(sink, &entry.key, "an integer", &entry.value);
        return None;
    };
    if range.contains(value) {
        return Some(*value);
    }
    let message =
        format!("{} = {value} is out of range {}..{}", entry.key, range.start(), range.end());
    sink.add_finding(Code::NP704, entry.value.span, message);
    None
}

/// Reads a 32-bit unsigned integer of at least `min`.
pub(super) fn read_count(
    sink: &mut DiagnosticSink<'_>,
    entry: &YamlEntry,
    min: u32,
) -> Option<u32> {
    read_integer(sink, entry, i64::from(min)..=i64::from(u32::MAX))
        .and_then(|value| u32::try_from(value).ok())
}

/// Reads a keyword of a string enum.
pub(super) fn read_keyword<W: StringEnum>(
    sink: &mut DiagnosticSink<'_>,
    entry: &YamlEntry,
) -> Option<W> {
    let Some(text) = entry.value.as_text() else {
        report_wrong_type(
            sink,
            &entry.key,
            &format!("one of {}", W::keywords().join(", ")),
            &entry.value,
        );
        return None;
    };
    let keyword = W::parse_keyword(text);
    if keyword.is_none() {
        report_unknown_keyword(sink, &entry.value, text, W::keywords());
    }
    keyword
}

/// Reports an unknown keyword.
pub(super) fn report_unknown_keyword(
    sink: &mut DiagnosticSink<'_>,
    node: &YamlNode,
    text: &str,
    keywords: &[&str],
) {
    let message = format!("'{text}' is not one of {}", keywords.join(", "));
    let nearest = nearest_name(text, keywords.iter().copied());
    sink.add_with_suggestion(Code::NP011, node.span, message, nearest);
}

/// Reads a duration: a string such as `30s`, or a number of seconds.
pub(super) fn read_duration(sink: &mut DiagnosticSink<'_>, node: &YamlNode) -> Option<Millis> {
    let duration = match &node.value {
        NodeValue::Text(text) => Millis::parse(text).ok(),
        NodeValue::Plain(json) => Millis::parse(&json.to_string()).ok(),
        NodeValue::List(_) | NodeValue::Map(_) => None,
    };
    if duration.is_none() {
        let message = format!("'{}' is not a duration", display_scalar(node));
        sink.add_with_hint(
            Code::NP012,
            node.span,
            message,
            "write 500ms, 30s, 5m, 2h, 1d or a number of seconds",
        );
    }
    duration
}

/// Reads a size: a number of bytes, or a string such as `64KiB`.
pub(super) fn read_size(sink: &mut DiagnosticSink<'_>, node: &YamlNode) -> Option<ByteSize> {
    let size = match &node.value {
        NodeValue::Text(text) => ByteSize::parse(text).ok(),
        NodeValue::Plain(json) => ByteSize::parse(&json.to_string()).ok(),
        NodeValue::List(_) | NodeValue::Map(_) => None,
    };
    if size.is_none() {
        let message = format!("'{}' is not a size", display_scalar(node));
        sink.add_with_hint(
            Code::NP012,
            node.span,
            message,
            "write a number of bytes, 64KiB, 1MiB or 2GiB",
        );
    }
    size
}

/// Returns a scalar as text, or the type of a list or map.
pub(super) fn display_scalar(node: &YamlNode) -> String {
    match &node.value {
        NodeValue::Text(text) => text.to_string(),
        NodeValue::Plain(json) => json.to_string(),
        NodeValue::List(_) => "a list".to_owned(),
        NodeValue::Map(_) => "a map".to_owned(),
    }
}

/// Reads a list of strings with their positions. A single string is accepted as a list of one.
pub(super) fn read_spanned_texts(
    sink: &mut DiagnosticSink<'_>,
    entry: &YamlEntry,
) -> Vec<Spanned<Arc<str>>> {
    let items = match &entry.value.value {
        NodeValue::List(items) => items,
        NodeValue::Plain(_) | NodeValue::Text(_) | NodeValue::Map(_) => {
            std::slice::from_ref(&entry.value)
        }
    };
    let mut texts = Vec::with_capacity(items.len());
    for item in items {
        if let Some(text) = item.as_text() {
            texts.push(Spanned::new(Arc::clone(text), item.span));
        } else {
            report_wrong_type(sink, &entry.key, "a list of strings", item);
        }
    }
    texts
}

/// Reads a list of strings. A single string is accepted as a list of one.
pub(super) fn read_texts(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> Vec<Arc<str>> {
    read_spanned_texts(sink, entry).into_iter().map(|text| text.value).collect()
}

/// Reads a list.
pub(super) fn read_list<'n>(
    sink: &mut DiagnosticSink<'_>,
    entry: &'n YamlEntry,
) -> Option<&'n [YamlNode]> {
    let items = entry.value.as_list();
    if items.is_none() {
        report_wrong_type(sink, &entry.key, "a list", &entry.value);
    }
    items
}

/// True if a text is a name: a letter or underscore, followed by letters, digits, underscores and,
/// if allowed, hyphens.
pub(super) fn is_name(text: &str, hyphens: bool) -> bool {
    let mut chars = text.chars();
    let has_valid_start = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    has_valid_start
        && text.len() <= 128
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_' || (hyphens && c == '-'))
}

/// Reads a name with its position. Reports anything else.
pub(super) fn read_name(
    sink: &mut DiagnosticSink<'_>,
    entry: &YamlEntry,
    hyphens: bool,
) -> Option<Spanned<Arc<str>>> {
    let name = read_spanned_text(sink, entry)?;
    if is_name(&name, hyphens) {
        return Some(name);
    }
    let message = format!("'{}' is not a valid name", name.value);
    let allowed = if hyphens { "letters, digits, '_' and '-'" } else { "letters, digits and '_'" };
    let hint = format!("a name has at most 128 {allowed}, and starts with a letter or '_'");
    sink.add_with_hint(Code::NP013, entry.value.span, message, hint);
    None
}

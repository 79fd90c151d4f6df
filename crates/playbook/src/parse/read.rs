//! Reads maps and scalars. Reports invalid values and returns valid ones with their type.
//!
//! [`ReadValue`] reads a value by the type of its field, and `read_map!` reads a struct whose fields
//! are the keys of a map. Forms that differ from their field have a reader of their own.

use std::ops::RangeInclusive;
use std::sync::Arc;

use noetl_types::time::Millis;
use noetl_types::{ByteSize, Json};

use crate::diag::{Code, DiagnosticSink, nearest_name, nearest_name_within};
use crate::source::Spanned;
use crate::string_enum::StringEnum;
use crate::yaml::{NodeValue, YamlEntry, YamlNode};

/// A type that can be read from a document.
pub(super) trait ReadValue: Sized {
    /// Reads the value of a key. Reports an invalid value.
    fn read_value(sink: &mut DiagnosticSink<'_>, key: &str, node: &YamlNode) -> Option<Self>;
}

/// Implements [`ReadValue`] for a struct whose fields are keys of a map.
///
/// `field = "key"` renames a key, `field | "alias"` accepts a second spelling, `field => reader`
/// reads a special form, and `field: value` sets the value of an absent key, which is the default
/// of the field's type otherwise. `known` keys are accepted without being read, and `unused` keys
/// are reported as having no effect.
macro_rules! read_map {
    (
        $type:ty, $context:literal
        $(, required { $($required:ident $(= $required_key:literal)? $(=> $required_reader:path)?),+ $(,)? })?
        $(, optional { $($field:ident $(= $key:literal)? $(| $alias:literal)? $(=> $reader:path)? $(: $default:expr)?),+ $(,)? })?
        $(, known [$($known:literal),+])?
        $(, unused $unused:expr)? $(,)?
    ) => {
        impl $type {
            /// Reads the keys of the struct from a map that may have other keys too.
            fn read_keys(
                sink: &mut $crate::diag::DiagnosticSink<'_>,
                reader: &mut $crate::parse::read::MapReader<'_>,
            ) -> Option<Self> {
                $($(
                    let entry = reader.require_entry(sink, read_map!(@key $required $($required_key)?));
                    let $required = entry.and_then(|entry| read_map!(@read sink, entry $(, $required_reader)?));
                )+)?
                $($(
                    let entry = reader.take_entry(read_map!(@key $field $($key)?));
                    $(let entry = entry.or(reader.take_entry($alias));)?
                    let $field = entry.and_then(|entry| read_map!(@read sink, entry $(, $reader)?));
                )+)?
                $(reader.mark_known([$($known),+]);)?
                $(reader.report_keys_without_effect(sink, &$unused);)?
                Some(Self {
                    $($($required: $required?,)+)?
                    $($($field: read_map!(@or_default $field $(, $default)?),)+)?
                })
            }
        }

        impl $crate::parse::read::ReadValue for $type {
            fn read_value(
                sink: &mut $crate::diag::DiagnosticSink<'_>,
                key: &str,
                node: &$crate::yaml::YamlNode,
            ) -> Option<Self> {
                let mut reader = $crate::parse::read::MapReader::open(sink, key, $context, node)?;
                let value = Self::read_keys(sink, &mut reader);
                reader.report_unread(sink);
                value
            }
        }
    };
    (@key $field:ident) => { stringify!($field) };
    (@key $field:ident $key:literal) => { $key };
    (@read $sink:ident, $entry:ident) => {
        $crate::parse::read::ReadValue::read_value($sink, &$entry.key, &$entry.value)
    };
    (@read $sink:ident, $entry:ident, $reader:path) => { $reader($sink, &$entry.key, &$entry.value) };
    (@or_default $field:ident) => { $field.unwrap_or_default() };
    (@or_default $field:ident, $default:expr) => { $field.unwrap_or_else(|| $default) };
}

pub(super) use read_map;

/// Reads a map key by key. Keys that are never read are reported as unknown.
pub(super) struct MapReader<'n> {
    node: &'n YamlNode,
    entries: &'n [YamlEntry],
    context: &'static str,
    /// Keys that have been read. A misspelled key is compared with these.
    read_keys: Vec<&'static str>,
    /// Keys that were reported in another way. They are never suggested.
    reported_keys: Vec<&'static str>,
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
        Some(Self { node, entries, context, read_keys: Vec::new(), reported_keys: Vec::new() })
    }

    /// Returns the entry of a key, treating null as absent.
    pub(super) fn take_entry(&mut self, key: &'static str) -> Option<&'n YamlEntry> {
        self.take_nullable(key).filter(|entry| !entry.value.is_null())
    }

    /// Returns the entry of a key, including null.
    pub(super) fn take_nullable(&mut self, key: &'static str) -> Option<&'n YamlEntry> {
        self.read_keys.push(key);
        self.find_entry(key)
    }

    /// Returns the entry of a key that the caller reports.
    pub(super) fn take_unsupported(&mut self, key: &'static str) -> Option<&'n YamlEntry> {
        self.reported_keys.push(key);
        self.find_entry(key)
    }

    fn find_entry(&self, key: &str) -> Option<&'n YamlEntry> {
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

    /// Reads the value of a key.
    pub(super) fn read<T: ReadValue>(
        &mut self,
        sink: &mut DiagnosticSink<'_>,
        key: &'static str,
    ) -> Option<T> {
        self.take_entry(key).and_then(|entry| T::read_value(sink, key, &entry.value))
    }

    /// Reads the value of a required key.
    pub(super) fn require<T: ReadValue>(
        &mut self,
        sink: &mut DiagnosticSink<'_>,
        key: &'static str,
    ) -> Option<T> {
        self.require_entry(sink, key).and_then(|entry| T::read_value(sink, key, &entry.value))
    }

    /// True if a key has been read.
    pub(super) fn has_read(&self, key: &str) -> bool {
        self.read_keys.contains(&key)
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
            if let Some(entry) = self.take_unsupported(key) {
                report_no_effect(sink, entry);
            }
        }
    }

    /// Returns the entries that have not been read.
    pub(super) fn unread_entries(&self) -> impl Iterator<Item = &'n YamlEntry> {
        let is_read =
            |key: &str| self.read_keys.iter().chain(&self.reported_keys).any(|k| *k == key);
        self.entries.iter().filter(move |entry| !is_read(&entry.key))
    }

    /// Reports an entry whose key is neither read nor one of `others`.
    pub(super) fn report_unknown_key(
        &self,
        sink: &mut DiagnosticSink<'_>,
        context: &str,
        entry: &YamlEntry,
        others: impl IntoIterator<Item = &'static str>,
    ) {
        let nearest = nearest_name(&entry.key, self.read_keys.iter().copied().chain(others));
        report_unknown_key(sink, context, entry, nearest);
    }

    /// Reports the entries that have not been read.
    pub(super) fn report_unread(self, sink: &mut DiagnosticSink<'_>) {
        for entry in self.unread_entries() {
            self.report_unknown_key(sink, self.context, entry, []);
        }
    }
}

/// Maximum length of a key for which only one edit counts as a misspelling. Two edits make many short
/// words into others, such as `note` into `name`.
const MAX_SHORT_KEY_LEN: usize = 5;

/// Reports a key that is not part of the language. A key that is close to a known one is an error,
/// because it was meant to have an effect.
pub(super) fn report_unknown_key(
    sink: &mut DiagnosticSink<'_>,
    context: &str,
    entry: &YamlEntry,
    nearest: Option<&str>,
) {
    let is_misspelled = nearest.is_some_and(|name| {
        entry.key.len() > MAX_SHORT_KEY_LEN || nearest_name_within(1, &entry.key, [name]).is_some()
    });
    let code = if is_misspelled { Code::NP022 } else { Code::NP010 };
    let message = format!("unknown key '{}' in {context}", entry.key);
    sink.add_with_suggestion(code, entry.key_span, message, nearest);
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

/// Numbers and bools are accepted as written, because `version: 1.10` means a string.
impl ReadValue for Arc<str> {
    fn read_value(sink: &mut DiagnosticSink<'_>, key: &str, node: &YamlNode) -> Option<Self> {
        match &node.value {
            NodeValue::Text(text) => Some(Arc::clone(text)),
            NodeValue::Plain(Json::Null) | NodeValue::List(_) | NodeValue::Map(_) => {
                report_wrong_type(sink, key, "text", node);
                None
            }
            NodeValue::Plain(_) => {
                let written =
                    sink.source.text().get(node.span.start as usize..node.span.end as usize);
                Some(written.unwrap_or_default().into())
            }
        }
    }
}

impl<T: ReadValue> ReadValue for Spanned<T> {
    fn read_value(sink: &mut DiagnosticSink<'_>, key: &str, node: &YamlNode) -> Option<Self> {
        T::read_value(sink, key, node).map(|value| Self::new(value, node.span))
    }
}

impl<T: ReadValue> ReadValue for Option<T> {
    fn read_value(sink: &mut DiagnosticSink<'_>, key: &str, node: &YamlNode) -> Option<Self> {
        T::read_value(sink, key, node).map(Some)
    }
}

impl ReadValue for bool {
    fn read_value(sink: &mut DiagnosticSink<'_>, key: &str, node: &YamlNode) -> Option<Self> {
        if let NodeValue::Plain(Json::Bool(value)) = &node.value {
            return Some(*value);
        }
        report_wrong_type(sink, key, "a bool", node);
        None
    }
}

/// A count is at least 1.
impl ReadValue for u32 {
    fn read_value(sink: &mut DiagnosticSink<'_>, key: &str, node: &YamlNode) -> Option<Self> {
        read_integer(sink, key, node, 1..=i64::from(Self::MAX))
            .and_then(|value| Self::try_from(value).ok())
    }
}

/// A count is at least 1.
impl ReadValue for u64 {
    fn read_value(sink: &mut DiagnosticSink<'_>, key: &str, node: &YamlNode) -> Option<Self> {
        read_integer(sink, key, node, 1..=i64::MAX).and_then(|value| Self::try_from(value).ok())
    }
}

/// Reads an integer in a range. Reports values out of range.
pub(super) fn read_integer(
    sink: &mut DiagnosticSink<'_>,
    key: &str,
    node: &YamlNode,
    range: RangeInclusive<i64>,
) -> Option<i64> {
    let NodeValue::Plain(Json::Int(value)) = &node.value else {
        report_wrong_type(sink, key, "an integer", node);
        return None;
    };
    if range.contains(value) {
        return Some(*value);
    }
    let message = format!("{key} = {value} is out of range {}..{}", range.start(), range.end());
    sink.add_finding(Code::NP704, node.span, message);
    None
}

impl<T: StringEnum> ReadValue for T {
    fn read_value(sink: &mut DiagnosticSink<'_>, key: &str, node: &YamlNode) -> Option<Self> {
        read_keyword(sink, key, node, T::keywords()).and_then(|keyword| T::parse_keyword(keyword))
    }
}

/// Reads one of several keywords.
pub(super) fn read_keyword<'n>(
    sink: &mut DiagnosticSink<'_>,
    key: &str,
    node: &'n YamlNode,
    keywords: &[&str],
) -> Option<&'n Arc<str>> {
    let Some(text) = node.as_text() else {
        report_wrong_type(sink, key, &format!("one of {}", keywords.join(", ")), node);
        return None;
    };
    if keywords.contains(&&**text) {
        return Some(text);
    }
    let message = format!("'{text}' is not one of {}", keywords.join(", "));
    let nearest = nearest_name(text, keywords.iter().copied());
    sink.add_with_suggestion(Code::NP011, node.span, message, nearest);
    None
}

/// A duration is a string such as `30s`, or a number of seconds.
impl ReadValue for Millis {
    fn read_value(sink: &mut DiagnosticSink<'_>, _: &str, node: &YamlNode) -> Option<Self> {
        let hint = "write 500ms, 30s, 5m, 2h, 1d or a number of seconds";
        read_quantity(sink, node, "duration", hint, |text| Self::parse(text).ok())
    }
}

/// A size is a number of bytes, or a string such as `64KiB`.
impl ReadValue for ByteSize {
    fn read_value(sink: &mut DiagnosticSink<'_>, _: &str, node: &YamlNode) -> Option<Self> {
        let hint = "write a number of bytes, 64KiB, 1MiB or 2GiB";
        read_quantity(sink, node, "size", hint, |text| Self::parse(text).ok())
    }
}

fn read_quantity<T>(
    sink: &mut DiagnosticSink<'_>,
    node: &YamlNode,
    noun: &str,
    hint: &str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Option<T> {
    let text = display_scalar(node);
    let is_scalar = matches!(node.value, NodeValue::Text(_) | NodeValue::Plain(_));
    let quantity = if is_scalar { parse(&text) } else { None };
    if quantity.is_none() {
        sink.add_with_hint(Code::NP012, node.span, format!("'{text}' is not a {noun}"), hint);
    }
    quantity
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

/// A single string is accepted as a list of one.
impl ReadValue for Vec<Spanned<Arc<str>>> {
    fn read_value(sink: &mut DiagnosticSink<'_>, key: &str, node: &YamlNode) -> Option<Self> {
        let mut texts = Self::new();
        for item in node.as_list().unwrap_or(std::slice::from_ref(node)) {
            if let Some(text) = item.as_text() {
                texts.push(Spanned::new(Arc::clone(text), item.span));
            } else {
                report_wrong_type(sink, key, "a list of strings", item);
            }
        }
        Some(texts)
    }
}

/// Reads a list of strings. A single string is accepted as a list of one.
pub(super) fn read_texts(
    sink: &mut DiagnosticSink<'_>,
    key: &str,
    node: &YamlNode,
) -> Vec<Arc<str>> {
    let texts = Vec::<Spanned<Arc<str>>>::read_value(sink, key, node).unwrap_or_default();
    texts.into_iter().map(|text| text.value).collect()
}

/// Reads a list of maps. Items that cannot be read are omitted.
pub(super) fn read_items<T: ReadValue>(
    sink: &mut DiagnosticSink<'_>,
    key: &str,
    node: &YamlNode,
) -> Option<Vec<T>> {
    let items = read_list(sink, key, node)?;
    Some(items.iter().filter_map(|item| T::read_value(sink, key, item)).collect())
}

/// Reads a list.
pub(super) fn read_list<'n>(
    sink: &mut DiagnosticSink<'_>,
    key: &str,
    node: &'n YamlNode,
) -> Option<&'n [YamlNode]> {
    let items = node.as_list();
    if items.is_none() {
        report_wrong_type(sink, key, "a list", node);
    }
    items
}

/// True if a text is a name: a letter or underscore, followed by letters, digits, underscores and
/// these separators.
pub(super) fn is_name(text: &str, separators: &[char]) -> bool {
    let mut chars = text.chars();
    let has_valid_start = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    has_valid_start
        && text.len() <= 128
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_' || separators.contains(&c))
}

/// Separators in the names of steps and tasks.
pub(super) const NAME_SEPARATORS: [char; 2] = ['-', '/'];

/// Reads a name with its position. Reports anything else.
pub(super) fn read_name(
    sink: &mut DiagnosticSink<'_>,
    key: &str,
    node: &YamlNode,
) -> Option<Spanned<Arc<str>>> {
    let name = Spanned::<Arc<str>>::read_value(sink, key, node)?;
    if is_name(&name, &NAME_SEPARATORS) {
        return Some(name);
    }
    let message = format!("'{}' is not a valid name", name.value);
    let hint =
        "a name has at most 128 letters, digits, '_', '-' and '/', and starts with a letter or '_'";
    sink.add_with_hint(Code::NP013, node.span, message, hint);
    None
}

//! Reading maps and scalars: what is wrong is reported, what is right comes out typed.

use std::sync::Arc;

use noetl_types::time::Millis;
use noetl_types::{ByteSize, Json};

use crate::diag::{Code, Sink, near};
use crate::source::Spanned;
use crate::words::Word;
use crate::yaml::{Entry, Node, NodeValue};

/// A map whose keys are asked for one by one; what nobody asked for is unknown.
pub(super) struct MapReader<'n> {
    node: &'n Node,
    entries: &'n [Entry],
    place: &'static str,
    asked: Vec<&'static str>,
}

impl<'n> MapReader<'n> {
    /// Opens a map; anything else is reported under `key`.
    pub(super) fn open(
        sink: &mut Sink<'_>,
        key: &str,
        place: &'static str,
        node: &'n Node,
    ) -> Option<Self> {
        let Some(entries) = node.as_map() else {
            wrong_type(sink, key, "a map", node);
            return None;
        };
        Some(Self {
            node,
            entries,
            place,
            asked: Vec::new(),
        })
    }

    /// The entry of a key, with null standing for absence.
    pub(super) fn take(&mut self, key: &'static str) -> Option<&'n Entry> {
        self.take_raw(key).filter(|entry| !entry.value.is_null())
    }

    /// The entry of a key, null included.
    pub(super) fn take_raw(&mut self, key: &'static str) -> Option<&'n Entry> {
        self.asked.push(key);
        self.entries.iter().find(|entry| &*entry.key == key)
    }

    /// The value of a key that must be there.
    pub(super) fn require(&mut self, sink: &mut Sink<'_>, key: &'static str) -> Option<&'n Entry> {
        let entry = self.take(key);
        if entry.is_none() {
            let message = format!("{} lacks required key '{key}'", self.place);
            sink.add(Code::NP005, self.node.head(), message);
        }
        entry
    }

    /// Marks keys as known without reading them.
    pub(super) fn know(&mut self, keys: impl IntoIterator<Item = &'static str>) {
        self.asked.extend(keys);
    }

    /// The entries that nobody has asked for.
    pub(super) fn rest(&self) -> impl Iterator<Item = &'n Entry> {
        self.entries
            .iter()
            .filter(|entry| !self.asked.contains(&&*entry.key))
    }

    /// Reports what nobody asked for.
    pub(super) fn finish(self, sink: &mut Sink<'_>) {
        for entry in self.rest() {
            let near = near(&entry.key, self.asked.iter().copied());
            let message = format!("unknown key '{}' in {}", entry.key, self.place);
            sink.misspelt(Code::NP010, entry.key_span, message, near);
        }
    }
}

/// Reports a value of the wrong type.
pub(super) fn wrong_type(sink: &mut Sink<'_>, key: &str, wanted: &str, node: &Node) {
    let message = format!("'{key}' must be {wanted}, found {}", node.type_name());
    sink.add(Code::NP006, node.span, message);
}

/// A text. Numbers and bools are taken as they are written, since `version: 1.10` means a text.
pub(super) fn text(sink: &mut Sink<'_>, entry: &Entry) -> Option<Arc<str>> {
    match &entry.value.value {
        NodeValue::Text(text) => Some(Arc::clone(text)),
        NodeValue::Plain(Json::Null) | NodeValue::List(_) | NodeValue::Map(_) => {
            wrong_type(sink, &entry.key, "text", &entry.value);
            None
        }
        NodeValue::Plain(_) => {
            let span = entry.value.span;
            let written = sink
                .source
                .text()
                .get(span.start as usize..span.end as usize);
            Some(written.unwrap_or_default().into())
        }
    }
}

/// A text with its place.
pub(super) fn spanned_text(sink: &mut Sink<'_>, entry: &Entry) -> Option<Spanned<Arc<str>>> {
    text(sink, entry).map(|text| Spanned::new(text, entry.value.span))
}

/// A bool.
pub(super) fn bool(sink: &mut Sink<'_>, entry: &Entry) -> Option<bool> {
    if let NodeValue::Plain(Json::Bool(value)) = &entry.value.value {
        return Some(*value);
    }
    wrong_type(sink, &entry.key, "a bool", &entry.value);
    None
}

/// A whole number in a range; outside of it is reported as such.
pub(super) fn integer(
    sink: &mut Sink<'_>,
    entry: &Entry,
    range: std::ops::RangeInclusive<i64>,
) -> Option<i64> {
    let NodeValue::Plain(Json::Int(value)) = &entry.value.value else {
        wrong_type(sink, &entry.key, "a whole number", &entry.value);
        return None;
    };
    if range.contains(value) {
        return Some(*value);
    }
    let message = format!(
        "{} = {value} is out of range {}..{}",
        entry.key,
        range.start(),
        range.end()
    );
    sink.add(Code::NP704, entry.value.span, message);
    None
}

/// A whole number that is not negative and fits 32 bits.
pub(super) fn count(sink: &mut Sink<'_>, entry: &Entry, least: u32) -> Option<u32> {
    integer(sink, entry, i64::from(least)..=i64::from(u32::MAX))
        .and_then(|value| u32::try_from(value).ok())
}

/// One word of a closed set.
pub(super) fn word<W: Word>(sink: &mut Sink<'_>, entry: &Entry) -> Option<W> {
    let Some(text) = entry.value.as_text() else {
        wrong_type(
            sink,
            &entry.key,
            &format!("one of {}", W::words().join(", ")),
            &entry.value,
        );
        return None;
    };
    let word = W::from_word(text);
    if word.is_none() {
        not_a_word(sink, &entry.value, text, W::words());
    }
    word
}

/// Reports a word that is not in its set.
pub(super) fn not_a_word(sink: &mut Sink<'_>, node: &Node, text: &str, words: &[&str]) {
    let message = format!("'{text}' is not one of {}", words.join(", "));
    let near = near(text, words.iter().copied());
    sink.misspelt(Code::NP011, node.span, message, near);
}

/// A duration: a text such as `30s`, or a number of seconds.
pub(super) fn duration(sink: &mut Sink<'_>, node: &Node) -> Option<Millis> {
    let read = match &node.value {
        NodeValue::Text(text) => Millis::parse(text).ok(),
        NodeValue::Plain(json) => Millis::parse(&json.to_string()).ok(),
        NodeValue::List(_) | NodeValue::Map(_) => None,
    };
    if read.is_none() {
        let message = format!("'{}' is not a duration", written(node));
        sink.hinted(
            Code::NP012,
            node.span,
            message,
            "write 500ms, 30s, 5m, 2h, 1d or a number of seconds",
        );
    }
    read
}

/// A size: a number of bytes, or a text such as `64KiB`.
pub(super) fn size(sink: &mut Sink<'_>, node: &Node) -> Option<ByteSize> {
    let read = match &node.value {
        NodeValue::Text(text) => ByteSize::parse(text).ok(),
        NodeValue::Plain(json) => ByteSize::parse(&json.to_string()).ok(),
        NodeValue::List(_) | NodeValue::Map(_) => None,
    };
    if read.is_none() {
        let message = format!("'{}' is not a size", written(node));
        sink.hinted(
            Code::NP012,
            node.span,
            message,
            "write a number of bytes, 64KiB, 1MiB or 2GiB",
        );
    }
    read
}

fn written(node: &Node) -> String {
    match &node.value {
        NodeValue::Text(text) => text.to_string(),
        NodeValue::Plain(json) => json.to_string(),
        NodeValue::List(_) => "a list".to_owned(),
        NodeValue::Map(_) => "a map".to_owned(),
    }
}

/// A list of texts; a single text stands for a list of one.
pub(super) fn texts(sink: &mut Sink<'_>, entry: &Entry) -> Vec<Arc<str>> {
    if let Some(text) = entry.value.as_text() {
        return vec![Arc::clone(text)];
    }
    let Some(items) = entry.value.as_list() else {
        wrong_type(sink, &entry.key, "a list of texts", &entry.value);
        return Vec::new();
    };
    let mut texts = Vec::with_capacity(items.len());
    for item in items {
        if let Some(text) = item.as_text() {
            texts.push(Arc::clone(text));
        } else {
            wrong_type(sink, &entry.key, "a list of texts", item);
        }
    }
    texts
}

/// The items of a list.
pub(super) fn list<'n>(sink: &mut Sink<'_>, entry: &'n Entry) -> Option<&'n [Node]> {
    let items = entry.value.as_list();
    if items.is_none() {
        wrong_type(sink, &entry.key, "a list", &entry.value);
    }
    items
}

/// Whether a text is a name: a letter or underscore, then letters, digits, underscores, hyphens.
pub(super) fn is_name(text: &str, hyphens: bool) -> bool {
    let mut chars = text.chars();
    let starts = chars
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    starts
        && text.len() <= 128
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_' || (hyphens && c == '-'))
}

/// A name with its place; anything else is reported.
pub(super) fn name(sink: &mut Sink<'_>, entry: &Entry, hyphens: bool) -> Option<Spanned<Arc<str>>> {
    let name = spanned_text(sink, entry)?;
    if is_name(&name, hyphens) {
        return Some(name);
    }
    let message = format!("'{}' is not a valid name", name.value);
    let allowed = if hyphens {
        "letters, digits, '_' and '-'"
    } else {
        "letters, digits and '_'"
    };
    let hint = format!("a name has at most 128 {allowed}, and starts with a letter or '_'");
    sink.hinted(Code::NP013, entry.value.span, message, hint);
    None
}

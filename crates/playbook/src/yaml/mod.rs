//! YAML parsing with source positions: converts a text to a tree of nodes with spans.
//!
//! Owns the limits of a document (size, nodes after alias expansion, depth), the scalars of the
//! core schema, merge keys and duplicate keys. Independent of the playbook language.

mod load;
mod scalar;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use noetl_types::{Json, JsonMap};

use crate::source::Span;

pub(crate) use load::{YamlError, load_yaml};

/// Maximum size of a document in bytes.
pub const MAX_DOCUMENT_BYTES: usize = 1024 * 1024;
/// Maximum number of nodes of a document, after alias expansion.
pub const MAX_NODES: usize = 100_000;
/// Maximum nesting depth of a document.
pub const MAX_DEPTH: usize = 64;

/// Converts a document to a plain value without positions. Returns `None` if the text is not valid
/// YAML.
pub fn to_json(text: &str) -> Option<Json> {
    let (root, errors) = load_yaml(text);
    root.filter(|_| errors.is_empty()).map(|root| root.to_json())
}

/// A value and its position.
#[derive(Debug, Clone)]
pub(crate) struct YamlNode {
    pub(crate) span: Span,
    pub(crate) value: NodeValue,
}

/// The value of a node.
#[derive(Debug, Clone)]
pub(crate) enum NodeValue {
    /// Null, a bool or a number.
    Plain(Json),
    Text(Arc<str>),
    List(Vec<YamlNode>),
    Map(Vec<YamlEntry>),
}

/// A key and its value.
#[derive(Debug, Clone)]
pub(crate) struct YamlEntry {
    pub(crate) key: Arc<str>,
    pub(crate) key_span: Span,
    pub(crate) value: YamlNode,
}

impl YamlNode {
    /// Converts the value to JSON, without positions.
    pub(crate) fn to_json(&self) -> Json {
        match &self.value {
            NodeValue::Plain(json) => json.clone(),
            NodeValue::Text(text) => Json::Str(Arc::clone(text)),
            NodeValue::List(items) => items.iter().map(Self::to_json).collect::<Vec<_>>().into(),
            NodeValue::Map(entries) => entries
                .iter()
                .map(|entry| (Arc::clone(&entry.key), entry.value.to_json()))
                .collect::<JsonMap>()
                .into(),
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self.value, NodeValue::Plain(Json::Null))
    }

    pub(crate) fn as_text(&self) -> Option<&Arc<str>> {
        if let NodeValue::Text(text) = &self.value { Some(text) } else { None }
    }

    pub(crate) fn as_map(&self) -> Option<&[YamlEntry]> {
        if let NodeValue::Map(entries) = &self.value { Some(entries) } else { None }
    }

    pub(crate) fn as_list(&self) -> Option<&[YamlNode]> {
        if let NodeValue::List(items) = &self.value { Some(items) } else { None }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&YamlNode> {
        self.as_map()?.iter().find(|entry| &*entry.key == key).map(|entry| &entry.value)
    }

    /// Returns the name of the type, as used in messages.
    pub(crate) fn type_name(&self) -> &'static str {
        match &self.value {
            NodeValue::Plain(json) => json.type_name(),
            NodeValue::Text(_) => "text",
            NodeValue::List(_) => "list",
            NodeValue::Map(_) => "map",
        }
    }

    /// Returns the position for a diagnostic about the whole value: the first key of a map, else
    /// the value itself.
    pub(crate) fn head_span(&self) -> Span {
        match &self.value {
            NodeValue::Map(entries) => entries.first().map_or(self.span, |entry| entry.key_span),
            NodeValue::Plain(_) | NodeValue::Text(_) | NodeValue::List(_) => self.span,
        }
    }
}

/// Returns the path of the innermost entry at an offset, such as `workflow[2].tool.spec`.
pub(crate) fn path_at(root: &YamlNode, offset: u32) -> String {
    let mut path = String::new();
    let mut node = root;
    loop {
        let next = match &node.value {
            NodeValue::Plain(_) | NodeValue::Text(_) => None,
            NodeValue::List(items) => items
                .iter()
                .enumerate()
                .find(|(_, item)| item.span.touches_offset(offset))
                .map(|(index, item)| (format!("[{index}]"), item)),
            NodeValue::Map(entries) => entries
                .iter()
                .find(|entry| {
                    entry.key_span.touches_offset(offset) || entry.value.span.touches_offset(offset)
                })
                .map(|entry| {
                    let dot = if path.is_empty() { "" } else { "." };
                    (format!("{dot}{}", entry.key), &entry.value)
                }),
        };
        let Some((segment, child)) = next else {
            return path;
        };
        path.push_str(&segment);
        node = child;
    }
}

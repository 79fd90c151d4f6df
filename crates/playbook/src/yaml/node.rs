//! The tree.

use std::sync::Arc;

use noetl_types::{Json, JsonMap};

use crate::source::Span;

/// A value and its place.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) span: Span,
    pub(crate) value: NodeValue,
}

/// What a node holds.
#[derive(Debug, Clone)]
pub(crate) enum NodeValue {
    /// Null, a bool or a number.
    Plain(Json),
    Text(Arc<str>),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A key with its value.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: Arc<str>,
    pub(crate) key_span: Span,
    pub(crate) value: Node,
}

impl Node {
    /// The value without its places.
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
        if let NodeValue::Text(text) = &self.value {
            Some(text)
        } else {
            None
        }
    }

    pub(crate) fn as_map(&self) -> Option<&[Entry]> {
        if let NodeValue::Map(entries) = &self.value {
            Some(entries)
        } else {
            None
        }
    }

    pub(crate) fn as_list(&self) -> Option<&[Node]> {
        if let NodeValue::List(items) = &self.value {
            Some(items)
        } else {
            None
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        self.as_map()?
            .iter()
            .find(|entry| &*entry.key == key)
            .map(|entry| &entry.value)
    }

    /// What a person calls this value.
    pub(crate) fn type_name(&self) -> &'static str {
        match &self.value {
            NodeValue::Plain(json) => json.type_name(),
            NodeValue::Text(_) => "text",
            NodeValue::List(_) => "list",
            NodeValue::Map(_) => "map",
        }
    }

    /// Where a diagnostic about the whole value points: the first key of a map, else its start.
    pub(crate) fn head(&self) -> Span {
        match &self.value {
            NodeValue::Map(entries) => entries.first().map_or(self.span, |entry| entry.key_span),
            NodeValue::Plain(_) | NodeValue::Text(_) | NodeValue::List(_) => self.span,
        }
    }
}

/// The path of the innermost entry that stands at an offset, like `workflow[2].tool.spec`.
pub(crate) fn path_at(root: &Node, offset: u32) -> String {
    let mut path = String::new();
    let mut node = root;
    loop {
        let next = match &node.value {
            NodeValue::Plain(_) | NodeValue::Text(_) => None,
            NodeValue::List(items) => items
                .iter()
                .enumerate()
                .find(|(_, item)| item.span.touches(offset))
                .map(|(index, item)| (format!("[{index}]"), item)),
            NodeValue::Map(entries) => entries
                .iter()
                .find(|entry| entry.key_span.touches(offset) || entry.value.span.touches(offset))
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

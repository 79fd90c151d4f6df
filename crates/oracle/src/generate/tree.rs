//! A document as a tree that can be pruned, and its text.

use std::fmt::Write as _;

use noetl_playbook::model::Playbook;
use noetl_playbook::{CheckOptions, Document, Severity, check};
use noetl_types::Json;

/// A part of a document; maps keep the order in which they are written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    /// A value that is written as it is, in flow style.
    Value(Json),
    /// A list in block style.
    List(Vec<Node>),
    /// A map in block style.
    Map(Vec<(String, Node)>),
}

impl Node {
    /// A text.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Value(Json::from(text.into()))
    }

    /// A map of these entries.
    pub(crate) fn map<K: Into<String>>(entries: impl IntoIterator<Item = (K, Self)>) -> Self {
        Self::Map(
            entries
                .into_iter()
                .map(|(key, value)| (key.into(), value))
                .collect(),
        )
    }

    /// What a map has under a key.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Map(entries) => entries
                .iter()
                .find(|(name, _)| name == key)
                .map(|(_, value)| value),
            Self::Value(_) | Self::List(_) => None,
        }
    }

    /// Adds an entry to a map.
    pub(crate) fn push(&mut self, key: &str, value: Self) {
        if let Self::Map(entries) = self {
            entries.push((key.to_owned(), value));
        }
    }

    /// The text, if this is one.
    pub(crate) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Value(value) => value.as_str(),
            Self::List(_) | Self::Map(_) => None,
        }
    }
}

impl<T: Into<Json>> From<T> for Node {
    fn from(value: T) -> Self {
        Self::Value(value.into())
    }
}

/// A playbook that was generated, before it is text.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft(pub(crate) Node);

impl Draft {
    /// The document as YAML.
    pub fn text(&self) -> String {
        let mut text = String::new();
        write_node(&mut text, &self.0, 0);
        text
    }

    /// The playbook, if the checker has nothing against the text.
    pub fn playbook(&self) -> Option<Playbook> {
        let checked = check(&self.text(), &CheckOptions::default());
        if checked.count(Severity::Error) > 0 {
            return None;
        }
        match checked.document? {
            Document::Playbook(playbook) => Some(*playbook),
            Document::Subscription(_) | Document::Schedule(_) | Document::Other(_) => None,
        }
    }
}

fn write_node(out: &mut String, node: &Node, indent: usize) {
    match node {
        Node::Value(value) => {
            let _ = writeln!(out, "{}", scalar(value));
        }
        Node::List(items) if items.is_empty() => out.push_str("[]\n"),
        Node::Map(entries) if entries.is_empty() => out.push_str("{}\n"),
        Node::List(items) => {
            for (at, item) in items.iter().enumerate() {
                // The first line of a nested block stands on the line of its dash.
                if at > 0 {
                    pad(out, indent);
                }
                out.push_str("- ");
                write_node(out, item, indent + 2);
            }
        }
        Node::Map(entries) => {
            for (at, (key, value)) in entries.iter().enumerate() {
                if at > 0 {
                    pad(out, indent);
                }
                let _ = write!(out, "{}:", scalar(&Json::from(key.as_str())));
                match value {
                    Node::Value(_) => out.push(' '),
                    Node::List(items) if items.is_empty() => out.push(' '),
                    Node::Map(entries) if entries.is_empty() => out.push(' '),
                    Node::List(_) | Node::Map(_) => {
                        out.push('\n');
                        pad(out, indent + 2);
                    }
                }
                write_node(out, value, indent + 2);
            }
        }
    }
}

fn pad(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
}

/// JSON is YAML; a text that cannot be mistaken for anything else goes without quotes.
fn scalar(value: &Json) -> String {
    match value.as_str() {
        Some(text) if is_plain(text) => text.to_owned(),
        Some(_) | None => value.to_string(),
    }
}

fn is_plain(text: &str) -> bool {
    const WORDS: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let mut chars = text.chars();
    chars
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic())
        && chars.all(|rest| rest.is_ascii_alphanumeric() || matches!(rest, '_' | '.' | '/'))
        && !WORDS.contains(&text.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_nested_and_texts_quoted_where_needed() {
        let inner = Node::map([("step", Node::text("a")), ("when", Node::text("{{ x }}"))]);
        let tree = Node::map([
            ("kind", Node::text("Playbook")),
            (
                "list",
                Node::List(vec![
                    inner,
                    Node::List(vec![Node::from(1), Node::from(true)]),
                ]),
            ),
            ("none", Node::List(Vec::new())),
            (
                "flow",
                Node::Value(Json::object([("n", Json::from("yes"))])),
            ),
        ]);
        let text = "\
kind: Playbook
list:
  - step: a
    when: \"{{ x }}\"
  - - 1
    - true
none: []
flow: {\"n\":\"yes\"}
";
        assert_eq!(Draft(tree).text(), text);
    }
}

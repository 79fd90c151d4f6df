//! Document tree of a generated playbook, which can be pruned and printed as YAML.

use std::fmt::Write as _;

use noetl_playbook::model::Playbook;
use noetl_playbook::{CheckOptions, Document, Severity, check};
use noetl_types::Json;

/// Part of a document. Maps keep the order in which they are written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum DocumentNode {
    /// A value in flow style.
    Value(Json),
    /// A list in block style.
    List(Vec<DocumentNode>),
    /// A map in block style.
    Map(Vec<(String, DocumentNode)>),
}

impl DocumentNode {
    pub(crate) fn from_text(text: impl Into<String>) -> Self {
        Self::Value(Json::from(text.into()))
    }

    pub(crate) fn from_entries<K: Into<String>>(
        entries: impl IntoIterator<Item = (K, Self)>,
    ) -> Self {
        Self::Map(entries.into_iter().map(|(key, value)| (key.into(), value)).collect())
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Map(entries) => {
                entries.iter().find(|(name, _)| name == key).map(|(_, value)| value)
            }
            Self::Value(_) | Self::List(_) => None,
        }
    }

    pub(crate) fn push(&mut self, key: &str, value: Self) {
        if let Self::Map(entries) = self {
            entries.push((key.to_owned(), value));
        }
    }

    pub(crate) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Value(value) => value.as_str(),
            Self::List(_) | Self::Map(_) => None,
        }
    }
}

impl<T: Into<Json>> From<T> for DocumentNode {
    fn from(value: T) -> Self {
        Self::Value(value.into())
    }
}

/// A generated playbook as a document tree.
#[derive(Debug, Clone, PartialEq)]
pub struct PlaybookDraft(pub(crate) DocumentNode);

impl PlaybookDraft {
    /// Prints the document as YAML.
    pub fn to_yaml(&self) -> String {
        let mut text = String::new();
        write_node(&mut text, &self.0, 0);
        text
    }

    /// Parses the playbook. Returns `None` if the checker reports an error.
    pub fn to_playbook(&self) -> Option<Playbook> {
        let checked = check(&self.to_yaml(), &CheckOptions::default());
        if checked.count_severity(Severity::Error) > 0 {
            return None;
        }
        match checked.document? {
            Document::Playbook(playbook) => Some(*playbook),
            Document::Other(_) => None,
        }
    }
}

fn write_node(out: &mut String, node: &DocumentNode, indent: usize) {
    match node {
        DocumentNode::Value(value) => {
            let _ = writeln!(out, "{}", format_scalar(value));
        }
        DocumentNode::List(items) if items.is_empty() => out.push_str("[]\n"),
        DocumentNode::Map(entries) if entries.is_empty() => out.push_str("{}\n"),
        DocumentNode::List(items) => {
            for (index, item) in items.iter().enumerate() {
                // The first line of a nested block is on the line of its dash.
                if index > 0 {
                    push_indent(out, indent);
                }
                out.push_str("- ");
                write_node(out, item, indent + 2);
            }
        }
        DocumentNode::Map(entries) => {
            for (index, (key, value)) in entries.iter().enumerate() {
                if index > 0 {
                    push_indent(out, indent);
                }
                let _ = write!(out, "{}:", format_scalar(&Json::from(key.as_str())));
                match value {
                    DocumentNode::Value(_) => out.push(' '),
                    DocumentNode::List(items) if items.is_empty() => out.push(' '),
                    DocumentNode::Map(entries) if entries.is_empty() => out.push(' '),
                    DocumentNode::List(_) | DocumentNode::Map(_) => {
                        out.push('\n');
                        push_indent(out, indent + 2);
                    }
                }
                write_node(out, value, indent + 2);
            }
        }
    }
}

fn push_indent(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
}

/// Prints a scalar. JSON is valid YAML, and plain texts need no quotes.
fn format_scalar(value: &Json) -> String {
    match value.as_str() {
        Some(text) if is_plain(text) => text.to_owned(),
        Some(_) | None => value.to_string(),
    }
}

fn is_plain(text: &str) -> bool {
    const AMBIGUOUS_SCALARS: [&str; 9] =
        ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic())
        && chars.all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/'))
        && !AMBIGUOUS_SCALARS.contains(&text.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nests_blocks_and_quotes_ambiguous_text() {
        let inner = DocumentNode::from_entries([
            ("step", DocumentNode::from_text("a")),
            ("when", DocumentNode::from_text("{{ x }}")),
        ]);
        let tree = DocumentNode::from_entries([
            ("kind", DocumentNode::from_text("Playbook")),
            (
                "list",
                DocumentNode::List(vec![
                    inner,
                    DocumentNode::List(vec![DocumentNode::from(1), DocumentNode::from(true)]),
                ]),
            ),
            ("none", DocumentNode::List(Vec::new())),
            ("flow", DocumentNode::Value(Json::object([("n", Json::from("yes"))]))),
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
        assert_eq!(PlaybookDraft(tree).to_yaml(), text);
    }
}

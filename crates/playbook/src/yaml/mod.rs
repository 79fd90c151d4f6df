//! YAML parsing with source positions: converts a text to a tree of nodes with spans.
//!
//! Owns the limits of a document (size, nodes after alias expansion, depth), the scalars of the
//! core schema, merge keys and duplicate keys. Independent of the playbook language.

mod load;
mod node;
mod scalar;
#[cfg(test)]
mod tests;

pub(crate) use load::{YamlError, load_yaml};
pub(crate) use node::{NodeValue, YamlEntry, YamlNode, path_at};

/// Maximum size of a document in bytes.
pub const MAX_DOCUMENT_BYTES: usize = 1024 * 1024;
/// Maximum number of nodes of a document, after alias expansion.
pub const MAX_NODES: usize = 100_000;
/// Maximum nesting depth of a document.
pub const MAX_DEPTH: usize = 64;

/// Converts a document to a plain value without positions. Returns `None` if the text is not valid
/// YAML.
pub fn to_json(text: &str) -> Option<noetl_types::Json> {
    let (root, errors) = load_yaml(text);
    root.filter(|_| errors.is_empty()).map(|root| root.to_json())
}

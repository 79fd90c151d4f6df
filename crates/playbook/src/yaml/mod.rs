//! YAML with its places kept: text in, a tree of nodes with spans out.
//!
//! Owns the bounds of a document (size, nodes after alias expansion, depth), the core schema's
//! scalars, merge keys and duplicate keys. Knows nothing of playbooks.

mod load;
mod node;
mod scalar;
#[cfg(test)]
mod tests;

pub(crate) use load::{YamlFault, load};
pub(crate) use node::{Entry, Node, NodeValue, path_at};

/// Bytes of a document.
pub const MAX_DOCUMENT_BYTES: usize = 1024 * 1024;
/// Nodes of a document, aliases expanded.
pub const MAX_NODES: usize = 100_000;
/// Levels of nesting.
pub const MAX_DEPTH: usize = 64;

/// The plain value of a document, without its places; `None` where the text is not YAML.
pub fn to_json(text: &str) -> Option<noetl_types::Json> {
    let (root, faults) = load(text);
    root.filter(|_| faults.is_empty())
        .map(|root| root.to_json())
}

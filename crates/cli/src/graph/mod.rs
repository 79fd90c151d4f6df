//! Drawings of playbooks.
//!
//! [`FlowGraph`] contains the data of every drawing. `text` writes text, and `chart` writes formats of
//! other programs. Does not validate: only documents without errors are drawn.

mod chart;
mod flow;
mod plan;
mod rows;
mod text;

pub(crate) use chart::{draw_dot, draw_mermaid};
pub(crate) use flow::FlowGraph;
pub(crate) use text::{DrawOptions, draw_text};

#[cfg(test)]
mod tests;

//! Drawings of playbooks.
//!
//! [`FlowGraph`] contains the data of every drawing. `text`, `mermaid` and `dot` each write one
//! format. Does not validate: only documents without errors are drawn.

mod dot;
mod flow;
mod mermaid;
mod plan;
mod text;

pub(crate) use dot::draw_dot;
pub(crate) use flow::FlowGraph;
pub(crate) use mermaid::draw_mermaid;
pub(crate) use text::{DrawOptions, draw_text};

#[cfg(test)]
mod tests;

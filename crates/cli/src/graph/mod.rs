//! Playbooks as drawings.
//!
//! [`Flow`] holds what every drawing shows; `text`, `mermaid` and `dot` each write it in one form.
//! Whether a document is sound is not decided here: only documents without errors are drawn.

mod dot;
mod flow;
mod mermaid;
mod plan;
mod text;

pub(crate) use dot::dot;
pub(crate) use flow::Flow;
pub(crate) use mermaid::mermaid;
pub(crate) use text::{Look, text};

#[cfg(test)]
mod tests;

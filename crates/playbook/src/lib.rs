//! The playbook language: from YAML to a typed model, with errors that teach.
//!
//! Owns the syntax of the language, its diagnostics, its templates, its JSON Schema, and what the
//! tasks of a step mean on a worker. Does no I/O and knows no clock: a text comes in, a document and
//! its diagnostics come out.

pub mod bounds;
pub mod carried;
pub mod diag;
pub mod gather;
pub mod graph;
pub mod model;
pub mod paths;
pub mod policy;
pub mod segments;
pub mod shift;
pub mod source;
pub mod template;
pub mod timeout;
pub mod timing;
pub mod words;

mod check;
mod origin;
mod parse;
mod print;
mod schema;
pub mod sql;
mod yaml;

pub use check::{Checked, InputsRead, check};
pub use diag::{Code, Diagnostic, Severity};
pub use model::Document;
pub use origin::origin;
pub use parse::{CatalogNames, CheckOptions};
pub use print::to_yaml;
pub use schema::{SchemaOf, json_schema};
pub use yaml::{MAX_DEPTH, MAX_DOCUMENT_BYTES, MAX_NODES, to_json};

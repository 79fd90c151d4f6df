//! The playbook language: YAML documents, their typed model, and their diagnostics.
//!
//! Owns the syntax, diagnostics, templates and JSON Schema of the language, and the execution
//! semantics of a step's tasks on a worker. Performs no I/O and reads no clock: the input is a
//! text, the output is a document and its diagnostics.

#![warn(missing_docs)]

pub mod bounds;
pub mod command_context;
pub mod command_machine;
pub mod diag;
pub mod graph;
pub mod model;
pub mod output_data;
pub mod paths;
pub mod policy;
pub mod segments;
pub mod source;
pub mod string_enum;
pub mod template;
pub mod timeout;
pub mod value_schema;

mod check;
mod error_span;
mod parse;
mod print;
mod schema;
pub mod sql;
mod yaml;

pub use check::{CheckReport, InputsRead, check, find_references};
pub use diag::{Code, Diagnostic, Severity};
pub use error_span::find_error_span;
pub use model::Document;
pub use parse::{CatalogNames, CheckOptions};
pub use print::to_yaml;
pub use schema::json_schema;
#[doc(hidden)]
pub use schemars;
pub use yaml::{MAX_DEPTH, MAX_DOCUMENT_BYTES, MAX_NODES, to_json};

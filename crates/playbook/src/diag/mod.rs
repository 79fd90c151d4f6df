//! Diagnostics: all findings about a document, in document order.

mod codes;
mod sink;
mod suggest;

pub use codes::{Code, Severity};
pub use sink::Diagnostic;
pub(crate) use sink::DiagnosticSink;
pub(crate) use suggest::nearest_name;

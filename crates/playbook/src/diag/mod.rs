//! Diagnostics: what the checker says of a document, all of it, in document order.

mod codes;
mod near;
mod sink;

pub use codes::{Code, Severity};
pub(crate) use near::near;
pub use sink::Diagnostic;
pub(crate) use sink::Sink;

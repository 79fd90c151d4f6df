//! Error vocabulary.
//!
//! Owns the error codes of API responses, the codes of rejected rows, and the error of a failed
//! task. Maps nothing: the code that detects a failure chooses its error code.

mod code;
mod task;

pub use code::{ErrorCode, RejectCode};
pub use task::{TaskError, TaskErrorKind};

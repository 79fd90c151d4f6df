//! What can go wrong, by name.
//!
//! Owns the codes that the API answers with, the codes of refused rows, and the error that a task
//! ends with. Maps nothing: which failure gets which code is decided where the failure is known.

mod code;
mod reject;
mod task;

pub use code::ErrorCode;
pub use reject::RejectCode;
pub use task::{TaskError, TaskErrorKind};

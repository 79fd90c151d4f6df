//! Instants, months and durations.
//!
//! Owns their text forms and arithmetic. Reads no clock and supports no time zone except UTC: the
//! current time is passed as an argument.

mod civil;
mod millis;
mod month;
mod rfc3339;
mod timestamp;

pub use millis::{DurationTextError, Millis, as_ms};
pub use month::Month;
pub use rfc3339::TimestampTextError;
pub use timestamp::{Timestamp, TimestampRangeError};

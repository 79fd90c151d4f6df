//! Instants, months and durations.
//!
//! Owns their text forms and arithmetic. Reads no clock and supports no time zone except UTC: the
//! current time is passed as an argument.

mod calendar;
mod millis;
mod rfc3339;
mod timestamp;

pub use calendar::Month;
pub use millis::{DurationTextError, Millis, as_ms};
pub use rfc3339::TimestampTextError;
pub use timestamp::{Timestamp, TimestampRangeError};

//! Instants, months and durations.
//!
//! Owns their texts and their arithmetic. Reads no clock and knows no time zone but UTC: what time
//! it is comes in as an argument, from the one clock of the process.

mod civil;
mod millis;
mod month;
mod rfc3339;
mod timestamp;

pub use millis::{DurationTextError, Millis, as_ms};
pub use month::Month;
pub use rfc3339::TimestampTextError;
pub use timestamp::{Timestamp, TimestampRangeError};

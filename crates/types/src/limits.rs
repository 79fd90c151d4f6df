//! Named limits of the platform.
//!
//! A limit that is passed around is a type that only holds values within the limit. A limit that is
//! only compared against is a constant.

use std::fmt;

use crate::size::ByteSize;
use crate::time::Millis;

/// Maximum nesting depth of JSON input.
pub const MAX_JSON_DEPTH: usize = 64;

/// Maximum size of an event after its large values are moved to the result store.
pub const MAX_EVENT_SIZE: ByteSize = ByteSize::from_mib(1);

/// Maximum size of the context inside a command. A larger context is passed by reference.
pub const MAX_COMMAND_CONTEXT_SIZE: ByteSize = ByteSize::from_kib(256);

/// Maximum reports per call of a worker.
pub const MAX_REPORT_BATCH: usize = 100;

/// Maximum text of one chunk of task output.
pub const MAX_OUTPUT_CHUNK_SIZE: ByteSize = ByteSize::from_kib(16);

/// Maximum chunks of output per command and call of a worker.
pub const MAX_OUTPUT_CHUNKS: usize = 200;

/// Minimum size at which a chunk of task output counts, so that the number of chunks is limited too.
pub const MIN_OUTPUT_CHUNK_CHARGE: ByteSize = ByteSize::from_kib(1);

/// Maximum stored output from the start of an attempt. Output between it and [`OUTPUT_TAIL_SIZE`] is
/// deleted.
pub const OUTPUT_HEAD_SIZE: ByteSize = ByteSize::from_kib(768);
/// Maximum stored output from the end of an attempt.
pub const OUTPUT_TAIL_SIZE: ByteSize = ByteSize::from_kib(256);

/// Maximum size of the task output of an execution that is stored while its tasks run.
pub const MAX_EXECUTION_OUTPUT_SIZE: ByteSize = ByteSize::from_mib(64);

/// Maximum executions that one call may start.
pub const MAX_EXECUTE_BATCH: usize = 1000;

/// Maximum events per call of a worker.
pub const MAX_EVENT_BATCH: usize = 1000;

/// Maximum documents per registration call.
pub const MAX_REGISTER_BATCH: usize = 200;

/// Maximum duration of a long poll.
pub const MAX_LONG_POLL_WAIT: Millis = Millis::from_secs(30);

/// Maximum offset of a classic list. Further pages require a cursor.
pub const MAX_PAGE_OFFSET: u32 = 10_000;

/// Maximum characters of an event type.
pub const MAX_EVENT_NAME_CHARS: usize = 255;

/// Maximum characters of the last error of an outbox row.
pub const MAX_OUTBOX_ERROR_CHARS: usize = 2000;

/// Maximum time by which ids may be ahead of the clock, in a generator and in ids sent by clients.
pub const MAX_ID_AHEAD: Millis = Millis::from_secs(5);

/// Maximum time by which an event time may be ahead of the server clock before it is considered
/// implausible.
///
/// A producer that sends its local time as UTC is wrong by at most fourteen hours. A larger
/// difference means that the value is not a valid time.
pub const MAX_EVENT_TIME_AHEAD: Millis = Millis::from_days(1);

/// Error for a number outside its limits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} = {value} is out of range {min}..{max}")]
pub struct OutOfRangeError {
    /// Name of the parameter.
    pub what: &'static str,
    /// The value.
    pub value: i64,
    /// Minimum allowed value.
    pub min: i64,
    /// Maximum allowed value.
    pub max: i64,
}

/// Declares numbers with limits and a default.
macro_rules! bounded_numbers {
    ($(
        $(#[$meta:meta])*
        pub struct $name:ident($inner:ty): $what:literal,
            $min:literal..=$max:literal, default $default:literal;
    )+) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
        pub struct $name($inner);

        impl $name {
            /// The minimum.
            pub const MIN: Self = Self($min);
            /// The maximum.
            pub const MAX: Self = Self($max);

            /// Returns the value if it is within limits.
            pub fn new(value: i64) -> Result<Self, OutOfRangeError> {
                let inner = <$inner>::try_from(value).ok().filter(|it| ($min..=$max).contains(it));
                inner.map(Self).ok_or(OutOfRangeError { what: $what, value, min: $min, max: $max })
            }

            /// Returns the value, or the nearest value within limits.
            pub fn clamped(value: i64) -> Self {
                let nearest = value.clamp($min, $max);
                Self(<$inner>::try_from(nearest).unwrap_or($default))
            }

            /// Returns the wrapped value.
            pub const fn get(self) -> $inner {
                self.0
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self($default)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::new(i64::deserialize(deserializer)?).map_err(serde::de::Error::custom)
            }
        }

        #[cfg(feature = "schema")]
        crate::schema::inline_schema!($name, |_generator| crate::schema::bounded_schema($min, $max));
    )+};
}

bounded_numbers! {
    /// Number of items on a page.
    pub struct PageLimit(u32): "limit", 1..=500, default 50;
    /// Maximum commands that one lease request may return.
    pub struct LeaseBatchSize(u32): "max", 1..=100, default 1;
    /// Maximum outbox rows per claim. A caller's number is clamped, not rejected.
    pub struct OutboxClaimLimit(u32): "limit", 1..=1000, default 100;
    /// Maximum passes through one step in one execution. Ends an infinite cycle.
    pub struct MaxStepPasses(u32): "max_step_runs", 1..=10_000_000, default 100_000;
    /// Maximum attempts of a command, including the first.
    pub struct MaxAttempts(u32): "max_attempts", 1..=100, default 3;
    /// Rank of an execution or a command in its queue. Higher values go first.
    pub struct Priority(i16): "priority", -100..=100, default 0;
    /// Window in seconds within which a dedup key starts only one execution.
    pub struct DedupWindowSecs(u32): "window_secs", 1..=2_592_000, default 300;
}

#[cfg(test)]
mod tests;

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

/// Error for a value outside its limits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} = {value} is out of range {min}..{max}")]
pub struct OutOfRangeError {
    /// Name of the parameter.
    pub what: &'static str,
    /// The value.
    pub value: String,
    /// Minimum allowed value.
    pub min: String,
    /// Maximum allowed value.
    pub max: String,
}

impl OutOfRangeError {
    fn new<T: fmt::Display>(what: &'static str, value: impl fmt::Display, min: T, max: T) -> Self {
        Self { what, value: value.to_string(), min: min.to_string(), max: max.to_string() }
    }
}

/// Declares a value with limits and a default, read from a wider type.
macro_rules! bounded {
    (
        $(#[$meta:meta])*
        pub struct $name:ident($inner:ty): $what:literal,
            $min:expr, to $max:expr, default $default:expr, from |$value:ident: $wide:ty| $convert:expr
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name($inner);

        impl $name {
            /// The minimum.
            pub const MIN: Self = Self($min);
            /// The maximum.
            pub const MAX: Self = Self($max);

            /// Returns the value if it is within limits.
            pub fn new($value: $wide) -> Result<Self, OutOfRangeError> {
                let inner: Option<$inner> = $convert;
                inner
                    .map(Self)
                    .filter(|value| (Self::MIN..=Self::MAX).contains(value))
                    .ok_or_else(|| OutOfRangeError::new($what, $value, Self::MIN.0, Self::MAX.0))
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

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.0.serialize(serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::new(<$wide>::deserialize(deserializer)?).map_err(serde::de::Error::custom)
            }
        }
    };
}

/// Declares numbers with limits and a default.
macro_rules! bounded_numbers {
    ($(
        $(#[$meta:meta])*
        pub struct $name:ident($inner:ty): $what:literal,
            $min:literal..=$max:literal, default $default:literal;
    )+) => {$(
        bounded! {
            $(#[$meta])*
            pub struct $name($inner): $what, $min, to $max, default $default,
                from |value: i64| <$inner>::try_from(value).ok()
        }

        impl $name {
            /// Returns the value, or the nearest value within limits.
            pub fn clamped(value: i64) -> Self {
                let nearest = value.clamp($min, $max);
                Self(<$inner>::try_from(nearest).unwrap_or($default))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
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

/// Call depth of an execution below the root execution.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExecutionDepth(u32);

/// Error for playbooks that call each other too deeply, most often a playbook that calls itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("playbooks call each other more than {} levels deep", ExecutionDepth::MAX)]
pub struct CallDepthError;

impl ExecutionDepth {
    /// Maximum levels below the root execution.
    pub const MAX: u32 = 32;
    /// Depth of the root execution.
    pub const ROOT: Self = Self(0);

    /// Restores a recorded depth.
    pub fn new(depth: u32) -> Result<Self, CallDepthError> {
        if depth > Self::MAX {
            return Err(CallDepthError);
        }
        Ok(Self(depth))
    }

    /// Returns the depth of a child execution.
    pub fn child_depth(self) -> Result<Self, CallDepthError> {
        Self::new(self.0 + 1)
    }

    /// Returns the number of levels.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// Declares a size with limits and a default.
macro_rules! bounded_size {
    (
        $(#[$meta:meta])*
        pub struct $name:ident: $what:literal,
            $min:expr, to $max:expr, default $default:expr
    ) => {
        bounded! {
            $(#[$meta])*
            pub struct $name(ByteSize): $what, $min, to $max, default $default,
                from |value: ByteSize| Some(value)
        }

        impl $name {
            /// True if content of this many bytes is too large.
            pub const fn is_exceeded_by(self, bytes: usize) -> bool {
                self.0.is_exceeded_by(bytes)
            }
        }
    };
}

bounded_size! {
    /// Maximum result data that stays inline in events. Larger data goes to the result store. With
    /// zero, all data goes there.
    pub struct InlineBudget: "inline_max_bytes",
        ByteSize::from_bytes(0), to ByteSize::from_mib(1), default ByteSize::from_kib(64)
}

bounded_size! {
    /// Maximum payload that a task may return.
    pub struct PayloadLimit: "max_payload_bytes",
        ByteSize::from_bytes(1), to ByteSize::from_gib(1), default ByteSize::from_mib(64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_numbers_out_of_range() {
        assert_eq!(PageLimit::default().get(), 50);
        assert_eq!(PageLimit::new(500), Ok(PageLimit::MAX));
        for wrong in [0, 501, -1, i64::MIN, i64::MAX] {
            let error = PageLimit::new(wrong).unwrap_err();
            assert_eq!(error.to_string(), format!("limit = {wrong} is out of range 1..500"));
        }
        assert_eq!(Priority::new(-100), Ok(Priority::MIN));
        assert!(Priority::new(101).is_err());
        assert_eq!(DedupWindowSecs::new(30 * 86_400), Ok(DedupWindowSecs::MAX));
    }

    #[test]
    fn clamps_to_nearest_limit() {
        for (requested, expected) in
            [(i64::MIN, 1), (0, 1), (100, 100), (1000, 1000), (i64::MAX, 1000)]
        {
            assert_eq!(OutboxClaimLimit::clamped(requested).get(), expected);
        }
        assert_eq!(Priority::clamped(-1000), Priority::MIN);
    }

    #[test]
    fn rejects_sizes_out_of_range() {
        assert_eq!(InlineBudget::default().get(), ByteSize::from_kib(64));
        assert!(InlineBudget::new(ByteSize::from_bytes(0)).unwrap().is_exceeded_by(1));
        assert_eq!(
            InlineBudget::new(ByteSize::from_mib(2)).unwrap_err().to_string(),
            "inline_max_bytes = 2MiB is out of range 0..1MiB"
        );
        assert!(PayloadLimit::new(ByteSize::from_bytes(0)).is_err());
    }

    #[test]
    fn execution_depth_is_limited() {
        let mut depth = ExecutionDepth::ROOT;
        for level in 1..=ExecutionDepth::MAX {
            depth = depth.child_depth().unwrap();
            assert_eq!(depth.get(), level);
        }
        assert_eq!(depth.child_depth(), Err(CallDepthError));
        assert_eq!(
            CallDepthError.to_string(),
            "playbooks call each other more than 32 levels deep"
        );
    }

    #[test]
    fn json_values_are_checked() {
        assert_eq!(serde_json::from_str::<LeaseBatchSize>("7").unwrap().get(), 7);
        assert!(serde_json::from_str::<LeaseBatchSize>("101").is_err());
        assert_eq!(
            serde_json::from_str::<InlineBudget>("\"1KiB\"").unwrap().get(),
            ByteSize::from_kib(1)
        );
        assert!(serde_json::from_str::<InlineBudget>("\"1GiB\"").is_err());
    }
}

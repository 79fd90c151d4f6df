//! Bounds of the house, each with a name.
//!
//! A bound that is passed around is a type that only holds values inside of it; a bound that is
//! only compared with is a constant.

use std::fmt;

use crate::size::ByteSize;
use crate::time::Millis;

/// Levels of nesting in any JSON that enters the system.
pub const MAX_JSON_DEPTH: usize = 64;

/// Largest event once its big values are in the result store.
pub const MAX_EVENT_SIZE: ByteSize = ByteSize::from_mib(1);

/// Largest context that a command carries itself; a larger one is carried by reference.
pub const MAX_COMMAND_CONTEXT: ByteSize = ByteSize::from_kib(256);

/// Reports in one call of a worker.
pub const MAX_REPORT_BATCH: usize = 100;

/// Executions that one call may start.
pub const MAX_EXECUTE_BATCH: usize = 1000;

/// Events in one call of a worker.
pub const MAX_EVENT_BATCH: usize = 1000;

/// Documents in one call that registers them.
pub const MAX_REGISTER_BATCH: usize = 200;

/// Longest that a call waits for something to happen.
pub const MAX_LONG_POLL: Millis = Millis::from_secs(30);

/// Rows that a classic list skips at most; further pages are reached by cursor.
pub const MAX_PAGE_OFFSET: u32 = 10_000;

/// Characters of an event type.
pub const MAX_EVENT_NAME_CHARS: usize = 255;

/// Characters of an outbox row's last error.
pub const MAX_OUTBOX_ERROR_CHARS: usize = 2000;

/// How far ids may run ahead of the clock, in an id generator and in an id that a client sends.
pub const MAX_ID_AHEAD: Millis = Millis::from_secs(5);

/// How far ahead of the server's clock an event's own time is believed.
///
/// A producer that sends its local time as UTC is wrong by at most fourteen hours; what is further
/// off is no time at all.
pub const MAX_EVENT_TIME_AHEAD: Millis = Millis::from_days(1);

/// A value outside of its bounds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} = {value} is out of range {min}..{max}")]
pub struct OutOfRange {
    /// What the value is of.
    pub what: &'static str,
    /// The value.
    pub value: String,
    /// The least that is allowed.
    pub min: String,
    /// The most that is allowed.
    pub max: String,
}

impl OutOfRange {
    fn new<T: fmt::Display>(what: &'static str, value: impl fmt::Display, min: T, max: T) -> Self {
        Self {
            what,
            value: value.to_string(),
            min: min.to_string(),
            max: max.to_string(),
        }
    }
}

/// Declares a number with bounds and a default.
macro_rules! bounded_number {
    (
        $(#[$meta:meta])*
        pub struct $name:ident($inner:ty): $what:literal,
            $min:literal..=$max:literal, default $default:literal
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name($inner);

        impl $name {
            /// The least.
            pub const MIN: Self = Self($min);
            /// The most.
            pub const MAX: Self = Self($max);

            /// The value, if it is within bounds.
            pub fn new(value: i64) -> Result<Self, OutOfRange> {
                <$inner>::try_from(value)
                    .ok()
                    .map(Self)
                    .filter(|value| (Self::MIN..=Self::MAX).contains(value))
                    .ok_or_else(|| OutOfRange::new($what, value, $min, $max))
            }

            /// The value, or the nearest one within bounds.
            pub fn clamped(value: i64) -> Self {
                let nearest = value.clamp($min, $max);
                Self(<$inner>::try_from(nearest).unwrap_or($default))
            }

            /// The number.
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

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.0.serialize(serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::new(i64::deserialize(deserializer)?).map_err(serde::de::Error::custom)
            }
        }

        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                crate::schema::bounded(Self::MIN.0.into(), Self::MAX.0.into())
            }
        }
    };
}

bounded_number! {
    /// Items on a page of a list.
    pub struct PageLimit(u32): "limit", 1..=500, default 50
}

bounded_number! {
    /// Commands that one lease may hand out.
    pub struct LeaseBatch(u32): "max", 1..=100, default 1
}

bounded_number! {
    /// Outbox rows that one claim may take; a caller's number is clamped, not refused.
    pub struct OutboxClaimLimit(u32): "limit", 1..=1000, default 100
}

bounded_number! {
    /// Runs of one step in one execution, which ends a cycle that never would.
    pub struct MaxStepRuns(u32): "max_step_runs", 1..=10_000_000, default 100_000
}

bounded_number! {
    /// Attempts of a command in all, the first one included.
    pub struct MaxAttempts(u32): "max_attempts", 1..=100, default 3
}

bounded_number! {
    /// Rank of an execution or a command in its queue; the higher one goes first.
    pub struct Priority(i16): "priority", -100..=100, default 0
}

bounded_number! {
    /// Seconds within which a dedup key makes only one execution.
    pub struct DedupWindowSecs(u32): "window_secs", 1..=2_592_000, default 300
}

/// How deep an execution lies below the one that a person started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExecutionDepth(u32);

/// A playbook calls playbooks more levels deep than allowed, most often itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "playbooks call each other more than {} levels deep",
    ExecutionDepth::MAX
)]
pub struct TooDeep;

impl ExecutionDepth {
    /// Levels below the first execution.
    pub const MAX: u32 = 32;
    /// The first execution.
    pub const ROOT: Self = Self(0);

    /// A depth that was recorded before.
    pub fn new(depth: u32) -> Result<Self, TooDeep> {
        if depth > Self::MAX {
            return Err(TooDeep);
        }
        Ok(Self(depth))
    }

    /// The depth of a child.
    pub fn child(self) -> Result<Self, TooDeep> {
        Self::new(self.0 + 1)
    }

    /// The number of levels.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// Declares a size with bounds and a default.
macro_rules! bounded_size {
    (
        $(#[$meta:meta])*
        pub struct $name:ident: $what:literal,
            $min:expr, to $max:expr, default $default:expr
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(ByteSize);

        impl $name {
            /// The least.
            pub const MIN: Self = Self($min);
            /// The most.
            pub const MAX: Self = Self($max);

            /// The size, if it is within bounds.
            pub fn new(size: ByteSize) -> Result<Self, OutOfRange> {
                if (Self::MIN.0..=Self::MAX.0).contains(&size) {
                    Ok(Self(size))
                } else {
                    Err(OutOfRange::new($what, size, Self::MIN.0, Self::MAX.0))
                }
            }

            /// The size.
            pub const fn get(self) -> ByteSize {
                self.0
            }

            /// Whether some content is too large.
            pub const fn is_exceeded_by(self, bytes: usize) -> bool {
                self.0.is_exceeded_by(bytes)
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
                Self::new(ByteSize::deserialize(deserializer)?).map_err(serde::de::Error::custom)
            }
        }
    };
}

bounded_size! {
    /// Result data that stays inline in events; what is larger goes to the result store. Zero sends
    /// everything there.
    pub struct InlineBudget: "inline_max_bytes",
        ByteSize::from_bytes(0), to ByteSize::from_mib(1), default ByteSize::from_kib(64)
}

bounded_size! {
    /// Largest payload that a task may return.
    pub struct PayloadLimit: "max_payload_bytes",
        ByteSize::from_bytes(1), to ByteSize::from_gib(1), default ByteSize::from_mib(64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_within_bounds() {
        assert_eq!(PageLimit::default().get(), 50);
        assert_eq!(PageLimit::new(500), Ok(PageLimit::MAX));
        for wrong in [0, 501, -1, i64::MIN, i64::MAX] {
            let error = PageLimit::new(wrong).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("limit = {wrong} is out of range 1..500")
            );
        }
        assert_eq!(Priority::new(-100), Ok(Priority::MIN));
        assert!(Priority::new(101).is_err());
        assert_eq!(DedupWindowSecs::new(30 * 86_400), Ok(DedupWindowSecs::MAX));
    }

    #[test]
    fn clamping_takes_the_nearest() {
        for (asked, given) in [
            (i64::MIN, 1),
            (0, 1),
            (100, 100),
            (1000, 1000),
            (i64::MAX, 1000),
        ] {
            assert_eq!(OutboxClaimLimit::clamped(asked).get(), given);
        }
        assert_eq!(Priority::clamped(-1000), Priority::MIN);
    }

    #[test]
    fn sizes_within_bounds() {
        assert_eq!(InlineBudget::default().get(), ByteSize::from_kib(64));
        assert!(
            InlineBudget::new(ByteSize::from_bytes(0))
                .unwrap()
                .is_exceeded_by(1)
        );
        assert_eq!(
            InlineBudget::new(ByteSize::from_mib(2))
                .unwrap_err()
                .to_string(),
            "inline_max_bytes = 2MiB is out of range 0..1MiB"
        );
        assert!(PayloadLimit::new(ByteSize::from_bytes(0)).is_err());
    }

    #[test]
    fn depth_ends() {
        let mut depth = ExecutionDepth::ROOT;
        for level in 1..=ExecutionDepth::MAX {
            depth = depth.child().unwrap();
            assert_eq!(depth.get(), level);
        }
        assert_eq!(depth.child(), Err(TooDeep));
        assert_eq!(
            TooDeep.to_string(),
            "playbooks call each other more than 32 levels deep"
        );
    }

    #[test]
    fn json_forms_are_checked() {
        assert_eq!(serde_json::from_str::<LeaseBatch>("7").unwrap().get(), 7);
        assert!(serde_json::from_str::<LeaseBatch>("101").is_err());
        assert_eq!(
            serde_json::from_str::<InlineBudget>("\"1KiB\"")
                .unwrap()
                .get(),
            ByteSize::from_kib(1)
        );
        assert!(serde_json::from_str::<InlineBudget>("\"1GiB\"").is_err());
    }
}

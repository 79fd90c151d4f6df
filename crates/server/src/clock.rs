//! The one place that reads the clock.

use std::time::{SystemTime, UNIX_EPOCH};

use noetl_types::Timestamp;

/// Source of the current time.
pub trait Clock: Send + Sync {
    /// Returns the current time.
    fn now(&self) -> Timestamp;
}

/// Clock of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "all other code reads the time through this trait"
    )]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let micros = since.map_or(0, |since| since.as_micros());
        let micros = i64::try_from(micros).unwrap_or(i64::MAX);
        Timestamp::from_micros(micros).unwrap_or(Timestamp::MAX)
    }
}

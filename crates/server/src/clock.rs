//! The one place that reads the clocks of the process.

use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use noetl_types::Timestamp;

/// The clocks of a process.
pub trait Clock: Send + Sync {
    /// Returns the current time, which steps when the clock is set.
    fn now(&self) -> Timestamp;

    /// Returns the time since an arbitrary moment, which never steps.
    fn monotonic(&self) -> Duration {
        Duration::from_micros(u64::try_from(self.now().as_micros()).unwrap_or(0))
    }
}

/// Clocks of the operating system.
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
    #[expect(
        clippy::disallowed_methods,
        reason = "all other code reads the time through this trait"
    )]
    fn monotonic(&self) -> Duration {
        static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
        ORIGIN.elapsed()
    }
}

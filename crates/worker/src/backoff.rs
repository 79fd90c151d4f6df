//! Jittered exponential backoff.

use std::time::Duration;

use noetl_types::Millis;
use tokio::time::Instant;

/// First delay of a backoff.
const INITIAL_BACKOFF: Duration = Duration::from_millis(100);
/// Maximum delay of a backoff.
const MAX_BACKOFF: Duration = Duration::from_secs(5);

/// Exponential backoff.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
    started_at: Instant,
}

impl Backoff {
    /// Starts a backoff.
    pub(crate) fn new() -> Self {
        Self { next: INITIAL_BACKOFF, started_at: Instant::now() }
    }

    /// Time since the start of the backoff.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started_at.elapsed()
    }

    /// Returns the next delay, which is at least the one requested by the server.
    pub(crate) fn next_delay(&mut self, requested: Option<Millis>) -> Duration {
        let delay = with_jitter(self.next);
        self.next = (self.next * 2).min(MAX_BACKOFF);
        delay.max(requested.map(Duration::from).unwrap_or_default())
    }
}

/// Returns a duration between half of this one and all of it, so that workers do not retry at the
/// same time.
pub(crate) fn with_jitter(duration: Duration) -> Duration {
    duration.mul_f64(0.5 + fastrand::f64() / 2.0)
}

#[cfg(test)]
mod tests;

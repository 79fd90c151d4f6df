//! Random numbers, and jittered backoff.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use noetl_api::ApiError;
use noetl_types::Millis;
use tokio::time::Instant;

/// First delay of a backoff.
const INITIAL_BACKOFF: Duration = Duration::from_millis(100);
/// Maximum delay of a backoff.
const MAX_BACKOFF: Duration = Duration::from_secs(5);

/// A random number generator for spreading load. Not suitable for anything else.
#[derive(Debug)]
pub(crate) struct JitterRng(AtomicU64);

impl JitterRng {
    /// Creates a generator seeded by the operating system.
    pub(crate) fn new() -> Self {
        // Without a seed, delays are less evenly spread, which is no reason to fail.
        Self(AtomicU64::new(getrandom::u64().unwrap_or_default()))
    }

    /// Returns a number of at least 0 and below 1.
    pub(crate) fn next_f64(&self) -> f64 {
        let mut mixed = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
        let fraction = (mixed >> 11) as f64 / (1_u64 << 53) as f64;
        fraction
    }

    /// Returns a duration between half of this one and all of it.
    pub(crate) fn with_jitter(&self, duration: Duration) -> Duration {
        duration.mul_f64(0.5 + self.next_f64() / 2.0)
    }
}

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
    pub(crate) fn next_delay(&mut self, rng: &JitterRng, requested: Option<Millis>) -> Duration {
        let delay = rng.with_jitter(self.next);
        self.next = (self.next * 2).min(MAX_BACKOFF);
        delay.max(requested.map(Duration::from).unwrap_or_default())
    }
}

/// The delay that the server requests.
pub(crate) fn retry_after(error: &ApiError) -> Option<Millis> {
    match error {
        ApiError::Refused { retry_after, .. } => *retry_after,
        ApiError::Unreachable(_) | ApiError::Unreadable(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_fractions_are_uniform() {
        let rng = JitterRng(AtomicU64::new(7));
        let fractions: Vec<f64> = (0..1000).map(|_| rng.next_f64()).collect();
        assert!(fractions.iter().all(|fraction| (0.0..1.0).contains(fraction)));
        let mean = fractions.iter().sum::<f64>() / 1000.0;
        assert!((0.45..0.55).contains(&mean), "{mean}");
    }

    #[tokio::test(start_paused = true)]
    async fn delays_grow_to_max_and_respect_retry_after() {
        let (rng, mut backoff) = (JitterRng(AtomicU64::new(7)), Backoff::new());
        let delays: Vec<Duration> = (0..10).map(|_| backoff.next_delay(&rng, None)).collect();
        assert!(delays[0] >= INITIAL_BACKOFF / 2 && delays[0] <= INITIAL_BACKOFF);
        assert!(delays[9] >= MAX_BACKOFF / 2 && delays[9] <= MAX_BACKOFF);
        let retry_after = Some(Millis::from_secs(60));
        assert_eq!(backoff.next_delay(&rng, retry_after), Duration::from_mins(1));
    }
}

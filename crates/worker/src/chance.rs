//! Chance, and the delays that it spreads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use noetl_api::ApiError;
use noetl_types::Millis;
use tokio::time::Instant;

/// The first delay of a series.
const FIRST: Duration = Duration::from_millis(100);
/// The longest delay of a series.
const LONGEST: Duration = Duration::from_secs(5);

/// Numbers by chance; good enough to spread load, and for nothing else.
#[derive(Debug)]
pub(crate) struct Chance(AtomicU64);

impl Chance {
    /// Chance from the machine.
    pub(crate) fn new() -> Self {
        // Without a seed, workers spread less well; that is no reason not to work.
        Self(AtomicU64::new(getrandom::u64().unwrap_or_default()))
    }

    /// A number from 0 to below 1.
    pub(crate) fn dice(&self) -> f64 {
        let mut mixed = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
        let part = (mixed >> 11) as f64 / (1_u64 << 53) as f64;
        part
    }

    /// A duration from half of this one to all of it.
    pub(crate) fn spread(&self, duration: Duration) -> Duration {
        duration.mul_f64(0.5 + self.dice() / 2.0)
    }
}

/// A series of growing delays.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
    began: Instant,
}

impl Backoff {
    /// A series that begins now.
    pub(crate) fn new() -> Self {
        Self {
            next: FIRST,
            began: Instant::now(),
        }
    }

    /// How long the series has lasted.
    pub(crate) fn lasted(&self) -> Duration {
        self.began.elapsed()
    }

    /// The next delay, at least what the other side asks for.
    pub(crate) fn delay(&mut self, chance: &Chance, asked: Option<Millis>) -> Duration {
        let delay = chance.spread(self.next);
        self.next = (self.next * 2).min(LONGEST);
        delay.max(asked.map(Duration::from).unwrap_or_default())
    }
}

/// How long the server asks to wait.
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
    fn dice_are_parts_of_one() {
        let chance = Chance(AtomicU64::new(7));
        let thrown: Vec<f64> = (0..1000).map(|_| chance.dice()).collect();
        assert!(thrown.iter().all(|part| (0.0..1.0).contains(part)));
        let mean = thrown.iter().sum::<f64>() / 1000.0;
        assert!((0.45..0.55).contains(&mean), "{mean}");
    }

    #[tokio::test(start_paused = true)]
    async fn delays_grow_to_a_bound_and_heed_the_other_side() {
        let (chance, mut backoff) = (Chance(AtomicU64::new(7)), Backoff::new());
        let delays: Vec<Duration> = (0..10).map(|_| backoff.delay(&chance, None)).collect();
        assert!(delays[0] >= FIRST / 2 && delays[0] <= FIRST);
        assert!(delays[9] >= LONGEST / 2 && delays[9] <= LONGEST);
        let asked = Some(Millis::from_secs(60));
        assert_eq!(backoff.delay(&chance, asked), Duration::from_mins(1));
    }
}

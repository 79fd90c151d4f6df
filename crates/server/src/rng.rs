//! Uses of randomness: unguessable tokens, and backoff delays that do not coincide.

use noetl_types::LeaseToken;
use std::time::Duration;

use crate::random_source::RandomSource;

/// First backoff delay. It doubles with every retry.
const FIRST_BACKOFF_DELAY: Duration = Duration::from_millis(10);
const MAX_BACKOFF_DELAY: Duration = Duration::from_secs(1);

/// Returns unguessable bytes.
pub(crate) fn random_bytes<const N: usize>(rng: &dyn RandomSource) -> [u8; N] {
    let mut bytes = [0; N];
    rng.fill_random(&mut bytes);
    bytes
}

pub(crate) fn random_lease_token(rng: &dyn RandomSource) -> LeaseToken {
    LeaseToken::from_bytes(random_bytes(rng))
}

/// Returns the delay before a retry, with jitter. Retries are numbered from 0.
pub(crate) fn backoff_delay(rng: &dyn RandomSource, retry: u32) -> Duration {
    let max_delay = FIRST_BACKOFF_DELAY.saturating_mul(1 << retry.min(10)).min(MAX_BACKOFF_DELAY);
    let [jitter] = random_bytes::<1>(rng);
    max_delay.mul_f64(0.5 + f64::from(jitter) / 510.0)
}

/// Returns a random number in the range `0.0..1.0`.
pub(crate) fn random_fraction(rng: &dyn RandomSource) -> f64 {
    let number = u32::from_be_bytes(random_bytes(rng));
    f64::from(number) / (f64::from(u32::MAX) + 1.0)
}

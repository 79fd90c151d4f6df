//! What chance is for: tokens that nobody guesses, and pauses that do not coincide.

use std::time::Duration;

use noetl_api::LeaseToken;

use crate::chance::Chance;

/// The shortest pause before something is tried again; it doubles with every try.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// The longest.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Bytes that nobody guesses.
pub(crate) fn bytes<const N: usize>(chance: &dyn Chance) -> [u8; N] {
    let mut bytes = [0; N];
    chance.fill(&mut bytes);
    bytes
}

/// A token for a lease.
pub(crate) fn token(chance: &dyn Chance) -> LeaseToken {
    LeaseToken::from_bytes(bytes(chance))
}

/// A pause before a further try.
pub(crate) fn backoff(chance: &dyn Chance, tries: u32) -> Duration {
    let longest = FIRST_PAUSE
        .saturating_mul(1 << tries.min(10))
        .min(LONGEST_PAUSE);
    let [dice] = bytes::<1>(chance);
    longest.mul_f64(0.5 + f64::from(dice) / 510.0)
}

/// A number from 0 to below 1.
pub(crate) fn dice(chance: &dyn Chance) -> f64 {
    let number = u32::from_be_bytes(bytes(chance));
    f64::from(number) / (f64::from(u32::MAX) + 1.0)
}

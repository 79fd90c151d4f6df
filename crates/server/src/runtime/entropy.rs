//! Chance: tokens that nobody guesses, and pauses that do not coincide.

use std::time::Duration;

use noetl_api::LeaseToken;

/// The shortest pause before something is tried again; it doubles with every try.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// The longest.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Bytes that nobody guesses.
pub(crate) fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    if let Err(error) = getrandom::fill(&mut bytes) {
        // Without chance there are no secrets, so nothing can be leased; that it shows is all
        // that can be done, since a token of zeroes would be one that everybody knows.
        tracing::error!(%error, "the machine gives no random numbers");
        std::process::abort();
    }
    bytes
}

/// A token for a lease.
pub(crate) fn token() -> LeaseToken {
    LeaseToken::from_bytes(bytes())
}

/// A pause before a further try.
pub(crate) fn backoff(tries: u32) -> Duration {
    let longest = FIRST_PAUSE
        .saturating_mul(1 << tries.min(10))
        .min(LONGEST_PAUSE);
    let [dice] = bytes::<1>();
    longest.mul_f64(0.5 + f64::from(dice) / 510.0)
}

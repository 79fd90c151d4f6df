//! The only place that reads random numbers from the operating system.

/// Source of cryptographically secure random bytes.
pub trait RandomSource: Send + Sync {
    /// Fills a buffer with unpredictable bytes.
    fn fill_random(&self, bytes: &mut [u8]);
}

/// Random numbers of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemRandom;

impl RandomSource for SystemRandom {
    fn fill_random(&self, bytes: &mut [u8]) {
        if let Err(error) = getrandom::fill(bytes) {
            // Lease tokens are secrets, so nothing can be leased without random numbers. Aborting
            // is the only safe reaction: a token of zeroes could be guessed.
            tracing::error!(%error, "cannot read random numbers from the operating system; aborting");
            std::process::abort();
        }
    }
}

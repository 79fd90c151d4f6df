//! The one place that takes random numbers from the machine.

/// Where random numbers come from.
pub trait Chance: Send + Sync {
    /// Fills a buffer with bytes that nobody guesses.
    fn fill(&self, bytes: &mut [u8]);
}

/// The random numbers of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemChance;

impl Chance for SystemChance {
    fn fill(&self, bytes: &mut [u8]) {
        if let Err(error) = getrandom::fill(bytes) {
            // Without chance there are no secrets, so nothing can be leased; that it shows is all
            // that can be done, since a token of zeroes would be one that everybody knows.
            tracing::error!(%error, "the machine gives no random numbers");
            std::process::abort();
        }
    }
}

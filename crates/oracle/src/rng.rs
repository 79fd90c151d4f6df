//! Deterministic random numbers: splitmix64 from a seed.

/// Random number generator that is fully determined by its seed.
#[derive(Debug, Clone)]
pub(crate) struct SeededRng(u64);

impl SeededRng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below a bound, or 0 if the bound is 0.
    pub(crate) fn number_below(&mut self, bound: usize) -> usize {
        let bound = bound.max(1) as u64;
        usize::try_from(self.next_u64() % bound).unwrap_or_default()
    }

    /// Returns a number between two bounds, both included.
    pub(crate) fn number_between(&mut self, low: usize, high: usize) -> usize {
        low + self.number_below(high.saturating_sub(low) + 1)
    }

    /// Returns true with a probability in percent.
    pub(crate) fn draw_percent(&mut self, probability: usize) -> bool {
        self.number_below(100) < probability
    }

    /// Returns a random item, or `None` if there are no items.
    pub(crate) fn pick_item<'i, T>(&mut self, items: &'i [T]) -> Option<&'i T> {
        items.get(self.number_below(items.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_splitmix64_sequence() {
        let mut rng = SeededRng::new(1_234_567);
        let drawn: Vec<u64> = (0..3).map(|_| rng.next_u64()).collect();
        assert_eq!(
            drawn,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn respects_bounds() {
        let mut rng = SeededRng::new(7);
        assert!((0..1000).all(|_| (2..=4).contains(&rng.number_between(2, 4))));
        assert_eq!(rng.number_below(0), 0);
        assert_eq!(rng.pick_item::<u8>(&[]), None);
    }
}

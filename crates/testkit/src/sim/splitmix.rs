//! Deterministic random numbers from a seed.

/// The `splitmix64` generator: small, fast, and stable.
#[derive(Debug, Clone)]
pub struct SplitMix(u64);

impl SplitMix {
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below a bound, or 0 if the bound is 0.
    pub fn number_below(&mut self, bound: usize) -> usize {
        let bound = bound as u64;
        usize::try_from(self.next_u64().checked_rem(bound).unwrap_or_default()).unwrap_or_default()
    }

    /// Returns true with a probability in percent.
    pub fn draw_percent(&mut self, percent: u32) -> bool {
        self.number_below(100) < percent as usize
    }

    /// Returns a random item.
    pub fn pick_item<'t, T>(&mut self, items: &'t [T]) -> Option<&'t T> {
        let index = self.number_below(items.len());
        items.get(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reference values of the generator: a recorded seed must always give the same numbers.
    #[test]
    fn matches_splitmix64_sequence() {
        let mut numbers = SplitMix::new(1_234_567);
        assert_eq!(
            [numbers.next_u64(), numbers.next_u64(), numbers.next_u64()],
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }
}

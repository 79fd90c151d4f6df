//! Numbers by chance that a seed determines.

/// The generator `splitmix64`: small, fast, and the same for ever.
#[derive(Debug, Clone)]
pub struct SplitMix(u64);

impl SplitMix {
    /// The generator of a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below a bound; 0 where the bound is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        let bound = bound as u64;
        usize::try_from(self.next().checked_rem(bound).unwrap_or_default()).unwrap_or_default()
    }

    /// Whether something happens that happens so many times in a hundred.
    pub fn percent(&mut self, odds: u32) -> bool {
        self.below(100) < odds as usize
    }

    /// One of some things.
    pub fn pick<'t, T>(&mut self, things: &'t [T]) -> Option<&'t T> {
        let at = self.below(things.len());
        things.get(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reference values of the generator: a recorded seed must mean the same for ever.
    #[test]
    fn known_numbers() {
        let mut numbers = SplitMix::new(1_234_567);
        assert_eq!(
            [numbers.next(), numbers.next(), numbers.next()],
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }
}

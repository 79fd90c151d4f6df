//! Random numbers from a seed.

/// A small generator that gives the same numbers for the same seed on every platform.
#[derive(Debug, Clone)]
pub(crate) struct SeededRng(u64);

impl SeededRng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next_below(&mut self, bound: u64) -> u64 {
        // Multiplier and increment are Knuth's for 64 bits. The high bits are the most random ones.
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    pub(crate) fn one_in(&mut self, bound: u64) -> bool {
        self.next_below(bound) == 0
    }
}

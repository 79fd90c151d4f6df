//! How rough a world is: drawn from its seed, so that some are calm in most ways and a few in none.

use std::time::Duration;

use noetl_testkit::sim::SplitMix;
use noetl_types::{Millis, sha256};

/// How rough a world is; odds are in a hundred.
#[derive(Debug, Clone)]
pub(crate) struct Weather {
    pub(crate) servers: usize,
    pub(crate) workers: usize,
    /// Commands that a worker does at once.
    pub(crate) slots: usize,
    pub(crate) lease: Millis,
    /// For how long anything goes wrong.
    pub(crate) storm: Duration,
    /// A call of the store fails and does nothing.
    pub(crate) fails_before: u32,
    /// A call of the store does everything, and nobody learns of it.
    pub(crate) fails_after: u32,
    /// An append meets another one that was never there.
    pub(crate) conflicts: u32,
    /// The longest that a call of the store takes.
    pub(crate) store_ms: usize,
    /// A request does not arrive.
    pub(crate) request_lost: u32,
    /// An answer does not arrive.
    pub(crate) answer_lost: u32,
    /// A request arrives twice.
    pub(crate) doubled: u32,
    /// The longest that a message takes.
    pub(crate) message_ms: usize,
    /// A process dies or sleeps: how long it takes until the next one does, at most.
    pub(crate) accident_ms: Option<usize>,
    /// How far the clocks of servers are apart.
    pub(crate) skew_ms: usize,
    /// How many events a log grows by before its state is stored beside it.
    pub(crate) snapshot_every: u32,
}

/// Numbers by chance that depend on a seed and on what they are for, and on nothing else.
pub(crate) fn draw(seed: u64, about: &str) -> SplitMix {
    let digest = sha256(format!("{about}/{seed}"));
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&digest.as_bytes()[..8]);
    SplitMix::new(u64::from_le_bytes(bytes))
}

/// A time up to a bound.
pub(crate) fn up_to(chance: &mut SplitMix, ms: usize) -> Duration {
    Duration::from_millis(chance.below(ms + 1) as u64)
}

impl Weather {
    pub(crate) fn of(seed: u64) -> Self {
        let mut chance = draw(seed, "weather");
        let mut odds = |most: u32| {
            if chance.percent(35) {
                0
            } else {
                u32::try_from(chance.below(most as usize + 1)).unwrap_or_default()
            }
        };
        let (fails_before, fails_after, conflicts) = (odds(12), odds(12), odds(12));
        let (request_lost, answer_lost, doubled) = (odds(15), odds(15), odds(25));
        Self {
            fails_before,
            fails_after,
            conflicts,
            request_lost,
            answer_lost,
            doubled,
            servers: 1 + chance.below(3),
            workers: 1 + chance.below(3),
            slots: 1 + chance.below(3),
            lease: Millis::from_ms(1_000 + chance.below(3_000) as u64),
            storm: Duration::from_millis(1_500 + chance.below(6_000) as u64),
            store_ms: chance.below(30),
            message_ms: chance.below(120),
            accident_ms: chance.percent(70).then(|| 400 + chance.below(3_000)),
            skew_ms: if chance.percent(50) {
                0
            } else {
                chance.below(1_500)
            },
            snapshot_every: 1 + u32::try_from(chance.below(30)).unwrap_or_default(),
        }
    }
}

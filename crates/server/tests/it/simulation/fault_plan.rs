//! Faults of a simulation, drawn from its seed. Most worlds lack several kinds of faults, a few
//! have all.

use std::time::Duration;

use noetl_testkit::sim::SplitMix;
use noetl_types::{Millis, Timestamp, sha256};

/// Fault rates of a simulation, in percent.
#[derive(Debug, Clone)]
pub(crate) struct FaultPlan {
    pub(crate) servers: usize,
    pub(crate) workers: usize,
    /// Commands that a worker executes concurrently.
    pub(crate) slots: usize,
    pub(crate) lease: Millis,
    /// Period during which faults occur.
    pub(crate) fault_duration: Duration,
    /// Rate of store calls that fail without effect.
    pub(crate) fails_before: u32,
    /// Rate of store calls that take effect but return an error.
    pub(crate) fails_after: u32,
    /// Rate of appends that fail with a spurious conflict.
    pub(crate) conflicts: u32,
    /// Maximum duration of a store call.
    pub(crate) store_ms: usize,
    /// Rate of lost requests.
    pub(crate) request_lost: u32,
    /// Rate of lost answers.
    pub(crate) answer_lost: u32,
    /// Rate of duplicated requests.
    pub(crate) request_duplicated: u32,
    /// Maximum delay of a message.
    pub(crate) message_ms: usize,
    /// Maximum time between two crashes or suspensions of a process.
    pub(crate) accident_ms: Option<usize>,
    /// Steps of all clocks.
    pub(crate) clocks: ClockPlan,
    /// Minimum number of events between two snapshots.
    pub(crate) snapshot_every: u32,
}

/// Returns a random number generator that depends only on the seed and the purpose. Changing a
/// purpose changes every simulation.
pub(crate) fn seeded_rng(seed: u64, purpose: &str) -> SplitMix {
    let digest = sha256(format!("{purpose}/{seed}"));
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&digest.as_bytes()[..8]);
    SplitMix::new(u64::from_le_bytes(bytes))
}

/// Random duration of at most `ms` milliseconds.
pub(crate) fn random_duration(rng: &mut SplitMix, ms: usize) -> Duration {
    Duration::from_millis(rng.number_below(ms + 1) as u64)
}

impl FaultPlan {
    pub(crate) fn from_seed(seed: u64) -> Self {
        let mut rng = seeded_rng(seed, "weather");
        let mut draw_rate = |max: u32| {
            if rng.draw_percent(35) {
                0
            } else {
                u32::try_from(rng.number_below(max as usize + 1)).unwrap_or_default()
            }
        };
        let (fails_before, fails_after, conflicts) = (draw_rate(12), draw_rate(12), draw_rate(12));
        let (request_lost, answer_lost, request_duplicated) =
            (draw_rate(15), draw_rate(15), draw_rate(25));
        Self {
            fails_before,
            fails_after,
            conflicts,
            request_lost,
            answer_lost,
            request_duplicated,
            servers: 1 + rng.number_below(3),
            workers: 1 + rng.number_below(3),
            slots: 1 + rng.number_below(3),
            lease: Millis::from_ms(1_000 + rng.number_below(3_000) as u64),
            fault_duration: Duration::from_millis(1_500 + rng.number_below(6_000) as u64),
            store_ms: rng.number_below(30),
            message_ms: rng.number_below(120),
            accident_ms: rng.draw_percent(70).then(|| 400 + rng.number_below(3_000)),
            clocks: ClockPlan::from_seed(seed),
            snapshot_every: 1 + u32::try_from(rng.number_below(30)).unwrap_or_default(),
        }
    }
}

/// Time of the store when a simulation starts.
const START_TIME: &str = "2026-01-01T00:00:00Z";
/// Skew above which a server grants no leases.
const EXCESSIVE_SKEW_MS: i64 = 20_000;

/// Clocks of a simulation. The clock of the store is that of the database, or of the only server.
#[derive(Debug, Clone)]
pub(crate) struct ClockPlan {
    seed: u64,
    /// Time at which the clock of the store is set back and by how much.
    store_step: Option<(Duration, i64)>,
    /// Maximum skew of the clocks of servers.
    skew_ms: usize,
}

impl ClockPlan {
    fn from_seed(seed: u64) -> Self {
        let mut rng = seeded_rng(seed, "clocks");
        let step_at = Duration::from_millis(rng.number_below(6_000) as u64);
        let step_ms = -i64::try_from(rng.number_below(90_000)).unwrap_or_default();
        Self {
            seed,
            store_step: rng.draw_percent(30).then_some((step_at, step_ms)),
            skew_ms: if rng.draw_percent(50) { 0 } else { rng.number_below(4_000) },
        }
    }

    /// Returns the time by which the clock of the store is set back.
    pub(crate) fn setback(&self) -> Duration {
        let step_ms = self.store_step.map_or(0, |(_, ms)| ms);
        Duration::from_millis(step_ms.unsigned_abs())
    }

    /// Returns the time of the store.
    pub(crate) fn store_time(&self, elapsed: Duration) -> Timestamp {
        let step_ms = self.store_step.filter(|(at, _)| *at <= elapsed).map_or(0, |(_, ms)| ms);
        shifted_time(elapsed, step_ms)
    }

    /// Returns the wall clock of a server beside a database. While faults occur, it jumps every few
    /// seconds, and some servers other than the first are far off.
    pub(crate) fn wall_time(&self, server: usize, elapsed: Duration, jumps: bool) -> Timestamp {
        let mut rng = seeded_rng(self.seed, &format!("skew {server} {}", elapsed.as_secs() / 3));
        let skew_ms = i64::try_from(rng.number_below(self.skew_ms + 1)).unwrap_or_default();
        let is_far_off = jumps && server > 0 && rng.draw_percent(30);
        let jump_ms = if is_far_off { EXCESSIVE_SKEW_MS } else { 0 };
        let time = self.store_time(elapsed);
        time.saturating_add(Millis::from_ms(u64::try_from(skew_ms + jump_ms).unwrap_or_default()))
    }
}

fn shifted_time(elapsed: Duration, shift_ms: i64) -> Timestamp {
    let start = Timestamp::parse(START_TIME).expect("a time").as_unix_ms();
    let elapsed_ms = i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_unix_ms(start + elapsed_ms + shift_ms).expect("a time")
}

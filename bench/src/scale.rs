//! Amount of work per workload.

use serde::{Deserialize, Serialize};

/// Counts of the workloads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkloadScale {
    /// Runs before the first measured one, for single runs and for throughput.
    pub warm_up: u32,
    /// Single runs, one at a time.
    pub w1_runs: u32,
    /// Runs from many clients.
    pub w2_runs: u32,
    /// The clients.
    pub w2_clients: u32,
    /// Sequences before the first measured one.
    pub w3_warm_up: u32,
    /// Sequences of ten steps.
    pub w3_runs: u32,
    /// Tasks of a fan-out.
    pub w4_tasks: u32,
    /// Number of fan-outs. The median counts.
    pub w4_repeats: u32,
    /// Iterations of the short and of the long loop.
    pub loops: [u32; 2],
    /// Seconds between a start and the first memory reading.
    pub settle_s: u64,
    /// Runs between the first and the second memory reading.
    pub w5_runs: u32,
    /// Python steps of one loop.
    pub w6_steps: u32,
    /// Bare starts of an interpreter.
    pub w6_starts: u32,
    /// Iterations of the loops whose logs are replayed. Each has about five events.
    pub w7_iterations: [u32; 3],
    /// Events of the logs whose state does not grow.
    pub w7_events: [u32; 3],
    /// Number of reads of each log.
    pub w7_looks: u32,
    /// Runs whose first event a consumer waits for.
    pub w8_runs: u32,
    /// Iterations of the loop whose log is the backlog of a stream.
    pub w9_iterations: u32,
    /// Messages of a plain publisher.
    pub w9_plain: u32,
    /// Outbox rows that are claimed and marked, for each batch size.
    pub w10_rows: u32,
    /// Published rows among which pending ones are counted.
    pub w10_published: u32,
    /// Number of counts.
    pub w10_counts: u32,
}

impl WorkloadScale {
    /// Full measurement.
    pub const FULL: Self = Self {
        warm_up: 20,
        w1_runs: 200,
        w2_runs: 2_000,
        w2_clients: 32,
        w3_warm_up: 5,
        w3_runs: 50,
        w4_tasks: 1_000,
        w4_repeats: 3,
        loops: [10_000, 100_000],
        settle_s: 5,
        w5_runs: 100,
        w6_steps: 2_000,
        w6_starts: 20,
        w7_iterations: [200, 2_000, 20_000],
        w7_events: [1_000, 10_000, 100_000],
        w7_looks: 15,
        w8_runs: 300,
        w9_iterations: 20_000,
        w9_plain: 100_000,
        w10_rows: 20_000,
        w10_published: 1_000_000,
        w10_counts: 200,
    };

    /// Full measurement with longer logs to replay.
    pub const LARGE: Self = Self { w7_events: [10_000, 100_000, 1_000_000], ..Self::FULL };

    /// A tenth of the work, to check that everything works. The figures mean nothing.
    pub const QUICK: Self = Self {
        warm_up: 3,
        w1_runs: 20,
        w2_runs: 200,
        w2_clients: 32,
        w3_warm_up: 1,
        w3_runs: 5,
        w4_tasks: 100,
        w4_repeats: 1,
        loops: [1_000, 10_000],
        settle_s: 1,
        w5_runs: 10,
        w6_steps: 200,
        w6_starts: 3,
        w7_iterations: [20, 200, 2_000],
        w7_events: [100, 1_000, 10_000],
        w7_looks: 3,
        w8_runs: 30,
        w9_iterations: 2_000,
        w9_plain: 10_000,
        w10_rows: 2_000,
        w10_published: 100_000,
        w10_counts: 20,
    };
}

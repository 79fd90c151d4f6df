//! Simulation of the whole server: servers, workers and users in one thread, over the in-memory
//! store, with a clock and random numbers that a seed determines.
//!
//! Messages are delayed, duplicated and lost in either direction. Store calls fail before or after
//! they take effect. Servers and workers crash or are suspended at any point. After a while all
//! faults stop, and every run must end: with one terminal event, one result per command, a
//! consistent log, and nothing left open.
//!
//! A failure prints its seed. `SIM_SEED=n` runs only that seed and prints its whole trace.
//! `SIM_SEED=n..m` runs a range of seeds.

#![expect(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod check;
mod fault_plan;
mod playbooks;
mod server;
mod server_link;
mod tools;
mod trace;
mod users;
mod worker;
mod world;

use world::SimulationReport;

/// Number of seeds that are tested with every change. `scripts/full` tests the others of the first
/// thousand.
const DEFAULT_SEEDS: u64 = 250;
/// Trace lines that a failure prints.
const TRACE_TAIL_LINES: usize = 80;

/// Simulates a seed on its own tokio runtime with paused time.
fn simulate_seed(seed: u64) -> SimulationReport {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(world::run_simulation(seed))
}

fn format_failure(seed: u64, report: &SimulationReport, lines: usize) -> String {
    let (tail, violations) = (report.trace.tail(lines), report.violations.join("\n"));
    format!("SIM_SEED={seed}\n{tail}\n{violations}")
}

fn simulate_seeds(seeds: std::ops::Range<u64>) {
    let (mut executions, mut compared) = (0, 0);
    let (mut first, mut failed) = (None, Vec::new());
    for seed in seeds {
        let report = simulate_seed(seed);
        executions += report.executions;
        compared += report.compared;
        if let Some(violation) = report.violations.first() {
            failed.push(format!("SIM_SEED={seed}: {violation}"));
            first.get_or_insert_with(|| format_failure(seed, &report, TRACE_TAIL_LINES));
        }
    }
    if let Some(first) = first {
        panic!("{first}\n\nin all:\n{}", failed.join("\n"));
    }
    // If faults disturbed most runs, the comparison would prove little.
    assert!(
        2 * compared > executions,
        "only {compared} of {executions} executions could be compared"
    );
}

#[test]
fn runs_survive_random_faults() {
    simulate_seeds(0..DEFAULT_SEEDS);
}

#[test]
#[ignore = "takes minutes"]
fn heavy_runs_survive_random_faults() {
    simulate_seeds(DEFAULT_SEEDS..1_000);
}

#[test]
fn same_seed_gives_same_trace() {
    for seed in (0..1_000).step_by(40) {
        let (first, second) = (simulate_seed(seed), simulate_seed(seed));
        if first.digest != second.digest {
            let (first, second) = (first.trace.all_lines(), second.trace.all_lines());
            let pairs = first.iter().zip(&second);
            let same = pairs.take_while(|(one, other)| one == other).count();
            panic!(
                "seed {seed} differs at line {same}:\n{:?}\n{:?}\nafter\n{}",
                first.get(same),
                second.get(same),
                first[same.saturating_sub(20)..same].join("\n")
            );
        }
    }
}

#[test]
fn simulates_requested_seed() {
    #[expect(clippy::disallowed_methods, reason = "the user selects the seeds")]
    let requested = std::env::var("SIM_SEED").ok();
    let requested = requested.as_deref().unwrap_or_default();
    if let Some((from, to)) = requested.split_once("..") {
        simulate_seeds(from.parse().expect("a seed")..to.parse().expect("a seed"));
    } else if let Ok(seed) = requested.parse() {
        let report = simulate_seed(seed);
        let is_valid = report.violations.is_empty();
        assert!(is_valid, "{}", format_failure(seed, &report, usize::MAX));
    }
}

//! The whole runtime in a simulation: servers, workers and people in one thread, over the model of a
//! store, with a clock and dice that a seed determines.
//!
//! Messages are late, doubled and lost, on the way there and on the way back; calls of the store fail
//! before and after they are done; servers and workers die or sleep in the middle of anything. After a
//! while all of that stops, and every run must come to its end: one end, one result for each command,
//! a log that is whole, and nothing left behind.
//!
//! A failure names its seed. `SIM_SEED=n` lives through that one alone and shows all of its trace;
//! `SIM_SEED=n..m` lives through others than the usual thousand.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod books;
mod check;
mod crowd;
mod line;
mod server;
mod tools;
mod trace;
mod weather;
mod worker;
mod world;

use world::Report;

/// Worlds in one test; there are as many tests as make a thousand of them.
const SEEDS: u64 = 250;
/// Lines of the trace that a failure shows.
const TAIL: usize = 80;

/// Lives through the world of a seed, in a thread and a time of its own.
fn live(seed: u64) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(world::live(seed))
}

/// What a failure shows.
fn shown(seed: u64, report: &Report, lines: usize) -> String {
    let (tail, violations) = (report.trace.tail(lines), report.violations.join("\n"));
    format!("SIM_SEED={seed}\n{tail}\n{violations}")
}

fn live_all(seeds: std::ops::Range<u64>) {
    let (mut executions, mut compared) = (0, 0);
    let (mut first, mut failed) = (None, Vec::new());
    for seed in seeds {
        let report = live(seed);
        executions += report.executions;
        compared += report.compared;
        if let Some(violation) = report.violations.first() {
            failed.push(format!("SIM_SEED={seed}: {violation}"));
            first.get_or_insert_with(|| shown(seed, &report, TAIL));
        }
    }
    if let Some(first) = first {
        panic!("{first}\n\nin all:\n{}", failed.join("\n"));
    }
    // Worlds so rough that nothing comes to what it should would prove little.
    assert!(
        2 * compared > executions,
        "only {compared} of {executions} executions could be compared"
    );
}

#[test]
fn heavy_first_quarter() {
    live_all(0..SEEDS);
}

#[test]
fn heavy_second_quarter() {
    live_all(SEEDS..2 * SEEDS);
}

#[test]
fn heavy_third_quarter() {
    live_all(2 * SEEDS..3 * SEEDS);
}

#[test]
fn heavy_fourth_quarter() {
    live_all(3 * SEEDS..4 * SEEDS);
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in (0..1_000).step_by(40) {
        let (first, second) = (live(seed), live(seed));
        if first.digest != second.digest {
            let (first, second) = (first.trace.all(), second.trace.all());
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
fn the_seed_that_is_asked_for() {
    #[expect(
        clippy::disallowed_methods,
        reason = "a person chooses the world to look at"
    )]
    let asked = std::env::var("SIM_SEED").ok();
    let asked = asked.as_deref().unwrap_or_default();
    if let Some((from, to)) = asked.split_once("..") {
        live_all(from.parse().expect("a seed")..to.parse().expect("a seed"));
    } else if let Ok(seed) = asked.parse() {
        let report = live(seed);
        let is_well = report.violations.is_empty();
        assert!(is_well, "{}", shown(seed, &report, usize::MAX));
    }
}

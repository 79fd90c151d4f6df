//! Records the logs of the corpus: `cargo run -p noetl-engine --example record_logs`.
//!
//! An existing log is never overwritten: new code must fold logs that older code recorded. Logs of
//! other systems are written by hand.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a developer tool fails by panicking"
)]

#[expect(dead_code, reason = "only some of the generators are used here")]
#[path = "../tests/it/properties/generate.rs"]
mod generate;
#[path = "record_logs/scripts.rs"]
mod scripts;

use std::fs;
use std::path::Path;

use noetl_testkit::sim::{ChaosScheduler, FaultRates, Simulation};
use noetl_types::json::to_canonical;

use generate::{flaky_tool, flaky_world, parse_playbook, random_playbook};

/// Number of random runs, in addition to one per construct.
const RANDOM_RUN_COUNT: u64 = 12;
/// Maximum number of events of a random run. Longer ones are discarded.
const MAX_EVENTS: usize = 120;

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/corpus/logs");
    for (name, sim) in scripts::all_runs() {
        write_log(&folder, name, &sim);
    }
    let mut seed = 0;
    let mut written = 0;
    while written < RANDOM_RUN_COUNT {
        seed += 1;
        let sim = run_random(seed);
        if sim.log().len() <= MAX_EVENTS {
            written += 1;
            write_log(&folder, &format!("generated_{seed:02}"), &sim);
        }
    }
}

fn run_random(seed: u64) -> Simulation {
    let mut sim = Simulation::from_playbook(parse_playbook(&random_playbook(seed)))
        .with_tools(flaky_tool(seed))
        .with_responses(flaky_world(seed));
    sim.start().unwrap();
    if !sim.state().is_ended() {
        ChaosScheduler::new(seed, FaultRates::HARMLESS_FAULTS).run_to_end(&mut sim);
    }
    sim
}

fn write_log(folder: &Path, name: &str, sim: &Simulation) {
    let path = folder.join(format!("{name}.jsonl"));
    if path.exists() {
        return;
    }
    let mut text = Vec::new();
    for record in sim.to_records() {
        text.extend(to_canonical(&record));
        text.push(b'\n');
    }
    fs::write(&path, text).unwrap();
    println!("{name}: {} events, {}", sim.log().len(), sim.status());
}

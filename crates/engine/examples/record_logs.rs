//! Records the logs of the corpus: `cargo run -p noetl-engine --example record_logs`.
//!
//! A log that is there already stays: what was recorded once is how it was, and new code has to fold
//! it. Logs that other systems wrote are written by hand.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a tool for developers, that fails loudly"
)]

#[expect(dead_code, reason = "only some of the generators are used here")]
#[path = "../tests/properties/generate.rs"]
mod generate;
#[path = "record_logs/scripts.rs"]
mod scripts;

use std::fs;
use std::path::Path;

use noetl_testkit::sim::{Chaos, Odds, Sim};
use noetl_types::json::to_canonical;

use generate::{moody_tool, moody_world, playbook, rich};

/// Runs by chance, besides those of each construct.
const GENERATED: u64 = 12;
/// Events of a log that is small enough to be kept.
const MAX_EVENTS: usize = 120;

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/corpus/logs");
    for (name, sim) in scripts::all() {
        write(&folder, name, &sim);
    }
    let mut seed = 0;
    let mut written = 0;
    while written < GENERATED {
        seed += 1;
        let sim = by_chance(seed);
        if sim.log().len() <= MAX_EVENTS {
            written += 1;
            write(&folder, &format!("generated_{seed:02}"), &sim);
        }
    }
}

fn by_chance(seed: u64) -> Sim {
    let mut sim = Sim::of_playbook(playbook(&rich(seed)))
        .with_tools(moody_tool(seed))
        .in_world(moody_world(seed));
    sim.start().unwrap();
    if !sim.state().is_ended() {
        Chaos::new(seed, Odds::ROUGH).drive(&mut sim);
    }
    sim
}

fn write(folder: &Path, name: &str, sim: &Sim) {
    let path = folder.join(format!("{name}.jsonl"));
    if path.exists() {
        return;
    }
    let mut text = Vec::new();
    for record in sim.records() {
        text.extend(to_canonical(&record));
        text.push(b'\n');
    }
    fs::write(&path, text).unwrap();
    println!("{name}: {} events, {}", sim.log().len(), sim.status());
}

//! The engine and the oracle agree: two interpreters of the language, written apart, make the same log
//! of the same playbook and come to the same end.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod drive;
mod parked;
mod told;

use noetl_oracle::generate::{GenConfig, generate};
use noetl_oracle::{
    RunResult, Schedule, Script, interpret, interpret_after, shrink_seed, start_workload,
};
use noetl_playbook::model::Playbook;
use noetl_types::Json;

use drive::drive;
use told::{Told, by_engine, by_oracle};

/// What the oracle makes of a playbook; where results are kept, also what it makes of it once more.
fn oracle(playbook: &Playbook) -> Vec<Told> {
    let workload = start_workload(playbook, &Json::Null).expect("workload renders");
    let first: RunResult = interpret(playbook, workload.clone(), &Script, Schedule::InOrder)
        .expect("the oracle runs everything that is generated");
    if !keeps_results(playbook) {
        return vec![by_oracle(&first)];
    }
    let second = interpret_after(&first, playbook, workload, &Script, Schedule::InOrder)
        .expect("it runs again");
    vec![by_oracle(&first), by_oracle(&second)]
}

/// What the engine makes of it.
fn engine(playbook: &Playbook) -> Vec<Told> {
    let first = drive(playbook, None);
    if !keeps_results(playbook) {
        return vec![by_engine(&first)];
    }
    let second = drive(playbook, Some(&first));
    vec![by_engine(&first), by_engine(&second)]
}

fn keeps_results(playbook: &Playbook) -> bool {
    let mut steps = playbook.workflow.iter();
    steps.any(|step| step.spec.cache.is_some())
}

fn agree(from: u64, count: u64, config: &GenConfig) {
    let differs = |playbook: &Playbook| oracle(playbook) != engine(playbook);
    for seed in from..from + count {
        let Some(playbook) = generate(seed, config).playbook() else {
            panic!("seed {seed} is not a playbook");
        };
        if differs(&playbook) {
            let small = shrink_seed(seed, config, &mut |playbook, _| differs(playbook))
                .expect("it differs");
            let playbook = small.playbook().expect("shrunk playbooks are valid");
            let (oracle, engine) = (oracle(&playbook), engine(&playbook));
            panic!(
                "seed {seed}:\n{}\noracle {oracle:#?}\nengine {engine:#?}",
                small.text()
            );
        }
    }
}

/// Everything that does not need the world, and one thing that does.
macro_rules! with {
    ($($what:ident),+) => {
        GenConfig { $($what: true,)+ ..GenConfig::everything().without_world() }
    };
}

#[test]
fn heavy_on_what_the_language_fixes() {
    agree(0, 600, &GenConfig::default().without_world());
    agree(10_000, 400, &GenConfig::default());
}

#[test]
fn heavy_without_races() {
    agree(100_000, 300, &GenConfig::confluent().without_world());
    agree(110_000, 300, &GenConfig::confluent());
}

#[test]
fn heavy_on_everything() {
    agree(200_000, 500, &GenConfig::everything().without_world());
    agree(210_000, 500, &GenConfig::everything());
}

#[test]
fn heavy_on_cursors() {
    agree(300_000, 300, &with!(cursors));
}

#[test]
fn heavy_on_caches() {
    agree(400_000, 300, &with!(caches));
}

#[test]
fn heavy_on_slots() {
    agree(500_000, 300, &with!(slots));
}

#[test]
fn heavy_on_sleeps() {
    agree(600_000, 300, &with!(sleeps, timeouts));
}

#[test]
fn heavy_on_waits() {
    agree(700_000, 300, &with!(waits));
}

#[test]
fn heavy_on_approvals() {
    agree(800_000, 300, &with!(approvals));
}

#[test]
fn heavy_on_children() {
    agree(900_000, 300, &with!(children));
}

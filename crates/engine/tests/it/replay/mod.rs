//! Replay: the same log gives the same bytes in any order, split and encoding of the input.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod agreement;
mod corpus;
mod properties;
#[path = "../../../examples/record_logs/scripts.rs"]
mod scripts;

use noetl_engine::replay::ReplayState;
use noetl_testkit::sim::{ChaosScheduler, FaultRates, Simulation};
use noetl_types::record::EventRecord;

use crate::properties::generate::{flaky_tool, flaky_world, parse_playbook, random_playbook};

/// Runs a generated playbook with random scheduling and faults.
fn run_generated(seed: u64, world: u64) -> Simulation {
    let mut sim = Simulation::from_playbook(parse_playbook(&random_playbook(seed)))
        .with_tools(flaky_tool(seed))
        .with_responses(flaky_world(seed));
    sim.start().unwrap();
    if !sim.state().is_ended() {
        let rates = FaultRates { cancel: 2, ..FaultRates::HARMLESS_FAULTS };
        ChaosScheduler::new(world, rates).run_to_end(&mut sim);
    }
    sim
}

/// Empty state of the execution that the records belong to.
fn empty_state(records: &[EventRecord]) -> ReplayState {
    let event = &records[0].event;
    ReplayState::new(event.tenant_id.clone(), event.organization_id.clone(), event.execution_id)
}

fn replay_records(records: &[EventRecord]) -> ReplayState {
    let mut state = empty_state(records);
    for record in records {
        state.apply(record).unwrap();
    }
    state
}

//! Replay: whatever the order, the split or the way in, the same log gives the same bytes.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod agreement;
mod corpus;
#[expect(dead_code, reason = "only some of the generators are used here")]
#[path = "../properties/generate.rs"]
mod generate;
mod properties;
#[path = "../../examples/record_logs/scripts.rs"]
mod scripts;

use noetl_engine::replay::ReplayState;
use noetl_testkit::sim::{Chaos, Odds, Sim};
use noetl_types::record::EventRecord;

use generate::{moody_tool, moody_world, playbook, rich};

/// A run by chance in a world of its own.
fn run(seed: u64, world: u64) -> Sim {
    let mut sim = Sim::of_playbook(playbook(&rich(seed)))
        .with_tools(moody_tool(seed))
        .in_world(moody_world(seed));
    sim.start().unwrap();
    if !sim.state().is_ended() {
        let odds = Odds {
            cancel: 2,
            ..Odds::ROUGH
        };
        Chaos::new(world, odds).drive(&mut sim);
    }
    sim
}

/// The fold of no events of the execution that events belong to.
fn empty(records: &[EventRecord]) -> ReplayState {
    let event = &records[0].event;
    ReplayState::new(
        event.tenant_id.clone(),
        event.organization_id.clone(),
        event.execution_id,
    )
}

fn replay(records: &[EventRecord]) -> ReplayState {
    let mut state = empty(records);
    for record in records {
        state.apply(record).unwrap();
    }
    state
}

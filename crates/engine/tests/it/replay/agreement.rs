//! The replayed state matches the state of the engine after every event.

use noetl_engine::{CommandPhase, ExecutionState};
use noetl_testkit::sim::Simulation;
use noetl_types::{EventStatus, ExecutionStatus, StatusName};
use proptest::prelude::*;

use crate::replay::{empty_state, run_generated};

fn assert_agrees(sim: &Simulation) {
    let records = sim.to_records();
    let mut state = ExecutionState::new(sim.plan());
    let mut replayed = empty_state(&records);
    for (event, record) in sim.log().iter().zip(&records) {
        state.apply(sim.plan(), event).unwrap();
        replayed.apply(record).unwrap();
        let at = format!("at {} of\n{}", record.seq, sim.format_log());
        assert_eq!(state.version(), replayed.version());
        assert_same_status(&state, replayed.status(), &at);
        assert_same_commands(&state, &replayed, &at);
    }
}

fn assert_same_status(state: &ExecutionState, replayed: &StatusName, at: &str) {
    use EventStatus as ReplayedStatus;
    use ExecutionStatus as EngineStatus;

    let replayed = replayed.known_status().unwrap();
    // Pending and paused exist only in the state of the engine. The replayed status has no such
    // value.
    let agree = match state.status() {
        EngineStatus::Pending => replayed == ReplayedStatus::Unknown,
        EngineStatus::Running => replayed == ReplayedStatus::Running,
        EngineStatus::Paused => {
            matches!(replayed, ReplayedStatus::Unknown | ReplayedStatus::Running)
        }
        end @ (EngineStatus::Completed | EngineStatus::Failed | EngineStatus::Cancelled) => {
            replayed == end.into()
        }
    };
    assert!(agree, "{:?} and {replayed:?} {at}", state.status());
}

fn assert_same_commands(
    state: &ExecutionState,
    replayed: &noetl_engine::replay::ReplayState,
    at: &str,
) {
    let entries = &replayed.replayed().commands;
    for (id, command) in state.commands() {
        let entry = &entries[id.to_string().as_str()];
        let expected = match &command.phase {
            CommandPhase::Pending { .. } => EventStatus::Pending,
            CommandPhase::Leased { is_running: false, .. } => EventStatus::Claimed,
            CommandPhase::Leased { is_running: true, .. } => EventStatus::Running,
            // Between the end of the call and the closing of the command: both are in one append.
            _ => continue,
        };
        assert_eq!(entry.status, expected.into(), "command {id} {at}");
    }
    let closed = entries.values().filter(|entry| entry.terminal_event_id.is_some());
    assert_eq!(closed.count() + state.open_command_count(), entries.len(), "{at}");
}

#[test]
fn replay_matches_engine_for_every_construct() {
    for (_, sim) in crate::replay::scripts::all_runs() {
        assert_agrees(&sim);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn replay_matches_engine_for_generated_runs(seed in any::<u64>(), world in any::<u64>()) {
        assert_agrees(&run_generated(seed, world));
    }
}

//! The replayed state at every event is what the engine believed then.

use noetl_engine::{CommandPhase, State};
use noetl_testkit::sim::Sim;
use noetl_types::{EventStatus, ExecutionStatus, StatusName};
use proptest::prelude::*;

use crate::{empty, run};

fn agrees(sim: &Sim) {
    let records = sim.records();
    let mut state = State::new(sim.plan());
    let mut replayed = empty(&records);
    for (event, record) in sim.log().iter().zip(&records) {
        state.apply(sim.plan(), event).unwrap();
        replayed.apply(record).unwrap();
        let at = format!("at {} of\n{}", record.seq, sim.table());
        assert_eq!(state.version(), replayed.version());
        same_status(&state, replayed.status(), &at);
        same_commands(&state, &replayed, &at);
    }
}

fn same_status(state: &State, replayed: &StatusName, at: &str) {
    use EventStatus as Shown;
    use ExecutionStatus as Live;

    let replayed = replayed.known().unwrap();
    // What is for display only, nothing entered yet and paused, is derived from the engine's state.
    let agree = match state.status() {
        Live::Pending => replayed == Shown::Unknown,
        Live::Running => replayed == Shown::Running,
        Live::Paused => matches!(replayed, Shown::Unknown | Shown::Running),
        end @ (Live::Completed | Live::Failed | Live::Cancelled) => replayed == end.into(),
    };
    assert!(agree, "{:?} and {replayed:?} {at}", state.status());
}

fn same_commands(state: &State, replayed: &noetl_engine::replay::ReplayState, at: &str) {
    let shown = &replayed.replayed().commands;
    for (id, command) in state.commands() {
        let entry = &shown[id.to_string().as_str()];
        let wanted = match &command.phase {
            CommandPhase::Pending { .. } => EventStatus::Pending,
            CommandPhase::Leased {
                is_running: false, ..
            } => EventStatus::Claimed,
            CommandPhase::Leased {
                is_running: true, ..
            } => EventStatus::Running,
            // The call is over, and the command not closed yet: all of it happens in one append.
            _ => continue,
        };
        assert_eq!(entry.status, wanted.into(), "command {id} {at}");
    }
    let closed = shown
        .values()
        .filter(|entry| entry.terminal_event_id.is_some());
    assert_eq!(closed.count() + state.open_commands(), shown.len(), "{at}");
}

#[test]
fn of_every_construct() {
    for (_, sim) in crate::scripts::all() {
        agrees(&sim);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn of_generated_runs(seed in any::<u64>(), world in any::<u64>()) {
        agrees(&run(seed, world));
    }
}

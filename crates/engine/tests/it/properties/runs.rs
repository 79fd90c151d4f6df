//! Properties of runs of random playbooks under random faults.

use std::collections::{BTreeMap, BTreeSet};

use noetl_engine::{
    Event, EventData, EventKind, ExecutionState, StepOutput, decode_record, encode_event,
};
use noetl_testkit::sim::{ChaosScheduler, FaultRates, Simulation, SplitMix};
use noetl_types::record::EventRecord;
use noetl_types::{EventName, EventType, ExecutionStatus, Json, StepName};
use proptest::prelude::*;

use crate::properties::generate::{flaky_tool, flaky_world, parse_playbook, random_playbook};

fn random_sim(seed: u64) -> Simulation {
    Simulation::from_playbook(parse_playbook(&random_playbook(seed)))
        .with_tools(flaky_tool(seed))
        .with_responses(flaky_world(seed))
}

/// Runs a random playbook with random scheduling and faults.
fn run_random(seed: u64, world: u64, rates: FaultRates) -> Simulation {
    let mut sim = random_sim(seed);
    sim.start().unwrap();
    if !sim.state().is_ended() {
        ChaosScheduler::new(world, rates).run_to_end(&mut sim);
    }
    sim
}

/// Removes the fields that depend on time or on generated ids.
fn without_time_fields(value: &Json) -> Json {
    const TIME_DEPENDENT_KEYS: [&str; 5] =
        ["slept_ms", "fired_at", "received_at", "at", "execution_id"];
    match value {
        Json::Map(map) => {
            let stable = map.iter().filter(|(key, _)| !TIME_DEPENDENT_KEYS.contains(&&***key));
            Json::object(stable.map(|(key, value)| (key.clone(), without_time_fields(value))))
        }
        Json::List(items) => Json::list(items.iter().map(without_time_fields)),
        other => other.clone(),
    }
}

/// Outputs of the successful steps, without time-dependent fields.
fn step_outputs(sim: &Simulation) -> BTreeMap<StepName, StepOutput> {
    let steps = sim.plan().graph().steps();
    steps
        .filter_map(|step| {
            let mut output = sim.state().step_state(step)?.output.clone()?;
            if let EventData::Inline(data) = &output.data {
                output.data = EventData::Inline(without_time_fields(data));
            }
            output.labels = output.labels.as_ref().map(without_time_fields);
            Some((sim.plan().step(step).name.clone(), output))
        })
        .collect()
}

fn fold_events<'e>(
    sim: &Simulation,
    events: impl IntoIterator<Item = &'e Event>,
) -> ExecutionState {
    let mut state = ExecutionState::new(sim.plan());
    for event in events {
        state.apply(sim.plan(), event).unwrap();
    }
    state
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Slow, lost and repeated reports and pauses do not change the outcome of a run.
    #[test]
    fn outcome_is_independent_of_report_order(seed in any::<u64>(), world in any::<u64>()) {
        let plain = random_sim(seed).run();
        let faulty = run_random(seed, world, FaultRates::HARMLESS_FAULTS);
        prop_assert_eq!(plain.status(), faulty.status());
        if plain.status() == ExecutionStatus::Completed {
            prop_assert_eq!(step_outputs(&plain), step_outputs(&faulty));
            prop_assert_eq!(without_time_fields(plain.state().ctx()), without_time_fields(faulty.state().ctx()));
        }
    }

    /// The log has one terminal event, only audit events after it, and one result per command.
    #[test]
    fn log_has_one_end_and_one_result_per_command(seed in any::<u64>(), world in any::<u64>()) {
        let rates = FaultRates { cancel: 2, ..FaultRates::HARMLESS_FAULTS };
        let sim = run_random(seed, world, rates);
        let names = || sim.log().iter().map(|event| event.kind.name());
        let is_end = |name: &EventName| name.known_type().is_some_and(EventType::is_terminal);
        prop_assert_eq!(names().filter(is_end).count(), 1);
        let after = names().skip_while(|name| !is_end(name)).skip(1);
        prop_assert!(after.into_iter().all(|name| name.is_audit()));
        let mut results = BTreeSet::new();
        let mut closed = BTreeSet::new();
        for event in sim.log() {
            let (set, command) = match &event.kind {
                EventKind::CallDone(done) => (&mut results, done.at.command),
                EventKind::CallError(failed) if failed.retried.is_none() => {
                    (&mut results, failed.at.command)
                }
                EventKind::CommandCompleted(at) => (&mut closed, at.command),
                EventKind::CommandFailed(failed) => (&mut closed, failed.at.command),
                EventKind::CommandCancelled(cancelled) => (&mut closed, cancelled.at.command),
                _ => continue,
            };
            prop_assert!(set.insert(command), "{} twice\n{}", command, sim.format_log());
        }
    }

    /// Repeating the decisions from the folded log produces identical bytes.
    #[test]
    fn decisions_are_reproducible(seed in any::<u64>(), world in any::<u64>()) {
        run_random(seed, world, FaultRates::HARMLESS_FAULTS).repeat_decisions();
    }

    /// A snapshot at any position plus the remaining events equals the fold of all events.
    #[test]
    fn state_resumes_from_any_snapshot(seed in any::<u64>(), world in any::<u64>()) {
        let sim = run_random(seed, world, FaultRates::HARMLESS_FAULTS);
        let mut rng = SplitMix::new(world);
        let cut = rng.number_below(sim.log().len() + 1);
        let (before, after) = sim.log().split_at(cut);
        let state = fold_events(&sim, before);
        let snapshot = state.to_snapshot().unwrap();
        let mut restored = ExecutionState::from_snapshot(sim.plan(), &snapshot).unwrap();
        prop_assert_eq!(&restored, &state);
        prop_assert_eq!(restored.to_snapshot().unwrap(), snapshot);
        for event in after {
            restored.apply(sim.plan(), event).unwrap();
        }
        prop_assert_eq!(&restored, sim.state());
        prop_assert_eq!(restored, fold_events(&sim, sim.log()));
    }

    /// A record contains the complete event.
    #[test]
    fn records_fold_to_same_state(seed in any::<u64>(), world in any::<u64>()) {
        let sim = run_random(seed, world, FaultRates::HARMLESS_FAULTS);
        let mut state = ExecutionState::new(sim.plan());
        for record in sim.to_records() {
            let text = serde_json::to_vec(&record).unwrap();
            let record: EventRecord = serde_json::from_slice(&text).unwrap();
            let event = decode_record(&record).unwrap();
            prop_assert_eq!(&encode_event(&event, sim.header()), &record.event);
            state.apply(sim.plan(), &event).unwrap();
        }
        prop_assert_eq!(&state, sim.state());
    }

    /// Folding a damaged log ends in a state or in an error, and an error changes nothing.
    #[test]
    fn damaged_log_is_rejected(seed in any::<u64>(), world in any::<u64>()) {
        let sim = run_random(seed, world, FaultRates::HARMLESS_FAULTS);
        let mut rng = SplitMix::new(world);
        let mut log = sim.log().to_vec();
        for _ in 0..=rng.number_below(4) {
            let (at, other) = (rng.number_below(log.len()), rng.number_below(log.len()));
            match rng.number_below(3) {
                0 => drop(log.remove(at)),
                1 => log.swap(at, other),
                _ => log.insert(at, log[other].clone()),
            }
            if log.is_empty() {
                return Ok(());
            }
        }
        let mut state = ExecutionState::new(sim.plan());
        for mut event in log {
            // This test is not about the seq.
            event.seq = state.version().next_seq();
            let before = state.clone();
            if state.apply(sim.plan(), &event).is_err() {
                prop_assert_eq!(&state, &before);
            }
        }
    }
}

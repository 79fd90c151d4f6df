//! What holds of every run of rich playbooks in a rough world.

use std::collections::{BTreeMap, BTreeSet};

use noetl_engine::{Data, Event, EventKind, Output, State, decode, encode};
use noetl_testkit::sim::{Chaos, Odds, Sim, SplitMix};
use noetl_types::record::EventRecord;
use noetl_types::{EventName, EventType, ExecutionStatus, Json, StepName};
use proptest::prelude::*;

use crate::generate::{moody_tool, moody_world, playbook, rich};

fn sim(seed: u64) -> Sim {
    Sim::of_playbook(playbook(&rich(seed)))
        .with_tools(moody_tool(seed))
        .in_world(moody_world(seed))
}

/// A run in a world of its own.
fn run(seed: u64, world: u64, odds: Odds) -> Sim {
    let mut sim = sim(seed);
    sim.start().unwrap();
    if !sim.state().is_ended() {
        Chaos::new(world, odds).drive(&mut sim);
    }
    sim
}

/// A value without what depends on when things happened and which ids were free.
fn timeless(value: &Json) -> Json {
    const OF_THE_MOMENT: [&str; 5] = ["slept_ms", "fired_at", "received_at", "at", "execution_id"];
    match value {
        Json::Map(map) => {
            let lasting = map
                .iter()
                .filter(|(key, _)| !OF_THE_MOMENT.contains(&&***key));
            Json::object(lasting.map(|(key, value)| (key.clone(), timeless(value))))
        }
        Json::List(items) => Json::list(items.iter().map(timeless)),
        other => other.clone(),
    }
}

/// The data of every step that went well, as far as it is the same whenever it runs.
fn outputs(sim: &Sim) -> BTreeMap<StepName, Output> {
    let steps = sim.plan().graph().steps();
    steps
        .filter_map(|step| {
            let mut output = sim.state().step(step)?.output.clone()?;
            if let Data::Inline(data) = &output.data {
                output.data = Data::Inline(timeless(data));
            }
            output.labels = output.labels.as_ref().map(timeless);
            Some((sim.plan().step(step).name.clone(), output))
        })
        .collect()
}

fn fold<'e>(sim: &Sim, events: impl IntoIterator<Item = &'e Event>) -> State {
    let mut state = State::new(sim.plan());
    for event in events {
        state.apply(sim.plan(), event).unwrap();
    }
    state
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Who is faster, who is lost, who repeats himself, and when somebody pauses: the run comes to
    /// the same end.
    #[test]
    fn any_order_of_reports_comes_to_the_same(seed in any::<u64>(), world in any::<u64>()) {
        let plain = sim(seed).run();
        let rough = run(seed, world, Odds::ROUGH);
        prop_assert_eq!(plain.status(), rough.status());
        if plain.status() == ExecutionStatus::Completed {
            prop_assert_eq!(outputs(&plain), outputs(&rough));
            prop_assert_eq!(timeless(plain.state().ctx()), timeless(rough.state().ctx()));
        }
    }

    /// The log has one end, only audit events behind it, and one result for each command.
    #[test]
    fn one_end_and_one_result_each(seed in any::<u64>(), world in any::<u64>()) {
        let odds = Odds { cancel: 2, ..Odds::ROUGH };
        let sim = run(seed, world, odds);
        let names = || sim.log().iter().map(|event| event.kind.name());
        let is_end = |name: &EventName| name.known().is_some_and(EventType::is_terminal);
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
            prop_assert!(set.insert(command), "{} twice\n{}", command, sim.table());
        }
    }

    /// What was decided once is decided again from the fold of the log, to the byte.
    #[test]
    fn decisions_are_reproducible(seed in any::<u64>(), world in any::<u64>()) {
        run(seed, world, Odds::ROUGH).decide_again();
    }

    /// A snapshot anywhere, and the fold of the rest, is the fold of the whole.
    #[test]
    fn snapshots_cut_a_log_anywhere(seed in any::<u64>(), world in any::<u64>()) {
        let sim = run(seed, world, Odds::ROUGH);
        let mut chance = SplitMix::new(world);
        let cut = chance.below(sim.log().len() + 1);
        let (before, after) = sim.log().split_at(cut);
        let state = fold(&sim, before);
        let snapshot = state.to_snapshot().unwrap();
        let mut restored = State::from_snapshot(sim.plan(), &snapshot).unwrap();
        prop_assert_eq!(&restored, &state);
        prop_assert_eq!(restored.to_snapshot().unwrap(), snapshot);
        for event in after {
            restored.apply(sim.plan(), event).unwrap();
        }
        prop_assert_eq!(&restored, sim.state());
        prop_assert_eq!(restored, fold(&sim, sim.log()));
    }

    /// A record is all there is to an event.
    #[test]
    fn records_fold_to_the_same(seed in any::<u64>(), world in any::<u64>()) {
        let sim = run(seed, world, Odds::ROUGH);
        let mut state = State::new(sim.plan());
        for record in sim.records() {
            let text = serde_json::to_vec(&record).unwrap();
            let record: EventRecord = serde_json::from_slice(&text).unwrap();
            let event = decode(&record).unwrap();
            prop_assert_eq!(&encode(&event, sim.header()), &record.event);
            state.apply(sim.plan(), &event).unwrap();
        }
        prop_assert_eq!(&state, sim.state());
    }

    /// Whatever becomes of a log, folding it ends in a state or in an error, and an error changes
    /// nothing.
    #[test]
    fn a_damaged_log_is_refused_not_followed(seed in any::<u64>(), world in any::<u64>()) {
        let sim = run(seed, world, Odds::ROUGH);
        let mut chance = SplitMix::new(world);
        let mut log = sim.log().to_vec();
        for _ in 0..=chance.below(4) {
            let (at, other) = (chance.below(log.len()), chance.below(log.len()));
            match chance.below(3) {
                0 => drop(log.remove(at)),
                1 => log.swap(at, other),
                _ => log.insert(at, log[other].clone()),
            }
            if log.is_empty() {
                return Ok(());
            }
        }
        let mut state = State::new(sim.plan());
        for mut event in log {
            // Its place is not what is asked about.
            event.seq = state.version().next_seq();
            let before = state.clone();
            if state.apply(sim.plan(), &event).is_err() {
                prop_assert_eq!(&state, &before);
            }
        }
    }
}

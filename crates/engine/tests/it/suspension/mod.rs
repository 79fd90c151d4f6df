//! Suspended tasks: sleeps, signals, approvals, children and callbacks.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod approvals;
mod children;
mod control;
mod golden;
mod segments;
mod signals;

use noetl_engine::{Event, EventKind};
use noetl_testkit::sim::Simulation;
use noetl_types::Json;
use noetl_types::json::parse;

fn parse_json(text: &str) -> Json {
    parse(text.as_bytes()).unwrap()
}

fn started_sim(body: &str) -> Simulation {
    let mut sim = Simulation::from_body(body);
    sim.start().unwrap();
    sim
}

/// Names of the events after the first `before` events of the log.
fn event_names_since(sim: &Simulation, before: usize) -> Vec<String> {
    let new = &sim.log()[before..];
    new.iter().map(|event| event.kind.name().as_str().to_owned()).collect()
}

/// Data of the last successful call.
fn last_call_data(sim: &Simulation) -> Json {
    let done = |event: &Event| match &event.kind {
        EventKind::CallDone(done) => match &done.outcome.data {
            noetl_engine::EventData::Inline(data) => Some(data.clone()),
            noetl_engine::EventData::External(reference) => Some(reference.as_json().clone()),
        },
        _ => None,
    };
    sim.log().iter().rev().find_map(done).unwrap()
}

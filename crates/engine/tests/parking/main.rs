//! Tasks that wait without a worker.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod approvals;
mod children;
mod golden;
mod segments;
mod signals;
mod steering;

use noetl_engine::{Event, EventKind};
use noetl_testkit::sim::Sim;
use noetl_types::Json;
use noetl_types::json::parse;

fn json(text: &str) -> Json {
    parse(text.as_bytes()).unwrap()
}

/// A run that has begun.
fn begun(body: &str) -> Sim {
    let mut sim = Sim::of(body);
    sim.start().unwrap();
    sim
}

/// The names of the events since a place in the log.
fn names_since(sim: &Sim, before: usize) -> Vec<String> {
    let new = &sim.log()[before..];
    new.iter()
        .map(|event| event.kind.name().as_str().to_owned())
        .collect()
}

/// The data of the last call that went well.
fn last_data(sim: &Sim) -> Json {
    let done = |event: &Event| match &event.kind {
        EventKind::CallDone(done) => match &done.outcome.data {
            noetl_engine::Data::Inline(data) => Some(data.clone()),
            noetl_engine::Data::External(reference) => Some(reference.as_json().clone()),
        },
        _ => None,
    };
    sim.log().iter().rev().find_map(done).unwrap()
}

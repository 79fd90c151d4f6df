//! The interpreter: a playbook, its input and the outcomes of its tools in, a result out.
//!
//! Work takes no time here. Time passes only while a run waits for something that is not work: for a
//! timer, for a signal or a person, for a child, or for a slot. Leases and lost workers belong to tests
//! of their own, and so do containers that call back, see [`Unsupported`].

mod cursor;
mod entering;
mod looping;
mod machine;
mod outside;
mod parking;
mod routing;
mod slots;
mod waits;

use std::sync::Arc;

use noetl_playbook::model::{Playbook, Step, ToolKind};
use noetl_playbook::template::{MapScope, RenderError, StartScope};
use noetl_types::{Json, JsonMap, Millis, Timestamp};

use crate::outcome::Outcomes;
use crate::result::RunResult;
use machine::Machine;

/// In which order open commands are carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Schedule {
    /// By one worker with one slot, in order of issue.
    #[default]
    InOrder,
    /// In an order drawn from a seed.
    Seeded(u64),
}

/// A construct that the interpreter leaves to other tests.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("step '{step}' uses {what}, which the oracle does not interpret")]
pub struct Unsupported {
    /// The step.
    pub step: Arc<str>,
    /// The construct.
    pub what: &'static str,
}

/// Runs a playbook with a recorded input, as the language says.
pub fn interpret(
    playbook: &Playbook,
    workload: Json,
    outcomes: &dyn Outcomes,
    schedule: Schedule,
) -> Result<RunResult, Unsupported> {
    supported(playbook)?;
    Ok(Machine::new(playbook, workload, outcomes, schedule, Vec::new()).run())
}

/// Runs a playbook again, just after an earlier run of it has left its results in the cache.
pub fn interpret_after(
    earlier: &RunResult,
    playbook: &Playbook,
    workload: Json,
    outcomes: &dyn Outcomes,
    schedule: Schedule,
) -> Result<RunResult, Unsupported> {
    supported(playbook)?;
    let mut left = earlier.left.clone();
    for cached in &mut left {
        cached.until = None;
    }
    Ok(Machine::new(playbook, workload, outcomes, schedule, left).run())
}

fn supported(playbook: &Playbook) -> Result<(), Unsupported> {
    for step in &playbook.workflow {
        if let Some(what) = unsupported(step) {
            return Err(Unsupported {
                step: Arc::clone(&step.name.value),
                what,
            });
        }
    }
    Ok(())
}

fn unsupported(step: &Step) -> Option<&'static str> {
    let calls_back = |kind| kind == ToolKind::Container;
    if step
        .tool
        .tasks()
        .iter()
        .any(|task| calls_back(task.kind.value))
    {
        return Some("a container");
    }
    None
}

/// The moment at which every run begins.
pub const BEGINS: &str = "2026-01-01T00:00:00Z";

fn begins() -> Timestamp {
    Timestamp::parse(BEGINS).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// A moment, as data tells it.
fn moment(at: u64) -> Json {
    let at = begins().saturating_add(Millis::from_ms(at));
    Json::from(at.to_string())
}

/// How long after its start a run comes to a moment; no time at all for one before.
fn time_of(at: Timestamp) -> u64 {
    at.since(begins()).as_ms()
}

/// The recorded input of a run: the rendered defaults with the payload merged over them.
pub fn start_workload(playbook: &Playbook, payload: &Json) -> Result<Json, RenderError> {
    let names = MapScope::new()
        .with("payload", payload.clone())
        .with("input", payload.clone());
    let scope = StartScope::new(names.with("env", Json::empty_map()), [0; 32]);
    // The defaults do not see each other.
    let defaults = playbook
        .workload
        .iter()
        .map(|field| {
            Ok((
                Arc::clone(&field.name.value),
                field.value.render(&scope)?.value,
            ))
        })
        .collect::<Result<JsonMap, RenderError>>()?;
    let nothing = Json::empty_map();
    Ok(merged(
        Json::from(defaults),
        if payload.is_null() { &nothing } else { payload },
    ))
}

/// Maps are merged deeply, lists and scalars replaced.
fn merged(under: Json, over: &Json) -> Json {
    match (under, over) {
        (Json::Map(under), Json::Map(over)) => {
            let mut map = JsonMap::clone(&under);
            for (key, value) in over.iter() {
                let below = map.remove(key).unwrap_or_default();
                map.insert(Arc::clone(key), merged(below, value));
            }
            Json::from(map)
        }
        (_, over) => over.clone(),
    }
}

//! Interprets a playbook with its input and its tool outcomes, and returns the result.
//!
//! Work takes no time here. Time passes only while a run waits for something other than work: a
//! timer, a signal, an approval, a child, or a slot. Leases and lost workers have separate tests,
//! and so do containers that call back, see [`Unsupported`].

mod cursor;
mod due_events;
mod interpreter;
mod loops;
mod routing;
mod slots;
mod step_entry;
mod suspension;
mod waits;

use std::sync::Arc;

use noetl_playbook::model::{Playbook, Step, ToolKind};
use noetl_playbook::template::{MapEnvironment, RenderError, StartEnvironment};
use noetl_types::{Json, JsonMap, Millis, Timestamp};

use crate::outcome::ToolOutcomes;
use crate::run_result::RunResult;
use interpreter::Interpreter;

/// Order in which open commands are executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CommandOrder {
    /// In order of issue, by one worker that executes one command at a time.
    #[default]
    IssueOrder,
    /// In a random order from this seed.
    Seeded(u64),
}

/// A construct that the interpreter does not support.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("step '{step}' uses {what}, which the oracle does not interpret")]
pub struct Unsupported {
    pub step: Arc<str>,
    pub what: &'static str,
}

/// Runs a playbook with a recorded input.
pub fn interpret_playbook(
    playbook: &Playbook,
    workload: Json,
    outcomes: &dyn ToolOutcomes,
    order: CommandOrder,
) -> Result<RunResult, Unsupported> {
    check_supported(playbook)?;
    Ok(Interpreter::new(playbook, workload, outcomes, order, Vec::new()).run())
}

/// Runs a playbook again, with the cached results of an earlier run.
pub fn interpret_with_cache(
    earlier: &RunResult,
    playbook: &Playbook,
    workload: Json,
    outcomes: &dyn ToolOutcomes,
    order: CommandOrder,
) -> Result<RunResult, Unsupported> {
    check_supported(playbook)?;
    let mut cache = earlier.cached_results.clone();
    for cached in &mut cache {
        cached.expires_at = None;
    }
    Ok(Interpreter::new(playbook, workload, outcomes, order, cache).run())
}

fn check_supported(playbook: &Playbook) -> Result<(), Unsupported> {
    for step in &playbook.workflow {
        if let Some(what) = unsupported_construct(step) {
            return Err(Unsupported { step: Arc::clone(&step.name.value), what });
        }
    }
    Ok(())
}

fn unsupported_construct(step: &Step) -> Option<&'static str> {
    let calls_back = |kind| kind == ToolKind::Container;
    if step.tool.tasks().iter().any(|task| calls_back(task.kind.value)) {
        return Some("a container");
    }
    None
}

/// Start time of every run.
pub const RUN_START_TIME: &str = "2026-01-01T00:00:00Z";

fn run_start_time() -> Timestamp {
    Timestamp::parse(RUN_START_TIME).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Formats a time of the run as in data.
fn format_run_time(at: u64) -> Json {
    let at = run_start_time().saturating_add(Millis::from_ms(at));
    Json::from(at.to_string())
}

/// Converts a timestamp to milliseconds since the start of the run. Earlier timestamps become 0.
fn millis_since_start(at: Timestamp) -> u64 {
    at.duration_since(run_start_time()).as_ms()
}

/// Returns the recorded input of a run: the rendered defaults with the payload merged over them.
pub fn start_workload(playbook: &Playbook, payload: &Json) -> Result<Json, RenderError> {
    let names = MapEnvironment::new()
        .with_name("payload", payload.clone())
        .with_name("input", payload.clone());
    let environment = StartEnvironment::new(names.with_name("env", Json::empty_map()), [0; 32]);
    // The defaults do not see each other.
    let defaults = playbook
        .workload
        .iter()
        .map(|field| Ok((Arc::clone(&field.name.value), field.value.render(&environment)?.value)))
        .collect::<Result<JsonMap, RenderError>>()?;
    let empty = Json::empty_map();
    Ok(merge_json(Json::from(defaults), if payload.is_null() { &empty } else { payload }))
}

/// Merges maps recursively. Lists and scalars are replaced.
fn merge_json(base: Json, overlay: &Json) -> Json {
    match (base, overlay) {
        (Json::Map(base), Json::Map(overlay)) => {
            let mut map = JsonMap::clone(&base);
            for (key, value) in overlay.iter() {
                let existing = map.remove(key).unwrap_or_default();
                map.insert(Arc::clone(key), merge_json(existing, value));
            }
            Json::from(map)
        }
        (_, overlay) => overlay.clone(),
    }
}

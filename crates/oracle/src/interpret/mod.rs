//! The interpreter: a playbook, its input and the outcomes of its tools in, a result out.
//!
//! Time does not exist here: timeouts, delays, leases and lost workers belong to tests of their own.
//! So do the constructs that wait for the world, see [`Unsupported`].

mod entering;
mod looping;
mod machine;
mod routing;

use std::sync::Arc;

use noetl_playbook::model::{LoopSource, Playbook, Step, ToolKind};
use noetl_playbook::template::{MapScope, RenderError, StartScope};
use noetl_types::{Json, JsonMap};

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
    for step in &playbook.workflow {
        if let Some(what) = unsupported(step) {
            return Err(Unsupported {
                step: Arc::clone(&step.name.value),
                what,
            });
        }
    }
    Ok(Machine::new(playbook, workload, outcomes, schedule).run())
}

fn unsupported(step: &Step) -> Option<&'static str> {
    if step
        .looping
        .as_ref()
        .is_some_and(|looping| matches!(looping.source, LoopSource::Cursor(_)))
    {
        return Some("a cursor loop");
    }
    if step.spec.cache.is_some() {
        return Some("a cache");
    }
    if step.concurrency.is_some() {
        return Some("a concurrency limit");
    }
    let parks = |kind| {
        matches!(
            kind,
            ToolKind::Wait | ToolKind::Approval | ToolKind::Sleep | ToolKind::Playbook
        )
    };
    if step.tool.tasks().iter().any(|task| parks(task.kind.value)) {
        return Some("a task that the server carries out");
    }
    None
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

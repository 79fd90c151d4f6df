//! One command: the tasks of a step in order, with policy, up to the next task that parks.
//!
//! What the commands of one pipeline share is its [`Progress`]: each of them starts from where the one
//! before has left it.

mod names;
pub(crate) mod output;
mod retry;
mod run;

use std::collections::BTreeMap;
use std::sync::Arc;

use noetl_playbook::model::{Condition, Fields, FrameProcess, Step, Task, ToolKind};
use noetl_playbook::template::{Dynamic, RenderError, Scope};
use noetl_types::{Json, JsonMap};

use crate::names::{StepValue, View};
use crate::outcome::{ErrorKind, Outcomes, TaskError};
use crate::writes::Write;
pub(crate) use run::{Attempt, Next, Pipeline, Prepared};

/// A unit of work, with what its templates may see as of its issue.
#[derive(Debug, Clone)]
pub(crate) struct Command<'p> {
    /// Its place in the order of issue.
    pub(crate) number: u64,
    /// The step.
    pub(crate) step: &'p Step,
    /// The run of the step, from 1.
    pub(crate) run: u64,
    /// The item, in a loop.
    pub(crate) item: Option<Item>,
    /// The frame, in a cursor loop.
    pub(crate) frame: Option<usize>,
    /// What the execution looked like when the command was issued.
    pub(crate) view: View,
    /// How far the pipeline has come.
    pub(crate) progress: Progress,
}

/// One iteration of a loop.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Item {
    /// Its place, from 0.
    pub(crate) index: usize,
    /// How many there are.
    pub(crate) total: usize,
    /// The item itself.
    pub(crate) value: Json,
}

/// What one pipeline hands from each of its commands to the next.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Progress {
    /// The task to go on with.
    pub(crate) at: usize,
    /// The variables of the iteration, or of the run outside of loops.
    pub(crate) iter: JsonMap,
    variables: JsonMap,
    /// Data by label.
    results: JsonMap,
    /// The data of the task that ran last.
    previous: Option<Json>,
    /// The data of all runs that went well, by label, where they are put together.
    runs: BTreeMap<Arc<str>, Vec<Json>>,
    visits: BTreeMap<Arc<str>, u64>,
    task_runs: u64,
}

impl Progress {
    /// That of a pipeline which has not begun.
    pub(crate) fn new(step: &Step, item: Option<&Item>) -> Self {
        Self {
            iter: item
                .map(|item| names::iter_map(step, item))
                .unwrap_or_default(),
            ..Self::default()
        }
    }
}

/// A command that is done with.
#[derive(Debug, Clone)]
pub(crate) struct Closed {
    /// How it went.
    pub(crate) outcome: Result<Reached, Failed>,
    /// What its tasks and rules wrote, in order.
    pub(crate) writes: Vec<Write>,
    /// How far the pipeline has come.
    pub(crate) progress: Progress,
    /// How many attempts were followed by another one.
    pub(crate) retried: u64,
}

/// Where a command has brought its pipeline.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Reached {
    /// To its end, with this data.
    End(StepValue),
    /// To a task that another command has to go on with.
    Task(usize),
}

/// A command that failed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Failed {
    /// What kind of failure.
    pub(crate) kind: ErrorKind,
    /// The error object.
    pub(crate) error: Json,
    /// The data nevertheless.
    pub(crate) data: Json,
}

impl Failed {
    /// A failure that no task caused.
    pub(crate) fn of(error: &TaskError) -> Self {
        Self {
            kind: error.kind,
            error: error.object("", 0),
            data: Json::Null,
        }
    }

    /// A template that the server could not render.
    pub(crate) fn template(error: &RenderError) -> Self {
        Self::of(&TaskError::new(ErrorKind::Template, error.to_string()))
    }
}

/// Runs a command of a worker to its end.
pub(crate) fn execute(command: &Command<'_>, outcomes: &dyn Outcomes) -> Closed {
    let mut pipeline = Pipeline::new(command, outcomes);
    let outcome = pipeline.run();
    pipeline.closed(outcome)
}

/// What the worker of a frame tells.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    /// How the command went.
    pub(crate) closed: Closed,
    /// How many rows it claimed.
    pub(crate) rows: usize,
    /// How many of them failed, where failures are tolerated.
    pub(crate) failed_rows: usize,
    /// Why they did.
    pub(crate) failed: Vec<Failed>,
}

/// Runs the body of a cursor loop over the rows of a frame.
///
/// Choice: where failures are tolerated a failed row does not keep the others of its frame from running.
pub(crate) fn execute_frame(
    command: &Command<'_>,
    outcomes: &dyn Outcomes,
    rows: &[Json],
    tolerant: bool,
) -> Frame {
    let looping = command.step.looping.as_ref();
    let whole = looping.and_then(|looping| looping.spec.frame.process) == Some(FrameProcess::Frame);
    let items = match (whole, rows.is_empty()) {
        (_, true) => Vec::new(),
        (true, false) => vec![Json::from(rows.to_vec())],
        (false, false) => rows.to_vec(),
    };
    let total = items.len();
    let mut row = command.clone();
    let mut writes = Vec::new();
    let (mut failed, mut retried, mut fault) = (Vec::new(), 0, None);
    for (index, value) in items.into_iter().enumerate() {
        row.item = Some(Item {
            index,
            total,
            value,
        });
        row.progress = Progress::new(command.step, row.item.as_ref());
        let mut pipeline = Pipeline::new(&row, outcomes);
        let outcome = pipeline.run();
        let seen = pipeline.view().clone();
        let closed = pipeline.closed(outcome);
        retried += closed.retried;
        writes.extend(closed.writes);
        if let Err(error) = closed.outcome {
            // Choice: a body that runs once for all rows fails its command even where that is tolerated.
            if whole || !tolerant {
                fault = Some(error.clone());
            }
            if !tolerant {
                break;
            }
            failed.push(error);
        }
        // What one row writes the next one sees: they run in one command.
        row.view = seen;
    }
    let outcome = match fault {
        Some(fault) => Err(fault),
        None => Ok(Reached::End(StepValue::default())),
    };
    Frame {
        closed: Closed {
            outcome,
            writes,
            progress: Progress::default(),
            retried,
        },
        rows: rows.len(),
        failed_rows: if whole && !failed.is_empty() {
            rows.len()
        } else {
            failed.len()
        },
        failed,
    }
}

/// Whether the server carries a task of a step out, in a command of its own.
///
/// A `playbook` that does not wait is a command of the server only where it is alone in its step.
pub(crate) fn is_parking(step: &Step, task: &Task) -> bool {
    match task.kind.value {
        ToolKind::Sleep | ToolKind::Wait | ToolKind::Approval => true,
        ToolKind::Playbook => awaits_child(task) || step.tool.tasks().len() == 1,
        _ => false,
    }
}

/// Whether a `playbook` task waits for the end of its child.
pub(crate) fn awaits_child(task: &Task) -> bool {
    let is_false = |value: &Dynamic| value.as_const().and_then(Json::as_bool) == Some(false);
    let returns = task.config.get("return_result");
    task.config.get("return_step").is_some() || returns.is_some_and(|field| !is_false(&field.value))
}

/// Whether a condition holds.
pub(crate) fn holds(condition: &Condition, scope: &dyn Scope) -> Result<bool, RenderError> {
    match condition {
        Condition::Fixed(value) => Ok(*value),
        Condition::Test(template) => template.test(scope),
    }
}

fn fields(fields: &Fields, scope: &dyn Scope) -> Result<JsonMap, RenderError> {
    fields
        .iter()
        .map(|field| {
            Ok((
                Arc::clone(&field.name.value),
                field.value.render(scope)?.value,
            ))
        })
        .collect()
}

/// Labels with their data, the keys of the last task laid on top.
fn pipeline_data(results: &JsonMap, last: Json) -> Json {
    let mut data = results.clone();
    match last {
        Json::Map(last) => data.extend(
            last.iter()
                .map(|(key, value)| (Arc::clone(key), value.clone())),
        ),
        other => {
            data.insert("data".into(), other);
        }
    }
    Json::from(data)
}

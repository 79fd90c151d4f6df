//! Execution of one command: the tasks of a step in order, with policy, up to the next task that
//! suspends.
//!
//! The commands of one pipeline share its [`PipelineProgress`]: each continues from the progress of
//! the previous one.

mod executor;
pub(crate) mod output;
mod retry;
mod task_names;

use std::collections::BTreeMap;
use std::sync::Arc;

use noetl_playbook::model::{Condition, FrameProcess, NamedValues, Step, Task, ToolKind};
use noetl_playbook::template::{DynamicValue, RenderError, TemplateEnvironment};
use noetl_types::{Json, JsonMap};

use crate::names::{ExecutionView, StepValue};
use crate::outcome::{ErrorKind, TaskError, ToolOutcomes};
use crate::writes::VariableWrite;
pub(crate) use executor::{NextAction, PipelineExecutor, PreparedAttempt, TaskAttempt};

/// A unit of work, with the values that its templates see as of its issue.
#[derive(Debug, Clone)]
pub(crate) struct Command<'p> {
    /// Position in the order of issue.
    pub(crate) number: u64,
    pub(crate) step: &'p Step,
    /// Pass of the step, from 1.
    pub(crate) run: u64,
    /// Item, in a loop.
    pub(crate) item: Option<LoopItem>,
    /// Frame, in a cursor loop.
    pub(crate) frame: Option<usize>,
    /// State of the execution when the command was issued.
    pub(crate) view: ExecutionView,
    /// Progress of the pipeline.
    pub(crate) progress: PipelineProgress,
}

/// One iteration of a loop.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LoopItem {
    /// Position, from 0.
    pub(crate) index: usize,
    /// Number of items.
    pub(crate) total: usize,
    pub(crate) value: Json,
}

/// State that each command of a pipeline passes to the next.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct PipelineProgress {
    /// Index of the next task.
    pub(crate) task_index: usize,
    /// Variables of the iteration. Outside of loops, of the step pass.
    pub(crate) iter: JsonMap,
    variables: JsonMap,
    /// Data by label.
    results: JsonMap,
    /// Data of the last task that ran.
    previous: Option<Json>,
    /// Data of all successful task runs, by label, if they are accumulated.
    runs: BTreeMap<Arc<str>, Vec<Json>>,
    visits: BTreeMap<Arc<str>, u64>,
    task_runs: u64,
}

impl PipelineProgress {
    /// Creates the progress of a pipeline that has not begun.
    pub(crate) fn new(step: &Step, item: Option<&LoopItem>) -> Self {
        Self {
            iter: item.map(|item| task_names::iteration_variables(step, item)).unwrap_or_default(),
            ..Self::default()
        }
    }
}

/// A closed command.
#[derive(Debug, Clone)]
pub(crate) struct ClosedCommand {
    pub(crate) outcome: Result<PipelinePosition, CommandFailure>,
    /// Writes of its tasks and rules, in order.
    pub(crate) writes: Vec<VariableWrite>,
    /// Progress of the pipeline.
    pub(crate) progress: PipelineProgress,
    /// Number of attempts that were followed by another one.
    pub(crate) retry_count: u64,
}

/// Position of the pipeline after a command.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PipelinePosition {
    /// The end, with this data.
    End(StepValue),
    /// A task that another command has to continue with.
    Task(usize),
}

/// Failure of a command.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CommandFailure {
    pub(crate) kind: ErrorKind,
    /// Error object that templates see.
    pub(crate) error: Json,
    /// Data that was returned despite the failure.
    pub(crate) data: Json,
}

impl CommandFailure {
    /// Creates a failure that no task caused.
    pub(crate) fn from_task_error(error: &TaskError) -> Self {
        Self { kind: error.kind, error: error.to_error_object("", 0), data: Json::Null }
    }

    /// Creates a failure for a template that the server could not render.
    pub(crate) fn from_render_error(error: &RenderError) -> Self {
        Self::from_task_error(&TaskError::new(ErrorKind::Template, error.to_string()))
    }
}

/// Runs a worker's command to its end.
pub(crate) fn execute_command(command: &Command<'_>, outcomes: &dyn ToolOutcomes) -> ClosedCommand {
    let mut pipeline = PipelineExecutor::new(command, outcomes);
    let outcome = pipeline.run();
    pipeline.into_closed(outcome)
}

/// Report of a worker about a frame.
#[derive(Debug, Clone)]
pub(crate) struct ExecutedFrame {
    pub(crate) closed: ClosedCommand,
    /// Number of claimed rows.
    pub(crate) rows: usize,
    /// Number of failed rows, if failures are tolerated.
    pub(crate) failed_rows: usize,
    /// Failures of these rows.
    pub(crate) failures: Vec<CommandFailure>,
}

/// Runs the body of a cursor loop over the rows of a frame.
///
/// Choice: if failures are tolerated, the other rows of the frame run after a failed row.
pub(crate) fn execute_frame(
    command: &Command<'_>,
    outcomes: &dyn ToolOutcomes,
    rows: &[Json],
    tolerant: bool,
) -> ExecutedFrame {
    let looping = command.step.looping.as_ref();
    let is_whole_frame =
        looping.and_then(|looping| looping.spec.frame.process) == Some(FrameProcess::Frame);
    let items = match (is_whole_frame, rows.is_empty()) {
        (_, true) => Vec::new(),
        (true, false) => vec![Json::from(rows.to_vec())],
        (false, false) => rows.to_vec(),
    };
    let total = items.len();
    let mut row = command.clone();
    let mut writes = Vec::new();
    let (mut failures, mut retry_count, mut command_failure) = (Vec::new(), 0, None);
    for (index, value) in items.into_iter().enumerate() {
        row.item = Some(LoopItem { index, total, value });
        row.progress = PipelineProgress::new(command.step, row.item.as_ref());
        let mut pipeline = PipelineExecutor::new(&row, outcomes);
        let outcome = pipeline.run();
        let view = pipeline.view().clone();
        let closed = pipeline.into_closed(outcome);
        retry_count += closed.retry_count;
        writes.extend(closed.writes);
        if let Err(error) = closed.outcome {
            // Choice: a body that runs once for all rows fails its command even if failures are
            // tolerated.
            if is_whole_frame || !tolerant {
                command_failure = Some(error.clone());
            }
            if !tolerant {
                break;
            }
            failures.push(error);
        }
        // Each row sees the writes of the previous rows, because they run in one command.
        row.view = view;
    }
    let outcome = match command_failure {
        Some(command_failure) => Err(command_failure),
        None => Ok(PipelinePosition::End(StepValue::default())),
    };
    ExecutedFrame {
        closed: ClosedCommand {
            outcome,
            writes,
            progress: PipelineProgress::default(),
            retry_count,
        },
        rows: rows.len(),
        failed_rows: if is_whole_frame && !failures.is_empty() {
            rows.len()
        } else {
            failures.len()
        },
        failures,
    }
}

/// True if the server executes this task in a separate command.
///
/// A `playbook` task that does not wait is a server command only if it is the only task of its
/// step.
pub(crate) fn is_suspending(step: &Step, task: &Task) -> bool {
    match task.kind.value {
        ToolKind::Sleep | ToolKind::Wait | ToolKind::Approval => true,
        ToolKind::Playbook => awaits_child(task) || step.tool.tasks().len() == 1,
        _ => false,
    }
}

/// True if a `playbook` task waits for the end of its child.
pub(crate) fn awaits_child(task: &Task) -> bool {
    let is_false = |value: &DynamicValue| value.as_const().and_then(Json::as_bool) == Some(false);
    let returns = task.config.get("return_result");
    task.config.get("return_step").is_some() || returns.is_some_and(|field| !is_false(&field.value))
}

/// Evaluates a condition.
pub(crate) fn evaluate_condition(
    condition: &Condition,
    environment: &dyn TemplateEnvironment,
) -> Result<bool, RenderError> {
    match condition {
        Condition::Fixed(value) => Ok(*value),
        Condition::Test(template) => template.render_condition(environment),
    }
}

fn render_fields(
    fields: &NamedValues,
    environment: &dyn TemplateEnvironment,
) -> Result<JsonMap, RenderError> {
    fields
        .iter()
        .map(|field| Ok((Arc::clone(&field.name.value), field.value.render(environment)?.value)))
        .collect()
}

/// Merges the data of all labels with the keys of the last task, which win.
fn pipeline_data(results: &JsonMap, last: Json) -> Json {
    let mut data = results.clone();
    match last {
        Json::Map(last) => {
            data.extend(last.iter().map(|(key, value)| (Arc::clone(key), value.clone())));
        }
        other => {
            data.insert("data".into(), other);
        }
    }
    Json::from(data)
}

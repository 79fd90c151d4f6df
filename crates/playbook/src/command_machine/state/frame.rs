//! Frames of a loop over a cursor: claiming rows, and running the tasks for each of them.
//!
//! Owns what a frame adds to a command: the claim before the first task, and the transition from
//! one row to the next. The effect of a claim is defined by its statement.

use std::sync::Arc;

use noetl_types::report::{FrameReport, RowError};
use noetl_types::{Json, JsonMap, TaskError, TaskErrorKind, Text};

use super::{AttemptPhase, CallSpec, CommandState, RenderFailure, ToolResult, Transition};
use crate::bounds::{fits_within, size_within};
use crate::command_machine::environment::{LoopItem, TaskEnvironment};
use crate::model::{CursorSource, FailureMode, FrameProcess, LoopSource, Step, ToolKind};
use crate::timeout;

/// Label of the claim in reports and errors.
pub(super) const CLAIM_LABEL: &str = "claim";
/// Maximum number of row errors in a report. All errors are counted.
const MAX_REPORTED_ROW_ERRORS: usize = 20;

/// A frame of rows.
pub(super) struct RowFrame {
    /// The rows, once they are claimed.
    rows: Option<Arc<Vec<Json>>>,
    /// Index of the current row.
    row: usize,
    process: FrameProcess,
    /// True if it continues after a row that failed.
    is_best_effort: bool,
    report: FrameReport,
}

impl RowFrame {
    /// The frame of a command. `None` if its step does not loop over a cursor.
    pub(super) fn for_step(step: &Step, max_rows: Option<u32>) -> Option<Box<Self>> {
        max_rows?;
        let looping = step.looping.as_ref()?;
        matches!(looping.source, LoopSource::Cursor(_)).then(|| {
            Box::new(Self {
                rows: None,
                row: 0,
                process: looping.spec.frame.process.unwrap_or(FrameProcess::Row),
                is_best_effort: step.spec.policy.failure.mode == FailureMode::BestEffort,
                report: FrameReport::default(),
            })
        })
    }

    /// The last part of the keys of its calls.
    pub(super) fn key_part(&self) -> Option<usize> {
        match self.process {
            FrameProcess::Row => Some(self.row),
            FrameProcess::Frame => None,
        }
    }

    /// The report of its rows. `None` if no rows were claimed.
    pub(super) fn into_report(self) -> Option<FrameReport> {
        self.rows.is_some().then_some(self.report)
    }

    /// Number of rows that one pass of the tasks processes.
    fn rows_per_pass(&self) -> u32 {
        match self.process {
            FrameProcess::Row => 1,
            FrameProcess::Frame => self.report.rows,
        }
    }

    /// Counts the finished pass. Returns true if another one follows.
    fn count_pass(&mut self, error: Option<&TaskError>) -> bool {
        let rows = self.rows_per_pass();
        match error {
            None => self.report.done = self.report.done.saturating_add(rows),
            Some(_) => self.report.failed = self.report.failed.saturating_add(rows),
        }
        let continues = match error {
            None => true,
            Some(_) => self.is_best_effort && self.process == FrameProcess::Row,
        };
        if let (Some(error), true) = (error, continues)
            && self.report.errors.len() < MAX_REPORTED_ROW_ERRORS
        {
            let row = u32::try_from(self.row).unwrap_or(u32::MAX);
            self.report.errors.push(RowError { row, error: error.clone() });
        }
        continues
    }

    /// Adds the row to an error.
    fn locate_error(&self, mut error: TaskError) -> TaskError {
        let details = error.details.as_ref();
        let mut details = match (self.process, details) {
            (FrameProcess::Row, None) => JsonMap::new(),
            (FrameProcess::Row, Some(Json::Map(details))) => (**details).clone(),
            (FrameProcess::Row, Some(_)) | (FrameProcess::Frame, _) => return error,
        };
        details.insert("row".into(), Json::from(self.row));
        error.details = Some(Json::from(details));
        error
    }

    fn loop_item(&self, iterator: &Arc<str>) -> Option<LoopItem> {
        let rows = self.rows.as_ref()?;
        let (value, passes) = match self.process {
            FrameProcess::Row => (rows.get(self.row)?.clone(), rows.len()),
            FrameProcess::Frame if self.row == 0 && !rows.is_empty() => {
                (Json::List(Arc::clone(rows)), 1)
            }
            FrameProcess::Frame => return None,
        };
        Some(LoopItem {
            iterator: Arc::clone(iterator),
            value,
            index: u32::try_from(self.row).unwrap_or(u32::MAX),
            total: u32::try_from(passes).unwrap_or(u32::MAX),
        })
    }
}

impl CommandState {
    /// Returns true if the rows of its frame are not claimed yet.
    pub(super) fn is_claiming(&self) -> bool {
        self.frame.as_ref().is_some_and(|frame| frame.rows.is_none())
    }

    /// Returns true if the data of its tasks is the data of the command. The rows of a frame leave
    /// no data, except for a row whose failure ends the frame.
    pub(super) fn leaves_data(&self, failed: bool) -> bool {
        self.frame.as_ref().is_none_or(|frame| {
            frame.rows.is_some() && (failed || frame.process == FrameProcess::Frame)
        })
    }

    /// Claims the rows of the frame.
    pub(super) fn claim_rows(&mut self) -> Transition {
        if let AttemptPhase::Failed(error) = std::mem::replace(&mut self.phase, AttemptPhase::Call)
        {
            return Transition::End(Some(error));
        }
        match self.claim_spec() {
            Ok(spec) => Transition::Call(Box::new(spec)),
            Err(RenderFailure::Needs(target)) => Transition::Fetch(target),
            Err(RenderFailure::Failed(error)) => Transition::End(Some(self.locate_error(error))),
        }
    }

    fn claim_spec(&self) -> Result<CallSpec, RenderFailure> {
        let step = self.step();
        let source = step.looping.as_ref().map(|looping| &looping.source);
        let Some(LoopSource::Cursor(cursor)) = source else {
            let message = "the step has no cursor to claim rows from";
            return Err(RenderFailure::Failed(TaskError::new(TaskErrorKind::Schema, message)));
        };
        let kind = cursor_tool_kind(cursor).map_err(RenderFailure::Failed)?;
        let key = format!("{}:{CLAIM_LABEL}:1", self.command_key);
        let environment = TaskEnvironment {
            command: &self.data,
            label: CLAIM_LABEL,
            idempotency_key: &key,
            attempt: 1,
            input: None,
            output: None,
            error: Json::Null,
            completed: None,
        };
        let mut config = self.render_fields(&cursor.options, &environment)?;
        config.insert("command".into(), self.render_value(&cursor.claim, &environment)?);
        let auth = cursor.auth.as_ref();
        Ok(CallSpec {
            kind,
            label: CLAIM_LABEL.into(),
            config,
            input: JsonMap::new(),
            auth: auth.map(|auth| self.render_auth(auth, &environment)).transpose()?,
            libs: None,
            task_run: 1,
            attempt: 1,
            timeout: timeout::tool_timeout(&self.playbook, kind),
            idempotency_key: Text::from(key.as_str()),
            code_context: None,
        })
    }

    /// Records the result of the claim.
    pub(super) fn record_claim(&mut self, result: ToolResult) {
        self.attempts = self.attempts.saturating_add(1);
        self.record_report(CLAIM_LABEL, &result);
        let rows = match result.error {
            Some(error) => Err(error),
            None if !fits_within(&result.data, self.max_data) => Err(self.data_too_large_error()),
            None => claimed_rows(&result.data),
        };
        match rows {
            Err(error) => self.phase = AttemptPhase::Failed(self.locate_error(error)),
            Ok(rows) => {
                if let Some(frame) = &mut self.frame {
                    let bytes = size_within(&Json::List(Arc::clone(&rows)), self.max_data);
                    frame.report.rows = u32::try_from(rows.len()).unwrap_or(u32::MAX);
                    frame.report.bytes = bytes.unwrap_or(self.max_data) as u64;
                    frame.rows = Some(rows);
                }
                self.begin_row();
            }
        }
    }

    /// Finishes the tasks of a row: continues with the next row, or ends the command.
    pub(super) fn finish_row(&mut self, error: Option<TaskError>) -> Transition {
        let Some(frame) = &mut self.frame else {
            return Transition::End(error);
        };
        if self.data.item.is_none() {
            // There was no row to process.
            return Transition::End(error);
        }
        let error = error.map(|error| frame.locate_error(error));
        if !frame.count_pass(error.as_ref()) {
            return Transition::End(error);
        }
        frame.row += 1;
        self.begin_row();
        Transition::Continue
    }

    /// Restarts the tasks for the current row. Past the last row there is nothing to start.
    fn begin_row(&mut self) {
        let step = self.step();
        let tasks = step.tool.tasks().len();
        let iterator = step.looping.as_ref().map(|looping| &looping.iterator.value);
        let frame = self.frame.as_ref();
        let item = frame.zip(iterator).and_then(|(frame, name)| frame.loop_item(name));
        let first_task = if item.is_some() { 0 } else { tasks };
        self.data.item = item;
        if first_task == 0 {
            self.data.iter = Json::empty_map();
            self.data.pipeline = JsonMap::new();
            self.data.results = JsonMap::new();
            self.data.previous = Json::Null;
            self.task_runs = vec![0; tasks];
            self.last_data = None;
        }
        self.phase = AttemptPhase::Call;
        self.begin_task(first_task);
    }
}

fn cursor_tool_kind(cursor: &CursorSource) -> Result<ToolKind, TaskError> {
    ToolKind::parse(&cursor.kind).filter(|kind| kind.is_sql()).ok_or_else(|| {
        let message = format!("rows cannot be claimed with `{}`", cursor.kind);
        TaskError::new(TaskErrorKind::Unsupported, message)
    })
}

/// The rows in the result of a statement.
fn claimed_rows(data: &Json) -> Result<Arc<Vec<Json>>, TaskError> {
    if let Some(Json::List(rows)) = data.get("rows") {
        return Ok(Arc::clone(rows));
    }
    let is_drained = data.get("__cursor_drained").and_then(Json::as_bool) == Some(true);
    match data {
        Json::List(rows) => Ok(Arc::clone(rows)),
        _ if is_drained => Ok(Arc::default()),
        _ => Err(TaskError::new(
            TaskErrorKind::Schema,
            "the claim returns no rows; let it select them, or add a RETURNING clause",
        )),
    }
}

//! Frames of a loop over a cursor: claiming rows, and running the tasks for each of them.
//!
//! Owns what a frame adds to the work of a command: the claim before the first task, and the way from
//! one row to the next. What a claim means is the statement's own business.

use std::sync::Arc;

use noetl_types::{Json, JsonMap, TaskError, TaskErrorKind, Text};

use super::{Answer, CallSpec, Phase, Stuck, Turn, Work};
use crate::bounds::{fits, size_within};
use crate::model::{Cursor, FailureMode, FrameProcess, LoopSource, Step, ToolKind};
use crate::shift::result::{FrameReport, RowError};
use crate::shift::scope::{Item, TaskScope};
use crate::timeout;

/// What the claim of a frame is called in reports and errors.
pub(super) const CLAIM: &str = "claim";
/// Failures of rows that are told one by one; all of them are counted.
const MAX_TOLD_ERRORS: usize = 20;

/// A frame of rows.
pub(super) struct Frame {
    /// The rows, once they are claimed.
    rows: Option<Arc<Vec<Json>>>,
    /// The row at hand.
    row: usize,
    process: FrameProcess,
    /// Whether it goes on after a row that failed.
    is_best_effort: bool,
    report: FrameReport,
}

impl Frame {
    /// The frame of a command; none where its step loops over no cursor.
    pub(super) fn of(step: &Step, max_rows: Option<u32>) -> Option<Box<Self>> {
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

    /// What became of its rows.
    pub(super) fn into_report(self) -> Option<FrameReport> {
        self.rows.is_some().then_some(self.report)
    }

    /// How many rows one pass of the tasks is for.
    fn rows_of_pass(&self) -> u32 {
        match self.process {
            FrameProcess::Row => 1,
            FrameProcess::Frame => self.report.rows,
        }
    }

    /// Counts the pass that has just ended, and says whether another one follows.
    fn count(&mut self, error: Option<&TaskError>) -> bool {
        let rows = self.rows_of_pass();
        match error {
            None => self.report.done = self.report.done.saturating_add(rows),
            Some(_) => self.report.failed = self.report.failed.saturating_add(rows),
        }
        let goes_on = match error {
            None => true,
            Some(_) => self.is_best_effort && self.process == FrameProcess::Row,
        };
        if let (Some(error), true) = (error, goes_on)
            && self.report.errors.len() < MAX_TOLD_ERRORS
        {
            self.report.errors.push(RowError {
                row: u32::try_from(self.row).unwrap_or(u32::MAX),
                error: error.clone(),
            });
        }
        goes_on
    }

    /// The error with the row that it belongs to.
    fn located(&self, mut error: TaskError) -> TaskError {
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

    fn item(&self, iterator: &Arc<str>) -> Option<Item> {
        let rows = self.rows.as_ref()?;
        let (value, passes) = match self.process {
            FrameProcess::Row => (rows.get(self.row)?.clone(), rows.len()),
            FrameProcess::Frame if self.row == 0 && !rows.is_empty() => {
                (Json::List(Arc::clone(rows)), 1)
            }
            FrameProcess::Frame => return None,
        };
        Some(Item {
            iterator: Arc::clone(iterator),
            value,
            index: u32::try_from(self.row).unwrap_or(u32::MAX),
            total: u32::try_from(passes).unwrap_or(u32::MAX),
        })
    }
}

impl Work {
    /// Whether the rows of its frame are still to be claimed.
    pub(super) fn is_claiming(&self) -> bool {
        self.frame
            .as_ref()
            .is_some_and(|frame| frame.rows.is_none())
    }

    /// Whether the data of its tasks is that of the command. The rows of a frame leave none behind,
    /// but for the one that ends it by its failure.
    pub(super) fn leaves_data(&self, failed: bool) -> bool {
        self.frame.as_ref().is_none_or(|frame| {
            frame.rows.is_some() && (failed || frame.process == FrameProcess::Frame)
        })
    }

    /// Claims the rows of the frame, or tells why that cannot be.
    pub(super) fn claim(&mut self) -> Turn {
        if let Phase::Broken(error) = std::mem::replace(&mut self.phase, Phase::Call) {
            return Turn::End(Some(error));
        }
        match self.claim_spec() {
            Ok(spec) => Turn::Call(Box::new(spec)),
            Err(Stuck::Needs(want)) => Turn::Fetch(want),
            Err(Stuck::Broken(error)) => Turn::End(Some(self.located(error))),
        }
    }

    fn claim_spec(&self) -> Result<CallSpec, Stuck> {
        let step = &self.playbook.workflow[self.step];
        let source = step.looping.as_ref().map(|looping| &looping.source);
        let Some(LoopSource::Cursor(cursor)) = source else {
            let message = "the step has no cursor to claim rows from";
            return Err(Stuck::Broken(TaskError::new(
                TaskErrorKind::Schema,
                message,
            )));
        };
        let kind = kind_of(cursor).map_err(Stuck::Broken)?;
        let key = format!("{}:{CLAIM}:1", self.key_of_command);
        let scope = TaskScope {
            bench: &self.bench,
            label: CLAIM,
            idempotency_key: &key,
            attempt: 1,
            input: None,
            output: None,
            error: Json::Null,
        };
        let mut config = self.fields(&cursor.options, &scope)?;
        config.insert("command".into(), self.value(&cursor.claim, &scope)?);
        let auth = cursor.auth.as_ref();
        Ok(CallSpec {
            kind,
            label: CLAIM.into(),
            config,
            input: JsonMap::new(),
            auth: auth.map(|auth| self.auth(auth, &scope)).transpose()?,
            libs: None,
            run: 1,
            attempt: 1,
            timeout: timeout::of_kind(&self.playbook, kind),
            idempotency_key: Text::from(key.as_str()),
            surroundings: None,
        })
    }

    /// Takes what the claim said.
    pub(super) fn claimed(&mut self, answer: Answer) {
        self.attempts = self.attempts.saturating_add(1);
        self.note(CLAIM, &answer);
        let rows = match answer.error {
            Some(error) => Err(error),
            None if !fits(&answer.data, self.max_data) => Err(self.too_large()),
            None => rows_of(&answer.data),
        };
        match rows {
            Err(error) => self.phase = Phase::Broken(self.located(error)),
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

    /// What follows when the tasks have ended for a row: the next one, or the end of all.
    pub(super) fn end_of_row(&mut self, error: Option<TaskError>) -> Turn {
        let Some(frame) = &mut self.frame else {
            return Turn::End(error);
        };
        if self.bench.item.is_none() {
            // There was no row to run for.
            return Turn::End(error);
        }
        let error = error.map(|error| frame.located(error));
        if !frame.count(error.as_ref()) {
            return Turn::End(error);
        }
        frame.row += 1;
        self.begin_row();
        Turn::On
    }

    /// Begins the tasks anew for the row at hand; past the last one nothing is left to begin.
    fn begin_row(&mut self) {
        let step = &self.playbook.workflow[self.step];
        let tasks = step.tool.tasks().len();
        let iterator = step.looping.as_ref().map(|looping| &looping.iterator.value);
        let frame = self.frame.as_ref();
        let item = frame
            .zip(iterator)
            .and_then(|(frame, name)| frame.item(name));
        let at = if item.is_some() { 0 } else { tasks };
        self.bench.item = item;
        if at == 0 {
            self.bench.iter = Json::empty_map();
            self.bench.pipeline = JsonMap::new();
            self.bench.results = JsonMap::new();
            self.bench.previous = Json::Null;
            self.runs = vec![0; tasks];
            self.last = None;
        }
        self.phase = Phase::Call;
        self.begin(at);
    }
}

fn kind_of(cursor: &Cursor) -> Result<ToolKind, TaskError> {
    let claims = |kind: &ToolKind| {
        matches!(
            kind,
            ToolKind::Postgres
                | ToolKind::Sqlite
                | ToolKind::Duckdb
                | ToolKind::Ducklake
                | ToolKind::Snowflake
        )
    };
    ToolKind::parse(&cursor.kind).filter(claims).ok_or_else(|| {
        let message = format!("rows cannot be claimed by `{}`", cursor.kind);
        TaskError::new(TaskErrorKind::Unsupported, message)
    })
}

/// The rows of what a statement yields.
fn rows_of(data: &Json) -> Result<Arc<Vec<Json>>, TaskError> {
    if let Some(Json::List(rows)) = data.get("rows") {
        return Ok(Arc::clone(rows));
    }
    let is_drained = data.get("__cursor_drained").and_then(Json::as_bool) == Some(true);
    match data {
        Json::List(rows) => Ok(Arc::clone(rows)),
        _ if is_drained => Ok(Arc::default()),
        _ => Err(TaskError::new(
            TaskErrorKind::Schema,
            "the claim yields no rows: let it select them, or return what it changes",
        )),
    }
}

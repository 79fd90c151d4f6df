//! Reports: what a worker tells of a command, and what follows from it.

use std::borrow::Cow;

use noetl_playbook::bounds::{bounded_error, end_of_output, fits};
use noetl_playbook::shift::{FrameReport, RetriedCall, TaskReport};
use noetl_types::{CommandId, ErrorCode, Json, JsonMap, Millis, TaskError, Text};

use super::draft::{Draft, too_deep};
use super::exit::{self, Success};
use super::fence::{self, Passage};
use super::segments::Place;
use super::writes::{self, Written};
use super::{Refused, Report, ReportOutcome, TaskResult, Verdict};
use super::{cursor, failure, finish, joins, loops, parking, segments};
use crate::ctx::Writes;
use crate::event::{
    CallDone, CallError, CallOutcome, CommandAt, CommandClaimed, CommandClosed, CtxSource,
    EventKind, Retried,
};
use crate::payload::Data;
use crate::state::{Closing, Command, LeadEvent, Work};

/// Failures of rows that one event holds.
const MAX_ROW_ERRORS: usize = 100;
/// Bytes of what a worker may tell of what it has started.
const MAX_STARTED_BYTES: usize = 16 << 10;

/// Takes a report.
pub(super) fn report(draft: &mut Draft<'_>, report: Report) -> Result<Verdict, Refused> {
    draft.must_have_begun()?;
    let Some(command) = draft.state.command(report.command) else {
        return unknown(draft, &report);
    };
    let at = fence::at(draft, report.command, command);
    let step = command.step;
    match fence::pass(report.command, command, report.attempt, &report.worker)? {
        Passage::Stale(code) => return fence::ignore(draft, &report, code),
        Passage::Claimed => {}
        Passage::Unclaimed => {
            let claimed = CommandClaimed {
                at: at.clone(),
                attempt: report.attempt,
                worker: report.worker.clone(),
                lease_until: report.lease_until,
            };
            draft.emit_at(
                EventKind::CommandClaimed(Box::new(claimed)),
                report.claimed_at,
            )?;
        }
    }
    begin(draft, &at, &report)?;
    let known = known_retries(draft, &report);
    for retry in report.retries.into_iter().skip(known) {
        retried(draft, &at, retry)?;
    }
    let ctx = match report.outcome {
        ReportOutcome::Running { progress } => {
            if let Some(progress) = progress {
                draft.emit(EventKind::CommandHeartbeat { at, progress })?;
            }
            return Ok(Verdict::Accepted);
        }
        ReportOutcome::Parked { started } => return park(draft, at, started),
        ReportOutcome::Completed(result) => match data_error(&result) {
            None => done(draft, &at, result)?,
            Some(error) => failed(draft, &at, error, TaskResult::from(Data::default()))?,
        },
        ReportOutcome::Failed { error, mut result } => {
            if data_error(&result).is_some() {
                result.data = Data::default();
                result.set = JsonMap::new();
            }
            failed(draft, &at, bounded_error(error), result)?
        }
    };
    let index = at.index;
    follow_up(draft, Closing { step, index, ctx })?;
    Ok(Verdict::Accepted)
}

/// What a worker has started tells its end by itself.
fn park(draft: &mut Draft<'_>, at: CommandAt, started: Json) -> Result<Verdict, Refused> {
    let step = draft.plan.find(at.step.as_str());
    let place = Place::of(draft, step.ok_or_else(|| draft.broken("step"))?, at.index)?;
    if !place.task().is_some_and(noetl_playbook::segments::parks) {
        return Err(Refused::NotParking(at.command));
    }
    let started = match too_deep(&started, "the data") {
        None if fits(&started, MAX_STARTED_BYTES) => started,
        None | Some(_) => Json::Null,
    };
    parking::park_callback(draft, at, started)?;
    Ok(Verdict::Accepted)
}

/// A report of a command that is not open.
fn unknown(draft: &mut Draft<'_>, report: &Report) -> Result<Verdict, Refused> {
    if fence::is_known(&draft.state, report) {
        return Ok(Verdict::Duplicate);
    }
    let closed = draft
        .state
        .runs()
        .any(|(_, run)| run.has_closed(report.command));
    if draft.state.is_ended() {
        fence::ignore(draft, report, ErrorCode::AlreadyTerminal)
    } else if closed {
        fence::ignore(draft, report, ErrorCode::StaleAttempt)
    } else {
        Err(Refused::UnknownCommand(report.command))
    }
}

/// Notes that the worker began, where it says so and the log does not.
fn begin(draft: &mut Draft<'_>, at: &CommandAt, report: &Report) -> Result<(), Refused> {
    use crate::state::CommandStage::Claimed;
    let stage = draft.state.command(report.command).map(Command::stage);
    if report.started_at.is_some() && stage == Some(Claimed) {
        let kind = EventKind::CommandStarted {
            at: at.clone(),
            attempt: report.attempt,
        };
        draft.emit_at(kind, report.started_at)?;
    }
    Ok(())
}

/// How many of the attempts that a report tells of the log has already: a worker that heard no answer
/// to an earlier report tells them again.
fn known_retries(draft: &Draft<'_>, report: &Report) -> usize {
    let command = draft.state.command(report.command);
    let told = command
        .and_then(Command::retries)
        .map_or(0, |retries| retries.told);
    usize::try_from(told.saturating_sub(report.retries_before)).unwrap_or(usize::MAX)
}

fn calls(draft: &Draft<'_>, command: CommandId) -> u32 {
    draft
        .state
        .command(command)
        .map_or(0, |command| command.calls)
}

pub(super) fn retried(
    draft: &mut Draft<'_>,
    at: &CommandAt,
    retry: RetriedCall,
) -> Result<(), Refused> {
    let kind = EventKind::CallError(Box::new(CallError {
        at: at.clone(),
        call_index: calls(draft, at.command),
        error: bounded_error(retry.error),
        outcome: CallOutcome {
            attempt: retry.attempt,
            ..CallOutcome::default()
        },
        retried: Some(Retried {
            retry_in: retry.retry_in,
        }),
    }));
    draft.emit_at(kind, retry.at)?;
    Ok(())
}

/// Records that a command went well, and gives what its tasks wrote into variables of the run.
fn done(draft: &mut Draft<'_>, at: &CommandAt, result: TaskResult) -> Result<JsonMap, Refused> {
    let ctx = Writes::of_report(&result.set).ctx;
    let (labels, onward) = (result.labels.clone(), result.onward.clone());
    let kind = EventKind::CallDone(Box::new(CallDone {
        at: at.clone(),
        call_index: calls(draft, at.command),
        outcome: outcome(draft, at, result, Ended::Well)?,
        labels,
        onward,
    }));
    draft.emit(kind)?;
    draft.emit(EventKind::CommandCompleted(at.clone()))?;
    Ok(ctx)
}

/// Records the final failure of a command, and gives what its tasks wrote into variables of the run.
pub(super) fn failed(
    draft: &mut Draft<'_>,
    at: &CommandAt,
    error: TaskError,
    result: TaskResult,
) -> Result<JsonMap, Refused> {
    let ctx = Writes::of_report(&result.set).ctx;
    let kind = EventKind::CallError(Box::new(CallError {
        at: at.clone(),
        call_index: calls(draft, at.command),
        error: error.clone(),
        outcome: outcome(draft, at, result, Ended::Failed)?,
        retried: None,
    }));
    draft.emit(kind)?;
    draft.emit(EventKind::CommandFailed(Box::new(CommandClosed {
        at: at.clone(),
        why: error,
    })))?;
    Ok(ctx)
}

/// Closes a command of the server's that went well.
pub(super) fn close_well(
    draft: &mut Draft<'_>,
    at: &CommandAt,
    result: TaskResult,
) -> Result<Closing, Refused> {
    if let Some(error) = data_error(&result) {
        return close_failed(draft, at, error, TaskResult::from(Data::default()));
    }
    let ctx = done(draft, at, result)?;
    closing(draft, at, ctx)
}

/// Closes a command of the server's that failed for good.
pub(super) fn close_failed(
    draft: &mut Draft<'_>,
    at: &CommandAt,
    error: TaskError,
    mut result: TaskResult,
) -> Result<Closing, Refused> {
    if data_error(&result).is_some() {
        result = TaskResult::from(Data::default());
    }
    let ctx = failed(draft, at, bounded_error(error), result)?;
    closing(draft, at, ctx)
}

fn closing(draft: &Draft<'_>, at: &CommandAt, ctx: JsonMap) -> Result<Closing, Refused> {
    let step = draft.plan.find(at.step.as_str());
    Ok(Closing {
        step: step.ok_or_else(|| draft.broken("step"))?,
        index: at.index,
        ctx,
    })
}

/// Records an attempt of a task of the server's that is made again.
pub(super) fn retried_by_server(
    draft: &mut Draft<'_>,
    at: &CommandAt,
    error: TaskError,
    attempt: u32,
    retry_in: Millis,
) -> Result<(), Refused> {
    let retry = RetriedCall {
        error,
        attempt,
        retry_in,
        at: None,
    };
    retried(draft, at, retry)
}

/// What the tasks left behind, big data moved out.
fn outcome(
    draft: &mut Draft<'_>,
    at: &CommandAt,
    result: TaskResult,
    outcome: Ended,
) -> Result<CallOutcome, Refused> {
    let step = draft.plan.find(at.step.as_str());
    let budget = step.map(|step| draft.step(step).inline_max);
    let run = step.and_then(|step| draft.state.run(step));
    let is_frame = run.is_some_and(|run| matches!(run.work, Work::Cursor(_)));
    let frame = match outcome {
        Ended::Well if is_frame => Some(bounded_frame(frame_of(&result))),
        Ended::Failed if is_frame => result.frame.clone().map(bounded_frame),
        Ended::Well | Ended::Failed => None,
    };
    let data = match result.data {
        Data::Inline(value) => {
            let budget = budget.unwrap_or_else(|| draft.plan.defaults().inline_max);
            draft.keep(&at.step, value, budget.as_bytes())?
        }
        external @ Data::External(_) => external,
    };
    Ok(CallOutcome {
        data,
        set: result.set,
        attempt: result.attempt,
        tasks: result.tasks.into_iter().map(bounded_task).collect(),
        frame,
    })
}

/// What is told of a task, small enough for the log.
fn bounded_task(mut task: TaskReport) -> TaskReport {
    for text in [&mut task.stdout, &mut task.stderr].into_iter().flatten() {
        if let Cow::Owned(end) = end_of_output(text) {
            *text = Text::from(end);
        }
    }
    task
}

/// How the tasks of a command ended.
#[derive(Clone, Copy)]
enum Ended {
    Well,
    Failed,
}

/// What became of the rows of a frame that went well. A worker that tells nothing of rows says in its
/// data when none is left.
pub(super) fn frame_of(result: &TaskResult) -> FrameReport {
    if let Some(frame) = &result.frame {
        return frame.clone();
    }
    let is_drained = match &result.data {
        Data::Inline(data) => data.get("__cursor_drained").and_then(Json::as_bool) == Some(true),
        Data::External(_) => false,
    };
    let rows = u32::from(!is_drained);
    FrameReport {
        rows,
        done: rows,
        ..FrameReport::default()
    }
}

/// What is told of rows, small enough for the log.
fn bounded_frame(mut frame: FrameReport) -> FrameReport {
    frame.errors.truncate(MAX_ROW_ERRORS);
    for failed in &mut frame.errors {
        failed.error = bounded_error(failed.error.clone());
    }
    frame
}

/// The failure of a result that the log cannot hold.
fn data_error(result: &TaskResult) -> Option<TaskError> {
    let deep = match &result.data {
        Data::Inline(value) => too_deep(value, "the data"),
        Data::External(reference) => too_deep(reference.as_json(), "the reference"),
    };
    deep.or_else(|| {
        result
            .labels
            .as_ref()
            .and_then(|labels| too_deep(labels, "the data"))
    })
    .or_else(|| writes::over_bounds(&result.set))
}

/// Draws the consequences of a command that was closed, unless the run is paused.
pub(super) fn follow_up(draft: &mut Draft<'_>, closing: Closing) -> Result<(), Refused> {
    if draft.state.is_paused() {
        return Ok(());
    }
    consequences(draft, closing)?;
    finish::finish(draft)
}

/// What follows from a command that was closed: its writes, its step, and the steps after it.
pub(super) fn consequences(draft: &mut Draft<'_>, closing: Closing) -> Result<(), Refused> {
    let step = closing.step;
    let run = draft.run(step)?;
    let written = Written {
        index: closing.index,
        values: closing.ctx,
    };
    writes::record(draft, step, run.number, CtxSource::Task, written)?;
    if segments::is_pending(draft, step, closing.index) {
        segments::go_on(draft, step, closing.index)?;
        return joins::enter_ready(draft);
    }
    let run = draft.run(step)?;
    match &run.work {
        Work::Loop(_) => {
            let cause = draft.last_event().unwrap_or(run.entered);
            loops::go_on(draft, step, cause)?;
        }
        Work::Cursor(_) => {
            let cause = draft.last_event().unwrap_or(run.entered);
            cursor::go_on(draft, step, cause)?;
        }
        Work::Single { outcome, .. } => {
            let Some(outcome) = outcome.clone() else {
                return Ok(());
            };
            if let Some(error) = outcome.error.clone() {
                failure::fail(draft, step, error)?;
            } else {
                let event = LeadEvent::CallDone;
                let data = None;
                exit::complete(
                    draft,
                    step,
                    Success {
                        event,
                        outcome,
                        data,
                    },
                )?;
            }
        }
    }
    joins::enter_ready(draft)
}

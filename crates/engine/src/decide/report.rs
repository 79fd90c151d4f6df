//! Reports of workers on commands, and the events that follow.

use std::borrow::Cow;

use noetl_playbook::bounds::{bounded_error, fits_within, tail_of_output};
use noetl_types::report::{FrameReport, RetriedTask, TaskReport};
use noetl_types::{CommandId, ErrorCode, Json, JsonMap, Millis, TaskError, Text};

use super::draft::{Draft, depth_error};
use super::exit::{self, StepSuccess};
use super::fence::{self, FenceCheck};
use super::segments::SegmentStart;
use super::writes::{self, CtxWrites};
use super::{DecisionError, InputVerdict, ReportOutcome, Result, TaskResult, WorkerReport};
use super::{cursor, failure, finish, joins, loops, segments, suspension};
use crate::ctx::SetWrites;
use crate::event::{
    CallDone, CallError, CallOutcome, CommandClaimed, CommandClosed, CommandRef, CtxSource,
    EventKind, ScheduledRetry,
};
use crate::payload::EventData;
use crate::state::{ClosedCommand, Command, StepWork, TriggerEvent};

/// Maximum number of row failures in one event.
const MAX_ROW_ERRORS: usize = 100;
/// Maximum size of the data that a worker reports about work it has started.
const MAX_STARTED_BYTES: usize = 16 << 10;

/// Accepts a report.
pub(super) fn accept_report(draft: &mut Draft<'_>, report: WorkerReport) -> Result<InputVerdict> {
    draft.ensure_started()?;
    let Some(command) = draft.state.command(report.command) else {
        return handle_closed_command(draft, &report);
    };
    let at = fence::command_ref(draft, report.command, command);
    let step = command.step;
    match fence::check_fence(report.command, command, report.attempt, &report.worker)? {
        FenceCheck::Stale(code) => return fence::ignore_report(draft, &report, code),
        FenceCheck::Claimed => {}
        FenceCheck::Unclaimed => {
            let claimed = CommandClaimed {
                at: at.clone(),
                attempt: report.attempt,
                worker: report.worker.clone(),
                lease_until: report.lease_until,
            };
            draft.emit_at(EventKind::CommandClaimed(Box::new(claimed)), report.claimed_at)?;
        }
    }
    record_started(draft, &at, &report)?;
    let recorded_retries = recorded_retry_count(draft, &report);
    for retry in report.retries.into_iter().skip(recorded_retries) {
        record_retried_call(draft, &at, retry)?;
    }
    let ctx = match report.outcome {
        ReportOutcome::Running { progress } => {
            if let Some(progress) = progress {
                draft.emit_event(EventKind::CommandHeartbeat { at, progress })?;
            }
            return Ok(InputVerdict::Accepted);
        }
        ReportOutcome::Suspended { started } => return suspend_reported(draft, at, started),
        ReportOutcome::Completed(result) => match result_error(&result) {
            None => record_call_done(draft, &at, result)?,
            Some(error) => {
                record_call_failed(draft, &at, error, TaskResult::from(EventData::default()))?
            }
        },
        ReportOutcome::Failed { error, mut result } => {
            if result_error(&result).is_some() {
                result.data = EventData::default();
                result.set = JsonMap::new();
            }
            record_call_failed(draft, &at, bounded_error(error), result)?
        }
    };
    let index = at.index;
    advance_unless_paused(draft, ClosedCommand { step, index, ctx })?;
    Ok(InputVerdict::Accepted)
}

/// Suspends a command whose work reports its end by a callback.
fn suspend_reported(draft: &mut Draft<'_>, at: CommandRef, started: Json) -> Result<InputVerdict> {
    let step = draft.plan.find_step(at.step.as_str());
    let segment_start =
        SegmentStart::locate(draft, step.ok_or_else(|| draft.invariant_error("step"))?, at.index)?;
    if !segment_start.first_task().is_some_and(noetl_playbook::segments::is_suspending) {
        return Err(DecisionError::NotSuspendable(at.command));
    }
    let started = match depth_error(&started, "the data") {
        None if fits_within(&started, MAX_STARTED_BYTES) => started,
        None | Some(_) => Json::Null,
    };
    suspension::suspend_for_callback(draft, at, started)?;
    Ok(InputVerdict::Accepted)
}

/// Handles a report of a command that is not open.
fn handle_closed_command(draft: &mut Draft<'_>, report: &WorkerReport) -> Result<InputVerdict> {
    if fence::is_duplicate_report(&draft.state, report) {
        return Ok(InputVerdict::Duplicate);
    }
    let is_closed = draft.state.active_passes().any(|(_, pass)| pass.has_closed(report.command));
    if draft.state.is_ended() {
        fence::ignore_report(draft, report, ErrorCode::AlreadyTerminal)
    } else if is_closed {
        fence::ignore_report(draft, report, ErrorCode::StaleAttempt)
    } else {
        Err(DecisionError::UnknownCommand(report.command))
    }
}

/// Records that the worker started, if the report contains it and the log does not.
fn record_started(draft: &mut Draft<'_>, at: &CommandRef, report: &WorkerReport) -> Result<()> {
    use crate::state::CommandStage::Claimed;
    let stage = draft.state.command(report.command).map(Command::stage);
    if report.started_at.is_some() && stage == Some(Claimed) {
        let kind = EventKind::CommandStarted { at: at.clone(), attempt: report.attempt };
        draft.emit_at(kind, report.started_at)?;
    }
    Ok(())
}

/// Returns how many of the reported retries the log already contains. A worker that received no
/// response to an earlier report repeats them.
fn recorded_retry_count(draft: &Draft<'_>, report: &WorkerReport) -> usize {
    let command = draft.state.command(report.command);
    let recorded = command.and_then(Command::reported_retries).map_or(0, |retries| retries.count);
    usize::try_from(recorded.saturating_sub(report.retries_before)).unwrap_or(usize::MAX)
}

fn call_count(draft: &Draft<'_>, command: CommandId) -> u32 {
    draft.state.command(command).map_or(0, |command| command.calls)
}

pub(super) fn record_retried_call(
    draft: &mut Draft<'_>,
    at: &CommandRef,
    retry: RetriedTask,
) -> Result<()> {
    let kind = EventKind::CallError(Box::new(CallError {
        at: at.clone(),
        call_index: call_count(draft, at.command),
        error: bounded_error(retry.error),
        outcome: CallOutcome { attempt: retry.attempt, ..CallOutcome::default() },
        retried: Some(ScheduledRetry { retry_in: retry.retry_in_ms }),
    }));
    draft.emit_at(kind, retry.at)?;
    Ok(())
}

/// Records that a command succeeded. Returns the writes of its tasks to variables of the execution.
fn record_call_done(draft: &mut Draft<'_>, at: &CommandRef, result: TaskResult) -> Result<JsonMap> {
    let ctx = SetWrites::from_report(&result.set).ctx;
    let (labels, continuation) = (result.labels.clone(), result.continuation.clone());
    let kind = EventKind::CallDone(Box::new(CallDone {
        at: at.clone(),
        call_index: call_count(draft, at.command),
        outcome: call_outcome(draft, at, result, CallEnd::Succeeded)?,
        labels,
        continuation,
    }));
    draft.emit_event(kind)?;
    draft.emit_event(EventKind::CommandCompleted(at.clone()))?;
    Ok(ctx)
}

/// Records the final failure of a command. Returns the writes of its tasks to variables of the
/// execution.
pub(super) fn record_call_failed(
    draft: &mut Draft<'_>,
    at: &CommandRef,
    error: TaskError,
    result: TaskResult,
) -> Result<JsonMap> {
    let ctx = SetWrites::from_report(&result.set).ctx;
    let kind = EventKind::CallError(Box::new(CallError {
        at: at.clone(),
        call_index: call_count(draft, at.command),
        error: error.clone(),
        outcome: call_outcome(draft, at, result, CallEnd::Failed)?,
        retried: None,
    }));
    draft.emit_event(kind)?;
    draft.emit_event(EventKind::CommandFailed(Box::new(CommandClosed {
        at: at.clone(),
        reason: error,
    })))?;
    Ok(ctx)
}

/// Closes a successful command that the server performs.
pub(super) fn close_succeeded(
    draft: &mut Draft<'_>,
    at: &CommandRef,
    result: TaskResult,
) -> Result<ClosedCommand> {
    if let Some(error) = result_error(&result) {
        return close_failed(draft, at, error, TaskResult::from(EventData::default()));
    }
    let ctx = record_call_done(draft, at, result)?;
    closed_command(draft, at, ctx)
}

/// Closes a failed command that the server performs.
pub(super) fn close_failed(
    draft: &mut Draft<'_>,
    at: &CommandRef,
    error: TaskError,
    mut result: TaskResult,
) -> Result<ClosedCommand> {
    if result_error(&result).is_some() {
        result = TaskResult::from(EventData::default());
    }
    let ctx = record_call_failed(draft, at, bounded_error(error), result)?;
    closed_command(draft, at, ctx)
}

fn closed_command(draft: &Draft<'_>, at: &CommandRef, ctx: JsonMap) -> Result<ClosedCommand> {
    let step = draft.plan.find_step(at.step.as_str());
    Ok(ClosedCommand {
        step: step.ok_or_else(|| draft.invariant_error("step"))?,
        index: at.index,
        ctx,
    })
}

/// Records a retried attempt of a task that the server performs.
pub(super) fn record_server_retry(
    draft: &mut Draft<'_>,
    at: &CommandRef,
    error: TaskError,
    attempt: u32,
    retry_in: Millis,
) -> Result<()> {
    let retry = RetriedTask { error, attempt, retry_in_ms: retry_in, at: None };
    record_retried_call(draft, at, retry)
}

/// Converts a result to an outcome, moving large data to payloads.
fn call_outcome(
    draft: &mut Draft<'_>,
    at: &CommandRef,
    result: TaskResult,
    outcome: CallEnd,
) -> Result<CallOutcome> {
    let step = draft.plan.find_step(at.step.as_str());
    let budget = step.map(|step| draft.step_plan(step).inline_max);
    let pass = step.and_then(|step| draft.state.active_pass(step));
    let is_frame = pass.is_some_and(|pass| matches!(pass.work, StepWork::Cursor(_)));
    let frame = match outcome {
        CallEnd::Succeeded if is_frame => Some(bounded_frame(frame_report(&result))),
        CallEnd::Failed if is_frame => result.frame.clone().map(bounded_frame),
        CallEnd::Succeeded | CallEnd::Failed => None,
    };
    let data = match result.data {
        EventData::Inline(value) => {
            let budget = budget.unwrap_or_else(|| draft.plan.defaults().inline_max);
            draft.inline_or_store(&at.step, value, budget.as_bytes())?
        }
        external @ EventData::External(_) => external,
    };
    Ok(CallOutcome {
        data,
        set: result.set,
        attempt: result.attempt,
        tasks: result.tasks.into_iter().map(bounded_task).collect(),
        frame,
    })
}

/// Truncates the report of a task for the log.
fn bounded_task(mut task: TaskReport) -> TaskReport {
    for text in [&mut task.stdout, &mut task.stderr].into_iter().flatten() {
        if let Cow::Owned(end) = tail_of_output(text) {
            *text = Text::from(end);
        }
    }
    task
}

/// Outcome of the tasks of a command.
#[derive(Clone, Copy)]
enum CallEnd {
    Succeeded,
    Failed,
}

/// Returns the report of a successful frame. A worker that reports no rows indicates in its data
/// that none are left.
pub(super) fn frame_report(result: &TaskResult) -> FrameReport {
    if let Some(frame) = &result.frame {
        return frame.clone();
    }
    let is_drained = match &result.data {
        EventData::Inline(data) => {
            data.get("__cursor_drained").and_then(Json::as_bool) == Some(true)
        }
        EventData::External(_) => false,
    };
    let rows = u32::from(!is_drained);
    FrameReport { rows, done: rows, ..FrameReport::default() }
}

/// Truncates the report of a frame for the log.
fn bounded_frame(mut frame: FrameReport) -> FrameReport {
    frame.errors.truncate(MAX_ROW_ERRORS);
    for failed in &mut frame.errors {
        failed.error = bounded_error(failed.error.clone());
    }
    frame
}

/// Returns the error for a result that the log cannot store.
fn result_error(result: &TaskResult) -> Option<TaskError> {
    let data_error = match &result.data {
        EventData::Inline(value) => depth_error(value, "the data"),
        EventData::External(reference) => depth_error(reference.as_json(), "the reference"),
    };
    data_error
        .or_else(|| result.labels.as_ref().and_then(|labels| depth_error(labels, "the data")))
        .or_else(|| writes::bounds_error(&result.set))
}

/// Advances the execution after a command was closed, unless it is paused.
pub(super) fn advance_unless_paused(draft: &mut Draft<'_>, closed: ClosedCommand) -> Result<()> {
    if draft.state.is_paused() {
        return Ok(());
    }
    advance_after_close(draft, closed)?;
    finish::finish_if_done(draft)
}

/// Advances the execution after a command was closed: its writes, its step, and the next steps.
pub(super) fn advance_after_close(draft: &mut Draft<'_>, closed: ClosedCommand) -> Result<()> {
    let step = closed.step;
    let pass = draft.active_pass(step)?;
    let ctx_writes = CtxWrites { index: closed.index, values: closed.ctx };
    writes::record_writes(draft, step, pass.number, CtxSource::Task, ctx_writes)?;
    if segments::has_pending_segment(draft, step, closed.index) {
        segments::continue_pipeline(draft, step, closed.index)?;
        return joins::enter_ready(draft);
    }
    let pass = draft.active_pass(step)?;
    match &pass.work {
        StepWork::Loop(_) => {
            let cause = draft.last_event_id().unwrap_or(pass.entered);
            loops::continue_loop(draft, step, cause)?;
        }
        StepWork::Cursor(_) => {
            let cause = draft.last_event_id().unwrap_or(pass.entered);
            cursor::continue_cursor(draft, step, cause)?;
        }
        StepWork::Single { outcome, .. } => {
            let Some(outcome) = outcome.clone() else {
                return Ok(());
            };
            if let Some(error) = outcome.error.clone() {
                failure::fail_step(draft, step, error)?;
            } else {
                let event = TriggerEvent::CallDone;
                let data = None;
                exit::complete_step(draft, step, StepSuccess { event, outcome, data })?;
            }
        }
    }
    joins::enter_ready(draft)
}

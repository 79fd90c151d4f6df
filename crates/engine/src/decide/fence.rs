//! The fence: decides which claims and reports of workers are current, and records the stale ones.

use noetl_types::json::to_canonical;
use noetl_types::{CommandId, ErrorCode, Json, WorkerId, sha256};

use super::draft::Draft;
use super::{
    CommandClaim, DecisionError, IgnoredResult, InputVerdict, ReportOutcome, Result, WorkerReport,
};
use crate::event::{CommandClaimed, CommandRef, EventKind, ResultIgnored};
use crate::payload::{EventData, Reference};
use crate::state::{Command, CommandPhase, ExecutionState, FrameEnd, StepPass, StepWork};

/// Result of the fence check.
pub(super) enum FenceCheck {
    /// Current. The log does not contain the claim of the worker yet.
    Unclaimed,
    /// Current.
    Claimed,
    /// Stale: the command is at another attempt or worker.
    Stale(ErrorCode),
}

/// Checks an attempt and a worker against the state of a command.
pub(super) fn check_fence(
    id: CommandId,
    command: &Command,
    attempt: u32,
    worker: &WorkerId,
) -> Result<FenceCheck> {
    let ungranted =
        |current| DecisionError::UngrantedAttempt { command: id, current, found: attempt };
    match &command.phase {
        CommandPhase::Pending { attempt: next, .. } => match attempt.cmp(next) {
            _ if attempt == 0 => Err(ungranted(*next)),
            std::cmp::Ordering::Equal => Ok(FenceCheck::Unclaimed),
            std::cmp::Ordering::Less => Ok(FenceCheck::Stale(ErrorCode::StaleAttempt)),
            std::cmp::Ordering::Greater => Err(ungranted(*next)),
        },
        CommandPhase::Leased { attempt: current, worker: holder, .. } => match attempt.cmp(current)
        {
            _ if attempt == 0 => Err(ungranted(*current)),
            std::cmp::Ordering::Equal if holder == worker => Ok(FenceCheck::Claimed),
            std::cmp::Ordering::Equal => Ok(FenceCheck::Stale(ErrorCode::NotLeaseHolder)),
            std::cmp::Ordering::Less => Ok(FenceCheck::Stale(ErrorCode::StaleAttempt)),
            std::cmp::Ordering::Greater => Err(ungranted(*current)),
        },
        CommandPhase::Suspended(_) | CommandPhase::Spent | CommandPhase::Called(_) => {
            Ok(FenceCheck::Stale(ErrorCode::StaleAttempt))
        }
    }
}

/// Returns the reference to a command for events.
pub(super) fn command_ref(draft: &Draft<'_>, id: CommandId, command: &Command) -> CommandRef {
    let looping = draft.state.active_pass(command.step).and_then(StepPass::loop_ref);
    CommandRef {
        command: id,
        step: draft.step_name(command.step),
        run: command.run,
        index: command.index,
        segment: command.segment,
        looping,
    }
}

/// Records the claim of a command by a worker.
pub(super) fn claim_command(draft: &mut Draft<'_>, claim: CommandClaim) -> Result<InputVerdict> {
    draft.ensure_not_ended()?;
    if draft.state.is_paused() {
        return Err(DecisionError::Paused);
    }
    let id = claim.command;
    let command = draft.state.command(id).ok_or(DecisionError::UnknownCommand(id))?;
    if let CommandPhase::Leased { worker: holder, .. } = &command.phase
        && *holder != claim.worker
    {
        let holder = holder.clone();
        return Err(DecisionError::HeldByOther { command: id, holder });
    }
    if let CommandPhase::Pending { not_before: Some(not_before), .. } = command.phase
        && draft.now < not_before
    {
        return Err(DecisionError::NotBefore { command: id, not_before });
    }
    match check_fence(id, command, claim.attempt, &claim.worker)? {
        FenceCheck::Claimed => Ok(InputVerdict::Duplicate),
        FenceCheck::Stale(code) => Ok(InputVerdict::Ignored(code)),
        FenceCheck::Unclaimed => {
            let at = command_ref(draft, id, command);
            draft.emit_event(EventKind::CommandClaimed(Box::new(CommandClaimed {
                at,
                attempt: claim.attempt,
                worker: claim.worker,
                lease_until: claim.lease_until,
            })))?;
            Ok(InputVerdict::Accepted)
        }
    }
}

/// Returns true if a report repeats an accepted one. Only reports that the state still contains are
/// recognized: for commands of active step passes, and for the command of a step without a loop
/// whose last pass has ended.
pub(super) fn is_duplicate_report(state: &ExecutionState, report: &WorkerReport) -> bool {
    let closed_in_active_pass = state.active_passes().find_map(|(_, pass)| {
        let index = pass.closed.get(&report.command);
        match &pass.work {
            StepWork::Single { outcome, .. } => index.map(|_| {
                outcome.as_ref().is_some_and(|recorded| {
                    matches_outcome(report, Some(&recorded.output.data), recorded.error.is_some())
                })
            }),
            StepWork::Loop(looping) => index.map(|index| {
                let failed = looping.errors.contains(index);
                matches_outcome(report, looping.results.get(index), failed)
            }),
            StepWork::Cursor(cursor) => {
                let end = cursor.recent.get(&report.command)?;
                Some(matches_frame(report, *end))
            }
        }
    });
    closed_in_active_pass.unwrap_or_else(|| {
        state.steps.values().any(|step| {
            let Some(latest) = &step.latest else {
                return false;
            };
            let is_last = latest.closed == Some(report.command);
            let output_data = step.last_output().map(|output| &output.data);
            is_last && matches_outcome(report, output_data, latest.error.is_some())
        })
    })
}

fn matches_outcome(report: &WorkerReport, data: Option<&EventData>, failed: bool) -> bool {
    match &report.outcome {
        ReportOutcome::Running { .. } | ReportOutcome::Suspended { .. } => true,
        ReportOutcome::Completed(result) => {
            !failed && data.is_some_and(|recorded| matches_data(recorded, &result.data))
        }
        ReportOutcome::Failed { .. } => failed,
    }
}

/// Compares a report with the recorded counts of a frame.
fn matches_frame(report: &WorkerReport, end: FrameEnd) -> bool {
    match &report.outcome {
        ReportOutcome::Running { .. } | ReportOutcome::Suspended { .. } => true,
        ReportOutcome::Failed { .. } => end.is_failed,
        ReportOutcome::Completed(result) => {
            let reported = super::report::frame_report(result);
            !end.is_failed && (reported.rows, reported.done) == (end.rows, end.done)
        }
    }
}

/// Returns true if reported data equals the stored data. The stored data may have been moved out of
/// the log since.
fn matches_data(recorded: &EventData, reported: &EventData) -> bool {
    let digest = |reference: &Reference| reference.as_json().get("sha256").cloned();
    match (recorded, reported) {
        (EventData::Inline(recorded), EventData::Inline(reported)) => recorded == reported,
        (EventData::External(recorded), EventData::Inline(reported)) => {
            let reported = sha256(to_canonical(reported)).to_string();
            digest(recorded) == Some(Json::from(reported))
        }
        (EventData::External(recorded), EventData::External(reported)) => {
            recorded.uri() == reported.uri() || digest(recorded) == digest(reported)
        }
        (EventData::Inline(_), EventData::External(_)) => false,
    }
}

/// Records a stale report.
pub(super) fn ignore_report(
    draft: &mut Draft<'_>,
    report: &WorkerReport,
    code: ErrorCode,
) -> Result<InputVerdict> {
    emit_result_ignored(draft, IgnoredResult::from_report(report, code))
}

impl IgnoredResult {
    /// Creates the record of a stale report.
    pub fn from_report(report: &WorkerReport, code: ErrorCode) -> Self {
        let content = to_canonical(&outcome_json(&report.outcome));
        Self {
            command: report.command,
            attempt: report.attempt,
            worker: report.worker.clone(),
            sha256: sha256(&content),
            bytes: content.len() as u64,
            code,
        }
    }
}

fn outcome_json(outcome: &ReportOutcome) -> Json {
    let data = |data: &EventData| match data {
        EventData::Inline(value) => value.clone(),
        EventData::External(reference) => reference.as_json().clone(),
    };
    match outcome {
        ReportOutcome::Running { progress } => progress.clone().unwrap_or_default(),
        ReportOutcome::Suspended { started } => started.clone(),
        ReportOutcome::Completed(result) => data(&result.data),
        ReportOutcome::Failed { error, result } => {
            Json::object([("error", error.to_json()), ("data", data(&result.data))])
        }
    }
}

/// Records a result that the caller knows to be stale.
pub(super) fn record_ignored_result(
    draft: &mut Draft<'_>,
    ignored: IgnoredResult,
) -> Result<InputVerdict> {
    draft.ensure_started()?;
    emit_result_ignored(draft, ignored)
}

fn emit_result_ignored(draft: &mut Draft<'_>, ignored: IgnoredResult) -> Result<InputVerdict> {
    let command = draft.state.command(ignored.command);
    let step = command.map(|command| draft.step_name(command.step));
    let code = ignored.code;
    draft.emit_event(EventKind::ResultIgnored(Box::new(ResultIgnored {
        command: ignored.command,
        step,
        attempt: ignored.attempt,
        worker: ignored.worker,
        sha256: ignored.sha256,
        bytes: ignored.bytes,
        code,
    })))?;
    Ok(InputVerdict::Ignored(code))
}

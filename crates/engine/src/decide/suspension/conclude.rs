//! Ends waits: applies the policy of the task to the outcome.

use noetl_playbook::command_machine::{
    MachineInput, MachineOutcome, SuspendedCommand, ToolResult, WaitOutcome, WaitRetry,
};
use noetl_types::{CommandId, Json, TaskError, TaskErrorKind, sha256};

use super::begin::{TimerSpec, find_suspended, start_timer};
use crate::decide::draft::Draft;
use crate::decide::input::ReportOutcome;
use crate::decide::{DecisionError, Result, report, segments};
use crate::event::{CommandRef, CommandTimer, SuspensionKind};
use crate::state::{ClosedCommand, SuspendedTask};

/// Ends the wait of a command. Returns the closed command, unless its task is retried.
pub(super) fn conclude_wait(
    draft: &mut Draft<'_>,
    command: CommandId,
    result: ToolResult,
) -> Result<Option<ClosedCommand>> {
    let (Some((at, suspended)), Some(open)) =
        (find_suspended(draft, command), draft.state.command(command))
    else {
        return Err(draft.invariant_error("wait"));
    };
    let (step, issued) = (open.step, open.issued);
    let command_spec = segments::server_command_spec(draft, step, at.index, issued)?;
    let suspended_command = SuspendedCommand::new(command_spec, suspended.attempt, &suspended.set);
    let mut suspended_command = suspended_command.map_err(|_| draft.invariant_error("step"))?;
    if draft.state.is_failing() {
        // While the execution is failing, nothing is retried.
        suspended_command = suspended_command.without_retry();
    }
    let result = ToolResult { duration: Some(draft.now.duration_since(suspended.since)), ..result };
    let input = MachineInput {
        now: Some(draft.now),
        random_fraction: jitter_fraction(command, suspended.attempt),
    };
    let outcome = suspended_command.conclude_wait(result, input, &draft.payload_source());
    match outcome.map_err(DecisionError::NeedsPayload)? {
        WaitOutcome::Finished(finished) => close_command(draft, &at, *finished).map(Some),
        WaitOutcome::Retry(retry) => schedule_next_attempt(draft, at, &suspended, *retry),
    }
}

fn close_command(
    draft: &mut Draft<'_>,
    at: &CommandRef,
    finished: MachineOutcome,
) -> Result<ClosedCommand> {
    match ReportOutcome::from(finished) {
        ReportOutcome::Completed(result) => report::close_succeeded(draft, at, result),
        ReportOutcome::Failed { error, result } => report::close_failed(draft, at, error, result),
        // The server does not suspend a command twice and reports no progress.
        ReportOutcome::Suspended { .. } | ReportOutcome::Running { .. } => {
            Err(draft.invariant_error("outcome"))
        }
    }
}

/// Retries a task after a delay. If a worker must start it again, it is a new command.
fn schedule_next_attempt(
    draft: &mut Draft<'_>,
    at: CommandRef,
    suspended: &SuspendedTask,
    retry: WaitRetry,
) -> Result<Option<ClosedCommand>> {
    if let Some(error) = retry.error {
        let attempt = suspended.attempt;
        report::record_server_retry(draft, &at, error, attempt, retry.delay)?;
    }
    if let SuspensionKind::Callback(_) = suspended.kind {
        return close_command(draft, &at, retry.outcome).map(Some);
    }
    let timer_spec =
        TimerSpec { set: retry.set, ..TimerSpec::firing_at(draft.now.saturating_add(retry.delay)) };
    start_timer(draft, at, CommandTimer::Retry, timer_spec)?;
    Ok(None)
}

/// Derives a number from 0 to below 1 for the jitter of a delay. It must differ between tasks, and
/// must be equal if the same input is decided again.
fn jitter_fraction(command: CommandId, attempt: u32) -> f64 {
    let digest = sha256(format!("{command}:{attempt}"));
    let bytes = digest.as_bytes();
    let number = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    f64::from(number) / (f64::from(u32::MAX) + 1.0)
}

/// Returns the failure of a wait that timed out.
pub(super) fn timeout_failure(what: &str) -> ToolResult {
    let message = format!("timed out waiting for {what}");
    ToolResult::failed(TaskError::new(TaskErrorKind::Timeout, message))
}

/// Converts an optional value to JSON, with null for `None`.
pub(super) fn or_null<T: Into<Json>>(value: Option<T>) -> Json {
    value.map_or(Json::Null, Into::into)
}

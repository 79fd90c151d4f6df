//! Expired leases of lost workers.

use noetl_types::{Millis, TaskError, TaskErrorKind};

use super::draft::Draft;
use super::fence::{self, FenceCheck};
use super::report::{advance_unless_paused, record_call_failed};
use super::{DecisionError, InputVerdict, LeaseExpired, Result, TaskResult};
use crate::event::{CommandClaimed, CommandExpired, EventKind, ExpiryReason};
use crate::payload::EventData;
use crate::state::ClosedCommand;

/// Delay before the first retry of a command. Doubles with every attempt.
const INITIAL_BACKOFF: Millis = Millis::from_ms(500);
/// Maximum delay before a retry.
const MAX_BACKOFF: Millis = Millis::from_secs(3);

/// Returns the command of a lost worker to the queue, or fails it after its last attempt.
pub(super) fn expire_lease(draft: &mut Draft<'_>, expired: LeaseExpired) -> Result<InputVerdict> {
    draft.ensure_not_ended()?;
    let id = expired.command;
    let command = draft.state.command(id).ok_or(DecisionError::UnknownCommand(id))?;
    // Attempts that ended with a report were not lost.
    let max_attempts = command.max_attempts.saturating_add(command.retried);
    let step = command.step;
    let at = fence::command_ref(draft, id, command);
    match fence::check_fence(id, command, expired.attempt, &expired.worker)? {
        FenceCheck::Stale(_) => return Ok(InputVerdict::Duplicate),
        FenceCheck::Claimed => {}
        FenceCheck::Unclaimed => {
            draft.emit_event(EventKind::CommandClaimed(Box::new(CommandClaimed {
                at: at.clone(),
                attempt: expired.attempt,
                worker: expired.worker,
                lease_until: expired.lease_until,
            })))?;
        }
    }
    let is_last = expired.attempt >= max_attempts;
    let not_before = (!is_last).then(|| draft.now.saturating_add(retry_backoff(expired.attempt)));
    draft.emit_event(EventKind::CommandExpired(Box::new(CommandExpired {
        at: at.clone(),
        attempt: expired.attempt,
        reason: expired.reason,
        not_before,
    })))?;
    if is_last {
        let error = lost_worker_error(expired.reason, expired.attempt);
        let ctx = record_call_failed(draft, &at, error, TaskResult::from(EventData::default()))?;
        let index = at.index;
        advance_unless_paused(draft, ClosedCommand { step, index, ctx })?;
    }
    Ok(InputVerdict::Accepted)
}

/// Returns the delay before the next attempt of a command.
fn retry_backoff(attempt: u32) -> Millis {
    let factor = 1_u64.checked_shl(attempt.saturating_sub(1)).unwrap_or(u64::MAX);
    INITIAL_BACKOFF.saturating_mul(factor).min(MAX_BACKOFF)
}

fn lost_worker_error(reason: ExpiryReason, attempts: u32) -> TaskError {
    let (kind, problem) = match reason {
        ExpiryReason::Lease | ExpiryReason::Deregistered | ExpiryReason::Retry => {
            (TaskErrorKind::Lost, "was lost")
        }
        ExpiryReason::Deadline => (TaskErrorKind::Timeout, "exceeded the deadline"),
    };
    TaskError::new(kind, format!("the worker {problem} in each of {attempts} attempts"))
}

#[cfg(test)]
mod tests;

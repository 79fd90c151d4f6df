//! Lost workers: a lease that ran out.

use noetl_types::{Millis, TaskError, TaskErrorKind};

use super::draft::Draft;
use super::fence::{self, Passage};
use super::report::{failed, follow_up};
use super::{LeaseExpired, Refused, TaskResult, Verdict};
use crate::event::{CommandClaimed, CommandExpired, EventKind, ExpiryReason};
use crate::payload::Data;
use crate::state::Closing;

/// The first pause before a command is handed out again; it doubles with every attempt.
const BACKOFF: Millis = Millis::from_ms(500);
/// The longest.
const MAX_BACKOFF: Millis = Millis::from_secs(3);

/// Takes a command back from a worker that is gone.
pub(super) fn expire(draft: &mut Draft<'_>, expired: LeaseExpired) -> Result<Verdict, Refused> {
    draft.must_go_on()?;
    let id = expired.command;
    let command = draft.state.command(id).ok_or(Refused::UnknownCommand(id))?;
    // Attempts that ended with an answer were not lost.
    let max_attempts = command.max_attempts.saturating_add(command.retried);
    let step = command.step;
    let at = fence::at(draft, id, command);
    match fence::pass(id, command, expired.attempt, &expired.worker)? {
        Passage::Stale(_) => return Ok(Verdict::Duplicate),
        Passage::Claimed => {}
        Passage::Unclaimed => {
            draft.emit(EventKind::CommandClaimed(Box::new(CommandClaimed {
                at: at.clone(),
                attempt: expired.attempt,
                worker: expired.worker,
                lease_until: expired.lease_until,
            })))?;
        }
    }
    let is_last = expired.attempt >= max_attempts;
    let not_before = (!is_last).then(|| draft.now.saturating_add(backoff(expired.attempt)));
    draft.emit(EventKind::CommandExpired(Box::new(CommandExpired {
        at: at.clone(),
        attempt: expired.attempt,
        reason: expired.reason,
        not_before,
    })))?;
    if is_last {
        let error = error(expired.reason, expired.attempt);
        let ctx = failed(draft, &at, error, TaskResult::from(Data::default()))?;
        let index = at.index;
        follow_up(draft, Closing { step, index, ctx })?;
    }
    Ok(Verdict::Accepted)
}

/// How long a command waits before it is handed out again.
fn backoff(attempt: u32) -> Millis {
    let factor = 1_u64
        .checked_shl(attempt.saturating_sub(1))
        .unwrap_or(u64::MAX);
    BACKOFF.saturating_mul(factor).min(MAX_BACKOFF)
}

fn error(reason: ExpiryReason, attempts: u32) -> TaskError {
    let (kind, what) = match reason {
        ExpiryReason::Lease | ExpiryReason::Deregistered | ExpiryReason::Retry => {
            (TaskErrorKind::Lost, "was lost")
        }
        ExpiryReason::Deadline => (TaskErrorKind::Timeout, "was out of time"),
    };
    TaskError::new(
        kind,
        format!("the worker {what} in each of {attempts} attempts"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_grows_to_three_seconds() {
        let pauses: Vec<u64> = [1, 2, 3, 4, 5, 70]
            .map(|attempt| backoff(attempt).as_ms())
            .to_vec();
        assert_eq!(pauses, [500, 1000, 2000, 3000, 3000, 3000]);
    }
}

//! The end of a wait: what the task makes of it.

use noetl_playbook::shift::{Again, Answer, Finished, Moment, Parking, Ruled};
use noetl_types::{CommandId, Json, TaskError, TaskErrorKind, sha256};

use super::begin::{Timing, find, start_timer};
use crate::decide::draft::Draft;
use crate::decide::input::ReportOutcome;
use crate::decide::{Refused, report, segments};
use crate::event::{CommandAt, CommandTimer, Park};
use crate::state::{Closing, Parked};

/// Ends the wait of a command. Gives the command that was closed, unless its task begins again.
pub(super) fn conclude(
    draft: &mut Draft<'_>,
    command: CommandId,
    answer: Answer,
) -> Result<Option<Closing>, Refused> {
    let (Some((at, parked)), Some(open)) = (find(draft, command), draft.state.command(command))
    else {
        return Err(draft.broken("wait"));
    };
    let (step, issued) = (open.step, open.issued);
    let job = segments::job(draft, step, at.index, issued)?;
    let parking = Parking::new(job, parked.attempt, &parked.set);
    let mut parking = parking.map_err(|_| draft.broken("step"))?;
    if draft.state.is_failing() {
        // Nothing begins any more.
        parking = parking.for_the_last_time();
    }
    let answer = Answer {
        duration: Some(draft.now.since(parked.since)),
        ..answer
    };
    let moment = Moment {
        now: Some(draft.now),
        dice: dice(command, parked.attempt),
    };
    let ruled = parking.rule(answer, moment, &draft.vault());
    match ruled.map_err(Refused::NeedsPayload)? {
        Ruled::Over(finished) => close(draft, &at, *finished).map(Some),
        Ruled::Again(again) => try_again(draft, at, &parked, *again),
    }
}

fn close(draft: &mut Draft<'_>, at: &CommandAt, finished: Finished) -> Result<Closing, Refused> {
    match ReportOutcome::from(finished) {
        ReportOutcome::Completed(result) => report::close_well(draft, at, result),
        ReportOutcome::Failed { error, result } => report::close_failed(draft, at, error, result),
        // The server parks nothing a second time and reports no progress.
        ReportOutcome::Parked { .. } | ReportOutcome::Running { .. } => {
            Err(draft.broken("outcome"))
        }
    }
}

/// The task waits again, after a pause. What a worker has to start again is a command of its own.
fn try_again(
    draft: &mut Draft<'_>,
    at: CommandAt,
    parked: &Parked,
    again: Again,
) -> Result<Option<Closing>, Refused> {
    if let Some(error) = again.error {
        let attempt = parked.attempt;
        report::retried_by_server(draft, &at, error, attempt, again.delay)?;
    }
    if let Park::Callback(_) = parked.park {
        return close(draft, &at, again.handed_on).map(Some);
    }
    let timing = Timing {
        set: again.set,
        ..Timing::at(draft.now.saturating_add(again.delay))
    };
    start_timer(draft, at, CommandTimer::Retry, timing)?;
    Ok(None)
}

/// A number from 0 to below 1 for a delay by chance. It only has to differ from task to task, and
/// deciding again has to give the same.
fn dice(command: CommandId, attempt: u32) -> f64 {
    let digest = sha256(format!("{command}:{attempt}"));
    let bytes = digest.as_bytes();
    let number = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    f64::from(number) / (f64::from(u32::MAX) + 1.0)
}

/// The failure of a task that has waited too long.
pub(super) fn timed_out(what: &str) -> Answer {
    let message = format!("{what} did not come in time");
    Answer::failed(TaskError::new(TaskErrorKind::Timeout, message))
}

/// The text of an optional part of data.
pub(super) fn or_null<T: Into<Json>>(part: Option<T>) -> Json {
    part.map_or(Json::Null, Into::into)
}

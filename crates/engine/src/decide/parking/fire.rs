//! A timer of a command is due.

use noetl_playbook::shift::Answer;
use noetl_types::{CommandId, Json};

use super::approve::unanswered;
use super::begin::{begin, find};
use super::conclude::{conclude, timed_out};
use crate::decide::draft::Draft;
use crate::decide::{Errand, Refused, finish, report};
use crate::event::{CommandTimer, CommandTimerFired, EventKind, Overdue, Park, TimerId};
use crate::state::Parked;

/// Fires a timer of a command that waits.
pub(in crate::decide) fn fire(
    draft: &mut Draft<'_>,
    command: CommandId,
    timer: CommandTimer,
) -> Result<(), Refused> {
    let open = find(draft, command).and_then(|(at, parked)| {
        let open = parked.timer.filter(|open| open.timer == timer)?;
        Some((at, parked, open.fire_at))
    });
    let Some((at, parked, fire_at)) = open else {
        return Err(Refused::UnknownTimer(TimerId::Command { command, timer }));
    };
    if fire_at > draft.now {
        return Err(Refused::NotDue { fire_at });
    }
    draft.emit(EventKind::CommandTimerFired(Box::new(CommandTimerFired {
        at,
        timer,
        fire_at,
    })))?;
    if timer == CommandTimer::Retry {
        begin(draft, command)?;
        return finish::finish(draft);
    }
    let answer = answer(draft, &parked);
    match conclude(draft, command, answer)? {
        Some(closing) => report::follow_up(draft, closing),
        None => Ok(()),
    }
}

/// What becomes of a wait whose time is up.
fn answer(draft: &mut Draft<'_>, parked: &Parked) -> Answer {
    match &parked.park {
        Park::Sleep(sleep) if sleep.until <= draft.now => {
            let slept = draft.now.since(parked.since);
            Answer::ok(Json::object([
                ("slept_ms", Json::from(slept.as_ms())),
                ("fired_at", Json::from(draft.now)),
            ]))
        }
        Park::Sleep(_) => timed_out("the end of the sleep"),
        Park::Wait(_) => timed_out("the signal"),
        Park::Approval(approval) => unanswered(approval, draft.now),
        Park::Child(call) => {
            if call.on_timeout == Overdue::Cancel {
                let child = call.child;
                draft.errands.push(Errand::CancelChild { child });
            }
            timed_out("the end of the child")
        }
        Park::Callback(_) => timed_out("the callback"),
        Park::Broken(broken) => Answer::failed(broken.error.clone()),
    }
}

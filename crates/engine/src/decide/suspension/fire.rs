//! Due timers of suspended commands.

use noetl_playbook::command_machine::ToolResult;
use noetl_types::{CommandId, Json};

use super::approve::approval_timeout_result;
use super::begin::{begin_wait, find_suspended};
use super::conclude::{conclude_wait, timeout_failure};
use crate::decide::draft::Draft;
use crate::decide::{DecisionError, FollowUp, Result, finish, report};
use crate::event::{
    ChildTimeoutAction, CommandTimer, CommandTimerFired, EventKind, SuspensionKind, TimerId,
};
use crate::state::SuspendedTask;

/// Fires a timer of a suspended command.
pub(in crate::decide) fn fire_command_timer(
    draft: &mut Draft<'_>,
    command: CommandId,
    timer: CommandTimer,
) -> Result<()> {
    let open = find_suspended(draft, command).and_then(|(at, suspended)| {
        let open = suspended.timer.filter(|open| open.timer == timer)?;
        Some((at, suspended, open.fire_at))
    });
    let Some((at, suspended, fire_at)) = open else {
        return Err(DecisionError::UnknownTimer(TimerId::Command { command, timer }));
    };
    if fire_at > draft.now {
        return Err(DecisionError::NotDue { fire_at });
    }
    draft.emit_event(EventKind::CommandTimerFired(Box::new(CommandTimerFired {
        at,
        timer,
        fire_at,
    })))?;
    if timer == CommandTimer::Retry {
        begin_wait(draft, command)?;
        return finish::finish_if_done(draft);
    }
    let result = wait_timeout_result(draft, &suspended);
    match conclude_wait(draft, command, result)? {
        Some(closed) => report::advance_unless_paused(draft, closed),
        None => Ok(()),
    }
}

/// Returns the outcome of a wait that timed out.
fn wait_timeout_result(draft: &mut Draft<'_>, suspended: &SuspendedTask) -> ToolResult {
    match &suspended.kind {
        SuspensionKind::Sleep(sleep) if sleep.until <= draft.now => {
            let slept = draft.now.duration_since(suspended.since);
            ToolResult::ok(Json::object([
                ("slept_ms", Json::from(slept.as_ms())),
                ("fired_at", Json::from(draft.now)),
            ]))
        }
        SuspensionKind::Sleep(_) => timeout_failure("the end of the sleep"),
        SuspensionKind::Wait(_) => timeout_failure("the signal"),
        SuspensionKind::Approval(approval) => approval_timeout_result(approval, draft.now),
        SuspensionKind::Child(call) => {
            if call.on_timeout == ChildTimeoutAction::Cancel {
                let child = call.child;
                draft.follow_ups.push(FollowUp::CancelChild { child });
            }
            timeout_failure("the end of the child")
        }
        SuspensionKind::Callback(_) => timeout_failure("the callback"),
        SuspensionKind::Broken(broken) => ToolResult::failed(broken.error.clone()),
    }
}

//! Due timers: of steps, of the whole execution, and of suspended tasks.

use noetl_playbook::graph::StepIndex;
use noetl_types::{TaskError, TaskErrorKind, Timestamp};

use super::control::cancel_commands;
use super::draft::Draft;
use super::{DecisionError, InputVerdict, Result, failure, finish, joins, suspension};
use crate::event::{EventKind, ExecutionTimer, TimerId};

/// Fires a timer.
pub(super) fn fire_timer(draft: &mut Draft<'_>, timer: &TimerId) -> Result<InputVerdict> {
    draft.ensure_not_ended()?;
    if draft.state.is_paused() {
        return Err(DecisionError::Paused);
    }
    match timer {
        TimerId::Start => {
            let fire_at = check_due(draft, timer, draft.state.scheduled_start())?;
            let timer = ExecutionTimer::Start;
            draft.emit_event(EventKind::TimerFired { timer, fire_at })?;
            joins::enter_ready(draft)?;
            finish::finish_if_done(draft)?;
        }
        TimerId::Execution => {
            let fire_at = draft.state.execution_deadline(draft.plan);
            let fire_at = check_due(draft, timer, fire_at)?;
            let fired = EventKind::TimerFired { timer: ExecutionTimer::Execution, fire_at };
            finish::interrupt_execution(draft, fired, "execution timeout")?;
        }
        TimerId::Step { step, run } => {
            let index = draft.plan.find_step(step.as_str());
            let pass = index.filter(|index| {
                let pass = draft.state.active_pass(*index);
                pass.is_some_and(|pass| pass.number == *run)
            });
            let Some(index) = pass else {
                return Err(DecisionError::UnknownTimer(timer.clone()));
            };
            let fire_at = draft.state.step_deadline(draft.plan, index);
            let fire_at = check_due(draft, timer, fire_at)?;
            let timeout = ExecutionTimer::Step { step: step.clone(), run: *run };
            time_out_step(draft, index, timeout, fire_at)?;
        }
        TimerId::Command { command, timer } => {
            suspension::fire_command_timer(draft, *command, *timer)?;
        }
    }
    Ok(InputVerdict::Accepted)
}

fn check_due(draft: &Draft<'_>, timer: &TimerId, fire_at: Option<Timestamp>) -> Result<Timestamp> {
    match fire_at {
        None => Err(DecisionError::UnknownTimer(timer.clone())),
        Some(fire_at) if fire_at > draft.now => Err(DecisionError::NotDue { fire_at }),
        Some(fire_at) => Ok(fire_at),
    }
}

/// Times out a step: its commands are cancelled, and it fails.
fn time_out_step(
    draft: &mut Draft<'_>,
    step: StepIndex,
    timer: ExecutionTimer,
    fire_at: Timestamp,
) -> Result<()> {
    draft.emit_event(EventKind::TimerFired { timer, fire_at })?;
    cancel_commands(draft, Some(step), "step timeout")?;
    let message = format!("step `{}` timed out", draft.step_plan(step).name);
    failure::fail_step(draft, step, TaskError::new(TaskErrorKind::Timeout, message))?;
    joins::enter_ready(draft)?;
    finish::finish_if_done(draft)
}

//! Timers that are due: timeouts of steps and of the whole run, and those of tasks that wait.

use noetl_playbook::graph::StepIndex;
use noetl_types::{TaskError, TaskErrorKind, Timestamp};

use super::draft::Draft;
use super::steer::withdraw;
use super::{Refused, Verdict, failure, finish, joins, parking};
use crate::event::{EventKind, Failed, Timeout, TimerId};

/// A timer is due.
pub(super) fn fire(draft: &mut Draft<'_>, timer: &TimerId) -> Result<Verdict, Refused> {
    draft.must_go_on()?;
    if draft.state.is_paused() {
        return Err(Refused::Paused);
    }
    match timer {
        TimerId::Start => {
            let fire_at = due(draft, timer, draft.state.start_time())?;
            let timer = Timeout::Start;
            draft.emit(EventKind::TimerFired { timer, fire_at })?;
            joins::enter_ready(draft)?;
            finish::finish(draft)?;
        }
        TimerId::Execution => {
            let fire_at = draft.state.run_deadline(draft.plan);
            let fire_at = due(draft, timer, fire_at)?;
            fire_run(draft, fire_at)?;
        }
        TimerId::Step { step, run } => {
            let index = draft.plan.find(step.as_str());
            let open = index.filter(|index| {
                let open = draft.state.run(*index);
                open.is_some_and(|open| open.number == *run)
            });
            let Some(index) = open else {
                return Err(Refused::UnknownTimer(timer.clone()));
            };
            let fire_at = draft.state.step_deadline(draft.plan, index);
            let fire_at = due(draft, timer, fire_at)?;
            let timeout = Timeout::Step {
                step: step.clone(),
                run: *run,
            };
            fire_step(draft, index, timeout, fire_at)?;
        }
        TimerId::Command { command, timer } => parking::fire(draft, *command, *timer)?,
    }
    Ok(Verdict::Accepted)
}

fn due(
    draft: &Draft<'_>,
    timer: &TimerId,
    fire_at: Option<Timestamp>,
) -> Result<Timestamp, Refused> {
    match fire_at {
        None => Err(Refused::UnknownTimer(timer.clone())),
        Some(fire_at) if fire_at > draft.now => Err(Refused::NotDue { fire_at }),
        Some(fire_at) => Ok(fire_at),
    }
}

/// A step is out of time: its commands are withdrawn, and it fails.
fn fire_step(
    draft: &mut Draft<'_>,
    step: StepIndex,
    timer: Timeout,
    fire_at: Timestamp,
) -> Result<(), Refused> {
    draft.emit(EventKind::TimerFired { timer, fire_at })?;
    withdraw(draft, Some(step), "step timeout")?;
    let message = format!("step `{}` was not done in time", draft.step(step).name);
    failure::fail(draft, step, TaskError::new(TaskErrorKind::Timeout, message))?;
    joins::enter_ready(draft)?;
    finish::finish(draft)
}

/// The run is out of time: all commands are withdrawn, and nothing can catch that.
fn fire_run(draft: &mut Draft<'_>, fire_at: Timestamp) -> Result<(), Refused> {
    let timer = Timeout::Execution;
    draft.emit(EventKind::TimerFired { timer, fire_at })?;
    withdraw(draft, None, "execution timeout")?;
    let failed = draft.state.failure.clone();
    let failed_steps = failed.iter().flat_map(|failure| &failure.steps);
    let failed_steps = failed_steps.map(|step| draft.name(*step)).collect();
    draft.emit(EventKind::PlaybookFailed(Box::new(Failed {
        error: TaskError::new(TaskErrorKind::Timeout, "the run was not done in time"),
        failed_steps,
    })))?;
    Ok(())
}

//! Open timers. Timers of steps and of the execution have no start events: they are derived from
//! the times of entry and the playbook. Timers of suspended tasks are in the log.

use noetl_playbook::graph::StepIndex;
use noetl_types::{Millis, Timestamp};

use super::ExecutionState;
use crate::event::TimerId;
use crate::plan::Plan;

/// Time of the final step after a timeout or a cancel, unless the playbook specifies it.
const DEFAULT_FINAL_STEP_TIMEOUT: Millis = Millis::from_minutes(5);

/// An open timer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingTimer {
    /// Id of the timer.
    pub id: TimerId,
    /// Time at which it fires.
    pub fire_at: Timestamp,
}

impl ExecutionState {
    /// Iterates over the open timers of the execution, of its active step passes and of its
    /// suspended tasks.
    pub fn pending_timers<'s>(&'s self, plan: &'s Plan) -> impl Iterator<Item = PendingTimer> + 's {
        let start =
            self.scheduled_start().map(|fire_at| PendingTimer { id: TimerId::Start, fire_at });
        let execution = self
            .execution_deadline(plan)
            .map(|fire_at| PendingTimer { id: TimerId::Execution, fire_at });
        let steps = self.active_passes().filter_map(move |(step, pass)| {
            Some(PendingTimer {
                fire_at: self.step_deadline(plan, step)?,
                id: TimerId::Step { step: plan.step(step).name.clone(), run: pass.number },
            })
        });
        let commands = self.suspended_tasks().filter_map(|(command, _, suspended)| {
            let open = suspended.timer?;
            let timer = open.timer;
            Some(PendingTimer { id: TimerId::Command { command, timer }, fire_at: open.fire_at })
        });
        let all = start.into_iter().chain(execution).chain(steps).chain(commands);
        all.filter(|_| !self.is_ended())
    }

    /// Scheduled start of the execution, if it is still ahead.
    pub fn scheduled_start(&self) -> Option<Timestamp> {
        self.start_event()?.start_at
    }

    /// Deadline of the execution, counted from its scheduled start. Once the final step is reached,
    /// the deadline of the end: a final step has time of its own.
    pub(crate) fn execution_deadline(&self, plan: &Plan) -> Option<Timestamp> {
        let start_record = self.start_record.as_ref()?;
        if start_record.started.start_at.is_some() {
            return None;
        }
        let by_timeout =
            plan.execution_timeout().map(|timeout| start_record.at.saturating_add(timeout));
        let Some(ending) = self.ending else {
            return by_timeout;
        };
        let timeout = plan.final_step_timeout();
        let by_default = ending.since.saturating_add(timeout.unwrap_or(DEFAULT_FINAL_STEP_TIMEOUT));
        if timeout.is_some() || self.interruption.is_some() {
            return Some(by_default);
        }
        by_timeout.map(|by_timeout| by_timeout.max(by_default))
    }

    /// Deadline of the active pass of a step.
    pub(crate) fn step_deadline(&self, plan: &Plan, step: StepIndex) -> Option<Timestamp> {
        let pass = self.active_pass(step)?;
        let step_plan = plan.step(step);
        let by_timeout = step_plan.timeout.map(|after| pass.entered_at.saturating_add(after));
        let by_deadline = step_plan.deadline.map(|after| pass.arrived_at.saturating_add(after));
        by_timeout.into_iter().chain(by_deadline).min()
    }
}

//! Timers that are open. Those of steps and of the run are not events of their own: what was entered
//! when, and what the playbook says, tells them all. Those of tasks that wait are in the log.

use noetl_playbook::graph::StepIndex;
use noetl_types::Timestamp;

use super::State;
use crate::event::TimerId;
use crate::plan::Plan;

/// A timer that is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timer {
    /// Which one.
    pub id: TimerId,
    /// When it is due.
    pub fire_at: Timestamp,
}

impl State {
    /// The timers that are open: of the run and its beginning, of each run of a step, and of each task that waits.
    pub fn timers<'s>(&'s self, plan: &'s Plan) -> impl Iterator<Item = Timer> + 's {
        let start = self.start_time().map(|fire_at| Timer {
            id: TimerId::Start,
            fire_at,
        });
        let whole = self.run_deadline(plan).map(|fire_at| Timer {
            id: TimerId::Execution,
            fire_at,
        });
        let steps = self.runs().filter_map(move |(step, run)| {
            Some(Timer {
                fire_at: self.step_deadline(plan, step)?,
                id: TimerId::Step {
                    step: plan.step(step).name.clone(),
                    run: run.number,
                },
            })
        });
        let commands = self.parked().filter_map(|(command, _, parked)| {
            let open = parked.timer?;
            let timer = open.timer;
            Some(Timer {
                id: TimerId::Command { command, timer },
                fire_at: open.fire_at,
            })
        });
        let all = start.into_iter().chain(whole).chain(steps).chain(commands);
        all.filter(|_| !self.is_ended())
    }

    /// When the run may enter its first step, while that is to come.
    pub fn start_time(&self) -> Option<Timestamp> {
        self.started()?.start_at
    }

    /// When the whole run is out of time: counted from when it may begin.
    pub(crate) fn run_deadline(&self, plan: &Plan) -> Option<Timestamp> {
        let beginning = self.beginning.as_ref()?;
        if beginning.started.start_at.is_some() {
            return None;
        }
        Some(beginning.at.saturating_add(plan.timeout()?))
    }

    /// When the run of a step is out of time.
    pub(crate) fn step_deadline(&self, plan: &Plan, step: StepIndex) -> Option<Timestamp> {
        let run = self.run(step)?;
        let facts = plan.step(step);
        let by_timeout = facts
            .timeout
            .map(|after| run.entered_at.saturating_add(after));
        let by_deadline = facts
            .deadline
            .map(|after| run.arrived_at.saturating_add(after));
        by_timeout.into_iter().chain(by_deadline).min()
    }
}

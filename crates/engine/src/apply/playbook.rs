//! Events of the run as a whole.

use std::sync::Arc;

use noetl_playbook::graph::StepIndex;
use noetl_types::{EventType, Timestamp};

use super::{Misfit, Now};
use crate::event::{Event, Started, Timeout};
use crate::state::layered::Layered;
use crate::state::{Arrival, Beginning, LeadEvent, Life, State};

impl State {
    pub(super) fn begin(&mut self, now: &Now<'_>, started: &Started) {
        self.life = Life::Running;
        self.beginning = Some(Arc::new(Beginning {
            started: started.clone(),
            at: now.event.time,
        }));
        let arrival = Arrival {
            from: None,
            event: LeadEvent::PlaybookStarted,
            event_id: now.event.event_id,
            output: None,
            error: None,
        };
        self.arrive(now, now.plan.entry(), arrival);
    }

    pub(super) fn pause(&mut self) {
        self.life = Life::Paused;
    }

    pub(super) fn resume(&mut self) {
        self.life = Life::Running;
        self.held = Layered::default();
    }

    pub(super) fn end(&mut self, event: &Event) -> Result<(), Misfit> {
        let status = event.kind.name().known().and_then(EventType::ends_as);
        let Some(status) = status else {
            return Err(Misfit::Contradiction("type"));
        };
        self.life = Life::Ended(status);
        self.held = Layered::default();
        Ok(())
    }

    pub(super) fn time_out(&mut self, now: &Now<'_>, timer: &Timeout) -> Result<(), Misfit> {
        match timer {
            Timeout::Start => self.come_due(now.event.time),
            Timeout::Execution => Ok(()),
            Timeout::Step { step, run } => {
                let step = self.legal_step(now, step)?;
                match self.run(step) {
                    Some(open) if open.number == *run => Ok(()),
                    Some(_) | None => Err(Misfit::Contradiction("run")),
                }
            }
        }
    }

    /// The time has come at which the run may enter its first step: all that counts from its
    /// beginning counts from now.
    fn come_due(&mut self, now: Timestamp) -> Result<(), Misfit> {
        let Some(beginning) = self.beginning.as_mut() else {
            return Err(Misfit::Contradiction("timer"));
        };
        let beginning = Arc::make_mut(beginning);
        if beginning.started.start_at.take().is_none() {
            return Err(Misfit::Contradiction("timer"));
        }
        beginning.at = now;
        let waiting: Vec<StepIndex> = self.waiting.iter().collect();
        for step in waiting {
            if let Some(waiting) = self.step_mut(step).waiting.as_mut() {
                waiting.since = now;
            }
        }
        Ok(())
    }
}

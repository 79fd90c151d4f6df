//! Applies events of the execution as a whole.

use std::sync::Arc;

use noetl_playbook::graph::StepIndex;
use noetl_types::{EventType, TaskError, TaskErrorKind, Timestamp};

use super::{AppliedEvent, ApplyErrorKind, Result};
use crate::event::{Event, ExecutionTimer, PlaybookStarted};
use crate::state::layered::LayeredMap;
use crate::state::{
    Arrival, ExecutionPhase, ExecutionState, Interruption, StartRecord, TriggerEvent,
    UncaughtFailure,
};

impl ExecutionState {
    pub(super) fn apply_started(&mut self, applied: &AppliedEvent<'_>, started: &PlaybookStarted) {
        self.phase = ExecutionPhase::Running;
        self.start_record =
            Some(Arc::new(StartRecord { started: started.clone(), at: applied.event.time }));
        let arrival = Arrival {
            from: None,
            event: TriggerEvent::PlaybookStarted,
            event_id: applied.event.event_id,
            output: None,
            error: None,
        };
        self.add_arrival(applied, applied.plan.entry_step(), arrival);
    }

    pub(super) fn apply_paused(&mut self) {
        self.phase = ExecutionPhase::Paused;
    }

    pub(super) fn apply_resumed(&mut self) {
        self.phase = ExecutionPhase::Running;
        self.deferred = LayeredMap::default();
    }

    pub(super) fn apply_ended(&mut self, event: &Event) -> Result {
        let status = event.kind.name().known_type().and_then(EventType::terminal_status);
        let Some(status) = status else {
            return Err(ApplyErrorKind::Contradiction("type"));
        };
        self.phase = ExecutionPhase::Ended(status);
        self.deferred = LayeredMap::default();
        Ok(())
    }

    pub(super) fn apply_timeout(
        &mut self,
        applied: &AppliedEvent<'_>,
        timer: &ExecutionTimer,
    ) -> Result {
        match timer {
            ExecutionTimer::Start => self.start_scheduled_execution(applied.event.time),
            ExecutionTimer::Execution => {
                self.interrupt(applied, Interruption::Timeout);
                Ok(())
            }
            ExecutionTimer::Step { step, run } => {
                let step = self.legal_step(applied, step)?;
                match self.active_pass(step) {
                    Some(pass) if pass.number == *run => Ok(()),
                    Some(_) | None => Err(ApplyErrorKind::Contradiction("run")),
                }
            }
        }
    }

    /// Stops the execution before it is done. A timeout during the end leaves the earlier reason.
    pub(super) fn interrupt(&mut self, applied: &AppliedEvent<'_>, interruption: Interruption) {
        let earlier = self.uncaught_failure.take();
        self.uncaught_failure = match (&interruption, earlier) {
            (Interruption::Timeout, Some(failure)) if self.ending.is_some() => Some(failure),
            (Interruption::Timeout, earlier) => {
                let steps = earlier.map(|failure| failure.steps.clone()).unwrap_or_default();
                let error = TaskError::new(TaskErrorKind::Timeout, "the execution timed out");
                Some(Arc::new(UncaughtFailure { error, steps }))
            }
            (Interruption::Cancel(_), earlier) => earlier,
        };
        self.interruption.get_or_insert(interruption);
        self.enter_final_step_if_done(applied);
    }

    /// Starts a scheduled execution. All times that are measured from its start are measured from
    /// now.
    fn start_scheduled_execution(&mut self, now: Timestamp) -> Result {
        let Some(start_record) = self.start_record.as_mut() else {
            return Err(ApplyErrorKind::Contradiction("timer"));
        };
        let start_record = Arc::make_mut(start_record);
        if start_record.started.start_at.take().is_none() {
            return Err(ApplyErrorKind::Contradiction("timer"));
        }
        start_record.at = now;
        let waiting_steps: Vec<StepIndex> = self.waiting_steps.iter().collect();
        for step in waiting_steps {
            if let Some(waiting) = self.step_state_mut(step).waiting.as_mut() {
                waiting.since = now;
            }
        }
        Ok(())
    }
}

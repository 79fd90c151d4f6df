//! The fold: applies events to the state.
//!
//! Total and pure. It evaluates nothing and decides nothing. A legal event changes the state, and
//! any other event is a typed error that leaves the state unchanged.

mod command;
mod playbook;
mod step;
mod suspended;

#[cfg(test)]
mod tests;

use noetl_playbook::graph::StepIndex;
use noetl_types::{CommandId, Seq, StepName};

use crate::event::{CommandRef, Event, EventKind};
use crate::plan::Plan;
use crate::state::{
    Command, CommandStage, ExecutionStage, ExecutionState, Interruption, StepStage, TransitionKind,
};

/// Result of applying a part of an event.
type Result<T = (), E = ApplyErrorKind> = std::result::Result<T, E>;

/// An event that is not valid for the state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {seq}: {misfit}")]
pub struct ApplyError {
    /// Seq of the event.
    pub seq: Seq,
    /// The violated rule.
    #[source]
    pub misfit: ApplyErrorKind,
}

/// Reason why an event is not valid for a state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyErrorKind {
    /// The event is out of order.
    #[error("expected event {expected} next")]
    OutOfOrder {
        /// Seq of the next event.
        expected: Seq,
    },
    /// Not legal in the stage of the execution.
    #[error("{act:?} is not legal while the execution is {life:?}")]
    IllegalForExecution {
        /// Kind of the transition.
        act: TransitionKind,
        /// Stage of the execution.
        life: ExecutionStage,
    },
    /// Not legal in the stage of its step.
    #[error("{act:?} is not legal while step `{step}` is {stage:?}")]
    IllegalForStep {
        /// Kind of the transition.
        act: TransitionKind,
        /// The step.
        step: StepName,
        /// The stage.
        stage: StepStage,
    },
    /// Not legal in the stage of its command.
    #[error("{act:?} is not legal while command {command} is {stage:?}")]
    IllegalForCommand {
        /// Kind of the transition.
        act: TransitionKind,
        /// The command.
        command: CommandId,
        /// The stage.
        stage: CommandStage,
    },
    /// The playbook has no such step.
    #[error("the playbook has no step `{0}`")]
    UnknownStep(StepName),
    /// The command is not open.
    #[error("no command {0} is open")]
    UnknownCommand(CommandId),
    /// A field contradicts the state.
    #[error("its {0} contradicts the log")]
    Contradiction(&'static str),
}

impl ExecutionState {
    /// Applies the next event of the execution.
    pub fn apply(&mut self, plan: &Plan, event: &Event) -> Result<(), ApplyError> {
        self.check_and_apply(plan, event)
            .map_err(|kind| ApplyError { seq: event.seq, misfit: kind })?;
        self.version = event.seq.into();
        Ok(())
    }

    fn check_and_apply(&mut self, plan: &Plan, event: &Event) -> Result {
        let expected = self.version.next_seq();
        if event.seq != expected {
            return Err(ApplyErrorKind::OutOfOrder { expected });
        }
        let (transition, stage) = (TransitionKind::from_event(&event.kind), self.execution_stage());
        if !transition.execution_stages().contains(&stage) {
            return Err(ApplyErrorKind::IllegalForExecution { act: transition, life: stage });
        }
        let applied = AppliedEvent { plan, event, transition };
        match &event.kind {
            EventKind::PlaybookStarted(started) => self.apply_started(&applied, started),
            EventKind::PlaybookPaused(_) => self.apply_paused(),
            EventKind::PlaybookResumed(_) => self.apply_resumed(),
            EventKind::PlaybookCancelRequested(control) => {
                self.interrupt(&applied, Interruption::Cancel(control.clone()));
            }
            EventKind::PlaybookCompleted { .. }
            | EventKind::PlaybookFailed(_)
            | EventKind::PlaybookCancelled(_) => self.apply_ended(event)?,
            EventKind::StepEntered(entered) => self.apply_step_entered(&applied, entered)?,
            EventKind::StepExited(exited) => self.apply_step_exited(&applied, exited)?,
            EventKind::StepSkipped(skipped) => self.apply_step_skipped(&applied, skipped)?,
            EventKind::CommandIssued(issued) => self.apply_command_issued(&applied, issued)?,
            EventKind::CommandClaimed(claimed) => self.apply_command_claimed(&applied, claimed)?,
            EventKind::CommandStarted { at, attempt } => {
                self.apply_command_started(&applied, at, *attempt)?;
            }
            EventKind::CommandHeartbeat { at, .. } => {
                self.legal_command(&applied, at).map(|_| ())?;
            }
            EventKind::CallDone(done) => self.apply_call_done(&applied, done)?,
            EventKind::CachedResultUsed(used) => self.apply_cached_result(&applied, used)?,
            EventKind::CallError(failed) => self.apply_call_error(&applied, failed)?,
            EventKind::CommandCompleted(at) => self.apply_command_closed(&applied, at)?,
            EventKind::CommandFailed(closed) => self.apply_command_closed(&applied, &closed.at)?,
            EventKind::CommandCancelled(closed) => {
                self.apply_command_cancelled(&applied, &closed.at)?;
            }
            EventKind::CommandExpired(expired) => self.apply_command_expired(&applied, expired)?,
            EventKind::LoopDone(done) => self.apply_loop_done(&applied, done)?,
            EventKind::TimerFired { timer, .. } => self.apply_timeout(&applied, timer)?,
            EventKind::TimerStarted(started) => self.apply_timer_started(&applied, started)?,
            EventKind::CommandTimerFired(fired) => self.apply_timer_fired(&applied, fired)?,
            EventKind::SignalReceived(signal) => self.apply_signal_received(&applied, signal)?,
            EventKind::CtxUpdated(updated) => self.apply_ctx_updated(&applied, updated)?,
            EventKind::ResultIgnored(_) | EventKind::Other(_) => {}
        }
        Ok(())
    }

    /// Returns the step of an event if the event is legal in its stage.
    fn legal_step(&self, applied: &AppliedEvent<'_>, name: &StepName) -> Result<StepIndex> {
        let step = applied.find_step(name)?;
        let stage = self.step_stage(step);
        if applied.transition.step_stages().contains(&stage) {
            return Ok(step);
        }
        Err(ApplyErrorKind::IllegalForStep { act: applied.transition, step: name.clone(), stage })
    }

    /// Returns the command of an event if the event is legal in its stage.
    fn legal_command(
        &mut self,
        applied: &AppliedEvent<'_>,
        at: &CommandRef,
    ) -> Result<&mut Command> {
        let step = self.legal_step(applied, &at.step)?;
        let Some(command) = self.commands.get(&at.command) else {
            return Err(ApplyErrorKind::UnknownCommand(at.command));
        };
        let stage = command.stage();
        if !applied.transition.command_stages().contains(&stage) {
            return Err(ApplyErrorKind::IllegalForCommand {
                act: applied.transition,
                command: at.command,
                stage,
            });
        }
        let position = (command.step, command.run, command.index, command.segment);
        if position != (step, at.run, at.index, at.segment) {
            return Err(ApplyErrorKind::Contradiction("step, run, index or segment"));
        }
        self.commands.get_mut(&at.command).ok_or(ApplyErrorKind::UnknownCommand(at.command))
    }
}

/// The event that is being applied.
struct AppliedEvent<'e> {
    plan: &'e Plan,
    event: &'e Event,
    transition: TransitionKind,
}

impl AppliedEvent<'_> {
    fn find_step(&self, name: &StepName) -> Result<StepIndex> {
        self.plan.find_step(name.as_str()).ok_or_else(|| ApplyErrorKind::UnknownStep(name.clone()))
    }
}

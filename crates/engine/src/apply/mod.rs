//! The fold: what each event does to the state.
//!
//! Total and pure. It evaluates nothing and decides nothing: an event that is legal where the state
//! is changes it, any other is a typed error that leaves it as it was.

mod command;
mod parked;
mod playbook;
mod step;

#[cfg(test)]
mod tests;

use noetl_playbook::graph::StepIndex;
use noetl_types::{CommandId, Seq, StepName};

use crate::event::{CommandAt, Event, EventKind};
use crate::plan::Plan;
use crate::state::{Act, Command, CommandStage, LifeStage, State, StepStage};

/// An event that does not fit the state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {seq}: {misfit}")]
pub struct ApplyError {
    /// Its place.
    pub seq: Seq,
    /// Why it does not fit.
    #[source]
    pub misfit: Misfit,
}

/// Why an event does not fit a state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// Not the event that comes next.
    #[error("event {expected} comes next")]
    OutOfOrder {
        /// The one that does.
        expected: Seq,
    },
    /// Not legal where the run is.
    #[error("{act:?} is not legal while the run is {life:?}")]
    Life {
        /// What it does.
        act: Act,
        /// Where the run is.
        life: LifeStage,
    },
    /// Not legal where its step is.
    #[error("{act:?} is not legal while step `{step}` is {stage:?}")]
    Step {
        /// What it does.
        act: Act,
        /// The step.
        step: StepName,
        /// Where it is.
        stage: StepStage,
    },
    /// Not legal where its command is.
    #[error("{act:?} is not legal while command {command} is {stage:?}")]
    Command {
        /// What it does.
        act: Act,
        /// The command.
        command: CommandId,
        /// Where it is.
        stage: CommandStage,
    },
    /// The playbook has no such step.
    #[error("the playbook has no step `{0}`")]
    UnknownStep(StepName),
    /// No such command is open.
    #[error("no command {0} is open")]
    UnknownCommand(CommandId),
    /// A field contradicts what is known.
    #[error("its {0} contradicts the log")]
    Contradiction(&'static str),
}

impl State {
    /// Takes the next event of the run.
    pub fn apply(&mut self, plan: &Plan, event: &Event) -> Result<(), ApplyError> {
        self.check_and_change(plan, event)
            .map_err(|misfit| ApplyError {
                seq: event.seq,
                misfit,
            })?;
        self.version = event.seq.into();
        Ok(())
    }

    fn check_and_change(&mut self, plan: &Plan, event: &Event) -> Result<(), Misfit> {
        let expected = self.version.next_seq();
        if event.seq != expected {
            return Err(Misfit::OutOfOrder { expected });
        }
        let (act, life) = (Act::of(&event.kind), self.life_stage());
        if !act.lives().contains(&life) {
            return Err(Misfit::Life { act, life });
        }
        let now = Now { plan, event, act };
        match &event.kind {
            EventKind::PlaybookStarted(started) => self.begin(&now, started),
            EventKind::PlaybookPaused(_) => self.pause(),
            EventKind::PlaybookResumed(_) => self.resume(),
            EventKind::PlaybookCompleted { .. }
            | EventKind::PlaybookFailed(_)
            | EventKind::PlaybookCancelled(_) => self.end(event)?,
            EventKind::StepEntered(entered) => self.enter(&now, entered)?,
            EventKind::StepExited(exited) => self.exit(&now, exited)?,
            EventKind::StepSkipped(skipped) => self.skip(&now, skipped)?,
            EventKind::CommandIssued(issued) => self.issue(&now, issued)?,
            EventKind::CommandClaimed(claimed) => self.claim(&now, claimed)?,
            EventKind::CommandStarted { at, attempt } => self.start_command(&now, at, *attempt)?,
            EventKind::CommandHeartbeat { at, .. } => self.open_command(&now, at).map(|_| ())?,
            EventKind::CallDone(done) => self.call_done(&now, done)?,
            EventKind::TakenOver(taken) => self.take_over(&now, taken)?,
            EventKind::CallError(failed) => self.call_error(&now, failed)?,
            EventKind::CommandCompleted(at) => self.close(&now, at)?,
            EventKind::CommandFailed(closed) => self.close(&now, &closed.at)?,
            EventKind::CommandCancelled(closed) => self.withdraw(&now, &closed.at)?,
            EventKind::CommandExpired(expired) => self.expire(&now, expired)?,
            EventKind::LoopDone(done) => self.finish_loop(&now, done)?,
            EventKind::TimerFired { timer, .. } => self.time_out(&now, timer)?,
            EventKind::TimerStarted(started) => self.start_timer(&now, started)?,
            EventKind::CommandTimerFired(fired) => self.fire_timer(&now, fired)?,
            EventKind::SignalReceived(signal) => self.receive(&now, signal)?,
            EventKind::CtxUpdated(updated) => self.write_ctx(&now, updated)?,
            EventKind::ResultIgnored(_) | EventKind::Other(_) => {}
        }
        Ok(())
    }

    /// The step of an event, if the event is legal where the step is.
    fn legal_step(&self, now: &Now<'_>, name: &StepName) -> Result<StepIndex, Misfit> {
        let step = now.find(name)?;
        let stage = self.step_stage(step);
        if now.act.steps().contains(&stage) {
            return Ok(step);
        }
        Err(Misfit::Step {
            act: now.act,
            step: name.clone(),
            stage,
        })
    }

    /// The command of an event, if the event is legal where the command is.
    fn open_command(&mut self, now: &Now<'_>, at: &CommandAt) -> Result<&mut Command, Misfit> {
        let step = self.legal_step(now, &at.step)?;
        let Some(command) = self.commands.get(&at.command) else {
            return Err(Misfit::UnknownCommand(at.command));
        };
        let stage = command.stage();
        if !now.act.commands().contains(&stage) {
            return Err(Misfit::Command {
                act: now.act,
                command: at.command,
                stage,
            });
        }
        let same = (command.step, command.run, command.index, command.segment);
        if same != (step, at.run, at.index, at.segment) {
            return Err(Misfit::Contradiction("step, run, index or segment"));
        }
        self.commands
            .get_mut(&at.command)
            .ok_or(Misfit::UnknownCommand(at.command))
    }
}

/// The event that is being applied.
struct Now<'e> {
    plan: &'e Plan,
    event: &'e Event,
    act: Act,
}

impl Now<'_> {
    fn find(&self, name: &StepName) -> Result<StepIndex, Misfit> {
        self.plan
            .find(name.as_str())
            .ok_or_else(|| Misfit::UnknownStep(name.clone()))
    }
}

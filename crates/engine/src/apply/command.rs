//! Events of commands and calls.

use noetl_types::CommandId;

use super::{Misfit, Now};
use crate::ctx::Writes;
use crate::event::{
    CallDone, CallError, CallOutcome, CommandAt, CommandClaimed, CommandExpired, CommandIssued,
};
use crate::state::{CallResult, Closing, Command, CommandPhase, Outcome, Output, Run, State, Work};

impl State {
    pub(super) fn issue(&mut self, now: &Now<'_>, issued: &CommandIssued) -> Result<(), Misfit> {
        let step = self.legal_step(now, &issued.step)?;
        let run = self.run(step).ok_or(Misfit::Contradiction("run"))?;
        if run.number != issued.run {
            return Err(Misfit::Contradiction("run"));
        }
        let fits = match (&run.work, issued.index) {
            (Work::Single { outcome }, None) => outcome.is_none() && run.open == 0,
            (Work::Loop(looping), Some(index)) => {
                index == looping.next && index < looping.iterations
            }
            (Work::Single { .. }, Some(_)) | (Work::Loop(_), None) => false,
        };
        if !fits {
            return Err(Misfit::Contradiction("index"));
        }
        let command = Command {
            step,
            run: issued.run,
            index: issued.index,
            issued: now.event.seq,
            max_attempts: issued.max_attempts,
            calls: 0,
            phase: CommandPhase::Pending {
                attempt: 1,
                not_before: None,
            },
        };
        self.commands
            .insert(CommandId::from(now.event.event_id), command);
        if let Some(run) = self.run_mut(step) {
            run.open += 1;
            if let Work::Loop(looping) = &mut run.work {
                looping.next += 1;
            }
        }
        Ok(())
    }

    pub(super) fn claim(&mut self, now: &Now<'_>, claimed: &CommandClaimed) -> Result<(), Misfit> {
        let command = self.open_command(now, &claimed.at)?;
        let CommandPhase::Pending { attempt, .. } = command.phase else {
            return Err(Misfit::Contradiction("attempt"));
        };
        if attempt != claimed.attempt {
            return Err(Misfit::Contradiction("attempt"));
        }
        command.phase = CommandPhase::Leased {
            attempt,
            worker: claimed.worker.clone(),
            is_running: false,
        };
        Ok(())
    }

    pub(super) fn start_command(
        &mut self,
        now: &Now<'_>,
        at: &CommandAt,
        begun: u32,
    ) -> Result<(), Misfit> {
        let command = self.open_command(now, at)?;
        match &mut command.phase {
            CommandPhase::Leased {
                attempt,
                is_running,
                ..
            } if *attempt == begun => {
                *is_running = true;
                Ok(())
            }
            CommandPhase::Leased { .. }
            | CommandPhase::Pending { .. }
            | CommandPhase::Spent
            | CommandPhase::Called(_) => Err(Misfit::Contradiction("attempt")),
        }
    }

    pub(super) fn expire(&mut self, now: &Now<'_>, expired: &CommandExpired) -> Result<(), Misfit> {
        let command = self.open_command(now, &expired.at)?;
        let attempt = match &command.phase {
            CommandPhase::Leased { attempt, .. } if *attempt == expired.attempt => *attempt,
            CommandPhase::Leased { .. }
            | CommandPhase::Pending { .. }
            | CommandPhase::Spent
            | CommandPhase::Called(_) => return Err(Misfit::Contradiction("attempt")),
        };
        command.phase = match expired.not_before {
            None => CommandPhase::Spent,
            Some(not_before) => CommandPhase::Pending {
                attempt: attempt.saturating_add(1),
                not_before: Some(not_before),
            },
        };
        Ok(())
    }

    pub(super) fn call_done(&mut self, now: &Now<'_>, done: &CallDone) -> Result<(), Misfit> {
        let command = self.open_command(now, &done.at)?;
        let output = Output {
            data: done.outcome.data.clone(),
            labels: done.labels.clone(),
        };
        command.calls += 1;
        command.phase = called(&done.outcome, output, None);
        Ok(())
    }

    pub(super) fn call_error(&mut self, now: &Now<'_>, failed: &CallError) -> Result<(), Misfit> {
        let command = self.open_command(now, &failed.at)?;
        command.calls += 1;
        if failed.retried.is_none() {
            let output = failed.outcome.data.clone().into();
            command.phase = called(&failed.outcome, output, Some(failed.error.clone()));
        }
        Ok(())
    }

    /// Closes a command whose tasks are done.
    pub(super) fn close(&mut self, now: &Now<'_>, at: &CommandAt) -> Result<(), Misfit> {
        self.open_command(now, at)?;
        let Some(command) = self.commands.remove(&at.command) else {
            return Err(Misfit::UnknownCommand(at.command));
        };
        let CommandPhase::Called(result) = command.phase else {
            return Err(Misfit::Contradiction("outcome"));
        };
        let writes = Writes::of_report(&result.set);
        if let Some(run) = self.run_mut(command.step) {
            run.open = run.open.saturating_sub(1);
            run.closed.insert(at.command, command.index.unwrap_or(0));
            run.write(&writes.step, &writes.iter);
            keep_outcome(run, command.index, result.outcome);
        }
        if self.is_paused() {
            let closing = Closing {
                step: command.step,
                index: command.index,
                ctx: writes.ctx,
            };
            self.held.insert(now.event.seq, closing);
        }
        Ok(())
    }

    /// Closes a command that is no longer wanted.
    pub(super) fn withdraw(&mut self, now: &Now<'_>, at: &CommandAt) -> Result<(), Misfit> {
        self.open_command(now, at)?;
        if let Some(command) = self.commands.remove(&at.command)
            && let Some(run) = self.run_mut(command.step)
        {
            run.open = run.open.saturating_sub(1);
        }
        Ok(())
    }

    fn run_mut(&mut self, step: noetl_playbook::graph::StepIndex) -> Option<&mut Run> {
        self.step_mut(step).run.as_mut()
    }
}

fn called(
    outcome: &CallOutcome,
    output: Output,
    error: Option<noetl_types::TaskError>,
) -> CommandPhase {
    CommandPhase::Called(Box::new(CallResult {
        outcome: Outcome {
            output,
            error,
            attempt: outcome.attempt,
            duration: outcome.duration(),
        },
        set: outcome.set.clone(),
    }))
}

fn keep_outcome(run: &mut Run, index: Option<u32>, result: Outcome) {
    match (&mut run.work, index) {
        (Work::Single { outcome }, _) => *outcome = Some(result),
        (Work::Loop(looping), Some(index)) => match result.error {
            None => looping.results.insert(index, result.output.data),
            Some(error) => {
                looping.first_failed.get_or_insert(index);
                looping.errors.insert(index, error);
            }
        },
        (Work::Loop(_), None) => {}
    }
}

//! Events of commands and calls.

use noetl_playbook::carried::with_data;
use noetl_playbook::shift::Onward;
use noetl_types::{CommandId, Millis};

use super::{Misfit, Now};
use crate::ctx::Writes;
use crate::event::{
    CallDone, CallError, CallOutcome, CommandAt, CommandClaimed, CommandExpired, CommandIssued,
    ExpiryReason, TakenOver,
};
use crate::payload::Data;
use crate::state::{
    CallResult, ClosedFrame, Closing, Command, CommandPhase, Outcome, Output, Parked, RelayState,
    Retries, Run, State, Work,
};

impl State {
    pub(super) fn issue(&mut self, now: &Now<'_>, issued: &CommandIssued) -> Result<(), Misfit> {
        let step = self.legal_step(now, &issued.step)?;
        let run = self.run(step).ok_or(Misfit::Contradiction("run"))?;
        if run.number != issued.run {
            return Err(Misfit::Contradiction("run"));
        }
        let relay = run.relay(issued.index);
        let fits = match (&run.work, issued.index) {
            (Work::Single { outcome, .. }, None) => outcome.is_none() && run.open == 0,
            (Work::Loop(looping), Some(index)) => {
                relay.is_some() || (index == looping.next && index < looping.iterations)
            }
            (Work::Cursor(cursor), Some(frame)) => {
                let taken = run.open.saturating_add(cursor.ended);
                frame == cursor.next && taken < cursor.terms.chains
            }
            (Work::Single { .. }, Some(_)) | (Work::Loop(_) | Work::Cursor(_), None) => false,
        };
        if !fits {
            return Err(Misfit::Contradiction("index"));
        }
        if issued.frame.is_some() != matches!(run.work, Work::Cursor(_)) {
            return Err(Misfit::Contradiction("frame"));
        }
        let goes_on = match (relay, issued.segment) {
            (None, None | Some(0)) => false,
            (Some(relay), Some(segment)) if relay.is_pending && segment == relay.segment + 1 => {
                true
            }
            (None | Some(_), _) => return Err(Misfit::Contradiction("segment")),
        };
        let command = Command {
            step,
            run: issued.run,
            index: issued.index,
            segment: issued.segment,
            is_on_server: issued.parked.is_some(),
            issued: now.event.seq,
            max_attempts: issued.max_attempts,
            calls: 0,
            retried: 0,
            phase: match &issued.parked {
                Some(park) => {
                    let parked = Parked::new(park.clone(), now.event.time);
                    CommandPhase::Parked(Box::new(parked))
                }
                None => CommandPhase::Pending {
                    attempt: 1,
                    not_before: issued.not_before,
                },
            },
        };
        self.commands
            .insert(CommandId::from(now.event.event_id), command);
        if let Some(run) = self.run_mut(step) {
            run.open += 1;
            if goes_on {
                run.relay_is_issued(issued.index);
                return Ok(());
            }
            match &mut run.work {
                Work::Single { .. } => {}
                Work::Loop(looping) => looping.next += 1,
                Work::Cursor(cursor) => cursor.next = cursor.next.saturating_add(1),
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
            retries: None,
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
            | CommandPhase::Parked(_)
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
            | CommandPhase::Parked(_)
            | CommandPhase::Spent
            | CommandPhase::Called(_) => return Err(Misfit::Contradiction("attempt")),
        };
        if expired.reason == ExpiryReason::Retry {
            command.retried = command.retried.saturating_add(1);
        }
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
        let step = self.open_command(now, &done.at)?.step;
        let is_frame = self
            .run(step)
            .is_some_and(|run| matches!(run.work, Work::Cursor(_)));
        if is_frame && done.outcome.frame.is_none() {
            return Err(Misfit::Contradiction("rows"));
        }
        let command = self.open_command(now, &done.at)?;
        let output = Output {
            data: done.outcome.data.clone(),
            labels: done.labels.clone(),
        };
        command.calls += 1;
        command.phase = called(&done.outcome, output, None, done.onward.clone());
        Ok(())
    }

    pub(super) fn call_error(&mut self, now: &Now<'_>, failed: &CallError) -> Result<(), Misfit> {
        let command = self.open_command(now, &failed.at)?;
        command.calls += 1;
        let Some(retried) = &failed.retried else {
            let output = failed.outcome.data.clone().into();
            command.phase = called(&failed.outcome, output, Some(failed.error.clone()), None);
            return Ok(());
        };
        if let CommandPhase::Leased { retries, .. } = &mut command.phase {
            let told = retries.as_ref().map_or(0, |known| known.told);
            *retries = Some(Box::new(Retries {
                told: told.saturating_add(1),
                failed_at: now.event.time,
                next: failed.outcome.attempt.saturating_add(1),
                next_at: now.event.time.saturating_add(retried.retry_in),
            }));
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
            run.write(&writes.step, &writes.iter);
            match result.onward.clone() {
                Some(onward) => {
                    let not_before = (onward.delay != Millis::ZERO)
                        .then(|| now.event.time.saturating_add(onward.delay));
                    run.closed.insert(at.command, command.index.unwrap_or(0));
                    run.hand_on(
                        command.index,
                        RelayState {
                            segment: command.segment.unwrap_or_default(),
                            onward,
                            results: result.outcome.output.data,
                            not_before,
                            is_pending: true,
                        },
                    );
                }
                None => keep_outcome(run, at.command, command.index, *result),
            }
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

    /// Takes an earlier result over in place of a command.
    pub(super) fn take_over(&mut self, now: &Now<'_>, taken: &TakenOver) -> Result<(), Misfit> {
        let step = self.legal_step(now, &taken.step)?;
        let run = self.run(step).ok_or(Misfit::Contradiction("run"))?;
        if run.number != taken.run {
            return Err(Misfit::Contradiction("run"));
        }
        let is_fresh = matches!(
            run.work,
            Work::Single {
                outcome: None,
                relay: None
            }
        );
        if run.open > 0 || !is_fresh {
            return Err(Misfit::Contradiction("outcome"));
        }
        let is_loop = now.plan.step(step).looping.is_some();
        let data = match &taken.result.data {
            // What comes out of a loop is also called `data`.
            Data::Inline(value) if is_loop => Data::Inline(with_data(value.clone())),
            other => other.clone(),
        };
        let output = Output {
            data,
            labels: taken.result.labels.clone(),
        };
        if let Some(run) = self.run_mut(step) {
            let outcome = Some(Outcome {
                output,
                ..Outcome::went_well()
            });
            run.work = Work::Single {
                outcome,
                relay: None,
            };
        }
        Ok(())
    }

    pub(super) fn run_mut(&mut self, step: noetl_playbook::graph::StepIndex) -> Option<&mut Run> {
        self.step_mut(step).run.as_mut()
    }
}

fn called(
    outcome: &CallOutcome,
    output: Output,
    error: Option<noetl_types::TaskError>,
    onward: Option<Onward>,
) -> CommandPhase {
    CommandPhase::Called(Box::new(CallResult {
        outcome: Outcome {
            output,
            error,
            attempt: outcome.attempt,
            duration: outcome.duration(),
        },
        set: outcome.set.clone(),
        frame: outcome.frame.clone(),
        onward,
    }))
}

fn keep_outcome(run: &mut Run, command: CommandId, index: Option<u32>, called: CallResult) {
    let result = called.outcome;
    if !matches!(run.work, Work::Cursor(_)) {
        run.closed.insert(command, index.unwrap_or(0));
    }
    match (&mut run.work, index) {
        (Work::Single { outcome, relay }, _) => {
            *outcome = Some(result);
            *relay = None;
        }
        (Work::Cursor(cursor), frame) => cursor.close(ClosedFrame {
            command,
            frame: frame.unwrap_or(0),
            error: result.error,
            report: called.frame,
            took: result.duration,
        }),
        (Work::Loop(looping), Some(index)) => {
            looping.relays.remove(&index);
            match result.error {
                None => looping.results.insert(index, result.output.data),
                Some(error) => {
                    looping.first_failed.get_or_insert(index);
                    looping.errors.insert(index, error);
                }
            }
        }
        (Work::Loop(_), None) => {}
    }
}

//! Events of commands and calls.

use noetl_playbook::command_context::add_data_alias;
use noetl_playbook::command_machine::Continuation;
use noetl_types::{CommandId, Millis};

use super::{AppliedEvent, ApplyErrorKind, Result};
use crate::ctx::SetWrites;
use crate::event::{
    CachedResultUsed, CallDone, CallError, CallOutcome, CommandClaimed, CommandExpired,
    CommandIssued, CommandRef, ExpiryReason,
};
use crate::payload::EventData;
use crate::state::{
    CallResult, ClosedCommand, ClosedFrame, Command, CommandOutcome, CommandPhase, ExecutionState,
    ReportedRetries, SplitPipelineState, StepOutput, StepPass, StepWork, SuspendedTask,
};

impl ExecutionState {
    pub(super) fn apply_command_issued(
        &mut self,
        applied: &AppliedEvent<'_>,
        issued: &CommandIssued,
    ) -> Result {
        let step = self.legal_step(applied, &issued.step)?;
        let pass = self.active_pass(step).ok_or(ApplyErrorKind::Contradiction("run"))?;
        if pass.number != issued.run {
            return Err(ApplyErrorKind::Contradiction("run"));
        }
        let pipeline = pass.pipeline_state(issued.index);
        let fits = match (&pass.work, issued.index) {
            (StepWork::Single { outcome, .. }, None) => outcome.is_none() && pass.open == 0,
            (StepWork::Loop(looping), Some(index)) => {
                pipeline.is_some() || (index == looping.next && index < looping.iterations)
            }
            (StepWork::Cursor(cursor), Some(frame)) => {
                let used_chains = pass.open.saturating_add(cursor.ended);
                frame == cursor.next && used_chains < cursor.terms.chains
            }
            (StepWork::Single { .. }, Some(_))
            | (StepWork::Loop(_) | StepWork::Cursor(_), None) => false,
        };
        if !fits {
            return Err(ApplyErrorKind::Contradiction("index"));
        }
        if issued.frame.is_some() != matches!(pass.work, StepWork::Cursor(_)) {
            return Err(ApplyErrorKind::Contradiction("frame"));
        }
        let is_continuation = continues_pipeline(pipeline, issued.segment)?;
        let command = Command {
            step,
            run: issued.run,
            index: issued.index,
            segment: issued.segment,
            is_on_server: issued.suspension.is_some(),
            issued: applied.event.seq,
            max_attempts: issued.max_attempts,
            calls: 0,
            retried: 0,
            phase: match &issued.suspension {
                Some(suspension) => {
                    let suspended = SuspendedTask::new(suspension.clone(), applied.event.time);
                    CommandPhase::Suspended(Box::new(suspended))
                }
                None => CommandPhase::Pending { attempt: 1, not_before: issued.not_before },
            },
        };
        self.commands.insert(CommandId::from(applied.event.event_id), command);
        if let Some(pass) = self.active_pass_mut(step) {
            pass.open += 1;
            if is_continuation {
                pass.mark_segment_issued(issued.index);
                return Ok(());
            }
            match &mut pass.work {
                StepWork::Single { .. } => {}
                StepWork::Loop(looping) => looping.next += 1,
                StepWork::Cursor(cursor) => cursor.next = cursor.next.saturating_add(1),
            }
        }
        Ok(())
    }

    pub(super) fn apply_command_claimed(
        &mut self,
        applied: &AppliedEvent<'_>,
        claimed: &CommandClaimed,
    ) -> Result {
        let command = self.legal_command(applied, &claimed.at)?;
        let CommandPhase::Pending { attempt, .. } = command.phase else {
            return Err(ApplyErrorKind::Contradiction("attempt"));
        };
        if attempt != claimed.attempt {
            return Err(ApplyErrorKind::Contradiction("attempt"));
        }
        command.phase = CommandPhase::Leased {
            attempt,
            worker: claimed.worker.clone(),
            is_running: false,
            retries: None,
        };
        Ok(())
    }

    pub(super) fn apply_command_started(
        &mut self,
        applied: &AppliedEvent<'_>,
        at: &CommandRef,
        started_attempt: u32,
    ) -> Result {
        let command = self.legal_command(applied, at)?;
        match &mut command.phase {
            CommandPhase::Leased { attempt, is_running, .. } if *attempt == started_attempt => {
                *is_running = true;
                Ok(())
            }
            CommandPhase::Leased { .. }
            | CommandPhase::Pending { .. }
            | CommandPhase::Suspended(_)
            | CommandPhase::Spent
            | CommandPhase::Called(_) => Err(ApplyErrorKind::Contradiction("attempt")),
        }
    }

    pub(super) fn apply_command_expired(
        &mut self,
        applied: &AppliedEvent<'_>,
        expired: &CommandExpired,
    ) -> Result {
        let command = self.legal_command(applied, &expired.at)?;
        let attempt = match &command.phase {
            CommandPhase::Leased { attempt, .. } if *attempt == expired.attempt => *attempt,
            CommandPhase::Leased { .. }
            | CommandPhase::Pending { .. }
            | CommandPhase::Suspended(_)
            | CommandPhase::Spent
            | CommandPhase::Called(_) => return Err(ApplyErrorKind::Contradiction("attempt")),
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

    pub(super) fn apply_call_done(
        &mut self,
        applied: &AppliedEvent<'_>,
        done: &CallDone,
    ) -> Result {
        let step = self.legal_command(applied, &done.at)?.step;
        let is_frame =
            self.active_pass(step).is_some_and(|pass| matches!(pass.work, StepWork::Cursor(_)));
        if is_frame && done.outcome.frame.is_none() {
            return Err(ApplyErrorKind::Contradiction("rows"));
        }
        let command = self.legal_command(applied, &done.at)?;
        let output = StepOutput { data: done.outcome.data.clone(), labels: done.labels.clone() };
        command.calls += 1;
        command.phase = called_phase(&done.outcome, output, None, done.continuation.clone());
        Ok(())
    }

    pub(super) fn apply_call_error(
        &mut self,
        applied: &AppliedEvent<'_>,
        failed: &CallError,
    ) -> Result {
        let command = self.legal_command(applied, &failed.at)?;
        command.calls += 1;
        let Some(retried) = &failed.retried else {
            let output = failed.outcome.data.clone().into();
            command.phase = called_phase(&failed.outcome, output, Some(failed.error.clone()), None);
            return Ok(());
        };
        if let CommandPhase::Leased { retries, .. } = &mut command.phase {
            let count = retries.as_ref().map_or(0, |reported| reported.count);
            *retries = Some(Box::new(ReportedRetries {
                count: count.saturating_add(1),
                failed_at: applied.event.time,
                next: failed.outcome.attempt.saturating_add(1),
                next_at: applied.event.time.saturating_add(retried.retry_in),
            }));
        }
        Ok(())
    }

    /// Closes a command whose tasks have ended.
    pub(super) fn apply_command_closed(
        &mut self,
        applied: &AppliedEvent<'_>,
        at: &CommandRef,
    ) -> Result {
        self.legal_command(applied, at)?;
        let Some(command) = self.commands.remove(&at.command) else {
            return Err(ApplyErrorKind::UnknownCommand(at.command));
        };
        let CommandPhase::Called(result) = command.phase else {
            return Err(ApplyErrorKind::Contradiction("outcome"));
        };
        let writes = SetWrites::from_report(&result.set);
        if let Some(pass) = self.active_pass_mut(command.step) {
            pass.open = pass.open.saturating_sub(1);
            pass.apply_writes(&writes.step, &writes.iter);
            match result.onward.clone() {
                Some(continuation) => {
                    let not_before = (continuation.delay != Millis::ZERO)
                        .then(|| applied.event.time.saturating_add(continuation.delay));
                    pass.closed.insert(at.command, command.index.unwrap_or(0));
                    pass.set_pipeline_state(
                        command.index,
                        SplitPipelineState {
                            segment: command.segment.unwrap_or_default(),
                            onward: continuation,
                            results: result.outcome.output.data,
                            not_before,
                            is_pending: true,
                        },
                    );
                }
                None => store_outcome(pass, at.command, command.index, *result),
            }
        }
        if self.is_paused() {
            let closed =
                ClosedCommand { step: command.step, index: command.index, ctx: writes.ctx };
            self.deferred.insert(applied.event.seq, closed);
        }
        Ok(())
    }

    /// Closes a command that was cancelled.
    pub(super) fn apply_command_cancelled(
        &mut self,
        applied: &AppliedEvent<'_>,
        at: &CommandRef,
    ) -> Result {
        self.legal_command(applied, at)?;
        if let Some(command) = self.commands.remove(&at.command)
            && let Some(pass) = self.active_pass_mut(command.step)
        {
            pass.open = pass.open.saturating_sub(1);
        }
        Ok(())
    }

    /// Uses a cached result in place of a command.
    pub(super) fn apply_cached_result(
        &mut self,
        applied: &AppliedEvent<'_>,
        used: &CachedResultUsed,
    ) -> Result {
        let step = self.legal_step(applied, &used.step)?;
        let pass = self.active_pass(step).ok_or(ApplyErrorKind::Contradiction("run"))?;
        if pass.number != used.run {
            return Err(ApplyErrorKind::Contradiction("run"));
        }
        let is_fresh = matches!(pass.work, StepWork::Single { outcome: None, relay: None });
        if pass.open > 0 || !is_fresh {
            return Err(ApplyErrorKind::Contradiction("outcome"));
        }
        let is_loop = applied.plan.step(step).loop_plan.is_some();
        let data = match &used.result.data {
            // The result of a loop is also available as `data`.
            EventData::Inline(value) if is_loop => EventData::Inline(add_data_alias(value.clone())),
            other => other.clone(),
        };
        let output = StepOutput { data, labels: used.result.labels.clone() };
        if let Some(pass) = self.active_pass_mut(step) {
            let outcome = Some(CommandOutcome { output, ..CommandOutcome::empty_success() });
            pass.work = StepWork::Single { outcome, relay: None };
        }
        Ok(())
    }

    pub(super) fn active_pass_mut(
        &mut self,
        step: noetl_playbook::graph::StepIndex,
    ) -> Option<&mut StepPass> {
        self.step_state_mut(step).run.as_mut()
    }
}

/// Returns true if a command is the next segment of a split pipeline, and false if it is the first
/// segment or the only one.
fn continues_pipeline(pipeline: Option<&SplitPipelineState>, segment: Option<u32>) -> Result<bool> {
    match (pipeline, segment) {
        (None, None | Some(0)) => Ok(false),
        (Some(pipeline), Some(segment))
            if pipeline.is_pending && segment == pipeline.segment + 1 =>
        {
            Ok(true)
        }
        (None | Some(_), _) => Err(ApplyErrorKind::Contradiction("segment")),
    }
}

fn called_phase(
    outcome: &CallOutcome,
    output: StepOutput,
    error: Option<noetl_types::TaskError>,
    continuation: Option<Continuation>,
) -> CommandPhase {
    CommandPhase::Called(Box::new(CallResult {
        outcome: CommandOutcome {
            output,
            error,
            attempt: outcome.attempt,
            duration: outcome.duration(),
        },
        set: outcome.set.clone(),
        frame: outcome.frame.clone(),
        onward: continuation,
    }))
}

fn store_outcome(
    pass: &mut StepPass,
    command: CommandId,
    index: Option<u32>,
    call_result: CallResult,
) {
    let result = call_result.outcome;
    if !matches!(pass.work, StepWork::Cursor(_)) {
        pass.closed.insert(command, index.unwrap_or(0));
    }
    match (&mut pass.work, index) {
        (StepWork::Single { outcome, relay }, _) => {
            *outcome = Some(result);
            *relay = None;
        }
        (StepWork::Cursor(cursor), frame) => cursor.close(ClosedFrame {
            command,
            frame: frame.unwrap_or(0),
            error: result.error,
            report: call_result.frame,
            duration: result.duration,
        }),
        (StepWork::Loop(looping), Some(index)) => {
            looping.relays.remove(&index);
            match result.error {
                None => looping.results.insert(index, result.output.data),
                Some(error) => {
                    looping.first_failed.get_or_insert(index);
                    looping.errors.insert(index, error);
                }
            }
        }
        (StepWork::Loop(_), None) => {}
    }
}

//! Applies events of steps.

use std::sync::Arc;

use noetl_playbook::command_context::add_data_alias;
use noetl_playbook::graph::StepIndex;
use noetl_types::{ExecutionStatus, Json, StepName, TaskError, TaskErrorKind};

use super::{AppliedEvent, ApplyErrorKind, Result};
use crate::event::{
    ControlInfo, CtxUpdated, LoopDone, LoopEntered, SkipReason, StepEnd, StepEntered, StepExited,
    StepSkipped,
};
use crate::payload::EventData;
use crate::state::layered::LayeredMap;
use crate::state::{
    Arrival, CommandOutcome, CursorState, Ending, ExecutionState, Interruption, LastPass,
    LoopState, PendingArrivals, RetainedOutput, StepPass, StepState, StepStatus, StepWork,
    TriggerEvent, UncaughtFailure,
};

impl ExecutionState {
    /// Adds an arrival at a step.
    pub(super) fn add_arrival(
        &mut self,
        applied: &AppliedEvent<'_>,
        target: StepIndex,
        arrival: Arrival,
    ) {
        let order = self.arrival_count;
        self.arrival_count += 1;
        self.active.insert(target);
        self.waiting_steps.insert(target);
        let step = self.step_state_mut(target);
        let source = arrival.from;
        let waiting = step.waiting.get_or_insert_with(|| PendingArrivals {
            sources: Vec::new(),
            order,
            since: applied.event.time,
            last: arrival.clone(),
        });
        waiting.last = arrival;
        if let Some(source) = source
            && !waiting.sources.contains(&source)
        {
            waiting.sources.push(source);
        }
    }

    /// Resolves the targets of a step. An undeclared `end` is not a step and is omitted.
    fn resolve_targets(applied: &AppliedEvent<'_>, next: &[StepName]) -> Result<Vec<StepIndex>> {
        let declared =
            next.iter().filter(|name| *name != "end" || applied.plan.find_step("end").is_some());
        declared.map(|name| applied.find_step(name)).collect()
    }

    pub(super) fn apply_step_entered(
        &mut self,
        applied: &AppliedEvent<'_>,
        entered: &StepEntered,
    ) -> Result {
        let index = self.legal_step(applied, &entered.step)?;
        let step = self.step_state_mut(index);
        if entered.run != step.runs.saturating_add(1) {
            return Err(ApplyErrorKind::Contradiction("run"));
        }
        let Some(waiting) = step.waiting.take() else {
            return Err(ApplyErrorKind::Contradiction("arrivals"));
        };
        step.runs = entered.run;
        step.passes = step.passes.saturating_add(1);
        step.run = Some(StepPass {
            number: entered.run,
            entered: applied.event.event_id,
            entered_at: applied.event.time,
            arrived_at: waiting.since,
            arrival: waiting.last,
            priority: entered.priority,
            slot: entered.slot.clone(),
            cache: entered.cache,
            variables: Json::empty_map(),
            iter: Json::empty_map(),
            open: 0,
            closed: LayeredMap::default(),
            work: match (&entered.looping, &entered.cursor) {
                (None, None) => StepWork::Single { outcome: None, relay: None },
                (Some(looping), _) => StepWork::Loop(new_loop_state(looping)),
                (None, Some(cursor)) => StepWork::Cursor(Box::new(CursorState::new(cursor.terms))),
            },
        });
        self.waiting_steps.remove(index);
        self.undecided.remove(index);
        Ok(())
    }

    pub(super) fn apply_loop_done(
        &mut self,
        applied: &AppliedEvent<'_>,
        done: &LoopDone,
    ) -> Result {
        let index = self.legal_step(applied, &done.step)?;
        let pass = self.active_pass(index).ok_or(ApplyErrorKind::Contradiction("run"))?;
        if pass.number != done.run {
            return Err(ApplyErrorKind::Contradiction("run"));
        }
        let is_complete = match &pass.work {
            StepWork::Single { .. } => false,
            StepWork::Loop(looping) => looping.is_complete(),
            StepWork::Cursor(cursor) => cursor.is_complete() && pass.open == 0,
        };
        if !is_complete {
            return Err(ApplyErrorKind::Contradiction("loop"));
        }
        match self.step_state_mut(index).run.as_mut().map(|pass| &mut pass.work) {
            Some(StepWork::Loop(looping)) => looping.is_done = true,
            Some(StepWork::Cursor(cursor)) => cursor.is_done = true,
            Some(StepWork::Single { .. }) | None => {}
        }
        Ok(())
    }

    pub(super) fn apply_step_exited(
        &mut self,
        applied: &AppliedEvent<'_>,
        exited: &StepExited,
    ) -> Result {
        let index = self.legal_step(applied, &exited.step)?;
        let targets = Self::resolve_targets(applied, &exited.next)?;
        let pass = self.active_pass(index).ok_or(ApplyErrorKind::Contradiction("run"))?;
        let is_loop = applied.plan.step(index).loop_plan.is_some();
        let trigger = exit_trigger(pass, exited, is_loop)?;
        let is_success = matches!(exited.end, StepEnd::Completed);

        let step = self.step_state_mut(index);
        if let Some(pass) = step.run.take() {
            record_last_pass(step, pass, applied, exited);
        }
        let arrival = Arrival {
            from: Some(index),
            event: trigger,
            event_id: applied.event.event_id,
            output: step.last_output().cloned(),
            error: step.latest.as_ref().and_then(|latest| latest.error.clone()),
        };
        if step.waiting.is_none() {
            self.active.remove(index);
        }
        if is_success && targets.is_empty() {
            self.last_exit = Some(index);
        }
        if let StepEnd::Failed { error, caught: false } = &exited.end {
            self.record_failure(index, error);
        }
        for target in targets {
            self.add_arrival(applied, target, arrival.clone());
        }
        self.enter_final_step_if_done(applied);
        Ok(())
    }

    /// Adds an arrival at the final step if the execution would otherwise end. This happens once.
    /// After a failure or an interruption, waiting steps are never entered.
    pub(super) fn enter_final_step_if_done(&mut self, applied: &AppliedEvent<'_>) {
        let Some(final_step) = applied.plan.final_step() else {
            return;
        };
        let is_over = if self.is_cut_short() {
            self.active_passes().next().is_none()
        } else {
            self.active.is_empty()
        };
        if !is_over || !self.has_final_step_ahead(applied.plan) {
            return;
        }
        let abandoned: Vec<StepIndex> = self.waiting_steps.iter().collect();
        for step in abandoned {
            self.step_state_mut(step).waiting = None;
            self.waiting_steps.remove(step);
            self.active.remove(step);
        }
        let failure = self.uncaught_failure.as_ref().map(|failure| failure.error.clone());
        let (status, error) = match (&self.interruption, failure) {
            (Some(Interruption::Cancel(control)), _) => {
                (ExecutionStatus::Cancelled, Some(cancel_error(control)))
            }
            (_, Some(error)) => (ExecutionStatus::Failed, Some(error)),
            (_, None) => (ExecutionStatus::Completed, None),
        };
        self.ending = Some(Ending { status, since: applied.event.time });
        let arrival = Arrival {
            from: None,
            event: TriggerEvent::RunEnding,
            event_id: applied.event.event_id,
            output: None,
            error: error.map(Arc::new),
        };
        self.add_arrival(applied, final_step, arrival);
    }

    fn record_failure(&mut self, step: StepIndex, error: &TaskError) {
        let failure = self.uncaught_failure.get_or_insert_with(|| {
            Arc::new(UncaughtFailure { error: error.clone(), steps: Vec::new() })
        });
        Arc::make_mut(failure).steps.push(step);
    }

    pub(super) fn apply_step_skipped(
        &mut self,
        applied: &AppliedEvent<'_>,
        skipped: &StepSkipped,
    ) -> Result {
        let index = self.legal_step(applied, &skipped.step)?;
        let (run, next) = match &skipped.reason {
            SkipReason::NotRouted => {
                if !self.undecided.contains(index) {
                    return Err(ApplyErrorKind::Contradiction("step"));
                }
                self.undecided.remove(index);
                let step = self.step_state_mut(index);
                step.is_dead = true;
                return Ok(());
            }
            SkipReason::Guard { run, next, .. } | SkipReason::Admission { run, next } => {
                (*run, next)
            }
        };
        let targets = Self::resolve_targets(applied, next)?;
        let step = self.step_state_mut(index);
        if run != step.runs.saturating_add(1) {
            return Err(ApplyErrorKind::Contradiction("run"));
        }
        step.passes = step.passes.saturating_add(1);
        step.waiting = None;
        let previous = step.latest.take();
        step.latest = Some(LastPass {
            status: StepStatus::Skipped,
            started_at: previous.as_ref().and_then(|previous| previous.started_at),
            ended_at: applied.event.time,
            error: previous.as_ref().and_then(|previous| previous.error.clone()),
            left: previous
                .as_ref()
                .map_or(RetainedOutput::Nothing, |previous| previous.left.clone()),
            closed: previous.and_then(|previous| previous.closed),
        });
        self.undecided.remove(index);
        self.active.remove(index);
        self.waiting_steps.remove(index);
        for target in targets {
            let arrival = Arrival {
                from: Some(index),
                event: TriggerEvent::StepSkipped,
                event_id: applied.event.event_id,
                output: None,
                error: None,
            };
            self.add_arrival(applied, target, arrival);
        }
        self.enter_final_step_if_done(applied);
        Ok(())
    }

    pub(super) fn apply_ctx_updated(
        &mut self,
        applied: &AppliedEvent<'_>,
        updated: &CtxUpdated,
    ) -> Result {
        self.legal_step(applied, &updated.step)?;
        noetl_playbook::paths::write_variables(&mut self.ctx, &updated.values);
        Ok(())
    }
}

/// Error with which the final step of a cancelled execution begins.
fn cancel_error(control: &ControlInfo) -> TaskError {
    let reason = control.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    TaskError::new(TaskErrorKind::Cancelled, format!("the execution was cancelled{reason}"))
}

fn new_loop_state(looping: &LoopEntered) -> LoopState {
    LoopState {
        iterations: looping.iterations,
        items: looping.items.clone(),
        max_in_flight: looping.max_in_flight,
        next: 0,
        results: LayeredMap::default(),
        errors: LayeredMap::default(),
        relays: LayeredMap::default(),
        first_failed: None,
        is_done: false,
    }
}

/// Returns the trigger for the next steps if the pass may exit this way.
fn exit_trigger(pass: &StepPass, exited: &StepExited, is_loop: bool) -> Result<TriggerEvent> {
    if pass.number != exited.run {
        return Err(ApplyErrorKind::Contradiction("run"));
    }
    if pass.open > 0 {
        return Err(ApplyErrorKind::Contradiction("open commands"));
    }
    match (&exited.end, &pass.work) {
        (StepEnd::Completed, StepWork::Single { outcome, .. }) => match outcome {
            // The result of the whole loop came from the cache.
            Some(CommandOutcome { error: None, .. }) if is_loop => Ok(TriggerEvent::LoopDone),
            Some(CommandOutcome { error: None, .. }) => Ok(TriggerEvent::CallDone),
            Some(_) | None => Err(ApplyErrorKind::Contradiction("outcome")),
        },
        (StepEnd::Completed, StepWork::Loop(LoopState { is_done, .. }))
            if *is_done && exited.data.is_some() =>
        {
            Ok(TriggerEvent::LoopDone)
        }
        (StepEnd::Completed, StepWork::Cursor(cursor))
            if cursor.is_done && exited.data.is_some() =>
        {
            Ok(TriggerEvent::LoopDone)
        }
        (StepEnd::Completed, StepWork::Loop(_) | StepWork::Cursor(_)) => {
            Err(ApplyErrorKind::Contradiction("loop"))
        }
        (StepEnd::Failed { .. } | StepEnd::Cancelled, _) => Ok(TriggerEvent::CallError),
    }
}

/// Records the outcome of the pass that ended.
fn record_last_pass(
    step: &mut StepState,
    pass: StepPass,
    applied: &AppliedEvent<'_>,
    exited: &StepExited,
) {
    let closed = match pass.work {
        StepWork::Single { .. } => pass.closed.iter().last().map(|(command, _)| *command),
        StepWork::Loop(_) | StepWork::Cursor(_) => None,
    };
    let outcome = match pass.work {
        StepWork::Single { outcome, .. } => outcome.map(|outcome| outcome.output),
        StepWork::Loop(_) | StepWork::Cursor(_) => exited.data.clone().map(|data| match data {
            EventData::Inline(value) => EventData::Inline(add_data_alias(value)).into(),
            external @ EventData::External(_) => external.into(),
        }),
    };
    let (status, error, left) = match &exited.end {
        StepEnd::Completed => {
            step.output = outcome;
            (StepStatus::Completed, None, RetainedOutput::Data)
        }
        StepEnd::Failed { error, .. } => {
            let left = outcome.map_or(RetainedOutput::Nothing, RetainedOutput::Failed);
            (StepStatus::Failed, Some(Arc::new(error.clone())), left)
        }
        StepEnd::Cancelled => (StepStatus::Cancelled, None, RetainedOutput::Nothing),
    };
    step.latest = Some(LastPass {
        status,
        started_at: Some(pass.entered_at),
        ended_at: applied.event.time,
        error,
        left,
        closed,
    });
}

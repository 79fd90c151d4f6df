//! Events of steps.

use std::sync::Arc;

use noetl_playbook::carried::with_data;
use noetl_playbook::graph::StepIndex;
use noetl_types::{ExecutionStatus, Json, StepName, TaskError};

use super::{Misfit, Now};
use crate::event::{
    CtxUpdated, LoopDone, LoopEntered, SkipReason, StepEnd, StepEntered, StepExited, StepSkipped,
};
use crate::payload::Data;
use crate::state::layered::Layered;
use crate::state::{
    Arrival, CursorState, Failure, Latest, LeadEvent, Left, LoopState, Outcome, Run, State,
    StepState, StepStatus, Waiting, Work,
};

impl State {
    /// Notes that an arc led to a step.
    pub(super) fn arrive(&mut self, now: &Now<'_>, target: StepIndex, arrival: Arrival) {
        let order = self.arrivals;
        self.arrivals += 1;
        self.active.insert(target);
        self.waiting.insert(target);
        let step = self.step_mut(target);
        let source = arrival.from;
        let waiting = step.waiting.get_or_insert_with(|| Waiting {
            sources: Vec::new(),
            order,
            since: now.event.time,
            last: arrival.clone(),
        });
        waiting.last = arrival;
        if let Some(source) = source
            && !waiting.sources.contains(&source)
        {
            waiting.sources.push(source);
        }
    }

    /// Where a step leads, as steps: an `end` that nobody declared is none.
    fn targets(now: &Now<'_>, next: &[StepName]) -> Result<Vec<StepIndex>, Misfit> {
        let declared = next
            .iter()
            .filter(|name| *name != "end" || now.plan.find("end").is_some());
        declared.map(|name| now.find(name)).collect()
    }

    pub(super) fn enter(&mut self, now: &Now<'_>, entered: &StepEntered) -> Result<(), Misfit> {
        let index = self.legal_step(now, &entered.step)?;
        let step = self.step_mut(index);
        if entered.run != step.runs.saturating_add(1) {
            return Err(Misfit::Contradiction("run"));
        }
        let Some(waiting) = step.waiting.take() else {
            return Err(Misfit::Contradiction("arrivals"));
        };
        step.runs = entered.run;
        step.passes = step.passes.saturating_add(1);
        step.run = Some(Run {
            number: entered.run,
            entered: now.event.event_id,
            entered_at: now.event.time,
            arrived_at: waiting.since,
            arrival: waiting.last,
            priority: entered.priority,
            slot: entered.slot.clone(),
            cache: entered.cache,
            variables: Json::empty_map(),
            iter: Json::empty_map(),
            open: 0,
            closed: Layered::default(),
            work: match (&entered.looping, &entered.cursor) {
                (None, None) => Work::Single {
                    outcome: None,
                    relay: None,
                },
                (Some(looping), _) => Work::Loop(loop_state(looping)),
                (None, Some(cursor)) => Work::Cursor(Box::new(CursorState::new(cursor.terms))),
            },
        });
        self.waiting.remove(index);
        self.undecided.remove(index);
        Ok(())
    }

    pub(super) fn finish_loop(&mut self, now: &Now<'_>, done: &LoopDone) -> Result<(), Misfit> {
        let index = self.legal_step(now, &done.step)?;
        let run = self.run(index).ok_or(Misfit::Contradiction("run"))?;
        if run.number != done.run {
            return Err(Misfit::Contradiction("run"));
        }
        let is_complete = match &run.work {
            Work::Single { .. } => false,
            Work::Loop(looping) => looping.is_complete(),
            Work::Cursor(cursor) => cursor.is_complete() && run.open == 0,
        };
        if !is_complete {
            return Err(Misfit::Contradiction("loop"));
        }
        match self.step_mut(index).run.as_mut().map(|run| &mut run.work) {
            Some(Work::Loop(looping)) => looping.is_done = true,
            Some(Work::Cursor(cursor)) => cursor.is_done = true,
            Some(Work::Single { .. }) | None => {}
        }
        Ok(())
    }

    pub(super) fn exit(&mut self, now: &Now<'_>, exited: &StepExited) -> Result<(), Misfit> {
        let index = self.legal_step(now, &exited.step)?;
        let targets = Self::targets(now, &exited.next)?;
        let run = self.run(index).ok_or(Misfit::Contradiction("run"))?;
        let is_loop = now.plan.step(index).looping.is_some();
        let lead = exit_lead(run, exited, is_loop)?;
        let has_ended_well = matches!(exited.end, StepEnd::Completed);

        let step = self.step_mut(index);
        if let Some(run) = step.run.take() {
            leave(step, run, now, exited);
        }
        let arrival = Arrival {
            from: Some(index),
            event: lead,
            event_id: now.event.event_id,
            output: step.left_behind().cloned(),
            error: step.latest.as_ref().and_then(|latest| latest.error.clone()),
        };
        if step.waiting.is_none() {
            self.active.remove(index);
        }
        if has_ended_well && targets.is_empty() {
            self.last_exit = Some(index);
        }
        if let StepEnd::Failed {
            error,
            caught: false,
        } = &exited.end
        {
            self.note_failure(index, error);
        }
        for target in targets {
            self.arrive(now, target, arrival.clone());
        }
        self.end_if_nothing_is_left(now);
        Ok(())
    }

    /// When a run would end, its final step comes up instead, once. What still waits to be entered
    /// after a failure is never entered.
    fn end_if_nothing_is_left(&mut self, now: &Now<'_>) {
        let Some(last) = now.plan.final_step() else {
            return;
        };
        let is_over = if self.failure.is_some() {
            self.runs().next().is_none()
        } else {
            self.active.is_empty()
        };
        if self.ending.is_some() || !is_over {
            return;
        }
        let given_up: Vec<StepIndex> = self.waiting.iter().collect();
        for step in given_up {
            self.step_mut(step).waiting = None;
            self.waiting.remove(step);
            self.active.remove(step);
        }
        self.ending = Some(match self.failure {
            None => ExecutionStatus::Completed,
            Some(_) => ExecutionStatus::Failed,
        });
        let failure = self.failure.as_ref();
        let arrival = Arrival {
            from: None,
            event: LeadEvent::RunEnding,
            event_id: now.event.event_id,
            output: None,
            error: failure.map(|failure| Arc::new(failure.error.clone())),
        };
        self.arrive(now, last, arrival);
    }

    fn note_failure(&mut self, step: StepIndex, error: &TaskError) {
        let failure = self.failure.get_or_insert_with(|| {
            Arc::new(Failure {
                error: error.clone(),
                steps: Vec::new(),
            })
        });
        Arc::make_mut(failure).steps.push(step);
    }

    pub(super) fn skip(&mut self, now: &Now<'_>, skipped: &StepSkipped) -> Result<(), Misfit> {
        let index = self.legal_step(now, &skipped.step)?;
        let (run, next) = match &skipped.reason {
            SkipReason::NotRouted => {
                if !self.undecided.contains(index) {
                    return Err(Misfit::Contradiction("step"));
                }
                self.undecided.remove(index);
                let step = self.step_mut(index);
                step.is_dead = true;
                return Ok(());
            }
            SkipReason::Guard { run, next, .. } | SkipReason::Admission { run, next } => {
                (*run, next)
            }
        };
        let targets = Self::targets(now, next)?;
        let step = self.step_mut(index);
        if run != step.runs.saturating_add(1) {
            return Err(Misfit::Contradiction("run"));
        }
        step.passes = step.passes.saturating_add(1);
        step.waiting = None;
        let before = step.latest.take();
        step.latest = Some(Latest {
            status: StepStatus::Skipped,
            started_at: before.as_ref().and_then(|before| before.started_at),
            ended_at: now.event.time,
            error: before.as_ref().and_then(|before| before.error.clone()),
            left: before
                .as_ref()
                .map_or(Left::Nothing, |before| before.left.clone()),
            closed: before.and_then(|before| before.closed),
        });
        self.undecided.remove(index);
        self.active.remove(index);
        self.waiting.remove(index);
        for target in targets {
            let arrival = Arrival {
                from: Some(index),
                event: LeadEvent::StepSkipped,
                event_id: now.event.event_id,
                output: None,
                error: None,
            };
            self.arrive(now, target, arrival);
        }
        self.end_if_nothing_is_left(now);
        Ok(())
    }

    pub(super) fn write_ctx(&mut self, now: &Now<'_>, updated: &CtxUpdated) -> Result<(), Misfit> {
        self.legal_step(now, &updated.step)?;
        noetl_playbook::paths::write(&mut self.ctx, &updated.values);
        Ok(())
    }
}

fn loop_state(looping: &LoopEntered) -> LoopState {
    LoopState {
        iterations: looping.iterations,
        items: looping.items.clone(),
        max_in_flight: looping.max_in_flight,
        next: 0,
        results: Layered::default(),
        errors: Layered::default(),
        relays: Layered::default(),
        first_failed: None,
        is_done: false,
    }
}

/// What the exit of a run leads on with, if the run may exit so.
fn exit_lead(run: &Run, exited: &StepExited, is_loop: bool) -> Result<LeadEvent, Misfit> {
    if run.number != exited.run {
        return Err(Misfit::Contradiction("run"));
    }
    if run.open > 0 {
        return Err(Misfit::Contradiction("open commands"));
    }
    match (&exited.end, &run.work) {
        (StepEnd::Completed, Work::Single { outcome, .. }) => match outcome {
            // The result of a whole loop was taken over.
            Some(Outcome { error: None, .. }) if is_loop => Ok(LeadEvent::LoopDone),
            Some(Outcome { error: None, .. }) => Ok(LeadEvent::CallDone),
            Some(_) | None => Err(Misfit::Contradiction("outcome")),
        },
        (StepEnd::Completed, Work::Loop(LoopState { is_done, .. }))
            if *is_done && exited.data.is_some() =>
        {
            Ok(LeadEvent::LoopDone)
        }
        (StepEnd::Completed, Work::Cursor(cursor)) if cursor.is_done && exited.data.is_some() => {
            Ok(LeadEvent::LoopDone)
        }
        (StepEnd::Completed, Work::Loop(_) | Work::Cursor(_)) => Err(Misfit::Contradiction("loop")),
        (StepEnd::Failed { .. } | StepEnd::Cancelled, _) => Ok(LeadEvent::CallError),
    }
}

/// Keeps what a run leaves behind.
fn leave(step: &mut StepState, run: Run, now: &Now<'_>, exited: &StepExited) {
    let closed = match run.work {
        Work::Single { .. } => run.closed.iter().last().map(|(command, _)| *command),
        Work::Loop(_) | Work::Cursor(_) => None,
    };
    let outcome = match run.work {
        Work::Single { outcome, .. } => outcome.map(|outcome| outcome.output),
        Work::Loop(_) | Work::Cursor(_) => exited.data.clone().map(|data| match data {
            Data::Inline(value) => Data::Inline(with_data(value)).into(),
            external @ Data::External(_) => external.into(),
        }),
    };
    let (status, error, left) = match &exited.end {
        StepEnd::Completed => {
            step.output = outcome;
            (StepStatus::Completed, None, Left::Data)
        }
        StepEnd::Failed { error, .. } => {
            let left = outcome.map_or(Left::Nothing, Left::Failed);
            (StepStatus::Failed, Some(Arc::new(error.clone())), left)
        }
        StepEnd::Cancelled => (StepStatus::Cancelled, None, Left::Nothing),
    };
    step.latest = Some(Latest {
        status,
        started_at: Some(run.entered_at),
        ended_at: now.event.time,
        error,
        left,
        closed,
    });
}

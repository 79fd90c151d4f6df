//! Entry of waiting steps: blocking, guards, slots and caches.

use std::sync::Arc;

use noetl_playbook::model::LoopSource;
use noetl_playbook::template::RenderError;
use noetl_types::{EventType, Json};

use super::interpreter::{ArcArrival, Interpreter, PendingArrivals, StepPass};
use super::routing::PassOutcome;
use super::slots::{SlotRequest, render_key};
use crate::names::NamePrecedence;
use crate::outcome::{ErrorKind, TaskError};
use crate::pipeline::{
    Command, CommandFailure, LoopItem, PipelineProgress, evaluate_condition, is_suspending,
};
use crate::reachability::{is_reachable, share_cycle};
use crate::run_result::{CachedResult, SkipReason, SkippedStep, StepStatus};

/// Maximum passes per step if the playbook sets no limit.
const DEFAULT_MAX_STEP_RUNS: u64 = 100_000;

/// Decision about a waiting step.
enum EntryDecision {
    Start,
    Skip(SkipReason),
    WaitForSlot(SlotRequest),
}

impl Interpreter<'_> {
    /// Adds the arrival of a taken arc at its target.
    pub(super) fn add_arrival(&mut self, step: usize, arrival: ArcArrival) {
        match self.waiting.iter_mut().find(|waiting| waiting.step == step) {
            Some(waiting) => waiting.arrivals.push(arrival),
            None => self.waiting.push(PendingArrivals {
                step,
                since: self.now,
                slot_request: None,
                arrivals: vec![arrival],
            }),
        }
    }

    /// Enters every step that may be entered, in order of arrival.
    ///
    /// Choice: the steps are checked again after each entry, so a step that is unblocked by the
    /// skip of another one keeps its place in the order of arrival.
    pub(super) fn enter_ready_steps(&mut self) {
        while !self.is_stopped() {
            let Some(step) = self.next_unblocked_step().or_else(|| self.next_deadlocked_step())
            else {
                return;
            };
            self.enter_step(step);
        }
    }

    /// Returns the first waiting step that no other active step can still reach.
    fn next_unblocked_step(&self) -> Option<usize> {
        let waiting = self
            .waiting
            .iter()
            .filter(|waiting| waiting.slot_request.is_none())
            .map(|waiting| waiting.step);
        waiting.into_iter().find(|step| {
            // An arrival at a step that is still running waits for its exit.
            !self.running.contains_key(step) && self.blocking_steps(*step).is_empty()
        })
    }

    /// Returns the other active steps from which a step is reachable.
    fn blocking_steps(&self, step: usize) -> Vec<usize> {
        let others = self.active_steps().into_iter().filter(|other| *other != step);
        others.filter(|other| is_reachable(self.playbook, *other, step)).collect()
    }

    /// Resolves a deadlock, where nothing runs and the waiting steps block each other: of the steps
    /// that are blocked only by steps on a cycle with them, returns the one that has waited
    /// longest.
    fn next_deadlocked_step(&self) -> Option<usize> {
        // A step that waits for a slot will get it, so it is not blocked for good.
        let awaits_slot = self.waiting.iter().any(|waiting| waiting.slot_request.is_some());
        if !self.running.is_empty() || awaits_slot {
            return None;
        }
        let waiting = self.waiting.iter().map(|waiting| waiting.step);
        waiting.into_iter().find(|step| {
            self.blocking_steps(*step).iter().all(|other| share_cycle(self.playbook, *step, *other))
        })
    }

    /// Checks guard and admission first, then the slot, then runs the step.
    fn enter_step(&mut self, step: usize) {
        let Some(position) = self.waiting.iter().position(|waiting| waiting.step == step) else {
            return;
        };
        let waiting = &self.waiting[position];
        let mut pass = StepPass {
            // Choice: of several arrivals, the last one is the trigger.
            trigger: waiting.arrivals.last().cloned().unwrap_or_default(),
            arrived_at: waiting.since,
            ..StepPass::default()
        };
        let decision = self.decide_entry(step, &mut pass);
        if let Ok(EntryDecision::WaitForSlot(request)) = decision {
            self.waiting[position].slot_request = Some(request);
            return;
        }
        // Entering consumes all arrivals, so a join runs once.
        self.waiting.remove(position);
        self.steps[step].passes += 1;
        match decision {
            Err(failure) => {
                self.begin_pass(step, pass);
                self.fail_uncaught(step, &failure);
            }
            Ok(EntryDecision::Skip(reason)) => self.skip_and_route(step, pass, reason),
            Ok(EntryDecision::Start | EntryDecision::WaitForSlot(_)) => {
                self.run_or_reuse_result(step, pass);
            }
        }
    }

    /// Decides whether a step may start now. Called again after every change.
    fn decide_entry(
        &mut self,
        step: usize,
        pass: &mut StepPass,
    ) -> Result<EntryDecision, CommandFailure> {
        let template_error = |error| CommandFailure::from_render_error(&error);
        // Choice: a pass that its guard skips counts too, since nothing else would bound a cycle of
        // such passes. The pass that exceeds the limit fails like one with a broken guard.
        if self.steps[step].passes >= self.max_step_runs() {
            let error = TaskError::new(ErrorKind::Limit, "the step ran too often");
            return Err(CommandFailure::from_task_error(&error));
        }
        if let Some(reason) = self.skip_reason(step, pass).map_err(template_error)? {
            return Ok(EntryDecision::Skip(reason));
        }
        // Choice: a key that cannot be rendered fails the step like a broken guard.
        let request = self.step_slot_request(step, pass).map_err(template_error)?;
        if let Some(request) = request {
            if self.granted_step != Some(step) {
                return Ok(EntryDecision::WaitForSlot(request));
            }
            self.granted_step = None;
            pass.slot_key = Some(request.key);
        }
        pass.cache_key = self.render_cache_key(step, pass).map_err(template_error)?;
        Ok(EntryDecision::Start)
    }

    /// Reuses a cached result, or runs the step.
    fn run_or_reuse_result(&mut self, step: usize, mut pass: StepPass) {
        let cached = pass.cache_key.as_ref().and_then(|key| self.find_cached(step, key));
        if let Some(CachedResult { event, value, .. }) = cached {
            pass.cache_key = None;
            self.begin_pass(step, pass);
            self.log_step(EventType::CallDone, step);
            self.complete_step(step, event, value);
            return;
        }
        self.begin_pass(step, pass);
        match self.step_model(step).looping.as_ref().map(|looping| &looping.source) {
            Some(LoopSource::In(_)) => self.start_loop(step),
            Some(LoopSource::Cursor(_)) => self.start_cursor_loop(step),
            None => self.issue_command(step, None, PipelineProgress::default()),
        }
    }

    /// Returns the key under which the result of a step is cached.
    fn render_cache_key(
        &self,
        step: usize,
        pass: &StepPass,
    ) -> Result<Option<String>, RenderError> {
        let Some(cache) = &self.step_model(step).spec.cache else {
            return Ok(None);
        };
        let mut names = self.execution_view(pass).template_names(&self.step_model(step).name.value);
        names.add_name(NamePrecedence::Builtin, "event", pass.trigger.event.clone());
        render_key(&cache.key.value, &names.to_environment()).map(Some)
    }

    /// Finds an unexpired result of a step under a key.
    fn find_cached(&self, step: usize, key: &str) -> Option<CachedResult> {
        let is_unexpired = |until: Option<u64>| until.is_none_or(|until| self.now < until);
        let has_key = |cached: &&CachedResult| cached.step == step && cached.key == key;
        let mut matching = self.cache.iter().rev().filter(has_key);
        matching.find(|cached| is_unexpired(cached.expires_at)).cloned()
    }

    fn max_step_runs(&self) -> u64 {
        self.playbook.executor.spec.policy.limits.max_step_runs.unwrap_or(DEFAULT_MAX_STEP_RUNS)
    }

    /// Returns the reason for which a step must be skipped, if any. Both guard and admission must
    /// allow it.
    fn skip_reason(&self, step: usize, pass: &StepPass) -> Result<Option<SkipReason>, RenderError> {
        let mut names = self.execution_view(pass).template_names(&self.step_model(step).name.value);
        names.add_name(NamePrecedence::Builtin, "event", pass.trigger.event.clone());
        let environment = names.to_environment();
        if let Some(when) = &self.step_model(step).when
            && !evaluate_condition(&when.value, &environment)?
        {
            return Ok(Some(SkipReason::Guard));
        }
        for rule in &self.step_model(step).spec.policy.admit {
            let matches = match &rule.when {
                Some(when) => evaluate_condition(&when.value, &environment)?,
                None => true,
            };
            if matches {
                return Ok((!rule.allow).then_some(SkipReason::Admission));
            }
        }
        Ok(None)
    }

    /// Skips the step and evaluates its arcs at once.
    fn skip_and_route(&mut self, step: usize, pass: StepPass, reason: SkipReason) {
        let outcome = self.apply_or_roll_back(|interpreter| {
            interpreter.record_skip(step, reason);
            interpreter.exit_step(step, &pass, &PassOutcome::Skipped)
        });
        if let Err(failure) = outcome {
            // Choice: if its routing fails, the step is not skipped but failed, like one with a
            // broken guard.
            self.begin_pass(step, pass);
            self.fail_uncaught(step, &failure);
        }
    }

    pub(super) fn record_skip(&mut self, step: usize, reason: SkipReason) {
        self.steps[step].status = StepStatus::Skipped;
        self.steps[step].error_kind = None;
        self.log_step(EventType::StepSkipped, step);
        self.skipped
            .push(SkippedStep { step: Arc::clone(&self.step_model(step).name.value), reason });
    }

    /// Starts a new pass of the step with fresh state.
    fn begin_pass(&mut self, step: usize, pass: StepPass) {
        let state = &mut self.steps[step];
        state.runs += 1;
        state.status = StepStatus::Running;
        state.last_data = Json::Null;
        state.last_error = Json::Null;
        state.error_kind = None;
        let entered_at = self.now;
        self.running.insert(step, StepPass { entered_at, ..pass });
        self.log_step(EventType::StepEnter, step);
    }

    /// Issues a command of a running step: to a worker, or to the server if the task suspends.
    pub(super) fn issue_command(
        &mut self,
        step: usize,
        item: Option<LoopItem>,
        progress: PipelineProgress,
    ) {
        let Some(pass) = self.running.get(&step) else {
            return;
        };
        // A command sees the variables of the execution as of its issue.
        let view = self.execution_view(pass);
        let index = item.as_ref().map(|item| item.index);
        let task = self.step_model(step).tool.tasks().get(progress.task_index);
        let suspends = task.is_some_and(|task| is_suspending(self.step_model(step), task));
        let command = Command {
            number: self.next_command_number(),
            step: self.step_model(step),
            run: self.steps[step].runs,
            item,
            frame: None,
            view,
            progress,
        };
        self.log_command(EventType::CommandIssued, step, index);
        if suspends {
            self.suspend_command(command);
        } else {
            self.open_commands.push(command);
        }
    }
}

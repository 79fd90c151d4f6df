//! When a waiting step enters, and what happens as it does.

use std::sync::Arc;

use noetl_playbook::template::RenderError;
use noetl_types::{EventType, Json};

use super::machine::{Arrival, Machine, Running, Waiting};
use super::routing::Ended;
use crate::names::Rank;
use crate::outcome::{ErrorKind, TaskError};
use crate::pipeline::{Command, Failed, Item, holds};
use crate::reach::{leads_to, on_cycle_together};
use crate::result::{Skip, SkipReason, StepStatus};

/// How often any one step may run where the playbook does not say.
const DEFAULT_STEP_RUNS: u64 = 100_000;

impl Machine<'_> {
    /// Each taken arc is one arrival at its target.
    pub(super) fn arrive(&mut self, step: usize, arrival: Arrival) {
        match self.waiting.iter_mut().find(|waiting| waiting.step == step) {
            Some(waiting) => waiting.arrivals.push(arrival),
            None => self.waiting.push(Waiting {
                step,
                arrivals: vec![arrival],
            }),
        }
    }

    /// Lets every step enter that may, in order of arrival.
    ///
    /// Choice: the question is asked anew after each of them, so one that is let in by the skip of
    /// another takes its turn by its own arrival.
    pub(super) fn enter_all(&mut self) {
        while !self.stopped() {
            let Some(step) = self.free_to_enter().or_else(|| self.longest_in_deadlock()) else {
                return;
            };
            self.enter(step);
        }
    }

    /// The first waiting step without another live upstream.
    fn free_to_enter(&self) -> Option<usize> {
        let waiting = self.waiting.iter().map(|waiting| waiting.step);
        waiting.into_iter().find(|step| {
            // An arrival at a step that is still running waits for its exit.
            !self.running.contains_key(step) && self.blockers(*step).is_empty()
        })
    }

    /// The active steps, itself excepted, from which a step can be reached along arcs.
    fn blockers(&self, step: usize) -> Vec<usize> {
        let others = self.active().into_iter().filter(|other| *other != step);
        others
            .filter(|other| leads_to(self.playbook, *other, step))
            .collect()
    }

    /// Where nothing runs and the waiting steps block each other: the one that has waited longest
    /// among those that only steps on a cycle with them block.
    fn longest_in_deadlock(&self) -> Option<usize> {
        if !self.running.is_empty() {
            return None;
        }
        let waiting = self.waiting.iter().map(|waiting| waiting.step);
        waiting.into_iter().find(|step| {
            self.blockers(*step)
                .iter()
                .all(|other| on_cycle_together(self.playbook, *step, *other))
        })
    }

    /// Guard and admission first, then the run itself.
    fn enter(&mut self, step: usize) {
        // Entering consumes all arrivals, so a join runs once.
        let Some(at) = self.waiting.iter().position(|waiting| waiting.step == step) else {
            return;
        };
        // Choice: of several arrivals, the last one is what led here.
        let came_with = self.waiting.remove(at).arrivals.pop().unwrap_or_default();
        let run = Running {
            came_with,
            ..Running::default()
        };
        self.steps[step].passes += 1;
        // Choice: a run that its guard skips counts as well, since nothing else would bound a cycle
        // of such runs; and the run that is one too many fails like one with a broken guard.
        if self.steps[step].passes > self.max_step_runs() {
            let error = TaskError::new(ErrorKind::Limit, "the step ran too often");
            self.begin(step, run);
            self.fail_uncaught(step, &Failed::of(&error));
            return;
        }
        match self.turned_away(step, &run) {
            Err(error) => {
                self.begin(step, run);
                self.fail_uncaught(step, &Failed::template(&error));
            }
            Ok(Some(reason)) => self.pass_over(step, run, reason),
            Ok(None) => {
                self.begin(step, run);
                if self.step(step).looping.is_some() {
                    self.start_loop(step);
                } else {
                    self.issue(step, None);
                }
            }
        }
    }

    fn max_step_runs(&self) -> u64 {
        self.playbook
            .executor
            .spec
            .policy
            .limits
            .max_step_runs
            .unwrap_or(DEFAULT_STEP_RUNS)
    }

    /// Why a step must not enter, if it must not. Both guard and admission have to hold.
    fn turned_away(&self, step: usize, run: &Running) -> Result<Option<SkipReason>, RenderError> {
        let mut names = self.view(run).names(&self.step(step).name.value);
        names.put(Rank::Place, "event", run.came_with.event.clone());
        let scope = names.scope();
        if let Some(when) = &self.step(step).when
            && !holds(&when.value, &scope)?
        {
            return Ok(Some(SkipReason::Guard));
        }
        for rule in &self.step(step).spec.policy.admit {
            let matches = match &rule.when {
                Some(when) => holds(&when.value, &scope)?,
                None => true,
            };
            if matches {
                return Ok((!rule.allow).then_some(SkipReason::Admission));
            }
        }
        Ok(None)
    }

    /// The step is skipped, and its arcs are evaluated at once.
    fn pass_over(&mut self, step: usize, run: Running, reason: SkipReason) {
        let outcome = self.or_undo(|machine| {
            machine.skip(step, reason);
            machine.leave(step, &run, &Ended::Skipped)
        });
        if let Err(fault) = outcome {
            // Choice: where its routing fails the step is not skipped but failed, like one with a
            // broken guard.
            self.begin(step, run);
            self.fail_uncaught(step, &fault);
        }
    }

    /// Records a skip.
    pub(super) fn skip(&mut self, step: usize, reason: SkipReason) {
        self.steps[step].status = StepStatus::Skipped;
        self.steps[step].error_kind = None;
        self.log(EventType::StepSkipped, step);
        self.skipped.push(Skip {
            step: Arc::clone(&self.step(step).name.value),
            reason,
        });
    }

    /// The step is entered: a new run, with everything of its own fresh.
    fn begin(&mut self, step: usize, run: Running) {
        let state = &mut self.steps[step];
        state.runs += 1;
        state.status = StepStatus::Running;
        state.last_data = Json::Null;
        state.last_error = Json::Null;
        state.error_kind = None;
        self.running.insert(step, run);
        self.log(EventType::StepEnter, step);
    }

    /// Issues a command of a running step.
    pub(super) fn issue(&mut self, step: usize, item: Option<Item>) {
        let Some(run) = self.running.get(&step) else {
            return;
        };
        // An iteration sees the variables of the execution as of the issue of its command.
        let view = self.view(run);
        let index = item.as_ref().map(|item| item.index);
        self.open.push(Command {
            step: self.step(step),
            run: self.steps[step].runs,
            item,
            view,
        });
        self.log_command(EventType::CommandIssued, step, index);
    }
}

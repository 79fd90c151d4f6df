//! When a waiting step enters, and what happens as it does.

use std::sync::Arc;

use noetl_playbook::model::LoopSource;
use noetl_playbook::template::RenderError;
use noetl_types::{EventType, Json};

use super::machine::{Arrival, Machine, Running, Waiting};
use super::routing::Ended;
use super::slots::{Want, rendered};
use crate::names::Rank;
use crate::outcome::{ErrorKind, TaskError};
use crate::pipeline::{Command, Failed, Item, Progress, holds, is_parking};
use crate::reach::{leads_to, on_cycle_together};
use crate::result::{Cached, Skip, SkipReason, StepStatus};

/// How often any one step may run where the playbook does not say.
const DEFAULT_STEP_RUNS: u64 = 100_000;

/// Whether a step may start.
enum Verdict {
    /// It starts.
    Starts,
    /// It is passed over.
    Away(SkipReason),
    /// It waits for a slot.
    Waits(Want),
}

impl Machine<'_> {
    /// Each taken arc is one arrival at its target.
    pub(super) fn arrive(&mut self, step: usize, arrival: Arrival) {
        match self.waiting.iter_mut().find(|waiting| waiting.step == step) {
            Some(waiting) => waiting.arrivals.push(arrival),
            None => self.waiting.push(Waiting {
                step,
                since: self.now,
                wants: None,
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
        let waiting = self
            .waiting
            .iter()
            .filter(|waiting| waiting.wants.is_none())
            .map(|waiting| waiting.step);
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
        // A step that waits for a slot will get it, so it is not blocked for good.
        let is_served = self.waiting.iter().any(|waiting| waiting.wants.is_some());
        if !self.running.is_empty() || is_served {
            return None;
        }
        let waiting = self.waiting.iter().map(|waiting| waiting.step);
        waiting.into_iter().find(|step| {
            self.blockers(*step)
                .iter()
                .all(|other| on_cycle_together(self.playbook, *step, *other))
        })
    }

    /// Guard and admission first, then the slot, then the run itself.
    fn enter(&mut self, step: usize) {
        let Some(at) = self.waiting.iter().position(|waiting| waiting.step == step) else {
            return;
        };
        let waiting = &self.waiting[at];
        let mut run = Running {
            // Choice: of several arrivals, the last one is what led here.
            came_with: waiting.arrivals.last().cloned().unwrap_or_default(),
            arrived_at: waiting.since,
            ..Running::default()
        };
        let may_start = self.may_start(step, &mut run);
        if let Ok(Verdict::Waits(want)) = may_start {
            self.waiting[at].wants = Some(want);
            return;
        }
        // Entering consumes all arrivals, so a join runs once.
        self.waiting.remove(at);
        self.steps[step].passes += 1;
        match may_start {
            Err(fault) => {
                self.begin(step, run);
                self.fail_uncaught(step, &fault);
            }
            Ok(Verdict::Away(reason)) => self.pass_over(step, run, reason),
            Ok(Verdict::Starts | Verdict::Waits(_)) => self.run_or_take_over(step, run),
        }
    }

    /// Whether a step may start now. It is asked anew whenever anything has happened.
    fn may_start(&mut self, step: usize, run: &mut Running) -> Result<Verdict, Failed> {
        let template = |error| Failed::template(&error);
        // Choice: a run that its guard skips counts as well, since nothing else would bound a cycle
        // of such runs; and the run that is one too many fails like one with a broken guard.
        if self.steps[step].passes >= self.max_step_runs() {
            let error = TaskError::new(ErrorKind::Limit, "the step ran too often");
            return Err(Failed::of(&error));
        }
        if let Some(reason) = self.turned_away(step, run).map_err(template)? {
            return Ok(Verdict::Away(reason));
        }
        // Choice: a key that cannot be rendered fails the step like a broken guard.
        let want = self.slot_of(step, run).map_err(template)?;
        if let Some(want) = want {
            if self.granted != Some(step) {
                return Ok(Verdict::Waits(want));
            }
            self.granted = None;
            run.slot = Some(want.key);
        }
        run.cache_key = self.cache_key(step, run).map_err(template)?;
        Ok(Verdict::Starts)
    }

    /// Takes over a cached result, or runs the step.
    fn run_or_take_over(&mut self, step: usize, mut run: Running) {
        let known = run
            .cache_key
            .as_ref()
            .and_then(|key| self.cached(step, key));
        if let Some(Cached { event, value, .. }) = known {
            run.cache_key = None;
            self.begin(step, run);
            self.log(EventType::CallDone, step);
            self.succeed(step, event, value);
            return;
        }
        self.begin(step, run);
        match self
            .step(step)
            .looping
            .as_ref()
            .map(|looping| &looping.source)
        {
            Some(LoopSource::In(_)) => self.start_loop(step),
            Some(LoopSource::Cursor(_)) => self.start_cursor(step),
            None => self.issue(step, None, Progress::default()),
        }
    }

    /// The key under which the result of a step is cached.
    fn cache_key(&self, step: usize, run: &Running) -> Result<Option<String>, RenderError> {
        let Some(cache) = &self.step(step).spec.cache else {
            return Ok(None);
        };
        let mut names = self.view(run).names(&self.step(step).name.value);
        names.put(Rank::Place, "event", run.came_with.event.clone());
        rendered(&cache.key.value, &names.scope()).map(Some)
    }

    /// A live result of a step under a key.
    fn cached(&self, step: usize, key: &str) -> Option<Cached> {
        let is_live = |until: Option<u64>| until.is_none_or(|until| self.now < until);
        let fits = |cached: &&Cached| cached.step == step && cached.key == key;
        let mut found = self.cache.iter().rev().filter(fits);
        found.find(|cached| is_live(cached.until)).cloned()
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
        let entered_at = self.now;
        self.running.insert(step, Running { entered_at, ..run });
        self.log(EventType::StepEnter, step);
    }

    /// Issues a command of a running step: for a worker, or for the server where the task parks.
    pub(super) fn issue(&mut self, step: usize, item: Option<Item>, progress: Progress) {
        let Some(run) = self.running.get(&step) else {
            return;
        };
        // A command sees the variables of the execution as of its issue.
        let view = self.view(run);
        let index = item.as_ref().map(|item| item.index);
        let task = self.step(step).tool.tasks().get(progress.at);
        let parks = task.is_some_and(|task| is_parking(self.step(step), task));
        let command = Command {
            number: self.next_number(),
            step: self.step(step),
            run: self.steps[step].runs,
            item,
            frame: None,
            view,
            progress,
        };
        self.log_command(EventType::CommandIssued, step, index);
        if parks {
            self.park(command);
        } else {
            self.open.push(command);
        }
    }
}

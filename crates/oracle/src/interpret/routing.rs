//! What happens when a run of a step is over: its `set`, its arcs, and the steps that die of it.

use std::collections::BTreeSet;

use noetl_playbook::model::{Condition, NoMatch, RouteArc, Router, RouterMode};
use noetl_playbook::template::{OutputPlace, RenderError};
use noetl_types::{EventType, Json};

use super::machine::{Arrival, Machine, Running, event, write_vars};
use crate::names::{Names, Rank, StepValue};
use crate::outcome::{ErrorKind, TaskError};
use crate::pipeline::{Failed, holds};
use crate::reach::{beyond, find};
use crate::result::{Cached, SkipReason, StepStatus};
use crate::writes::{SetPlace, Write, put, rendered};

/// How a run of a step was over.
#[derive(Debug, Clone)]
pub(super) enum Ended {
    /// It succeeded.
    Done {
        /// `call.done` or `loop.done`.
        event: &'static str,
        /// Its data.
        value: StepValue,
    },
    /// It failed.
    Failed(Failed),
    /// Its guard or admission turned it away.
    Skipped,
}

impl<'p> Machine<'p> {
    /// A run that went well: its `set`, then its arcs.
    pub(super) fn succeed(&mut self, step: usize, event: &'static str, value: StepValue) {
        let mut run = self.running.remove(&step).unwrap_or_default();
        // Choice: from here on the step's own name means the new data.
        let earlier = self.steps[step].value.replace(value.clone());
        let ended = Ended::Done {
            event,
            value: value.clone(),
        };
        let outcome = self
            .step_set(step, &mut run, &ended)
            .map_err(|error| Failed::template(&error))
            .and_then(|()| self.or_undo(|machine| machine.leave(step, &run, &ended)));
        match outcome {
            Ok(()) => self.leave_to_others(step, run.cache_key, event, value),
            Err(fault) => {
                self.steps[step].value = earlier;
                self.fail_uncaught(step, &fault);
            }
        }
    }

    /// Keeps a good result for steps with the same key.
    fn leave_to_others(
        &mut self,
        step: usize,
        key: Option<String>,
        event: &'static str,
        value: StepValue,
    ) {
        let cache = self.step(step).spec.cache.as_ref();
        let (Some(key), Some(cache)) = (key, cache) else {
            return;
        };
        let until = cache.ttl.map(|ttl| self.now + ttl.as_ms());
        self.cache.push(Cached {
            step,
            key,
            event,
            value,
            until,
        });
    }

    /// A run that failed: its `set` is not applied, and only arcs that look at failures may catch it.
    pub(super) fn fail(&mut self, step: usize, fault: Failed) {
        let run = self.running.remove(&step).unwrap_or_default();
        let ended = Ended::Failed(fault);
        if let Err(fault) = self.or_undo(|machine| machine.leave(step, &run, &ended)) {
            self.fail_uncaught(step, &fault);
        }
    }

    /// The step fails and the run with it: nothing is entered or issued any more.
    pub(super) fn fail_uncaught(&mut self, step: usize, fault: &Failed) {
        self.running.remove(&step);
        self.failures.push((step, fault.kind));
        self.exit_failed(step, fault);
        self.cancel_parked();
    }

    /// A loop that may not go on because the run has failed elsewhere.
    ///
    /// Choice: it is cancelled, since it neither failed nor came to its end.
    pub(super) fn cut_short(&mut self, step: usize) {
        self.running.remove(&step);
        self.steps[step].status = StepStatus::Cancelled;
        self.log(EventType::StepExit, step);
    }

    /// A decision is made as a whole or not at all.
    ///
    /// Choice: so the `set` of an arc that cannot be rendered also takes back those of arcs before it.
    pub(super) fn or_undo(
        &mut self,
        decide: impl FnOnce(&mut Self) -> Result<(), Failed>,
    ) -> Result<(), Failed> {
        let before = self.clone();
        decide(self).inspect_err(|_| *self = before)
    }

    /// Evaluates the arcs and follows those that are taken. An error fails the step, uncaught.
    ///
    /// Choice: a step that is still open when the run fails elsewhere is routed like any other: its
    /// arcs may catch its failure and make their writes, only their targets are never entered.
    pub(super) fn leave(
        &mut self,
        step: usize,
        run: &Running,
        ended: &Ended,
    ) -> Result<(), Failed> {
        let chosen = self
            .choose(step, run, ended)
            .map_err(|error| Failed::template(&error))?;
        match ended {
            Ended::Done { value, .. } => {
                self.match_required(step, &chosen)?;
                self.exit_done(step, value);
                if self.targets(&chosen).is_empty() {
                    // Choice: an arc to an `end` that nobody declared leads to no step, so it does
                    // not count as taken.
                    self.dead_end = value.data.clone();
                }
            }
            Ended::Failed(fault) if chosen.is_empty() => return Err(fault.clone()),
            Ended::Failed(fault) => self.exit_failed(step, fault),
            Ended::Skipped => self.match_required(step, &chosen)?,
        }
        // Skips are computed as if the chosen arcs had arrived.
        self.skip_dead(&self.targets(&chosen));
        let mut run = run.clone();
        for arc in chosen {
            let scope = self.arc_names(step, &run, ended).scope();
            let writes = rendered(&arc.set, &scope, SetPlace::Step)
                .map_err(|error| Failed::template(&error))?;
            self.apply(step, &mut run, &writes);
            if let Some(target) = find(self.playbook, &arc.step.value) {
                self.arrive(target, self.arrival(step, ended));
            }
        }
        Ok(())
    }

    /// The arcs that are taken. All conditions of one router see the same state.
    fn choose(
        &self,
        step: usize,
        run: &Running,
        ended: &Ended,
    ) -> Result<Vec<&'p RouteArc>, RenderError> {
        let Some(router) = self.router(step) else {
            return Ok(Vec::new());
        };
        let scope = self.arc_names(step, run, ended).scope();
        let mut chosen = Vec::new();
        for arc in &router.arcs {
            let taken = match (&arc.when, ended) {
                // Arcs without a condition never fire on a failure.
                (None, Ended::Failed(_)) => false,
                // Choice: a step that is passed over lets its unconditional arcs fire.
                (None, Ended::Done { .. } | Ended::Skipped) => true,
                (Some(when), Ended::Failed(_)) => {
                    looks_at_failure(&when.value) && holds(&when.value, &scope)?
                }
                (Some(when), Ended::Done { .. } | Ended::Skipped) => holds(&when.value, &scope)?,
            };
            if taken {
                chosen.push(arc);
                if router.mode() == RouterMode::Exclusive {
                    break;
                }
            }
        }
        Ok(chosen)
    }

    /// The arcs of a step. Choice: those of the final step are never looked at.
    fn router(&self, step: usize) -> Option<&'p Router> {
        let is_final = |name: &str| *self.step(step).name.value == *name;
        let final_step = self.playbook.executor.spec.final_step.as_ref();
        let ends_run = final_step.is_some_and(|name| is_final(&name.value));
        self.step(step).next.as_ref().filter(|_| !ends_run)
    }

    /// A dead end with arcs that did not match is a failure where the playbook says so.
    fn match_required(&self, step: usize, chosen: &[&RouteArc]) -> Result<(), Failed> {
        let Some(router) = self.router(step) else {
            return Ok(());
        };
        let wanted =
            router.on_no_match() == NoMatch::Error || self.playbook.executor.spec.no_next_is_error;
        if wanted && chosen.is_empty() && !router.arcs.is_empty() {
            return Err(Failed::of(&TaskError::new(
                ErrorKind::Routing,
                "no arc matched",
            )));
        }
        Ok(())
    }

    /// The steps that arcs lead to.
    fn targets(&self, arcs: &[&RouteArc]) -> Vec<usize> {
        arcs.iter()
            .filter_map(|arc| find(self.playbook, &arc.step.value))
            .collect()
    }

    /// Every step that has just died is skipped, in document order.
    fn skip_dead(&mut self, arriving: &[usize]) {
        if self.stopped() || self.ending {
            return;
        }
        let mut active = self.active();
        active.extend(arriving);
        let reachable = beyond(self.playbook, active.iter().copied());
        for step in self.reached_by_entry() {
            let state = &self.steps[step];
            let has_passed = state.passes > 0;
            // Death is final, and told once.
            let is_dead = state.status == StepStatus::Skipped;
            if !has_passed && !is_dead && !active.contains(&step) && !reachable.contains(&step) {
                self.skip(step, SkipReason::NotRouted);
            }
        }
    }

    /// Steps that the entry never reaches get no event.
    fn reached_by_entry(&self) -> BTreeSet<usize> {
        let entry = self
            .playbook
            .entry()
            .and_then(|step| find(self.playbook, &step.name.value));
        let mut reached = beyond(self.playbook, entry);
        reached.extend(entry);
        reached
    }

    /// Applies the step's own `set`.
    fn step_set(
        &mut self,
        step: usize,
        run: &mut Running,
        ended: &Ended,
    ) -> Result<(), RenderError> {
        let scope = self.arc_names(step, run, ended).scope();
        let writes = rendered(&self.step(step).set, &scope, SetPlace::Step)?;
        self.apply(step, run, &writes);
        Ok(())
    }

    fn apply(&mut self, step: usize, run: &mut Running, writes: &[Write]) {
        self.write_ctx(step, writes);
        write_vars(&mut run.vars, writes);
        for write in writes {
            if let Write::Iter(path, value) = write {
                put(&mut run.iter, path, value.clone());
            }
        }
    }

    fn exit_done(&mut self, step: usize, value: &StepValue) {
        let state = &mut self.steps[step];
        state.status = StepStatus::Completed;
        state.last_data = value.data.clone();
        self.log(EventType::StepExit, step);
    }

    fn exit_failed(&mut self, step: usize, fault: &Failed) {
        let state = &mut self.steps[step];
        state.status = StepStatus::Failed;
        state.error_kind = Some(fault.kind);
        state.last_data = fault.data.clone();
        state.last_error = fault.error.clone();
        self.log(EventType::StepExit, step);
    }

    fn arrival(&self, step: usize, ended: &Ended) -> Arrival {
        let data = match ended {
            Ended::Done { value, .. } => value.data.clone(),
            Ended::Failed(fault) => fault.data.clone(),
            Ended::Skipped => Json::Null,
        };
        Arrival {
            event: event_of(&self.step(step).name.value, ended),
            data,
        }
    }

    /// What the step's `set` and its arcs see.
    fn arc_names(&self, step: usize, run: &Running, ended: &Ended) -> Names {
        let name = &self.step(step).name.value;
        let mut names = self.view(run).names(name);
        names.put(Rank::Place, "event", event_of(name, ended));
        names.put(Rank::Place, "iter", Json::from(run.iter.clone()));
        match ended {
            Ended::Done { value, .. } => {
                let envelope = Json::object([("status", Json::from("ok")), ("error", Json::Null)]);
                names.put_output(OutputPlace::Set, envelope, &value.data);
                if let Some(labels) = &value.labels {
                    names.put(Rank::Place, "results", Json::from(labels.clone()));
                }
            }
            Ended::Failed(fault) => {
                let envelope = Json::object([
                    ("status", Json::from("error")),
                    ("error", fault.error.clone()),
                ]);
                names.put_output(OutputPlace::Set, envelope, &fault.data);
            }
            Ended::Skipped => {
                for name in ["output", "outcome", "error"] {
                    names.put(Rank::Place, name, Json::Null);
                }
            }
        }
        names
    }
}

/// The event that a step gives to what follows it.
fn event_of(step: &str, ended: &Ended) -> Json {
    match ended {
        Ended::Done { event: name, value } => event(name, step, value.data.clone()),
        Ended::Failed(fault) => event("call.error", step, fault.error.clone()),
        Ended::Skipped => event("step.skipped", step, Json::Null),
    }
}

/// Whether a condition names what tells a failure from a success.
///
/// Choice: `outcome` is another name of `output`, so it counts.
fn looks_at_failure(condition: &Condition) -> bool {
    match condition {
        Condition::Fixed(_) => false,
        Condition::Test(template) => ["event", "error", "output", "outcome"]
            .iter()
            .any(|name| template.mentions(name)),
    }
}

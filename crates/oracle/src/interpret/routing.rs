//! Routing at the end of a step pass: its `set`, its arcs, and the steps that become dead.

use std::collections::BTreeSet;

use noetl_playbook::model::{Condition, NoMatch, RouteArc, Router, RouterMode};
use noetl_playbook::template::{OutputPlace, RenderError};
use noetl_types::{EventType, Json};

use super::interpreter::{ArcArrival, Interpreter, StepPass, event_object, write_vars};
use crate::names::{NamePrecedence, StepValue, TemplateNames};
use crate::outcome::{ErrorKind, TaskError};
use crate::pipeline::{CommandFailure, evaluate_condition};
use crate::reachability::{find_step, reachable_from};
use crate::run_result::{CachedResult, SkipReason, StepStatus};
use crate::writes::{SetLocation, VariableWrite, render_set, write_at_path};

/// Outcome of a step pass.
#[derive(Debug, Clone)]
pub(super) enum PassOutcome {
    Done {
        /// `call.done` or `loop.done`.
        event: &'static str,
        value: StepValue,
    },
    Failed(CommandFailure),
    /// Its guard or its admission rules skipped it.
    Skipped,
}

impl<'p> Interpreter<'p> {
    /// Completes a successful pass: applies its `set`, then its arcs.
    pub(super) fn complete_step(&mut self, step: usize, event: &'static str, value: StepValue) {
        let mut pass = self.running.remove(&step).unwrap_or_default();
        // Choice: from here on the step's own name means the new data.
        let previous_value = self.steps[step].value.replace(value.clone());
        let outcome = PassOutcome::Done { event, value: value.clone() };
        let routed = self
            .apply_step_set(step, &mut pass, &outcome)
            .map_err(|error| CommandFailure::from_render_error(&error))
            .and_then(|()| {
                self.apply_or_roll_back(|interpreter| interpreter.exit_step(step, &pass, &outcome))
            });
        match routed {
            Ok(()) => self.cache_result(step, pass.cache_key, event, value),
            Err(failure) => {
                self.steps[step].value = previous_value;
                self.fail_uncaught(step, &failure);
            }
        }
    }

    /// Caches a successful result for steps with the same key.
    fn cache_result(
        &mut self,
        step: usize,
        key: Option<String>,
        event: &'static str,
        value: StepValue,
    ) {
        let cache = self.step_model(step).spec.cache.as_ref();
        let (Some(key), Some(cache)) = (key, cache) else {
            return;
        };
        let expires_at = cache.ttl.map(|ttl| self.now + ttl.as_ms());
        self.cache.push(CachedResult { step, key, event, value, expires_at });
    }

    /// Ends a failed pass. Its `set` is not applied, and only arcs whose condition mentions
    /// failures may catch it.
    pub(super) fn fail_step(&mut self, step: usize, failure: CommandFailure) {
        let pass = self.running.remove(&step).unwrap_or_default();
        let outcome = PassOutcome::Failed(failure);
        if let Err(failure) =
            self.apply_or_roll_back(|interpreter| interpreter.exit_step(step, &pass, &outcome))
        {
            self.fail_uncaught(step, &failure);
        }
    }

    /// Fails the step and the execution: nothing is entered or issued any more.
    pub(super) fn fail_uncaught(&mut self, step: usize, failure: &CommandFailure) {
        self.running.remove(&step);
        self.failures.push((step, failure.kind));
        self.record_failure(step, failure);
        self.cancel_suspended();
    }

    /// Cancels a loop that cannot continue because the run has failed elsewhere.
    ///
    /// Choice: its status is `Cancelled`, since it neither failed nor completed.
    pub(super) fn cancel_pass(&mut self, step: usize) {
        self.running.remove(&step);
        self.steps[step].status = StepStatus::Cancelled;
        self.log_step(EventType::StepExit, step);
    }

    /// Applies a decision completely or not at all.
    ///
    /// Choice: if the `set` of an arc cannot be rendered, those of earlier arcs are rolled back
    /// too.
    pub(super) fn apply_or_roll_back(
        &mut self,
        decide: impl FnOnce(&mut Self) -> Result<(), CommandFailure>,
    ) -> Result<(), CommandFailure> {
        let backup = self.clone();
        decide(self).inspect_err(|_| *self = backup)
    }

    /// Evaluates the arcs and follows the taken ones. An error fails the step, uncaught.
    ///
    /// Choice: a step that is still open when the run fails elsewhere is routed like any other. Its
    /// arcs may catch its failure and apply their writes, but their targets are never entered.
    pub(super) fn exit_step(
        &mut self,
        step: usize,
        pass: &StepPass,
        outcome: &PassOutcome,
    ) -> Result<(), CommandFailure> {
        let chosen = self
            .choose_arcs(step, pass, outcome)
            .map_err(|error| CommandFailure::from_render_error(&error))?;
        match outcome {
            PassOutcome::Done { value, .. } => {
                self.require_match(step, &chosen)?;
                self.record_success(step, value);
                if self.arc_targets(&chosen).is_empty() {
                    // Choice: an arc to an undeclared `end` leads to no step, so it does not count
                    // as taken.
                    self.dead_end_data = value.data.clone();
                }
            }
            PassOutcome::Failed(failure) if chosen.is_empty() => return Err(failure.clone()),
            PassOutcome::Failed(failure) => self.record_failure(step, failure),
            PassOutcome::Skipped => self.require_match(step, &chosen)?,
        }
        // Skips are computed as if the chosen arcs had arrived.
        self.skip_dead_steps(&self.arc_targets(&chosen));
        let mut pass = pass.clone();
        for arc in chosen {
            let environment = self.arc_template_names(step, &pass, outcome).to_environment();
            let writes = render_set(&arc.set, &environment, SetLocation::Step)
                .map_err(|error| CommandFailure::from_render_error(&error))?;
            self.apply_step_writes(step, &mut pass, &writes);
            if let Some(target) = find_step(self.playbook, &arc.step.value) {
                self.add_arrival(target, self.arrival_from(step, outcome));
            }
        }
        Ok(())
    }

    /// Returns the taken arcs. All conditions of one router see the same state.
    fn choose_arcs(
        &self,
        step: usize,
        pass: &StepPass,
        outcome: &PassOutcome,
    ) -> Result<Vec<&'p RouteArc>, RenderError> {
        let Some(router) = self.step_router(step) else {
            return Ok(Vec::new());
        };
        let environment = self.arc_template_names(step, pass, outcome).to_environment();
        let mut chosen = Vec::new();
        for arc in &router.arcs {
            let taken = match (&arc.when, outcome) {
                // Arcs without a condition never fire on a failure.
                (None, PassOutcome::Failed(_)) => false,
                // Choice: the unconditional arcs of a skipped step fire.
                (None, PassOutcome::Done { .. } | PassOutcome::Skipped) => true,
                (Some(when), PassOutcome::Failed(_)) => {
                    mentions_failure(&when.value) && evaluate_condition(&when.value, &environment)?
                }
                (Some(when), PassOutcome::Done { .. } | PassOutcome::Skipped) => {
                    evaluate_condition(&when.value, &environment)?
                }
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

    /// Returns the router of a step. Choice: the arcs of the final step are never evaluated.
    fn step_router(&self, step: usize) -> Option<&'p Router> {
        let is_final = |name: &str| *self.step_model(step).name.value == *name;
        let final_step = self.playbook.executor.spec.final_step.as_ref();
        let ends_run = final_step.is_some_and(|name| is_final(&name.value));
        self.step_model(step).next.as_ref().filter(|_| !ends_run)
    }

    /// Fails a step whose arcs all failed to match, if the playbook requires a match.
    fn require_match(&self, step: usize, chosen: &[&RouteArc]) -> Result<(), CommandFailure> {
        let Some(router) = self.step_router(step) else {
            return Ok(());
        };
        let required =
            router.on_no_match() == NoMatch::Error || self.playbook.executor.spec.no_next_is_error;
        if required && chosen.is_empty() && !router.arcs.is_empty() {
            return Err(CommandFailure::from_task_error(&TaskError::new(
                ErrorKind::Routing,
                "no arc matched",
            )));
        }
        Ok(())
    }

    /// Returns the steps that arcs lead to.
    fn arc_targets(&self, arcs: &[&RouteArc]) -> Vec<usize> {
        arcs.iter().filter_map(|arc| find_step(self.playbook, &arc.step.value)).collect()
    }

    /// Skips every step that has just become dead, in document order.
    fn skip_dead_steps(&mut self, arriving: &[usize]) {
        if self.is_stopped() || self.is_ending {
            return;
        }
        let mut active = self.active_steps();
        active.extend(arriving);
        let reachable = reachable_from(self.playbook, active.iter().copied());
        for step in self.reachable_from_entry() {
            let state = &self.steps[step];
            let has_passed = state.passes > 0;
            // A dead step stays dead, and is skipped once.
            let is_dead = state.status == StepStatus::Skipped;
            if !has_passed && !is_dead && !active.contains(&step) && !reachable.contains(&step) {
                self.record_skip(step, SkipReason::NotRouted);
            }
        }
    }

    /// Returns the steps reachable from the entry step. Other steps get no event.
    fn reachable_from_entry(&self) -> BTreeSet<usize> {
        let entry =
            self.playbook.entry_step().and_then(|step| find_step(self.playbook, &step.name.value));
        let mut reachable = reachable_from(self.playbook, entry);
        reachable.extend(entry);
        reachable
    }

    fn apply_step_set(
        &mut self,
        step: usize,
        pass: &mut StepPass,
        outcome: &PassOutcome,
    ) -> Result<(), RenderError> {
        let environment = self.arc_template_names(step, pass, outcome).to_environment();
        let writes = render_set(&self.step_model(step).set, &environment, SetLocation::Step)?;
        self.apply_step_writes(step, pass, &writes);
        Ok(())
    }

    fn apply_step_writes(&mut self, step: usize, pass: &mut StepPass, writes: &[VariableWrite]) {
        self.write_ctx(step, writes);
        write_vars(&mut pass.vars, writes);
        for write in writes {
            if let VariableWrite::Iter(path, value) = write {
                write_at_path(&mut pass.iter, path, value.clone());
            }
        }
    }

    fn record_success(&mut self, step: usize, value: &StepValue) {
        let state = &mut self.steps[step];
        state.status = StepStatus::Completed;
        state.last_data = value.data.clone();
        self.log_step(EventType::StepExit, step);
    }

    fn record_failure(&mut self, step: usize, failure: &CommandFailure) {
        let state = &mut self.steps[step];
        state.status = StepStatus::Failed;
        state.error_kind = Some(failure.kind);
        state.last_data = failure.data.clone();
        state.last_error = failure.error.clone();
        self.log_step(EventType::StepExit, step);
    }

    fn arrival_from(&self, step: usize, outcome: &PassOutcome) -> ArcArrival {
        let data = match outcome {
            PassOutcome::Done { value, .. } => value.data.clone(),
            PassOutcome::Failed(failure) => failure.data.clone(),
            PassOutcome::Skipped => Json::Null,
        };
        ArcArrival { event: outcome_event(&self.step_model(step).name.value, outcome), data }
    }

    /// Returns the names that the step's `set` and its arcs see.
    fn arc_template_names(
        &self,
        step: usize,
        pass: &StepPass,
        outcome: &PassOutcome,
    ) -> TemplateNames {
        let name = &self.step_model(step).name.value;
        let mut names = self.execution_view(pass).template_names(name);
        names.add_name(NamePrecedence::Builtin, "event", outcome_event(name, outcome));
        names.add_name(NamePrecedence::Builtin, "iter", Json::from(pass.iter.clone()));
        match outcome {
            PassOutcome::Done { value, .. } => {
                let envelope = Json::object([("status", Json::from("ok")), ("error", Json::Null)]);
                names.add_output(OutputPlace::Set, envelope, &value.data);
                if let Some(labels) = &value.labels {
                    names.add_name(NamePrecedence::Builtin, "results", Json::from(labels.clone()));
                }
            }
            PassOutcome::Failed(failure) => {
                let envelope = Json::object([
                    ("status", Json::from("error")),
                    ("error", failure.error.clone()),
                ]);
                names.add_output(OutputPlace::Set, envelope, &failure.data);
            }
            PassOutcome::Skipped => {
                for name in ["output", "outcome", "error"] {
                    names.add_name(NamePrecedence::Builtin, name, Json::Null);
                }
            }
        }
        names
    }
}

/// Returns the event of a step as its successors see it.
fn outcome_event(step: &str, outcome: &PassOutcome) -> Json {
    match outcome {
        PassOutcome::Done { event: name, value } => event_object(name, step, value.data.clone()),
        PassOutcome::Failed(failure) => event_object("call.error", step, failure.error.clone()),
        PassOutcome::Skipped => event_object("step.skipped", step, Json::Null),
    }
}

/// True if a condition mentions a name that distinguishes a failure from a success.
///
/// Choice: `outcome` is an alias of `output`, so it counts.
fn mentions_failure(condition: &Condition) -> bool {
    match condition {
        Condition::Fixed(_) => false,
        Condition::Test(template) => {
            ["event", "error", "output", "outcome"].iter().any(|name| template.reads_name(name))
        }
    }
}

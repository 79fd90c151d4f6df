//! Entering a step: guard, loop, first commands.

use std::cell::OnceCell;

use noetl_playbook::graph::StepIndex;
use noetl_playbook::model::LoopSource;
use noetl_playbook::template::{DynamicValue, LoopItemsError, TemplateEnvironment};
use noetl_types::limits::Priority;
use noetl_types::{EventId, Json, StepName, TaskError, TaskErrorKind};

use super::cache::{self, CacheDecision};
use super::draft::{Draft, StepEvalError, depth_error};
use super::environment::TemplateFocus;
use super::rendering::{FieldLocation, TemplateField, suggest_members};
use super::routing::{self, ArcFilter, StepExit};
use super::{Result, cursor, exit, failure, issue, joins, loops, slots};
use crate::cache::CacheKey;
use crate::event::{CursorEntered, EventKind, LoopEntered, SkipReason, StepEntered, StepSkipped};
use crate::loops::LoopItems;
use crate::plan::MAX_LOOP_IN_FLIGHT;
use crate::slot::Slot;
use crate::state::{PendingArrivals, TriggerEvent};

/// Maximum number of steps that one decision may enter or skip. A cycle that does no work would
/// otherwise repeat forever inside one decision.
const MAX_PASSES_PER_DECISION: u32 = 10_000;

/// Enters a waiting step, or skips it.
pub(super) fn enter_step(draft: &mut Draft<'_>, step: StepIndex) -> Result<()> {
    let Some(state) = draft.state.step_state(step) else {
        return Ok(());
    };
    let Some(waiting) = state.waiting.clone() else {
        return Ok(());
    };
    let entry = StepEntry {
        step,
        run: state.runs.saturating_add(1),
        pass: state.passes.saturating_add(1),
        waiting,
        slot: None,
    };
    draft.pass_count += 1;
    if let Some(error) = pass_limit_error(draft, &entry) {
        return entry.fail_on_entry(draft, error, CatchPolicy::Never);
    }
    match check_admission(draft, step, entry.focus()) {
        Err(StepEvalError::Decision(error)) => Err(error),
        Err(StepEvalError::Task(error)) => entry.fail_on_entry(draft, *error, CatchPolicy::Never),
        Ok(AdmissionResult::Granted) => entry.start(draft),
        Ok(AdmissionResult::GuardFailed(value)) => entry.skip_step(draft, Some(value)),
        Ok(AdmissionResult::Denied) => entry.skip_step(draft, None),
    }
}

fn pass_limit_error(draft: &Draft<'_>, entry: &StepEntry) -> Option<TaskError> {
    let name = &draft.step_plan(entry.step).name;
    let max_runs = draft.plan.max_step_runs();
    let message = if entry.pass > max_runs {
        format!("step `{name}` would run more than {max_runs} times")
    } else if draft.pass_count > MAX_PASSES_PER_DECISION {
        format!("step `{name}` loops without doing any work")
    } else {
        return None;
    };
    Some(TaskError::new(TaskErrorKind::Limit, message))
}

/// A step that is about to start.
struct StepEntry {
    step: StepIndex,
    run: u32,
    /// Number of passes and skips, because either could repeat forever.
    pass: u32,
    waiting: PendingArrivals,
    /// Granted slot.
    slot: Option<Slot>,
}

/// Kind of work of a step pass.
enum WorkKind {
    Single,
    Loop(LoopEntered),
    Cursor(CursorEntered),
}

/// Priority and cache decision of a step entry.
struct EntrySettings {
    priority: Option<i16>,
    cache_decision: Option<CacheDecision>,
}

/// Determines whether the arcs of a step may catch its failure.
#[derive(Clone, Copy)]
enum CatchPolicy {
    ByArcs,
    Never,
}

impl StepEntry {
    fn focus(&self) -> TemplateFocus<'_> {
        TemplateFocus::for_entry(&self.waiting.last)
    }

    fn start(mut self, draft: &mut Draft<'_>) -> Result<()> {
        let settings = match self.resolve_settings(draft) {
            // The step waits for a slot.
            Ok(None) => return Ok(()),
            Ok(Some(settings)) => settings,
            Err(StepEvalError::Decision(error)) => return Err(error),
            Err(StepEvalError::Task(error)) => {
                return self.fail_on_entry(draft, *error, CatchPolicy::Never);
            }
        };
        let (cache, priority) = match settings.cache_decision {
            Some(CacheDecision::Reuse(hit)) => {
                self.record_entered(draft, WorkKind::Single, settings.priority, None)?;
                return cache::reuse_result(draft, self.step, *hit);
            }
            Some(CacheDecision::Store(key)) => (Some(key), settings.priority),
            None => (None, settings.priority),
        };
        match self.resolve_work(draft) {
            Err(StepEvalError::Decision(error)) => Err(error),
            Err(StepEvalError::Task(error)) => {
                let catch = if error.kind == TaskErrorKind::Template {
                    CatchPolicy::Never
                } else {
                    CatchPolicy::ByArcs
                };
                self.fail_on_entry(draft, *error, catch)
            }
            Ok(work @ WorkKind::Single) => {
                let entered = self.record_entered(draft, work, priority, cache)?;
                issue::issue_command(draft, self.step, None, entered)
            }
            Ok(work @ WorkKind::Loop(_)) => {
                let entered = self.record_entered(draft, work, priority, cache)?;
                loops::continue_loop(draft, self.step, entered)
            }
            Ok(work @ WorkKind::Cursor(_)) => {
                let entered = self.record_entered(draft, work, priority, cache)?;
                cursor::continue_cursor(draft, self.step, entered)
            }
        }
    }

    fn record_entered(
        &self,
        draft: &mut Draft<'_>,
        work: WorkKind,
        priority: Option<i16>,
        cache: Option<CacheKey>,
    ) -> Result<EventId> {
        let sources = self.waiting.sources.iter();
        let (looping, cursor) = match work {
            WorkKind::Single => (None, None),
            WorkKind::Loop(looping) => (Some(looping), None),
            WorkKind::Cursor(cursor) => (None, Some(Box::new(cursor))),
        };
        let kind = EventKind::StepEntered(Box::new(StepEntered {
            step: draft.step_name(self.step),
            run: self.run,
            arrivals: sources.map(|source| draft.step_name(*source)).collect(),
            looping,
            cursor,
            priority,
            slot: self.slot.clone(),
            cache,
        }));
        draft.emit_caused_by(kind, self.waiting.last.event_id)
    }

    /// Resolves the settings of the entry. Returns `None` if the step waits for a slot. The cache is
    /// queried only after the slot is granted, so that the first holder of a shared slot computes
    /// the result for all.
    fn resolve_settings(
        &mut self,
        draft: &mut Draft<'_>,
    ) -> Result<Option<EntrySettings>, StepEvalError> {
        let priority = self.resolve_priority(draft)?;
        let model = draft.plan.step_model(self.step);
        if let Some(concurrency) = &model.concurrency {
            let location = FieldLocation {
                step: &draft.step_plan(self.step).name,
                field: TemplateField::SlotKey,
            };
            let environment = draft.environment(self.step, self.focus());
            let slot = Slot {
                key: slots::resolve_key(&location, &concurrency.key.value, &environment)?,
                limit: concurrency.limit.value,
            };
            if !slots::try_use_grant(draft, self.step, &slot, priority)? {
                return Ok(None);
            }
            self.slot = Some(slot);
        }
        let cache_decision = match &model.spec.cache {
            None => None,
            Some(cache_spec) => {
                Some(cache::look_up_result(draft, self.step, cache_spec, self.focus())?)
            }
        };
        Ok(Some(EntrySettings { priority, cache_decision }))
    }

    fn resolve_work(&self, draft: &mut Draft<'_>) -> Result<WorkKind, StepEvalError> {
        match &draft.plan.step_model(self.step).looping {
            None => Ok(WorkKind::Single),
            Some(loop_model) => match &loop_model.source {
                LoopSource::In(_) => self.resolve_loop(draft).map(WorkKind::Loop),
                LoopSource::Cursor(_) => {
                    let entered =
                        cursor::resolve_cursor(draft, self.step, loop_model, self.focus())?;
                    Ok(WorkKind::Cursor(entered))
                }
            },
        }
    }

    fn resolve_priority(&self, draft: &Draft<'_>) -> Result<Option<i16>, StepEvalError> {
        let Some(priority) = &draft.plan.step_model(self.step).priority else {
            return Ok(None);
        };
        let location = FieldLocation {
            step: &draft.step_plan(self.step).name,
            field: TemplateField::Priority,
        };
        let environment = draft.environment(self.step, self.focus());
        let rank = location.resolve_setting(&priority.value, &environment, Json::as_i64)?;
        Ok(Some(Priority::clamped(rank).get()))
    }

    /// Resolves the items of the loop.
    fn resolve_loop(&self, draft: &mut Draft<'_>) -> Result<LoopEntered, StepEvalError> {
        let plan = draft.plan;
        let (model, step_plan) = (plan.step_model(self.step), plan.step(self.step));
        let (Some(loop_model), Some(loop_plan)) = (&model.looping, &step_plan.loop_plan) else {
            return Err(draft.invariant_error("loop").into());
        };
        let LoopSource::In(source) = &loop_model.source else {
            return Err(draft.invariant_error("loop").into());
        };
        let location = |field| FieldLocation { step: &step_plan.name, field };
        let environment = draft.environment(self.step, self.focus());
        let (items, is_constant) = if let Some(items) = &loop_plan.items {
            (items.clone(), true)
        } else {
            let value =
                location(TemplateField::LoopIn).render_value(&source.value, &environment)?;
            let items = parse_loop_items(&value, &step_plan.name, &source.value, &environment)?;
            (items, source.value.is_const())
        };
        let max_in_flight = match (loop_plan.max_in_flight, &loop_model.spec.max_in_flight) {
            (Some(_), _) | (None, None) => None,
            (None, Some(width)) => {
                let read =
                    |value: &Json| u32::try_from(value.as_u64()?).ok().filter(|width| *width > 0);
                let width = location(TemplateField::MaxInFlight)
                    .resolve_setting(&width.value, &environment, read)?;
                Some(width.min(MAX_LOOP_IN_FLIGHT))
            }
        };
        let iterations = items.len();
        let items = if is_constant {
            None
        } else {
            let budget = draft.plan.defaults().inline_max;
            Some(draft.inline_or_store(&step_plan.name, items.to_json(), budget.as_bytes())?)
        };
        Ok(LoopEntered { iterations, iterator: loop_plan.iterator.clone(), items, max_in_flight })
    }

    /// Skips the step and continues along its arcs.
    fn skip_step(self, draft: &mut Draft<'_>, guard: Option<Json>) -> Result<()> {
        match self.try_skip_step(draft, guard) {
            Err(StepEvalError::Decision(error)) => Err(error),
            Err(StepEvalError::Task(error)) => {
                self.fail_on_entry(draft, *error, CatchPolicy::Never)
            }
            Ok(()) => Ok(()),
        }
    }

    fn try_skip_step(
        &self,
        draft: &mut Draft<'_>,
        guard: Option<Json>,
    ) -> Result<(), StepEvalError> {
        let mut step_exit = StepExit {
            step: self.step,
            run: self.run,
            arrival: self.waiting.last.clone(),
            event: TriggerEvent::StepSkipped,
            outcome: None,
            variables: Json::empty_map(),
            iter: Json::empty_map(),
            envelope: OnceCell::new(),
        };
        let selected = routing::select_arcs(draft, &step_exit, ArcFilter::All)?;
        if let Some(error) = exit::dead_end_error(draft, self.step, &selected) {
            return Err(error.into());
        }
        let checkpoint = selected.writes.then(|| draft.checkpoint());
        let (run, next) = (self.run, selected.next.clone());
        let reason = match guard {
            Some(value) => SkipReason::Guard { run, value, next },
            None => SkipReason::Admission { run, next },
        };
        let step = draft.step_name(self.step);
        let kind = EventKind::StepSkipped(StepSkipped { step, reason });
        draft.emit_caused_by(kind, self.waiting.last.event_id)?;
        joins::record_dead_steps(draft)?;
        let result = routing::write_arc_sets(draft, &mut step_exit, &selected);
        if let (Err(StepEvalError::Task(_)), Some(checkpoint)) = (&result, checkpoint) {
            draft.roll_back(checkpoint);
        }
        result
    }

    /// Enters the step and fails it.
    fn fail_on_entry(
        self,
        draft: &mut Draft<'_>,
        error: TaskError,
        catch: CatchPolicy,
    ) -> Result<()> {
        self.record_entered(draft, WorkKind::Single, None, None)?;
        match catch {
            CatchPolicy::Never => failure::fail_uncaught(draft, self.step, error),
            CatchPolicy::ByArcs => failure::fail_step(draft, self.step, error),
        }
    }
}

fn parse_loop_items(
    value: &Json,
    step: &StepName,
    source: &DynamicValue,
    environment: &dyn TemplateEnvironment,
) -> Result<LoopItems, StepEvalError> {
    let items = LoopItems::from_value(value).map_err(|error| {
        let kind = match error {
            LoopItemsError::NotIterable { .. } => TaskErrorKind::Schema,
            LoopItemsError::TooMany { .. } => TaskErrorKind::Limit,
        };
        let source_json = source.to_source_json();
        let mut message = format!("step `{step}`, loop.in: {error} (in: {source_json})");
        if *value == Json::Null
            && let Some(suggestion) = suggest_members(source, environment)
        {
            message.push_str("; ");
            message.push_str(&suggestion);
        }
        TaskError::new(kind, message)
    })?;
    match depth_error(value, "the value of loop.in") {
        Some(error) => Err(error.into()),
        None => Ok(items),
    }
}

/// Result of guard and admission rules.
enum AdmissionResult {
    /// The step may start.
    Granted,
    /// The guard is false. Contains its value.
    GuardFailed(Json),
    /// The admission rules deny the step.
    Denied,
}

/// Evaluates guard and admission rules of a step.
fn check_admission(
    draft: &Draft<'_>,
    step: StepIndex,
    focus: TemplateFocus<'_>,
) -> Result<AdmissionResult, StepEvalError> {
    let model = draft.plan.step_model(step);
    let name = &draft.step_plan(step).name;
    let environment = draft.environment(step, focus);
    let location = |field| FieldLocation { step: name, field };
    if let Some(guard) = &model.when {
        let (holds, value) =
            location(TemplateField::Guard).test_condition(&guard.value, &environment)?;
        if !holds {
            return Ok(AdmissionResult::GuardFailed(value));
        }
    }
    for (index, rule) in model.spec.policy.admit.iter().enumerate() {
        let applies = match &rule.when {
            None => true,
            Some(when) => {
                location(TemplateField::Admission(index))
                    .test_condition(&when.value, &environment)?
                    .0
            }
        };
        if applies {
            return Ok(if rule.allow { AdmissionResult::Granted } else { AdmissionResult::Denied });
        }
    }
    Ok(AdmissionResult::Granted)
}

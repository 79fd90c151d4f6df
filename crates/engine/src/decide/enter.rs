//! Entering a step: guard, loop, first commands.

use std::cell::OnceCell;

use noetl_playbook::graph::StepIndex;
use noetl_playbook::model::LoopSource;
use noetl_playbook::template::{Dynamic, LoopItemsError, Scope};
use noetl_types::limits::Priority;
use noetl_types::{EventId, Json, StepName, TaskError, TaskErrorKind};

use super::cache::{self, Cached};
use super::draft::{Draft, Trouble, too_deep};
use super::eval::{Field, Site};
use super::guard::{self, Admission};
use super::nearest::nearest;
use super::routing::{self, Leaving, Way};
use super::scope::Focus;
use super::{Refused, cursor, exit, failure, issue, loops, skips, slots};
use crate::cache::CacheKey;
use crate::event::{CursorEntered, EventKind, LoopEntered, SkipReason, StepEntered, StepSkipped};
use crate::loops::Items;
use crate::plan::MAX_IN_FLIGHT;
use crate::slot::Slot;
use crate::state::{LeadEvent, Waiting};

/// Steps that one decision may enter or pass over. A cycle that does no work would go round for
/// ever inside of one decision.
const MAX_PASSES: u32 = 10_000;

/// Enters a step that waits, or passes it over.
pub(super) fn enter(draft: &mut Draft<'_>, step: StepIndex) -> Result<(), Refused> {
    let Some(state) = draft.state.step(step) else {
        return Ok(());
    };
    let Some(waiting) = state.waiting.clone() else {
        return Ok(());
    };
    let entry = Entry {
        step,
        run: state.runs.saturating_add(1),
        pass: state.passes.saturating_add(1),
        waiting,
        slot: None,
    };
    draft.passes += 1;
    if let Some(error) = over_limit(draft, &entry) {
        return entry.fail(draft, error, Catch::Never);
    }
    match guard::ask(draft, step, entry.focus()) {
        Err(Trouble::Refused(refused)) => Err(refused),
        Err(Trouble::Failed(error)) => entry.fail(draft, *error, Catch::Never),
        Ok(Admission::Granted) => entry.start(draft),
        Ok(Admission::Guarded(value)) => entry.pass_over(draft, Some(value)),
        Ok(Admission::Denied) => entry.pass_over(draft, None),
    }
}

fn over_limit(draft: &Draft<'_>, entry: &Entry) -> Option<TaskError> {
    let name = &draft.step(entry.step).name;
    let most = draft.plan.max_step_runs();
    let message = if entry.pass > most {
        format!("step `{name}` would run more than {most} times")
    } else if draft.passes > MAX_PASSES {
        format!("step `{name}` goes round without doing any work")
    } else {
        return None;
    };
    Some(TaskError::new(TaskErrorKind::Limit, message))
}

/// A step that is about to start.
struct Entry {
    step: StepIndex,
    run: u32,
    /// Runs, and times that it was passed over: either could go round for ever.
    pass: u32,
    waiting: Waiting,
    /// The slot that it has got.
    slot: Option<Slot>,
}

/// What a step works on once it is entered.
enum Shape {
    Single,
    Loop(LoopEntered),
    Cursor(CursorEntered),
}

/// On what terms a step is entered.
struct Terms {
    priority: Option<i16>,
    cached: Option<Cached>,
}

/// Whether the arcs of a step may catch its failure.
#[derive(Clone, Copy)]
enum Catch {
    ByArcs,
    Never,
}

impl Entry {
    fn focus(&self) -> Focus<'_> {
        Focus::entering(&self.waiting.last)
    }

    fn start(mut self, draft: &mut Draft<'_>) -> Result<(), Refused> {
        let terms = match self.terms(draft) {
            // It waits for a slot.
            Ok(None) => return Ok(()),
            Ok(Some(terms)) => terms,
            Err(Trouble::Refused(refused)) => return Err(refused),
            Err(Trouble::Failed(error)) => return self.fail(draft, *error, Catch::Never),
        };
        let (cache, priority) = match terms.cached {
            Some(Cached::Take(hit)) => {
                self.record(draft, Shape::Single, terms.priority, None)?;
                return cache::take_over(draft, self.step, *hit);
            }
            Some(Cached::Keep(key)) => (Some(key), terms.priority),
            None => (None, terms.priority),
        };
        match self.shape(draft) {
            Err(Trouble::Refused(refused)) => Err(refused),
            Err(Trouble::Failed(error)) => {
                let catch = if error.kind == TaskErrorKind::Template {
                    Catch::Never
                } else {
                    Catch::ByArcs
                };
                self.fail(draft, *error, catch)
            }
            Ok(shape @ Shape::Single) => {
                let entered = self.record(draft, shape, priority, cache)?;
                issue::issue(draft, self.step, None, entered)
            }
            Ok(shape @ Shape::Loop(_)) => {
                let entered = self.record(draft, shape, priority, cache)?;
                loops::go_on(draft, self.step, entered)
            }
            Ok(shape @ Shape::Cursor(_)) => {
                let entered = self.record(draft, shape, priority, cache)?;
                cursor::go_on(draft, self.step, entered)
            }
        }
    }

    fn record(
        &self,
        draft: &mut Draft<'_>,
        shape: Shape,
        priority: Option<i16>,
        cache: Option<CacheKey>,
    ) -> Result<EventId, Refused> {
        let sources = self.waiting.sources.iter();
        let (looping, cursor) = match shape {
            Shape::Single => (None, None),
            Shape::Loop(looping) => (Some(looping), None),
            Shape::Cursor(cursor) => (None, Some(Box::new(cursor))),
        };
        let kind = EventKind::StepEntered(Box::new(StepEntered {
            step: draft.name(self.step),
            run: self.run,
            arrivals: sources.map(|source| draft.name(*source)).collect(),
            looping,
            cursor,
            priority,
            slot: self.slot.clone(),
            cache,
        }));
        draft.emit_because(kind, self.waiting.last.event_id)
    }

    /// On what terms it is entered; nothing where it has to wait for a slot. Who shares a slot looks
    /// for an earlier result only when it has the slot, so that the first one makes it for all.
    fn terms(&mut self, draft: &mut Draft<'_>) -> Result<Option<Terms>, Trouble> {
        let priority = self.priority(draft)?;
        let model = draft.plan.model(self.step);
        if let Some(concurrency) = &model.concurrency {
            let site = Site {
                step: &draft.step(self.step).name,
                field: Field::SlotKey,
            };
            let scope = draft.scope(self.step, self.focus());
            let slot = Slot {
                key: slots::key(&site, &concurrency.key.value, &scope)?,
                limit: concurrency.limit.value,
            };
            if !slots::may_enter(draft, self.step, &slot, priority)? {
                return Ok(None);
            }
            self.slot = Some(slot);
        }
        let cached = match &model.spec.cache {
            None => None,
            Some(written) => Some(cache::ask(draft, self.step, written, self.focus())?),
        };
        Ok(Some(Terms { priority, cached }))
    }

    fn shape(&self, draft: &mut Draft<'_>) -> Result<Shape, Trouble> {
        match &draft.plan.model(self.step).looping {
            None => Ok(Shape::Single),
            Some(written) => match &written.source {
                LoopSource::In(_) => self.looping(draft).map(Shape::Loop),
                LoopSource::Cursor(_) => {
                    let entered = cursor::entered(draft, self.step, written, self.focus())?;
                    Ok(Shape::Cursor(entered))
                }
            },
        }
    }

    fn priority(&self, draft: &Draft<'_>) -> Result<Option<i16>, Trouble> {
        let Some(priority) = &draft.plan.model(self.step).priority else {
            return Ok(None);
        };
        let site = Site {
            step: &draft.step(self.step).name,
            field: Field::Priority,
        };
        let scope = draft.scope(self.step, self.focus());
        let rank = site.setting(&priority.value, &scope, Json::as_i64)?;
        Ok(Some(Priority::clamped(rank).get()))
    }

    /// What the step loops over.
    fn looping(&self, draft: &mut Draft<'_>) -> Result<LoopEntered, Trouble> {
        let plan = draft.plan;
        let (model, facts) = (plan.model(self.step), plan.step(self.step));
        let (Some(written), Some(looping)) = (&model.looping, &facts.looping) else {
            return Err(draft.broken("loop").into());
        };
        let LoopSource::In(source) = &written.source else {
            return Err(draft.broken("loop").into());
        };
        let site = |field| Site {
            step: &facts.name,
            field,
        };
        let scope = draft.scope(self.step, self.focus());
        let (items, is_constant) = if let Some(items) = &looping.items {
            (items.clone(), true)
        } else {
            let value = site(Field::LoopIn).render(&source.value, &scope)?;
            let items = items_of(&value, &facts.name, &source.value, &scope)?;
            (items, source.value.is_const())
        };
        let max_in_flight = match (looping.max_in_flight, &written.spec.max_in_flight) {
            (Some(_), _) | (None, None) => None,
            (None, Some(width)) => {
                let read = |value: &Json| {
                    u32::try_from(value.as_u64()?)
                        .ok()
                        .filter(|width| *width > 0)
                };
                let width = site(Field::MaxInFlight).setting(&width.value, &scope, read)?;
                Some(width.min(MAX_IN_FLIGHT))
            }
        };
        let iterations = items.len();
        let items = if is_constant {
            None
        } else {
            let budget = draft.plan.defaults().inline_max;
            Some(draft.keep(&facts.name, items.to_json(), budget.as_bytes())?)
        };
        Ok(LoopEntered {
            iterations,
            iterator: looping.iterator.clone(),
            items,
            max_in_flight,
        })
    }

    /// Passes the step over and goes on along its arcs.
    fn pass_over(self, draft: &mut Draft<'_>, guard: Option<Json>) -> Result<(), Refused> {
        match self.try_to_pass(draft, guard) {
            Err(Trouble::Refused(refused)) => Err(refused),
            Err(Trouble::Failed(error)) => self.fail(draft, *error, Catch::Never),
            Ok(()) => Ok(()),
        }
    }

    fn try_to_pass(&self, draft: &mut Draft<'_>, guard: Option<Json>) -> Result<(), Trouble> {
        let mut leaving = Leaving {
            step: self.step,
            run: self.run,
            arrival: self.waiting.last.clone(),
            event: LeadEvent::StepSkipped,
            outcome: None,
            variables: Json::empty_map(),
            iter: Json::empty_map(),
            envelope: OnceCell::new(),
        };
        let route = routing::route(draft, &leaving, Way::On)?;
        if let Some(error) = exit::dead_end(draft, self.step, &route) {
            return Err(error.into());
        }
        let mark = route.writes.then(|| draft.mark());
        let (run, next) = (self.run, route.next.clone());
        let reason = match guard {
            Some(value) => SkipReason::Guard { run, value, next },
            None => SkipReason::Admission { run, next },
        };
        let step = draft.name(self.step);
        let kind = EventKind::StepSkipped(StepSkipped { step, reason });
        draft.emit_because(kind, self.waiting.last.event_id)?;
        skips::note(draft)?;
        let written = routing::write_arcs(draft, &mut leaving, &route);
        if let (Err(Trouble::Failed(_)), Some(mark)) = (&written, mark) {
            draft.go_back(mark);
        }
        written
    }

    /// Enters the step only to fail.
    fn fail(self, draft: &mut Draft<'_>, error: TaskError, catch: Catch) -> Result<(), Refused> {
        self.record(draft, Shape::Single, None, None)?;
        match catch {
            Catch::Never => failure::fail_uncaught(draft, self.step, error),
            Catch::ByArcs => failure::fail(draft, self.step, error),
        }
    }
}

fn items_of(
    value: &Json,
    step: &StepName,
    source: &Dynamic,
    scope: &dyn Scope,
) -> Result<Items, Trouble> {
    let items = Items::of(value).map_err(|error| {
        let kind = match error {
            LoopItemsError::NotIterable { .. } => TaskErrorKind::Schema,
            LoopItemsError::TooMany { .. } => TaskErrorKind::Limit,
        };
        let written = source.source_json();
        let mut message = format!("step `{step}`, loop.in: {error} (in: {written})");
        if *value == Json::Null
            && let Some(nearest) = nearest(source, scope)
        {
            message.push_str("; ");
            message.push_str(&nearest);
        }
        TaskError::new(kind, message)
    })?;
    match too_deep(value, "the value of loop.in") {
        Some(error) => Err(error.into()),
        None => Ok(items),
    }
}

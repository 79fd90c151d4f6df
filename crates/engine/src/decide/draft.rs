//! A decision in the making: a copy of the state, and the events that led to it.

use std::collections::{BTreeMap, VecDeque};

use noetl_playbook::bounds::{MAX_VALUE_DEPTH, fits, is_shallow};
use noetl_playbook::carried::Payloads;
use noetl_playbook::graph::StepIndex;
use noetl_types::{
    EventId, EventType, ExecutionId, IdGenerator, Json, Millis, ResultId, StepName, TaskError,
    TaskErrorKind, Timestamp,
};

use super::scope::{Focus, RunScope, Vault};
use super::{Beside, Decision, Errand, Moment, Refused, Verdict, cache};
use crate::apply::{ApplyError, Misfit};
use crate::cache::{CacheAnswer, CacheEntry, CacheHit, CacheKey, Caches, Origin};
use crate::event::{Event, EventKind};
use crate::payload::{Data, NewPayload, Readable, Reference};
use crate::plan::{Plan, StepPlan};
use crate::slot::{SlotChange, SlotGrant, SlotHolder, SlotWant};
use crate::state::{Closing, Life, Run, State};

/// A decision in the making.
pub(super) struct Draft<'d> {
    pub(super) plan: &'d Plan,
    pub(super) state: State,
    pub(super) now: Timestamp,
    /// How many steps were entered or passed over.
    pub(super) passes: u32,
    /// How many commands of a step were closed during a pause and have their consequences later in
    /// this decision.
    pub(super) still_held: BTreeMap<StepIndex, usize>,
    /// A slot that was granted and not used yet.
    pub(super) grant: Option<SlotGrant>,
    /// Steps that could enter but for a slot.
    pub(super) parked: BTreeMap<StepIndex, SlotWant>,
    /// The slot without which nothing enters.
    pub(super) wants_of_run: Option<SlotWant>,
    /// The slots that were wanted before.
    pub(super) wished: Vec<SlotWant>,
    /// Whether it was looked at what may enter, so that all that is wanted is known.
    pub(super) has_looked: bool,
    /// Slots that are free again.
    pub(super) slots: Vec<SlotChange>,
    /// Commands that were closed as soon as they were issued. Their consequences come when what is
    /// under way is done: one inside of the other they would nest without end.
    pub(super) at_once: VecDeque<Closing>,
    /// What the server owes since this decision.
    pub(super) errands: Vec<Errand>,
    ids: &'d mut IdGenerator,
    fetched: &'d dyn Payloads,
    caches: &'d dyn Caches,
    events: Vec<Event>,
    payloads: Vec<NewPayload>,
    cached: Vec<CacheEntry>,
    beside: BTreeMap<EventId, Beside>,
    /// The id of the next event of a type, where somebody else has made it.
    named: Option<(EventType, EventId)>,
}

/// A place in a decision.
pub(super) struct Mark {
    state: State,
    events: usize,
    payloads: usize,
    slots: usize,
    cached: usize,
}

/// Why something could not be worked out.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The decision cannot be made now.
    Refused(Refused),
    /// The step fails.
    Failed(Box<TaskError>),
}

impl From<Refused> for Trouble {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

impl From<TaskError> for Trouble {
    fn from(error: TaskError) -> Self {
        Self::Failed(Box::new(error))
    }
}

impl<'d> Draft<'d> {
    pub(super) fn new(state: &State, plan: &'d Plan, moment: &'d mut Moment<'_>) -> Self {
        Self {
            plan,
            state: state.clone(),
            now: moment.now,
            passes: 0,
            still_held: BTreeMap::new(),
            grant: None,
            parked: BTreeMap::new(),
            wants_of_run: None,
            wished: Vec::new(),
            has_looked: false,
            slots: Vec::new(),
            at_once: VecDeque::new(),
            errands: Vec::new(),
            ids: &mut *moment.ids,
            fetched: moment.payloads,
            caches: moment.caches,
            events: Vec::with_capacity(8),
            payloads: Vec::new(),
            cached: Vec::new(),
            beside: BTreeMap::new(),
            named: None,
        }
    }

    pub(super) fn into_decision(mut self, verdict: Verdict) -> Decision {
        let mut slots = std::mem::take(&mut self.slots);
        slots.extend(super::slots::withdrawn(&self).map(SlotChange::Free));
        if !self.state.is_ended() {
            let wants = self.wants_of_run.take().into_iter();
            let wants = wants.chain(std::mem::take(&mut self.parked).into_values());
            slots.extend(wants.map(SlotChange::Want));
        }
        Decision {
            events: self.events,
            payloads: self.payloads,
            slots,
            cached: self.cached,
            errands: self.errands,
            beside: self.beside,
            verdict,
            next: self.state,
        }
    }

    /// The slots that are wanted, and nothing else of the decision.
    pub(super) fn into_wants(self) -> Vec<SlotWant> {
        let wants = self.wants_of_run.into_iter();
        wants.chain(self.parked.into_values()).collect()
    }

    /// What somebody who looked for a result found. A result that this very decision leaves is there
    /// already: nobody outside can have seen it.
    pub(super) fn look_up(&self, key: &CacheKey) -> Option<CacheAnswer> {
        let is_live = |ttl: Option<Millis>| ttl.is_none_or(|ttl| !ttl.is_zero());
        let mut left = self.cached.iter().rev();
        let left = left.find(|entry| entry.key == *key && is_live(entry.ttl));
        match left.zip(self.state.execution_id()) {
            None => self.caches.get(key),
            Some((entry, execution_id)) => Some(CacheAnswer::Hit(Box::new(CacheHit {
                origin: Origin {
                    execution_id,
                    seq: entry.origin_seq,
                },
                result: entry.result.clone(),
            }))),
        }
    }

    /// Records what follows.
    pub(super) fn emit(&mut self, kind: EventKind) -> Result<EventId, Refused> {
        self.record(kind, None, self.now)
    }

    /// Records what follows from an event that is not the one before.
    pub(super) fn emit_because(
        &mut self,
        kind: EventKind,
        cause: EventId,
    ) -> Result<EventId, Refused> {
        self.record(kind, Some(cause), self.now)
    }

    /// Records what happened elsewhere; nothing is recorded from the future.
    pub(super) fn emit_at(
        &mut self,
        kind: EventKind,
        time: Option<Timestamp>,
    ) -> Result<EventId, Refused> {
        let time = time.unwrap_or(self.now).min(self.now);
        self.record(kind, None, time)
    }

    /// Records what somebody else has given an id and a time.
    pub(super) fn emit_as(
        &mut self,
        kind: EventKind,
        event_id: EventId,
        time: Timestamp,
    ) -> Result<(), Refused> {
        self.take(event_id, kind, None, time)
    }

    fn record(
        &mut self,
        kind: EventKind,
        cause: Option<EventId>,
        time: Timestamp,
    ) -> Result<EventId, Refused> {
        let is_ignored = matches!(kind, EventKind::ResultIgnored(_));
        let is_named = |named: &mut (EventType, EventId)| is_ignored || kind.name() == named.0;
        let event_id = match self.named.take_if(is_named) {
            Some((_, event_id)) => event_id,
            None => self.ids.mint(self.now.as_unix_ms())?,
        };
        self.take(event_id, kind, cause, time)?;
        Ok(event_id)
    }

    fn take(
        &mut self,
        event_id: EventId,
        kind: EventKind,
        cause: Option<EventId>,
        time: Timestamp,
    ) -> Result<(), Refused> {
        let event = Event {
            seq: self.state.version().next_seq(),
            event_id,
            time,
            cause,
            kind,
        };
        self.note_effects(&event.kind);
        self.state.apply(self.plan, &event)?;
        self.events.push(event);
        Ok(())
    }

    /// Gives the next event of a type, or what is noted in its place, an id that somebody else has
    /// made.
    pub(super) fn name_next(&mut self, event_type: EventType, event_id: EventId) {
        self.named = Some((event_type, event_id));
    }

    /// Stores something beside an event.
    pub(super) fn put_beside(&mut self, event_id: EventId, beside: Beside) {
        self.beside.insert(event_id, beside);
    }

    /// The events recorded so far.
    pub(super) fn events(&self) -> &[Event] {
        &self.events
    }

    /// Notes what an event that is about to be recorded means for slots and caches.
    fn note_effects(&mut self, kind: &EventKind) {
        if let EventKind::StepExited(exited) = kind {
            self.cached.extend(cache::entry(self, exited));
            let step = self.plan.find(exited.step.as_str());
            let run = step.and_then(|step| self.state.run(step));
            if let Some(slot) = run.and_then(|run| run.slot.as_ref()) {
                self.slots.push(SlotChange::Free(SlotGrant {
                    holder: SlotHolder::Step {
                        step: exited.step.clone(),
                        run: exited.run,
                    },
                    key: slot.key.clone(),
                }));
            }
        }
        let ends = || kind.name().known().is_some_and(EventType::is_terminal);
        if self.plan.uses_slots() && ends() {
            self.slots.push(SlotChange::Clear);
        }
    }

    /// A place to go back to, should what follows turn out void.
    pub(super) fn mark(&self) -> Mark {
        Mark {
            state: self.state.clone(),
            events: self.events.len(),
            payloads: self.payloads.len(),
            slots: self.slots.len(),
            cached: self.cached.len(),
        }
    }

    /// Takes back all that was recorded since.
    pub(super) fn go_back(&mut self, mark: Mark) {
        self.state = mark.state;
        self.events.truncate(mark.events);
        self.payloads.truncate(mark.payloads);
        self.slots.truncate(mark.slots);
        self.cached.truncate(mark.cached);
    }

    /// The event recorded last.
    pub(super) fn last_event(&self) -> Option<EventId> {
        self.events.last().map(|event| event.event_id)
    }

    pub(super) fn step(&self, step: StepIndex) -> &'d StepPlan {
        self.plan.step(step)
    }

    pub(super) fn name(&self, step: StepIndex) -> StepName {
        self.plan.step(step).name.clone()
    }

    /// The run of a step that is known to be entered.
    pub(super) fn run(&self, step: StepIndex) -> Result<&Run, Refused> {
        self.state.run(step).ok_or_else(|| self.broken("run"))
    }

    /// How many commands of a step are open, or closed with consequences yet to come.
    pub(super) fn unfinished(&self, step: StepIndex) -> usize {
        let open = self.state.run(step).map_or(0, |run| run.open as usize);
        open + self.still_held.get(&step).copied().unwrap_or_default()
    }

    /// What was believed of the state turns out wrong: a mistake of the engine.
    pub(super) fn broken(&self, what: &'static str) -> Refused {
        Refused::Broken(ApplyError {
            seq: self.state.version().next_seq(),
            misfit: Misfit::Contradiction(what),
        })
    }

    pub(super) fn execution_id(&self) -> Result<ExecutionId, Refused> {
        self.state.execution_id().ok_or(Refused::NotStarted)
    }

    /// What templates of a step see.
    pub(super) fn scope<'s>(&'s self, step: StepIndex, focus: Focus<'s>) -> RunScope<'s> {
        RunScope::new(self.plan, &self.state, step, focus)
            .with_payloads(self.vault())
            .at(self.now)
    }

    pub(super) fn vault(&self) -> Vault<'_> {
        Vault {
            fetched: self.fetched,
            fresh: &self.payloads,
        }
    }

    /// Refuses what can only happen to a run that goes on.
    pub(super) fn must_go_on(&self) -> Result<(), Refused> {
        self.must_have_begun()?;
        match self.state.life {
            Life::Ended(status) => Err(Refused::AlreadyEnded(status)),
            Life::New | Life::Running | Life::Paused => Ok(()),
        }
    }

    /// Refuses what can only happen to a run.
    pub(super) fn must_have_begun(&self) -> Result<(), Refused> {
        self.execution_id().map(|_| ())
    }

    /// The value as data of an event: moved out where it is over a budget.
    pub(super) fn keep(
        &mut self,
        name: &StepName,
        value: Json,
        budget: u64,
    ) -> Result<Data, Refused> {
        let execution_id = self.execution_id()?;
        self.keep_for(execution_id, name, value, budget)
    }

    /// The same for a run that is about to begin.
    pub(super) fn keep_for(
        &mut self,
        execution_id: ExecutionId,
        name: &StepName,
        value: Json,
        budget: u64,
    ) -> Result<Data, Refused> {
        let budget = usize::try_from(budget).unwrap_or(usize::MAX);
        if value.is_null() || fits(&value, budget) {
            return Ok(Data::Inline(value));
        }
        self.store_for(execution_id, name, value)
            .map(Data::External)
    }

    /// Moves a value out of an event.
    pub(super) fn store(&mut self, name: &StepName, value: Json) -> Result<Reference, Refused> {
        let execution_id = self.execution_id()?;
        self.store_for(execution_id, name, value)
    }

    /// An id for a run that is to be started.
    pub(super) fn new_execution(&mut self) -> Result<ExecutionId, Refused> {
        Ok(self.ids.mint(self.now.as_unix_ms())?)
    }

    fn store_for(
        &mut self,
        execution_id: ExecutionId,
        name: &StepName,
        value: Json,
    ) -> Result<Reference, Refused> {
        let result_id: ResultId = self.ids.mint(self.now.as_unix_ms())?;
        let step = self.plan.find(name.as_str());
        let readable = step.map(|step| &self.plan.step(step).readable);
        let default = Readable::default();
        let readable = readable.unwrap_or(&default);
        let payload = NewPayload::new(execution_id, name.clone(), result_id, value, readable);
        let reference = payload.reference.clone();
        self.payloads.push(payload);
        Ok(reference)
    }
}

/// The failure of a value that no event can hold.
pub(super) fn too_deep(value: &Json, what: &str) -> Option<TaskError> {
    if is_shallow(value, MAX_VALUE_DEPTH) {
        return None;
    }
    let message = format!("{what} is nested more than {MAX_VALUE_DEPTH} levels deep");
    Some(TaskError::new(TaskErrorKind::Limit, message))
}

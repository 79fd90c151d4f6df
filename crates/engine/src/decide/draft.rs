//! A decision in progress: a copy of the state and the events that led to it.

use std::collections::{BTreeMap, VecDeque};

use noetl_playbook::bounds::{MAX_VALUE_DEPTH, fits_within, is_shallow};
use noetl_playbook::command_context::PayloadLookup;
use noetl_playbook::graph::StepIndex;
use noetl_playbook::template::FuelBudget;
use noetl_types::id::TypedId;
use noetl_types::{
    EventId, EventType, ExecutionId, Json, Millis, ResultId, StepName, TaskError, TaskErrorKind,
    Timestamp,
};

use super::environment::{ExecutionEnvironment, PayloadSource, TemplateFocus};
use super::{
    Decision, DecisionContext, DecisionError, EventExtras, FollowUp, IdSource, InputVerdict,
    Result, cache,
};
use crate::apply::{ApplyError, ApplyErrorKind};
use crate::cache::{CacheEntry, CacheHit, CacheKey, CacheLookup, CacheLookupResult, ResultOrigin};
use crate::event::{Event, EventKind};
use crate::payload::{EventData, ExtractionRules, NewPayload, Reference};
use crate::plan::{Plan, StepPlan};
use crate::slot::{SlotChange, SlotGrant, SlotHolder, SlotRequest};
use crate::state::{ClosedCommand, ExecutionPhase, ExecutionState, StepPass};

/// Fuel of all templates of one decision, as a multiple of the limit of one template.
const DECISION_FUEL_FACTOR: u64 = 20;

/// A decision in progress.
pub(super) struct Draft<'d> {
    pub(super) plan: &'d Plan,
    pub(super) state: ExecutionState,
    pub(super) now: Timestamp,
    /// Number of steps that were entered or skipped, and of tasks that ended at once.
    pub(super) pass_count: u32,
    /// Per step, the number of closed commands that are processed later in this decision.
    pub(super) deferred_counts: BTreeMap<StepIndex, usize>,
    /// A granted slot that is not used yet.
    pub(super) grant: Option<SlotGrant>,
    /// Steps that wait only for a slot.
    pub(super) waiting_for_slot: BTreeMap<StepIndex, SlotRequest>,
    /// Slot that is required before any step is entered.
    pub(super) execution_slot_request: Option<SlotRequest>,
    /// Slot requests before the decision.
    pub(super) previous_slot_requests: Vec<SlotRequest>,
    /// True if ready steps were evaluated, so that all slot requests are known.
    pub(super) has_evaluated_entries: bool,
    /// Slot releases.
    pub(super) slot_changes: Vec<SlotChange>,
    /// Commands that were closed as soon as they were issued. They are processed after the current
    /// work: processing them recursively could nest without bound.
    pub(super) closed_at_once: VecDeque<ClosedCommand>,
    /// Effects that the server must perform after this decision.
    pub(super) follow_ups: Vec<FollowUp>,
    /// Fuel of all templates of the decision.
    pub(super) fuel: FuelBudget,
    ids: &'d mut dyn IdSource,
    fetched_payloads: &'d dyn PayloadLookup,
    caches: &'d dyn CacheLookup,
    events: Vec<Event>,
    new_payloads: Vec<NewPayload>,
    cache_entries: Vec<CacheEntry>,
    extras: BTreeMap<EventId, EventExtras>,
    /// Externally assigned id of the next event of a type.
    reserved_event_id: Option<(EventType, EventId)>,
}

/// A checkpoint of a draft.
pub(super) struct DraftCheckpoint {
    state: ExecutionState,
    events: usize,
    payloads: usize,
    slots: usize,
    cache_entries: usize,
}

/// Reason why an evaluation did not yield a value.
#[derive(Debug)]
pub(super) enum StepEvalError {
    /// The decision cannot be made now.
    Decision(DecisionError),
    /// The step fails.
    Task(Box<TaskError>),
}

impl From<DecisionError> for StepEvalError {
    fn from(error: DecisionError) -> Self {
        Self::Decision(error)
    }
}

impl From<TaskError> for StepEvalError {
    fn from(error: TaskError) -> Self {
        Self::Task(Box::new(error))
    }
}

impl<'d> Draft<'d> {
    pub(super) fn new(
        state: &ExecutionState,
        plan: &'d Plan,
        context: &'d mut DecisionContext<'_>,
    ) -> Self {
        Self {
            plan,
            state: state.clone(),
            now: context.now,
            pass_count: 0,
            deferred_counts: BTreeMap::new(),
            grant: None,
            waiting_for_slot: BTreeMap::new(),
            execution_slot_request: None,
            previous_slot_requests: Vec::new(),
            has_evaluated_entries: false,
            slot_changes: Vec::new(),
            closed_at_once: VecDeque::new(),
            follow_ups: Vec::new(),
            fuel: FuelBudget::new(plan.limits().fuel.saturating_mul(DECISION_FUEL_FACTOR)),
            ids: &mut *context.ids,
            fetched_payloads: context.payloads,
            caches: context.caches,
            events: Vec::with_capacity(8),
            new_payloads: Vec::new(),
            cache_entries: Vec::new(),
            extras: BTreeMap::new(),
            reserved_event_id: None,
        }
    }

    pub(super) fn into_decision(mut self, verdict: InputVerdict) -> Decision {
        let mut slots = std::mem::take(&mut self.slot_changes);
        slots.extend(super::slots::obsolete_requests(&self).map(SlotChange::Release));
        if !self.state.is_ended() {
            let requests = self.execution_slot_request.take().into_iter();
            let requests = requests.chain(std::mem::take(&mut self.waiting_for_slot).into_values());
            slots.extend(requests.map(SlotChange::Request));
        }
        Decision {
            events: self.events,
            payloads: self.new_payloads,
            slots,
            cache_entries: self.cache_entries,
            follow_ups: self.follow_ups,
            extras: self.extras,
            verdict,
            next: self.state,
        }
    }

    /// Returns only the slot requests of the decision.
    pub(super) fn into_slot_requests(self) -> Vec<SlotRequest> {
        let requests = self.execution_slot_request.into_iter();
        requests.chain(self.waiting_for_slot.into_values()).collect()
    }

    /// Looks up a cached result. Results of this decision take precedence: the caller cannot have
    /// seen them.
    pub(super) fn look_up_cache(&self, key: &CacheKey) -> Option<CacheLookupResult> {
        let is_live = |ttl: Option<Millis>| ttl.is_none_or(|ttl| !ttl.is_zero());
        let mut entries = self.cache_entries.iter().rev();
        let found = entries.find(|entry| entry.key == *key && is_live(entry.ttl));
        match found.zip(self.state.execution_id()) {
            None => self.caches.get(key),
            Some((entry, execution_id)) => Some(CacheLookupResult::Hit(Box::new(CacheHit {
                origin: ResultOrigin { execution_id, seq: entry.origin_seq },
                result: entry.result.clone(),
            }))),
        }
    }

    /// Emits an event.
    pub(super) fn emit_event(&mut self, kind: EventKind) -> Result<EventId> {
        self.emit_with_cause(kind, None, self.now)
    }

    /// Emits an event whose cause is not the previous event.
    pub(super) fn emit_caused_by(&mut self, kind: EventKind, cause: EventId) -> Result<EventId> {
        self.emit_with_cause(kind, Some(cause), self.now)
    }

    /// Emits an event that happened elsewhere. Times in the future are replaced by the current
    /// time.
    pub(super) fn emit_at(&mut self, kind: EventKind, time: Option<Timestamp>) -> Result<EventId> {
        let time = time.unwrap_or(self.now).min(self.now);
        self.emit_with_cause(kind, None, time)
    }

    /// Emits an event with an externally assigned id and time.
    pub(super) fn emit_with_id(
        &mut self,
        kind: EventKind,
        event_id: EventId,
        time: Timestamp,
    ) -> Result<()> {
        self.apply_event(event_id, kind, None, time)
    }

    fn emit_with_cause(
        &mut self,
        kind: EventKind,
        cause: Option<EventId>,
        time: Timestamp,
    ) -> Result<EventId> {
        let is_ignored = matches!(kind, EventKind::ResultIgnored(_));
        let is_reserved =
            |reserved: &mut (EventType, EventId)| is_ignored || kind.name() == reserved.0;
        let event_id = match self.reserved_event_id.take_if(is_reserved) {
            Some((_, event_id)) => event_id,
            None => self.next_id()?,
        };
        self.apply_event(event_id, kind, cause, time)?;
        Ok(event_id)
    }

    fn apply_event(
        &mut self,
        event_id: EventId,
        kind: EventKind,
        cause: Option<EventId>,
        time: Timestamp,
    ) -> Result<()> {
        let event = Event { seq: self.state.version().next_seq(), event_id, time, cause, kind };
        self.track_slots_and_cache(&event.kind);
        self.state.apply(self.plan, &event)?;
        self.events.push(event);
        Ok(())
    }

    /// Assigns an external id to the next event of a type, or to the `command.result_ignored` that
    /// replaces it.
    pub(super) fn reserve_event_id(&mut self, event_type: EventType, event_id: EventId) {
        self.reserved_event_id = Some((event_type, event_id));
    }

    /// Adds extra fields to an event.
    pub(super) fn attach_extras(&mut self, event_id: EventId, extras: EventExtras) {
        self.extras.insert(event_id, extras);
    }

    /// Events emitted so far.
    pub(super) fn events(&self) -> &[Event] {
        &self.events
    }

    /// Updates slots and cache entries for an event that is about to be emitted.
    fn track_slots_and_cache(&mut self, kind: &EventKind) {
        if let EventKind::StepExited(exited) = kind {
            self.cache_entries.extend(cache::entry_on_exit(self, exited));
            let step = self.plan.find_step(exited.step.as_str());
            let pass = step.and_then(|step| self.state.active_pass(step));
            if let Some(slot) = pass.and_then(|pass| pass.slot.as_ref()) {
                self.slot_changes.push(SlotChange::Release(SlotGrant {
                    holder: SlotHolder::Step { step: exited.step.clone(), run: exited.run },
                    key: slot.key.clone(),
                }));
            }
        }
        let is_terminal = || kind.name().known_type().is_some_and(EventType::is_terminal);
        if self.plan.uses_slots() && is_terminal() {
            self.slot_changes.push(SlotChange::ReleaseAll);
        }
    }

    /// Creates a checkpoint, for a later rollback.
    pub(super) fn checkpoint(&self) -> DraftCheckpoint {
        DraftCheckpoint {
            state: self.state.clone(),
            events: self.events.len(),
            payloads: self.new_payloads.len(),
            slots: self.slot_changes.len(),
            cache_entries: self.cache_entries.len(),
        }
    }

    /// Discards everything since a checkpoint.
    pub(super) fn roll_back(&mut self, checkpoint: DraftCheckpoint) {
        self.state = checkpoint.state;
        self.events.truncate(checkpoint.events);
        self.new_payloads.truncate(checkpoint.payloads);
        self.slot_changes.truncate(checkpoint.slots);
        self.cache_entries.truncate(checkpoint.cache_entries);
    }

    /// Id of the last event.
    pub(super) fn last_event_id(&self) -> Option<EventId> {
        self.events.last().map(|event| event.event_id)
    }

    pub(super) fn step_plan(&self, step: StepIndex) -> &'d StepPlan {
        self.plan.step(step)
    }

    pub(super) fn step_name(&self, step: StepIndex) -> StepName {
        self.plan.step(step).name.clone()
    }

    /// Active pass of a step that must be entered.
    pub(super) fn active_pass(&self, step: StepIndex) -> Result<&StepPass> {
        self.state.active_pass(step).ok_or_else(|| self.invariant_error("run"))
    }

    /// Number of commands of a step that are open, or closed and not processed yet.
    pub(super) fn unfinished_commands(&self, step: StepIndex) -> usize {
        let open = self.state.active_pass(step).map_or(0, |pass| pass.open as usize);
        open + self.deferred_counts.get(&step).copied().unwrap_or_default()
    }

    /// Returns the error for a broken invariant: a bug in the engine.
    pub(super) fn invariant_error(&self, what: &'static str) -> DecisionError {
        DecisionError::InvariantBroken(ApplyError {
            seq: self.state.version().next_seq(),
            misfit: ApplyErrorKind::Contradiction(what),
        })
    }

    pub(super) fn execution_id(&self) -> Result<ExecutionId> {
        self.state.execution_id().ok_or(DecisionError::NotStarted)
    }

    /// Template environment of a step.
    pub(super) fn environment<'s>(
        &'s self,
        step: StepIndex,
        focus: TemplateFocus<'s>,
    ) -> ExecutionEnvironment<'s> {
        ExecutionEnvironment::new(self.plan, &self.state, step, focus)
            .with_payloads(self.payload_source())
            .with_budget(&self.fuel)
            .with_time(self.now)
    }

    pub(super) fn payload_source(&self) -> PayloadSource<'_> {
        PayloadSource { fetched: self.fetched_payloads, fresh: &self.new_payloads }
    }

    /// Returns an error unless the execution has started and not ended.
    pub(super) fn ensure_not_ended(&self) -> Result<()> {
        self.ensure_started()?;
        match self.state.phase {
            ExecutionPhase::Ended(status) => Err(DecisionError::AlreadyEnded(status)),
            ExecutionPhase::New | ExecutionPhase::Running | ExecutionPhase::Paused => Ok(()),
        }
    }

    /// Returns an error unless the execution has started.
    pub(super) fn ensure_started(&self) -> Result<()> {
        self.execution_id().map(|_| ())
    }

    /// Converts a value to event data. A value over the budget is moved to a payload.
    pub(super) fn inline_or_store(
        &mut self,
        name: &StepName,
        value: Json,
        budget: u64,
    ) -> Result<EventData> {
        let execution_id = self.execution_id()?;
        self.inline_or_store_for(execution_id, name, value, budget)
    }

    /// Converts a value to event data of an execution that is about to start.
    pub(super) fn inline_or_store_for(
        &mut self,
        execution_id: ExecutionId,
        name: &StepName,
        value: Json,
        budget: u64,
    ) -> Result<EventData> {
        let budget = usize::try_from(budget).unwrap_or(usize::MAX);
        if value.is_null() || fits_within(&value, budget) {
            return Ok(EventData::Inline(value));
        }
        self.store_payload_for(execution_id, name, value).map(EventData::External)
    }

    /// Moves a value to a payload.
    pub(super) fn store_payload(&mut self, name: &StepName, value: Json) -> Result<Reference> {
        let execution_id = self.execution_id()?;
        self.store_payload_for(execution_id, name, value)
    }

    fn next_id<T: TypedId>(&mut self) -> Result<T> {
        Ok(T::from_snowflake(self.ids.next_number(self.now.as_unix_ms())?))
    }

    /// Creates an id for a child execution.
    pub(super) fn new_execution_id(&mut self) -> Result<ExecutionId> {
        self.next_id()
    }

    fn store_payload_for(
        &mut self,
        execution_id: ExecutionId,
        name: &StepName,
        value: Json,
    ) -> Result<Reference> {
        let result_id: ResultId = self.next_id()?;
        let step = self.plan.find_step(name.as_str());
        let rules = step.map(|step| &self.plan.step(step).extraction_rules);
        let default = ExtractionRules::default();
        let rules = rules.unwrap_or(&default);
        let payload = NewPayload::new(execution_id, name.clone(), result_id, value, rules);
        let reference = payload.reference.clone();
        self.new_payloads.push(payload);
        Ok(reference)
    }
}

/// Returns the error for a value that is nested too deeply for an event.
pub(super) fn depth_error(value: &Json, what: &str) -> Option<TaskError> {
    if is_shallow(value, MAX_VALUE_DEPTH) {
        return None;
    }
    let message = format!("{what} is nested more than {MAX_VALUE_DEPTH} levels deep");
    Some(TaskError::new(TaskErrorKind::Limit, message))
}

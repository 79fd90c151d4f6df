//! First phase: decides messages in sequence, as many as fit into one append.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use noetl_engine::event::Event;
use noetl_engine::{
    Decision, DecisionContext, DecisionError, EngineInput, ExecutionState, InputVerdict,
    SlotChange, decide,
};
use noetl_store::{MAX_APPEND_EVENTS, MAX_APPEND_RESULT_BYTES, NewResult};
use noetl_types::{ByteSize, ExecutionVersion, Json, sha256};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::time::Instant;

use super::{DecidedMessage, Turn};
use crate::driver::cross_run_effects::CrossRunEffects;
use crate::driver::loaded_execution::LoadedExecution;
use crate::driver::message::MAX_SMALL_BATCH;
use crate::driver::queue_delta::{QueueDefaults, QueueDelta};
use crate::driver::{Driver, Message, MessageBatch, MessageReply};
use crate::error::{Result, RuntimeError};

/// A turn after its decisions, and the batches that wait for the next one.
pub(super) struct DecidedTurn {
    /// Turn to append. If there is nothing to append, the execution, or `None` if its state is
    /// unknown.
    pub(super) turn: Result<Turn, Option<Box<LoadedExecution>>>,
    pub(super) rest: VecDeque<MessageBatch>,
}

/// Reason why a batch led to no decision.
enum DecisionFailure {
    /// The engine rejected the batch in the known state.
    Refused(DecisionError),
    /// In the known state, the result is too large for one append.
    TooLarge,
    /// Data that the decision needs could not be loaded.
    Failed(RuntimeError),
}

impl DecisionFailure {
    /// Answers the senders.
    fn answer_batch(self, batch: MessageBatch) {
        match self {
            Self::Refused(refused) => batch.reject_all(refused.into()),
            Self::TooLarge => batch.reject_all(AppendSize::too_large_error()),
            Self::Failed(error) => batch.fail_all(error),
        }
    }

    /// True if the failure depends on the state. A failure causes no append that would verify the
    /// state, so the state must be the newest.
    fn depends_on_state(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::TooLarge)
    }
}

impl Turn {
    /// Decides messages in sequence, as many as fit into one append.
    pub(super) async fn decide(
        driver: &Arc<Driver>,
        execution: LoadedExecution,
        mut batches: VecDeque<MessageBatch>,
    ) -> DecidedTurn {
        let mut turn = Self::new(driver, execution, &batches);
        let mut payloads = BTreeMap::new();
        // The state of a new execution is the newest: no other server can have changed an execution
        // that is not in the store yet.
        let mut is_newest = turn.execution.new_facts.is_some();
        while let Some(batch) = batches.pop_front() {
            // A message that may have been applied before gets a separate append, so that it
            // cannot make others fail.
            let is_separate = batch.needs_separate_append();
            if is_separate && !turn.decided.is_empty() {
                batches.push_front(batch);
                break;
            }
            if batch.is_large() {
                return DecidedTurn {
                    turn: turn.decide_large_batch(batch, is_newest).await,
                    rest: batches,
                };
            }
            if turn.has_already_started(&batch) {
                turn.accept_earlier_start(batch);
                continue;
            }
            match turn.decide_batch(&batch, &mut payloads).await {
                Err(failure) if failure.depends_on_state() && !is_newest => {
                    if !turn.decided.is_empty() {
                        batches.push_front(batch);
                        break;
                    }
                    match turn.catch_up().await {
                        Ok(()) => {
                            is_newest = true;
                            batches.push_front(batch);
                        }
                        // Callers treat a rejection as final, so an unknown state is reported as a
                        // failure instead.
                        Err(error) => batch.fail_all(error),
                    }
                }
                Err(failure) => failure.answer_batch(batch),
                Ok(decisions) if turn.needs_separate_append(&batch, &decisions) => {
                    batches.push_front(batch);
                    break;
                }
                Ok(decisions) => {
                    let pairs = batch.into_messages().into_iter().zip(decisions);
                    let decided =
                        pairs.map(|(message, decision)| turn.add_decision(message, decision));
                    let decided = decided.collect();
                    turn.decided.push(decided);
                }
            }
            if turn.size.is_full() || is_separate && !turn.decided.is_empty() {
                break;
            }
        }
        DecidedTurn { turn: turn.into_turn_or_answer(), rest: batches }
    }

    /// Creates a turn without decisions.
    fn new(
        driver: &Arc<Driver>,
        execution: LoadedExecution,
        batches: &VecDeque<MessageBatch>,
    ) -> Self {
        let messages = batches.iter().map(|batch| batch.messages().len());
        Self {
            driver: Arc::clone(driver),
            now: driver.infra.now(),
            timers: execution.open_timers(),
            waits: execution.open_waits(),
            // With few messages, a conflict costs only the tail of the log.
            before: (messages.sum::<usize>() <= MAX_SMALL_BATCH).then(|| execution.cheap_clone()),
            execution,
            decided: Vec::with_capacity(batches.len()),
            fences: BTreeMap::new(),
            events: Vec::new(),
            changes: QueueDelta::default(),
            results: Vec::new(),
            size: AppendSize::default(),
            event_extras: BTreeMap::new(),
            effects: CrossRunEffects::default(),
            armed: Vec::new(),
        }
    }

    /// Applies events that others appended, so that the state is current.
    async fn catch_up(&mut self) -> Result<()> {
        let is_small = self.before.is_some();
        self.before = None;
        let caught_up = self.execution.catch_up(&self.driver).await;
        self.before = is_small.then(|| self.execution.cheap_clone());
        self.timers = self.execution.open_timers();
        self.waits = self.execution.open_waits();
        caught_up
    }

    /// Adds the decision about a message to the turn.
    fn add_decision(&mut self, message: Message, mut decision: Decision) -> DecidedMessage {
        let verdict = decision.verdict;
        self.size = self.size.with_decision(&decision);
        self.event_extras.append(&mut decision.extras);
        let results = decision.payloads.iter().map(|payload| NewResult {
            result_id: payload.result_id,
            name: payload.name.as_str().into(),
            sha256: sha256(&payload.bytes),
            bytes: Arc::clone(&payload.bytes),
            media_type: "application/json".into(),
        });
        self.results.extend(results);
        let fence = message.fence.clone();
        if let (InputVerdict::Accepted, Some(fence)) = (verdict, fence) {
            self.fences.insert(fence.command_id, fence);
        }
        let defaults =
            QueueDefaults { pool: &self.execution.pool, priority: self.execution.priority };
        self.changes
            .add_decision(&decision.events, &self.execution.state, &decision.next, &defaults);
        self.effects.add_decision(&message.input, &decision, &self.execution, self.now);
        let is_issue =
            |event: &&Event| matches!(event.kind, noetl_engine::EventKind::CommandIssued(_));
        let issued = decision.events.iter().filter(is_issue).count();
        let slot_requests = decision.slots.iter().filter_map(|change| match change {
            SlotChange::Request(request) => Some(request.clone()),
            SlotChange::Release(_) | SlotChange::ReleaseAll => None,
        });
        let slot_requests = slot_requests.collect();
        let events = decision.commit_to(&mut self.execution.state);
        self.execution.record_events(&events);
        self.events.extend(events);
        DecidedMessage {
            message,
            verdict,
            issued: u32::try_from(issued).unwrap_or(u32::MAX),
            slot_requests,
        }
    }

    /// Answers all messages without an append.
    fn answer_without_writing(self) -> Box<LoadedExecution> {
        let version = self.execution.head.version;
        for decided in self.decided.into_iter().flatten() {
            let reply = MessageReply {
                verdict: Some(decided.verdict),
                version,
                slot_requests: decided.slot_requests,
                ..MessageReply::default()
            };
            drop(decided.message.reply.send(Ok(reply)));
        }
        Box::new(self.execution)
    }

    /// Returns the turn, or answers all messages if there is nothing to write.
    fn into_turn_or_answer(self) -> Result<Self, Option<Box<LoadedExecution>>> {
        if self.events.is_empty() { Err(Some(self.answer_without_writing())) } else { Ok(self) }
    }

    /// Decides a large batch. Each message is applied before the next one is decided, so that only
    /// one state is in memory for any number of messages. If one of them is rejected, the state
    /// already contains the effects of the messages before it, and the log must be read again.
    async fn decide_large_batch(
        mut self,
        batch: MessageBatch,
        is_newest: bool,
    ) -> Result<Self, Option<Box<LoadedExecution>>> {
        if !is_newest && let Err(error) = self.catch_up().await {
            batch.fail_all(error);
            return Err(None);
        }
        let mut payloads = BTreeMap::new();
        let mut messages = VecDeque::from(batch.into_messages());
        let mut decided = Vec::with_capacity(messages.len());
        let failure = loop {
            if self.size.exceeds_limit() {
                break DecisionFailure::TooLarge;
            }
            let Some(message) = messages.pop_front() else {
                self.decided.push(decided);
                return self.into_turn_or_answer();
            };
            let state = &self.execution.state;
            match self.decide_message(state, &message, &mut payloads).await {
                Ok(decision) => decided.push(self.add_decision(message, decision)),
                Err(failure) => {
                    messages.push_front(message);
                    break failure;
                }
            }
        };
        let decided_messages = decided.into_iter().map(|decided| decided.message);
        if let Some(batch) = MessageBatch::from_messages(decided_messages.chain(messages).collect())
        {
            failure.answer_batch(batch);
        }
        Err(None)
    }

    /// Decides the messages of a batch, each in the state that results from the message before it.
    async fn decide_batch(
        &self,
        batch: &MessageBatch,
        payloads: &mut BTreeMap<Arc<str>, Json>,
    ) -> Result<Vec<Decision>, DecisionFailure> {
        let mut decisions: Vec<Decision> = Vec::with_capacity(batch.messages().len());
        let mut size = AppendSize::default();
        for message in batch.messages() {
            let state = decisions.last().map_or(&self.execution.state, |last| &last.next);
            let decision = self.decide_message(state, message, payloads).await?;
            size = size.with_decision(&decision);
            if size.exceeds_limit() {
                return Err(DecisionFailure::TooLarge);
            }
            decisions.push(decision);
        }
        Ok(decisions)
    }

    /// Decides one message, and loads the payloads and cached results that it needs.
    async fn decide_message(
        &self,
        state: &ExecutionState,
        message: &Message,
        payloads: &mut BTreeMap<Arc<str>, Json>,
    ) -> Result<Decision, DecisionFailure> {
        let mut caches = BTreeMap::new();
        loop {
            let plan = &self.execution.definition.plan;
            let started = Instant::now();
            let result = self.run_decision(|| {
                self.driver.infra.ids.run_decision(self.now, |ids| {
                    let payloads = &*payloads;
                    let mut context =
                        DecisionContext { now: self.now, ids, payloads, caches: &caches };
                    decide(state, plan, message.input.clone(), &mut context)
                })
            });
            self.execution.definition.record_decision(started.elapsed());
            match result.map_err(|error| DecisionFailure::Failed(error.into()))? {
                Ok(decision) => {
                    for payload in &decision.payloads {
                        payloads.insert(payload.reference.uri().into(), payload.content.clone());
                    }
                    return Ok(decision);
                }
                Err(DecisionError::NeedsPayload(uri)) if !payloads.contains_key(&uri) => {
                    let payload = self
                        .driver
                        .results
                        .fetch_result(&uri)
                        .await
                        .map_err(DecisionFailure::Failed)?;
                    payloads.insert(uri, payload);
                }
                Err(DecisionError::NeedsCache(key)) if !caches.contains_key(&key) => {
                    let tenant_id = &self.execution.header.tenant_id;
                    let cached = self.driver.find_cached_result(tenant_id, &key, self.now).await;
                    caches.insert(key, cached.map_err(DecisionFailure::Failed)?);
                }
                Err(refused) => return Err(DecisionFailure::Refused(refused)),
            }
        }
    }

    /// Runs a decision, on a thread that serves no other tasks if it may be slow.
    fn run_decision<T>(&self, decide: impl FnOnce() -> T) -> T {
        let has_other_threads = Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
        if self.execution.definition.may_decide_slowly() && has_other_threads {
            tokio::task::block_in_place(decide)
        } else {
            decide()
        }
    }

    /// True if decisions need a separate append: they are too large for this one, they change a
    /// command that this append already changes, or they require another condition on a lease
    /// than this append does. Within a batch, the last condition on a lease counts.
    fn needs_separate_append(&self, batch: &MessageBatch, decisions: &[Decision]) -> bool {
        let fences = batch.messages().iter().filter_map(|message| message.fence.as_ref());
        let differs = |fence: &noetl_store::Fence| {
            let existing = self.fences.get(&fence.command_id);
            existing.is_some_and(|existing| existing != fence)
        };
        let size = decisions.iter().fold(self.size, AppendSize::with_decision);
        size.exceeds_limit()
            || decisions.iter().any(|decision| self.changes.has_conflict(&decision.events))
            || fences.into_iter().any(differs)
    }

    /// True if a batch starts an execution that has already begun. Ids are unique, so an earlier
    /// attempt of the same message succeeded although its result was lost.
    fn has_already_started(&self, batch: &MessageBatch) -> bool {
        let is_start = |message: &Message| matches!(message.input, EngineInput::Start(_));
        batch.messages().iter().any(is_start)
            && self.execution.state.version() > ExecutionVersion::EMPTY
    }

    fn accept_earlier_start(&mut self, batch: MessageBatch) {
        let issued = u32::try_from(self.execution.state.open_command_count()).unwrap_or(u32::MAX);
        let decided = batch.into_messages().into_iter().map(|message| DecidedMessage {
            message,
            verdict: InputVerdict::Accepted,
            issued,
            slot_requests: Vec::new(),
        });
        self.decided.push(decided.collect());
    }
}

/// Number of events after which an append takes no further decision.
const TARGET_APPEND_EVENTS: usize = 4_000;
/// Bytes of results after which an append takes no further decision.
const TARGET_APPEND_RESULT_BYTES: usize = 8 * 1024 * 1024;

/// Size of the decisions in an append.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct AppendSize {
    events: usize,
    /// Bytes of results.
    bytes: usize,
}

impl AppendSize {
    /// Returns the size with one more decision.
    #[must_use]
    pub(super) fn with_decision(self, decision: &Decision) -> Self {
        let bytes = decision.payloads.iter().map(|payload| payload.bytes.len());
        Self {
            events: self.events + decision.events.len(),
            bytes: self.bytes + bytes.sum::<usize>(),
        }
    }

    /// True if the append should take no further decision.
    pub(super) fn is_full(self) -> bool {
        self.events >= TARGET_APPEND_EVENTS || self.bytes >= TARGET_APPEND_RESULT_BYTES
    }

    /// True if it exceeds the maximum of one append.
    pub(super) fn exceeds_limit(self) -> bool {
        self.events > MAX_APPEND_EVENTS || self.bytes > MAX_APPEND_RESULT_BYTES
    }

    /// Error for input that exceeds the maximum of one append.
    pub(super) fn too_large_error() -> RuntimeError {
        let bytes = ByteSize::from_bytes(MAX_APPEND_RESULT_BYTES as u64);
        let text = format!(
            "the input leads to more than {MAX_APPEND_EVENTS} events or {bytes} of results; \
             send it in smaller parts"
        );
        RuntimeError::too_large(text)
    }
}

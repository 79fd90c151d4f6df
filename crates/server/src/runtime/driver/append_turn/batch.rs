//! Decides messages in sequence, as many as fit into one append.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use noetl_engine::{
    Decision, DecisionContext, DecisionError, EngineInput, ExecutionState, InputVerdict, decide,
};
use noetl_types::{ExecutionVersion, Json};

use super::append_size::AppendSize;
use super::{AppendDraft, DecidedMessage};
use crate::runtime::Core;
use crate::runtime::driver::loaded_execution::LoadedExecution;
use crate::runtime::driver::message::{Message, MessageBatch};
use crate::runtime::error::RuntimeError;

/// Decided messages, and those that wait for the next append.
pub(super) struct DecidedBatch {
    /// Draft to append. If there is nothing to append, the execution, or `None` if its state is
    /// unknown.
    pub(super) draft: Result<AppendDraft, Option<Box<LoadedExecution>>>,
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

impl DecidedBatch {
    /// Decides messages in sequence, as many as fit into one append.
    pub(super) async fn decide_batches(
        core: &Arc<Core>,
        execution: LoadedExecution,
        mut batches: VecDeque<MessageBatch>,
    ) -> Self {
        let mut draft = AppendDraft::new(execution, &batches, core.clock.now());
        let mut payloads = BTreeMap::new();
        // The state of a new execution is the newest: no other server can have changed an execution
        // that is not in the store yet.
        let mut is_newest = draft.execution.new_facts.is_some();
        while let Some(batch) = batches.pop_front() {
            // A message that may have been applied before gets a separate append, so that it
            // cannot make others fail.
            let is_separate = batch.needs_separate_append();
            if is_separate && !draft.decided.is_empty() {
                batches.push_front(batch);
                break;
            }
            if batch.is_large() {
                return Self {
                    draft: draft.decide_large_batch(core, batch, is_newest).await,
                    rest: batches,
                };
            }
            if draft.has_already_started(&batch) {
                draft.accept_earlier_start(batch);
                continue;
            }
            match draft.decide_batch(core, &batch, &mut payloads).await {
                Err(failure) if failure.depends_on_state() && !is_newest => {
                    if !draft.decided.is_empty() {
                        batches.push_front(batch);
                        break;
                    }
                    match draft.catch_up(core).await {
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
                Ok(decisions) if draft.needs_separate_append(&batch, &decisions) => {
                    batches.push_front(batch);
                    break;
                }
                Ok(decisions) => {
                    let pairs = batch.into_messages().into_iter().zip(decisions);
                    let decided =
                        pairs.map(|(message, decision)| draft.add_decision(message, decision));
                    let decided = decided.collect();
                    draft.decided.push(decided);
                }
            }
            if draft.size.is_full() || is_separate && !draft.decided.is_empty() {
                break;
            }
        }
        Self { draft: draft.into_draft_or_answer(), rest: batches }
    }
}

impl AppendDraft {
    /// Returns the draft, or answers all messages if there is nothing to write.
    fn into_draft_or_answer(self) -> Result<Self, Option<Box<LoadedExecution>>> {
        if self.events.is_empty() { Err(Some(self.answer_without_writing())) } else { Ok(self) }
    }

    /// Decides a large batch. Each message is applied before the next one is decided, so that only
    /// one state is in memory for any number of messages. If one of them is rejected, the state
    /// already contains the effects of the messages before it, and the log must be read again.
    async fn decide_large_batch(
        mut self,
        core: &Arc<Core>,
        batch: MessageBatch,
        is_newest: bool,
    ) -> Result<Self, Option<Box<LoadedExecution>>> {
        if !is_newest && let Err(error) = self.catch_up(core).await {
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
                return self.into_draft_or_answer();
            };
            let state = &self.execution.state;
            match self.decide_message(core, state, &message, &mut payloads).await {
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
        core: &Arc<Core>,
        batch: &MessageBatch,
        payloads: &mut BTreeMap<Arc<str>, Json>,
    ) -> Result<Vec<Decision>, DecisionFailure> {
        let mut decisions: Vec<Decision> = Vec::with_capacity(batch.messages().len());
        let mut size = AppendSize::default();
        for message in batch.messages() {
            let state = decisions.last().map_or(&self.execution.state, |last| &last.next);
            let decision = self.decide_message(core, state, message, payloads).await?;
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
        core: &Arc<Core>,
        state: &ExecutionState,
        message: &Message,
        payloads: &mut BTreeMap<Arc<str>, Json>,
    ) -> Result<Decision, DecisionFailure> {
        let mut caches = BTreeMap::new();
        loop {
            let plan = &self.execution.definition.plan;
            let result = core.id_allocator.with_generator(self.now, |ids| {
                let mut context =
                    DecisionContext { now: self.now, ids, payloads: &*payloads, caches: &caches };
                decide(state, plan, message.input.clone(), &mut context)
            });
            match result.map_err(|error| DecisionFailure::Failed(error.into()))? {
                Ok(decision) => {
                    for payload in &decision.payloads {
                        payloads.insert(payload.reference.uri().into(), payload.content.clone());
                    }
                    return Ok(decision);
                }
                Err(DecisionError::NeedsPayload(uri)) if !payloads.contains_key(&uri) => {
                    let payload = core.fetch_result(&uri).await.map_err(DecisionFailure::Failed)?;
                    payloads.insert(uri, payload);
                }
                Err(DecisionError::NeedsCache(key)) if !caches.contains_key(&key) => {
                    let tenant_id = &self.execution.header.tenant_id;
                    let cached = core.find_cached_result(tenant_id, &key, self.now).await;
                    caches.insert(key, cached.map_err(DecisionFailure::Failed)?);
                }
                Err(refused) => return Err(DecisionFailure::Refused(refused)),
            }
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

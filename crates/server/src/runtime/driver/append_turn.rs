//! One turn of a mailbox: decides the messages that have accumulated, appends the result, and
//! answers the senders.

mod append_refused;
mod append_size;
mod batch;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use noetl_api::command::LeasedCommand;
use noetl_engine::event::Event;
use noetl_engine::{Decision, EventExtras, InputVerdict, SlotChange, SlotRequest, encode_event};
use noetl_store::{
    AppendError, AppendReceipt, AppendRequest, Fence, NewResult, NewWait, StoreError, TimerChange,
};
use noetl_types::{
    CommandId, ErrorCode, EventId, Json, JsonMap, NewEvent, Text, Timestamp, sha256,
};

use self::append_size::AppendSize;
use self::batch::DecidedBatch;
use super::cross_run_effects::{CrossRunEffects, diff_waits};
use super::eager_lease::{EagerLeases, SenderPoll};
use super::loaded_execution::LoadedExecution;
use super::mailbox::Mailbox;
use super::message::{MAX_SMALL_BATCH, Message, MessageBatch, MessageReply, ReservedKeys};
use super::queue_delta::{QueueDefaults, QueueDelta, diff_timers};
use crate::metrics::EventLabels;
use crate::runtime::error::RuntimeError;
use crate::runtime::outcome::ExecutionOutcome;
use crate::runtime::{Core, rng};

/// Maximum batches per append.
const MAX_BATCHES_PER_APPEND: usize = 256;
/// Attempts at an append before the senders get an error.
const MAX_APPEND_ATTEMPTS: u32 = 30;

/// Drains a mailbox until it is empty.
pub(super) async fn run_mailbox(core: &Arc<Core>, mailbox: &Arc<Mailbox>) {
    while let Some(batches) = mailbox.take_batches(MAX_BATCHES_PER_APPEND) {
        let mut guard = mailbox.execution.lock().await;
        let execution = guard.take();
        *guard = process_batches(core, mailbox, execution, batches).await;
        let has_ended = guard.as_ref().is_none_or(|execution| execution.state.is_ended());
        drop(guard);
        if has_ended {
            core.driver.executions.remove_ended(mailbox);
        }
    }
}

/// Processes batches. Returns the execution afterwards, unless its state is unknown.
async fn process_batches(
    core: &Arc<Core>,
    mailbox: &Mailbox,
    mut execution: Option<LoadedExecution>,
    mut batches: VecDeque<MessageBatch>,
) -> Option<LoadedExecution> {
    // Last error of the store.
    let mut last_error: Option<StoreError> = None;
    for attempt in 0..MAX_APPEND_ATTEMPTS {
        let current = match execution.take() {
            Some(execution) => execution,
            None => match LoadedExecution::load(core, mailbox.execution_id).await {
                Ok(Some(execution)) => execution,
                Ok(None) => {
                    fail_batches(batches, RuntimeError::no_execution());
                    return None;
                }
                Err(error) => {
                    fail_batches(batches, error);
                    return None;
                }
            },
        };
        batches = reject_unauthorized(&current, batches);
        let batch = DecidedBatch::decide_batches(core, current, batches).await;
        mailbox.return_batches(batch.rest);
        let draft = match batch.draft {
            Ok(draft) => draft,
            // There is nothing to write.
            Err(execution) => return execution.map(|execution| *execution),
        };
        match draft.write_append(core).await {
            AppendResult::Done(execution) => return Some(*execution),
            AppendResult::Retry { execution: reloaded, batches: remaining, pause, error } => {
                if remaining.is_empty() {
                    return reloaded.map(|execution| *execution);
                }
                batches = remaining;
                last_error = error;
                execution = reloaded.map(|execution| *execution);
                if pause {
                    tokio::time::sleep(rng::backoff_delay(&*core.rng, attempt)).await;
                }
            }
            AppendResult::Refused { batches, error } => {
                fail_batches(batches, error);
                return None;
            }
        }
    }
    let error = last_error.map_or_else(
        || {
            let text = "too many concurrent writes to the execution; try again later";
            RuntimeError::refused(ErrorCode::StoreUnavailable, text)
        },
        RuntimeError::from,
    );
    fail_batches(batches, error);
    None
}

/// Returns the batches whose senders may access the execution, and rejects the others.
fn reject_unauthorized(
    execution: &LoadedExecution,
    batches: VecDeque<MessageBatch>,
) -> VecDeque<MessageBatch> {
    let access_error = |message: &Message| {
        let auth = message.auth_context.as_ref()?;
        auth.check_execution_access(&execution.header.tenant_id, &execution.pool).err()
    };
    let keep = |batch: MessageBatch| match batch.messages().iter().find_map(access_error) {
        Some(error) => {
            batch.reject_all(error);
            None
        }
        None => Some(batch),
    };
    batches.into_iter().filter_map(keep).collect()
}

fn fail_batches(batches: VecDeque<MessageBatch>, error: RuntimeError) {
    let problem = error.into_problem();
    for batch in batches {
        batch.fail_all(problem.clone().into());
    }
}

/// Decisions that wait to be appended.
struct AppendDraft {
    now: Timestamp,
    /// Execution after the decisions.
    execution: LoadedExecution,
    /// Execution before the decisions, if it is cheap to keep.
    before: Option<LoadedExecution>,
    /// Decided messages, grouped by batch.
    decided: Vec<Vec<DecidedMessage>>,
    /// Fences that the decisions depend on, one per command.
    fences: BTreeMap<CommandId, Fence>,
    events: Vec<Event>,
    changes: QueueDelta,
    results: Vec<NewResult>,
    /// Size of the append.
    size: AppendSize,
    /// Extra data stored with some of the events.
    event_extras: BTreeMap<EventId, EventExtras>,
    /// Effects beyond the execution.
    effects: CrossRunEffects,
    /// Open waits before the decisions.
    waits: BTreeMap<CommandId, NewWait>,
    timers: BTreeMap<Text, Timestamp>,
    /// Timers that the append arms.
    armed: Vec<(Text, Timestamp)>,
}

struct DecidedMessage {
    message: Message,
    verdict: InputVerdict,
    issued: u32,
    slot_requests: Vec<SlotRequest>,
}

impl DecidedMessage {
    /// Keys that it reserves. The number of commands that a start issues is known only now, and
    /// every later replay of the answer must contain it.
    fn final_reserved_keys(&self) -> ReservedKeys {
        let mut keys = self.message.reserved_keys.clone();
        if let Some(record) = &mut keys.idempotency
            && let Json::Map(answer) = &record.answer
            && answer.contains_key(ISSUED_COUNT_FIELD)
        {
            let mut answer = JsonMap::clone(answer);
            answer.insert(ISSUED_COUNT_FIELD.into(), Json::from(i64::from(self.issued)));
            record.answer = Json::from(answer);
        }
        keys
    }
}

/// Field of the answer to a start that holds the number of issued commands.
const ISSUED_COUNT_FIELD: &str = "commands_generated";

/// A successful append.
struct CommittedAppend {
    receipt: AppendReceipt,
    /// New commands that are leased to the senders, by message index.
    leased: BTreeMap<usize, Vec<LeasedCommand>>,
    /// Number of new commands that no worker got.
    unassigned: usize,
    /// Outcome, if the execution has ended.
    outcome: Option<ExecutionOutcome>,
}

/// Result of an append.
enum AppendResult {
    Done(Box<LoadedExecution>),
    /// The messages must be decided again.
    Retry {
        /// Current execution, if it is known.
        execution: Option<Box<LoadedExecution>>,
        batches: VecDeque<MessageBatch>,
        /// True if the retry should back off first.
        pause: bool,
        /// Error of the store, if it failed.
        error: Option<StoreError>,
    },
    Refused {
        batches: VecDeque<MessageBatch>,
        error: RuntimeError,
    },
}

impl AppendDraft {
    /// Creates an empty draft.
    fn new(execution: LoadedExecution, batches: &VecDeque<MessageBatch>, now: Timestamp) -> Self {
        let messages = batches.iter().map(|batch| batch.messages().len());
        Self {
            now,
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
    async fn catch_up(&mut self, core: &Arc<Core>) -> Result<(), RuntimeError> {
        let is_small = self.before.is_some();
        self.before = None;
        let caught_up = self.execution.catch_up(core).await;
        self.before = is_small.then(|| self.execution.cheap_clone());
        self.timers = self.execution.open_timers();
        self.waits = self.execution.open_waits();
        caught_up
    }

    /// Adds the decision about a message to the draft.
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
        self.changes.add_decision(
            &decision.events,
            &self.execution.state,
            &decision.next,
            &defaults,
        );
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

    fn poll_requests(&self) -> Vec<SenderPoll> {
        let to_poll = |(index, decided): (usize, &DecidedMessage)| {
            let request = decided.message.poll_request.as_ref()?;
            Some(SenderPoll { message: index, request: Arc::clone(request) })
        };
        let decided = self.decided.iter().flatten().enumerate();
        decided.filter_map(to_poll).collect()
    }

    async fn write_append(mut self, core: &Arc<Core>) -> AppendResult {
        let polls = self.poll_requests();
        let execution_id = self.execution.header.execution_id;
        let grants =
            EagerLeases::assign_commands(core, &mut self.changes, &polls, execution_id, self.now);
        let append = AppendRequest {
            use_outbox: core.settings.outbox && !self.execution.is_publisher(),
            ..self.build_append()
        };
        let outcome = self.events.iter().rev().find_map(ExecutionOutcome::from_event);
        let event_labels: Vec<_> = append.events.iter().map(EventLabels::from_event).collect();
        let started = tokio::time::Instant::now();
        match core.append(append).await {
            Ok(receipt) => {
                core.metrics.record_append(&event_labels, started.elapsed());
                let unassigned = grants.unassigned;
                let catalog_id = self.execution.definition.entry.catalog_id;
                let committed = CommittedAppend {
                    receipt,
                    leased: grants.deliver_commands(core, &self.events, catalog_id, execution_id),
                    unassigned,
                    outcome,
                };
                AppendResult::Done(self.publish_append(core, committed))
            }
            Err(error) => {
                if matches!(error, AppendError::Conflict { .. }) {
                    core.metrics.count_append_conflict();
                }
                grants.undo_assignment(core, &polls);
                self.handle_failure(core, error).await
            }
        }
    }

    fn build_append(&mut self) -> AppendRequest {
        let execution = &self.execution;
        let timers = diff_timers(&self.timers, &execution.open_timers());
        self.armed = timers.iter().filter_map(armed_timer).collect();
        let catalog_id = execution.definition.entry.catalog_id;
        let extras = &self.event_extras;
        let record = |event: &Event| {
            let record =
                NewEvent { catalog_id: Some(catalog_id), ..encode_event(event, &execution.header) };
            match extras.get(&event.event_id) {
                Some(extras) => extras.apply_to(record),
                None => record,
            }
        };
        let commands = std::mem::take(&mut self.changes).into_vec();
        let keys = self.decided.iter().flatten().map(DecidedMessage::final_reserved_keys);
        let keys = keys.fold(ReservedKeys::default(), |reserved, keys| ReservedKeys {
            dedup: reserved.dedup.or(keys.dedup),
            idempotency: reserved.idempotency.or(keys.idempotency),
        });
        AppendRequest {
            execution_id: execution.header.execution_id,
            expected_head: execution.head,
            now: self.now,
            events: self.events.iter().map(record).collect(),
            keep_checksums: false,
            is_projected: false,
            use_outbox: false,
            start: execution.new_facts.clone(),
            view: execution.list_view(),
            fences: self.fences.values().cloned().collect(),
            commands,
            timers,
            results: std::mem::take(&mut self.results),
            waits: diff_waits(&self.waits, execution.open_waits()),
            follow_ups: self.effects.follow_up_changes(self.now),
            slots: self.effects.take_slot_changes(),
            cache_puts: self.effects.take_cache_puts(),
            dedup: keys.dedup,
            idempotency: keys.idempotency,
        }
    }

    /// Publishes a successful append: answers senders, notifies followers and peers, starts
    /// follow-ups.
    fn publish_append(self, core: &Arc<Core>, committed: CommittedAppend) -> Box<LoadedExecution> {
        let CommittedAppend { receipt, mut leased, unassigned, outcome } = committed;
        let mut execution = self.execution;
        execution.head = receipt.head;
        execution.new_facts = None;
        if let Some(before) = self.before {
            // Only one copy of the state remains, so its changes need not be kept separately.
            drop(before);
            execution.state.settle();
        }
        if unassigned > 0 {
            core.matcher.add_backlog(&execution.pool, unassigned);
        }
        let execution_id = execution.header.execution_id;
        let version = receipt.head.version;
        core.timer_queue.add_timers(execution_id, self.armed);
        let cancels_children = |decided: &DecidedMessage| decided.message.cancels_children;
        let canceller = self.decided.iter().flatten().position(cancels_children);
        let (follow_ups, mut children) = self.effects.into_follow_ups(canceller.is_some());
        core.spawn_follow_ups(execution_id, follow_ups);
        if outcome.is_some() {
            core.queue_trace(execution_id);
        }
        core.followers.notify_progress(execution_id, version, outcome.clone());
        core.notify_log_growth();
        core.notify_peers(&execution.pool, unassigned, execution_id, outcome.is_some());
        for (index, decided) in self.decided.into_iter().flatten().enumerate() {
            let reply = MessageReply {
                earlier: None,
                verdict: Some(decided.verdict),
                version,
                issued: decided.issued,
                leased: leased.remove(&index).unwrap_or_default(),
                outcome: outcome.clone(),
                // The append recorded them.
                slot_requests: Vec::new(),
                children: match canceller {
                    Some(canceller) if canceller == index => std::mem::take(&mut children),
                    Some(_) | None => Vec::new(),
                },
            };
            if let Err(Ok(undelivered)) = decided.message.reply.send(Ok(reply)) {
                core.requeue_undelivered(undelivered.leased);
            }
        }
        core.write_snapshot_if_due(&mut execution);
        Box::new(execution)
    }
}

fn armed_timer(change: &TimerChange) -> Option<(Text, Timestamp)> {
    match change {
        TimerChange::Arm { timer_id, fire_at } => Some((timer_id.clone(), *fire_at)),
        TimerChange::Disarm { .. } => None,
    }
}

//! Second phase: appends the decisions, and chooses the reaction to a failed append.

use std::collections::VecDeque;
use std::sync::Arc;

use noetl_engine::encode_event;
use noetl_engine::event::Event;
use noetl_store::{AppendError, AppendRequest, StoreError, TimerChange};
use noetl_types::{ErrorCode, Json, JsonMap, NewEvent, Text, Timestamp};

use super::publish::CommittedTurn;
use super::{DecidedMessage, Turn};
use crate::driver::cross_run_effects::diff_waits;
use crate::driver::eager_lease::{EagerLeases, SenderPoll};
use crate::driver::loaded_execution::LoadedExecution;
use crate::driver::message::EarlierEffect;
use crate::driver::queue_delta::diff_timers;
use crate::driver::{Driver, MessageBatch, MessageReply, ReservedKeys};
use crate::error::RuntimeError;
use crate::metrics::EventLabels;

/// Field of the answer to a start that holds the number of issued commands.
const ISSUED_COUNT_FIELD: &str = "commands_generated";

/// Result of an append.
pub(super) enum AppendResult {
    Done(Box<CommittedTurn>),
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

impl Turn {
    /// Appends the decisions, with leases for the new commands.
    pub(super) async fn append(mut self) -> AppendResult {
        let polls = self.poll_requests();
        let execution_id = self.execution.header.execution_id;
        let leases = EagerLeases::assign_commands(
            &self.driver, &mut self.changes, &polls, execution_id, self.now,
        );
        let append = AppendRequest {
            use_outbox: self.driver.infra.outbox && !self.execution.is_publisher(),
            ..self.build_append()
        };
        let event_labels: Vec<_> = append.events.iter().map(EventLabels::from_event).collect();
        let started = tokio::time::Instant::now();
        match self.driver.append(append).await {
            Ok(receipt) => {
                self.driver.infra.metrics.record_append(&event_labels, started.elapsed());
                AppendResult::Done(Box::new(CommittedTurn { turn: self, receipt, leases }))
            }
            Err(error) => {
                if matches!(error, AppendError::Conflict { .. }) {
                    self.driver.infra.metrics.server.append_conflicts.inc();
                }
                leases.undo_assignment(&self.driver, &polls);
                self.handle_failure(error).await
            }
        }
    }

    fn poll_requests(&self) -> Vec<SenderPoll> {
        let to_poll = |(index, decided): (usize, &DecidedMessage)| {
            let request = decided.message.poll_request.as_ref()?;
            Some(SenderPoll { message: index, request: Arc::clone(request) })
        };
        let decided = self.decided.iter().flatten().enumerate();
        decided.filter_map(to_poll).collect()
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

    /// Chooses the reaction to a rejected or failed append.
    async fn handle_failure(self, refused: AppendError) -> AppendResult {
        let is_new = self.execution.new_facts.is_some();
        let to_batch = |decided: Vec<DecidedMessage>| {
            let messages = decided.into_iter().map(|decided| decided.message);
            MessageBatch::from_messages(messages.collect())
        };
        let batches: VecDeque<MessageBatch> =
            self.decided.into_iter().filter_map(to_batch).collect();
        match refused {
            // A new execution has no log to read: it is retried unchanged.
            AppendError::Conflict { .. } if is_new => AppendResult::Retry {
                execution: self.before.map(Box::new),
                batches,
                pause: true,
                error: None,
            },
            AppendError::Conflict { .. } | AppendError::Terminal => AppendResult::Retry {
                execution: load_caught_up(&self.driver, self.before).await,
                batches,
                pause: false,
                error: None,
            },
            AppendError::Fenced { command_id } => AppendResult::Retry {
                execution: self.before.map(Box::new),
                batches: batches
                    .into_iter()
                    .filter_map(|batch| batch.without_fence(command_id))
                    .collect(),
                pause: false,
                error: None,
            },
            // Ids are unique: the first attempt succeeded after all.
            AppendError::AlreadyExists => {
                AppendResult::Retry { execution: None, batches, pause: false, error: None }
            }
            // The id of a sender's event was used before. The other messages are not affected.
            AppendError::IdTaken if batches.iter().any(MessageBatch::has_sender_event_id) => {
                AppendResult::Retry {
                    execution: self.before.map(Box::new),
                    batches: reject_taken_ids(batches),
                    pause: false,
                    error: None,
                }
            }
            // The sender has already waited long enough for a connection.
            AppendError::Store(error) if error.as_saturated().is_some() => {
                AppendResult::Refused { batches, error: error.into() }
            }
            AppendError::Store(error @ StoreError::Retry { .. }) => {
                retry_later(self.before, batches, error)
            }
            AppendError::Duplicate { execution_id } => {
                answer_earlier_effect(batches, &EarlierEffect::Duplicate(execution_id))
            }
            AppendError::AlreadyAnswered(answered) => {
                answer_earlier_effect(batches, &EarlierEffect::Replay(answered))
            }
            refused => AppendResult::Refused { batches, error: to_runtime_error(refused) },
        }
    }
}

fn armed_timer(change: &TimerChange) -> Option<(Text, Timestamp)> {
    match change {
        TimerChange::Arm { timer_id, fire_at } => Some((timer_id.clone(), *fire_at)),
        TimerChange::Disarm { .. } => None,
    }
}

/// Retries after a failure of the store, which may have occurred after the write.
fn retry_later(
    before: Option<LoadedExecution>,
    mut batches: VecDeque<MessageBatch>,
    error: StoreError,
) -> AppendResult {
    let may_be_written = matches!(error, StoreError::Retry { outcome_unknown: true, .. });
    if may_be_written {
        let with_error = |batch: MessageBatch| batch.with_unknown_outcome(&error);
        batches = batches.into_iter().map(with_error).collect();
    }
    AppendResult::Retry {
        // The log shows whether it was written. For a new execution, a retry shows it.
        execution: before
            .filter(|execution| execution.new_facts.is_some() || !may_be_written)
            .map(Box::new),
        batches,
        pause: true,
        error: Some(error),
    }
}

/// Answers all messages with the earlier effect: nothing was written, and the execution does not
/// exist.
fn answer_earlier_effect(batches: VecDeque<MessageBatch>, effect: &EarlierEffect) -> AppendResult {
    for message in batches.into_iter().flat_map(MessageBatch::into_messages) {
        let reply = MessageReply { earlier: Some(effect.clone()), ..MessageReply::default() };
        drop(message.reply.send(Ok(reply)));
    }
    AppendResult::Retry { execution: None, batches: VecDeque::new(), pause: false, error: None }
}

/// Rejects the batch whose event id is taken. If several batches contain ids, each is retried
/// separately to find out which one it is.
fn reject_taken_ids(batches: VecDeque<MessageBatch>) -> VecDeque<MessageBatch> {
    let with_sender_id = batches.iter().filter(|batch| batch.has_sender_event_id());
    let is_only_one = with_sender_id.count() == 1;
    let keep = |batch: MessageBatch| match batch.has_sender_event_id() {
        true if is_only_one => {
            let text = "the id of the event is already used";
            batch.reject_all(RuntimeError::refused(ErrorCode::IdConflict, text));
            None
        }
        true => Some(batch.isolate()),
        false => Some(batch),
    };
    batches.into_iter().filter_map(keep).collect()
}

/// Returns the state before a conflict with the events that others appended since. `None` if it
/// must be loaded.
async fn load_caught_up(
    driver: &Arc<Driver>,
    before: Option<LoadedExecution>,
) -> Option<Box<LoadedExecution>> {
    let mut execution = before.filter(|execution| execution.new_facts.is_none())?;
    execution.catch_up(driver).await.ok()?;
    Some(Box::new(execution))
}

fn to_runtime_error(refused: AppendError) -> RuntimeError {
    match refused {
        AppendError::NotFound => RuntimeError::no_execution(),
        AppendError::Dropped => RuntimeError::dropped_execution(),
        AppendError::DedupMismatch { execution_id } => RuntimeError::refused(
            ErrorCode::DedupMismatch,
            format!("the same dedup key has started {execution_id} with another payload"),
        ),
        AppendError::IdempotencyMismatch => RuntimeError::refused(
            ErrorCode::IdempotencyMismatch,
            "the idempotency key was used with another request",
        ),
        AppendError::Store(error) => error.into(),
        AppendError::Conflict { .. }
        | AppendError::Fenced { .. }
        | AppendError::AlreadyExists
        | AppendError::Terminal
        | AppendError::IdTaken
        | AppendError::Duplicate { .. }
        | AppendError::AlreadyAnswered(_)
        | AppendError::Invalid(_) => {
            tracing::error!(%refused, "the store rejected an append");
            RuntimeError::internal(
                "the decision could not be appended to the log; see the server's log",
            )
        }
    }
}

//! Handles rejected and failed appends.

use std::collections::VecDeque;
use std::sync::Arc;

use noetl_store::{AppendError, StoreError};
use noetl_types::ErrorCode;

use super::{AppendDraft, AppendResult, DecidedMessage};
use crate::runtime::Core;
use crate::runtime::driver::loaded_execution::LoadedExecution;
use crate::runtime::driver::message::{EarlierEffect, MessageBatch, MessageReply};
use crate::runtime::error::RuntimeError;

impl AppendDraft {
    /// Chooses the reaction to a rejected or failed append.
    pub(super) async fn handle_failure(
        self,
        core: &Arc<Core>,
        refused: AppendError,
    ) -> AppendResult {
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
                execution: load_caught_up(core, self.before).await,
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
    core: &Arc<Core>,
    before: Option<LoadedExecution>,
) -> Option<Box<LoadedExecution>> {
    let mut execution = before.filter(|execution| execution.new_facts.is_none())?;
    execution.catch_up(core).await.ok()?;
    Some(Box::new(execution))
}

fn to_runtime_error(refused: AppendError) -> RuntimeError {
    match refused {
        AppendError::NotFound => RuntimeError::no_execution(),
        AppendError::Dropped => RuntimeError::refused(
            ErrorCode::RetentionDropped,
            "the execution was dropped by retention",
        ),
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
            RuntimeError::refused(
                ErrorCode::Internal,
                "the decision could not be appended to the log; see the server's log",
            )
        }
    }
}

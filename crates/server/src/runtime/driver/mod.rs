//! Drives executions, each in order.
//!
//! An execution has a mailbox. Every input goes into it. One task at a time takes the inputs that
//! have accumulated, decides them in sequence, and appends the result once. Reports of one
//! execution that arrive together therefore share a commit, and executions do not wait for one
//! another.
//!
//! States of active executions are cached in memory up to a limit. The cache is never
//! authoritative: an append names the version that it follows, and after a conflict the rest of the
//! log is read and everything is decided again.

mod append_turn;
mod cross_run_effects;
mod eager_lease;
mod loaded_execution;
mod mailbox;
mod message;
mod queue_delta;
mod snapshot;

use std::sync::Arc;

use noetl_api::explain::PointInTime;
use noetl_engine::ExecutionState;
use noetl_store::{Execution, ExecutionFacts, ExecutionView, LogHead, SnapshotKey};
use noetl_types::{CommandId, ExecutionId, ExecutionVersion, TenantId};
use tokio::sync::oneshot;

use super::error::{RuntimeError, error_chain};
use super::{Core, Definition};
pub(super) use eager_lease::{LeaseGrant, build_leased_command};
use loaded_execution::LoadedExecution;
use mailbox::{ExecutionCache, Mailbox};
pub(super) use message::{
    EarlierEffect, Message, MessageBatch, MessageReply, PollRequest, ReservedKeys,
};
pub(super) use queue_delta::parse_timer_id;

/// Owns the executions in memory.
pub(super) struct ExecutionDriver {
    executions: ExecutionCache,
}

impl ExecutionDriver {
    pub(super) fn new(capacity: usize) -> Self {
        Self { executions: ExecutionCache::with_capacity(capacity) }
    }
}

impl Core {
    /// Puts a message, or a batch of messages, into the mailbox of an execution.
    pub(super) fn send_message(
        self: &Arc<Self>,
        execution_id: ExecutionId,
        batch: impl Into<MessageBatch>,
    ) {
        let mailbox = self.driver.executions.get_or_create(execution_id);
        self.enqueue_batch(mailbox, batch.into());
    }

    /// Creates the mailbox of a new execution with its start message.
    pub(super) fn begin_execution(
        self: &Arc<Self>,
        execution_id: ExecutionId,
        definition: Arc<Definition>,
        facts: ExecutionFacts,
        message: Message,
    ) {
        let execution = LoadedExecution::new_execution(definition, execution_id, facts);
        let mailbox = self.driver.executions.insert_new(execution_id, execution);
        self.enqueue_batch(mailbox, message.into());
    }

    fn enqueue_batch(self: &Arc<Self>, mailbox: Arc<Mailbox>, batch: MessageBatch) {
        if mailbox.add_batch(batch) {
            let core = Arc::clone(self);
            // A separate task, so that a caller that goes away does not leave an execution half
            // decided.
            self.tasks.spawn(async move { append_turn::run_mailbox(&core, &mailbox).await });
        }
    }

    /// Sends a message to an execution and waits for the reply.
    pub(super) async fn send_and_wait(
        self: &Arc<Self>,
        execution_id: ExecutionId,
        message: Message,
        answer: oneshot::Receiver<Result<MessageReply, RuntimeError>>,
    ) -> Result<MessageReply, RuntimeError> {
        self.send_message(execution_id, message);
        wait_for_reply(answer).await
    }

    /// Tenant of a command, if it is known without waiting or querying the store.
    pub(super) fn cached_command_tenant(
        &self,
        execution_id: ExecutionId,
        command_id: CommandId,
    ) -> Option<TenantId> {
        let mailbox = self.driver.executions.get(execution_id)?;
        let execution = mailbox.execution.try_lock().ok()?;
        let execution = execution.as_ref()?;
        execution.state.command(command_id)?;
        Some(execution.header.tenant_id.clone())
    }

    /// Loads the definition and the current state of an execution, if it exists.
    pub(super) async fn load_state(
        self: &Arc<Self>,
        execution_id: ExecutionId,
    ) -> Result<Option<(Arc<Definition>, ExecutionState)>, RuntimeError> {
        if let Some(mailbox) = self.driver.executions.get(execution_id) {
            let guard = mailbox.execution.lock().await;
            let cached = guard.as_ref().filter(|execution| execution.new_facts.is_none());
            let cached = cached.map(LoadedExecution::cheap_clone);
            drop(guard);
            // Another server may have written since, and callers act on the state that they see.
            if let Some(mut execution) = cached {
                execution.catch_up(self).await?;
                return Ok(Some((execution.definition, execution.state)));
            }
        }
        let execution = LoadedExecution::load(self, execution_id).await?;
        Ok(execution.map(|execution| (execution.definition, execution.state)))
    }
}

impl Core {
    /// Loads the definition, the state and the log head of an execution as of a past moment.
    pub(super) async fn load_state_at(
        &self,
        execution: &Execution,
        at: PointInTime,
    ) -> Result<(Arc<Definition>, ExecutionState, LogHead), RuntimeError> {
        let loaded = LoadedExecution::load_at(self, execution, at).await?;
        Ok((loaded.definition, loaded.state, loaded.head))
    }
}

impl Core {
    /// Builds the list view of an execution from its log alone.
    pub(super) async fn view_from_log(
        &self,
        execution: &Execution,
    ) -> Result<ExecutionView, RuntimeError> {
        LoadedExecution::view_from_log(self, execution).await
    }

    /// Counts an unusable snapshot and deletes it, so that a good one can replace it.
    pub(super) async fn reject_snapshot(
        &self,
        execution_id: ExecutionId,
        key: &SnapshotKey,
        version: ExecutionVersion,
    ) {
        self.metrics.count_rejected_snapshot();
        tracing::warn!(%execution_id, kind = %key.kind, %version, "a snapshot cannot be used and is deleted");
        let deleted = self.store.delete_snapshot(execution_id, key, version).await;
        if let Err(error) = deleted {
            // The next load finds it again and retries the deletion.
            tracing::warn!(error = %error_chain(&error), %execution_id, "deleting an unusable snapshot failed");
        }
    }
}

/// Waits for the reply to a message.
pub(super) async fn wait_for_reply(
    answer: oneshot::Receiver<Result<MessageReply, RuntimeError>>,
) -> Result<MessageReply, RuntimeError> {
    answer.await.unwrap_or_else(|_| {
        Err(RuntimeError::refused(noetl_types::ErrorCode::NotReady, "the server is shutting down"))
    })
}

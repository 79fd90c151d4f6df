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

mod cross_run_effects;
mod eager_lease;
mod fair_turns;
mod folded_rows;
mod loaded_execution;
mod mailbox;
mod message;
mod queue_delta;
pub(crate) mod timer_queue;
mod turn;

use std::sync::{Arc, OnceLock, Weak};

use noetl_api::explain::PointInTime;
use noetl_engine::{
    CacheHit, CacheKey, CacheLookupResult, CachedResult, ExecutionState, ResultOrigin,
};
use noetl_store::{
    AppendError, AppendReceipt, AppendRequest, Execution, ExecutionFacts, ExecutionView, LogHead,
    MatchKey, SnapshotKey,
};
use noetl_types::{CommandId, ExecutionId, ExecutionVersion, TenantId, Text, Timestamp};
use tokio::sync::oneshot;

use crate::driver::timer_queue::TimerQueue;
use crate::error::{Result, RuntimeError, error_chain};
use crate::services::catalog::Definition;
use crate::services::follow_ups::{FollowUps, PendingFollowUp};
use crate::services::notifications::NatsMessaging;
use crate::services::peers::Peers;
use crate::services::traces::Traces;
use crate::services::waiters::Waiters;
use crate::services::{Catalog, Infrastructure, Results};
pub(crate) use eager_lease::{LeaseGrant, build_leased_command};
use fair_turns::FairTurns;
pub(crate) use folded_rows::{Differences, FoldedRows, StoredRows};
use loaded_execution::LoadedExecution;
use mailbox::{ExecutionCache, Mailbox};
pub(crate) use message::{
    EarlierEffect, ExecutionOutcome, Message, MessageBatch, MessageReply, PollRequest, ReservedKeys,
};
pub(crate) use queue_delta::parse_timer_id;

/// Drives executions: decides what follows from an input, appends it, and publishes it.
pub(crate) struct Driver {
    pub(crate) infra: Arc<Infrastructure>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) results: Arc<Results>,
    pub(crate) waiters: Arc<Waiters>,
    pub(crate) peers: Arc<Peers>,
    pub(crate) traces: Arc<Traces>,
    /// NATS connection, if configured.
    messaging: Option<Arc<NatsMessaging>>,
    pub(crate) timers: TimerQueue,
    executions: ExecutionCache,
    turns: Arc<FairTurns>,
    /// Turns of executions whose decisions are slow. Half of the processors remain for the others.
    slow_turns: Arc<FairTurns>,
    /// Performs the follow-ups of appends. It sends messages to this driver.
    follow_ups: OnceLock<Weak<FollowUps>>,
}

impl Driver {
    pub(crate) fn new(
        infra: &Arc<Infrastructure>,
        catalog: &Arc<Catalog>,
        results: &Arc<Results>,
        peers: &Arc<Peers>,
        traces: &Arc<Traces>,
    ) -> Self {
        Self {
            infra: Arc::clone(infra),
            catalog: Arc::clone(catalog),
            results: Arc::clone(results),
            waiters: Arc::clone(&peers.waiters),
            peers: Arc::clone(peers),
            traces: Arc::clone(traces),
            messaging: peers.messaging.clone(),
            timers: TimerQueue::default(),
            executions: ExecutionCache::with_capacity(infra.settings.cached_executions),
            turns: FairTurns::new(infra.settings.tenant_weights.clone()),
            slow_turns: FairTurns::for_slow_decisions(infra.settings.tenant_weights.clone()),
            follow_ups: OnceLock::new(),
        }
    }

    /// Sets the service that performs the follow-ups of appends.
    pub(crate) fn connect_follow_ups(&self, follow_ups: &Arc<FollowUps>) {
        drop(self.follow_ups.set(Arc::downgrade(follow_ups)));
    }

    /// Performs the follow-ups of an append in the background.
    fn spawn_follow_ups(&self, execution_id: ExecutionId, follow_ups: Vec<PendingFollowUp>) {
        // Once the services are gone, another server finds the follow-ups in the store.
        if let Some(service) = self.follow_ups.get().and_then(Weak::upgrade) {
            service.spawn_follow_ups(execution_id, follow_ups);
        }
    }

    /// Puts a message, or a batch of messages, into the mailbox of an execution.
    pub(crate) fn send_message(
        self: &Arc<Self>,
        execution_id: ExecutionId,
        batch: impl Into<MessageBatch>,
    ) {
        let mailbox = self.executions.get_or_create(execution_id);
        self.enqueue_batch(mailbox, batch.into());
    }

    /// Creates the mailbox of a new execution with its start message.
    pub(crate) fn create_mailbox(
        self: &Arc<Self>,
        execution_id: ExecutionId,
        definition: Arc<Definition>,
        facts: ExecutionFacts,
        message: Message,
    ) {
        let execution = LoadedExecution::new_execution(definition, execution_id, facts);
        let mailbox = self.executions.insert_new(execution_id, execution);
        self.enqueue_batch(mailbox, message.into());
    }

    fn enqueue_batch(self: &Arc<Self>, mailbox: Arc<Mailbox>, batch: MessageBatch) {
        if mailbox.add_batch(batch) {
            let this = Arc::clone(self);
            // A separate task, so that a caller that goes away does not leave an execution half
            // decided.
            self.infra.tasks.spawn(async move { turn::run_mailbox(&this, &mailbox).await });
        }
    }

    /// Sends a message to an execution and waits for the reply.
    pub(crate) async fn send_and_wait(
        self: &Arc<Self>,
        execution_id: ExecutionId,
        message: Message,
        answer: oneshot::Receiver<Result<MessageReply>>,
    ) -> Result<MessageReply> {
        self.send_message(execution_id, message);
        wait_for_reply(answer).await
    }

    /// Tenant of a command, if it is known without waiting or querying the store.
    pub(crate) fn cached_command_tenant(
        &self,
        execution_id: ExecutionId,
        command_id: CommandId,
    ) -> Option<TenantId> {
        let mailbox = self.executions.get(execution_id)?;
        let execution = mailbox.execution.try_lock().ok()?;
        let execution = execution.as_ref()?;
        execution.state.command(command_id)?;
        Some(execution.header.tenant_id.clone())
    }

    /// Loads the definition and the current state of an execution, if it exists.
    pub(crate) async fn load_state(
        self: &Arc<Self>,
        execution_id: ExecutionId,
    ) -> Result<Option<(Arc<Definition>, ExecutionState)>> {
        if let Some(mailbox) = self.executions.get(execution_id) {
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

    /// Loads the definition, the state and the log head of an execution as of a past moment.
    pub(crate) async fn load_state_at(
        &self,
        execution: &Execution,
        at: PointInTime,
    ) -> Result<(Arc<Definition>, ExecutionState, LogHead)> {
        let loaded = LoadedExecution::load_at(self, execution, at).await?;
        Ok((loaded.definition, loaded.state, loaded.head))
    }

    /// Builds the list view of an execution from its log alone.
    pub(crate) async fn view_from_log(&self, execution: &Execution) -> Result<ExecutionView> {
        LoadedExecution::view_from_log(self, execution).await
    }

    /// Counts an unusable snapshot and deletes it, so that a good one can replace it.
    pub(crate) async fn reject_snapshot(
        &self,
        execution_id: ExecutionId,
        key: &SnapshotKey,
        version: ExecutionVersion,
    ) {
        self.infra.metrics.server.snapshots_rejected.inc();
        tracing::warn!(%execution_id, kind = %key.kind, %version, "a snapshot cannot be used and is deleted");
        let deleted = self.infra.store.delete_snapshot(execution_id, key, version).await;
        if let Err(error) = deleted {
            // The next load finds it again and retries the deletion.
            tracing::warn!(error = %error_chain(&error), %execution_id, "deleting an unusable snapshot failed");
        }
    }

    pub(super) async fn append(&self, append: AppendRequest) -> Result<AppendReceipt, AppendError> {
        let mut answers = self.infra.store.append_events(vec![append]).await;
        answers.pop().unwrap_or_else(|| {
            Err(AppendError::Store(noetl_store::StoreError::fatal(
                "the store returned no result for the append",
            )))
        })
    }

    /// Finds the cached result that a step can reuse.
    pub(crate) async fn find_cached_result(
        &self,
        tenant_id: &TenantId,
        key: &CacheKey,
        now: Timestamp,
    ) -> Result<CacheLookupResult> {
        let scope = MatchKey::from_text(&Text::from(key.scope.as_str()));
        let cached =
            self.infra.store.find_cached_result(tenant_id, &scope, key.key_sha256, now).await?;
        let Some(cached) = cached else {
            return Ok(CacheLookupResult::Miss);
        };
        let stored = match &cached.result {
            noetl_store::CachedResult::Inline(stored)
            | noetl_store::CachedResult::Reference(stored) => stored,
        };
        let Ok(result) = CachedResult::from_json(stored) else {
            tracing::error!("a cached result cannot be read");
            return Ok(CacheLookupResult::Miss);
        };
        Ok(CacheLookupResult::Hit(Box::new(CacheHit {
            origin: ResultOrigin {
                execution_id: cached.origin_execution_id,
                seq: cached.origin_seq,
            },
            result,
        })))
    }
}

/// Waits for the reply to a message.
pub(crate) async fn wait_for_reply(
    answer: oneshot::Receiver<Result<MessageReply>>,
) -> Result<MessageReply> {
    answer.await.unwrap_or_else(|_| {
        Err(RuntimeError::refused(noetl_types::ErrorCode::NotReady, "the server is shutting down"))
    })
}

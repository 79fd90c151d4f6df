//! Signals and approvals for executions that wait.

use std::sync::Arc;

use noetl_api::signal::{
    ApproveRequest, ApproveResponse, BroadcastResponse, SignalRequest, SignalResponse,
};
use noetl_engine::{ApprovalChoice, ApprovalDecision, EngineInput, IncomingSignal, InputVerdict};
use noetl_store::{BroadcastSignal, MatchKey, TenantTable, WaitSelector};
use noetl_types::{ExecutionId, Json, Millis, SignalId, Text};
use tokio::task::JoinSet;

use crate::access::CallContext;
use crate::driver::{Message, ReservedKeys};
use crate::error::{Result, RuntimeError};
use crate::services::Executions;
use crate::services::executions::dedup_keys::IdempotencyKey;

/// Retention of a broadcast. No wait looks back further.
const BROADCAST_RETENTION: Millis = Millis::from_secs(30 * 24 * 3600);

/// Executions that a broadcast signals concurrently.
const BROADCAST_CONCURRENCY: usize = 64;

impl Executions {
    /// Sends a signal to an execution. A signal without a matching wait is stored for a while.
    pub async fn send_signal(
        &self,
        ctx: &CallContext,
        execution_id: ExecutionId,
        actor: Option<Text>,
        request: SignalRequest,
    ) -> Result<SignalResponse> {
        ctx.visible_execution(self.infra.store(), execution_id).await?;
        let signal = IncomingSignal {
            key: request.key,
            payload: request.payload.unwrap_or_default(),
            actor,
            ..IncomingSignal::new(request.name)
        };
        let (message, answer) = Message::new(EngineInput::Signal(Box::new(signal)));
        let key = ctx.work_id.map(|work| IdempotencyKey::for_work_part(work, 0));
        let message = message.with_reserved_keys(ReservedKeys {
            dedup: None,
            idempotency: key.map(|key| key.to_record(&Json::Null, self.infra.now())),
        });
        let reply = self.driver.send_and_wait(execution_id, message, answer).await?;
        if reply.earlier.is_some() {
            // Another server processed the signal and failed before it could return the outcome.
            let row = ctx.visible_execution(self.infra.store(), execution_id).await?;
            return Ok(SignalResponse { seq: row.head.version.get(), delivered: false });
        }
        Ok(SignalResponse {
            seq: reply.version.get(),
            delivered: reply.verdict == Some(InputVerdict::Accepted),
        })
    }

    /// Sends a signal to every execution that waits for it, and stores it for waits that open soon
    /// and look back.
    pub async fn broadcast_signal(
        self: &Arc<Self>,
        ctx: &CallContext,
        actor: Option<Text>,
        request: SignalRequest,
    ) -> Result<BroadcastResponse> {
        let reserved =
            [noetl_engine::event::APPROVAL_SIGNAL, noetl_engine::event::CHILD_ENDED_SIGNAL];
        if reserved.iter().any(|name| request.name == **name) {
            return Err(RuntimeError::invalid(format!("the name `{}` is reserved", request.name)));
        }
        if ctx.auth.is_path_restricted() {
            // The broadcast is stored for waits that open later, at any path.
            let text = "a token that is restricted to paths cannot broadcast; send the signal to one execution";
            return Err(RuntimeError::forbidden(text));
        }
        let payload = request.payload.unwrap_or_default();
        noetl_engine::check_signal_payload(&payload)?;
        let now = self.infra.now();
        let signal_id = match ctx.work_id.map(|work| SignalId::new(work.get())) {
            // An execution accepts each signal id once, so a retry does not deliver it again.
            Some(Ok(signal_id)) => signal_id,
            Some(Err(_)) | None => self.infra.mint_id()?,
        };
        let signal = IncomingSignal {
            key: request.key.clone(),
            payload,
            actor,
            broadcast: Some(signal_id),
            ..IncomingSignal::new(request.name)
        };
        // The broadcast is stored before the waits are searched, so that a wait that opens
        // meanwhile finds it when it looks back.
        let stored = BroadcastSignal {
            signal_id,
            tenant_id: ctx.tenant().clone(),
            name: signal.name.clone(),
            key: signal.key.clone(),
            payload: signal.payload.clone(),
            actor: signal.actor.clone(),
            received_at: now,
            expires_at: now.saturating_add(BROADCAST_RETENTION),
        };
        self.infra.check_row_limit(ctx.tenant(), TenantTable::Broadcasts).await?;
        self.infra.store().put_broadcast(stored).await?;
        let delivered = self.deliver_broadcast(ctx, &signal).await?;
        Ok(BroadcastResponse { signal_id, delivered })
    }

    /// Delivers a broadcast to all executions that wait for it.
    async fn deliver_broadcast(
        self: &Arc<Self>,
        ctx: &CallContext,
        signal: &IncomingSignal,
    ) -> Result<Vec<ExecutionId>> {
        let (name, key) =
            (MatchKey::from_text(&signal.name), signal.key.as_ref().map(MatchKey::from_text));
        let mut delivered = Vec::new();
        let (mut after, mut last_signalled) = (None, None);
        loop {
            let selector = WaitSelector::Matching { name: name.clone(), key: key.clone() };
            let page = self.queries.list_open_waits(ctx, selector, after).await?;
            let Some(last) = page.last() else {
                return Ok(delivered);
            };
            after = Some(last.position);
            // An execution with several waits gets the signal once. The waits of an execution are
            // adjacent.
            let mut execution_ids: Vec<ExecutionId> =
                page.iter().map(|wait| wait.position.execution_id).collect();
            execution_ids.dedup();
            let first = usize::from(execution_ids.first().copied() == last_signalled);
            last_signalled = execution_ids.last().copied();
            for chunk in execution_ids[first..].chunks(BROADCAST_CONCURRENCY) {
                delivered.extend(self.signal_executions(chunk, signal).await?);
            }
        }
    }

    /// Sends a signal to some executions concurrently, so that their logs are written together.
    /// Returns those that were waiting for it.
    async fn signal_executions(
        self: &Arc<Self>,
        execution_ids: &[ExecutionId],
        signal: &IncomingSignal,
    ) -> Result<Vec<ExecutionId>> {
        let mut tasks = JoinSet::new();
        for execution_id in execution_ids.iter().copied() {
            let (this, signal) = (Arc::clone(self), signal.clone());
            tasks.spawn(async move {
                let outcome = this.deliver_signal(execution_id, signal).await;
                (execution_id, outcome)
            });
        }
        let mut delivered = Vec::new();
        for (execution_id, outcome) in tasks.join_all().await {
            match outcome {
                Ok((true, _)) => delivered.push(execution_id),
                Ok((false, _)) => {}
                // A paused execution finds the signal by looking back. An ended one does not need
                // it.
                Err(RuntimeError::Refused(problem)) => {
                    tracing::debug!(%execution_id, detail = %problem.detail, "a broadcast was not delivered to an execution");
                }
                Err(error) => return Err(error),
            }
        }
        delivered.sort_unstable();
        Ok(delivered)
    }

    /// Sends a signal to an execution. Returns true if a wait took it, and the log version.
    pub(crate) async fn deliver_signal(
        &self,
        execution_id: ExecutionId,
        signal: IncomingSignal,
    ) -> Result<(bool, noetl_types::ExecutionVersion)> {
        let (message, answer) = Message::new(EngineInput::Signal(Box::new(signal)));
        let reply = self.driver.send_and_wait(execution_id, message, answer).await?;
        Ok((reply.verdict == Some(InputVerdict::Accepted), reply.version))
    }

    /// Submits a person's decision about an approval.
    pub async fn submit_approval(
        &self,
        ctx: &CallContext,
        execution_id: ExecutionId,
        actor: Text,
        request: ApproveRequest,
    ) -> Result<ApproveResponse> {
        ctx.visible_execution(self.infra.store(), execution_id).await?;
        let decision = match request.decision.as_str() {
            "approve" => ApprovalChoice::Approve,
            "reject" => ApprovalChoice::Reject,
            other => {
                let text = format!("`{other}` is not a decision; use approve or reject");
                return Err(RuntimeError::invalid(text));
            }
        };
        let approval = ApprovalDecision {
            step: request.step,
            index: request.index,
            decision,
            actor,
            groups: Vec::new(),
            comment: request.comment,
            values: request.values,
        };
        let (message, answer) = Message::new(EngineInput::Approve(Box::new(approval)));
        let reply = self.driver.send_and_wait(execution_id, message, answer).await?;
        Ok(ApproveResponse { seq: reply.version.get(), decision: decision.as_str().into() })
    }
}

//! Signals and approvals for executions that wait.

use std::sync::Arc;

use noetl_api::signal::{
    ApproveRequest, ApproveResponse, BroadcastResponse, SignalRequest, SignalResponse,
};
use noetl_engine::{
    ApprovalChoice, ApprovalDecision, CacheHit, CacheKey, CacheLookupResult, CachedResult,
    EngineInput, IncomingSignal, InputVerdict, ResultOrigin,
};
use noetl_store::{BroadcastSignal, MatchKey, OpenWait, WaitFilter, WaitPosition, WaitSelector};
use noetl_types::limits::PageLimit;
use noetl_types::{ErrorCode, ExecutionId, Json, Millis, SignalId, TenantId, Text, Timestamp};
use tokio::task::JoinSet;

use super::dedup_keys::IdempotencyKey;
use super::driver::{Message, ReservedKeys};
use super::error::RuntimeError;
use super::{Core, Runtime};

/// Retention of a broadcast. No wait looks back further.
const BROADCAST_RETENTION: Millis = Millis::from_secs(30 * 24 * 3600);

/// Executions that a broadcast signals concurrently.
const BROADCAST_CONCURRENCY: usize = 64;

impl Runtime {
    /// Sends a signal to an execution. A signal without a matching wait is stored for a while.
    pub async fn send_signal(
        &self,
        execution_id: ExecutionId,
        actor: Option<Text>,
        request: SignalRequest,
    ) -> Result<SignalResponse, RuntimeError> {
        self.visible_execution(execution_id).await?;
        let signal = IncomingSignal {
            key: request.key,
            payload: request.payload.unwrap_or_default(),
            actor,
            ..IncomingSignal::new(request.name)
        };
        let (message, answer) = Message::new(EngineInput::Signal(Box::new(signal)));
        let key = self.work_id.map(|work| IdempotencyKey::for_work_part(work, 0));
        let message = message.with_reserved_keys(ReservedKeys {
            dedup: None,
            idempotency: key.map(|key| key.into_record(&Json::Null, self.now())),
        });
        let reply = self.core.send_and_wait(execution_id, message, answer).await?;
        if reply.earlier.is_some() {
            // Another server processed the signal and failed before it could return the outcome.
            let row = self.visible_execution(execution_id).await?;
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
        &self,
        actor: Option<Text>,
        request: SignalRequest,
    ) -> Result<BroadcastResponse, RuntimeError> {
        let reserved =
            [noetl_engine::event::APPROVAL_SIGNAL, noetl_engine::event::CHILD_ENDED_SIGNAL];
        if reserved.iter().any(|name| request.name == **name) {
            let text = format!("the name `{}` is reserved", request.name);
            return Err(RuntimeError::refused(ErrorCode::Validation, text));
        }
        if self.auth_context().is_path_restricted() {
            // The broadcast is stored for waits that open later, at any path.
            let text = "a token that is restricted to paths cannot broadcast; send the signal to one execution";
            return Err(RuntimeError::refused(ErrorCode::Forbidden, text));
        }
        let now = self.now();
        let signal_id = match self.work_id.map(|work| SignalId::new(work.get())) {
            // An execution accepts each signal id once, so a retry does not deliver it again.
            Some(Ok(signal_id)) => signal_id,
            Some(Err(_)) | None => self.mint_id()?,
        };
        let signal = IncomingSignal {
            key: request.key.clone(),
            payload: request.payload.unwrap_or_default(),
            actor,
            broadcast: Some(signal_id),
            ..IncomingSignal::new(request.name)
        };
        // The broadcast is stored before the waits are searched, so that a wait that opens
        // meanwhile finds it when it looks back.
        let stored = BroadcastSignal {
            signal_id,
            tenant_id: self.tenant().clone(),
            name: signal.name.clone(),
            key: signal.key.clone(),
            payload: signal.payload.clone(),
            actor: signal.actor.clone(),
            received_at: now,
            expires_at: now.saturating_add(BROADCAST_RETENTION),
        };
        self.store().put_broadcast(stored).await?;
        let delivered = self.deliver_broadcast(&signal).await?;
        Ok(BroadcastResponse { signal_id, delivered })
    }

    /// Delivers a broadcast to all executions that wait for it.
    async fn deliver_broadcast(
        &self,
        signal: &IncomingSignal,
    ) -> Result<Vec<ExecutionId>, RuntimeError> {
        let (name, key) =
            (MatchKey::from_text(&signal.name), signal.key.as_ref().map(MatchKey::from_text));
        let mut delivered = Vec::new();
        let (mut after, mut last_signalled) = (None, None);
        loop {
            let selector = WaitSelector::Matching { name: name.clone(), key: key.clone() };
            let page = self.list_open_waits(selector, after).await?;
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
        &self,
        execution_ids: &[ExecutionId],
        signal: &IncomingSignal,
    ) -> Result<Vec<ExecutionId>, RuntimeError> {
        let mut tasks = JoinSet::new();
        for execution_id in execution_ids.iter().copied() {
            let (core, signal) = (Arc::clone(&self.core), signal.clone());
            tasks.spawn(async move {
                let outcome = core.deliver_signal(execution_id, signal).await;
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

    /// Returns a page of open waits of the tenant.
    pub(crate) async fn list_open_waits(
        &self,
        selector: WaitSelector,
        after: Option<WaitPosition>,
    ) -> Result<Vec<OpenWait>, RuntimeError> {
        let filter =
            WaitFilter { tenant_id: self.tenant().clone(), selector, after, limit: PageLimit::MAX };
        Ok(self.store().list_waits(filter).await?)
    }

    /// Submits a person's decision about an approval.
    pub async fn submit_approval(
        &self,
        execution_id: ExecutionId,
        actor: Text,
        request: ApproveRequest,
    ) -> Result<ApproveResponse, RuntimeError> {
        self.visible_execution(execution_id).await?;
        let decision = match request.decision.as_str() {
            "approve" => ApprovalChoice::Approve,
            "reject" => ApprovalChoice::Reject,
            other => {
                let text = format!("`{other}` is not a decision; use approve or reject");
                return Err(RuntimeError::refused(ErrorCode::Validation, text));
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
        let reply = self.core.send_and_wait(execution_id, message, answer).await?;
        Ok(ApproveResponse { seq: reply.version.get(), decision: decision.as_str().into() })
    }
}

impl Core {
    /// Finds the cached result that a step can reuse.
    pub(super) async fn find_cached_result(
        &self,
        tenant_id: &TenantId,
        key: &CacheKey,
        now: Timestamp,
    ) -> Result<CacheLookupResult, RuntimeError> {
        let scope = MatchKey::from_text(&Text::from(key.scope.as_str()));
        let cached = self.store.find_cached_result(tenant_id, &scope, key.key_sha256, now).await?;
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

//! Signals and decisions of people, for runs that wait.

use std::sync::Arc;

use noetl_api::signal::{
    ApproveAnswer, ApproveRequest, BroadcastAnswer, SignalAnswer, SignalRequest,
};
use noetl_engine::{
    Approve, CacheAnswer, CacheHit, CacheKey, CachedResult, Decided, Input, Origin, Signal, Verdict,
};
use noetl_store::{Broadcast, MatchKey, OpenWait, WaitChoice, WaitFilter, WaitPlace};
use noetl_types::limits::PageLimit;
use noetl_types::{ErrorCode, ExecutionId, Json, Millis, SignalId, TenantId, Text, Timestamp};
use tokio::task::JoinSet;

use super::claim::Once;
use super::driver::{Claims, Letter};
use super::error::RuntimeError;
use super::{Core, Runtime};

/// How long a broadcast is kept: no wait looks back further.
const BROADCAST_LIVES: Millis = Millis::from_secs(30 * 24 * 3600);

/// Runs that a broadcast tells at once.
const TOLD_AT_ONCE: usize = 64;

impl Runtime {
    /// Sends a signal to an execution. One that nobody waits for is kept for a while.
    pub async fn signal(
        &self,
        execution_id: ExecutionId,
        actor: Option<Text>,
        request: SignalRequest,
    ) -> Result<SignalAnswer, RuntimeError> {
        self.execution_row(execution_id).await?;
        let signal = Signal {
            key: request.key,
            payload: request.payload.unwrap_or_default(),
            actor,
            ..Signal::new(request.name)
        };
        let (letter, answer) = Letter::new(Input::Signal(Box::new(signal)));
        let once = self.work.map(|work| Once::of_work(work, 0));
        let letter = letter.claiming(Claims {
            dedup: None,
            idempotency: once.map(|once| once.claim(&Json::Null, self.now())),
        });
        let reply = self.core.ask(execution_id, letter, answer).await?;
        if reply.before.is_some() {
            // A server took it and went away before it could say what came of it.
            let row = self.execution_row(execution_id).await?;
            return Ok(SignalAnswer {
                seq: row.head.version.get(),
                delivered: false,
            });
        }
        Ok(SignalAnswer {
            seq: reply.version.get(),
            delivered: reply.verdict == Some(Verdict::Accepted),
        })
    }

    /// Sends a signal to every execution that waits for it, or will soon and looks back.
    pub async fn broadcast(
        &self,
        actor: Option<Text>,
        request: SignalRequest,
    ) -> Result<BroadcastAnswer, RuntimeError> {
        let reserved = [
            noetl_engine::event::APPROVAL,
            noetl_engine::event::CHILD_ENDED,
        ];
        if reserved.iter().any(|name| request.name == **name) {
            let text = format!("the name `{}` is reserved", request.name);
            return Err(RuntimeError::refused(ErrorCode::Validation, text));
        }
        if self.behalf().is_bound() {
            // It is kept for waits that open later, of whatever path.
            let text =
                "the token is bound to paths, and a signal to everybody is not: send it to a run";
            return Err(RuntimeError::refused(ErrorCode::Forbidden, text));
        }
        let now = self.now();
        let signal_id = match self.work.map(|work| SignalId::new(work.get())) {
            // A run takes each signal once, so what was reached already is not reached again.
            Some(Ok(signal_id)) => signal_id,
            Some(Err(_)) | None => self.mint()?,
        };
        let signal = Signal {
            key: request.key.clone(),
            payload: request.payload.unwrap_or_default(),
            actor,
            broadcast: Some(signal_id),
            ..Signal::new(request.name)
        };
        // It is kept before anybody is looked for: a wait that opens meanwhile finds it behind itself.
        let kept = Broadcast {
            signal_id,
            tenant_id: self.tenant().clone(),
            name: signal.name.clone(),
            key: signal.key.clone(),
            payload: signal.payload.clone(),
            actor: signal.actor.clone(),
            received_at: now,
            expires_at: now.saturating_add(BROADCAST_LIVES),
        };
        self.store().broadcast(kept).await?;
        let delivered = self.reach(&signal).await?;
        Ok(BroadcastAnswer {
            signal_id,
            delivered,
        })
    }

    /// Tells everybody who waits for a signal.
    async fn reach(&self, signal: &Signal) -> Result<Vec<ExecutionId>, RuntimeError> {
        let (name, key) = (
            MatchKey::of(&signal.name),
            signal.key.as_ref().map(MatchKey::of),
        );
        let mut delivered = Vec::new();
        let (mut after, mut told) = (None, None);
        loop {
            let choice = WaitChoice::For {
                name: name.clone(),
                key: key.clone(),
            };
            let page = self.waits(choice, after).await?;
            let Some(last) = page.last() else {
                return Ok(delivered);
            };
            after = Some(last.place);
            // A run with several waits is told once: the waits of a run follow each other.
            let mut runs: Vec<ExecutionId> =
                page.iter().map(|wait| wait.place.execution_id).collect();
            runs.dedup();
            let begin = usize::from(runs.first().copied() == told);
            told = runs.last().copied();
            for some in runs[begin..].chunks(TOLD_AT_ONCE) {
                delivered.extend(self.tell(some, signal).await?);
            }
        }
    }

    /// Tells some runs side by side, so that their logs are written together; gives those that
    /// were waiting.
    async fn tell(
        &self,
        runs: &[ExecutionId],
        signal: &Signal,
    ) -> Result<Vec<ExecutionId>, RuntimeError> {
        let mut telling = JoinSet::new();
        for execution_id in runs.iter().copied() {
            let (core, signal) = (Arc::clone(&self.core), signal.clone());
            telling.spawn(async move {
                let told = core.signal_to(execution_id, signal).await;
                (execution_id, told)
            });
        }
        let mut delivered = Vec::new();
        for (execution_id, told) in telling.join_all().await {
            match told {
                Ok((true, _)) => delivered.push(execution_id),
                Ok((false, _)) => {}
                // Whoever is paused finds it by looking back; whoever has ended wants nothing.
                Err(RuntimeError::Refused(problem)) => {
                    tracing::debug!(%execution_id, detail = %problem.detail, "not delivered");
                }
                Err(error) => return Err(error),
            }
        }
        delivered.sort_unstable();
        Ok(delivered)
    }

    /// A page of what runs of the tenant wait for.
    pub(crate) async fn waits(
        &self,
        choice: WaitChoice,
        after: Option<WaitPlace>,
    ) -> Result<Vec<OpenWait>, RuntimeError> {
        let filter = WaitFilter {
            tenant_id: self.tenant().clone(),
            choice,
            after,
            limit: PageLimit::MAX,
        };
        Ok(self.store().waits(filter).await?)
    }

    /// Takes the decision of a person.
    pub async fn approve(
        &self,
        execution_id: ExecutionId,
        actor: Text,
        request: ApproveRequest,
    ) -> Result<ApproveAnswer, RuntimeError> {
        self.execution_row(execution_id).await?;
        let decision = match request.decision.as_str() {
            "approve" => Decided::Approve,
            "reject" => Decided::Reject,
            other => {
                let text = format!("`{other}` is not a decision: approve, reject");
                return Err(RuntimeError::refused(ErrorCode::Validation, text));
            }
        };
        let approve = Approve {
            step: request.step,
            index: request.index,
            decision,
            actor,
            groups: Vec::new(),
            comment: request.comment,
            values: request.values,
        };
        let (letter, answer) = Letter::new(Input::Approve(Box::new(approve)));
        let reply = self.core.ask(execution_id, letter, answer).await?;
        Ok(ApproveAnswer {
            seq: reply.version.get(),
            decision: decision.as_str().into(),
        })
    }
}

impl Core {
    /// What is kept under a key for a step to take over.
    pub(super) async fn cached(
        &self,
        tenant_id: &TenantId,
        key: &CacheKey,
        now: Timestamp,
    ) -> Result<CacheAnswer, RuntimeError> {
        let scope = MatchKey::of(&Text::from(key.scope.as_str()));
        let found = self
            .store
            .cached(tenant_id, &scope, key.key_sha256, now)
            .await?;
        let Some(found) = found else {
            return Ok(CacheAnswer::Miss);
        };
        let kept = match &found.result {
            noetl_store::CachedResult::Inline(kept)
            | noetl_store::CachedResult::Reference(kept) => kept,
        };
        let Ok(result) = CachedResult::from_json(kept) else {
            tracing::error!("a cached result cannot be read");
            return Ok(CacheAnswer::Miss);
        };
        Ok(CacheAnswer::Hit(Box::new(CacheHit {
            origin: Origin {
                execution_id: found.origin_execution_id,
                seq: found.origin_seq,
            },
            result,
        })))
    }
}

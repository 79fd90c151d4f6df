//! Starts executions.

use std::sync::Arc;
use std::time::Duration;

use noetl_api::execute::{ExecuteRequest, ExecuteResponse};
use noetl_engine::{EngineInput, StartInput};
use noetl_store::{AnsweredRequest, Execution, ExecutionFacts, ExecutionOrigin};
use noetl_types::limits::Priority;
use noetl_types::redact::SecretSet;
use noetl_types::trace::TraceContext;
use noetl_types::{ExecutionId, Json, Millis, PlaybookPath, PoolName, Scope, Timestamp};

use super::Executions;
use super::admission::{StartCandidate, check_platform_child};
use super::dedup_keys::{self, IdempotencyKey};
use super::wait::check_long_poll_wait;
use crate::access::{AuthContext, CallContext};
use crate::driver::{EarlierEffect, Message, ReservedKeys, wait_for_reply};
use crate::error::{Result, RuntimeError};
use crate::metrics::{self, StartEntry};
use crate::rng;
use crate::services::catalog::{Definition, no_definition};
use crate::services::quotas::StartAdmission;

/// Pool of executions that name none.
const SHARED_POOL: &str = "shared";
/// Status of an answer that refers to an earlier execution with the same dedup key.
pub(crate) const STATUS_DUPLICATE: &str = "duplicate";

/// Maximum delay of a start with `start_at`.
const MAX_START_DELAY: Millis = Millis::from_secs(366 * 24 * 3600);

/// An execution to start.
#[derive(Debug, Default)]
pub struct StartRequest {
    pub(crate) request: ExecuteRequest,
    /// Entry point of the request, for metrics.
    pub(crate) entry: StartEntry,
    /// Execution that this one reruns.
    pub(crate) rerun_of: Option<ExecutionId>,
    /// Idempotency key, if the start happens at most once.
    pub(crate) idempotency_key: Option<IdempotencyKey>,
    /// Suppresses the duplicate event in the log of the first execution with the same dedup key.
    pub(crate) suppress_duplicate_event: bool,
    /// Origin of an execution that a step of its parent starts.
    pub(crate) child: Option<ChildOrigin>,
}

/// Origin of an execution that a step of its parent starts.
#[derive(Debug)]
pub(crate) struct ChildOrigin {
    /// Id that the parent allocated for it.
    pub(crate) execution_id: ExecutionId,
    pub(crate) parent: Execution,
    /// Number of ancestors.
    pub(crate) depth: u32,
}

impl From<ExecuteRequest> for StartRequest {
    fn from(request: ExecuteRequest) -> Self {
        Self { request, ..Self::default() }
    }
}

impl StartRequest {
    /// Makes the start happen at most once per idempotency key.
    pub fn with_idempotency_key(mut self, key: &str) -> Result<Self> {
        self.idempotency_key = Some(IdempotencyKey::for_start_request(key, &self.request)?);
        Ok(self)
    }
}

/// A started execution.
#[derive(Debug)]
pub struct StartedExecution {
    pub answer: ExecuteResponse,
    /// True if the same request started it before.
    pub is_replay: bool,
}

impl StartedExecution {
    fn newly_started(answer: ExecuteResponse) -> Self {
        Self { answer, is_replay: false }
    }
}

impl Executions {
    /// Starts an execution. If the request sets `wait_ms`, waits for its end. A child that has
    /// already begun is not started again.
    pub async fn start(
        &self,
        ctx: &CallContext,
        start: impl Into<StartRequest>,
    ) -> Result<StartedExecution> {
        let start = start.into();
        let (entry, has_key) = (start.entry, start.request.dedup.is_some());
        let is_child = start.child.is_some();
        let started = self.start_uncounted(ctx, start).await;
        let outcome = match &started {
            Ok(started) if started.is_replay || started.answer.status == STATUS_DUPLICATE => {
                metrics::StartOutcome::Duplicate
            }
            Ok(_) => metrics::StartOutcome::Started,
            Err(_) => metrics::StartOutcome::Refused,
        };
        // Only requests are counted.
        if !is_child {
            self.infra.metrics.count_start_request(entry, outcome, has_key);
        }
        started
    }

    async fn start_uncounted(
        &self,
        ctx: &CallContext,
        start: StartRequest,
    ) -> Result<StartedExecution> {
        let wait = start.request.wait_ms.filter(|wait| *wait > 0);
        let wait = wait.map(check_long_poll_wait).transpose()?;
        let (store, now) = (self.infra.store(), self.infra.now());
        self.check_start(ctx, &start, now).await?;
        let child = start.child;
        let request = match child {
            Some(_) => start.request,
            None => self.redact_request(ctx, start.request).await?,
        };
        let definition = self.visible_definition(ctx, &request).await?;
        let (tenant_id, path) = (ctx.tenant(), &definition.entry.path);
        let dedup = dedup_keys::dedup_reservation_from_request(&request, tenant_id, path, now)?;
        let facts = execution_facts(&definition, &request, child.as_ref(), &ctx.auth, now)?;
        let candidate = StartCandidate {
            definition: &definition,
            facts: &facts,
            payload: request.payload.as_ref(),
            child_id: child.as_ref().map(|child| child.execution_id),
            idempotency_key: start.idempotency_key.as_ref(),
            dedup: dedup.as_ref(),
        };
        let admissions = self.admit_execution(ctx, &candidate).await?;
        let execution_id = match &child {
            Some(child) => child.execution_id,
            None => self.infra.ids.mint_id(now)?,
        };
        let follower = wait.map(|_| self.driver.waiters.followers.follow_execution(execution_id));
        let input = StartInput {
            depth: child.as_ref().map_or(0, |child| child.depth),
            rerun_of: start.rerun_of.map(|id| Json::from(id.to_string())),
            dedup: dedup.as_ref().map(dedup_keys::dedup_reservation_to_json),
            actor: ctx.actor.clone(),
            ..self.build_start(execution_id, &definition, &request, &facts)
        };
        let initial = initial_answer(execution_id, &definition);
        let idempotency = start.idempotency_key.as_ref().map(|key| key.to_record(&initial, now));
        let (message, answer) = Message::new(EngineInput::Start(Box::new(input)));
        let message =
            message.with_reserved_keys(ReservedKeys { dedup: dedup.clone(), idempotency });
        self.driver.create_mailbox(execution_id, Arc::clone(&definition), facts, message);
        let reply = wait_for_reply(answer).await?;
        match reply.earlier {
            None => {}
            Some(EarlierEffect::Replay(answered)) => {
                return self.replay_start(&answered, wait).await;
            }
            Some(EarlierEffect::Duplicate(first)) => {
                if !start.suppress_duplicate_event {
                    self.record_duplicate_message(first, execution_id, dedup.as_ref());
                }
                let status = STATUS_DUPLICATE.into();
                let answer = ExecuteResponse { execution_id: first, status, ..initial };
                if let Some(key) = &start.idempotency_key {
                    // The same request gets this answer after the dedup window too.
                    store.store_answer(tenant_id, first, key.to_record(&answer, now), now).await?;
                }
                return Ok(StartedExecution::newly_started(answer));
            }
        }
        admissions.into_iter().for_each(StartAdmission::commit_start);
        let outcome = match reply.outcome {
            Some(outcome) => Some(outcome).filter(|_| child.is_none()),
            None => self.wait_if_requested(execution_id, follower, wait).await,
        };
        Ok(StartedExecution::newly_started(ExecuteResponse {
            commands_generated: reply.issued,
            outcome: self.to_api_outcome_if_ended(outcome).await?,
            ..initial
        }))
    }

    /// Redacts from a request the secrets that were issued to the parent execution, if the caller
    /// is a worker. Other callers can name any parent, and could learn its secrets by observing
    /// what is redacted. For the same reason prefixes of secrets are not redacted.
    async fn redact_request(
        &self,
        ctx: &CallContext,
        mut request: ExecuteRequest,
    ) -> Result<ExecuteRequest> {
        let auth = &ctx.auth;
        let is_worker = auth.command_token.is_some() || auth.allows_scope(Scope::Worker);
        let Some(parent) = request.parent_execution_id.filter(|_| is_worker) else {
            return Ok(request);
        };
        let values = [request.payload.take(), request.trace.take(), request.labels.take()];
        let values = values.into_iter().map(|value| (parent, value)).collect();
        let redact = |value: Option<Json>, issued: &SecretSet| {
            value.map(|value| issued.clone().only_whole().redact_json(value))
        };
        let redacted = self.secrets.redact_issued_secrets(values, redact).await?;
        let mut redacted = redacted.into_iter();
        request.payload = redacted.next().flatten();
        request.trace = redacted.next().flatten();
        request.labels = redacted.next().flatten();
        Ok(request)
    }

    /// Returns the definition that a request names. One that the caller cannot see is reported as
    /// not found.
    async fn visible_definition(
        &self,
        ctx: &CallContext,
        request: &ExecuteRequest,
    ) -> Result<Arc<Definition>> {
        let definition = self.catalog.resolve_definition(ctx.tenant(), request).await?;
        if ctx.auth.can_see_path(Some(&definition.entry.path)) {
            return Ok(definition);
        }
        Err(match &request.path {
            Some(path) if request.catalog_id.is_none() => no_definition(path),
            Some(_) | None => RuntimeError::no_definition(),
        })
    }

    /// Answers a replayed request with the execution that it started before, and with its end if
    /// the caller waits.
    async fn replay_start(
        &self,
        answered: &AnsweredRequest,
        wait: Option<Duration>,
    ) -> Result<StartedExecution> {
        let answer = dedup_keys::parse_earlier_answer(answered)?;
        let outcome = match wait {
            Some(wait) => self.wait_for_result(answer.execution_id, wait).await?,
            None => None,
        };
        Ok(StartedExecution { answer: ExecuteResponse { outcome, ..answer }, is_replay: true })
    }

    /// Rejects a start that cannot happen, or under a parent that the caller cannot access.
    async fn check_start(
        &self,
        ctx: &CallContext,
        start: &StartRequest,
        now: Timestamp,
    ) -> Result<()> {
        let latest = now.saturating_add(MAX_START_DELAY);
        if start.request.start_at.is_some_and(|start_at| start_at > latest) {
            let text =
                format!("start_at is after {latest}; choose an earlier time or use a schedule");
            return Err(RuntimeError::out_of_range(text));
        }
        // The outcome of a child is reported to its parent, so the caller must have access to the
        // parent.
        if start.child.is_none()
            && let Some(parent) = start.request.parent_execution_id
        {
            ctx.visible_execution(self.infra.store(), parent).await?;
        }
        Ok(())
    }

    fn build_start(
        &self,
        execution_id: ExecutionId,
        definition: &Definition,
        request: &ExecuteRequest,
        facts: &ExecutionFacts,
    ) -> StartInput {
        let entry = &definition.entry;
        StartInput {
            version: entry.version,
            definition_sha256: entry.sha256,
            payload: request.payload.clone().unwrap_or_else(Json::empty_map),
            env: self.infra.settings.env.clone(),
            seed: rng::random_bytes(&*self.infra.rng),
            parent_execution_id: request.parent_execution_id,
            execution_pool: Some(facts.pool.clone()),
            priority: request.priority,
            start_at: request.start_at.filter(|start_at| *start_at > facts.started_at),
            server_url: self.infra.settings.public_url.clone(),
            emitter: Some(self.infra.settings.server_name.clone()),
            trace: self.trace_context_for(execution_id, request),
            ..StartInput::new(execution_id, entry.catalog_id, entry.path.clone())
        }
    }

    /// Trace context of an execution: the one in the request, or a new one if traces are sent, so
    /// that the services it calls can join the trace.
    fn trace_context_for(
        &self,
        execution_id: ExecutionId,
        request: &ExecuteRequest,
    ) -> Option<Json> {
        let new_context = || {
            let context = TraceContext::for_execution(execution_id, None);
            Json::object([("traceparent", Json::from(context.to_string()))])
        };
        let requested = request.trace.clone();
        requested.or_else(|| self.infra.settings.trace_endpoint.is_some().then(new_context))
    }
}

/// Builds the answer to a start, as far as it is known before the execution begins.
fn initial_answer(execution_id: ExecutionId, definition: &Definition) -> ExecuteResponse {
    let entry = &definition.entry;
    ExecuteResponse {
        execution_id,
        status: "started".into(),
        commands_generated: 0,
        path: entry.path.clone(),
        version: entry.version,
        catalog_id: entry.catalog_id,
        outcome: None,
    }
}

fn execution_facts(
    definition: &Definition,
    request: &ExecuteRequest,
    child: Option<&ChildOrigin>,
    auth: &AuthContext,
    now: Timestamp,
) -> Result<ExecutionFacts> {
    let entry = &definition.entry;
    if let Some(child) = child {
        let parent = child.parent.facts.path.as_ref();
        check_platform_child(parent, &entry.path, request.payload.as_ref())?;
    }
    let pool = match &request.execution_pool {
        Some(pool) => pool.clone(),
        None => default_pool(&entry.path)?,
    };
    let priority = Priority::new(request.priority.unwrap_or_default().into())
        .map_err(|error| RuntimeError::out_of_range(error.to_string()))?;
    Ok(ExecutionFacts {
        tenant_id: auth.tenant_id.clone(),
        organization_id: auth.organization_id.clone(),
        catalog_id: Some(entry.catalog_id),
        path: Some(entry.path.clone()),
        playbook_version: Some(entry.version),
        definition_sha256: Some(entry.sha256),
        parent_execution_id: request.parent_execution_id,
        root_execution_id: child.map(|child| {
            let parent = &child.parent;
            parent.facts.root_execution_id.unwrap_or(parent.execution_id)
        }),
        forked_from: None,
        origin: ExecutionOrigin::Driven,
        pool,
        priority,
        labels: request.labels.clone(),
        started_at: now,
    })
}

/// Default pool of an execution, by the first segment of its path.
fn default_pool(path: &PlaybookPath) -> Result<PoolName> {
    let name = match path.as_str().split('/').next() {
        Some(root @ ("system" | "subscription")) if path.as_str().contains('/') => root,
        _ => SHARED_POOL,
    };
    PoolName::new(name).map_err(|error| RuntimeError::internal(error.to_string()))
}

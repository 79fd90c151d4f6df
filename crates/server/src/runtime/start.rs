//! Starts executions.

use std::sync::Arc;
use std::time::Duration;

use noetl_api::execute::{self, ExecuteRequest, ExecuteResponse};
use noetl_engine::{EngineInput, StartInput};
use noetl_messaging::ExecutionFollower;
use noetl_store::{AnsweredRequest, CatalogKey, ExecutionFacts, ExecutionOrigin};
use noetl_types::limits::{MAX_LONG_POLL_WAIT, Priority};
use noetl_types::redact::SecretSet;
use noetl_types::trace::TraceContext;
use noetl_types::{
    CatalogId, ErrorCode, ExecutionId, Json, Millis, PlaybookPath, PoolName, Scope, TenantId,
    Timestamp,
};

use super::admission::{StartCandidate, check_platform_child};
use super::auth_context::AuthContext;
use super::dedup_keys::{self, IdempotencyKey};
use super::driver::{EarlierEffect, Message, ReservedKeys, wait_for_reply};
use super::error::RuntimeError;
use super::outcome::ExecutionOutcome;
use super::rng;
use super::{Core, Definition, Runtime};
use crate::metrics::{self, StartEntry};

/// Pool of executions that name none.
const SHARED_POOL: &str = "shared";
/// Status of an answer that refers to an earlier execution with the same dedup key.
pub(super) const STATUS_DUPLICATE: &str = "duplicate";

/// Maximum delay of a start with `start_at`.
const MAX_START_DELAY: Millis = Millis::from_secs(366 * 24 * 3600);

impl Runtime {
    /// Starts an execution. If the request sets `wait_ms`, waits for its end.
    pub async fn execute(&self, request: ExecuteRequest) -> Result<ExecuteResponse, RuntimeError> {
        self.execute_with_options(request, StartOptions::default()).await
    }

    /// Starts an execution at most once per idempotency key.
    pub async fn execute_once(
        &self,
        request: ExecuteRequest,
        key: &str,
    ) -> Result<ExecuteResponse, RuntimeError> {
        let started = self.start_once(request, key).await?;
        Ok(started.answer)
    }

    /// Starts an execution at most once per idempotency key, and reports whether it was started
    /// before.
    pub(crate) async fn start_once(
        &self,
        request: ExecuteRequest,
        key: &str,
    ) -> Result<StartedExecution, RuntimeError> {
        let options = StartOptions {
            idempotency_key: Some(IdempotencyKey::for_start_request(key, &request)?),
            ..StartOptions::default()
        };
        self.start_and_count(request, options).await
    }

    /// Starts an execution with options: as a rerun, or under an idempotency key.
    pub(super) async fn execute_with_options(
        &self,
        request: ExecuteRequest,
        options: StartOptions,
    ) -> Result<ExecuteResponse, RuntimeError> {
        let started = self.start_and_count(request, options).await?;
        Ok(started.answer)
    }

    async fn start_and_count(
        &self,
        request: ExecuteRequest,
        options: StartOptions,
    ) -> Result<StartedExecution, RuntimeError> {
        let (entry, has_key) = (options.entry, request.dedup.is_some());
        let answer = self.start_execution(request, options).await;
        let outcome = match &answer {
            Ok(started) if started.is_replay || started.answer.status == STATUS_DUPLICATE => {
                metrics::StartOutcome::Duplicate
            }
            Ok(_) => metrics::StartOutcome::Started,
            Err(_) => metrics::StartOutcome::Refused,
        };
        self.core.metrics.count_start_request(entry, outcome, has_key);
        answer
    }

    async fn start_execution(
        &self,
        request: ExecuteRequest,
        options: StartOptions,
    ) -> Result<StartedExecution, RuntimeError> {
        let wait = requested_wait(&request)?;
        let is_child = self.check_start(&request).await?;
        let request = self.redact_request(request).await?;
        let definition = self.visible_definition(&request).await?;
        let (tenant_id, path) = (self.tenant(), &definition.entry.path);
        let now = self.core.clock.now();
        let dedup = dedup_keys::dedup_reservation_from_request(&request, tenant_id, path, now)?;
        let facts = execution_facts(&definition, &request, self.auth_context(), now)?;
        let candidate = StartCandidate {
            definition: &definition,
            facts: &facts,
            payload: request.payload.as_ref(),
            is_child,
            idempotency_key: options.idempotency_key.as_ref(),
            dedup: dedup.as_ref(),
        };
        let admission = self.admit_execution(&candidate).await?;
        let execution_id = self.core.id_allocator.mint_id(now)?;
        let follower = wait.map(|_| self.core.followers.follow_execution(execution_id));
        let start = StartInput {
            rerun_of: options.rerun_of.map(|id| Json::from(id.to_string())),
            dedup: dedup.as_ref().map(dedup_keys::dedup_reservation_to_json),
            actor: self.actor.clone(),
            ..(self.core).build_start(execution_id, &definition, &request, &facts)
        };
        let initial = initial_answer(execution_id, &definition);
        let idempotency = options.idempotency_key.map(|key| key.into_record(&initial, now));
        let (message, answer) = Message::new(EngineInput::Start(Box::new(start)));
        let message =
            message.with_reserved_keys(ReservedKeys { dedup: dedup.clone(), idempotency });
        self.core.begin_execution(execution_id, Arc::clone(&definition), facts, message);
        let reply = wait_for_reply(answer).await?;
        match reply.earlier {
            None => {}
            Some(EarlierEffect::Replay(answered)) => {
                return self.replay_start(&answered, wait).await;
            }
            Some(EarlierEffect::Duplicate(first)) => {
                if !options.suppress_duplicate_event {
                    self.core.record_duplicate_message(first, execution_id, dedup.as_ref());
                }
                return Ok(StartedExecution::newly_started(ExecuteResponse {
                    execution_id: first,
                    status: STATUS_DUPLICATE.into(),
                    ..initial
                }));
            }
        }
        if let Some(admission) = admission {
            admission.commit_start();
        }
        let outcome = match reply.outcome {
            Some(outcome) => Some(outcome),
            None => self.wait_if_requested(execution_id, follower, wait).await,
        };
        Ok(StartedExecution::newly_started(ExecuteResponse {
            commands_generated: reply.issued,
            outcome: self.core.to_api_outcome_if_ended(outcome).await?,
            ..initial
        }))
    }

    /// Waits for a new execution to end, if the caller requested that. Returns `None` if it has not
    /// ended in time or the server shuts down.
    async fn wait_if_requested(
        &self,
        execution_id: ExecutionId,
        follower: Option<ExecutionFollower<ExecutionOutcome>>,
        wait: Option<Duration>,
    ) -> Option<ExecutionOutcome> {
        let (mut follower, wait) = (follower?, wait?);
        let outcome = self.core.wait_for_outcome(execution_id, &mut follower, wait);
        let outcome = self.core.shutdown.run_until_cancelled(outcome).await;
        outcome.and_then(Result::ok).flatten()
    }

    /// Redacts from a request the secrets that were issued to the parent execution, if the caller
    /// is a worker. Other callers can name any parent, and could learn its secrets by observing
    /// what is redacted. For the same reason prefixes of secrets are not redacted.
    async fn redact_request(
        &self,
        mut request: ExecuteRequest,
    ) -> Result<ExecuteRequest, RuntimeError> {
        let auth = self.auth_context();
        let is_worker = auth.command_token.is_some() || auth.allows_scope(Scope::Worker);
        let Some(parent) = request.parent_execution_id.filter(|_| is_worker) else {
            return Ok(request);
        };
        if let Some(payload) = request.payload.take() {
            let redact =
                |payload, issued: &SecretSet| issued.clone().only_whole().redact_json(payload);
            let redacted = self.redact_issued_secrets(vec![(parent, payload)], redact).await?;
            request.payload = redacted.into_iter().next();
        }
        Ok(request)
    }

    /// Returns the definition that a request names. One that the caller cannot see is reported as
    /// not found.
    async fn visible_definition(
        &self,
        request: &ExecuteRequest,
    ) -> Result<Arc<Definition>, RuntimeError> {
        let definition = self.core.resolve_definition(self.tenant(), request).await?;
        if self.auth_context().can_see_path(Some(&definition.entry.path)) {
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
    ) -> Result<StartedExecution, RuntimeError> {
        let answer = dedup_keys::parse_earlier_answer(answered)?;
        let outcome = match wait {
            Some(wait) => self.wait_for_end(answer.execution_id, wait).await?,
            None => None,
        };
        Ok(StartedExecution { answer: ExecuteResponse { outcome, ..answer }, is_replay: true })
    }

    /// Rejects a start that cannot happen, or under a parent that the caller cannot access. Returns
    /// true if the parent is active.
    async fn check_start(&self, request: &ExecuteRequest) -> Result<bool, RuntimeError> {
        check_start_time(request, self.now())?;
        let Some(parent) = request.parent_execution_id else {
            return Ok(false);
        };
        // The outcome of a child is reported to its parent, so the caller must have access to the
        // parent.
        let parent = self.visible_execution(parent).await?;
        Ok(!parent.view.status.is_terminal())
    }

    /// Waits up to `timeout` for an execution to end.
    pub async fn wait_for_end(
        &self,
        execution_id: ExecutionId,
        timeout: Duration,
    ) -> Result<Option<execute::ExecutionResult>, RuntimeError> {
        let mut follower = self.core.followers.follow_execution(execution_id);
        if let Some(outcome) = self.core.load_outcome(execution_id).await? {
            return self.core.to_api_outcome(outcome).await.map(Some);
        }
        let outcome = self.core.wait_for_outcome(execution_id, &mut follower, timeout).await?;
        self.core.to_api_outcome_if_ended(outcome).await
    }
}

/// A started execution.
#[derive(Debug)]
pub(crate) struct StartedExecution {
    pub(crate) answer: ExecuteResponse,
    /// True if the same request started it before.
    pub(crate) is_replay: bool,
}

impl StartedExecution {
    fn newly_started(answer: ExecuteResponse) -> Self {
        Self { answer, is_replay: false }
    }
}

/// Options of a start.
#[derive(Debug, Clone, Default)]
pub(super) struct StartOptions {
    /// Entry point of the request, for metrics.
    pub(super) entry: StartEntry,
    /// Execution that this one reruns.
    pub(super) rerun_of: Option<ExecutionId>,
    /// Idempotency key, if the start happens at most once.
    pub(super) idempotency_key: Option<IdempotencyKey>,
    /// Suppresses the duplicate event in the log of the first execution with the same dedup key.
    pub(super) suppress_duplicate_event: bool,
}

/// A child execution to start.
pub(super) struct ChildStart {
    /// Id that the parent allocated for it.
    pub(super) child: ExecutionId,
    pub(super) parent: ExecutionId,
    /// Number of ancestors.
    pub(super) depth: u32,
    /// Playbook to run, by path or by catalog id.
    pub(super) path: Option<PlaybookPath>,
    pub(super) catalog_id: Option<CatalogId>,
    pub(super) version: Option<u32>,
    pub(super) payload: Json,
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

/// Rejects a `start_at` that is too far in the future.
fn check_start_time(request: &ExecuteRequest, now: Timestamp) -> Result<(), RuntimeError> {
    let latest = now.saturating_add(MAX_START_DELAY);
    if request.start_at.is_some_and(|start_at| start_at > latest) {
        let text = format!("start_at is after {latest}; choose an earlier time or use a schedule");
        return Err(RuntimeError::refused(ErrorCode::OutOfRange, text));
    }
    Ok(())
}

fn requested_wait(request: &ExecuteRequest) -> Result<Option<Duration>, RuntimeError> {
    let Some(wait_ms) = request.wait_ms.filter(|wait| *wait > 0) else {
        return Ok(None);
    };
    check_long_poll_wait(wait_ms).map(Some)
}

/// Checks `wait_ms` against the maximum of a long poll.
pub(crate) fn check_long_poll_wait(wait_ms: u64) -> Result<Duration, RuntimeError> {
    let max = MAX_LONG_POLL_WAIT.as_ms();
    if wait_ms > max {
        let text = format!("wait_ms = {wait_ms} is out of range 0..{max}");
        return Err(RuntimeError::refused(ErrorCode::OutOfRange, text));
    }
    Ok(Duration::from_millis(wait_ms))
}

impl Core {
    /// Starts a child execution. Does nothing if it has already begun.
    pub(super) async fn start_child_execution(
        self: &Arc<Self>,
        start: ChildStart,
    ) -> Result<(), RuntimeError> {
        let parent = self.store.find_execution(start.parent).await?;
        let Some(parent) = parent else {
            return Ok(());
        };
        let auth = AuthContext {
            tenant_id: parent.facts.tenant_id.clone(),
            organization_id: parent.facts.organization_id.clone(),
            ..AuthContext::default()
        };
        let request = ExecuteRequest {
            path: start.path,
            catalog_id: start.catalog_id,
            version: start.version.map(execute::VersionSelector::Number),
            payload: Some(start.payload),
            parent_execution_id: Some(start.parent),
            // A child runs in the pool of its parent, because a pool may be a single process with
            // its own directory.
            execution_pool: Some(parent.facts.pool.clone()),
            ..ExecuteRequest::default()
        };
        let definition = self.resolve_definition(&auth.tenant_id, &request).await?;
        check_platform_child(
            parent.facts.path.as_ref(),
            &definition.entry.path,
            request.payload.as_ref(),
        )?;
        let now = self.clock.now();
        let root = parent.facts.root_execution_id.unwrap_or(start.parent);
        let facts = ExecutionFacts {
            root_execution_id: Some(root),
            ..execution_facts(&definition, &request, &auth, now)?
        };
        let input = StartInput {
            depth: start.depth,
            ..self.build_start(start.child, &definition, &request, &facts)
        };
        let (message, answer) = Message::new(EngineInput::Start(Box::new(input)));
        self.begin_execution(start.child, definition, facts, message);
        wait_for_reply(answer).await.map(drop)
    }

    /// Returns the definition that a request names.
    async fn resolve_definition(
        &self,
        tenant_id: &TenantId,
        request: &ExecuteRequest,
    ) -> Result<Arc<Definition>, RuntimeError> {
        if let Some(catalog_id) = request.catalog_id {
            return self.load_definition(tenant_id, catalog_id).await;
        }
        let Some(path) = &request.path else {
            return Err(RuntimeError::refused(
                ErrorCode::Validation,
                "path or catalog_id is required",
            ));
        };
        let key = catalog_key(path, request.version.as_ref())?;
        let entry = self.store.find_catalog_entry(tenant_id, key).await?;
        let entry =
            entry.filter(|entry| entry.archived_at.is_none()).ok_or_else(|| no_definition(path))?;
        self.compile_definition(entry)
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
            env: self.settings.env.clone(),
            seed: rng::random_bytes(&*self.rng),
            parent_execution_id: request.parent_execution_id,
            execution_pool: Some(facts.pool.clone()),
            priority: request.priority,
            start_at: request.start_at.filter(|start_at| *start_at > facts.started_at),
            server_url: self.settings.public_url.clone(),
            emitter: Some(self.settings.server_name.clone()),
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
        requested.or_else(|| self.trace_queue.is_enabled().then(new_context))
    }

    /// Outcome of an execution from its log. `None` while it is running.
    pub(super) async fn load_outcome(
        &self,
        execution_id: ExecutionId,
    ) -> Result<Option<ExecutionOutcome>, RuntimeError> {
        let execution = self.store.find_execution(execution_id).await?;
        let execution = execution.ok_or_else(RuntimeError::no_execution)?;
        if !execution.view.status.is_terminal() {
            return Ok(None);
        }
        self.load_final_outcome(&execution).await.map(Some)
    }

    /// Waits for the outcome of an execution that was followed before it could end. `None` if it
    /// does not end in time.
    async fn wait_for_outcome(
        &self,
        execution_id: ExecutionId,
        follower: &mut ExecutionFollower<ExecutionOutcome>,
        timeout: Duration,
    ) -> Result<Option<ExecutionOutcome>, RuntimeError> {
        let outcome = async {
            loop {
                if let Some(outcome) = follower.wait_for_end().await {
                    return outcome;
                }
                // A peer reported the end. If the store cannot be read now, it is read again at the
                // timeout.
                if let Ok(Some(outcome)) = self.load_outcome(execution_id).await {
                    return outcome;
                }
            }
        };
        match tokio::time::timeout(timeout, outcome).await {
            Ok(outcome) => Ok(Some(outcome)),
            Err(_) => self.load_outcome(execution_id).await,
        }
    }

    /// Converts an outcome to its API form, with the stored result loaded.
    pub(super) async fn to_api_outcome(
        &self,
        outcome: ExecutionOutcome,
    ) -> Result<execute::ExecutionResult, RuntimeError> {
        let result = match outcome.result {
            None => None,
            Some(noetl_engine::EventData::Inline(value)) => Some(value),
            Some(noetl_engine::EventData::External(reference)) => {
                Some(self.fetch_result(reference.uri()).await?)
            }
        };
        Ok(execute::ExecutionResult { status: outcome.status, result, error: outcome.error })
    }

    async fn to_api_outcome_if_ended(
        &self,
        outcome: Option<ExecutionOutcome>,
    ) -> Result<Option<execute::ExecutionResult>, RuntimeError> {
        match outcome {
            Some(outcome) => self.to_api_outcome(outcome).await.map(Some),
            None => Ok(None),
        }
    }
}

fn no_definition(path: &PlaybookPath) -> RuntimeError {
    let text = format!("no playbook is registered at `{path}` in the requested version");
    RuntimeError::refused(ErrorCode::NotFound, text)
}

/// Returns the catalog key of a path and a requested version.
pub(crate) fn catalog_key(
    path: &PlaybookPath,
    version: Option<&execute::VersionSelector>,
) -> Result<CatalogKey, RuntimeError> {
    let path = path.clone();
    let number = match version {
        None => return Ok(CatalogKey::Latest(path)),
        Some(execute::VersionSelector::Number(number)) => *number,
        Some(execute::VersionSelector::Label(label)) if label == "latest" => {
            return Ok(CatalogKey::Latest(path));
        }
        Some(execute::VersionSelector::Label(label)) => label.parse().map_err(|_| {
            let text = format!("`{label}` is not a version; use a number or `latest`");
            RuntimeError::refused(ErrorCode::Validation, text)
        })?,
    };
    Ok(CatalogKey::Version(path, number))
}

fn execution_facts(
    definition: &Definition,
    request: &ExecuteRequest,
    auth: &AuthContext,
    now: Timestamp,
) -> Result<ExecutionFacts, RuntimeError> {
    let entry = &definition.entry;
    let pool = match &request.execution_pool {
        Some(pool) => pool.clone(),
        None => default_pool(&entry.path)?,
    };
    let priority = Priority::new(request.priority.unwrap_or_default().into())
        .map_err(|error| RuntimeError::refused(ErrorCode::OutOfRange, error.to_string()))?;
    Ok(ExecutionFacts {
        tenant_id: auth.tenant_id.clone(),
        organization_id: auth.organization_id.clone(),
        catalog_id: Some(entry.catalog_id),
        path: Some(entry.path.clone()),
        playbook_version: Some(entry.version),
        definition_sha256: Some(entry.sha256),
        parent_execution_id: request.parent_execution_id,
        root_execution_id: None,
        forked_from: None,
        origin: ExecutionOrigin::Driven,
        pool,
        priority,
        labels: request.labels.clone(),
        started_at: now,
    })
}

/// Default pool of an execution, by the first segment of its path.
fn default_pool(path: &PlaybookPath) -> Result<PoolName, RuntimeError> {
    let name = match path.as_str().split('/').next() {
        Some(root @ ("system" | "subscription")) if path.as_str().contains('/') => root,
        _ => SHARED_POOL,
    };
    PoolName::new(name)
        .map_err(|error| RuntimeError::refused(ErrorCode::Internal, error.to_string()))
}

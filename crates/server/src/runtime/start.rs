//! Executions begin.

use std::sync::Arc;
use std::time::Duration;

use noetl_api::execute::{self, ExecuteAnswer, ExecuteRequest};
use noetl_bus::Following;
use noetl_engine::{Input, Start};
use noetl_store::{Answered, CatalogKey, ExecutionFacts, Origin};
use noetl_types::limits::{MAX_LONG_POLL, Priority};
use noetl_types::redact::Secrets;
use noetl_types::trace::TraceContext;
use noetl_types::{
    CatalogId, ErrorCode, ExecutionId, Json, Millis, PlaybookPath, PoolName, Scope, TenantId,
    Timestamp,
};

use super::admission::{Candidate, check_platform_child};
use super::behalf::Behalf;
use super::claim::{self, Once};
use super::driver::{Before, Claims, Letter, heard};
use super::entropy;
use super::error::RuntimeError;
use super::outcome::Outcome;
use super::{Core, Definition, Runtime};
use crate::metrics::{self, Entry};

/// The pool of executions that name none.
const SHARED_POOL: &str = "shared";
/// Status of an answer that names an earlier execution.
pub(super) const DUPLICATE: &str = "duplicate";

/// How long a run may lie before it begins.
const LONGEST_DELAY: Millis = Millis::from_secs(366 * 24 * 3600);

impl Runtime {
    /// Starts an execution, and waits for its end where the caller wants that.
    pub async fn execute(&self, request: ExecuteRequest) -> Result<ExecuteAnswer, RuntimeError> {
        self.launch(request, Launch::default()).await
    }

    /// The same, at most once under a key.
    pub async fn execute_once(
        &self,
        request: ExecuteRequest,
        key: &str,
    ) -> Result<ExecuteAnswer, RuntimeError> {
        let begun = self.begin_once(request, key).await?;
        Ok(begun.answer)
    }

    /// The same, with word of whether it had begun before.
    pub(crate) async fn begin_once(
        &self,
        request: ExecuteRequest,
        key: &str,
    ) -> Result<Begun, RuntimeError> {
        let launch = Launch {
            once: Some(Once::of_request(key, &request)?),
            ..Launch::default()
        };
        self.begin(request, launch).await
    }

    /// Starts an execution, perhaps as the repetition of another one, perhaps under a key.
    pub(super) async fn launch(
        &self,
        request: ExecuteRequest,
        launch: Launch,
    ) -> Result<ExecuteAnswer, RuntimeError> {
        let begun = self.begin(request, launch).await?;
        Ok(begun.answer)
    }

    async fn begin(&self, request: ExecuteRequest, launch: Launch) -> Result<Begun, RuntimeError> {
        let (entry, has_key) = (launch.entry, request.dedup.is_some());
        let answer = self.launched(request, launch).await;
        let outcome = match &answer {
            Ok(begun) if begun.is_replay || begun.answer.status == DUPLICATE => {
                metrics::Outcome::Duplicate
            }
            Ok(_) => metrics::Outcome::Started,
            Err(_) => metrics::Outcome::Refused,
        };
        self.core.metrics.executed(entry, outcome, has_key);
        answer
    }

    async fn launched(
        &self,
        request: ExecuteRequest,
        launch: Launch,
    ) -> Result<Begun, RuntimeError> {
        let wait = wait_of(&request)?;
        let is_child = self.check(&request).await?;
        let request = self.without_secrets(request).await?;
        let definition = self.definition_of(&request).await?;
        let (tenant_id, path) = (self.tenant(), &definition.entry.path);
        let now = self.core.clock.now();
        let dedup = claim::dedup(&request, (tenant_id, path), now)?;
        let facts = facts(&definition, &request, (self.behalf(), now))?;
        let candidate = Candidate {
            definition: &definition,
            facts: &facts,
            payload: request.payload.as_ref(),
            is_child,
            once: launch.once.as_ref(),
            dedup: dedup.as_ref(),
        };
        let admission = self.admission(&candidate).await?;
        let execution_id = self.core.ids.mint(now)?;
        let following = wait.map(|wait| (self.core.followers.follow(execution_id), wait));
        let start = Start {
            rerun_of: launch.rerun_of.map(|id| Json::from(id.to_string())),
            dedup: dedup.as_ref().map(claim::told),
            actor: self.actor.clone(),
            ..(self.core).start_of(execution_id, &definition, &request, &facts)
        };
        let begun = started(execution_id, &definition);
        let idempotency = launch.once.map(|once| once.claim(&begun, now));
        let (letter, answer) = Letter::new(Input::Start(Box::new(start)));
        let letter = letter.claiming(Claims {
            dedup: dedup.clone(),
            idempotency,
        });
        let plan = Arc::clone(&definition);
        self.core.begin(execution_id, plan, facts, letter);
        let reply = heard(answer).await?;
        match reply.before {
            None => {}
            Some(Before::Replay(answered)) => return self.begun_before(&answered, wait).await,
            Some(Before::Duplicate(first)) => {
                if !launch.is_quiet {
                    self.core
                        .note_duplicate(first, execution_id, dedup.as_ref());
                }
                return Ok(Begun::now(ExecuteAnswer {
                    execution_id: first,
                    status: DUPLICATE.into(),
                    ..begun
                }));
            }
        }
        if let Some(admission) = admission {
            admission.begun();
        }
        let end = match (reply.outcome, following) {
            (Some(end), _) => Some(end),
            (None, Some((mut following, wait))) => {
                let end = self.core.end_within(execution_id, &mut following, wait);
                let end = self.core.shutdown.run_until_cancelled(end).await;
                end.and_then(Result::ok).flatten()
            }
            (None, None) => None,
        };
        Ok(Begun::now(ExecuteAnswer {
            commands_generated: reply.issued,
            outcome: self.core.told_if(end).await?,
            ..begun
        }))
    }

    /// A request without the secrets that were lent for the run that makes it, where its worker asks.
    /// Anybody else may name a run, and would learn from what is hidden what was lent for it. For the
    /// same reason what only begins like a secret is left alone.
    async fn without_secrets(
        &self,
        mut request: ExecuteRequest,
    ) -> Result<ExecuteRequest, RuntimeError> {
        let behalf = self.behalf();
        let is_worker = behalf.capability.is_some() || behalf.may(Scope::Worker);
        let Some(parent) = request.parent_execution_id.filter(|_| is_worker) else {
            return Ok(request);
        };
        if let Some(payload) = request.payload.take() {
            let whole = |payload, lent: &Secrets| lent.clone().only_whole().hide(payload);
            let hidden = self.without_lent(vec![(parent, payload)], whole).await?;
            request.payload = hidden.into_iter().next();
        }
        Ok(request)
    }

    /// The definition that a request names. One that is not there for the caller is as good as none.
    async fn definition_of(
        &self,
        request: &ExecuteRequest,
    ) -> Result<Arc<Definition>, RuntimeError> {
        let definition = self.core.wanted(self.tenant(), request).await?;
        if self.behalf().sees(Some(&definition.entry.path)) {
            return Ok(definition);
        }
        Err(match &request.path {
            Some(path) if request.catalog_id.is_none() => no_definition(path),
            Some(_) | None => RuntimeError::no_definition(),
        })
    }

    /// An execution that the same request has started, and its end where the caller waits for it.
    async fn begun_before(
        &self,
        answered: &Answered,
        wait: Option<Duration>,
    ) -> Result<Begun, RuntimeError> {
        let answer = claim::replayed(answered)?;
        let outcome = match wait {
            Some(wait) => self.wait_for_end(answer.execution_id, wait).await?,
            None => None,
        };
        Ok(Begun {
            answer: ExecuteAnswer { outcome, ..answer },
            is_replay: true,
        })
    }

    /// Refuses what would not happen, or would happen to somebody else; says whether it happens under a
    /// run that goes on.
    async fn check(&self, request: &ExecuteRequest) -> Result<bool, RuntimeError> {
        startable(request, self.now())?;
        let Some(parent) = request.parent_execution_id else {
            return Ok(false);
        };
        // What a child comes to is told to its parent, so that must be the caller's.
        let parent = self.execution_row(parent).await?;
        Ok(!parent.view.status.is_terminal())
    }

    /// Waits for the end of an execution, as long as the caller has patience.
    pub async fn wait_for_end(
        &self,
        execution_id: ExecutionId,
        patience: Duration,
    ) -> Result<Option<execute::Outcome>, RuntimeError> {
        let mut following = self.core.followers.follow(execution_id);
        if let Some(outcome) = self.core.ended(execution_id).await? {
            return self.core.told(outcome).await.map(Some);
        }
        let end = self
            .core
            .end_within(execution_id, &mut following, patience)
            .await?;
        self.core.told_if(end).await
    }
}

/// An execution that has begun.
#[derive(Debug)]
pub(crate) struct Begun {
    /// What its sender is told.
    pub(crate) answer: ExecuteAnswer,
    /// Whether the same request started it before.
    pub(crate) is_replay: bool,
}

impl Begun {
    fn now(answer: ExecuteAnswer) -> Self {
        Self {
            answer,
            is_replay: false,
        }
    }
}

/// What is particular about a start.
#[derive(Debug, Clone, Default)]
pub(super) struct Launch {
    /// Where it was asked for.
    pub(super) entry: Entry,
    /// The execution that it repeats.
    pub(super) rerun_of: Option<ExecutionId>,
    /// What it is known by, where it happens at most once.
    pub(super) once: Option<Once>,
    /// Whether the log of the first run under a key is to be left alone when it comes again.
    pub(super) is_quiet: bool,
}

/// A run that another one starts.
pub(super) struct ChildStart {
    /// The id that it has already.
    pub(super) child: ExecutionId,
    /// The run that starts it.
    pub(super) parent: ExecutionId,
    /// How many runs stand above it.
    pub(super) depth: u32,
    /// What is run: by path, or by id.
    pub(super) path: Option<PlaybookPath>,
    pub(super) catalog_id: Option<CatalogId>,
    pub(super) version: Option<u32>,
    /// Its payload.
    pub(super) payload: Json,
}

/// What whoever starts an execution is told, as far as that is known before it begins.
fn started(execution_id: ExecutionId, definition: &Definition) -> ExecuteAnswer {
    let entry = &definition.entry;
    ExecuteAnswer {
        execution_id,
        status: "started".into(),
        commands_generated: 0,
        path: entry.path.clone(),
        version: entry.version,
        catalog_id: entry.catalog_id,
        outcome: None,
    }
}

/// Refuses a time that nobody will see.
fn startable(request: &ExecuteRequest, now: Timestamp) -> Result<(), RuntimeError> {
    let last = now.saturating_add(LONGEST_DELAY);
    if request.start_at.is_some_and(|start_at| start_at > last) {
        let text = format!("start_at lies after {last}; schedule what is to run then");
        return Err(RuntimeError::refused(ErrorCode::OutOfRange, text));
    }
    Ok(())
}

fn wait_of(request: &ExecuteRequest) -> Result<Option<Duration>, RuntimeError> {
    let Some(wait_ms) = request.wait_ms.filter(|wait| *wait > 0) else {
        return Ok(None);
    };
    within_long_poll(wait_ms).map(Some)
}

/// A time to wait that one call may ask for.
pub(crate) fn within_long_poll(wait_ms: u64) -> Result<Duration, RuntimeError> {
    let most = MAX_LONG_POLL.as_ms();
    if wait_ms > most {
        let text = format!("wait_ms = {wait_ms} is out of range 0..{most}");
        return Err(RuntimeError::refused(ErrorCode::OutOfRange, text));
    }
    Ok(Duration::from_millis(wait_ms))
}

impl Core {
    /// Starts a run that another one asked for. Where it has begun, nothing happens.
    pub(super) async fn start_under(
        self: &Arc<Self>,
        order: ChildStart,
    ) -> Result<(), RuntimeError> {
        let parent = self.store.execution(order.parent).await?;
        let Some(parent) = parent else {
            return Ok(());
        };
        let behalf = Behalf {
            tenant_id: parent.facts.tenant_id.clone(),
            organization_id: parent.facts.organization_id.clone(),
            ..Behalf::default()
        };
        let request = ExecuteRequest {
            path: order.path,
            catalog_id: order.catalog_id,
            version: order.version.map(execute::Version::Number),
            payload: Some(order.payload),
            parent_execution_id: Some(order.parent),
            // It belongs where its parent is: a pool may be one process and its folder.
            execution_pool: Some(parent.facts.pool.clone()),
            ..ExecuteRequest::default()
        };
        let definition = self.wanted(&behalf.tenant_id, &request).await?;
        check_platform_child(
            parent.facts.path.as_ref(),
            &definition.entry.path,
            request.payload.as_ref(),
        )?;
        let now = self.clock.now();
        let root = parent.facts.root_execution_id.unwrap_or(order.parent);
        let facts = ExecutionFacts {
            root_execution_id: Some(root),
            ..facts(&definition, &request, (&behalf, now))?
        };
        let start = Start {
            depth: order.depth,
            ..self.start_of(order.child, &definition, &request, &facts)
        };
        let (letter, answer) = Letter::new(Input::Start(Box::new(start)));
        self.begin(order.child, definition, facts, letter);
        heard(answer).await.map(drop)
    }

    /// The definition that a request names.
    async fn wanted(
        &self,
        tenant_id: &TenantId,
        request: &ExecuteRequest,
    ) -> Result<Arc<Definition>, RuntimeError> {
        if let Some(catalog_id) = request.catalog_id {
            return self.definition(tenant_id, catalog_id).await;
        }
        let Some(path) = &request.path else {
            return Err(RuntimeError::refused(
                ErrorCode::Validation,
                "say what to run: path or catalog_id",
            ));
        };
        let key = catalog_key(path, request.version.as_ref())?;
        let entry = self.store.catalog_entry(tenant_id, key).await?;
        let entry = entry
            .filter(|entry| entry.archived_at.is_none())
            .ok_or_else(|| no_definition(path))?;
        self.planned(entry)
    }

    fn start_of(
        &self,
        execution_id: ExecutionId,
        definition: &Definition,
        request: &ExecuteRequest,
        facts: &ExecutionFacts,
    ) -> Start {
        let entry = &definition.entry;
        Start {
            version: entry.version,
            definition_sha256: entry.sha256,
            payload: request.payload.clone().unwrap_or_else(Json::empty_map),
            env: self.settings.env.clone(),
            seed: entropy::bytes(&*self.chance),
            parent_execution_id: request.parent_execution_id,
            execution_pool: Some(facts.pool.clone()),
            priority: request.priority,
            start_at: request
                .start_at
                .filter(|start_at| *start_at > facts.started_at),
            server_url: self.settings.public_url.clone(),
            emitter: Some(self.settings.server_name.clone()),
            trace: self.trace_of(execution_id, request),
            ..Start::new(execution_id, entry.catalog_id, entry.path.clone())
        }
    }

    /// The trace that an execution belongs to: the one that is given, or where traces are sent one of
    /// its own, so that whoever is called by it can join.
    fn trace_of(&self, execution_id: ExecutionId, request: &ExecuteRequest) -> Option<Json> {
        let own = || {
            let own = TraceContext::of_run(execution_id, None);
            Json::object([("traceparent", Json::from(own.to_string()))])
        };
        let given = request.trace.clone();
        given.or_else(|| self.traces.is_on().then(own))
    }

    /// How an execution ended, as its log tells; nothing while it goes on.
    pub(super) async fn ended(
        &self,
        execution_id: ExecutionId,
    ) -> Result<Option<Outcome>, RuntimeError> {
        let execution = self.store.execution(execution_id).await?;
        let execution = execution.ok_or_else(RuntimeError::no_execution)?;
        if !execution.view.status.is_terminal() {
            return Ok(None);
        }
        self.last_outcome(&execution).await.map(Some)
    }

    /// The end of an execution that was followed since before it could end; nothing where it goes on
    /// for so long.
    async fn end_within(
        &self,
        execution_id: ExecutionId,
        following: &mut Following<Outcome>,
        patience: Duration,
    ) -> Result<Option<Outcome>, RuntimeError> {
        let end = async {
            loop {
                if let Some(end) = following.end().await {
                    return end;
                }
                // Another server says so. Where it cannot be looked at now, it is when time is up.
                if let Ok(Some(end)) = self.ended(execution_id).await {
                    return end;
                }
            }
        };
        match tokio::time::timeout(patience, end).await {
            Ok(end) => Ok(Some(end)),
            Err(_) => self.ended(execution_id).await,
        }
    }

    /// The end of an execution as the API tells it.
    pub(super) async fn told(&self, outcome: Outcome) -> Result<execute::Outcome, RuntimeError> {
        let result = match outcome.result {
            None => None,
            Some(noetl_engine::Data::Inline(value)) => Some(value),
            Some(noetl_engine::Data::External(reference)) => {
                Some(self.fetch(reference.uri()).await?)
            }
        };
        Ok(execute::Outcome {
            status: outcome.status,
            result,
            error: outcome.error,
        })
    }

    /// The same, where there is one yet.
    async fn told_if(
        &self,
        outcome: Option<Outcome>,
    ) -> Result<Option<execute::Outcome>, RuntimeError> {
        match outcome {
            Some(outcome) => self.told(outcome).await.map(Some),
            None => Ok(None),
        }
    }
}

fn no_definition(path: &PlaybookPath) -> RuntimeError {
    let text = format!("nothing is registered at `{path}`, or not in that version");
    RuntimeError::refused(ErrorCode::NotFound, text)
}

/// The definition at a path, of the version that is asked for.
pub(crate) fn catalog_key(
    path: &PlaybookPath,
    version: Option<&execute::Version>,
) -> Result<CatalogKey, RuntimeError> {
    let path = path.clone();
    let number = match version {
        None => return Ok(CatalogKey::Latest(path)),
        Some(execute::Version::Number(number)) => *number,
        Some(execute::Version::Word(word)) if word == "latest" => {
            return Ok(CatalogKey::Latest(path));
        }
        Some(execute::Version::Word(word)) => word.parse().map_err(|_| {
            let text = format!("`{word}` is not a version: give a number, or `latest`");
            RuntimeError::refused(ErrorCode::Validation, text)
        })?,
    };
    Ok(CatalogKey::Version(path, number))
}

fn facts(
    definition: &Definition,
    request: &ExecuteRequest,
    (behalf, now): (&Behalf, Timestamp),
) -> Result<ExecutionFacts, RuntimeError> {
    let entry = &definition.entry;
    let pool = match &request.execution_pool {
        Some(pool) => pool.clone(),
        None => default_pool(&entry.path)?,
    };
    let priority = Priority::new(request.priority.unwrap_or_default().into())
        .map_err(|error| RuntimeError::refused(ErrorCode::OutOfRange, error.to_string()))?;
    Ok(ExecutionFacts {
        tenant_id: behalf.tenant_id.clone(),
        organization_id: behalf.organization_id.clone(),
        catalog_id: Some(entry.catalog_id),
        path: Some(entry.path.clone()),
        playbook_version: Some(entry.version),
        definition_sha256: Some(entry.sha256),
        parent_execution_id: request.parent_execution_id,
        root_execution_id: None,
        forked_from: None,
        origin: Origin::Driven,
        pool,
        priority,
        labels: request.labels.clone(),
        started_at: now,
    })
}

/// The pool of an execution that names none, by its path.
fn default_pool(path: &PlaybookPath) -> Result<PoolName, RuntimeError> {
    let word = match path.as_str().split('/').next() {
        Some(root @ ("system" | "subscription")) if path.as_str().contains('/') => root,
        _ => SHARED_POOL,
    };
    PoolName::new(word)
        .map_err(|error| RuntimeError::refused(ErrorCode::Internal, error.to_string()))
}

//! Drives executions: decides what follows, appends it, hands out commands, accepts reports.
//!
//! Owns time, randomness and waiting. The engine makes the decisions and the store persists them.
//! All state held in memory here can be lost at any moment.

mod admission;
mod audit_log;
mod auth_context;
mod background_tasks;
mod batch;
mod classic;
mod command_token;
mod control;
mod credentials;
mod dedup_keys;
mod definition;
mod driver;
mod error;
mod event_stream;
mod follow_ups;
mod idempotent_requests;
mod ids;
mod issued_secrets;
mod keychain;
mod leases;
mod maintenance;
mod messaging;
mod outbox;
mod outcome;
mod path_globs;
mod peers;
mod platform;
mod project;
mod purge;
mod quota;
mod reports;
mod results;
mod rng;
mod rotation;
mod sealed_credentials;
mod secret_audit;
mod settings;
mod signals;
mod slots;
mod start;
mod timer_queue;
mod tokens;
mod traces;
mod worker_api;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use noetl_api::command::LeasedCommand;
use noetl_api::explain::PointInTime;
use noetl_engine::{ExecutionState, decode_record};
use noetl_messaging::{ExecutionFollower, ExecutionFollowers, Matcher};
use noetl_store::{
    AppendError, AppendReceipt, AppendRequest, CatalogEntry, CatalogKey, Execution, LogHead,
    LogPageLimit, SnapshotKey, Store,
};
use noetl_types::id::TypedId;
use noetl_types::redact::ExecutionSecretRegistry;
use noetl_types::{CatalogId, EventId, ExecutionId, ExecutionVersion, TenantId, Text, Timestamp};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock::Clock;
use crate::crypto::HmacSigner;
use crate::metrics::Metrics;
use crate::random_source::{RandomSource, SystemRandom};
use crate::read::{ObservedSeq, WorkerCache};
use audit_log::AuditLog;
pub(crate) use audit_log::AuditRecord;
pub use auth_context::AuthContext;
use classic::ClassicClaims;
pub use command_token::CommandToken;
use definition::CompiledDefinitions;
pub(crate) use definition::{Definition, NotRunnable};
use driver::ExecutionDriver;
pub use error::RuntimeError;
pub(crate) use error::error_chain;
pub use event_stream::StreamSettings;
pub(crate) use idempotent_requests::{ActiveRequest, RequestAdmission};
use ids::IdAllocator;
pub(crate) use keychain::{KeychainCaller, KeychainKey};
pub(crate) use maintenance::HealthWarning;
use maintenance::HealthWarnings;
use messaging::NatsMessaging;
pub use messaging::NatsSettings;
pub(crate) use outcome::ExecutionOutcome;
use peers::PeerNotifier;
use quota::ExecutionQuota;
pub(crate) use secret_audit::SecretAuditContext;
pub use settings::Settings;
pub(crate) use slots::slot_key;
pub(crate) use start::catalog_key;
use timer_queue::TimerQueue;
use tokens::TokenCache;
pub(crate) use tokens::TokenReference;
use traces::TraceQueue;

/// Drives executions on a store. Clones share the same core and the same [`AuthContext`].
#[derive(Clone)]
pub struct Runtime {
    core: Arc<Core>,
    auth_context: AuthContext,
    /// Id of the idempotent request that this handle works for. The effects of its calls are
    /// deduplicated by it.
    work_id: Option<EventId>,
    /// Audit record for the operations on secrets that calls through this handle make.
    secret_audit: Option<SecretAuditContext>,
    /// Authenticated caller, if known.
    actor: Option<Text>,
    /// Receives the log position that reads through this handle observed.
    observed_seq: Option<ObservedSeq>,
}

struct Core {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    rng: Arc<dyn RandomSource>,
    id_allocator: IdAllocator,
    definitions: CompiledDefinitions,
    settings: Settings,
    driver: ExecutionDriver,
    matcher: Matcher<LeasedCommand>,
    /// Serializes leasing from the store.
    grant_lock: tokio::sync::Mutex<()>,
    followers: ExecutionFollowers<ExecutionOutcome>,
    /// Commands claimed by workers of the classic wire.
    classic_claims: ClassicClaims,
    /// Secrets issued to the workers of executions.
    issued_secrets: ExecutionSecretRegistry,
    /// Briefly cached list of workers.
    worker_cache: WorkerCache,
    /// True once a check has found all tables.
    tables_found: AtomicBool,
    opened_at: Timestamp,
    timer_queue: TimerQueue,
    metrics: Arc<Metrics>,
    health_warnings: HealthWarnings,
    /// NATS connection, if configured.
    messaging: Option<NatsMessaging>,
    /// Signs the command tokens in notifications, if these are enabled.
    signer: Option<HmacSigner>,
    peers: PeerNotifier,
    /// Changes with every append of this process, and with every append that a peer reports.
    append_count: watch::Sender<u64>,
    /// Name of this process among the servers.
    instance: Text,
    /// Recently checked tokens.
    token_cache: TokenCache,
    /// Audit entries that wait to be written.
    audit_log: AuditLog,
    /// Number of active executions per tenant.
    quota: ExecutionQuota,
    /// Ended executions whose traces are to be sent.
    trace_queue: TraceQueue,
    tasks: TaskTracker,
    shutdown: CancellationToken,
}

struct CoreParts {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    rng: Arc<dyn RandomSource>,
    id_allocator: IdAllocator,
    messaging: Option<NatsMessaging>,
    signer: Option<HmacSigner>,
    instance: Text,
}

impl Runtime {
    /// Opens a runtime that drives the executions of a store.
    pub async fn open(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        settings: Settings,
    ) -> Result<Self, RuntimeError> {
        Self::open_with_rng(store, clock, Arc::new(SystemRandom), settings).await
    }

    /// Opens a runtime with the given random number generator, so that a run can be reproduced byte
    /// for byte.
    pub async fn open_with_rng(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        rng: Arc<dyn RandomSource>,
        settings: Settings,
    ) -> Result<Self, RuntimeError> {
        let instance_id = u64::from_be_bytes(rng::random_bytes(&*rng));
        let instance = Text::from(format!("{}-{instance_id:016x}", settings.server_name));
        let now = clock.now();
        let id_allocator = IdAllocator::acquire_lease(
            Arc::clone(&store),
            instance.clone(),
            settings.machine_id,
            now,
        )
        .await?;
        let (messaging, notifications) = match &settings.nats {
            Some(nats) => NatsMessaging::open(nats)
                .await
                .map(|(messaging, notifications)| (Some(messaging), Some(notifications)))?,
            None => (None, None),
        };
        let signer = command_token::load_token_signer(&*store, &*rng, &settings).await?;
        let parts = CoreParts { store, clock, rng, id_allocator, messaging, signer, instance };
        let core = Core::new(parts, settings);
        core.create_stream_cursor().await?;
        core.spawn_background_tasks();
        if let Some(notifications) = notifications {
            core.spawn_messaging_tasks(notifications);
        }
        let runtime = Self {
            core,
            auth_context: AuthContext::default(),
            work_id: None,
            secret_audit: None,
            actor: None,
            observed_seq: None,
        };
        if runtime.settings().platform {
            runtime.spawn_platform_loop();
        }
        Ok(runtime)
    }

    /// Returns a handle on the same core for another caller.
    #[must_use]
    pub fn with_auth_context(&self, auth_context: AuthContext) -> Self {
        Self {
            core: Arc::clone(&self.core),
            auth_context,
            work_id: None,
            secret_audit: None,
            actor: None,
            observed_seq: None,
        }
    }

    /// Sets the id of the request that the calls work for. Effects are recorded under that id and
    /// happen once.
    #[must_use]
    pub(crate) fn with_work_id(self, work_id: Option<EventId>) -> Self {
        Self { work_id, ..self }
    }

    /// Sets the actor that is recorded for the executions that the calls start.
    #[must_use]
    pub(crate) fn with_actor(self, actor: Option<Text>) -> Self {
        Self { actor, ..self }
    }

    /// Records the log positions that reads observe in `observed`.
    #[must_use]
    pub(crate) fn with_observed_seq(self, observed: ObservedSeq) -> Self {
        let observed_seq = Some(observed);
        Self { observed_seq, ..self }
    }

    pub(crate) fn observed_seq(&self) -> Option<&ObservedSeq> {
        self.observed_seq.as_ref()
    }

    pub(crate) fn auth_context(&self) -> &AuthContext {
        &self.auth_context
    }

    /// Tenant whose data is read and written.
    pub(crate) fn tenant(&self) -> &TenantId {
        &self.auth_context.tenant_id
    }

    /// Opens a store for reading and drives nothing: no lease expires, no timer fires, no id is
    /// allocated. For a store that another process may be writing to.
    pub fn open_read_only(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        settings: Settings,
    ) -> Self {
        let parts = CoreParts {
            id_allocator: IdAllocator::read_only(Arc::clone(&store)),
            store,
            clock,
            rng: Arc::new(SystemRandom),
            messaging: None,
            signer: None,
            instance: settings.server_name.clone(),
        };
        Self {
            core: Core::new(parts, settings),
            auth_context: AuthContext::default(),
            work_id: None,
            secret_audit: None,
            actor: None,
            observed_seq: None,
        }
    }

    /// Shuts down: pending requests are answered, and writes in progress are finished within
    /// `timeout`.
    pub async fn close(&self, timeout: Duration) {
        self.core.shutdown.cancel();
        self.core.flush_refusals(true).await;
        self.core.matcher.recheck_all();
        self.core.tasks.close();
        if tokio::time::timeout(timeout, self.core.tasks.wait()).await.is_err() {
            tracing::warn!("shutdown timed out before all writes were finished");
        }
        self.core.id_allocator.release_lease(self.now()).await;
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.core.store
    }

    /// Runs a future in the background. [`Runtime::close`] waits for it to finish.
    pub(crate) fn spawn_background(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.core.tasks.spawn(work);
    }

    /// Runs a future to completion, even if the caller drops the handle.
    pub(crate) fn spawn_to_completion<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> tokio::task::JoinHandle<T> {
        self.core.tasks.spawn(work)
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.core.settings
    }

    pub(crate) fn worker_cache(&self) -> &WorkerCache {
        &self.core.worker_cache
    }

    /// True once a check has found all tables.
    pub(crate) fn tables_found(&self) -> &AtomicBool {
        &self.core.tables_found
    }

    /// Health warnings about the store.
    pub(crate) fn health_warnings(&self) -> Vec<HealthWarning> {
        self.core.health_warnings.current_warnings()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.core.clock.now()
    }

    /// Time since the runtime was opened.
    pub(crate) fn uptime(&self) -> noetl_types::Millis {
        self.now().duration_since(self.core.opened_at)
    }

    pub(crate) fn metrics(&self) -> &Arc<Metrics> {
        &self.core.metrics
    }

    pub(crate) fn mint_id<T: TypedId>(&self) -> Result<T, RuntimeError> {
        Ok(self.core.id_allocator.mint_id(self.now())?)
    }

    /// True if this process holds a machine id, so that it can allocate ids.
    pub(crate) fn has_machine_id(&self) -> bool {
        self.core.id_allocator.is_usable(self.now())
    }

    /// True if NATS is connected; `None` if it is not configured.
    pub(crate) fn is_nats_connected(&self) -> Option<bool> {
        let messaging = self.core.messaging.as_ref()?;
        Some(messaging.link().connection_info().is_connected)
    }

    /// Health of the NATS connection; `None` if it is not configured.
    pub(crate) fn messaging_health(&self) -> Option<Result<(), Text>> {
        let messaging = self.core.messaging.as_ref()?;
        Some(messaging.connection_problem().map_or(Ok(()), Err))
    }

    /// Loads the definition and the current state of an execution, if it exists.
    pub(crate) async fn execution_state(
        &self,
        execution_id: ExecutionId,
    ) -> Result<Option<(Arc<Definition>, ExecutionState)>, RuntimeError> {
        self.core.load_state(execution_id).await
    }

    /// Loads the definition, the state and the log head of an execution as of a past moment.
    pub(crate) async fn execution_state_at(
        &self,
        execution: &Execution,
        at: PointInTime,
    ) -> Result<(Arc<Definition>, ExecutionState, LogHead), RuntimeError> {
        self.core.load_state_at(execution, at).await
    }

    /// Counts an unusable snapshot and deletes it.
    pub(crate) async fn reject_snapshot(
        &self,
        execution_id: ExecutionId,
        key: &SnapshotKey,
        version: ExecutionVersion,
    ) {
        self.core.reject_snapshot(execution_id, key, version).await;
    }

    /// Waits until the log of an execution is past `after`, or until `timeout` has elapsed.
    pub async fn wait_for_events(
        &self,
        execution_id: ExecutionId,
        after: ExecutionVersion,
        timeout: Duration,
    ) {
        let mut following = self.follow_execution(execution_id);
        // The caller reads the log in either case.
        drop(tokio::time::timeout(timeout, following.wait_past(after)).await);
    }

    /// Subscribes to appends to an execution, made here or reported by a peer.
    pub(crate) fn follow_execution(
        &self,
        execution_id: ExecutionId,
    ) -> ExecutionFollower<ExecutionOutcome> {
        self.core.followers.follow_execution(execution_id)
    }
}

impl Core {
    fn new(parts: CoreParts, settings: Settings) -> Arc<Self> {
        Arc::new(Self {
            opened_at: parts.clock.now(),
            store: parts.store,
            clock: parts.clock,
            rng: parts.rng,
            id_allocator: parts.id_allocator,
            definitions: CompiledDefinitions::default(),
            driver: ExecutionDriver::new(settings.cached_executions),
            trace_queue: TraceQueue::new(settings.trace_endpoint.as_ref()),
            settings,
            matcher: Matcher::default(),
            grant_lock: tokio::sync::Mutex::default(),
            followers: ExecutionFollowers::default(),
            classic_claims: ClassicClaims::default(),
            issued_secrets: ExecutionSecretRegistry::default(),
            worker_cache: WorkerCache::default(),
            tables_found: AtomicBool::default(),
            timer_queue: TimerQueue::default(),
            health_warnings: HealthWarnings::default(),
            metrics: Arc::default(),
            messaging: parts.messaging,
            signer: parts.signer,
            peers: PeerNotifier::default(),
            append_count: watch::Sender::new(0),
            instance: parts.instance,
            token_cache: TokenCache::default(),
            audit_log: AuditLog::default(),
            quota: ExecutionQuota::default(),
            tasks: TaskTracker::new(),
            shutdown: CancellationToken::new(),
        })
    }

    async fn append(&self, append: AppendRequest) -> Result<AppendReceipt, AppendError> {
        let mut answers = self.store.append_events(vec![append]).await;
        answers.pop().unwrap_or_else(|| {
            Err(AppendError::Store(noetl_store::StoreError::fatal(
                "the store returned no result for the append",
            )))
        })
    }

    async fn load_definition(
        &self,
        tenant_id: &TenantId,
        catalog_id: CatalogId,
    ) -> Result<Arc<Definition>, RuntimeError> {
        let cached = self.definitions.get(catalog_id);
        let is_of_tenant = |definition: &Arc<Definition>| definition.entry.tenant_id == *tenant_id;
        if let Some(definition) = cached.filter(is_of_tenant) {
            return Ok(definition);
        }
        let key = CatalogKey::Id(catalog_id);
        let entry = self.store.find_catalog_entry(tenant_id, key).await?;
        let entry = entry.ok_or_else(RuntimeError::no_definition)?;
        self.compile_definition(entry)
    }

    /// Compiles a catalog entry into a runnable definition, or returns it from the cache.
    fn compile_definition(&self, entry: CatalogEntry) -> Result<Arc<Definition>, RuntimeError> {
        if let Some(definition) = self.definitions.get(entry.catalog_id) {
            return Ok(definition);
        }
        let definition = Definition::from_catalog_entry(entry, self.settings.defaults);
        let definition = Arc::new(definition.map_err(NotRunnable::into_error)?);
        self.definitions.insert_definition(Arc::clone(&definition));
        Ok(definition)
    }

    /// Loads the outcome of an ended execution.
    async fn load_final_outcome(
        &self,
        execution: &Execution,
    ) -> Result<ExecutionOutcome, RuntimeError> {
        let mut outcome = ExecutionOutcome {
            status: execution.view.status,
            result: None,
            error: execution.view.error.clone(),
        };
        // Only audit events follow the end, so it is near the end of the log.
        let last = execution.head.version.get();
        let after = ExecutionVersion::new((last - i64::from(LogPageLimit::MAX.get())).max(0))
            .unwrap_or_default();
        let tail = self.store.read_events(execution.execution_id, after, LogPageLimit::MAX).await?;
        let mut events = tail.iter().rev();
        if let Some(end) = events
            .find_map(|stored| ExecutionOutcome::from_event(&decode_record(&stored.record).ok()?))
        {
            outcome = end;
        }
        Ok(outcome)
    }
}

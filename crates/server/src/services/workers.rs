//! Worker registrations, and the load of the pools.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use noetl_api::query::PoolsQuery;
use noetl_api::runtime::{
    PoolHeartbeatResponse, PoolListResponse, PoolView, RegisterWorkerRequest, RuntimeView,
    WorkerName,
};
use noetl_store::{
    Command, CommandFilter, CommandStatusFilter, PoolCount, RegisteredRuntime, RuntimeKind,
    RuntimeRegistration, Store, StoreError,
};
use noetl_types::limits::PageLimit;
use noetl_types::{ErrorCode, Json, Millis, PoolName, TenantId, Text, Timestamp, WorkerId};

use crate::access::CallContext;
use crate::classic::ClassicClaims;
use crate::crypto::RecipientKey;
use crate::error::{Result, RuntimeError};
use crate::services::Infrastructure;

const ACTIVE: &str = "active";
const OFFLINE: &str = "offline";
/// Separates the tenant from the worker's name in stored names. It is not printable, so no worker's
/// name contains it.
const TENANT_SEPARATOR: char = '\u{1f}';
/// Field of a registration with the public key that secrets are encrypted for.
const PUBLIC_KEY_FIELD: &str = "public_key";
const DRAINING: &str = "draining";

/// Registered workers.
pub struct WorkerRegistry {
    pub(crate) infra: Arc<Infrastructure>,
    pub(crate) claims: Arc<ClassicClaims>,
    /// Briefly cached list of workers.
    pub(crate) cache: WorkerCache,
}

impl WorkerRegistry {
    pub(crate) fn new(infra: &Arc<Infrastructure>, claims: &Arc<ClassicClaims>) -> Self {
        Self { infra: Arc::clone(infra), claims: Arc::clone(claims), cache: WorkerCache::default() }
    }

    /// Registers a worker, or updates its registration.
    pub async fn register_worker(
        &self,
        ctx: &CallContext,
        worker: RegisterWorkerRequest,
    ) -> Result<RuntimeView> {
        ctx.auth.check_worker_access()?;
        let kind = parse_runtime_kind(worker.kind.as_ref())?;
        let worker_id = parse_worker_id(&worker.name)?;
        if let Some(pool) = worker.labels.get(POOL_LABEL) {
            let pool =
                pool.as_str().ok_or_else(|| invalid_worker("labels.pool_name must be a string"))?;
            let pool = PoolName::new(pool).map_err(invalid_worker)?;
            ctx.auth.served_queue(&pool)?;
        } else {
            ctx.auth.served_queue(&PoolName::shared())?;
        }
        let stored_name = stored_worker_name(ctx.tenant(), &worker_id);
        self.check_worker_name(ctx, kind, &stored_name).await?;
        let detail = Json::object([
            ("status", Json::from(worker.status)),
            ("labels", Json::from(worker.labels)),
            ("capabilities", worker.capabilities.unwrap_or_default()),
            ("capacity", Json::from(worker.capacity)),
            ("runtime", worker.runtime.unwrap_or_default()),
            ("hostname", Json::from(worker.hostname)),
        ]);
        let registered = self
            .infra
            .store()
            .register_runtime(RuntimeRegistration {
                runtime_id: self.infra.mint_id()?,
                kind,
                name: stored_name,
                uri: worker.uri,
                detail: Some(detail),
                now: self.infra.now(),
            })
            .await?;
        self.cache.invalidate();
        self.own_runtime_view(ctx, registered)
    }

    /// Records the heartbeat of a worker. An unknown worker has lost its leases and must register
    /// again.
    pub async fn record_worker_heartbeat(
        &self,
        ctx: &CallContext,
        worker: WorkerName,
    ) -> Result<PoolHeartbeatResponse> {
        ctx.auth.check_worker_access()?;
        let kind = parse_runtime_kind(worker.kind.as_ref())?;
        let worker_id = parse_worker_id(&worker.name)?;
        let now = self.infra.now();
        let stored_name = stored_worker_name(ctx.tenant(), &worker_id);
        if ctx.auth.pools.is_some()
            && let Some(registered) = self.find_cached_worker(kind, &stored_name).await?
        {
            ctx.auth.served_queue(&registered.pool)?;
        }
        if !self.infra.store().record_heartbeat(kind, &stored_name, now).await? {
            return Err(RuntimeError::not_found(
                "the worker is not registered; drop all work and register again",
            ));
        }
        // Leases are renewed, and cancellations reported, by the lease heartbeat. This covers
        // commands claimed by name.
        let cancel = match kind {
            RuntimeKind::WorkerPool => self.claims.renew_claims(ctx, &worker_id).await?,
            RuntimeKind::ServerApi | RuntimeKind::Broker => Vec::new(),
        };
        Ok(PoolHeartbeatResponse {
            status: "ok".into(),
            cancel,
            drain: kind == RuntimeKind::WorkerPool
                && (self.find_cached_worker(kind, &stored_name).await?)
                    .is_some_and(|registered| registered.is_draining),
        })
    }

    /// Requests that a worker finishes its commands and leaves. Its next heartbeat reports this to
    /// it. A new registration clears the request.
    pub async fn drain_worker(&self, ctx: &CallContext, worker: WorkerName) -> Result<RuntimeView> {
        ctx.auth.check_worker_access()?;
        let kind = parse_runtime_kind(worker.kind.as_ref())?;
        let stored_name = stored_worker_name(ctx.tenant(), &parse_worker_id(&worker.name)?);
        let workers = self.infra.store().list_runtimes(kind).await?;
        let current = workers.into_iter().find(|worker| worker.name == stored_name);
        let current = current.ok_or_else(|| {
            let text = format!("there is no worker `{}`", worker.name);
            RuntimeError::not_found(text)
        })?;
        ctx.auth.served_queue(&CachedWorker::from_registration(&current).pool)?;
        let mut detail = current.detail.as_ref().and_then(Json::as_map).cloned();
        let fields = detail.get_or_insert_default();
        fields.insert(DRAIN_KEY.into(), Json::from(true));
        let registered = self
            .infra
            .store()
            .register_runtime(RuntimeRegistration {
                runtime_id: current.runtime_id,
                kind,
                name: current.name,
                uri: current.uri,
                detail: detail.map(Json::from),
                // The worker itself sent no heartbeat.
                now: current.heartbeat,
            })
            .await?;
        self.cache.invalidate();
        self.own_runtime_view(ctx, registered)
    }

    /// Returns the public key that a worker registered for encrypted secrets.
    pub(crate) async fn worker_public_key(
        &self,
        ctx: &CallContext,
        worker_id: &WorkerId,
    ) -> Result<Option<RecipientKey>> {
        let stored_name = stored_worker_name(ctx.tenant(), worker_id);
        let workers = self.infra.store().list_runtimes(RuntimeKind::WorkerPool).await?;
        let worker = workers.into_iter().find(|worker| worker.name == stored_name);
        let detail = worker.and_then(|worker| worker.detail);
        let key = |part: &str| detail.as_ref()?.get(part)?.get(PUBLIC_KEY_FIELD)?.as_str();
        let key = key("runtime").or_else(|| key("capabilities"));
        Ok(key.and_then(RecipientKey::from_base64))
    }

    /// Returns a worker from the cache. A worker that is not cached may have registered since, so
    /// the store is queried then.
    async fn find_cached_worker(
        &self,
        kind: RuntimeKind,
        name: &Text,
    ) -> Result<Option<CachedWorker>> {
        let cached = self.cache.fresh_worker(name, self.infra.now());
        match cached.filter(|_| kind == RuntimeKind::WorkerPool) {
            Some(worker) => Ok(Some(worker)),
            None => self.find_worker(kind, name).await,
        }
    }

    /// Returns a worker from the store.
    async fn find_worker(&self, kind: RuntimeKind, name: &Text) -> Result<Option<CachedWorker>> {
        let now = self.infra.now();
        let registered = self.infra.store().list_runtimes(kind).await?;
        let to_entry = |registered: RegisteredRuntime| {
            (registered.name.clone(), CachedWorker::from_registration(&registered))
        };
        let workers: CachedWorkers = registered.into_iter().map(to_entry).collect();
        let worker = workers.get(name).cloned();
        if kind == RuntimeKind::WorkerPool {
            self.cache.replace_workers(workers, now);
        }
        Ok(worker)
    }

    /// Refuses a caller that is restricted to pools if a live worker of another pool has the name.
    async fn check_worker_name(
        &self,
        ctx: &CallContext,
        kind: RuntimeKind,
        name: &Text,
    ) -> Result<()> {
        if ctx.auth.pools.is_none() {
            return Ok(());
        }
        let registered = self.find_worker(kind, name).await?;
        let is_alive = |registered: &CachedWorker| {
            self.infra.now().duration_since(registered.last_heartbeat)
                <= self.infra.settings.worker_offline_after
        };
        match registered.filter(is_alive) {
            Some(registered) if !ctx.auth.can_serve_pool(&registered.pool) => {
                Err(RuntimeError::forbidden(
                    "a worker of this name is registered for a pool that the token does not allow; \
                    choose another name",
                ))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Refuses a caller that is restricted to pools to release commands of other pools. A worker
    /// may hold commands without a registration, or under a name that another process has
    /// registered since.
    async fn check_held_commands(&self, ctx: &CallContext, worker_id: &WorkerId) -> Result<()> {
        if ctx.auth.pools.is_none() {
            return Ok(());
        }
        let mut pages = WorkerCommandPages::new(ctx, worker_id);
        while let Some(commands) = pages.next_page(self.infra.store()).await? {
            for command in &commands {
                ctx.auth.check_execution_access(ctx.tenant(), &command.pool)?;
            }
        }
        Ok(())
    }

    /// Deletes the registration of a worker and releases its leases. Repeated calls are allowed.
    pub async fn deregister_worker(&self, ctx: &CallContext, worker: WorkerName) -> Result<()> {
        ctx.auth.check_worker_access()?;
        let kind = parse_runtime_kind(worker.kind.as_ref())?;
        let worker_id = parse_worker_id(&worker.name)?;
        let stored_name = stored_worker_name(ctx.tenant(), &worker_id);
        if ctx.auth.pools.is_some()
            && let Some(registered) = self.find_worker(kind, &stored_name).await?
        {
            ctx.auth.served_queue(&registered.pool)?;
        }
        // Only workers hold leases, even if another kind of process has the same name.
        let has_leases = kind == RuntimeKind::WorkerPool;
        if has_leases {
            self.check_held_commands(ctx, &worker_id).await?;
        }
        self.infra.store().remove_runtime(kind, &stored_name).await?;
        self.cache.invalidate();
        if has_leases {
            let now = self.infra.now();
            let released = self.infra.store().expire_worker_leases(ctx.tenant(), &worker_id, now);
            let released = released.await?;
            tracing::debug!(worker = %worker.name, released, "a worker was deregistered");
        }
        Ok(())
    }

    /// Lists the processes of a kind, and the load of the pools.
    pub async fn list_pools(
        &self,
        ctx: &CallContext,
        query: PoolsQuery,
    ) -> Result<PoolListResponse> {
        let kind = match &query.kind {
            None => RuntimeKind::WorkerPool,
            Some(kind) => RuntimeKind::parse(kind)
                .map_err(|error| RuntimeError::refused(ErrorCode::BadQuery, error.to_string()))?,
        };
        let registered = self.infra.store().list_runtimes(kind).await?;
        let is_named =
            |view: &RuntimeView| query.name.as_ref().is_none_or(|name| view.name == **name);
        let has_status = |view: &RuntimeView| {
            let status = query.status.as_ref();
            status.is_none_or(|status| view.status == **status)
        };
        let items: Vec<RuntimeView> = registered
            .into_iter()
            .filter_map(|registered| self.runtime_view(ctx, registered))
            .filter(|view| is_named(view) && has_status(view))
            .collect();
        let counts = self.infra.store().pool_counts().await?;
        Ok(PoolListResponse {
            count: items.len(),
            items,
            pools: counts.iter().filter_map(|count| to_pool_view(count, ctx.tenant())).collect(),
        })
    }

    /// Returns the view of a process that belongs to the caller.
    fn own_runtime_view(
        &self,
        ctx: &CallContext,
        registered: RegisteredRuntime,
    ) -> Result<RuntimeView> {
        let not_registered = || RuntimeError::internal("the worker is not registered");
        self.runtime_view(ctx, registered).ok_or_else(not_registered)
    }

    /// Returns the view of a process, or `None` if it belongs to another tenant.
    fn runtime_view(
        &self,
        ctx: &CallContext,
        registered: RegisteredRuntime,
    ) -> Option<RuntimeView> {
        let name = own_worker_name(ctx.tenant(), &registered.name)?;
        let is_draining = is_drain_requested(&registered);
        let detail = registered.detail.unwrap_or_default();
        let silence = self.infra.now().duration_since(registered.heartbeat);
        let reported = detail.get("status").and_then(Json::as_str);
        let status = if silence > self.infra.settings.worker_offline_after {
            OFFLINE
        } else if is_draining {
            DRAINING
        } else {
            reported.unwrap_or(ACTIVE)
        };
        let capacity = detail.get("capacity").and_then(Json::as_u64);
        Some(RuntimeView {
            runtime_id: registered.runtime_id,
            name,
            kind: registered.kind.as_str().into(),
            uri: registered.uri,
            status: status.into(),
            labels: detail.get("labels").cloned().unwrap_or_else(Json::empty_map),
            capacity: capacity.and_then(|capacity| u32::try_from(capacity).ok()),
            heartbeat: registered.heartbeat,
            created_at: registered.created_at,
        })
    }
}

fn to_pool_view(count: &PoolCount, tenant_id: &TenantId) -> Option<PoolView> {
    Some(PoolView {
        pool: count.pool.pool_for_tenant(tenant_id)?,
        pending: count.pending,
        in_flight: count.leased,
        oldest_lease: count.oldest_lease,
    })
}

/// Parses the kind of process that a caller registers.
fn parse_runtime_kind(kind: Option<&Text>) -> Result<RuntimeKind> {
    match kind.map(|kind| RuntimeKind::parse(kind)) {
        None => Ok(RuntimeKind::WorkerPool),
        Some(Ok(RuntimeKind::ServerApi)) => {
            Err(RuntimeError::forbidden("only a server can register itself as a server"))
        }
        Some(parsed) => parsed.map_err(invalid_worker),
    }
}

fn parse_worker_id(name: &Text) -> Result<WorkerId> {
    WorkerId::new(name.as_str()).map_err(invalid_worker)
}

fn invalid_worker(reason: impl fmt::Display) -> RuntimeError {
    RuntimeError::invalid(format!("{reason}"))
}

/// Returns the name that a worker is stored under. Workers of the default tenant keep their names.
/// Names of other tenants start with the tenant and the separator, which no worker id can contain,
/// because only validated worker ids are accepted.
pub(crate) fn stored_worker_name(tenant_id: &TenantId, worker_id: &WorkerId) -> Text {
    if *tenant_id == TenantId::default() {
        return Text::from(worker_id);
    }
    format!("{tenant_id}{TENANT_SEPARATOR}{worker_id}").into()
}

/// Returns the name that a worker registered with, or `None` if it belongs to another tenant.
pub(crate) fn own_worker_name(tenant_id: &TenantId, stored: &Text) -> Option<Text> {
    let default = TenantId::default();
    let (owner, name) = match stored.split_once(TENANT_SEPARATOR) {
        Some((owner, name)) => (owner, name),
        None => (default.as_str(), stored.as_str()),
    };
    (owner == tenant_id.as_str()).then(|| Text::from(name))
}

/// Field of a registration that records a drain request.
pub(crate) const DRAIN_KEY: &str = "drain";
/// Label that names the pool of a worker. Without it the worker belongs to the shared pool.
pub(crate) const POOL_LABEL: &str = "pool_name";
const WORKER_CACHE_TTL: Millis = Millis::from_secs(2);

/// A registered worker.
#[derive(Debug, Clone)]
pub(crate) struct CachedWorker {
    /// Pool that the worker serves.
    pub(crate) pool: PoolName,
    /// True if the worker was requested to finish and leave.
    pub(crate) is_draining: bool,
    pub(crate) last_heartbeat: Timestamp,
}

impl CachedWorker {
    pub(crate) fn from_registration(registered: &RegisteredRuntime) -> Self {
        let detail = registered.detail.as_ref();
        let label = detail.and_then(|detail| detail.get("labels")?.get(POOL_LABEL)?.as_str());
        let pool = label.and_then(|label| PoolName::new(label).ok());
        Self {
            pool: pool.unwrap_or_else(PoolName::shared),
            is_draining: is_drain_requested(registered),
            last_heartbeat: registered.heartbeat,
        }
    }
}

pub(crate) fn is_drain_requested(registered: &RegisteredRuntime) -> bool {
    let drain = registered.detail.as_ref().and_then(|detail| detail.get(DRAIN_KEY));
    drain.and_then(Json::as_bool).unwrap_or(false)
}

/// Workers by their stored names.
pub(crate) type CachedWorkers = BTreeMap<Text, CachedWorker>;

#[derive(Debug, Default)]
pub(crate) struct WorkerCache(Mutex<Option<(Timestamp, CachedWorkers)>>);

impl WorkerCache {
    /// Returns a worker if the cache is fresh and contains it.
    pub(crate) fn fresh_worker(&self, name: &Text, now: Timestamp) -> Option<CachedWorker> {
        let cache = self.lock_workers();
        let (loaded_at, workers) = cache.as_ref()?;
        let is_fresh = now.duration_since(*loaded_at) < WORKER_CACHE_TTL;
        workers.get(name).filter(|_| is_fresh).cloned()
    }

    pub(crate) fn replace_workers(&self, workers: CachedWorkers, now: Timestamp) {
        *self.lock_workers() = Some((now, workers));
    }

    pub(crate) fn invalidate(&self) {
        *self.lock_workers() = None;
    }

    fn lock_workers(&self) -> MutexGuard<'_, Option<(Timestamp, CachedWorkers)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Pages of the open commands of a worker. Only one page is in memory at a time.
pub(crate) struct WorkerCommandPages {
    /// Query of the next page, or `None` at the end.
    next_page: Option<CommandFilter>,
}

impl WorkerCommandPages {
    /// Lists the open commands of a worker of the tenant, in all pools.
    pub(crate) fn new(ctx: &CallContext, worker_id: &WorkerId) -> Self {
        let next = Some(CommandFilter {
            tenant_id: ctx.tenant().clone(),
            status: CommandStatusFilter::Open,
            execution_id: None,
            pool: None,
            worker: Some(worker_id.clone()),
            after: None,
            limit: PageLimit::MAX,
        });
        Self { next_page: next }
    }

    /// Returns the next page, or `None` after the last one.
    pub(crate) async fn next_page(
        &mut self,
        store: &dyn Store,
    ) -> Result<Option<Vec<Command>>, StoreError> {
        let Some(filter) = self.next_page.take() else {
            return Ok(None);
        };
        let page = store.list_commands(filter.clone()).await?;
        self.next_page = page.next.map(|next| CommandFilter { after: Some(next), ..filter });
        Ok(Some(page.commands))
    }
}

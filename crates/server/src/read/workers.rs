//! Worker registrations, and the load of the pools.

use std::fmt;

use noetl_api::query::PoolsQuery;
use noetl_api::runtime::{
    PoolHeartbeatResponse, PoolListResponse, PoolView, RegisterWorkerRequest, RuntimeView,
    WorkerName,
};
use noetl_store::{PoolCount, RegisteredRuntime, RuntimeKind, RuntimeRegistration};
use noetl_types::{ErrorCode, Json, PoolName, TenantId, Text, WorkerId};

use super::worker_cache::{CachedWorker, CachedWorkers, DRAIN_KEY, POOL_LABEL, is_drain_requested};
use crate::crypto::RecipientKey;
use crate::runtime::{Runtime, RuntimeError};

const ACTIVE: &str = "active";
const OFFLINE: &str = "offline";
/// Separates the tenant from the worker's name in stored names. It is not printable, so no worker's
/// name contains it.
const TENANT_SEPARATOR: char = '\u{1f}';
/// Field of a registration with the public key that secrets are encrypted for.
const PUBLIC_KEY_FIELD: &str = "public_key";
const DRAINING: &str = "draining";

impl Runtime {
    /// Registers a worker, or updates its registration.
    pub async fn register_worker(
        &self,
        worker: RegisterWorkerRequest,
    ) -> Result<RuntimeView, RuntimeError> {
        let kind = parse_runtime_kind(worker.kind.as_ref())?;
        let worker_id = parse_worker_id(&worker.name)?;
        if let Some(pool) = worker.labels.get(POOL_LABEL) {
            let pool =
                pool.as_str().ok_or_else(|| invalid_worker("labels.pool_name must be a string"))?;
            let pool = PoolName::new(pool).map_err(invalid_worker)?;
            self.auth_context().served_queue(&pool)?;
        } else {
            self.auth_context().served_queue(&PoolName::shared())?;
        }
        let stored_name = self.stored_worker_name(&worker_id);
        self.check_worker_name(kind, &stored_name).await?;
        let detail = Json::object([
            ("status", Json::from(worker.status)),
            ("labels", Json::from(worker.labels)),
            ("capabilities", worker.capabilities.unwrap_or_default()),
            ("capacity", Json::from(worker.capacity)),
            ("runtime", worker.runtime.unwrap_or_default()),
            ("hostname", Json::from(worker.hostname)),
        ]);
        let registered = self
            .store()
            .register_runtime(RuntimeRegistration {
                runtime_id: self.mint_id()?,
                kind,
                name: stored_name,
                uri: worker.uri,
                detail: Some(detail),
                now: self.now(),
            })
            .await?;
        self.worker_cache().invalidate();
        self.own_runtime_view(registered)
    }

    /// Records the heartbeat of a worker. An unknown worker has lost its leases and must register
    /// again.
    pub async fn record_worker_heartbeat(
        &self,
        worker: WorkerName,
    ) -> Result<PoolHeartbeatResponse, RuntimeError> {
        let kind = parse_runtime_kind(worker.kind.as_ref())?;
        let worker_id = parse_worker_id(&worker.name)?;
        let now = self.now();
        let stored_name = self.stored_worker_name(&worker_id);
        if self.auth_context().pools.is_some()
            && let Some(registered) = self.find_cached_worker(kind, &stored_name).await?
        {
            self.auth_context().served_queue(&registered.pool)?;
        }
        if !self.store().record_heartbeat(kind, &stored_name, now).await? {
            return Err(RuntimeError::refused(
                ErrorCode::NotFound,
                "the worker is not registered; drop all work and register again",
            ));
        }
        // Leases are renewed, and cancellations reported, by the lease heartbeat. This covers
        // commands claimed by name.
        let cancel = match kind {
            RuntimeKind::WorkerPool => self.renew_claims(&worker_id).await?,
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
    pub async fn drain_worker(&self, worker: WorkerName) -> Result<RuntimeView, RuntimeError> {
        let kind = parse_runtime_kind(worker.kind.as_ref())?;
        let stored_name = self.stored_worker_name(&parse_worker_id(&worker.name)?);
        let workers = self.store().list_runtimes(kind).await?;
        let current = workers.into_iter().find(|worker| worker.name == stored_name);
        let current = current.ok_or_else(|| {
            let text = format!("there is no worker `{}`", worker.name);
            RuntimeError::refused(ErrorCode::NotFound, text)
        })?;
        self.auth_context().served_queue(&CachedWorker::from_registration(&current).pool)?;
        let mut detail = current.detail.as_ref().and_then(Json::as_map).cloned();
        let fields = detail.get_or_insert_default();
        fields.insert(DRAIN_KEY.into(), Json::from(true));
        let registered = self
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
        self.worker_cache().invalidate();
        self.own_runtime_view(registered)
    }

    /// Returns the public key that a worker registered for encrypted secrets.
    pub(crate) async fn worker_public_key(
        &self,
        worker_id: &WorkerId,
    ) -> Result<Option<RecipientKey>, RuntimeError> {
        let stored_name = self.stored_worker_name(worker_id);
        let workers = self.store().list_runtimes(RuntimeKind::WorkerPool).await?;
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
    ) -> Result<Option<CachedWorker>, RuntimeError> {
        let cached = self.worker_cache().fresh_worker(name, self.now());
        match cached.filter(|_| kind == RuntimeKind::WorkerPool) {
            Some(worker) => Ok(Some(worker)),
            None => self.find_worker(kind, name).await,
        }
    }

    /// Returns a worker from the store.
    async fn find_worker(
        &self,
        kind: RuntimeKind,
        name: &Text,
    ) -> Result<Option<CachedWorker>, RuntimeError> {
        let now = self.now();
        let registered = self.store().list_runtimes(kind).await?;
        let to_entry = |registered: RegisteredRuntime| {
            (registered.name.clone(), CachedWorker::from_registration(&registered))
        };
        let workers: CachedWorkers = registered.into_iter().map(to_entry).collect();
        let worker = workers.get(name).cloned();
        if kind == RuntimeKind::WorkerPool {
            self.worker_cache().replace_workers(workers, now);
        }
        Ok(worker)
    }

    /// Refuses a caller that is restricted to pools if a live worker of another pool has the name.
    async fn check_worker_name(&self, kind: RuntimeKind, name: &Text) -> Result<(), RuntimeError> {
        if self.auth_context().pools.is_none() {
            return Ok(());
        }
        let registered = self.find_worker(kind, name).await?;
        let is_alive = |registered: &CachedWorker| {
            self.now().duration_since(registered.last_heartbeat)
                <= self.settings().worker_offline_after
        };
        match registered.filter(is_alive) {
            Some(registered) if !self.auth_context().can_serve_pool(&registered.pool) => {
                Err(RuntimeError::refused(
                    ErrorCode::Forbidden,
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
    async fn check_held_commands(&self, worker_id: &WorkerId) -> Result<(), RuntimeError> {
        if self.auth_context().pools.is_none() {
            return Ok(());
        }
        let mut pages = self.worker_commands(worker_id);
        while let Some(commands) = pages.next_page(self.store()).await? {
            for command in &commands {
                self.auth_context().check_execution_access(self.tenant(), &command.pool)?;
            }
        }
        Ok(())
    }

    /// Deletes the registration of a worker and releases its leases. Repeated calls are allowed.
    pub async fn deregister_worker(&self, worker: WorkerName) -> Result<(), RuntimeError> {
        let kind = parse_runtime_kind(worker.kind.as_ref())?;
        let worker_id = parse_worker_id(&worker.name)?;
        let stored_name = self.stored_worker_name(&worker_id);
        if self.auth_context().pools.is_some()
            && let Some(registered) = self.find_worker(kind, &stored_name).await?
        {
            self.auth_context().served_queue(&registered.pool)?;
        }
        // Only workers hold leases, even if another kind of process has the same name.
        let has_leases = kind == RuntimeKind::WorkerPool;
        if has_leases {
            self.check_held_commands(&worker_id).await?;
        }
        self.store().remove_runtime(kind, &stored_name).await?;
        self.worker_cache().invalidate();
        if has_leases {
            let now = self.now();
            let released = self.store().expire_worker_leases(self.tenant(), &worker_id, now);
            let released = released.await?;
            tracing::debug!(worker = %worker.name, released, "a worker was deregistered");
        }
        Ok(())
    }

    /// Lists the processes of a kind, and the load of the pools.
    pub async fn list_pools(&self, query: PoolsQuery) -> Result<PoolListResponse, RuntimeError> {
        let kind = match &query.kind {
            None => RuntimeKind::WorkerPool,
            Some(kind) => RuntimeKind::parse(kind)
                .map_err(|error| RuntimeError::refused(ErrorCode::BadQuery, error.to_string()))?,
        };
        let registered = self.store().list_runtimes(kind).await?;
        let is_named =
            |view: &RuntimeView| query.name.as_ref().is_none_or(|name| view.name == **name);
        let has_status = |view: &RuntimeView| {
            let status = query.status.as_ref();
            status.is_none_or(|status| view.status == **status)
        };
        let items: Vec<RuntimeView> = registered
            .into_iter()
            .filter_map(|registered| self.runtime_view(registered))
            .filter(|view| is_named(view) && has_status(view))
            .collect();
        let counts = self.store().pool_counts().await?;
        Ok(PoolListResponse {
            count: items.len(),
            items,
            pools: counts.iter().filter_map(|count| to_pool_view(count, self.tenant())).collect(),
        })
    }

    /// Returns the name that a worker is stored under. Workers of the default tenant keep their
    /// names. Names of other tenants start with the tenant and the separator, which no worker id
    /// can contain, because only validated worker ids are accepted.
    pub(crate) fn stored_worker_name(&self, worker_id: &WorkerId) -> Text {
        if *self.tenant() == TenantId::default() {
            return Text::from(worker_id);
        }
        format!("{}{TENANT_SEPARATOR}{worker_id}", self.tenant()).into()
    }

    /// Returns the name that a worker registered with, or `None` if it belongs to another tenant.
    pub(super) fn own_worker_name(&self, stored: &Text) -> Option<Text> {
        let default = TenantId::default();
        let (owner, name) = match stored.split_once(TENANT_SEPARATOR) {
            Some((owner, name)) => (owner, name),
            None => (default.as_str(), stored.as_str()),
        };
        (owner == self.tenant().as_str()).then(|| Text::from(name))
    }

    /// Returns the view of a process that belongs to the caller.
    fn own_runtime_view(&self, registered: RegisteredRuntime) -> Result<RuntimeView, RuntimeError> {
        let not_registered =
            || RuntimeError::refused(ErrorCode::Internal, "the worker is not registered");
        self.runtime_view(registered).ok_or_else(not_registered)
    }

    /// Returns the view of a process, or `None` if it belongs to another tenant.
    fn runtime_view(&self, registered: RegisteredRuntime) -> Option<RuntimeView> {
        let name = self.own_worker_name(&registered.name)?;
        let is_draining = is_drain_requested(&registered);
        let detail = registered.detail.unwrap_or_default();
        let silence = self.now().duration_since(registered.heartbeat);
        let reported = detail.get("status").and_then(Json::as_str);
        let status = if silence > self.settings().worker_offline_after {
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
fn parse_runtime_kind(kind: Option<&Text>) -> Result<RuntimeKind, RuntimeError> {
    match kind.map(|kind| RuntimeKind::parse(kind)) {
        None => Ok(RuntimeKind::WorkerPool),
        Some(Ok(RuntimeKind::ServerApi)) => Err(RuntimeError::refused(
            ErrorCode::Forbidden,
            "only a server can register itself as a server",
        )),
        Some(parsed) => parsed.map_err(invalid_worker),
    }
}

fn parse_worker_id(name: &Text) -> Result<WorkerId, RuntimeError> {
    WorkerId::new(name.as_str()).map_err(invalid_worker)
}

fn invalid_worker(reason: impl fmt::Display) -> RuntimeError {
    RuntimeError::refused(ErrorCode::Validation, format!("{reason}"))
}

//! Who works here, and how busy the pools are.

use std::fmt;

use noetl_api::query::PoolsQuery;
use noetl_api::runtime::{
    PoolHeartbeatAnswer, PoolView, Pools, RegisterWorker, RuntimeView, WorkerName,
};
use noetl_store::{NewRuntime, PoolCount, Runtime as Registered, RuntimeKind};
use noetl_types::{ErrorCode, Json, PoolName, TenantId, Text, WorkerId};

use super::known_workers::{DRAIN, POOL_LABEL, Seat, Seats, is_asked_to_leave};
use crate::runtime::{Runtime, RuntimeError};
use crate::vault::Addressee;

const ACTIVE: &str = "active";
const OFFLINE: &str = "offline";
/// Stands between a tenant and the name of its worker. No worker is called so: it cannot be printed.
const APART: char = '\u{1f}';
/// Where a worker says which key secrets are sealed for.
const PUBLIC_KEY: &str = "public_key";
const DRAINING: &str = "draining";

impl Runtime {
    /// Makes a worker known, or takes what it now says of itself.
    pub async fn register_worker(
        &self,
        worker: RegisterWorker,
    ) -> Result<RuntimeView, RuntimeError> {
        let kind = kind_of(worker.kind.as_ref())?;
        let worker_id = worker_id(&worker.name)?;
        if let Some(pool) = worker.labels.get(POOL_LABEL) {
            let pool = pool
                .as_str()
                .ok_or_else(|| invalid("labels.pool_name is not a text"))?;
            let pool = PoolName::new(pool).map_err(invalid)?;
            self.behalf().queue_of(&pool)?;
        } else {
            self.behalf().queue_of(&PoolName::shared())?;
        }
        let kept_name = self.kept_name(&worker_id);
        self.check_name(kind, &kept_name).await?;
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
            .register_runtime(NewRuntime {
                runtime_id: self.mint()?,
                kind,
                name: kept_name,
                uri: worker.uri,
                detail: Some(detail),
                now: self.now(),
            })
            .await?;
        self.known_workers().forget();
        self.own_view(registered)
    }

    /// Notes that a worker lives. One that is not known has lost what it held, and registers again.
    pub async fn worker_alive(
        &self,
        worker: WorkerName,
    ) -> Result<PoolHeartbeatAnswer, RuntimeError> {
        let kind = kind_of(worker.kind.as_ref())?;
        let worker_id = worker_id(&worker.name)?;
        let now = self.now();
        let kept_name = self.kept_name(&worker_id);
        if self.behalf().pools.is_some()
            && let Some(seat) = self.seat(kind, &kept_name).await?
        {
            self.behalf().queue_of(&seat.pool)?;
        }
        if !self.store().heartbeat(kind, &kept_name, now).await? {
            return Err(RuntimeError::refused(
                ErrorCode::NotFound,
                "the worker is not known here: drop all work and register again",
            ));
        }
        // What was leased is kept lease by lease, and told there; this is for claims by name.
        let cancel = match kind {
            RuntimeKind::WorkerPool => self.keep_claims(&worker_id).await?,
            RuntimeKind::ServerApi | RuntimeKind::Broker => Vec::new(),
        };
        Ok(PoolHeartbeatAnswer {
            status: "ok".into(),
            cancel,
            drain: kind == RuntimeKind::WorkerPool
                && (self.seat(kind, &kept_name).await?).is_some_and(|seat| seat.is_leaving),
        })
    }

    /// Asks a worker to finish what it has and leave: its next heartbeat tells it so. A worker that
    /// registers again has forgotten it.
    pub async fn drain_worker(&self, worker: WorkerName) -> Result<RuntimeView, RuntimeError> {
        let kind = kind_of(worker.kind.as_ref())?;
        let kept_name = self.kept_name(&worker_id(&worker.name)?);
        let known = self.store().runtimes(kind).await?;
        let known = known.into_iter().find(|known| known.name == kept_name);
        let known = known.ok_or_else(|| {
            let text = format!("there is no worker `{}`", worker.name);
            RuntimeError::refused(ErrorCode::NotFound, text)
        })?;
        self.behalf().queue_of(&Seat::of(&known).pool)?;
        let mut detail = known.detail.as_ref().and_then(Json::as_map).cloned();
        let told = detail.get_or_insert_default();
        told.insert(DRAIN.into(), Json::from(true));
        let registered = self
            .store()
            .register_runtime(NewRuntime {
                runtime_id: known.runtime_id,
                kind,
                name: known.name,
                uri: known.uri,
                detail: detail.map(Json::from),
                // Nothing was heard of the worker itself.
                now: known.heartbeat,
            })
            .await?;
        self.known_workers().forget();
        self.own_view(registered)
    }

    /// The key that secrets are sealed under for a worker, as it registered it.
    pub(crate) async fn worker_key(
        &self,
        worker_id: &WorkerId,
    ) -> Result<Option<Addressee>, RuntimeError> {
        let kept_name = self.kept_name(worker_id);
        let known = self.store().runtimes(RuntimeKind::WorkerPool).await?;
        let known = known.into_iter().find(|known| known.name == kept_name);
        let detail = known.and_then(|known| known.detail);
        let key = |part: &str| detail.as_ref()?.get(part)?.get(PUBLIC_KEY)?.as_str();
        let key = key("runtime").or_else(|| key("capabilities"));
        Ok(key.and_then(Addressee::read))
    }

    /// A worker, as of a moment ago. One that was not known then may have come since.
    async fn seat(&self, kind: RuntimeKind, name: &Text) -> Result<Option<Seat>, RuntimeError> {
        let known = self.known_workers().seat(name, self.now());
        match known.filter(|_| kind == RuntimeKind::WorkerPool) {
            Some(seat) => Ok(Some(seat)),
            None => self.seat_now(kind, name).await,
        }
    }

    /// The same as of now.
    async fn seat_now(&self, kind: RuntimeKind, name: &Text) -> Result<Option<Seat>, RuntimeError> {
        let now = self.now();
        let known = self.store().runtimes(kind).await?;
        let named = |known: Registered| (known.name.clone(), Seat::of(&known));
        let seats: Seats = known.into_iter().map(named).collect();
        let seat = seats.get(name).cloned();
        if kind == RuntimeKind::WorkerPool {
            self.known_workers().note(seats, now);
        }
        Ok(seat)
    }

    /// Refuses a caller that is bound to pools the name of a worker which lives in another one.
    async fn check_name(&self, kind: RuntimeKind, name: &Text) -> Result<(), RuntimeError> {
        if self.behalf().pools.is_none() {
            return Ok(());
        }
        let seat = self.seat_now(kind, name).await?;
        let lives = |seat: &Seat| self.now().since(seat.heard_at) <= self.settings().worker_offline;
        match seat.filter(lives) {
            Some(seat) if !self.behalf().may_work_for(&seat.pool) => Err(RuntimeError::refused(
                ErrorCode::Forbidden,
                "a worker of this name is registered for a pool that the token does not work for: \
                 give this one another name",
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// Refuses a caller that is bound to pools to end what a worker holds in others. It may hold that
    /// without being registered, or under a name that somebody else registered since.
    async fn check_held(&self, worker_id: &WorkerId) -> Result<(), RuntimeError> {
        if self.behalf().pools.is_none() {
            return Ok(());
        }
        let mut holdings = self.holdings(worker_id);
        while let Some(commands) = holdings.next(self.store()).await? {
            for command in &commands {
                self.behalf().check(self.tenant(), &command.pool)?;
            }
        }
        Ok(())
    }

    /// Forgets a worker and ends its leases. It may do so twice.
    pub async fn worker_leaves(&self, worker: WorkerName) -> Result<(), RuntimeError> {
        let kind = kind_of(worker.kind.as_ref())?;
        let worker_id = worker_id(&worker.name)?;
        let kept_name = self.kept_name(&worker_id);
        if self.behalf().pools.is_some()
            && let Some(seat) = self.seat_now(kind, &kept_name).await?
        {
            self.behalf().queue_of(&seat.pool)?;
        }
        // Leases are held by workers, whatever else has their names.
        let has_leases = kind == RuntimeKind::WorkerPool;
        if has_leases {
            self.check_held(&worker_id).await?;
        }
        self.store().remove_runtime(kind, &kept_name).await?;
        self.known_workers().forget();
        if has_leases {
            let now = self.now();
            let released = self.store().release_worker(self.tenant(), &worker_id, now);
            let released = released.await?;
            tracing::debug!(worker = %worker.name, released, "a worker left");
        }
        Ok(())
    }

    /// The processes of a kind, and how busy the pools are.
    pub async fn pools(&self, query: PoolsQuery) -> Result<Pools, RuntimeError> {
        let kind = match &query.kind {
            None => RuntimeKind::WorkerPool,
            Some(kind) => RuntimeKind::parse(kind)
                .map_err(|error| RuntimeError::refused(ErrorCode::BadQuery, error.to_string()))?,
        };
        let registered = self.store().runtimes(kind).await?;
        let is_named =
            |view: &RuntimeView| query.name.as_ref().is_none_or(|name| view.name == **name);
        let stands_so = |view: &RuntimeView| {
            let wanted = query.status.as_ref();
            wanted.is_none_or(|status| view.status == **status)
        };
        let items: Vec<RuntimeView> = registered
            .into_iter()
            .filter_map(|registered| self.runtime_view(registered))
            .filter(|view| is_named(view) && stands_so(view))
            .collect();
        let counts = self.store().pool_counts().await?;
        Ok(Pools {
            count: items.len(),
            items,
            pools: counts
                .iter()
                .filter_map(|count| pool_view(count, self.tenant()))
                .collect(),
        })
    }

    /// The name that a worker is kept under. Those of the default tenant have their own; others have
    /// one that begins with their tenant and that no worker can give itself: of a name that nobody
    /// checked there is none.
    pub(crate) fn kept_name(&self, worker_id: &WorkerId) -> Text {
        if *self.tenant() == TenantId::default() {
            return Text::from(worker_id);
        }
        format!("{}{APART}{worker_id}", self.tenant()).into()
    }

    /// The name that a worker gave itself; `None` if it is another tenant's.
    pub(super) fn own_name(&self, kept: &Text) -> Option<Text> {
        let default = TenantId::default();
        let (owner, name) = match kept.split_once(APART) {
            Some((owner, name)) => (owner, name),
            None => (default.as_str(), kept.as_str()),
        };
        (owner == self.tenant().as_str()).then(|| Text::from(name))
    }

    /// What is told of a process that is the caller's.
    fn own_view(&self, registered: Registered) -> Result<RuntimeView, RuntimeError> {
        let nobodys = || RuntimeError::refused(ErrorCode::Internal, "the worker is not known");
        self.runtime_view(registered).ok_or_else(nobodys)
    }

    /// What is told of a process; nothing of another tenant's.
    fn runtime_view(&self, registered: Registered) -> Option<RuntimeView> {
        let name = self.own_name(&registered.name)?;
        let is_leaving = is_asked_to_leave(&registered);
        let detail = registered.detail.unwrap_or_default();
        let silence = self.now().since(registered.heartbeat);
        let told = detail.get("status").and_then(Json::as_str);
        let status = if silence > self.settings().worker_offline {
            OFFLINE
        } else if is_leaving {
            DRAINING
        } else {
            told.unwrap_or(ACTIVE)
        };
        let capacity = detail.get("capacity").and_then(Json::as_u64);
        Some(RuntimeView {
            runtime_id: registered.runtime_id,
            name,
            kind: registered.kind.as_str().into(),
            uri: registered.uri,
            status: status.into(),
            labels: detail
                .get("labels")
                .cloned()
                .unwrap_or_else(Json::empty_map),
            capacity: capacity.and_then(|capacity| u32::try_from(capacity).ok()),
            heartbeat: registered.heartbeat,
            created_at: registered.created_at,
        })
    }
}

fn pool_view(count: &PoolCount, tenant_id: &TenantId) -> Option<PoolView> {
    Some(PoolView {
        pool: count.pool.of_tenant(tenant_id)?,
        pending: count.pending,
        in_flight: count.leased,
        oldest_lease: count.oldest_lease,
    })
}

/// What a caller says that it is.
fn kind_of(kind: Option<&Text>) -> Result<RuntimeKind, RuntimeError> {
    match kind.map(|kind| RuntimeKind::parse(kind)) {
        None => Ok(RuntimeKind::WorkerPool),
        Some(Ok(RuntimeKind::ServerApi)) => Err(RuntimeError::refused(
            ErrorCode::Forbidden,
            "a server makes itself known; nobody else can",
        )),
        Some(known) => known.map_err(invalid),
    }
}

fn worker_id(name: &Text) -> Result<WorkerId, RuntimeError> {
    WorkerId::new(name.as_str()).map_err(invalid)
}

fn invalid(reason: impl fmt::Display) -> RuntimeError {
    RuntimeError::refused(ErrorCode::Validation, format!("{reason}"))
}

//! Cache of registered workers, so that frequent heartbeats do not read the list of all workers
//! each time.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use noetl_store::RegisteredRuntime;
use noetl_types::{Json, Millis, PoolName, Text, Timestamp};

/// Field of a registration that records a drain request.
pub(super) const DRAIN_KEY: &str = "drain";
/// Label that names the pool of a worker. Without it the worker belongs to the shared pool.
pub(super) const POOL_LABEL: &str = "pool_name";
const WORKER_CACHE_TTL: Millis = Millis::from_secs(2);

/// A registered worker.
#[derive(Debug, Clone)]
pub(super) struct CachedWorker {
    /// Pool that the worker serves.
    pub(super) pool: PoolName,
    /// True if the worker was requested to finish and leave.
    pub(super) is_draining: bool,
    pub(super) last_heartbeat: Timestamp,
}

impl CachedWorker {
    pub(super) fn from_registration(registered: &RegisteredRuntime) -> Self {
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

pub(super) fn is_drain_requested(registered: &RegisteredRuntime) -> bool {
    let drain = registered.detail.as_ref().and_then(|detail| detail.get(DRAIN_KEY));
    drain.and_then(Json::as_bool).unwrap_or(false)
}

/// Workers by their stored names.
pub(super) type CachedWorkers = BTreeMap<Text, CachedWorker>;

#[derive(Debug, Default)]
pub(crate) struct WorkerCache(Mutex<Option<(Timestamp, CachedWorkers)>>);

impl WorkerCache {
    /// Returns a worker if the cache is fresh and contains it.
    pub(super) fn fresh_worker(&self, name: &Text, now: Timestamp) -> Option<CachedWorker> {
        let cache = self.lock_workers();
        let (loaded_at, workers) = cache.as_ref()?;
        let is_fresh = now.duration_since(*loaded_at) < WORKER_CACHE_TTL;
        workers.get(name).filter(|_| is_fresh).cloned()
    }

    pub(super) fn replace_workers(&self, workers: CachedWorkers, now: Timestamp) {
        *self.lock_workers() = Some((now, workers));
    }

    pub(super) fn invalidate(&self) {
        *self.lock_workers() = None;
    }

    fn lock_workers(&self) -> MutexGuard<'_, Option<(Timestamp, CachedWorkers)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

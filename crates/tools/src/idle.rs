//! Resources that are kept between calls, each until it has been idle for a while.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::{Instant, sleep};

/// Idle resources, each with a key that determines the calls that can use it.
#[derive(Debug)]
pub(crate) struct IdlePool<K, T> {
    max_idle: Duration,
    state: Mutex<IdleState<K, T>>,
}

#[derive(Debug)]
struct IdleState<K, T> {
    /// Oldest first, so that the most recently used one is reused and the least recently used one
    /// ends.
    entries: Vec<IdleEntry<K, T>>,
    /// True if a task that drops idle resources is running.
    has_reaper: bool,
    closed: bool,
}

#[derive(Debug)]
struct IdleEntry<K, T> {
    key: K,
    item: T,
    since: Instant,
}

impl<K: PartialEq + Send + 'static, T: Send + 'static> IdlePool<K, T> {
    /// Creates an empty pool that drops a resource after `max_idle`.
    pub(crate) fn new(max_idle: Duration) -> Arc<Self> {
        let state = IdleState { entries: Vec::new(), has_reaper: false, closed: false };
        Arc::new(Self { max_idle, state: Mutex::new(state) })
    }

    /// Returns the resource of a key, which others may share. Creates it if there is none.
    pub(crate) fn get_or_insert_with(self: &Arc<Self>, key: &K, create: impl FnOnce() -> T) -> T
    where
        K: Clone,
        T: Clone,
    {
        let mut state = self.state.lock();
        let index = state.entries.iter().rposition(|entry| entry.key == *key);
        let item = index.map_or_else(create, |index| state.entries.remove(index).item);
        self.push(state, key.clone(), item.clone());
        item
    }

    /// Takes the most recently used resource with a key. Also returns how long it was idle.
    pub(crate) fn take(&self, key: &K) -> Option<(T, Duration)> {
        let mut state = self.state.lock();
        let index = state.entries.iter().rposition(|entry| entry.key == *key)?;
        let entry = state.entries.remove(index);
        Some((entry.item, entry.since.elapsed()))
    }

    /// Keeps a resource for a later call, unless the pool is closed.
    pub(crate) fn put(self: &Arc<Self>, key: K, item: T) {
        self.push(self.state.lock(), key, item);
    }

    fn push(self: &Arc<Self>, mut state: MutexGuard<'_, IdleState<K, T>>, key: K, item: T) {
        if state.closed {
            return;
        }
        state.entries.push(IdleEntry { key, item, since: Instant::now() });
        if !std::mem::replace(&mut state.has_reaper, true) {
            tokio::spawn(reap_idle(Arc::downgrade(self)));
        }
    }

    /// Drops the resources for which a condition is true.
    pub(crate) fn remove(&self, condition: impl Fn(&T) -> bool) {
        self.state.lock().entries.retain(|entry| !condition(&entry.item));
    }

    /// Drops the least recently used resources until at most `max_items` are left.
    pub(crate) fn shrink_to(&self, max_items: usize) {
        let mut state = self.state.lock();
        let extra = state.entries.len().saturating_sub(max_items);
        state.entries.drain(..extra);
    }

    /// Drops all resources, and later those that are put back.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.entries.clear();
    }

    /// Drops resources that have been idle too long. Returns true if any are left.
    fn drop_idle(&self) -> bool {
        let mut state = self.state.lock();
        state.entries.retain(|entry| entry.since.elapsed() < self.max_idle);
        state.has_reaper = !state.entries.is_empty();
        state.has_reaper
    }
}

/// Drops idle resources until none is left.
async fn reap_idle<K: PartialEq + Send + 'static, T: Send + 'static>(pool: Weak<IdlePool<K, T>>) {
    loop {
        let Some(interval) = pool.upgrade().map(|pool| pool.max_idle / 2) else { return };
        sleep(interval).await;
        if !pool.upgrade().is_some_and(|pool| pool.drop_idle()) {
            return;
        }
    }
}

//! A bounded cache that fetches every value once, even for concurrent requests.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OnceCell;

/// A bounded cache that evicts the least recently used values.
#[derive(Debug)]
pub(crate) struct Cache<K, V> {
    max_weight: usize,
    inner: Mutex<CacheState<K, V>>,
}

#[derive(Debug)]
struct CacheState<K, V> {
    entries: HashMap<K, CacheEntry<V>>,
    /// Number of requests so far, used as a clock.
    use_counter: u64,
    weight: usize,
}

/// A request in progress.
struct FetchGuard<'c, K: Clone + Eq + Hash, V: Clone> {
    cache: &'c Cache<K, V>,
    key: &'c K,
    cell: Arc<OnceCell<V>>,
}

impl<K: Clone + Eq + Hash, V: Clone> Drop for FetchGuard<'_, K, V> {
    fn drop(&mut self) {
        if !self.cell.initialized() {
            self.cache.remove_empty_entry(self.key, &self.cell);
        }
    }
}

#[derive(Debug)]
struct CacheEntry<V> {
    cell: Arc<OnceCell<V>>,
    /// 0 until the value is fetched, then at least 1.
    weight: usize,
    last_used: u64,
}

impl<K: Clone + Eq + Hash, V: Clone> Cache<K, V> {
    /// Creates a cache with a maximum total weight.
    pub(crate) fn new(max_weight: usize) -> Self {
        Self {
            max_weight,
            inner: Mutex::new(CacheState { entries: HashMap::new(), use_counter: 0, weight: 0 }),
        }
    }

    /// Returns a value. If it is missing, fetches it with its weight. Errors are not cached.
    pub(crate) async fn get<E>(
        &self,
        key: &K,
        fetch: impl Future<Output = Result<(V, usize), E>>,
    ) -> Result<V, E> {
        let cell = self.entry_cell(key);
        if let Some(value) = cell.get() {
            return Ok(value.clone());
        }
        // A request that is dropped or fails removes its empty entry.
        let guard = FetchGuard { cache: self, key, cell };
        let fetched = guard.cell.get_or_try_init(|| async {
            let (value, weight) = fetch.await?;
            self.set_weight(key, &guard.cell, weight);
            Ok(value)
        });
        fetched.await.cloned()
    }

    fn lock_state(&self) -> MutexGuard<'_, CacheState<K, V>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn entry_cell(&self, key: &K) -> Arc<OnceCell<V>> {
        let mut inner = self.lock_state();
        inner.use_counter += 1;
        let time = inner.use_counter;
        let new = || CacheEntry { cell: Arc::default(), weight: 0, last_used: time };
        let entry = inner.entries.entry(key.clone()).or_insert_with(new);
        entry.last_used = time;
        Arc::clone(&entry.cell)
    }

    /// Sets the weight of a fetched value and evicts others. A value that alone exceeds the maximum
    /// is not kept.
    fn set_weight(&self, key: &K, cell: &Arc<OnceCell<V>>, weight: usize) {
        let weight = weight.max(1);
        let mut inner = self.lock_state();
        let CacheState { entries, weight: sum, .. } = &mut *inner;
        match entries.get_mut(key) {
            Some(entry) if Arc::ptr_eq(&entry.cell, cell) => entry.weight = weight,
            Some(_) | None => return,
        }
        *sum += weight;
        while *sum > self.max_weight {
            let fetched = entries.iter().filter(|(_, entry)| entry.weight > 0);
            let oldest = fetched.min_by_key(|(_, entry)| entry.last_used);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else {
                return;
            };
            if let Some(entry) = entries.remove(&oldest) {
                *sum -= entry.weight;
            }
        }
    }

    fn remove_empty_entry(&self, key: &K, cell: &Arc<OnceCell<V>>) {
        let mut inner = self.lock_state();
        let is_same = |entry: &CacheEntry<V>| Arc::ptr_eq(&entry.cell, cell);
        if inner.entries.get(key).is_some_and(is_same) {
            inner.entries.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    async fn get_counted(
        cache: &Cache<u32, u32>,
        key: u32,
        weight: usize,
        fetched: &AtomicU32,
    ) -> u32 {
        let value = cache.get(&key, async {
            fetched.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            Ok::<_, ()>((key * 10, weight))
        });
        value.await.unwrap()
    }

    #[tokio::test]
    async fn concurrent_gets_share_one_fetch() {
        let (cache, fetched) = (Arc::new(Cache::new(100)), Arc::new(AtomicU32::new(0)));
        let requests = (0..50).map(|_| {
            let (cache, fetched) = (Arc::clone(&cache), Arc::clone(&fetched));
            tokio::spawn(async move { get_counted(&cache, 4, 1, &fetched).await })
        });
        for value in requests.collect::<Vec<_>>() {
            assert_eq!(value.await.unwrap(), 40);
        }
        assert_eq!(fetched.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn least_recently_used_is_evicted_first() {
        let (cache, fetched) = (Cache::new(10), AtomicU32::new(0));
        for key in [1, 2, 1, 3] {
            get_counted(&cache, key, 4, &fetched).await;
        }
        assert_eq!(fetched.load(Ordering::Relaxed), 3);
        get_counted(&cache, 1, 4, &fetched).await;
        assert_eq!(fetched.load(Ordering::Relaxed), 3);
        get_counted(&cache, 2, 4, &fetched).await;
        assert_eq!(fetched.load(Ordering::Relaxed), 4);
        // A value above the capacity evicts the others and is not cached itself.
        get_counted(&cache, 9, 11, &fetched).await;
        assert!(cache.lock_state().entries.is_empty());
        assert_eq!(cache.lock_state().weight, 0);
    }

    #[tokio::test]
    async fn failed_fetch_is_not_cached() {
        let cache: Cache<u32, u32> = Cache::new(10);
        assert_eq!(cache.get(&1, async { Err("no") }).await, Err("no"));
        assert!(cache.lock_state().entries.is_empty());
        assert_eq!(cache.get(&1, async { Ok::<_, &str>((5, 1)) }).await, Ok(5));
    }
}

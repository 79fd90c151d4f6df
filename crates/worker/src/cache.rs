//! A bounded cache in which every value is fetched once, however many ask for it together.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OnceCell;

/// A bounded cache. What was not asked for the longest goes first.
#[derive(Debug)]
pub(crate) struct Cache<K, V> {
    max_weight: usize,
    inner: Mutex<Inner<K, V>>,
}

#[derive(Debug)]
struct Inner<K, V> {
    entries: HashMap<K, Entry<V>>,
    /// Counts the questions.
    time: u64,
    weight: usize,
}

/// A question under way.
struct Asking<'c, K: Clone + Eq + Hash, V: Clone> {
    cache: &'c Cache<K, V>,
    key: &'c K,
    cell: Arc<OnceCell<V>>,
}

impl<K: Clone + Eq + Hash, V: Clone> Drop for Asking<'_, K, V> {
    fn drop(&mut self) {
        if !self.cell.initialized() {
            self.cache.forget(self.key, &self.cell);
        }
    }
}

#[derive(Debug)]
struct Entry<V> {
    cell: Arc<OnceCell<V>>,
    /// 0 until it is fetched, then at least 1.
    weight: usize,
    asked: u64,
}

impl<K: Clone + Eq + Hash, V: Clone> Cache<K, V> {
    /// A cache of values that together weigh at most this much.
    pub(crate) fn new(max_weight: usize) -> Self {
        Self {
            max_weight,
            inner: Mutex::new(Inner {
                entries: HashMap::new(),
                time: 0,
                weight: 0,
            }),
        }
    }

    /// A value; where it is not there, it is fetched with its weight. A failure is not kept.
    pub(crate) async fn get<E>(
        &self,
        key: &K,
        fetch: impl Future<Output = Result<(V, usize), E>>,
    ) -> Result<V, E> {
        let cell = self.cell(key);
        if let Some(value) = cell.get() {
            return Ok(value.clone());
        }
        // Whoever gives up asking, or fails, leaves no empty place behind.
        let asking = Asking {
            cache: self,
            key,
            cell,
        };
        let fetched = asking.cell.get_or_try_init(|| async {
            let (value, weight) = fetch.await?;
            self.weigh(key, &asking.cell, weight);
            Ok(value)
        });
        fetched.await.cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Inner<K, V>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cell(&self, key: &K) -> Arc<OnceCell<V>> {
        let mut inner = self.lock();
        inner.time += 1;
        let time = inner.time;
        let new = || Entry {
            cell: Arc::default(),
            weight: 0,
            asked: time,
        };
        let entry = inner.entries.entry(key.clone()).or_insert_with(new);
        entry.asked = time;
        Arc::clone(&entry.cell)
    }

    /// Notes the weight of a value that was fetched, and makes room for it. A value that is too
    /// heavy by itself is not kept.
    fn weigh(&self, key: &K, cell: &Arc<OnceCell<V>>, weight: usize) {
        let weight = weight.max(1);
        let mut inner = self.lock();
        let Inner {
            entries,
            weight: sum,
            ..
        } = &mut *inner;
        match entries.get_mut(key) {
            Some(entry) if Arc::ptr_eq(&entry.cell, cell) => entry.weight = weight,
            Some(_) | None => return,
        }
        *sum += weight;
        while *sum > self.max_weight {
            let fetched = entries.iter().filter(|(_, entry)| entry.weight > 0);
            let oldest = fetched.min_by_key(|(_, entry)| entry.asked);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else {
                return;
            };
            if let Some(entry) = entries.remove(&oldest) {
                *sum -= entry.weight;
            }
        }
    }

    fn forget(&self, key: &K, cell: &Arc<OnceCell<V>>) {
        let mut inner = self.lock();
        let is_same = |entry: &Entry<V>| Arc::ptr_eq(&entry.cell, cell);
        if inner.entries.get(key).is_some_and(is_same) {
            inner.entries.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    async fn ask(cache: &Cache<u32, u32>, key: u32, weight: usize, fetched: &AtomicU32) -> u32 {
        let value = cache.get(&key, async {
            fetched.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            Ok::<_, ()>((key * 10, weight))
        });
        value.await.unwrap()
    }

    #[tokio::test]
    async fn those_who_ask_together_share_one_fetch() {
        let (cache, fetched) = (Arc::new(Cache::new(100)), Arc::new(AtomicU32::new(0)));
        let asking = (0..50).map(|_| {
            let (cache, fetched) = (Arc::clone(&cache), Arc::clone(&fetched));
            tokio::spawn(async move { ask(&cache, 4, 1, &fetched).await })
        });
        for answer in asking.collect::<Vec<_>>() {
            assert_eq!(answer.await.unwrap(), 40);
        }
        assert_eq!(fetched.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn what_was_not_asked_for_the_longest_goes_first() {
        let (cache, fetched) = (Cache::new(10), AtomicU32::new(0));
        for key in [1, 2, 1, 3] {
            ask(&cache, key, 4, &fetched).await;
        }
        assert_eq!(fetched.load(Ordering::Relaxed), 3);
        ask(&cache, 1, 4, &fetched).await;
        assert_eq!(fetched.load(Ordering::Relaxed), 3);
        ask(&cache, 2, 4, &fetched).await;
        assert_eq!(fetched.load(Ordering::Relaxed), 4);
        // One that is too heavy drives out the others and is not kept itself.
        ask(&cache, 9, 11, &fetched).await;
        assert!(cache.lock().entries.is_empty());
        assert_eq!(cache.lock().weight, 0);
    }

    #[tokio::test]
    async fn a_failure_is_not_kept() {
        let cache: Cache<u32, u32> = Cache::new(10);
        assert_eq!(cache.get(&1, async { Err("no") }).await, Err("no"));
        assert!(cache.lock().entries.is_empty());
        assert_eq!(cache.get(&1, async { Ok::<_, &str>((5, 1)) }).await, Ok(5));
    }
}

//! Bounded caches that requests share.

use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hashlink::LruCache;

/// Cache of the most recently used values.
pub(crate) struct SharedLru<K, V>(Mutex<LruCache<K, V>>);

impl<K: Eq + Hash, V> SharedLru<K, V> {
    pub(crate) fn with_capacity(max_entries: usize) -> Self {
        Self(Mutex::new(LruCache::new(max_entries)))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, LruCache<K, V>> {
        // An entry is complete between any two operations, so a poisoned lock can be used.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

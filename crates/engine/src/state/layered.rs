//! A sorted map with cheap clones, whose changes cost time proportional to the change.
//!
//! A decision works on a copy of the state. To keep the copy cheap for any width of a loop and any
//! length of an execution, entries are in a shared base, and each copy writes to its own small
//! patch. After the original is dropped, [`Settle::settle`] merges the patch into the base.

use std::collections::BTreeMap;
use std::collections::btree_map::{Entry, Iter};
use std::fmt;
use std::iter::Peekable;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A value that may contain changes in a separate patch.
pub trait Settle {
    /// Merges the patch into the base, unless the base is shared.
    fn settle(&mut self);
}

/// Implements `Settle` for types without a patch.
macro_rules! settled {
    ($($name:ty),+ $(,)?) => {
        $( impl $crate::state::layered::Settle for $name {
            fn settle(&mut self) {}
        } )+
    };
}

pub(crate) use settled;

settled!(u32);

/// A sorted map of a shared base and a private patch.
#[derive(Clone)]
pub struct LayeredMap<K, V> {
    base: Arc<BTreeMap<K, V>>,
    /// Differences from the base. `None` marks a removed entry. Empty while the base is not shared.
    patch: BTreeMap<K, Option<V>>,
    len: usize,
}

/// A patch of at most this size may stay separate while the base is shared.
const MAX_SMALL_PATCH_LEN: usize = 64;

impl<K: Ord + Clone, V: Clone + Settle> LayeredMap<K, V> {
    /// Number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if the map is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        if !self.patch.is_empty()
            && let Some(changed) = self.patch.get(key)
        {
            return changed.as_ref();
        }
        self.base.get(key)
    }

    /// Returns true if the map contains a key.
    pub fn contains(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// Returns a mutable reference to the value of a key.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        if self.merge_if_unshared() {
            return Arc::make_mut(&mut self.base).get_mut(key);
        }
        if !self.patch.contains_key(key) {
            let copy = self.base.get(key)?.clone();
            self.patch.insert(key.clone(), Some(copy));
        }
        self.patch.get_mut(key).and_then(Option::as_mut)
    }

    /// Returns a mutable reference to the value of a key, inserting it first if absent.
    pub fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        if self.merge_if_unshared() {
            return match Arc::make_mut(&mut self.base).entry(key) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => {
                    self.len += 1;
                    entry.insert(make())
                }
            };
        }
        let base = &self.base;
        let entry = self.patch.entry(key).or_insert_with_key(|key| base.get(key).cloned());
        if entry.is_none() {
            self.len += 1;
        }
        entry.get_or_insert_with(make)
    }

    /// Inserts a value.
    pub fn insert(&mut self, key: K, value: V) {
        let is_new = if self.merge_if_unshared() {
            Arc::make_mut(&mut self.base).insert(key, value).is_none()
        } else {
            let in_base = self.base.contains_key(&key);
            match self.patch.insert(key, Some(value)) {
                Some(before) => before.is_none(),
                None => !in_base,
            }
        };
        self.len += usize::from(is_new);
    }

    /// Removes and returns a value.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let removed = if self.merge_if_unshared() {
            Arc::make_mut(&mut self.base).remove(key)
        } else if let Some(changed) = self.patch.get_mut(key) {
            changed.take()
        } else {
            let copy = self.base.get(key)?.clone();
            self.patch.insert(key.clone(), None);
            Some(copy)
        };
        self.len -= usize::from(removed.is_some());
        removed
    }

    /// Iterates over the entries, sorted by key.
    pub fn iter(&self) -> LayeredEntries<'_, K, V> {
        LayeredEntries { base: self.base.iter().peekable(), patch: self.patch.iter().peekable() }
    }

    /// Iterates over the values, sorted by key.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// Returns true if the base is not shared, after merging the patch into it.
    fn merge_if_unshared(&mut self) -> bool {
        let is_unshared = Arc::get_mut(&mut self.base).is_some();
        if is_unshared && !self.patch.is_empty() {
            self.merge_patch();
        }
        is_unshared
    }

    fn merge_patch(&mut self) {
        let base = Arc::make_mut(&mut self.base);
        for (key, changed) in std::mem::take(&mut self.patch) {
            match (base.entry(key), changed) {
                (Entry::Occupied(mut entry), Some(value)) => {
                    // Drop the old value first: the new one may share its own base with it.
                    drop(entry.insert(value));
                    entry.into_mut().settle();
                }
                (Entry::Vacant(entry), Some(value)) => entry.insert(value).settle(),
                (Entry::Occupied(entry), None) => drop(entry.remove()),
                (Entry::Vacant(_), None) => {}
            }
        }
    }
}

impl<K: Ord + Clone, V: Clone + Settle> Settle for LayeredMap<K, V> {
    fn settle(&mut self) {
        if self.patch.is_empty() {
            return;
        }
        let is_unshared = Arc::get_mut(&mut self.base).is_some();
        // A reader that never drops an old state must not make the patch grow without bound. One
        // copy of the base per this many changes adds little cost to each change.
        let is_large =
            self.patch.len() > MAX_SMALL_PATCH_LEN && self.patch.len() > self.base.len() / 4;
        if is_unshared || is_large {
            self.merge_patch();
        }
    }
}

/// Iterator over the entries of a [`LayeredMap`], sorted by key.
pub struct LayeredEntries<'m, K, V> {
    base: Peekable<Iter<'m, K, V>>,
    patch: Peekable<Iter<'m, K, Option<V>>>,
}

impl<'m, K: Ord, V> Iterator for LayeredEntries<'m, K, V> {
    type Item = (&'m K, &'m V);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some((changed_key, _)) = self.patch.peek() else {
                return self.base.next();
            };
            match self.base.peek() {
                Some((key, _)) if key < changed_key => return self.base.next(),
                Some((key, _)) if key == changed_key => {
                    self.base.next();
                }
                Some(_) | None => {}
            }
            if let Some((key, Some(value))) = self.patch.next() {
                return Some((key, value));
            }
        }
    }
}

impl<K, V> Default for LayeredMap<K, V> {
    fn default() -> Self {
        Self { base: Arc::new(BTreeMap::new()), patch: BTreeMap::new(), len: 0 }
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for LayeredMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let base: BTreeMap<K, V> = entries.into_iter().collect();
        Self { len: base.len(), base: Arc::new(base), patch: BTreeMap::new() }
    }
}

/// Maps are equal if their entries are, regardless of the layers.
impl<K: Ord + Clone, V: Clone + Settle + PartialEq> PartialEq for LayeredMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl<K: Ord + Clone, V: Clone + Settle + Eq> Eq for LayeredMap<K, V> {}

impl<K: Ord + Clone + fmt::Debug, V: Clone + Settle + fmt::Debug> fmt::Debug for LayeredMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Serializes as a list of pairs, so that keys of any type keep their form.
impl<K: Ord + Clone + Serialize, V: Clone + Settle + Serialize> Serialize for LayeredMap<K, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de, K, V> Deserialize<'de> for LayeredMap<K, V>
where
    K: Ord + Deserialize<'de>,
    V: Deserialize<'de>,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Vec::<(K, V)>::deserialize(deserializer)?.into_iter().collect())
    }
}

#[cfg(test)]
mod tests;

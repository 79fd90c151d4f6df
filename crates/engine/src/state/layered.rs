//! A sorted map whose clone costs next to nothing and whose changes cost what they change.
//!
//! A decision works on a copy of the state. So that the copy is cheap however wide a loop or long
//! a run is, the entries sit in a shared base, and a copy writes into a small patch of its own.
//! Once the original is gone, [`Settle::settle`] moves the patch into the base.

use std::collections::BTreeMap;
use std::collections::btree_map::{Entry, Iter};
use std::fmt;
use std::iter::Peekable;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};

/// Something that may hold changes apart from what they change.
pub trait Settle {
    /// Puts the changes where they belong, as far as nobody else looks at the same base.
    fn settle(&mut self);
}

/// Declares types that hold no changes apart.
macro_rules! settled {
    ($($name:ty),+ $(,)?) => {
        $( impl $crate::state::layered::Settle for $name {
            fn settle(&mut self) {}
        } )+
    };
}

pub(crate) use settled;

settled!(u32);

/// A sorted map of a shared base and an own patch.
#[derive(Clone)]
pub struct Layered<K, V> {
    base: Arc<BTreeMap<K, V>>,
    /// What differs from the base; `None` is an entry that is gone. Empty whenever nobody shares
    /// the base.
    patch: BTreeMap<K, Option<V>>,
    len: usize,
}

/// A patch of fewer entries may stay apart for as long as the base is shared.
const SMALL_PATCH: usize = 64;

impl<K: Ord + Clone, V: Clone + Settle> Layered<K, V> {
    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value under a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        if !self.patch.is_empty()
            && let Some(changed) = self.patch.get(key)
        {
            return changed.as_ref();
        }
        self.base.get(key)
    }

    /// Whether there is a value under a key.
    pub fn contains(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// The value under a key, to be changed.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        if self.settled_alone() {
            return Arc::make_mut(&mut self.base).get_mut(key);
        }
        if !self.patch.contains_key(key) {
            let copy = self.base.get(key)?.clone();
            self.patch.insert(key.clone(), Some(copy));
        }
        self.patch.get_mut(key).and_then(Option::as_mut)
    }

    /// The value under a key, to be changed; made first where there is none.
    pub fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        if self.settled_alone() {
            return match Arc::make_mut(&mut self.base).entry(key) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => {
                    self.len += 1;
                    entry.insert(make())
                }
            };
        }
        let base = &self.base;
        let slot = self
            .patch
            .entry(key)
            .or_insert_with_key(|key| base.get(key).cloned());
        if slot.is_none() {
            self.len += 1;
        }
        slot.get_or_insert_with(make)
    }

    /// Puts a value under a key.
    pub fn insert(&mut self, key: K, value: V) {
        let is_new = if self.settled_alone() {
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

    /// Takes the value under a key out.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let removed = if self.settled_alone() {
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

    /// All entries, sorted by key.
    pub fn iter(&self) -> Entries<'_, K, V> {
        Entries {
            base: self.base.iter().peekable(),
            patch: self.patch.iter().peekable(),
        }
    }

    /// All values, sorted by key.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// Whether nobody shares the base; the patch is part of it then.
    fn settled_alone(&mut self) -> bool {
        let is_alone = Arc::get_mut(&mut self.base).is_some();
        if is_alone && !self.patch.is_empty() {
            self.merge();
        }
        is_alone
    }

    fn merge(&mut self) {
        let base = Arc::make_mut(&mut self.base);
        for (key, changed) in std::mem::take(&mut self.patch) {
            match (base.entry(key), changed) {
                (Entry::Occupied(mut entry), Some(value)) => {
                    // The old value goes first: the new one may share its own base with it.
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

impl<K: Ord + Clone, V: Clone + Settle> Settle for Layered<K, V> {
    fn settle(&mut self) {
        if self.patch.is_empty() {
            return;
        }
        let is_alone = Arc::get_mut(&mut self.base).is_some();
        // A reader that never lets go of an old state must not make the patch grow for ever: one
        // copy of the base in so many changes costs each of them little.
        let is_large = self.patch.len() > SMALL_PATCH && self.patch.len() > self.base.len() / 4;
        if is_alone || is_large {
            self.merge();
        }
    }
}

/// The entries of a [`Layered`], sorted by key.
pub struct Entries<'m, K, V> {
    base: Peekable<Iter<'m, K, V>>,
    patch: Peekable<Iter<'m, K, Option<V>>>,
}

impl<'m, K: Ord, V> Iterator for Entries<'m, K, V> {
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

impl<K, V> Default for Layered<K, V> {
    fn default() -> Self {
        Self {
            base: Arc::new(BTreeMap::new()),
            patch: BTreeMap::new(),
            len: 0,
        }
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for Layered<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let base: BTreeMap<K, V> = entries.into_iter().collect();
        Self {
            len: base.len(),
            base: Arc::new(base),
            patch: BTreeMap::new(),
        }
    }
}

/// Equal when the entries are, however they are layered.
impl<K: Ord + Clone, V: Clone + Settle + PartialEq> PartialEq for Layered<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl<K: Ord + Clone, V: Clone + Settle + Eq> Eq for Layered<K, V> {}

impl<K: Ord + Clone + fmt::Debug, V: Clone + Settle + fmt::Debug> fmt::Debug for Layered<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// A list of pairs, so that keys of any type keep their form.
impl<K: Ord + Clone + Serialize, V: Clone + Settle + Serialize> Serialize for Layered<K, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de, K, V> Deserialize<'de> for Layered<K, V>
where
    K: Ord + Deserialize<'de>,
    V: Deserialize<'de>,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Pairs(std::marker::PhantomData))
    }
}

struct Pairs<K, V>(std::marker::PhantomData<(K, V)>);

impl<'de, K, V> Visitor<'de> for Pairs<K, V>
where
    K: Ord + Deserialize<'de>,
    V: Deserialize<'de>,
{
    type Value = Layered<K, V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of pairs")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut entries = BTreeMap::new();
        while let Some((key, value)) = seq.next_element()? {
            entries.insert(key, value);
        }
        Ok(entries.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Op {
        Insert(u32, u32),
        Remove(u32),
        Add(u32),
        Touch(u32),
        /// Goes on with a copy, the original being kept or dropped.
        Copy {
            keep: bool,
        },
        Settle,
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            (0..20_u32, 0..100_u32).prop_map(|(key, value)| Op::Insert(key, value)),
            (0..20_u32).prop_map(Op::Remove),
            (0..20_u32).prop_map(Op::Add),
            (0..20_u32).prop_map(Op::Touch),
            any::<bool>().prop_map(|keep| Op::Copy { keep }),
            Just(Op::Settle),
        ]
    }

    proptest! {
        #[test]
        fn behaves_like_a_map(ops in prop::collection::vec(op(), 0..120)) {
            let mut layered = Layered::<u32, u32>::default();
            let mut model = BTreeMap::new();
            let mut kept = Vec::new();
            for op in ops {
                match op {
                    Op::Insert(key, value) => {
                        layered.insert(key, value);
                        model.insert(key, value);
                    }
                    Op::Remove(key) => prop_assert_eq!(layered.remove(&key), model.remove(&key)),
                    Op::Add(key) => {
                        if let Some(value) = layered.get_mut(&key) { *value += 1; }
                        if let Some(value) = model.get_mut(&key) { *value += 1; }
                    }
                    Op::Touch(key) => {
                        *layered.get_or_insert_with(key, || 7) += 1;
                        *model.entry(key).or_insert(7) += 1;
                    }
                    Op::Copy { keep } => {
                        let copy = layered.clone();
                        let original = std::mem::replace(&mut layered, copy);
                        if keep { kept.push((original, model.clone())); }
                    }
                    Op::Settle => layered.settle(),
                }
                prop_assert_eq!(layered.len(), model.len());
                prop_assert!(layered.iter().eq(model.iter()));
                prop_assert!(model.keys().all(|key| layered.get(key) == model.get(key)));
            }
            // What was copied from is untouched by what happened to the copies.
            for (original, model) in kept {
                prop_assert!(original.iter().eq(model.iter()));
            }
        }
    }

    #[test]
    fn an_unshared_map_has_no_patch() {
        let mut map: Layered<u32, u32> = (0..10).map(|key| (key, key)).collect();
        let original = map.clone();
        map.insert(3, 30);
        assert_eq!((map.patch.len(), original.get(&3)), (1, Some(&3)));
        drop(original);
        map.settle();
        assert!(map.patch.is_empty());
        assert_eq!(map.get(&3), Some(&30));
    }

    #[test]
    fn a_lasting_reader_does_not_make_the_patch_grow() {
        let mut map: Layered<u32, u32> = (0..1000).map(|key| (key, key)).collect();
        let reader = map.clone();
        for key in 0..1000 {
            let mut copy = map.clone();
            copy.insert(key, 0);
            map = copy;
            map.settle();
            assert!(map.patch.len() <= 251);
        }
        assert_eq!(reader.get(&999), Some(&999));
    }
}

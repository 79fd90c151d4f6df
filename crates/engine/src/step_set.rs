//! Sets of steps as bits: what a routing decision asks is a few operations on words.

use std::fmt;
use std::sync::Arc;

use noetl_playbook::graph::StepIndex;

/// A set of steps; a clone costs a reference count.
#[derive(Clone, PartialEq, Eq)]
pub struct StepSet(Arc<[u64]>);

const BITS: usize = u64::BITS as usize;

impl StepSet {
    /// An empty set with room for so many steps.
    pub fn with_room_for(steps: usize) -> Self {
        Self(std::iter::repeat_n(0, steps.div_ceil(BITS)).collect())
    }

    /// Whether a step is in it.
    pub fn contains(&self, step: StepIndex) -> bool {
        let (word, bit) = place(step);
        self.0.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Puts a step in; one that there is no room for stays out.
    pub fn insert(&mut self, step: StepIndex) {
        let (word, bit) = place(step);
        if !self.contains(step)
            && let Some(word) = Arc::make_mut(&mut self.0).get_mut(word)
        {
            *word |= bit;
        }
    }

    /// Takes a step out.
    pub fn remove(&mut self, step: StepIndex) {
        let (word, bit) = place(step);
        if self.contains(step)
            && let Some(word) = Arc::make_mut(&mut self.0).get_mut(word)
        {
            *word &= !bit;
        }
    }

    /// Puts the steps of another set in.
    pub fn extend(&mut self, other: &Self) {
        if self
            .0
            .iter()
            .zip(other.0.iter())
            .all(|(own, other)| own | other == *own)
        {
            return;
        }
        for (own, other) in Arc::make_mut(&mut self.0).iter_mut().zip(other.0.iter()) {
            *own |= other;
        }
    }

    /// Whether there is no step in it.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// Its steps in document order.
    pub fn iter(&self) -> impl Iterator<Item = StepIndex> + '_ {
        bits(self.0.iter().copied())
    }

    /// The steps that are not in another set, in document order.
    pub fn without<'s>(&'s self, other: &'s Self) -> impl Iterator<Item = StepIndex> + 's {
        bits(
            self.0
                .iter()
                .zip(other.0.iter())
                .map(|(own, other)| own & !other),
        )
    }
}

fn place(step: StepIndex) -> (usize, u64) {
    (step.index() / BITS, 1 << (step.index() % BITS))
}

fn bits(words: impl Iterator<Item = u64>) -> impl Iterator<Item = StepIndex> {
    words.zip(0_u32..).flat_map(|(word, at)| {
        let mut rest = word;
        std::iter::from_fn(move || {
            let bit = (rest != 0).then(|| rest.trailing_zeros())?;
            rest &= rest - 1;
            Some(StepIndex(at * u64::BITS + bit))
        })
    })
}

impl fmt::Debug for StepSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.iter().map(|step| step.0))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_like_a_set(
            ops in prop::collection::vec((any::<bool>(), 0..200_u32), 0..60),
            others in prop::collection::btree_set(0..200_u32, 0..60),
        ) {
            let mut set = StepSet::with_room_for(200);
            let mut model = BTreeSet::new();
            for (put, step) in ops {
                if put {
                    set.insert(StepIndex(step));
                    model.insert(step);
                } else {
                    set.remove(StepIndex(step));
                    model.remove(&step);
                }
            }
            let mut other = StepSet::with_room_for(200);
            for step in &others {
                other.insert(StepIndex(*step));
            }
            let numbers = |steps: Vec<StepIndex>| steps.iter().map(|step| step.0).collect::<Vec<_>>();
            prop_assert_eq!(set.is_empty(), model.is_empty());
            prop_assert_eq!(numbers(set.iter().collect()), model.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(
                numbers(set.without(&other).collect()),
                model.difference(&others).copied().collect::<Vec<_>>()
            );
            set.extend(&other);
            prop_assert_eq!(
                numbers(set.iter().collect()),
                model.union(&others).copied().collect::<Vec<_>>()
            );
        }
    }
}

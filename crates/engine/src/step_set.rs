//! Bit sets of steps, so that routing decisions need only a few word operations.

use std::fmt;
use std::sync::Arc;

use noetl_playbook::graph::StepIndex;

/// A set of steps. Cloning only increments a reference count.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct StepSet(Arc<[u64]>);

const WORD_BITS: usize = u64::BITS as usize;

impl StepSet {
    /// Creates an empty set for a playbook with this many steps.
    pub fn with_capacity(steps: usize) -> Self {
        Self(std::iter::repeat_n(0, steps.div_ceil(WORD_BITS)).collect())
    }

    /// Returns true if the set contains a step.
    pub fn contains(&self, step: StepIndex) -> bool {
        let (word, bit) = word_and_bit(step);
        self.0.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Adds a step. Indexes beyond the capacity are ignored.
    pub fn insert(&mut self, step: StepIndex) {
        let (word, bit) = word_and_bit(step);
        if !self.contains(step)
            && let Some(word) = Arc::make_mut(&mut self.0).get_mut(word)
        {
            *word |= bit;
        }
    }

    /// Removes a step.
    pub fn remove(&mut self, step: StepIndex) {
        let (word, bit) = word_and_bit(step);
        if self.contains(step)
            && let Some(word) = Arc::make_mut(&mut self.0).get_mut(word)
        {
            *word &= !bit;
        }
    }

    /// Adds all steps of another set.
    pub fn insert_all(&mut self, other: &Self) {
        if self.0.iter().zip(other.0.iter()).all(|(own, other)| own | other == *own) {
            return;
        }
        for (own, other) in Arc::make_mut(&mut self.0).iter_mut().zip(other.0.iter()) {
            *own |= other;
        }
    }

    /// Returns true if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// Iterates over the steps in document order.
    pub fn iter(&self) -> impl Iterator<Item = StepIndex> + '_ {
        iter_bits(self.0.iter().copied())
    }

    /// Iterates over the steps that are not in another set, in document order.
    pub fn difference<'s>(&'s self, other: &'s Self) -> impl Iterator<Item = StepIndex> + 's {
        iter_bits(self.0.iter().zip(other.0.iter()).map(|(own, other)| own & !other))
    }
}

fn word_and_bit(step: StepIndex) -> (usize, u64) {
    (step.index() / WORD_BITS, 1 << (step.index() % WORD_BITS))
}

fn iter_bits(words: impl Iterator<Item = u64>) -> impl Iterator<Item = StepIndex> {
    words.zip(0_u32..).flat_map(|(word, index)| {
        let mut rest = word;
        std::iter::from_fn(move || {
            let bit = (rest != 0).then(|| rest.trailing_zeros())?;
            rest &= rest - 1;
            Some(StepIndex(index * u64::BITS + bit))
        })
    })
}

impl fmt::Debug for StepSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(|step| step.0)).finish()
    }
}

#[cfg(test)]
mod tests;

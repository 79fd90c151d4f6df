//! Hints: where servers on one store tell each other to look.

use std::collections::BTreeMap;

use noetl_types::{ExecutionId, PoolName};

/// Places of a kind that are named one by one; where there are more, all are meant.
pub const MAX_HINTED: usize = 2_048;

/// Where others should look. Never the truth: a hint that is lost is found later by whoever looks
/// now and then, and one too many costs a look.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hints {
    /// Queues that work was left in, and how many commands.
    pub queues: Places<PoolName, usize>,
    /// Executions whose logs have grown.
    pub runs: Places<ExecutionId, Growth>,
}

/// Places of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Places<K, V> {
    /// These, [`MAX_HINTED`] of them at most.
    Named(BTreeMap<K, V>),
    /// Wherever one waits.
    All,
}

/// What a log has grown by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Growth {
    /// By some events.
    Events,
    /// By its end.
    End,
}

impl<K, V> Default for Places<K, V> {
    fn default() -> Self {
        Self::Named(BTreeMap::new())
    }
}

impl<K: Ord, V> Places<K, V> {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Named(named) if named.is_empty())
    }

    /// Adds a place; what is known of one that is there already becomes what `both` says.
    fn add(&mut self, place: K, value: V, both: impl FnOnce(&V, V) -> V) {
        let Self::Named(named) = self else { return };
        if let Some(known) = named.get_mut(&place) {
            *known = both(known, value);
        } else if named.len() < MAX_HINTED {
            named.insert(place, value);
        } else {
            *self = Self::All;
        }
    }
}

impl Hints {
    /// To look everywhere.
    pub const EVERYTHING: Self = Self {
        queues: Places::All,
        runs: Places::All,
    };

    /// Whether there is nowhere to look.
    pub fn is_empty(&self) -> bool {
        self.queues.is_empty() && self.runs.is_empty()
    }

    /// Commands were left in a queue.
    pub fn left(&mut self, queue: PoolName, count: usize) {
        self.queues
            .add(queue, count, |known, more| known.saturating_add(more));
    }

    /// The log of an execution has grown.
    pub fn grew(&mut self, execution_id: ExecutionId, growth: Growth) {
        self.runs
            .add(execution_id, growth, |known, more| more.max(*known));
    }

    /// Adds others.
    pub fn merge(&mut self, others: Self) {
        match others.queues {
            Places::All => self.queues = Places::All,
            Places::Named(queues) => {
                for (queue, count) in queues {
                    self.left(queue, count);
                }
            }
        }
        match others.runs {
            Places::All => self.runs = Places::All,
            Places::Named(runs) => {
                for (execution_id, growth) in runs {
                    self.grew(execution_id, growth);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(number: usize) -> ExecutionId {
        ExecutionId::new(i64::try_from(number).unwrap()).unwrap()
    }

    #[test]
    fn the_same_place_is_named_once() {
        let mut hints = Hints::default();
        assert!(hints.is_empty());
        hints.left(PoolName::shared(), 2);
        hints.grew(run(7), Growth::End);
        let mut more = Hints::default();
        more.left(PoolName::shared(), 3);
        more.grew(run(7), Growth::Events);
        hints.merge(more);
        assert_eq!(
            hints.queues,
            Places::Named([(PoolName::shared(), 5)].into())
        );
        let ended = [(run(7), Growth::End)];
        assert_eq!(hints.runs, Places::Named(ended.into()), "it stays ended");
    }

    #[test]
    fn too_many_places_are_all_of_them() {
        let mut hints = Hints::default();
        for number in 1..=MAX_HINTED {
            hints.grew(run(number), Growth::Events);
        }
        hints.grew(run(1), Growth::End);
        assert_ne!(hints.runs, Places::All);
        hints.grew(run(MAX_HINTED + 1), Growth::Events);
        assert_eq!(hints.runs, Places::All);
        hints.grew(run(1), Growth::Events);
        assert_eq!(hints.runs, Places::All);
        assert!(hints.queues.is_empty(), "queues are another matter");
        hints.merge(Hints::EVERYTHING);
        assert_eq!(hints, Hints::EVERYTHING);
    }
}

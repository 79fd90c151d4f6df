//! Wakeups that servers on one store send to each other.

use std::collections::BTreeMap;

use noetl_types::{CommandId, ExecutionId, PoolName};

/// Maximum number of targets that a wakeup lists. Beyond it, the wakeup applies to all.
pub const MAX_WAKEUP_TARGETS: usize = 2_048;

/// Queues, executions and commands that other servers should check. Wakeups are only hints: a lost
/// one is compensated by polling, and a superfluous one costs a single check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wakeup {
    /// Queues with new work, and the number of commands.
    pub queues: WakeupSet<PoolName, usize>,
    /// Executions whose logs have grown.
    pub executions: WakeupSet<ExecutionId, LogChange>,
    /// Commands that ended without a report of their workers.
    pub commands: WakeupSet<CommandId, ()>,
}

/// Wakeup targets of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WakeupSet<K, V> {
    /// The listed targets, at most [`MAX_WAKEUP_TARGETS`].
    Only(BTreeMap<K, V>),
    /// All targets.
    All,
}

/// Kind of growth of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogChange {
    /// New events.
    Events,
    /// The end of the execution.
    End,
}

impl<K, V> Default for WakeupSet<K, V> {
    fn default() -> Self {
        Self::Only(BTreeMap::new())
    }
}

impl<K: Ord, V> WakeupSet<K, V> {
    /// True if there is no target.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Only(targets) if targets.is_empty())
    }

    /// Adds a target. `merge` combines the values of a target that is already listed.
    fn merge_target(&mut self, target: K, value: V, merge: impl FnOnce(&V, V) -> V) {
        let Self::Only(targets) = self else { return };
        if let Some(existing) = targets.get_mut(&target) {
            *existing = merge(existing, value);
        } else if targets.len() < MAX_WAKEUP_TARGETS {
            targets.insert(target, value);
        } else {
            *self = Self::All;
        }
    }
}

impl Wakeup {
    /// A wakeup of all targets.
    pub const WAKE_ALL: Self =
        Self { queues: WakeupSet::All, executions: WakeupSet::All, commands: WakeupSet::All };

    /// True if there is no target.
    pub fn is_empty(&self) -> bool {
        self.queues.is_empty() && self.executions.is_empty() && self.commands.is_empty()
    }

    /// Adds commands of a queue.
    pub fn add_queue(&mut self, queue: PoolName, count: usize) {
        self.queues.merge_target(queue, count, |existing, more| existing.saturating_add(more));
    }

    /// Adds growth of an execution's log.
    pub fn add_execution(&mut self, execution_id: ExecutionId, change: LogChange) {
        self.executions.merge_target(execution_id, change, |existing, more| more.max(*existing));
    }

    /// Adds a command that ended without a report of its worker.
    pub fn add_command(&mut self, command: CommandId) {
        self.commands.merge_target(command, (), |(), ()| ());
    }

    /// Merges another wakeup into this one.
    pub fn merge(&mut self, other: Self) {
        match other.queues {
            WakeupSet::All => self.queues = WakeupSet::All,
            WakeupSet::Only(queues) => {
                for (queue, count) in queues {
                    self.add_queue(queue, count);
                }
            }
        }
        match other.executions {
            WakeupSet::All => self.executions = WakeupSet::All,
            WakeupSet::Only(executions) => {
                for (execution_id, change) in executions {
                    self.add_execution(execution_id, change);
                }
            }
        }
        match other.commands {
            WakeupSet::All => self.commands = WakeupSet::All,
            WakeupSet::Only(commands) => {
                for command in commands.into_keys() {
                    self.add_command(command);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;

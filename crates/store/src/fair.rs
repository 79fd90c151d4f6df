//! Which of the waiting commands are leased first.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use noetl_types::limits::{LeaseBatch, Priority};
use noetl_types::{CommandId, ExecutionId};

/// How far beyond the wanted number a lease looks, so that executions can take turns.
const LOOK_AHEAD: u32 = 4;

/// How many waiting commands a lease looks at. The first in line is always chosen, so one command
/// needs no look ahead.
pub(crate) fn window(max: LeaseBatch) -> u32 {
    match max.get() {
        1 => 1,
        more => more.saturating_mul(LOOK_AHEAD),
    }
}

/// A command that waits, as far as its order goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) command_id: CommandId,
    pub(crate) execution_id: ExecutionId,
    pub(crate) priority: Priority,
}

/// Chooses among the first waiting commands, which come highest priority and then oldest first:
/// of equal priority, one of every execution before the second of any.
pub(crate) fn choose(waiting: &[Waiting], max: LeaseBatch) -> Vec<CommandId> {
    let mut turns: BTreeMap<(ExecutionId, Priority), u32> = BTreeMap::new();
    let mut ranked: Vec<_> = waiting
        .iter()
        .map(|waiting| {
            let turn = turns
                .entry((waiting.execution_id, waiting.priority))
                .or_default();
            *turn += 1;
            (Reverse(waiting.priority), *turn, waiting.command_id)
        })
        .collect();
    ranked.sort_unstable();
    ranked
        .into_iter()
        .map(|(_, _, command_id)| command_id)
        .take(usize::try_from(max.get()).unwrap_or(usize::MAX))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(command: i64, execution: i64, priority: i64) -> Waiting {
        Waiting {
            command_id: CommandId::new(command).unwrap(),
            execution_id: ExecutionId::new(execution).unwrap(),
            priority: Priority::new(priority).unwrap(),
        }
    }

    #[test]
    fn executions_take_turns_within_a_priority() {
        let queue = [
            waiting(9, 3, 5),
            waiting(1, 1, 0),
            waiting(2, 1, 0),
            waiting(3, 1, 0),
            waiting(4, 2, 0),
        ];
        let chosen: Vec<i64> = choose(&queue, LeaseBatch::clamped(4))
            .into_iter()
            .map(CommandId::get)
            .collect();
        assert_eq!(chosen, [9, 1, 4, 2]);
    }
}

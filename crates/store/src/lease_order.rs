//! Selection of the waiting commands that are leased first.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use noetl_types::limits::{LeaseBatchSize, Priority};
use noetl_types::{CommandId, ExecutionId};

/// Factor by which a lease reads more commands than requested, so that executions can alternate.
const LOOKAHEAD_FACTOR: u32 = 4;

/// Number of waiting commands that a lease reads. The first one is always chosen, so a single
/// command needs no lookahead.
pub(crate) fn lookahead_rows(max: LeaseBatchSize) -> u32 {
    match max.get() {
        1 => 1,
        more => more.saturating_mul(LOOKAHEAD_FACTOR),
    }
}

/// The ordering columns of a waiting command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WaitingCommand {
    pub(crate) command_id: CommandId,
    pub(crate) execution_id: ExecutionId,
    pub(crate) priority: Priority,
}

/// Chooses among the first waiting commands, which are ordered by descending priority, then by age.
/// Within a priority, each execution gets one command before any execution gets its second.
pub(crate) fn choose_commands(waiting: &[WaitingCommand], max: LeaseBatchSize) -> Vec<CommandId> {
    let mut turns: BTreeMap<(ExecutionId, Priority), u32> = BTreeMap::new();
    let mut ranked: Vec<_> = waiting
        .iter()
        .map(|waiting| {
            let turn = turns.entry((waiting.execution_id, waiting.priority)).or_default();
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
mod tests;

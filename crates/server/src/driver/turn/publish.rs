//! Third phase: publishes a committed append.

use noetl_engine::{Event, EventKind};
use noetl_store::{AppendReceipt, LogChange};
use noetl_types::CommandId;

use super::{DecidedMessage, Turn};
use crate::driver::eager_lease::EagerLeases;
use crate::driver::loaded_execution::LoadedExecution;
use crate::driver::{ExecutionOutcome, MessageReply};

/// A turn whose decisions are committed.
pub(super) struct CommittedTurn {
    pub(super) turn: Turn,
    pub(super) receipt: AppendReceipt,
    /// Leases of new commands that are part of the append.
    pub(super) leases: EagerLeases,
}

impl CommittedTurn {
    /// Answers senders, delivers leased commands, notifies followers and peers, and starts
    /// follow-ups. Returns the execution after the turn.
    pub(super) fn publish(self) -> LoadedExecution {
        let Self { turn, receipt, leases } = self;
        let (driver, mut execution) = (turn.driver, turn.execution);
        let execution_id = execution.header.execution_id;
        let outcome = turn.events.iter().rev().find_map(ExecutionOutcome::from_event);
        let unassigned = leases.unassigned;
        let catalog_id = execution.definition.entry.catalog_id;
        let mut leased = leases.deliver_commands(&driver, &turn.events, catalog_id, execution_id);
        execution.head = receipt.head;
        execution.new_facts = None;
        if let Some(before) = turn.before {
            // Only one copy of the state remains, so its changes need not be kept separately.
            drop(before);
            execution.state.settle();
        }
        if unassigned > 0 {
            driver.waiters.matcher.add_backlog(&execution.pool, unassigned);
        }
        let version = receipt.head.version;
        driver.timers.add_timers(execution_id, turn.armed);
        let cancels_children = |decided: &DecidedMessage| decided.message.cancels_children;
        let canceller = turn.decided.iter().flatten().position(cancels_children);
        let (follow_ups, mut children) = turn.effects.into_follow_ups(canceller.is_some());
        driver.spawn_follow_ups(execution_id, follow_ups);
        if outcome.is_some() {
            driver.traces.queue_trace(execution_id);
        }
        driver.waiters.followers.notify_progress(execution_id, version, outcome.clone());
        driver.waiters.notify_log_growth();
        let stopped: Vec<CommandId> = turn.events.iter().filter_map(stopped_command).collect();
        for command in &stopped {
            driver.waiters.command_watches.notify_command(*command);
        }
        let change = if outcome.is_some() { LogChange::End } else { LogChange::Events };
        let log = (execution_id, change);
        driver.peers.notify_peers(&execution.pool, unassigned, &stopped, log);
        for (index, decided) in turn.decided.into_iter().flatten().enumerate() {
            let reply = MessageReply {
                earlier: None,
                verdict: Some(decided.verdict),
                version,
                issued: decided.issued,
                leased: leased.remove(&index).unwrap_or_default(),
                outcome: outcome.clone(),
                // The append recorded them.
                slot_requests: Vec::new(),
                children: match canceller {
                    Some(canceller) if canceller == index => std::mem::take(&mut children),
                    Some(_) | None => Vec::new(),
                },
            };
            if let Err(Ok(undelivered)) = decided.message.reply.send(Ok(reply)) {
                driver.requeue_undelivered(undelivered.leased);
            }
        }
        driver.write_snapshot_if_due(&mut execution);
        execution
    }
}

/// Returns the command that an event takes from its worker.
fn stopped_command(event: &Event) -> Option<CommandId> {
    match &event.kind {
        EventKind::CommandCancelled(closed) => Some(closed.at.command),
        EventKind::CommandExpired(expired) => Some(expired.at.command),
        _ => None,
    }
}

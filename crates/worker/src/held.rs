//! The commands that the worker holds.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use noetl_api::LeaseToken;
use noetl_api::command::{HeldLease, LeasedCommand};
use noetl_types::{CommandId, ExecutionId, Millis};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How much earlier than the server a worker gives up.
const HEADSTART: Duration = Duration::from_secs(1);

/// A command that the worker holds, from its lease until its report is answered.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) execution_id: ExecutionId,
    pub(crate) command_id: CommandId,
    pub(crate) attempt: u32,
    lease_token: LeaseToken,
    /// Set when nobody wants the result any more: the lease is lost, the command is cancelled, or
    /// the worker must end.
    pub(crate) cancel: CancellationToken,
    /// When the attempt fails. Counted from the arrival of the lease by the server's own times, so
    /// that clocks that differ do no harm; and a little early, so that the worker's report is there
    /// before the server takes it for lost and offers the command again.
    pub(crate) deadline: Option<Instant>,
}

impl Held {
    fn new(command: &LeasedCommand, cancel: CancellationToken) -> Self {
        let left = command.deadline_at.map(|at| {
            let left = Duration::from(at.since(command.claimed_at));
            left.saturating_sub((left / 20).min(HEADSTART))
        });
        Self {
            execution_id: command.execution_id,
            command_id: command.command_id,
            attempt: command.attempt,
            lease_token: command.lease_token,
            cancel,
            deadline: left.and_then(|left| Instant::now().checked_add(left)),
        }
    }

    /// What proves that it is held.
    pub(crate) fn lease(&self) -> HeldLease {
        HeldLease {
            execution_id: self.execution_id,
            command_id: self.command_id,
            lease_token: self.lease_token,
            attempt: self.attempt,
        }
    }

    /// Whether its time is up.
    pub(crate) fn is_overdue(&self) -> bool {
        self.deadline
            .is_some_and(|deadline| deadline <= Instant::now())
    }
}

/// How long a command is granted, unless it is renewed. A lease that ends with the deadline of its
/// command tells nothing: it was cut there, and no renewal makes it last longer.
pub(crate) fn granted(command: &LeasedCommand) -> Option<Millis> {
    let is_cut = command
        .deadline_at
        .is_some_and(|deadline| deadline <= command.lease_until);
    (!is_cut).then(|| command.lease_until.since(command.claimed_at))
}

/// All commands that the worker holds.
#[derive(Debug, Default)]
pub(crate) struct Holdings(Mutex<HashMap<CommandId, Arc<Held>>>);

impl Holdings {
    /// Notes a command. An earlier attempt of the same, if there is one, has lost its lease.
    pub(crate) fn hold(&self, command: &LeasedCommand, cancel: CancellationToken) -> Arc<Held> {
        let held = Arc::new(Held::new(command, cancel));
        let earlier = self.lock().insert(held.command_id, Arc::clone(&held));
        if let Some(earlier) = earlier {
            earlier.cancel.cancel();
        }
        held
    }

    /// Forgets a command, unless a later attempt has taken its place.
    pub(crate) fn release(&self, held: &Arc<Held>) {
        let mut all = self.lock();
        let same = all.get(&held.command_id);
        if same.is_some_and(|same| Arc::ptr_eq(same, held)) {
            all.remove(&held.command_id);
        }
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Arc<Held>> {
        self.lock().values().map(Arc::clone).collect()
    }

    /// Stops one of them, whatever its attempt.
    pub(crate) fn cancel(&self, command: CommandId) {
        let held = self.lock().get(&command).map(Arc::clone);
        if let Some(held) = held {
            held.cancel.cancel();
        }
    }

    /// Stops all of them.
    pub(crate) fn cancel_all(&self) {
        for held in self.all() {
            held.cancel.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<CommandId, Arc<Held>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! The active leases of the worker.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use noetl_api::command::{HeldLease, LeasedCommand};
use noetl_types::{CommandId, ExecutionId, LeaseToken, Millis, Timestamp};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// Time by which a worker gives up earlier than the server.
const DEADLINE_MARGIN: Duration = Duration::from_secs(1);

/// Time of a grant, on two clocks: the monotonic one stands still while the machine is suspended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GrantTime {
    monotonic: Instant,
    wall: Timestamp,
}

impl GrantTime {
    pub(crate) fn new(wall: Timestamp) -> Self {
        Self { monotonic: Instant::now(), wall }
    }

    /// The time at which a request of this time was granted, after it waited in the server.
    pub(crate) fn after_wait(self, waited: Millis) -> Self {
        Self {
            monotonic: self.monotonic.checked_add(waited.into()).unwrap_or(self.monotonic),
            wall: self.wall.saturating_add(waited),
        }
    }

    /// Maximum age of the grant.
    pub(crate) fn age(self, now: Timestamp) -> Duration {
        self.monotonic.elapsed().max(now.duration_since(self.wall).into())
    }
}

/// The lease of a command, from its grant until its report is delivered or dropped.
#[derive(Debug)]
pub(crate) struct ActiveLease {
    pub(crate) execution_id: ExecutionId,
    pub(crate) command_id: CommandId,
    pub(crate) attempt: u32,
    lease_token: LeaseToken,
    pub(crate) granted: GrantTime,
    since: Instant,
    /// Cancelled when the result is no longer needed: the lease is lost, the command is cancelled,
    /// or the worker must end.
    pub(crate) cancel: CancellationToken,
    /// Deadline of the attempt. It is computed from the arrival of the lease and the server's own
    /// timestamps, so that clock differences do not matter. It is slightly early, so that the
    /// worker's report arrives before the server considers the command lost and offers it again.
    pub(crate) deadline: Option<Instant>,
}

impl ActiveLease {
    fn new(command: &LeasedCommand, granted: GrantTime, cancel: CancellationToken) -> Self {
        let remaining = command.deadline_at.map(|deadline| {
            let remaining = Duration::from(deadline.duration_since(command.claimed_at));
            remaining.saturating_sub((remaining / 20).min(DEADLINE_MARGIN))
        });
        Self {
            execution_id: command.execution_id,
            command_id: command.command_id,
            attempt: command.attempt,
            lease_token: command.lease_token,
            granted,
            since: Instant::now(),
            cancel,
            deadline: remaining.and_then(|remaining| Instant::now().checked_add(remaining)),
        }
    }

    /// The proof of the lease for the server.
    pub(crate) fn to_held_lease(&self) -> HeldLease {
        HeldLease {
            execution_id: self.execution_id,
            command_id: self.command_id,
            lease_token: self.lease_token,
            attempt: self.attempt,
        }
    }

    /// Returns true if the deadline has passed.
    pub(crate) fn is_overdue(&self) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= Instant::now())
    }
}

/// Duration of the granted lease. `None` if the lease ends with the deadline of its command: it was
/// truncated, and a renewal does not extend it.
pub(crate) fn granted_duration(command: &LeasedCommand) -> Option<Millis> {
    let is_truncated = command.deadline_at.is_some_and(|deadline| deadline <= command.lease_until);
    (!is_truncated).then(|| command.lease_until.duration_since(command.claimed_at))
}

/// All active leases of the worker.
#[derive(Debug, Default)]
pub(crate) struct ActiveLeases {
    by_command: Mutex<HashMap<CommandId, Arc<ActiveLease>>>,
    added: Notify,
}

impl ActiveLeases {
    /// Adds the lease of a command. An earlier attempt of the same command has lost its lease and
    /// is cancelled.
    pub(crate) fn add_lease(
        &self,
        command: &LeasedCommand,
        granted: GrantTime,
        cancel: CancellationToken,
    ) -> Arc<ActiveLease> {
        let lease = Arc::new(ActiveLease::new(command, granted, cancel));
        let earlier = self.by_command.lock().insert(lease.command_id, Arc::clone(&lease));
        self.added.notify_one();
        if let Some(earlier) = earlier {
            earlier.cancel.cancel();
        }
        lease
    }

    /// Removes a lease, unless a later attempt has replaced it.
    pub(crate) fn release_lease(&self, lease: &Arc<ActiveLease>) {
        let mut leases = self.by_command.lock();
        let current = leases.get(&lease.command_id);
        if current.is_some_and(|current| Arc::ptr_eq(current, lease)) {
            leases.remove(&lease.command_id);
        }
    }

    pub(crate) fn all_leases(&self) -> Vec<Arc<ActiveLease>> {
        self.by_command.lock().values().map(Arc::clone).collect()
    }

    /// Returns true if the worker holds a lease of a command, regardless of its attempt.
    pub(crate) fn has_lease(&self, command: CommandId) -> bool {
        self.by_command.lock().contains_key(&command)
    }

    /// Returns the leases of commands that have run for some time.
    pub(crate) fn leases_older_than(&self, age: Duration) -> Vec<Arc<ActiveLease>> {
        let mut leases = self.all_leases();
        leases.retain(|lease| lease.since.elapsed() >= age && !lease.cancel.is_cancelled());
        leases
    }

    /// Waits until another command than these has run for some time.
    pub(crate) async fn wait_for_other(&self, known: &[Arc<ActiveLease>], age: Duration) {
        loop {
            self.added.notified().await;
            sleep(age).await;
            let is_other = |lease| !known.iter().any(|other| Arc::ptr_eq(other, lease));
            if self.leases_older_than(age).iter().any(is_other) {
                return;
            }
        }
    }

    /// Stops a command, regardless of its attempt.
    pub(crate) fn cancel_command(&self, command: CommandId) {
        let lease = self.by_command.lock().get(&command).map(Arc::clone);
        if let Some(lease) = lease {
            lease.cancel.cancel();
        }
    }

    /// Stops all commands.
    pub(crate) fn cancel_all(&self) {
        for lease in self.all_leases() {
            lease.cancel.cancel();
        }
    }
}

//! Eager leases: commands that are leased in the append that issues them.
//!
//! A worker that reports and polls in one request, or that waits, gets a command in the append that
//! issues it. Such a lease costs no second commit and no second round trip.

use std::collections::BTreeMap;
use std::sync::Arc;

use noetl_api::command::{CommandMeta, LeasedCommand};
use noetl_engine::event::{Event, EventKind, IssuedContext};
use noetl_messaging::{Poller, Reservation};
use noetl_store::{Fence, LeaseCondition, LeaseRelease, LeaseTerms, NewCommand};
use noetl_types::{CatalogId, CommandId, ExecutionId, JsonMap, LeaseToken, Millis, Timestamp};

use crate::driver::queue_delta::{DEADLINE_SLACK, QueueDelta};
use crate::driver::{Driver, PollRequest};
use crate::rng;
use crate::services::notifications::CommandNotification;

/// The lease of a granted command.
#[derive(Clone)]
pub(crate) struct LeaseGrant {
    pub(crate) attempt: u32,
    pub(crate) token: LeaseToken,
    pub(crate) claimed_at: Timestamp,
    pub(crate) lease_until: Timestamp,
}

/// Assignment of new commands to workers.
pub(super) struct EagerLeases {
    assigned: BTreeMap<CommandId, (LeaseRecipient, LeaseGrant)>,
    waiters: Vec<ReservedPoller>,
    /// Number of commands that no worker got.
    pub(super) unassigned: usize,
    /// Notifications of unassigned commands for other processes.
    notifications: Vec<CommandNotification>,
}

#[derive(Clone, Copy)]
enum LeaseRecipient {
    /// The sender of a message of this batch, by index.
    Sender(usize),
    /// A waiting poller, by index.
    Waiter(usize),
}

struct ReservedPoller {
    reservation: Reservation<LeasedCommand>,
    room: usize,
}

/// The poll request in a message of this batch.
pub(super) struct SenderPoll {
    pub(super) message: usize,
    pub(super) request: Arc<PollRequest>,
}

impl EagerLeases {
    /// Assigns new commands to the senders of this batch first, then to waiting pollers.
    pub(super) fn assign_commands(
        driver: &Driver,
        changes: &mut QueueDelta,
        polls: &[SenderPoll],
        execution_id: ExecutionId,
        now: Timestamp,
    ) -> Self {
        let mut grants = Self {
            assigned: BTreeMap::new(),
            waiters: Vec::new(),
            unassigned: 0,
            notifications: Vec::new(),
        };
        let token = rng::random_lease_token(&*driver.infra.rng);
        let may_grant = driver.infra.clock.check_skew().is_ok();
        for command in changes.new_commands().filter(|command| !command.held) {
            let recipient = may_grant.then(|| grants.find_recipient(driver, command, polls));
            let Some(recipient) = recipient.flatten() else {
                grants.unassigned += 1;
                // A delayed command is announced when it is due.
                if driver.messaging.is_some() && command.not_before.is_none() {
                    grants.notifications.push(build_notification(execution_id, command));
                }
                continue;
            };
            let poller = grants.poller_of(recipient, polls);
            let lease_until = now.saturating_add(
                poller.map_or(driver.infra.settings.lease_duration, |poller| poller.lease),
            );
            let Some(worker) = poller.map(|poller| poller.worker.clone()) else {
                continue;
            };
            command.eager_lease = Some(LeaseTerms { worker, token, lease_until, now });
            let grant = LeaseGrant { attempt: 1, token, claimed_at: now, lease_until };
            grants.assigned.insert(command.command_id, (recipient, grant));
        }
        grants
    }

    fn find_recipient(
        &mut self,
        driver: &Driver,
        command: &NewCommand,
        polls: &[SenderPoll],
    ) -> Option<LeaseRecipient> {
        let kind = &*command.tool_kind;
        let sender = polls.iter().find(|poll| {
            let request = &poll.request;
            request.pool == command.pool
                && request.poller.can_run(kind)
                && request.try_take_permit()
        });
        if let Some(poll) = sender {
            return Some(LeaseRecipient::Sender(poll.message));
        }
        let open = self
            .waiters
            .iter()
            .position(|waiter| waiter.room > 0 && waiter.reservation.poller().can_run(kind));
        let index = if let Some(index) = open {
            index
        } else {
            let reservation = driver.waiters.matcher.reserve_poller(&command.pool, kind)?;
            let room = reservation.poller().max;
            self.waiters.push(ReservedPoller { reservation, room });
            self.waiters.len() - 1
        };
        self.waiters[index].room = self.waiters[index].room.saturating_sub(1);
        Some(LeaseRecipient::Waiter(index))
    }

    fn poller_of<'t>(
        &'t self,
        recipient: LeaseRecipient,
        polls: &'t [SenderPoll],
    ) -> Option<&'t Poller> {
        match recipient {
            LeaseRecipient::Sender(message) => {
                polls.iter().find(|poll| poll.message == message).map(|poll| &poll.request.poller)
            }
            LeaseRecipient::Waiter(index) => {
                let waiter = self.waiters.get(index)?;
                Some(waiter.reservation.poller())
            }
        }
    }

    /// Undoes the assignment after a failed append, so that pollers keep their positions in the queue.
    pub(super) fn undo_assignment(self, driver: &Driver, polls: &[SenderPoll]) {
        for (recipient, _) in self.assigned.values() {
            if let LeaseRecipient::Sender(message) = recipient
                && let Some(poll) = polls.iter().find(|poll| poll.message == *message)
            {
                poll.request.return_permit();
            }
        }
        for waiter in self.waiters.into_iter().rev() {
            driver.waiters.matcher.return_reservation(waiter.reservation);
        }
    }

    /// Delivers the commands to the waiting pollers, and returns those for the senders of messages.
    pub(super) fn deliver_commands(
        self,
        driver: &Arc<Driver>,
        events: &[Event],
        catalog_id: CatalogId,
        execution_id: ExecutionId,
    ) -> BTreeMap<usize, Vec<LeasedCommand>> {
        let mut to_senders: BTreeMap<usize, Vec<LeasedCommand>> = BTreeMap::new();
        let mut to_waiters: Vec<Vec<LeasedCommand>> = Vec::new();
        to_waiters.resize_with(self.waiters.len(), Vec::new);
        for event in events {
            let Some((recipient, grant)) = self.assigned.get(&CommandId::from(event.event_id))
            else {
                continue;
            };
            let Some(command) = build_leased_command(execution_id, catalog_id, event, grant) else {
                continue;
            };
            driver.infra.metrics.record_lease_wait(Millis::ZERO);
            match *recipient {
                LeaseRecipient::Sender(message) => {
                    to_senders.entry(message).or_default().push(command);
                }
                LeaseRecipient::Waiter(index) => to_waiters[index].push(command),
            }
        }
        if let Some(messaging) = &driver.messaging {
            messaging.queue_notifications(self.notifications);
        }
        for (waiter, commands) in self.waiters.into_iter().zip(to_waiters) {
            if let Err(undelivered) = waiter.reservation.deliver_work(commands) {
                driver.requeue_undelivered(undelivered);
            }
        }
        to_senders
    }
}

impl Driver {
    /// Requeues commands that did not reach their worker.
    pub(crate) fn requeue_undelivered(self: &Arc<Self>, commands: Vec<LeasedCommand>) {
        if commands.is_empty() {
            return;
        }
        let this = Arc::clone(self);
        self.infra.tasks.spawn(async move {
            let releases = commands.iter().map(|command| LeaseRelease {
                fence: Fence {
                    command_id: command.command_id,
                    attempt: command.attempt,
                    condition: LeaseCondition::Token(command.lease_token),
                },
                not_before: None,
            });
            // If this fails, their leases expire.
            if this.infra.store.release_leases(releases.collect()).await.is_ok() {
                this.waiters.matcher.recheck_all();
                this.peers.notify_peers_of_requeue();
            }
        });
    }
}

/// Builds the notification of a new command for workers of other processes.
fn build_notification(execution_id: ExecutionId, command: &NewCommand) -> CommandNotification {
    CommandNotification {
        execution_id,
        command_id: command.command_id,
        step: command.instance.step_name.clone(),
        index: command.instance.iter_index,
        pool: command.pool.clone(),
        deadline: command.deadline,
        attempt: 1,
        number: 0,
    }
}

/// Deadline of an attempt.
fn attempt_deadline(claimed_at: Timestamp, duration: Millis) -> Timestamp {
    claimed_at.saturating_add(duration.saturating_add(DEADLINE_SLACK))
}

/// Builds the leased command that is sent to a worker.
pub(crate) fn build_leased_command(
    execution_id: ExecutionId,
    catalog_id: CatalogId,
    event: &Event,
    grant: &LeaseGrant,
) -> Option<LeasedCommand> {
    let EventKind::CommandIssued(issued) = &event.kind else {
        return None;
    };
    let context = match &issued.context {
        IssuedContext::Inline(context) => context.to_json(),
        IssuedContext::External(reference) => {
            JsonMap::from([("context_ref".into(), reference.as_json().clone())])
        }
    };
    Some(LeasedCommand {
        execution_id,
        event_id: event.event_id,
        command_id: CommandId::from(event.event_id),
        attempt: grant.attempt,
        lease_token: grant.token,
        claimed_at: grant.claimed_at,
        lease_until: grant.lease_until,
        deadline_at: Some(attempt_deadline(grant.claimed_at, issued.deadline)),
        idempotency_key: format!("{execution_id}:{}", event.seq).into(),
        node_id: issued.step.clone(),
        node_name: issued.step.clone(),
        action: issued.tool.as_str().into(),
        context,
        meta: CommandMeta {
            catalog_id,
            seq: event.seq,
            issued_at: event.time,
            run: issued.run,
            index: issued.index,
            collection_size: issued.looping.and_then(|looping| looping.size),
            frame_max_rows: issued.frame.map(|frame| frame.max_rows),
            attempts: grant.attempt,
            max_attempts: issued.max_attempts,
            trace: issued.trace.clone(),
        },
    })
}

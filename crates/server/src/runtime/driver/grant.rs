//! Commands that are a worker's from birth.
//!
//! A worker that reports and asks for more, or that waits, gets a command in the append that issues
//! it. Such a grant costs nothing: no second commit, no second round trip.

use std::collections::BTreeMap;
use std::sync::Arc;

use noetl_api::LeaseToken;
use noetl_api::command::{CommandMeta, LeasedCommand};
use noetl_bus::{Reservation, Taker};
use noetl_engine::event::{Event, EventKind, IssuedContext};
use noetl_store::{Claim, Fence, Holder, NewCommand, Release};
use noetl_types::{CatalogId, CommandId, ExecutionId, JsonMap, Millis, Timestamp};

use super::changes::{Changes, DEADLINE_SLACK};
use super::letter::Offer;
use crate::runtime::messaging::Notice;
use crate::runtime::{Core, entropy};

/// A lease as it is written on a command.
#[derive(Clone)]
pub(crate) struct Granted {
    pub(crate) attempt: u32,
    pub(crate) token: LeaseToken,
    pub(crate) claimed_at: Timestamp,
    pub(crate) lease_until: Timestamp,
}

/// Who gets which of the new commands.
pub(super) struct Grants {
    to: BTreeMap<CommandId, (Recipient, Granted)>,
    waiters: Vec<Waiter>,
    /// How many nobody gets yet.
    pub(super) left: usize,
    /// Those of them that other processes are to hear of.
    notices: Vec<Notice>,
}

#[derive(Clone, Copy)]
enum Recipient {
    /// The sender of a letter of this batch.
    Sender(usize),
    /// Somebody who waits.
    Waiter(usize),
}

struct Waiter {
    reservation: Reservation<LeasedCommand>,
    room: usize,
}

/// What the sender of a letter would take.
pub(super) struct Offering {
    pub(super) letter: usize,
    pub(super) offer: Arc<Offer>,
}

impl Grants {
    /// Gives the new commands to those who offered first, then to those who wait.
    pub(super) fn assign(
        core: &Core,
        changes: &mut Changes,
        offers: &[Offering],
        (execution_id, now): (ExecutionId, Timestamp),
    ) -> Self {
        let mut grants = Self {
            to: BTreeMap::new(),
            waiters: Vec::new(),
            left: 0,
            notices: Vec::new(),
        };
        let token = entropy::token(&*core.chance);
        for command in changes.issued().filter(|command| !command.held) {
            let Some(recipient) = grants.recipient(core, command, offers) else {
                grants.left += 1;
                // One that is put off is told of when its time has come.
                if core.messaging.is_some() && command.not_before.is_none() {
                    grants.notices.push(notice(execution_id, command));
                }
                continue;
            };
            let taker = grants.taker(recipient, offers);
            let lease_until = now.saturating_add(taker.map_or(core.settings.lease, |t| t.lease));
            let Some(worker) = taker.map(|taker| taker.worker.clone()) else {
                continue;
            };
            command.born_claimed = Some(Claim {
                worker,
                token: noetl_store::LeaseToken::from_bytes(*token.as_bytes()),
                lease_until,
                now,
            });
            let granted = Granted {
                attempt: 1,
                token,
                claimed_at: now,
                lease_until,
            };
            grants.to.insert(command.command_id, (recipient, granted));
        }
        grants
    }

    fn recipient(
        &mut self,
        core: &Core,
        command: &NewCommand,
        offers: &[Offering],
    ) -> Option<Recipient> {
        let kind = &*command.tool_kind;
        let sender = offers.iter().find(|offering| {
            let offer = &offering.offer;
            offer.pool == command.pool && offer.taker.can(kind) && offer.take()
        });
        if let Some(offering) = sender {
            return Some(Recipient::Sender(offering.letter));
        }
        let open = self
            .waiters
            .iter()
            .position(|waiter| waiter.room > 0 && waiter.reservation.taker().can(kind));
        let index = if let Some(index) = open {
            index
        } else {
            let reservation = core.desk.reserve(&command.pool, kind)?;
            let room = reservation.taker().max;
            self.waiters.push(Waiter { reservation, room });
            self.waiters.len() - 1
        };
        self.waiters[index].room = self.waiters[index].room.saturating_sub(1);
        Some(Recipient::Waiter(index))
    }

    fn taker<'t>(&'t self, recipient: Recipient, offers: &'t [Offering]) -> Option<&'t Taker> {
        match recipient {
            Recipient::Sender(letter) => offers
                .iter()
                .find(|offering| offering.letter == letter)
                .map(|offering| &offering.offer.taker),
            Recipient::Waiter(index) => {
                let waiter = self.waiters.get(index)?;
                Some(waiter.reservation.taker())
            }
        }
    }

    /// Nothing was written: everybody keeps the place that they had.
    pub(super) fn take_back(self, core: &Core, offers: &[Offering]) {
        for (recipient, _) in self.to.values() {
            if let Recipient::Sender(letter) = recipient
                && let Some(offering) = offers.iter().find(|offering| offering.letter == *letter)
            {
                offering.offer.put_back();
            }
        }
        for waiter in self.waiters.into_iter().rev() {
            core.desk.put_back(waiter.reservation);
        }
    }

    /// Hands the commands over; gives those that go to the senders of letters.
    pub(super) fn hand_out(
        self,
        core: &Arc<Core>,
        events: &[Event],
        catalog_id: CatalogId,
        execution_id: ExecutionId,
    ) -> BTreeMap<usize, Vec<LeasedCommand>> {
        let mut to_senders: BTreeMap<usize, Vec<LeasedCommand>> = BTreeMap::new();
        let mut to_waiters: Vec<Vec<LeasedCommand>> = Vec::new();
        to_waiters.resize_with(self.waiters.len(), Vec::new);
        for event in events {
            let Some((recipient, granted)) = self.to.get(&CommandId::from(event.event_id)) else {
                continue;
            };
            let Some(command) = compose(execution_id, catalog_id, event, granted) else {
                continue;
            };
            core.metrics.granted(Millis::ZERO);
            match *recipient {
                Recipient::Sender(letter) => to_senders.entry(letter).or_default().push(command),
                Recipient::Waiter(index) => to_waiters[index].push(command),
            }
        }
        if let Some(messaging) = &core.messaging {
            messaging.tell(self.notices);
        }
        for (waiter, commands) in self.waiters.into_iter().zip(to_waiters) {
            if let Err(unwanted) = waiter.reservation.serve(commands) {
                core.give_back(unwanted);
            }
        }
        to_senders
    }
}

impl Core {
    /// Puts commands back into the queue that did not reach their worker.
    pub(crate) fn give_back(self: &Arc<Self>, commands: Vec<LeasedCommand>) {
        if commands.is_empty() {
            return;
        }
        let core = Arc::clone(self);
        self.tasks.spawn(async move {
            let releases = commands.iter().map(|command| Release {
                fence: Fence {
                    command_id: command.command_id,
                    attempt: command.attempt,
                    holder: Holder::Token(noetl_store::LeaseToken::from_bytes(
                        *command.lease_token.as_bytes(),
                    )),
                },
                not_before: None,
            });
            // Should this fail, their leases run out.
            if core.store.release(releases.collect()).await.is_ok() {
                core.desk.look_again();
                core.tell_neighbours_of_work();
            }
        });
    }
}

/// A new command, as workers of other processes are told of it.
fn notice(execution_id: ExecutionId, command: &NewCommand) -> Notice {
    Notice {
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

/// When an attempt is over at the latest.
fn deadline_of(claimed_at: Timestamp, length: Millis) -> Timestamp {
    claimed_at.saturating_add(length.saturating_add(DEADLINE_SLACK))
}

/// A command as its worker gets it.
pub(crate) fn compose(
    execution_id: ExecutionId,
    catalog_id: CatalogId,
    event: &Event,
    granted: &Granted,
) -> Option<LeasedCommand> {
    let EventKind::CommandIssued(issued) = &event.kind else {
        return None;
    };
    let context = match &issued.context {
        IssuedContext::Inline(carried) => carried.to_json(),
        IssuedContext::External(reference) => {
            JsonMap::from([("context_ref".into(), reference.as_json().clone())])
        }
    };
    Some(LeasedCommand {
        execution_id,
        event_id: event.event_id,
        command_id: CommandId::from(event.event_id),
        attempt: granted.attempt,
        lease_token: granted.token,
        claimed_at: granted.claimed_at,
        lease_until: granted.lease_until,
        deadline_at: Some(deadline_of(granted.claimed_at, issued.deadline)),
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
            attempts: granted.attempt,
            max_attempts: issued.max_attempts,
            trace: issued.trace.clone(),
        },
    })
}

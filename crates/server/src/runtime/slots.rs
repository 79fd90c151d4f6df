//! Slots: who is given one, and how its run is told.
//!
//! The store knows who holds a slot and who waits for it; the log of a run tells which ones it uses. A
//! slot is confirmed once the log tells, or once the run has been told of it and has said what else it
//! needs. Until then it is told again, so that a server which dies in between loses nothing.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use noetl_engine::event::Steering;
use noetl_engine::{Input, SlotGrant, SlotHolder, SlotWant, Verdict};
use noetl_playbook::model::ConcurrencyOverlap;
use noetl_store::{
    ErrandOutcome, MatchKey, Slot, SlotChange, SlotChoice, SlotId, SlotState, SlotWish,
};
use noetl_types::limits::{PageLimit, Priority};
use noetl_types::{ErrorCode, ExecutionId, Millis, Text, Timestamp};

use super::Core;
use super::driver::Letter;
use super::errands::is_final;
use super::error::RuntimeError;

/// How many runs are told of slots in a row. What is left is found by the next look at what nobody
/// confirmed.
const MOST_TOLD: usize = 1_000;

/// How long a slot may be granted before its run is told again.
const UNTOLD: Millis = Millis::from_secs(5);

/// A key of slots as the store finds it. A mark before it keeps it what it is, whatever it says.
pub(crate) fn slot_key(key: &Text) -> MatchKey {
    MatchKey::of(&format!("={key}").into())
}

/// The key that [`slot_key`] was made of.
fn written_key(key: &MatchKey) -> Text {
    key.as_str().strip_prefix('=').unwrap_or_default().into()
}

/// A holder as the store knows it.
pub(super) fn holder(holder: &SlotHolder) -> noetl_store::SlotHolder {
    match holder {
        SlotHolder::Run => noetl_store::SlotHolder::Execution,
        SlotHolder::Step { step, run } => noetl_store::SlotHolder::Step {
            step: step.clone(),
            run: *run,
        },
    }
}

/// A wish as the store knows it.
pub(super) fn wish(want: &SlotWant) -> SlotWish {
    SlotWish {
        key: slot_key(&want.slot.key),
        holder: holder(&want.holder),
        limit: want.slot.limit,
        priority: Priority::clamped(want.priority.into()),
        arrived_at: want.since,
    }
}

/// What a run does with a slot that it is told of.
enum Told {
    /// Its log tells that it uses it.
    Used,
    /// It keeps it, and its log tells nothing yet: it wants others first.
    Kept(Vec<SlotWant>),
    /// It has no use for it.
    Useless,
}

impl Core {
    /// Gives the slots of a key to whoever is next, and sees to it that a run which does not wait
    /// for one is not left waiting.
    pub(super) async fn hand_on(
        self: &Arc<Self>,
        execution_id: ExecutionId,
        key: &Text,
        seeks: Option<ConcurrencyOverlap>,
    ) -> Result<ErrandOutcome, RuntimeError> {
        let execution = self.store.execution(execution_id).await?;
        let Some(execution) = execution else {
            return Ok(ErrandOutcome::Done);
        };
        let (tenant_id, key) = (execution.facts.tenant_id, slot_key(key));
        let now = self.clock.now();
        let granted = self.store.grant_slots(&tenant_id, &key, now).await?;
        self.hand_out(granted.into()).await?;
        let Some(overlap) = seeks else {
            return Ok(ErrandOutcome::Done);
        };
        let choice = SlotChoice::Key { tenant_id, key };
        let slots = self.store.slots(choice, PageLimit::MAX).await?;
        let is_own = |slot: &&Slot| is_of_run(slot, execution_id);
        match slots.iter().find(is_own) {
            Some(own) if own.state == SlotState::Waiting => {
                self.make_way(execution_id, overlap, &slots).await?;
            }
            // It asks for what it has, so it does not know what else to ask for.
            Some(own) => self.hand_out(VecDeque::from([own.clone()])).await?,
            None => {}
        }
        Ok(ErrandOutcome::Done)
    }

    /// A run that found no slot ends, or ends those that have them.
    async fn make_way(
        self: &Arc<Self>,
        execution_id: ExecutionId,
        overlap: ConcurrencyOverlap,
        slots: &[Slot],
    ) -> Result<(), RuntimeError> {
        let holders = slots.iter().filter(|slot| slot.state != SlotState::Waiting);
        let (ended, reason): (Vec<ExecutionId>, String) = match overlap {
            ConcurrencyOverlap::Queue => return Ok(()),
            ConcurrencyOverlap::CancelPrevious => (
                holders.map(|slot| slot.id.execution_id).collect(),
                format!("execution {execution_id} takes its place"),
            ),
            ConcurrencyOverlap::Skip => (
                vec![execution_id],
                "skipped: another execution has its concurrency key".to_owned(),
            ),
        };
        for execution_id in ended {
            let steering = Steering {
                actor: None,
                reason: Some(reason.as_str().into()),
            };
            let (letter, answer) = Letter::new(Input::Cancel(steering));
            match self.ask(execution_id, letter, answer).await {
                Ok(_) => {}
                Err(error) if error.code().is_some_and(is_final) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Tells runs of their slots, and gives on what they have no use for, until everybody has what
    /// can be had.
    async fn hand_out(self: &Arc<Self>, mut slots: VecDeque<Slot>) -> Result<(), RuntimeError> {
        let mut kept = Vec::new();
        for _ in 0..MOST_TOLD {
            let Some(Slot { id, .. }) = slots.pop_front() else {
                break;
            };
            let mut keys = BTreeSet::new();
            let wants = match self.deliver(&id).await? {
                Told::Used => continue,
                Told::Kept(wants) => {
                    kept.push(id.clone());
                    wants
                }
                Told::Useless => {
                    self.change_slot(&id, free(&id)).await?;
                    keys.insert(id.key.clone());
                    // What it wanted meanwhile was no news to the store, which had it for a holder.
                    self.wants_of(id.execution_id).await?
                }
            };
            for want in &wants {
                self.change_slot(&id, SlotChange::Want(wish(want))).await?;
                let key = slot_key(&want.slot.key);
                if want.holder == SlotHolder::Run {
                    slots.extend(self.own_slot(&id, &key).await?);
                }
                keys.insert(key);
            }
            for key in keys {
                let now = self.clock.now();
                slots.extend(self.store.grant_slots(&id.tenant_id, &key, now).await?);
            }
        }
        for id in kept {
            let SlotId { key, holder, .. } = id.clone();
            let confirm = SlotChange::Confirm { key, holder };
            self.change_slot(&id, confirm).await?;
        }
        Ok(())
    }

    async fn change_slot(&self, of: &SlotId, change: SlotChange) -> Result<(), RuntimeError> {
        let changed = self
            .store
            .change_slots(&of.tenant_id, of.execution_id, vec![change]);
        Ok(changed.await?)
    }

    /// The slot of the whole run, if it has it.
    async fn own_slot(&self, of: &SlotId, key: &MatchKey) -> Result<Option<Slot>, RuntimeError> {
        let choice = SlotChoice::Key {
            tenant_id: of.tenant_id.clone(),
            key: key.clone(),
        };
        let slots = self.store.slots(choice, PageLimit::MAX).await?;
        let mut held = slots
            .into_iter()
            .filter(|slot| slot.state != SlotState::Waiting);
        Ok(held.find(|slot| is_of_run(slot, of.execution_id)))
    }

    /// Tells a run that it has a slot.
    async fn deliver(self: &Arc<Self>, id: &SlotId) -> Result<Told, RuntimeError> {
        let holder = match &id.holder {
            noetl_store::SlotHolder::Execution => SlotHolder::Run,
            noetl_store::SlotHolder::Step { step, run } => SlotHolder::Step {
                step: step.clone(),
                run: *run,
            },
        };
        let is_of_run = holder == SlotHolder::Run;
        let key = written_key(&id.key);
        let (letter, answer) = Letter::new(Input::SlotGranted(SlotGrant { holder, key }));
        match self.ask(id.execution_id, letter, answer).await {
            Ok(reply) => Ok(match reply.verdict {
                Some(Verdict::Accepted) if reply.wants.is_empty() => Told::Used,
                Some(Verdict::Accepted) => Told::Kept(reply.wants),
                // Told twice, it has the slot all the same.
                Some(Verdict::Duplicate) => Told::Kept(Vec::new()),
                Some(Verdict::Kept | Verdict::Ignored(_)) | None => Told::Useless,
            }),
            Err(error) => match error.code() {
                // A run that is paused keeps its own slot, whether it has begun or not. It asks for
                // it when it goes on, and is told then.
                Some(ErrorCode::Paused) if is_of_run => Ok(Told::Kept(Vec::new())),
                Some(code) if is_final(code) || code == ErrorCode::Paused => Ok(Told::Useless),
                Some(_) | None => Err(error),
            },
        }
    }

    /// The slots that a run waits for, as far as it goes on.
    async fn wants_of(
        self: &Arc<Self>,
        execution_id: ExecutionId,
    ) -> Result<Vec<SlotWant>, RuntimeError> {
        let (letter, answer) = Letter::new(Input::SlotsAsked);
        match self.ask(execution_id, letter, answer).await {
            Ok(reply) => Ok(reply.wants),
            Err(error) => match error.code() {
                Some(code) if is_final(code) || code == ErrorCode::Paused => Ok(Vec::new()),
                Some(_) | None => Err(error),
            },
        }
    }

    /// Slots that somebody granted and never told their run of.
    pub(super) async fn deliver_again(
        self: &Arc<Self>,
        now: Timestamp,
    ) -> Result<(), RuntimeError> {
        let held_by = now.saturating_sub(UNTOLD);
        let choice = SlotChoice::Unconfirmed { held_by };
        let slots = self.store.slots(choice, PageLimit::MAX).await?;
        self.hand_out(slots.into()).await
    }
}

/// Whether a slot is wanted or held by an execution as a whole.
fn is_of_run(slot: &Slot, execution_id: ExecutionId) -> bool {
    let SlotId {
        execution_id: of,
        holder,
        ..
    } = &slot.id;
    *of == execution_id && *holder == noetl_store::SlotHolder::Execution
}

fn free(id: &SlotId) -> SlotChange {
    SlotChange::Free {
        key: id.key.clone(),
        holder: id.holder.clone(),
    }
}

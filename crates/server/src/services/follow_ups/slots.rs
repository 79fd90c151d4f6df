//! Concurrency slots: grants slots to executions and delivers the grants.
//!
//! The store records which executions hold a slot and which wait for it. The log of an execution
//! records which slots it uses. A slot is confirmed once the log records it, or once the execution
//! has received the grant and answered which other slots it needs. Until then the grant is
//! delivered again, so that a server that dies in between loses nothing.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use noetl_engine::event::ControlInfo;
use noetl_engine::{EngineInput, InputVerdict, SlotGrant, SlotHolder, SlotRequest};
use noetl_playbook::model::ConcurrencyOverlap;
use noetl_store::{
    FollowUpOutcome, MatchKey, NewSlot, Slot, SlotChange, SlotId, SlotSelector, SlotState,
};
use noetl_types::limits::{PageLimit, Priority};
use noetl_types::{ErrorCode, ExecutionId, Millis, Text, Timestamp};

use crate::driver::{Driver, Message};
use crate::error::Result;
use crate::services::Infrastructure;
use crate::services::follow_ups::is_final_error;

/// Maximum grants delivered in one pass. The next redelivery of unconfirmed slots finds the rest.
const MAX_DELIVERED_GRANTS: usize = 1_000;

/// Time after which an unconfirmed grant is delivered again.
const REDELIVERY_DELAY: Millis = Millis::from_secs(5);

/// Converts a slot key to the form that the store matches. The `=` prefix keeps the key literal.
pub(crate) fn slot_key(key: &Text) -> MatchKey {
    MatchKey::from_text(&format!("={key}").into())
}

/// Inverse of [`slot_key`].
fn from_slot_key(key: &MatchKey) -> Text {
    key.as_str().strip_prefix('=').unwrap_or_default().into()
}

pub(crate) fn to_store_holder(holder: &SlotHolder) -> noetl_store::SlotHolder {
    match holder {
        SlotHolder::Execution => noetl_store::SlotHolder::Execution,
        SlotHolder::Step { step, run } => {
            noetl_store::SlotHolder::Step { step: step.clone(), run: *run }
        }
    }
}

pub(crate) fn to_slot_request(request: &SlotRequest) -> NewSlot {
    NewSlot {
        key: slot_key(&request.slot.key),
        holder: to_store_holder(&request.holder),
        limit: request.slot.limit,
        priority: Priority::clamped(request.priority.into()),
        arrived_at: request.since,
    }
}

/// Response of an execution to a granted slot.
enum GrantResponse {
    /// Its log records that it uses the slot.
    Used,
    /// It keeps the slot, which its log does not record yet: it needs these other slots first.
    Kept(Vec<SlotRequest>),
    /// It does not need the slot.
    Unneeded,
}

/// Grants concurrency slots.
pub(crate) struct SlotGrants {
    pub(crate) infra: Arc<Infrastructure>,
    pub(crate) driver: Arc<Driver>,
}

impl SlotGrants {
    /// Grants the slots of a key to the next waiters, and applies the overlap policy of an
    /// execution that must not wait for one.
    pub(crate) async fn grant_next_slots(
        &self,
        execution_id: ExecutionId,
        key: &Text,
        overlap: Option<ConcurrencyOverlap>,
    ) -> Result<FollowUpOutcome> {
        let execution = self.infra.store.find_execution(execution_id).await?;
        let Some(execution) = execution else {
            return Ok(FollowUpOutcome::Done);
        };
        let (tenant_id, key) = (execution.facts.tenant_id, slot_key(key));
        let now = self.infra.now();
        let granted = self.infra.store.grant_slots(&tenant_id, &key, now).await?;
        self.deliver_granted_slots(granted.into()).await?;
        let Some(overlap) = overlap else {
            return Ok(FollowUpOutcome::Done);
        };
        let selector = SlotSelector::Key { tenant_id, key };
        let slots = self.infra.store.list_slots(selector, PageLimit::MAX).await?;
        let is_own_slot = |slot: &&Slot| is_execution_slot(slot, execution_id);
        match slots.iter().find(is_own_slot) {
            Some(slot) if slot.state == SlotState::Waiting => {
                self.apply_overlap_policy(execution_id, overlap, &slots).await?;
            }
            // The execution requests a slot that it already has, so it does not know yet which
            // slots to request next. Delivers the grant again.
            Some(slot) => {
                self.deliver_granted_slots(VecDeque::from([slot.clone()])).await?;
            }
            None => {}
        }
        Ok(FollowUpOutcome::Done)
    }

    /// Applies the overlap policy to an execution that got no slot: cancels it, or cancels the
    /// holders.
    async fn apply_overlap_policy(
        &self,
        execution_id: ExecutionId,
        overlap: ConcurrencyOverlap,
        slots: &[Slot],
    ) -> Result<()> {
        let holders = slots.iter().filter(|slot| slot.state != SlotState::Waiting);
        let (cancelled, reason): (Vec<ExecutionId>, String) = match overlap {
            ConcurrencyOverlap::Queue => return Ok(()),
            ConcurrencyOverlap::CancelPrevious => (
                holders.map(|slot| slot.id.execution_id).collect(),
                format!("replaced by execution {execution_id}"),
            ),
            ConcurrencyOverlap::Skip => (
                vec![execution_id],
                "skipped: another execution holds its concurrency key".to_owned(),
            ),
        };
        for execution_id in cancelled {
            let control = ControlInfo { actor: None, reason: Some(reason.as_str().into()) };
            let (message, answer) = Message::new(EngineInput::Cancel(control.into()));
            match self.driver.send_and_wait(execution_id, message, answer).await {
                Ok(_) => {}
                Err(error) if error.code().is_some_and(is_final_error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Delivers granted slots, and passes on those that are not needed, until no further slot can
    /// be granted.
    async fn deliver_granted_slots(&self, mut slots: VecDeque<Slot>) -> Result<()> {
        let mut unconfirmed = Vec::new();
        for _ in 0..MAX_DELIVERED_GRANTS {
            let Some(Slot { id, .. }) = slots.pop_front() else {
                break;
            };
            let mut keys = BTreeSet::new();
            let requests = match self.deliver_grant(&id).await? {
                GrantResponse::Used => continue,
                GrantResponse::Kept(requests) => {
                    unconfirmed.push(id.clone());
                    requests
                }
                GrantResponse::Unneeded => {
                    self.change_slot(&id, release_change(&id)).await?;
                    keys.insert(id.key.clone());
                    // The store ignored what it requested meanwhile, since it counted as the
                    // holder.
                    self.list_slot_requests(id.execution_id).await?
                }
            };
            for request in &requests {
                self.change_slot(&id, SlotChange::Request(to_slot_request(request))).await?;
                let key = slot_key(&request.slot.key);
                if request.holder == SlotHolder::Execution {
                    slots.extend(self.find_execution_slot(&id, &key).await?);
                }
                keys.insert(key);
            }
            for key in keys {
                let now = self.infra.now();
                slots.extend(self.infra.store.grant_slots(&id.tenant_id, &key, now).await?);
            }
        }
        for id in unconfirmed {
            let SlotId { key, holder, .. } = id.clone();
            let confirm = SlotChange::Confirm { key, holder };
            self.change_slot(&id, confirm).await?;
        }
        Ok(())
    }

    async fn change_slot(&self, slot_id: &SlotId, change: SlotChange) -> Result<()> {
        let changed =
            self.infra.store.change_slots(&slot_id.tenant_id, slot_id.execution_id, vec![change]);
        Ok(changed.await?)
    }

    /// Finds the slot that the execution as a whole holds.
    async fn find_execution_slot(&self, slot_id: &SlotId, key: &MatchKey) -> Result<Option<Slot>> {
        let selector = SlotSelector::Key { tenant_id: slot_id.tenant_id.clone(), key: key.clone() };
        let slots = self.infra.store.list_slots(selector, PageLimit::MAX).await?;
        let mut held = slots.into_iter().filter(|slot| slot.state != SlotState::Waiting);
        Ok(held.find(|slot| is_execution_slot(slot, slot_id.execution_id)))
    }

    /// Delivers the grant of a slot to an execution.
    async fn deliver_grant(&self, id: &SlotId) -> Result<GrantResponse> {
        let holder = match &id.holder {
            noetl_store::SlotHolder::Execution => SlotHolder::Execution,
            noetl_store::SlotHolder::Step { step, run } => {
                SlotHolder::Step { step: step.clone(), run: *run }
            }
        };
        let is_execution_wide = holder == SlotHolder::Execution;
        let key = from_slot_key(&id.key);
        let (message, answer) = Message::new(EngineInput::SlotGranted(SlotGrant { holder, key }));
        match self.driver.send_and_wait(id.execution_id, message, answer).await {
            Ok(reply) => Ok(match reply.verdict {
                Some(InputVerdict::Accepted) if reply.slot_requests.is_empty() => {
                    GrantResponse::Used
                }
                Some(InputVerdict::Accepted) => GrantResponse::Kept(reply.slot_requests),
                // A repeated grant: the execution has the slot.
                Some(InputVerdict::Duplicate) => GrantResponse::Kept(Vec::new()),
                Some(InputVerdict::Buffered | InputVerdict::Ignored(_)) | None => {
                    GrantResponse::Unneeded
                }
            }),
            Err(error) => match error.code() {
                // A paused execution keeps its execution-wide slot, whether it has begun or not. It
                // requests the slot when it resumes, and gets the grant then.
                Some(ErrorCode::Paused) if is_execution_wide => Ok(GrantResponse::Kept(Vec::new())),
                Some(code) if is_final_error(code) || code == ErrorCode::Paused => {
                    Ok(GrantResponse::Unneeded)
                }
                Some(_) | None => Err(error),
            },
        }
    }

    /// Lists the slots that an active execution waits for.
    async fn list_slot_requests(&self, execution_id: ExecutionId) -> Result<Vec<SlotRequest>> {
        let (message, answer) = Message::new(EngineInput::RefreshSlotRequests);
        match self.driver.send_and_wait(execution_id, message, answer).await {
            Ok(reply) => Ok(reply.slot_requests),
            Err(error) => match error.code() {
                Some(code) if is_final_error(code) || code == ErrorCode::Paused => Ok(Vec::new()),
                Some(_) | None => Err(error),
            },
        }
    }

    /// Delivers again the slots that were granted and not confirmed.
    pub(crate) async fn redeliver_unconfirmed_slots(&self, now: Timestamp) -> Result<()> {
        let held_by = now.saturating_sub(REDELIVERY_DELAY);
        let selector = SlotSelector::Unconfirmed { held_by };
        let slots = self.infra.store.list_slots(selector, PageLimit::MAX).await?;
        self.deliver_granted_slots(slots.into()).await
    }
}

/// True if an execution as a whole waits for or holds the slot.
fn is_execution_slot(slot: &Slot, execution_id: ExecutionId) -> bool {
    slot.id.execution_id == execution_id && slot.id.holder == noetl_store::SlotHolder::Execution
}

fn release_change(id: &SlotId) -> SlotChange {
    SlotChange::Release { key: id.key.clone(), holder: id.holder.clone() }
}

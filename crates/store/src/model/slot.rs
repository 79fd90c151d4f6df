//! Concurrency slots, which limit parallelism per key across executions.

use noetl_types::limits::Priority;
use noetl_types::{ExecutionId, StepName, TenantId, Timestamp};

use super::match_key::MatchKey;

/// Holder of a slot within an execution.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum SlotHolder {
    Execution,
    /// One pass through a step.
    Step {
        step: StepName,
        /// Step pass, from 1.
        run: u32,
    },
}

/// A request for a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSlot {
    /// Shared key.
    pub key: MatchKey,
    pub holder: SlotHolder,
    /// Maximum number of holders of the key, including this one, for this request to be granted. At
    /// least one.
    pub limit: u32,
    /// Priority among waiting requests.
    pub priority: Priority,
    /// Arrival time, which orders requests of equal priority.
    pub arrived_at: Timestamp,
}

/// A change that an append makes to the slots of its execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlotChange {
    /// Requests a slot. A slot that is already waiting or held is unchanged.
    Request(NewSlot),
    /// Confirms a granted slot: the log records that it is in use.
    Confirm { key: MatchKey, holder: SlotHolder },
    /// Releases a slot, or withdraws the request.
    Release { key: MatchKey, holder: SlotHolder },
}

impl SlotChange {
    /// Returns the key and the holder of the changed slot.
    pub fn key_and_holder(&self) -> (&MatchKey, &SlotHolder) {
        match self {
            Self::Request(request) => (&request.key, &request.holder),
            Self::Confirm { key, holder } | Self::Release { key, holder } => (key, holder),
        }
    }
}

/// Identity of a slot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlotId {
    // The field order is the comparison order.
    pub tenant_id: TenantId,
    /// Shared key.
    pub key: MatchKey,
    /// The execution that requests or holds it.
    pub execution_id: ExecutionId,
    pub holder: SlotHolder,
}

/// State of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotState {
    /// Not granted yet.
    Waiting,
    Held {
        since: Timestamp,
        /// True if the log of the holder records the grant.
        is_confirmed: bool,
    },
}

/// A slot that is requested or held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    pub id: SlotId,
    /// Maximum number of holders of the key, including this one, for this request to be granted.
    pub limit: u32,
    /// Priority among waiting requests.
    pub priority: Priority,
    /// Arrival time.
    pub arrived_at: Timestamp,
    pub state: SlotState,
}

/// Selection of slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlotSelector {
    /// All slots of a key: holders, longest held first, then waiting requests in grant order.
    Key { tenant_id: TenantId, key: MatchKey },
    /// Slots that were granted by a time and never confirmed, longest held first. The process that
    /// granted them may have crashed before it notified the holder.
    Unconfirmed { held_by: Timestamp },
}

/// Maximum number of slots granted per call.
pub(crate) const MAX_SLOT_GRANTS: u32 = 1_000;

impl NewSlot {
    pub(crate) fn into_slot(self, tenant_id: &TenantId, execution_id: ExecutionId) -> Slot {
        Slot {
            id: SlotId {
                tenant_id: tenant_id.clone(),
                key: self.key,
                execution_id,
                holder: self.holder,
            },
            limit: self.limit.max(1),
            priority: self.priority,
            arrived_at: self.arrived_at,
            state: SlotState::Waiting,
        }
    }
}

impl Slot {
    fn into_held(mut self, since: Timestamp) -> Self {
        self.state = SlotState::Held { since, is_confirmed: false };
        self
    }
}

/// Returns the waiting slots that are granted. `waiting` is in grant order, and `held` is the
/// current number of holders.
///
/// The order is strict: a request whose limit is lower than others under the key, and which
/// therefore has to wait, also blocks the requests after it. Otherwise it could starve.
pub(crate) fn grant_waiting_slots(waiting: Vec<Slot>, held: u64, now: Timestamp) -> Vec<Slot> {
    (held..)
        .zip(waiting)
        .take_while(|(held, slot)| *held < u64::from(slot.limit))
        .map(|(_, slot)| slot.into_held(now))
        .collect()
}

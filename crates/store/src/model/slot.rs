//! Slots: how many may run at once under a key, across executions.

use std::cmp::Reverse;

use noetl_types::limits::Priority;
use noetl_types::{ExecutionId, StepName, TenantId, Timestamp};

use super::key::MatchKey;

/// What holds a slot, inside of an execution.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum SlotHolder {
    /// The execution as a whole.
    Execution,
    /// A run of one of its steps.
    Step {
        /// The step.
        step: StepName,
        /// Its run, from 1.
        run: u32,
    },
}

/// A wish for a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotWish {
    /// The key that is shared.
    pub key: MatchKey,
    /// Who wants it.
    pub holder: SlotHolder,
    /// How many may hold the key when this one does; at least one.
    pub limit: u32,
    /// Its rank among those that wait.
    pub priority: Priority,
    /// Since when it waits: the order among equals.
    pub arrived_at: Timestamp,
}

/// What an append does to the slots of its execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlotChange {
    /// A slot is wanted. Whoever waits for it or holds it already goes on as before.
    Want(SlotWish),
    /// The log says that a slot which was granted is in use.
    Confirm {
        /// The key.
        key: MatchKey,
        /// Who holds it.
        holder: SlotHolder,
    },
    /// A slot is given back, or no longer wanted.
    Free {
        /// The key.
        key: MatchKey,
        /// Who had it.
        holder: SlotHolder,
    },
}

impl SlotChange {
    /// The key and the holder that the change is about.
    pub fn subject(&self) -> (&MatchKey, &SlotHolder) {
        match self {
            Self::Want(wish) => (&wish.key, &wish.holder),
            Self::Confirm { key, holder } | Self::Free { key, holder } => (key, holder),
        }
    }
}

/// Which slot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlotId {
    // The fields stand in the order in which they are compared.
    /// Whose.
    pub tenant_id: TenantId,
    /// The key that is shared.
    pub key: MatchKey,
    /// The execution that wants or has it.
    pub execution_id: ExecutionId,
    /// Who of it.
    pub holder: SlotHolder,
}

/// Where a slot stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotState {
    /// Its turn has not come.
    Waiting,
    /// It is held.
    Held {
        /// Since when.
        since: Timestamp,
        /// Whether the log of the holder says so too.
        is_confirmed: bool,
    },
}

/// A slot that is wanted or held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// Which one.
    pub id: SlotId,
    /// How many may hold the key when this one does.
    pub limit: u32,
    /// Its rank among those that wait.
    pub priority: Priority,
    /// Since when it waits.
    pub arrived_at: Timestamp,
    /// Where it stands.
    pub state: SlotState,
}

/// Which slots are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlotChoice {
    /// All of a key: those that hold it, longest first, then those that wait, next first.
    Key {
        /// Whose.
        tenant_id: TenantId,
        /// The key.
        key: MatchKey,
    },
    /// Those that were granted by a time and never confirmed, longest first: whoever granted them
    /// may have died before it told the holder.
    Unconfirmed {
        /// The time.
        held_by: Timestamp,
    },
}

/// The most slots that one call grants.
pub(crate) const MAX_GRANTS: u32 = 1_000;

impl SlotWish {
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
    /// The turn of a slot that waits.
    pub(crate) fn turn(&self) -> (Reverse<Priority>, Timestamp, &SlotId) {
        (Reverse(self.priority), self.arrived_at, &self.id)
    }

    /// Since when it is held.
    pub(crate) fn held_since(&self) -> Option<Timestamp> {
        match self.state {
            SlotState::Held { since, .. } => Some(since),
            SlotState::Waiting => None,
        }
    }

    fn hold(mut self, since: Timestamp) -> Self {
        self.state = SlotState::Held {
            since,
            is_confirmed: false,
        };
        self
    }
}

/// Those whose turn has come, of slots that wait in the order of their turns, while so many are held.
///
/// Nobody overtakes: one that has to wait, because its own limit is lower than that of others under
/// the key, keeps those behind it waiting too, or it might wait for ever.
pub(crate) fn grant(waiting: Vec<Slot>, held: u64, now: Timestamp) -> Vec<Slot> {
    (held..)
        .zip(waiting)
        .take_while(|(held, slot)| *held < u64::from(slot.limit))
        .map(|(_, slot)| slot.hold(now))
        .collect()
}

//! Slots: how many runs of steps, or whole runs, with the same key may go on at once.
//!
//! Owns the words in which a run asks for a slot and gives it back. Who gets one is decided elsewhere,
//! over all runs of a tenant; the log of a run tells which slots it has.

use noetl_playbook::model::ConcurrencyOverlap;
use noetl_types::{StepName, Text, Timestamp};
use serde::{Deserialize, Serialize};

/// What is shared, and by how many at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// Whoever has the same key shares it.
    pub key: Text,
    /// How many may have it at once.
    pub limit: u32,
}

/// The slot of a whole run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSlot {
    /// What is shared.
    pub slot: Slot,
    /// What happens where there is no room.
    pub overlap: ConcurrencyOverlap,
}

/// Who has a slot, or wants one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum SlotHolder {
    /// The whole run.
    Run,
    /// A run of a step.
    Step {
        /// The step.
        step: StepName,
        /// Its run.
        run: u32,
    },
}

/// A wish for a slot. The same wish may be told again and again; it is still one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotWant {
    /// For whom.
    pub holder: SlotHolder,
    /// Which one.
    pub slot: Slot,
    /// What happens where there is no room; a step always waits.
    pub overlap: ConcurrencyOverlap,
    /// Who ranks higher is served first.
    pub priority: i16,
    /// Since when it is wanted: among equals, who waits longest is served first.
    pub since: Timestamp,
}

impl SlotWant {
    /// The slot in the hands of whoever wants it.
    pub fn granted(&self) -> SlotGrant {
        SlotGrant {
            holder: self.holder.clone(),
            key: self.slot.key.clone(),
        }
    }
}

/// A slot in somebody's hands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotGrant {
    /// Whose.
    pub holder: SlotHolder,
    /// Its key.
    pub key: Text,
}

/// What a decision means for slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlotChange {
    /// One is wanted.
    Want(SlotWant),
    /// One is free again, or no longer wanted.
    Free(SlotGrant),
    /// The run has ended: whatever it has or wants is free again.
    Clear,
}

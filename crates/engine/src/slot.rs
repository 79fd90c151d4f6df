//! Concurrency slots: a limit on how many step passes, or whole executions, with the same key may
//! be active at once.
//!
//! Owns the types with which an execution requests and releases slots. Granting is decided
//! elsewhere, over all executions of a tenant. The log of an execution records the slots that it
//! holds.

use noetl_playbook::model::ConcurrencyOverlap;
use noetl_types::{StepName, Text, Timestamp};
use serde::{Deserialize, Serialize};

/// A concurrency key and its limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// Concurrency key. Holders with the same key share the limit.
    pub key: Text,
    /// Maximum number of concurrent holders.
    pub limit: u32,
}

/// The slot of a whole execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutionSlot {
    /// The slot.
    pub slot: Slot,
    /// Behavior if no slot is free.
    pub overlap: ConcurrencyOverlap,
}

/// Holder or requester of a slot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum SlotHolder {
    /// The whole execution.
    Execution,
    /// A pass of a step.
    Step {
        /// The step.
        step: StepName,
        /// The pass, from 1.
        run: u32,
    },
}

/// A request for a slot. Repeating the same request has no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotRequest {
    /// The requester.
    pub holder: SlotHolder,
    /// The requested slot.
    pub slot: Slot,
    /// Behavior if no slot is free. A step always queues.
    pub overlap: ConcurrencyOverlap,
    /// Priority. Higher values are served first.
    pub priority: i16,
    /// Time of the first request. Among equal priorities, the oldest is served first.
    pub since: Timestamp,
}

impl SlotRequest {
    /// Returns the grant that fulfills this request.
    pub fn to_grant(&self) -> SlotGrant {
        SlotGrant { holder: self.holder.clone(), key: self.slot.key.clone() }
    }
}

/// A slot that is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotGrant {
    /// The holder.
    pub holder: SlotHolder,
    /// Concurrency key.
    pub key: Text,
}

/// A change to slots that follows from a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlotChange {
    /// Requests a slot.
    Request(SlotRequest),
    /// Releases a slot, or withdraws the request for it.
    Release(SlotGrant),
    /// Releases all slots and requests of an execution that has ended.
    ReleaseAll,
}

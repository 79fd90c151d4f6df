//! Machine ids: each is leased to one process at a time, with a mark below which its ids lie.

use noetl_types::id::HighWater;
use noetl_types::{MachineId, Text, Timestamp};

/// A process asks for a machine id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineRequest {
    /// Who asks: unique to the process, not to its host.
    pub owner: Text,
    /// The id that it must have; `None` for any.
    pub wanted: Option<MachineId>,
    /// The server's clock.
    pub now: Timestamp,
    /// Until when the process wants it, renewals aside.
    pub lease_until: Timestamp,
}

/// A machine id that a process has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineLease {
    /// The id.
    pub machine_id: MachineId,
    /// Which owner this is, counted from 1.
    pub epoch: u64,
    /// All ids that earlier owners made lie at or below.
    pub high_water: HighWater,
    /// Until when.
    pub lease_until: Timestamp,
    /// How many other processes have a machine id of this store at the time.
    pub others: usize,
}

/// A process keeps its machine id, and moves its mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineRenewal {
    /// The id.
    pub machine_id: MachineId,
    /// The epoch of the lease.
    pub epoch: u64,
    /// The mark below which all ids lie that are made until the next renewal; it never sinks while
    /// the lease goes on.
    pub high_water: HighWater,
    /// The server's clock.
    pub now: Timestamp,
    /// Until when.
    pub lease_until: Timestamp,
    /// No id is made under this lease any more: its epoch ends, and the mark is the last id made, so
    /// that the next one to have the machine id need not wait for the clock to pass a mark set ahead.
    pub gives_back: bool,
}

/// Why there is no machine id to have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MachineRefused {
    /// Another process has the wanted one.
    #[error("machine id {machine_id} is taken by `{owner}` until {lease_until}")]
    Taken {
        /// The id.
        machine_id: MachineId,
        /// Who has it.
        owner: Text,
        /// Until when.
        lease_until: Timestamp,
    },
    /// All are taken.
    #[error("all machine ids are taken")]
    NoneFree,
    /// The lease that was to be renewed is another's by now: stop making ids.
    #[error("the lease of the machine id was taken over")]
    Lost,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] crate::error::StoreError),
}

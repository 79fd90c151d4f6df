//! Replay: the fold of a log, be it ours or one that was written elsewhere, to what readers see.
//!
//! Owns how events become the entries of [`noetl_types::replay`], the snapshots of that fold, and
//! the reading of logs from text. Needs no definition and no plan, and refuses no event for what it
//! says: a field that cannot be read is as good as absent. It is apart from [`crate::State`], which
//! decisions are made on; the two agree on where an execution stands, and a test holds them to it.
//!
//! A log of any length is folded one event after the other: what is kept is the state, never the log.

mod about;
mod business;
mod command;
mod execution;
mod frame;
mod log;
mod looping;
mod meta;
mod order;
mod reference;
mod snapshot;
mod stage;
mod state;

#[cfg(test)]
mod tests;

pub use log::{LogError, LogReader};
pub use order::InOrder;
pub use reference::summary_of;
pub use snapshot::ReplaySnapshotError;
pub use state::{ReplayError, ReplayState, fold};

/// Which fold made a state. A fold that gives another state for the same log is another version: no
/// checksum of a log ever changes without it.
pub const REPLAY_FOLD_VERSION: u32 = 1;

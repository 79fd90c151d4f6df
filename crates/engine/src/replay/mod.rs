//! Replay: folds a log, native or from another system, into the state that readers see.
//!
//! Owns the conversion of events to the entries of [`noetl_types::replay`], the snapshots of that
//! fold, and the parsing of logs from text. It needs no definition and no plan, and rejects no
//! event for its content: a field that cannot be read is treated as absent. It is separate from
//! [`crate::ExecutionState`], on which decisions are made. A test ensures that the two agree on the
//! status of an execution.
//!
//! Events are folded one at a time, so memory holds only the state and never the whole log.

mod business;
mod entries;
mod folded_event;
mod log;
mod order;
mod reference;
mod snapshot;
mod state;

#[cfg(test)]
mod tests;

pub use log::{LogError, LogReader};
pub use order::OrderedFold;
pub use reference::summarize_reference;
pub use snapshot::ReplaySnapshotError;
pub use state::{ReplayError, ReplayState, fold_records};

/// Version of the fold. A fold that produces another state for the same log needs a new version, so
/// that checksums of a log never change without one.
pub const REPLAY_FOLD_VERSION: u32 = 1;

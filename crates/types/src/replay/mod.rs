//! The result of a log replay: an entry for every object that the events are about.
//!
//! Owns the shape of the entries, their canonical form and their checksums. The engine defines how
//! events become entries.

mod checksum;
mod entry;
mod projection;
mod row;

pub use checksum::{ProjectionChecksums, ReplayChecksums};
pub use entry::{
    BusinessObjectEntry, CommandEntry, EventNumber, ExecutionEntry, FrameEntry, LoopEntry,
    PayloadRef, ReferenceSummary, StageEntry,
};
pub use projection::{ProjectionKind, ReplayedState};
pub use row::ReplayRow;

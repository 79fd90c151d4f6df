//! What the replay of a log tells: an entry for everything that its events are about.
//!
//! Owns the shape of the entries, their one canonical form and their checksums. How events become
//! entries is the engine's business.

mod checksum;
mod entry;
mod field;
mod gist;
mod projection;

pub use checksum::{ProjectionChecksums, Sums};
pub use entry::{
    BusinessObjectEntry, CommandEntry, ExecutionEntry, FrameEntry, LoopEntry, PayloadRef,
    ReferenceSummary, StageEntry,
};
pub use field::EventNumber;
pub use gist::Gist;
pub use projection::{Projection, Replayed};

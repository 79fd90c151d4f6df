//! The event as it is written, stored and sent.
//!
//! Owns the typed row, its canonical envelope, its JSON form, the hash chain over a log, and the
//! reading of older schema versions. Decides nothing about a run, and reads nothing from a store.

mod chain;
mod elapsed;
mod event;
mod fields;
mod order;
mod projected;
mod read;
mod upcast;

#[cfg(test)]
mod tests;

pub use chain::{Chain, ChainBroken, ChainCheck, verify_chain};
pub use elapsed::Elapsed;
pub use event::{CopiedFields, EventRecord, NewEvent, SchemaVersion, StoredEvent};
pub use order::{FeedPosition, Seq, SeqError, Version};
pub use projected::{Arrival, Projected, Rejection, read_projected};
pub use read::{FieldProblem, RecordError};
pub use upcast::{UpcastError, is_current, upcast};

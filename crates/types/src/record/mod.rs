//! The event as it is written, stored and sent.
//!
//! Owns the typed event, its canonical envelope, its JSON form, the hash chain over a log, and the
//! upcasting of older schema versions. Contains no execution logic and reads no store.

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

pub use chain::{ChainError, ChainHash, ChainVerifier, verify_chain};
pub use elapsed::ElapsedTime;
pub use event::{EventRecord, NewEvent, ProjectedFields, SchemaVersion, StoredEvent};
pub use order::{ExecutionVersion, FeedPosition, Seq, SeqError};
pub use projected::{EventRejection, ProjectedEvent, ProjectionContext, parse_projected_event};
pub use read::{FieldError, RecordError};
pub use upcast::{UpcastError, is_current_schema, upcast_record};

//! Where the log of an execution stands.

use noetl_types::{Chain, StoredEvent, Timestamp, Version};

/// The end of an execution's log: what the next append must follow.
///
/// It is the optimistic lock. A log is never edited, so its version tells its last link; who knows
/// the one knows the other, and the links of new events can be computed before the store is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The seq of the last event.
    pub version: Version,
    /// The link of the last event.
    pub chain: Chain,
    /// When the last event was taken: none that follows is earlier.
    pub ingest_time: Timestamp,
}

impl Head {
    /// Of an execution without events.
    pub const START: Self = Self {
        version: Version::EMPTY,
        chain: Chain::START,
        ingest_time: Timestamp::MIN,
    };

    /// After an event.
    pub fn after(event: &StoredEvent) -> Self {
        Self {
            version: event.record.seq.into(),
            chain: event.chain,
            ingest_time: event.record.ingest_time,
        }
    }
}

//! The end of an execution's log.

use noetl_types::{ChainHash, ExecutionVersion, StoredEvent, Timestamp};

/// The end of an execution's log, which the next append must follow.
///
/// It is the optimistic lock. A log is never edited, so a version implies the digest of its last
/// event. The chain digests of new events can therefore be computed before the store is accessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogHead {
    /// Sequence number of the last event.
    pub version: ExecutionVersion,
    /// Chain digest of the last event.
    pub chain: ChainHash,
    /// Ingest time of the last event. Later events are not earlier.
    pub ingest_time: Timestamp,
}

impl LogHead {
    /// Head of an execution without events.
    pub const START: Self = Self {
        version: ExecutionVersion::EMPTY,
        chain: ChainHash::START,
        ingest_time: Timestamp::MIN,
    };

    /// Returns the head after an event.
    pub fn after_event(event: &StoredEvent) -> Self {
        Self {
            version: event.record.seq.into(),
            chain: event.chain,
            ingest_time: event.record.ingest_time,
        }
    }
}

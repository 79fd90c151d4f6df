//! How much one append holds.

use noetl_engine::Decision;
use noetl_store::{MAX_APPEND_EVENTS, MAX_APPEND_RESULT_BYTES};
use noetl_types::{ByteSize, ErrorCode};

use crate::runtime::error::RuntimeError;

/// Events after which an append takes no further decision.
const MANY_EVENTS: usize = 4_000;
/// Bytes of results after which an append takes no further decision.
const MANY_BYTES: usize = 8 * 1024 * 1024;

/// What decisions add to an append.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Weight {
    events: usize,
    /// Bytes of results.
    bytes: usize,
}

impl Weight {
    /// The same with one more decision.
    #[must_use]
    pub(super) fn and(self, decision: &Decision) -> Self {
        let bytes = decision.payloads.iter().map(|payload| payload.bytes.len());
        Self {
            events: self.events + decision.events.len(),
            bytes: self.bytes + bytes.sum::<usize>(),
        }
    }

    /// Whether it is enough for one append.
    pub(super) fn is_much(self) -> bool {
        self.events >= MANY_EVENTS || self.bytes >= MANY_BYTES
    }

    /// Whether no append holds it.
    pub(super) fn is_too_much(self) -> bool {
        self.events > MAX_APPEND_EVENTS || self.bytes > MAX_APPEND_RESULT_BYTES
    }

    /// What whoever sends that much at once is told.
    pub(super) fn refusal() -> RuntimeError {
        let bytes = ByteSize::from_bytes(MAX_APPEND_RESULT_BYTES as u64);
        let text = format!(
            "more than {MAX_APPEND_EVENTS} events or {bytes} of results follow from this at once: \
             send it in smaller parts"
        );
        RuntimeError::refused(ErrorCode::TooLarge, text)
    }
}

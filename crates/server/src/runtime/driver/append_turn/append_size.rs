//! Size limits of one append.

use noetl_engine::Decision;
use noetl_store::{MAX_APPEND_EVENTS, MAX_APPEND_RESULT_BYTES};
use noetl_types::{ByteSize, ErrorCode};

use crate::runtime::error::RuntimeError;

/// Number of events after which an append takes no further decision.
const TARGET_APPEND_EVENTS: usize = 4_000;
/// Bytes of results after which an append takes no further decision.
const TARGET_APPEND_RESULT_BYTES: usize = 8 * 1024 * 1024;

/// Size of the decisions in an append.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct AppendSize {
    events: usize,
    /// Bytes of results.
    bytes: usize,
}

impl AppendSize {
    /// Returns the size with one more decision.
    #[must_use]
    pub(super) fn with_decision(self, decision: &Decision) -> Self {
        let bytes = decision.payloads.iter().map(|payload| payload.bytes.len());
        Self {
            events: self.events + decision.events.len(),
            bytes: self.bytes + bytes.sum::<usize>(),
        }
    }

    /// True if the append should take no further decision.
    pub(super) fn is_full(self) -> bool {
        self.events >= TARGET_APPEND_EVENTS || self.bytes >= TARGET_APPEND_RESULT_BYTES
    }

    /// True if it exceeds the maximum of one append.
    pub(super) fn exceeds_limit(self) -> bool {
        self.events > MAX_APPEND_EVENTS || self.bytes > MAX_APPEND_RESULT_BYTES
    }

    /// Error for input that exceeds the maximum of one append.
    pub(super) fn too_large_error() -> RuntimeError {
        let bytes = ByteSize::from_bytes(MAX_APPEND_RESULT_BYTES as u64);
        let text = format!(
            "the input leads to more than {MAX_APPEND_EVENTS} events or {bytes} of results; \
             send it in smaller parts"
        );
        RuntimeError::refused(ErrorCode::TooLarge, text)
    }
}

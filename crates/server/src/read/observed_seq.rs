//! Log position that an answer is based on.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use noetl_types::ExecutionVersion;

use crate::runtime::Runtime;

/// Log position of the execution that a request is about, once its row was read. Clones share the
/// value, so the middleware that writes the response sees it.
#[derive(Debug, Clone, Default)]
pub(crate) struct ObservedSeq(Arc<AtomicI64>);

impl ObservedSeq {
    /// Returns the position, if one was recorded.
    pub(crate) fn get(&self) -> Option<i64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|seq| *seq > 0)
    }

    /// Records the end of the log. The first call counts, because later reads see at least the same
    /// events.
    pub(super) fn record_end(&self, version: ExecutionVersion) {
        if self.get().is_none() {
            self.record_requested(version);
        }
    }

    /// Records the earlier position that a caller requested.
    pub(super) fn record_requested(&self, version: ExecutionVersion) {
        self.0.store(version.get(), Ordering::Relaxed);
    }
}

impl Runtime {
    /// Returns a handle that records the log position of the execution it reads, and the recorded
    /// position.
    pub(crate) fn observe_seq(&self) -> (Self, ObservedSeq) {
        let observed = ObservedSeq::default();
        (self.clone().with_observed_seq(observed.clone()), observed)
    }
}

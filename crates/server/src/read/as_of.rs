//! How far a log was that an answer was made of.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use noetl_types::Version;

use crate::runtime::Runtime;

/// The place in the log of the run that a caller asks about, once it was looked at. Whoever answers has
/// another handle of the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct SeqSeen(Arc<AtomicI64>);

impl SeqSeen {
    /// The place, if anything was seen.
    pub(crate) fn get(&self) -> Option<i64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|seq| *seq > 0)
    }

    /// Notes where a log ends. What is seen first counts: whatever is read later is as far at least.
    pub(super) fn note(&self, version: Version) {
        if self.get().is_none() {
            self.note_earlier(version);
        }
    }

    /// Notes the earlier place that a caller wants to see.
    pub(super) fn note_earlier(&self, version: Version) {
        self.0.store(version.get(), Ordering::Relaxed);
    }
}

impl Runtime {
    /// The same handle for calls about one run, and where it is told how far its log was.
    pub(crate) fn seeing(&self) -> (Self, SeqSeen) {
        let seen = SeqSeen::default();
        (self.clone().noting_seq(seen.clone()), seen)
    }
}

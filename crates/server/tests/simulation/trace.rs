//! What happened in a run, line by line: all messages and all that went wrong, with their times.

use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};

use noetl_types::{Digest, sha256};
use tokio::time::Instant;

/// The trace of a run. A clone is another handle of the same.
#[derive(Clone)]
pub(crate) struct Trace {
    began: Instant,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Trace {
    pub(crate) fn begin() -> Self {
        Self {
            began: Instant::now(),
            lines: Arc::default(),
        }
    }

    pub(crate) fn note(&self, what: impl Display) {
        let at = self.began.elapsed().as_millis();
        self.lines().push(format!("{at:>7} {what}"));
    }

    /// A digest of all lines.
    pub(crate) fn digest(&self) -> Digest {
        sha256(self.lines().join("\n"))
    }

    /// The last lines.
    pub(crate) fn tail(&self, count: usize) -> String {
        let lines = self.lines();
        lines[lines.len().saturating_sub(count)..].join("\n")
    }

    /// All lines.
    pub(crate) fn all(&self) -> Vec<String> {
        self.lines().clone()
    }

    fn lines(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

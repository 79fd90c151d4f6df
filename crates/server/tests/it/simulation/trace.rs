//! Trace of a simulation: all messages and faults with their times, one per line.

use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};

use noetl_types::{Digest, sha256};
use tokio::time::Instant;

/// Trace of a simulation. Clones share the same lines.
#[derive(Clone)]
pub(crate) struct SimTrace {
    started_at: Instant,
    lines: Arc<Mutex<Vec<String>>>,
}

impl SimTrace {
    pub(crate) fn start_trace() -> Self {
        Self { started_at: Instant::now(), lines: Arc::default() }
    }

    pub(crate) fn record(&self, event: impl Display) {
        let at = self.started_at.elapsed().as_millis();
        self.lines().push(format!("{at:>7} {event}"));
    }

    pub(crate) fn digest(&self) -> Digest {
        sha256(self.lines().join("\n"))
    }

    pub(crate) fn tail(&self, count: usize) -> String {
        let lines = self.lines();
        lines[lines.len().saturating_sub(count)..].join("\n")
    }

    pub(crate) fn all_lines(&self) -> Vec<String> {
        self.lines().clone()
    }

    fn lines(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

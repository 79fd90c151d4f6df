//! What this process counts since it began, for its metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use noetl_types::error::RejectCode;

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// Adds to it.
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// What it has come to.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// All counts.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Outbox rows that failed once too often.
    pub(crate) outbox_dead: Count,
    /// Executions whose read model was looked at again.
    pub(crate) advanced: Count,
    /// Events that were copied as workers tell them.
    pub(crate) materialized: Count,
    /// Commands that retention dropped.
    pub(crate) purged_commands: Count,
    /// Workers that retention forgot.
    pub(crate) purged_runtimes: Count,
    /// Rows of the outbox that were published long ago.
    pub(crate) purged_outbox: Count,
    /// Parts of the log that retention dropped.
    pub(crate) purged_parts: Count,
    /// Events that could not be copied, by why.
    rejected: [Count; RejectCode::ALL.len()],
}

impl Tally {
    /// Events that could not be copied for a reason.
    pub(crate) fn rejected(&self, code: RejectCode) -> &Count {
        let place = RejectCode::ALL.iter().position(|one| *one == code);
        // Each code has its place; the first stands in for what cannot be.
        &self.rejected[place.unwrap_or(0)]
    }
}

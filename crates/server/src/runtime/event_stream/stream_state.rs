//! State of the event stream in this process, for status, readiness and metrics.

use std::sync::{Mutex, MutexGuard, PoisonError};

use noetl_store::FeedLag;
use noetl_types::{Text, Timestamp};

/// Phase of the publisher in this process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum PublisherPhase {
    /// The first turn has not started.
    #[default]
    Starting,
    /// Another server publishes.
    Standby { owner: Text },
    /// This server publishes.
    Publishing,
    /// Publishing failed and is retried.
    Failed(Text),
}

/// Phase and counters since the process started, and the last measured lag.
#[derive(Debug, Clone, Default)]
pub(crate) struct StreamState {
    pub(crate) phase: PublisherPhase,
    /// Acknowledged messages.
    pub(crate) published: u64,
    /// Acknowledged messages that the broker already had.
    pub(crate) duplicates: u64,
    /// Messages that only refer to an event that is too large.
    pub(crate) by_reference: u64,
    /// Events that cannot be published, which were quarantined.
    pub(crate) unpublishable: u64,
    /// Messages that the broker had lost and that were published again.
    pub(crate) restored: u64,
    /// Number of rebuilds of the stream.
    pub(crate) rebuilds: u64,
    /// Differences between the stream at the broker and the settings.
    pub(crate) differences: Option<Text>,
    /// Last measured lag, and the time of the measurement.
    pub(crate) lag: Option<(FeedLag, Timestamp)>,
}

/// The stream state behind a lock.
#[derive(Debug, Default)]
pub(crate) struct SharedStreamState(Mutex<StreamState>);

impl SharedStreamState {
    fn lock_state(&self) -> MutexGuard<'_, StreamState> {
        // The state is consistent between any two changes.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn current_state(&self) -> StreamState {
        self.lock_state().clone()
    }

    pub(super) fn update_state(&self, change: impl FnOnce(&mut StreamState)) {
        change(&mut self.lock_state());
    }

    pub(super) fn enter_phase(&self, phase: PublisherPhase) {
        self.lock_state().phase = phase;
    }

    /// Records how the stream differs from the settings, and logs each new difference once.
    pub(super) fn record_differences(&self, differences: Option<Text>) {
        let mut state = self.lock_state();
        if let Some(differences) = differences.as_ref().filter(|_| state.differences != differences)
        {
            tracing::warn!(%differences, "the event stream at the broker differs from the settings; change the stream or the settings");
        }
        state.differences = differences;
    }

    /// Records a failure. Returns true if it is a new one.
    pub(super) fn record_failure(&self, error: Text) -> bool {
        let mut state = self.lock_state();
        let phase = PublisherPhase::Failed(error);
        let is_new = state.phase != phase;
        state.phase = phase;
        is_new
    }
}

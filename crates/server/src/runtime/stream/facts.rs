//! What is known of the stream in this process: for people, readiness and metrics.

use std::sync::{Mutex, MutexGuard, PoisonError};

use noetl_store::FeedLag;
use noetl_types::{Text, Timestamp};

/// What this process does about the stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Phase {
    /// It has not come to it yet.
    #[default]
    Starting,
    /// Another server publishes.
    Standby {
        /// Which one.
        owner: Text,
    },
    /// It publishes.
    Publishing,
    /// It cannot now, and tries again.
    Troubled(Text),
}

/// Numbers since the process began, and the last look at the log.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    pub(crate) phase: Phase,
    /// Messages that the broker acknowledged.
    pub(crate) published: u64,
    /// Those of them that it had already.
    pub(crate) duplicates: u64,
    /// Those that only refer to an event, since it is too large.
    pub(crate) by_reference: u64,
    /// Events that can never be published, and were put aside.
    pub(crate) parked: u64,
    /// Messages that the broker had lost.
    pub(crate) restored: u64,
    /// How often the stream was made anew.
    pub(crate) rebuilds: u64,
    /// What the stream at the broker has otherwise than it is set.
    pub(crate) unlike: Option<Text>,
    /// How far the log was ahead, and when that was looked at.
    pub(crate) lag: Option<(FeedLag, Timestamp)>,
}

/// The same, shared.
#[derive(Debug, Default)]
pub(crate) struct Facts(Mutex<Seen>);

impl Facts {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        // Numbers are whole between any two changes.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn seen(&self) -> Seen {
        self.lock().clone()
    }

    pub(super) fn note(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut self.lock());
    }

    pub(super) fn enter(&self, phase: Phase) {
        self.lock().phase = phase;
    }

    /// Notes what the stream has otherwise than it is set, and tells it once.
    pub(super) fn compared(&self, unlike: Option<Text>) {
        let mut seen = self.lock();
        if let Some(unlike) = unlike.as_ref().filter(|_| seen.unlike != unlike) {
            tracing::warn!(%unlike, "the stream of events is not as it is set: change it, or the settings");
        }
        seen.unlike = unlike;
    }

    /// Notes a trouble; whether it is a new one.
    pub(super) fn troubled(&self, trouble: Text) -> bool {
        let mut seen = self.lock();
        let phase = Phase::Troubled(trouble);
        let is_new = seen.phase != phase;
        seen.phase = phase;
        is_new
    }
}

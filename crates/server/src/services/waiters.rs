//! Everything in this process that waits for an append.

use noetl_api::command::LeasedCommand;
use noetl_messaging::{CommandWatches, ExecutionFollowers, Matcher};
use tokio::sync::watch;

use crate::driver::ExecutionOutcome;

/// Workers that wait for commands or watch them, followers of executions, and readers of the feed.
pub(crate) struct Waiters {
    pub(crate) matcher: Matcher<LeasedCommand>,
    pub(crate) followers: ExecutionFollowers<ExecutionOutcome>,
    pub(crate) command_watches: CommandWatches,
    /// Changes with every append of this process, and with every append that a peer reports.
    append_count: watch::Sender<u64>,
}

impl Default for Waiters {
    fn default() -> Self {
        Self {
            matcher: Matcher::default(),
            followers: ExecutionFollowers::default(),
            command_watches: CommandWatches::default(),
            append_count: watch::Sender::new(0),
        }
    }
}

impl Waiters {
    /// Wakes the readers of the feed of all events.
    pub(crate) fn notify_log_growth(&self) {
        self.append_count.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Returns a receiver that changes with every append.
    pub(crate) fn subscribe_log_growth(&self) -> watch::Receiver<u64> {
        self.append_count.subscribe()
    }
}

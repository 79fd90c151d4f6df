//! Peers: the other servers on the same store, and the wakeups that servers send each other.
//!
//! A commit here may be awaited elsewhere: work by a worker, the log of an execution by a follower,
//! the feed by a publisher. A wakeup is sent after the commit over a separate channel, and only
//! while a peer is connected. Nothing depends on it: work whose wakeup is lost is found by the
//! regular sweep of each server.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use noetl_store::{LogChange, NotifyChannel, StoreError, Wakeup, WakeupSet};
use noetl_types::{CommandId, ExecutionId, PoolName};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::error::error_chain;
use crate::rng;
use crate::services::Infrastructure;
use crate::services::notifications::NatsMessaging;
use crate::services::waiters::Waiters;

/// Minimum interval between two notifications. Wakeups that arrive in between are sent together.
const MIN_NOTIFY_INTERVAL: Duration = Duration::from_millis(5);

/// Time after which a channel counts as stable, which resets the backoff.
const STABLE_CHANNEL_AGE: Duration = Duration::from_secs(10);

/// Wakeups that wait to be sent to the peers.
#[derive(Debug, Default)]
pub(crate) struct PeerNotifier {
    /// True while a channel is open.
    channel_open: AtomicBool,
    pending: Mutex<Wakeup>,
    /// Signalled when a wakeup is added.
    wakeup_added: Notify,
}

/// Reason why a channel is no longer used.
enum ChannelEnd {
    /// There is no other server.
    NoPeers,
    /// The process ends.
    Shutdown,
    /// The channel failed.
    Failed(StoreError),
}

/// Marks the channel as open until dropped.
struct ChannelOpenGuard<'n>(&'n PeerNotifier);

impl Drop for ChannelOpenGuard<'_> {
    fn drop(&mut self) {
        self.0.channel_open.store(false, Ordering::Release);
        *self.0.lock_pending() = Wakeup::default();
    }
}

impl PeerNotifier {
    /// True if a channel to the peers is open.
    fn is_channel_open(&self) -> bool {
        self.channel_open.load(Ordering::Acquire)
    }

    /// Adds wakeups to the pending set.
    fn add_wakeups(&self, add: impl FnOnce(&mut Wakeup)) {
        add(&mut self.lock_pending());
        self.wakeup_added.notify_one();
    }

    /// Waits until a wakeup is pending and `not_before` has passed.
    async fn wait_until_due(&self, not_before: Instant) {
        while self.lock_pending().is_empty() {
            self.wakeup_added.notified().await;
        }
        tokio::time::sleep_until(not_before).await;
    }

    fn lock_pending(&self) -> MutexGuard<'_, Wakeup> {
        // The set is consistent between any two operations, so a poisoned lock can be used.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until the number of peers satisfies the predicate.
async fn wait_for_peer_count(
    peer_count: &mut watch::Receiver<usize>,
    predicate: impl Fn(usize) -> bool,
) {
    if peer_count.wait_for(|peer_count| predicate(*peer_count)).await.is_err() {
        // The sender is gone: the count never changes again.
        std::future::pending::<()>().await;
    }
}

/// Channel to the peers.
pub(crate) struct Peers {
    pub(crate) infra: Arc<Infrastructure>,
    pub(crate) waiters: Arc<Waiters>,
    pub(crate) messaging: Option<Arc<NatsMessaging>>,
    pub(crate) notifier: PeerNotifier,
}

impl Peers {
    /// Notifies the peers of a commit: commands that were left in a queue, commands that were
    /// stopped, and the log that has grown.
    pub(crate) fn notify_peers(
        &self,
        queue: &PoolName,
        backlog: usize,
        stopped: &[CommandId],
        log: (ExecutionId, LogChange),
    ) {
        if !self.notifier.is_channel_open() {
            return;
        }
        // With NATS, commands are announced there.
        let backlog = if self.messaging.as_ref().is_some_and(|messaging| messaging.is_connected()) {
            0
        } else {
            backlog
        };
        let (execution_id, change) = log;
        self.notifier.add_wakeups(|wakeups| {
            if backlog > 0 {
                wakeups.add_queue(queue.clone(), backlog);
            }
            wakeups.add_execution(execution_id, change);
            for command in stopped {
                wakeups.add_command(*command);
            }
        });
    }

    /// Notifies the peers that commands went back to their queues.
    pub(crate) fn notify_peers_of_requeue(&self) {
        if self.notifier.is_channel_open() {
            self.notifier.add_wakeups(|wakeups| wakeups.queues = WakeupSet::All);
        }
    }

    /// Keeps a channel to the peers open while there are any. A failed channel is reopened with
    /// backoff, without limit. Meanwhile all work is found by the sweep.
    pub(crate) async fn peer_channel_loop(self: Arc<Self>) {
        let mut peer_count = self.infra.ids.peer_count();
        let mut failures = 0;
        loop {
            let has_peers = wait_for_peer_count(&mut peer_count, |peer_count| peer_count > 0);
            if self.infra.shutdown.run_until_cancelled(has_peers).await.is_none() {
                return;
            }
            let opened = self
                .infra
                .shutdown
                .run_until_cancelled(self.infra.store.open_notify_channel())
                .await;
            let ended = match opened {
                // The store is never shared, or the process is shutting down.
                Some(Ok(None)) | None => return,
                Some(Ok(Some(channel))) => {
                    let since = Instant::now();
                    let ended = self.run_peer_channel(channel).await;
                    // A channel that fails soon after it was opened keeps its backoff.
                    if since.elapsed() > STABLE_CHANNEL_AGE {
                        failures = 0;
                    }
                    ended
                }
                Some(Err(error)) => ChannelEnd::Failed(error),
            };
            match ended {
                ChannelEnd::Shutdown => return,
                ChannelEnd::NoPeers => continue,
                ChannelEnd::Failed(error) if failures == 0 => {
                    tracing::warn!(error = %error_chain(&error), "the channel to other servers is down; reconnecting");
                }
                ChannelEnd::Failed(_) => {}
            }
            failures += 1;
            if !self
                .infra
                .sleep_unless_shutdown(rng::backoff_delay(&*self.infra.rng, failures))
                .await
            {
                return;
            }
        }
    }

    /// Sends and receives wakeups over a channel until it ends.
    async fn run_peer_channel(&self, mut channel: Box<dyn NotifyChannel>) -> ChannelEnd {
        let mut peer_count = self.infra.ids.peer_count();
        self.notifier.channel_open.store(true, Ordering::Release);
        self.infra.metrics.peers.set_connected(true);
        let open_guard = ChannelOpenGuard(&self.notifier);
        // Wakeups in both directions may have been missed while there was no channel.
        self.apply_wakeups(Wakeup::WAKE_ALL);
        self.notifier.add_wakeups(|wakeups| *wakeups = Wakeup::WAKE_ALL);
        let mut not_before = Instant::now();
        let ended = loop {
            tokio::select! {
                // Sending is rate-limited, so receiving is not starved.
                biased;
                () = self.infra.shutdown.cancelled() => break ChannelEnd::Shutdown,
                () = wait_for_peer_count(&mut peer_count, |peer_count| peer_count == 0) => break ChannelEnd::NoPeers,
                () = self.notifier.wait_until_due(not_before) => {
                    let wakeups = std::mem::take(&mut *self.notifier.lock_pending());
                    if let Err(error) = channel.notify(&wakeups).await {
                        break ChannelEnd::Failed(error);
                    }
                    self.infra.metrics.peers.sent.inc();
                    not_before = Instant::now() + MIN_NOTIFY_INTERVAL;
                }
                received = channel.recv() => match received {
                    Ok(wakeups) => {
                        self.infra.metrics.peers.received.inc();
                        self.apply_wakeups(wakeups);
                    }
                    Err(error) => break ChannelEnd::Failed(error),
                },
            }
        };
        drop(open_guard);
        self.infra.metrics.peers.set_connected(false);
        ended
    }

    /// Wakes the local waiters of the given queues, executions and commands.
    fn apply_wakeups(&self, wakeups: Wakeup) {
        let has_log_changes = !wakeups.executions.is_empty();
        match wakeups.queues {
            WakeupSet::All => self.waiters.matcher.recheck_all(),
            WakeupSet::Only(queues) => {
                for (queue, count) in queues {
                    self.waiters.matcher.add_backlog(&queue, count);
                }
            }
        }
        match wakeups.executions {
            WakeupSet::All => self.waiters.followers.notify_all(),
            WakeupSet::Only(executions) => {
                for (execution_id, change) in executions {
                    self.waiters.followers.notify_changed(execution_id, change == LogChange::End);
                }
            }
        }
        match wakeups.commands {
            WakeupSet::All => self.waiters.command_watches.notify_all(),
            WakeupSet::Only(commands) => {
                for command in commands.into_keys() {
                    self.waiters.command_watches.notify_command(command);
                }
            }
        }
        if has_log_changes {
            self.waiters.notify_log_growth();
        }
    }
}

#[cfg(test)]
mod tests;

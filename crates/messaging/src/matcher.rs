//! Matching of work with waiting workers.
//!
//! Code that issues work queries the matcher first. A waiting worker can receive a command in the
//! same append that issues it, so that the command is never queued. Work without a waiting worker
//! stays in the store, and the matcher records that there is a backlog.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use noetl_types::{Millis, PoolName, Text, WorkerId};
use parking_lot::Mutex;
use tokio::sync::oneshot;

/// A worker that polls for work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Poller {
    /// The worker.
    pub worker: WorkerId,
    /// Kinds of tools that it supports; `None` for all.
    pub kinds: Option<Vec<Text>>,
    /// Maximum number of commands.
    pub max: usize,
    /// Duration of their leases.
    pub lease: Millis,
}

impl Poller {
    /// True if the worker supports a kind of tool.
    pub fn can_run(&self, kind: &str) -> bool {
        let supports = |kinds: &Vec<Text>| kinds.iter().any(|supported| supported == kind);
        self.kinds.as_ref().is_none_or(supports)
    }
}

/// Reason for the end of a wait.
#[derive(Debug, PartialEq, Eq)]
pub enum WakeReason<T> {
    /// Work that is already leased to the waiting worker.
    Work(Vec<T>),
    /// There may be work in the store.
    Recheck,
}

/// State of a pool before the store is queried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BacklogMark {
    generation: u64,
    /// True if there may be work in the store.
    pub has_backlog: bool,
}

/// Matches work with waiting workers.
#[derive(Debug)]
pub struct Matcher<T> {
    pools: Arc<Mutex<HashMap<PoolName, PoolQueue<T>>>>,
}

#[derive(Debug)]
struct PoolQueue<T> {
    waiting: VecDeque<WaitingPoller<T>>,
    /// Incremented when work is left in the store.
    generation: u64,
    has_backlog: bool,
    next_number: u64,
}

#[derive(Debug)]
struct WaitingPoller<T> {
    number: u64,
    poller: Poller,
    wake: oneshot::Sender<WakeReason<T>>,
}

/// A waiting worker in the queue of its pool. Dropping it cancels the wait.
#[derive(Debug)]
pub struct PollWait<T> {
    pools: Arc<Mutex<HashMap<PoolName, PoolQueue<T>>>>,
    pool: PoolName,
    number: u64,
    wake_receiver: oneshot::Receiver<WakeReason<T>>,
}

/// A waiting worker that is about to receive work. The reservation must be delivered or returned.
#[derive(Debug)]
#[must_use = "the waiting worker is no longer in the queue"]
pub struct Reservation<T> {
    pool: PoolName,
    waiting: WaitingPoller<T>,
}

/// Assumes a backlog, because there may be work from before this process started.
impl<T> Default for PoolQueue<T> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), generation: 0, has_backlog: true, next_number: 0 }
    }
}

impl<T> Default for Matcher<T> {
    fn default() -> Self {
        Self { pools: Arc::default() }
    }
}

impl<T> Matcher<T> {
    /// Returns the state of a pool. Must be called before the store is queried.
    pub fn backlog_mark(&self, pool: &PoolName) -> BacklogMark {
        let mut pools = self.pools.lock();
        let queue = pool_entry(&mut pools, pool);
        BacklogMark { generation: queue.generation, has_backlog: queue.has_backlog }
    }

    /// Records that the store returned all work that it had since a mark.
    pub fn clear_backlog(&self, pool: &PoolName, mark: BacklogMark) {
        let mut pools = self.pools.lock();
        let queue = pool_entry(&mut pools, pool);
        if queue.generation == mark.generation {
            queue.has_backlog = false;
        }
    }

    /// Starts a wait. Returns `None` if work was left in the store since the mark, so that the
    /// caller must query the store again.
    pub fn start_wait(
        &self,
        pool: &PoolName,
        poller: Poller,
        mark: BacklogMark,
    ) -> Option<PollWait<T>> {
        let mut pools = self.pools.lock();
        let queue = pool_entry(&mut pools, pool);
        if queue.generation != mark.generation {
            return None;
        }
        let (wake, wake_receiver) = oneshot::channel();
        let number = queue.next_number;
        queue.next_number += 1;
        queue.waiting.push_back(WaitingPoller { number, poller, wake });
        Some(PollWait { pools: Arc::clone(&self.pools), pool: pool.clone(), number, wake_receiver })
    }

    /// Removes the first waiting worker that supports a kind of tool from the queue.
    pub fn reserve_poller(&self, pool: &PoolName, kind: &str) -> Option<Reservation<T>> {
        let mut pools = self.pools.lock();
        let queue = &mut pools.get_mut(pool)?.waiting;
        queue.retain(|waiting| !waiting.wake.is_closed());
        let first = queue.iter().position(|waiting| waiting.poller.can_run(kind))?;
        let waiting = queue.remove(first)?;
        Some(Reservation { pool: pool.clone(), waiting })
    }

    /// Returns a waiting worker to the front of the queue.
    pub fn return_reservation(&self, reservation: Reservation<T>) {
        let mut pools = self.pools.lock();
        let pool = pool_entry(&mut pools, &reservation.pool);
        pool.waiting.push_front(reservation.waiting);
    }

    /// Records that work was left in the store, and wakes enough waiting workers to take it.
    pub fn add_backlog(&self, pool: &PoolName, count: usize) {
        let mut pools = self.pools.lock();
        // For an unknown pool there is no one to wake: the first poll queries the store in any
        // case.
        let Some(pool) = pools.get_mut(pool) else {
            return;
        };
        pool.generation += 1;
        pool.has_backlog = true;
        let mut remaining = count;
        while remaining > 0
            && let Some(waiting) = pool.waiting.pop_front()
        {
            if waiting.wake.send(WakeReason::Recheck).is_ok() {
                remaining = remaining.saturating_sub(waiting.poller.max);
            }
        }
    }

    /// Ends the waits of a worker that may have ended, without work. A worker that is still alive
    /// polls again.
    pub fn dismiss_worker(&self, worker: &WorkerId) {
        let mut pools = self.pools.lock();
        for pool in pools.values_mut() {
            let (dismissed, remaining): (VecDeque<_>, VecDeque<_>) =
                std::mem::take(&mut pool.waiting)
                    .into_iter()
                    .partition(|waiting| waiting.poller.worker == *worker);
            pool.waiting = remaining;
            for waiting in dismissed {
                // The receiver may already be dropped.
                drop(waiting.wake.send(WakeReason::Work(Vec::new())));
            }
        }
    }

    /// Wakes every waiting worker, and makes concurrent polls query the store again. Used when time
    /// has passed, when other processes may have left work, or when the process ends.
    pub fn recheck_all(&self) {
        let mut pools = self.pools.lock();
        for pool in pools.values_mut() {
            pool.generation += 1;
            pool.has_backlog = true;
            for waiting in pool.waiting.drain(..) {
                // The receiver may already be dropped.
                drop(waiting.wake.send(WakeReason::Recheck));
            }
        }
    }

    /// Returns the number of workers that wait for a pool.
    pub fn waiting_count(&self, pool: &PoolName) -> usize {
        self.pools.lock().get(pool).map_or(0, |pool| pool.waiting.len())
    }
}

fn pool_entry<'p, T>(
    pools: &'p mut HashMap<PoolName, PoolQueue<T>>,
    name: &PoolName,
) -> &'p mut PoolQueue<T> {
    pools.entry(name.clone()).or_default()
}

impl<T> Reservation<T> {
    /// Returns the waiting worker.
    pub fn poller(&self) -> &Poller {
        &self.waiting.poller
    }

    /// Delivers work to the waiting worker, or returns it to the caller if the worker no longer
    /// waits.
    pub fn deliver_work(self, work: Vec<T>) -> Result<(), Vec<T>> {
        match self.waiting.wake.send(WakeReason::Work(work)) {
            Ok(()) | Err(WakeReason::Recheck) => Ok(()),
            Err(WakeReason::Work(work)) => Err(work),
        }
    }
}

impl<T> PollWait<T> {
    /// Waits to be woken; `None` after the timeout.
    pub async fn wait_for_wake(mut self, max_wait: Duration) -> Option<WakeReason<T>> {
        if let Ok(reason) = tokio::time::timeout(max_wait, &mut self.wake_receiver).await {
            return reason.ok();
        }
        if self.cancel_wait() {
            return None;
        }
        // There is a reservation for this wait. It is delivered or returned within an append.
        (&mut self.wake_receiver).await.ok()
    }

    /// Leaves the queue. True if the wait was still queued.
    fn cancel_wait(&self) -> bool {
        let mut pools = self.pools.lock();
        let Some(pool) = pools.get_mut(&self.pool) else {
            return false;
        };
        let before = pool.waiting.len();
        pool.waiting.retain(|waiting| waiting.number != self.number);
        pool.waiting.len() < before
    }
}

impl<T> Drop for PollWait<T> {
    fn drop(&mut self) {
        self.cancel_wait();
    }
}

#[cfg(test)]
mod tests;

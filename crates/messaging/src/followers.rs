//! Followers that wait for progress of an execution.

use std::collections::HashMap;
use std::sync::Arc;

use noetl_types::{ExecutionId, ExecutionVersion};
use parking_lot::Mutex;
use tokio::sync::watch;

/// Known progress of an execution that is followed.
#[derive(Debug, Clone)]
struct ObservedProgress<T> {
    /// Latest known version.
    version: ExecutionVersion,
    /// Result, once the execution has ended.
    end: Option<T>,
    /// Number of wake-ups for possible growth, and for a possible end, in another process.
    growth_wakeups: u64,
    end_wakeups: u64,
}

type WatchMap<T> = HashMap<ExecutionId, watch::Sender<ObservedProgress<T>>>;

/// The followers of all executions.
#[derive(Debug)]
pub struct ExecutionFollowers<T> {
    watched: Arc<Mutex<WatchMap<T>>>,
}

/// A follower of one execution.
#[derive(Debug)]
pub struct ExecutionFollower<T> {
    watched: Arc<Mutex<WatchMap<T>>>,
    execution_id: ExecutionId,
    progress: watch::Receiver<ObservedProgress<T>>,
    /// Number of wake-ups already handled.
    growth_wakeups: u64,
    end_wakeups: u64,
}

impl<T> Default for ExecutionFollowers<T> {
    fn default() -> Self {
        Self { watched: Arc::default() }
    }
}

impl<T: Clone> ExecutionFollowers<T> {
    /// Follows an execution from now on.
    pub fn follow_execution(&self, execution_id: ExecutionId) -> ExecutionFollower<T> {
        let mut watched = self.watched.lock();
        let sender = watched.entry(execution_id).or_insert_with(|| {
            watch::Sender::new(ObservedProgress {
                version: ExecutionVersion::EMPTY,
                end: None,
                growth_wakeups: 0,
                end_wakeups: 0,
            })
        });
        let progress = sender.subscribe();
        let (growth_wakeups, end_wakeups) = {
            let progress = progress.borrow();
            (progress.growth_wakeups, progress.end_wakeups)
        };
        ExecutionFollower {
            watched: Arc::clone(&self.watched),
            execution_id,
            progress,
            growth_wakeups,
            end_wakeups,
        }
    }

    /// True if the execution has followers.
    pub fn has_followers(&self, execution_id: ExecutionId) -> bool {
        self.watched.lock().contains_key(&execution_id)
    }

    /// Notifies the followers of an execution of its version, and of its result if it has ended.
    /// Later notifications do not erase the result.
    pub fn notify_progress(
        &self,
        execution_id: ExecutionId,
        version: ExecutionVersion,
        end: Option<T>,
    ) {
        if let Some(sender) = self.watched.lock().get(&execution_id) {
            sender.send_modify(|progress| {
                progress.version = progress.version.max(version);
                if end.is_some() {
                    progress.end = end;
                }
            });
        }
    }

    /// Wakes the followers of an execution that has grown in another process, and possibly ended.
    pub fn notify_changed(&self, execution_id: ExecutionId, has_ended: bool) {
        if let Some(sender) = self.watched.lock().get(&execution_id) {
            bump_wakeups(sender, has_ended);
        }
    }

    /// Wakes all followers: any execution may have grown or ended.
    pub fn notify_all(&self) {
        for sender in self.watched.lock().values() {
            bump_wakeups(sender, true);
        }
    }
}

fn bump_wakeups<T>(sender: &watch::Sender<ObservedProgress<T>>, has_ended: bool) {
    sender.send_modify(|progress| {
        progress.growth_wakeups += 1;
        progress.end_wakeups += u64::from(has_ended);
    });
}

impl<T: Clone> ExecutionFollower<T> {
    /// Waits until the execution is past a version, or may be. The caller then reads its log. If
    /// the execution is driven by another process, there may be no notification at all, so the
    /// caller must also query the store periodically.
    pub async fn wait_past(&mut self, version: ExecutionVersion) {
        let before = self.growth_wakeups;
        let is_past = |progress: &ObservedProgress<T>| {
            progress.version > version || progress.growth_wakeups != before
        };
        // The observed value is behind a lock that must not be held across the wait below.
        let progress =
            self.progress.wait_for(is_past).await.map(|progress| progress.growth_wakeups);
        match progress {
            Ok(growth_wakeups) => self.growth_wakeups = growth_wakeups,
            // The sender exists as long as there is a follower.
            Err(_) => std::future::pending().await,
        }
    }

    /// Waits until the execution has ended, and returns its result. Returns `None` if it may have
    /// ended in another process, so that the caller must query the store.
    pub async fn wait_for_end(&mut self) -> Option<T> {
        let before = self.end_wakeups;
        let is_over = |progress: &ObservedProgress<T>| {
            progress.end.is_some() || progress.end_wakeups != before
        };
        let progress = self.progress.wait_for(is_over).await;
        let progress = progress.map(|progress| (progress.end.clone(), progress.end_wakeups));
        match progress {
            Ok((end, end_wakeups)) => {
                self.end_wakeups = end_wakeups;
                end
            }
            Err(_) => std::future::pending().await,
        }
    }
}

impl<T> Drop for ExecutionFollower<T> {
    fn drop(&mut self) {
        let mut watched = self.watched.lock();
        let is_last =
            watched.get(&self.execution_id).is_some_and(|sender| sender.receiver_count() == 1);
        if is_last {
            watched.remove(&self.execution_id);
        }
    }
}

#[cfg(test)]
mod tests;

//! Who waits for something to happen in a run.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use noetl_types::{ExecutionId, Version};
use tokio::sync::watch;

/// How far a run has come, and what came of it once it has ended.
pub type Seen<T> = (Version, Option<T>);

type Watched<T> = HashMap<ExecutionId, watch::Sender<Seen<T>>>;

/// Who waits for something to happen in a run.
#[derive(Debug)]
pub struct Followers<T> {
    watched: Arc<Mutex<Watched<T>>>,
}

/// Somebody who follows a run.
#[derive(Debug)]
pub struct Following<T> {
    watched: Arc<Mutex<Watched<T>>>,
    execution_id: ExecutionId,
    seen: watch::Receiver<Seen<T>>,
}

impl<T> Default for Followers<T> {
    fn default() -> Self {
        Self {
            watched: Arc::default(),
        }
    }
}

fn lock<T>(watched: &Mutex<Watched<T>>) -> MutexGuard<'_, Watched<T>> {
    // A map of senders is whole between any two calls.
    watched.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T: Clone> Followers<T> {
    /// Follows a run from now on.
    pub fn follow(&self, execution_id: ExecutionId) -> Following<T> {
        let mut watched = lock(&self.watched);
        let sender = watched
            .entry(execution_id)
            .or_insert_with(|| watch::Sender::new((Version::EMPTY, None)));
        Following {
            watched: Arc::clone(&self.watched),
            execution_id,
            seen: sender.subscribe(),
        }
    }

    /// Whether anybody follows a run.
    pub fn has(&self, execution_id: ExecutionId) -> bool {
        lock(&self.watched).contains_key(&execution_id)
    }

    /// Tells those who follow a run how far it has come, and what came of it if it has ended.
    pub fn tell(&self, execution_id: ExecutionId, version: Version, end: Option<T>) {
        if let Some(sender) = lock(&self.watched).get(&execution_id) {
            sender.send_replace((version, end));
        }
    }
}

impl<T: Clone> Following<T> {
    /// Waits until the run is past a version, and gives how far it is. Whoever is not told, since
    /// the run is driven elsewhere, waits for ever: look into the store now and then.
    pub async fn past(&mut self, version: Version) -> Seen<T> {
        let seen = self.seen.wait_for(|(seen, _)| *seen > version).await;
        // What was seen is behind a lock that must not be held over the wait below.
        let seen = seen.map(|seen| seen.clone()).ok();
        match seen {
            Some(seen) => seen,
            // The sender lives as long as anybody follows.
            None => std::future::pending().await,
        }
    }

    /// Waits until the run has ended.
    pub async fn end(&mut self) -> T {
        if let Ok(seen) = self.seen.wait_for(|(_, end)| end.is_some()).await
            && let Some(end) = &seen.1
        {
            return end.clone();
        }
        std::future::pending().await
    }
}

impl<T> Drop for Following<T> {
    fn drop(&mut self) {
        let mut watched = lock(&self.watched);
        let is_last = watched
            .get(&self.execution_id)
            .is_some_and(|sender| sender.receiver_count() == 1);
        if is_last {
            watched.remove(&self.execution_id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> ExecutionId {
        ExecutionId::new(7).unwrap()
    }

    #[tokio::test]
    async fn a_follower_sees_progress_and_the_end() {
        let followers = Followers::default();
        let mut following = followers.follow(run());
        followers.tell(run(), Version::new(3).unwrap(), None);
        assert_eq!(
            following.past(Version::EMPTY).await,
            (Version::new(3).unwrap(), None)
        );
        followers.tell(run(), Version::new(9).unwrap(), Some("done"));
        assert_eq!(following.end().await, "done");
    }

    #[test]
    fn nobody_is_kept_in_mind_who_is_gone() {
        let followers = Followers::<()>::default();
        let (first, second) = (followers.follow(run()), followers.follow(run()));
        drop(first);
        assert!(followers.has(run()));
        drop(second);
        assert!(!followers.has(run()));
    }
}

//! Who waits for something to happen in a run.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use noetl_types::{ExecutionId, Version};
use tokio::sync::watch;

/// What is known of a run that somebody follows.
#[derive(Debug, Clone)]
struct Seen<T> {
    /// How far it has come.
    version: Version,
    /// What came of it once it has ended.
    end: Option<T>,
    /// How often it was heard that it may have grown, and that it may have ended, elsewhere.
    grown: u64,
    ended: u64,
}

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
    /// What was heard before.
    grown: u64,
    ended: u64,
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
        let sender = watched.entry(execution_id).or_insert_with(|| {
            watch::Sender::new(Seen {
                version: Version::EMPTY,
                end: None,
                grown: 0,
                ended: 0,
            })
        });
        let seen = sender.subscribe();
        let (grown, ended) = {
            let seen = seen.borrow();
            (seen.grown, seen.ended)
        };
        Following {
            watched: Arc::clone(&self.watched),
            execution_id,
            seen,
            grown,
            ended,
        }
    }

    /// Whether anybody follows a run.
    pub fn has(&self, execution_id: ExecutionId) -> bool {
        lock(&self.watched).contains_key(&execution_id)
    }

    /// Tells those who follow a run how far it has come, and what came of it if it has ended. An end
    /// is not forgotten over what is noted behind it.
    pub fn tell(&self, execution_id: ExecutionId, version: Version, end: Option<T>) {
        if let Some(sender) = lock(&self.watched).get(&execution_id) {
            sender.send_modify(|seen| {
                seen.version = seen.version.max(version);
                if end.is_some() {
                    seen.end = end;
                }
            });
        }
    }

    /// Lets those who follow a run look: it has grown elsewhere, perhaps by its end.
    pub fn look(&self, execution_id: ExecutionId, has_ended: bool) {
        if let Some(sender) = lock(&self.watched).get(&execution_id) {
            let_look(sender, has_ended);
        }
    }

    /// Lets everybody look: any run may have grown, or ended.
    pub fn look_again(&self) {
        for sender in lock(&self.watched).values() {
            let_look(sender, true);
        }
    }
}

fn let_look<T>(sender: &watch::Sender<Seen<T>>, has_ended: bool) {
    sender.send_modify(|seen| {
        seen.grown += 1;
        seen.ended += u64::from(has_ended);
    });
}

impl<T: Clone> Following<T> {
    /// Waits until the run is past a version, or may be: the caller looks at its log. Whoever is not
    /// told, since the run is driven elsewhere, waits for ever: look into the store now and then.
    pub async fn past(&mut self, version: Version) {
        let before = self.grown;
        let is_past = |seen: &Seen<T>| seen.version > version || seen.grown != before;
        // What was seen is behind a lock that must not be held over the wait below.
        let seen = self.seen.wait_for(is_past).await.map(|seen| seen.grown);
        match seen {
            Ok(grown) => self.grown = grown,
            // The sender lives as long as anybody follows.
            Err(_) => std::future::pending().await,
        }
    }

    /// Waits until the run has ended, and gives what came of it; nothing where it may have ended
    /// elsewhere, so that the caller has to look.
    pub async fn end(&mut self) -> Option<T> {
        let before = self.ended;
        let is_over = |seen: &Seen<T>| seen.end.is_some() || seen.ended != before;
        let seen = self.seen.wait_for(is_over).await;
        let seen = seen.map(|seen| (seen.end.clone(), seen.ended));
        match seen {
            Ok((end, ended)) => {
                self.ended = ended;
                end
            }
            Err(_) => std::future::pending().await,
        }
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

    fn version(number: i64) -> Version {
        Version::new(number).unwrap()
    }

    /// Whether a wait is over already.
    async fn is_over<F: Future>(wait: F) -> bool {
        tokio::time::timeout(std::time::Duration::ZERO, wait)
            .await
            .is_ok()
    }

    #[tokio::test]
    async fn a_follower_sees_progress_and_the_end() {
        let followers = Followers::default();
        let mut following = followers.follow(run());
        followers.tell(run(), version(3), None);
        following.past(version(2)).await;
        assert!(!is_over(following.past(version(3))).await);
        followers.tell(run(), version(9), Some("done"));
        assert_eq!(following.end().await, Some("done"));
    }

    #[tokio::test]
    async fn an_end_is_not_forgotten_over_what_follows_it() {
        let followers = Followers::default();
        let mut following = followers.follow(run());
        followers.tell(run(), version(9), Some("done"));
        followers.tell(run(), version(10), None);
        assert_eq!(following.end().await, Some("done"));
        following.past(version(9)).await;
    }

    #[tokio::test]
    async fn who_may_have_missed_something_looks_once() {
        let followers = Followers::<()>::default();
        let mut following = followers.follow(run());
        followers.look(run(), false);
        following.past(version(3)).await;
        assert!(!is_over(following.past(version(3))).await, "it has looked");
        assert!(!is_over(following.end()).await, "it has not ended");
        followers.look(run(), true);
        assert_eq!(following.end().await, None);
        assert!(!is_over(following.end()).await, "it has looked");
        followers.look_again();
        assert_eq!(following.end().await, None);
        following.past(version(3)).await;
        let mut late = followers.follow(run());
        assert!(!is_over(late.past(version(3))).await, "it looks first");
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

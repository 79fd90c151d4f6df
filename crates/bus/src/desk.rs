//! Where workers wait for work.
//!
//! Whoever issues work looks here first: a worker that waits can be given it in the very append
//! that issues it, so that it never lies in the queue. What nobody waits for lies in the store, and
//! the desk keeps in mind that it does.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use noetl_types::{Millis, PoolName, Text, WorkerId};
use tokio::sync::oneshot;

/// A worker that takes work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taker {
    /// The worker.
    pub worker: WorkerId,
    /// The kinds of tools that it has; `None` for all.
    pub kinds: Option<Vec<Text>>,
    /// How many commands it takes.
    pub max: usize,
    /// For how long it takes them.
    pub lease: Millis,
}

impl Taker {
    /// Whether it can do work of a kind.
    pub fn can(&self, kind: &str) -> bool {
        let knows = |kinds: &Vec<Text>| kinds.iter().any(|known| known == kind);
        self.kinds.as_ref().is_none_or(knows)
    }
}

/// What ends a wait.
#[derive(Debug, PartialEq, Eq)]
pub enum Wake<T> {
    /// Work that is the waiter's already.
    Work(Vec<T>),
    /// There may be something in the store.
    Look,
}

/// What was known of a pool before somebody looked into the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    generation: u64,
    /// Whether something may lie in the store.
    pub has_backlog: bool,
}

/// Where workers wait.
#[derive(Debug)]
pub struct Desk<T> {
    pools: Arc<Mutex<HashMap<PoolName, Pool<T>>>>,
}

#[derive(Debug)]
struct Pool<T> {
    waiting: VecDeque<Waiting<T>>,
    /// Grows whenever work is left in the store.
    generation: u64,
    has_backlog: bool,
    next_number: u64,
}

#[derive(Debug)]
struct Waiting<T> {
    number: u64,
    taker: Taker,
    wake: oneshot::Sender<Wake<T>>,
}

/// A place at the desk. Dropped, it is given up.
#[derive(Debug)]
pub struct Wait<T> {
    pools: Arc<Mutex<HashMap<PoolName, Pool<T>>>>,
    pool: PoolName,
    number: u64,
    woken: oneshot::Receiver<Wake<T>>,
}

/// A waiter that is about to get work. It must be served or put back.
#[derive(Debug)]
#[must_use = "the waiter has left its place"]
pub struct Reservation<T> {
    pool: PoolName,
    waiting: Waiting<T>,
}

/// Nothing was known of the pool: there may be work from before this process began.
impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            generation: 0,
            has_backlog: true,
            next_number: 0,
        }
    }
}

impl<T> Default for Desk<T> {
    fn default() -> Self {
        Self {
            pools: Arc::default(),
        }
    }
}

fn lock<T>(
    pools: &Mutex<HashMap<PoolName, Pool<T>>>,
) -> MutexGuard<'_, HashMap<PoolName, Pool<T>>> {
    // Every change of a pool is whole before the next one can panic.
    pools.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T> Desk<T> {
    /// What is known of a pool now; to be taken before the store is asked.
    pub fn mark(&self, pool: &PoolName) -> Mark {
        let mut pools = lock(&self.pools);
        let pool = pool_of(&mut pools, pool);
        Mark {
            generation: pool.generation,
            has_backlog: pool.has_backlog,
        }
    }

    /// Notes that the store gave all that it had since a mark.
    pub fn emptied(&self, pool: &PoolName, mark: Mark) {
        let mut pools = lock(&self.pools);
        let pool = pool_of(&mut pools, pool);
        if pool.generation == mark.generation {
            pool.has_backlog = false;
        }
    }

    /// Takes a place; `None` where work was left in the store since the mark, so that the caller
    /// has to look again.
    pub fn wait(&self, pool: &PoolName, taker: Taker, mark: Mark) -> Option<Wait<T>> {
        let mut pools = lock(&self.pools);
        let waiting = pool_of(&mut pools, pool);
        if waiting.generation != mark.generation {
            return None;
        }
        let (wake, woken) = oneshot::channel();
        let number = waiting.next_number;
        waiting.next_number += 1;
        waiting.waiting.push_back(Waiting {
            number,
            taker,
            wake,
        });
        Some(Wait {
            pools: Arc::clone(&self.pools),
            pool: pool.clone(),
            number,
            woken,
        })
    }

    /// Takes the first waiter that can do work of a kind from its place.
    pub fn reserve(&self, pool: &PoolName, kind: &str) -> Option<Reservation<T>> {
        let mut pools = lock(&self.pools);
        let waiting = &mut pools.get_mut(pool)?.waiting;
        waiting.retain(|waiting| !waiting.wake.is_closed());
        let first = waiting.iter().position(|waiting| waiting.taker.can(kind))?;
        let waiting = waiting.remove(first)?;
        Some(Reservation {
            pool: pool.clone(),
            waiting,
        })
    }

    /// Puts a waiter back where it was: at the front.
    pub fn put_back(&self, reservation: Reservation<T>) {
        let mut pools = lock(&self.pools);
        let pool = pool_of(&mut pools, &reservation.pool);
        pool.waiting.push_front(reservation.waiting);
    }

    /// Notes that work was left in the store, and lets as many waiters look.
    pub fn left(&self, pool: &PoolName, count: usize) {
        let mut pools = lock(&self.pools);
        // Where nobody has asked yet, whoever does looks anyway.
        let Some(pool) = pools.get_mut(pool) else {
            return;
        };
        pool.generation += 1;
        pool.has_backlog = true;
        let mut open = count;
        while open > 0
            && let Some(waiting) = pool.waiting.pop_front()
        {
            if waiting.wake.send(Wake::Look).is_ok() {
                open = open.saturating_sub(waiting.taker.max);
            }
        }
    }

    /// Sends a worker away empty-handed that may not be there any more: one that is, asks again.
    pub fn dismiss(&self, worker: &WorkerId) {
        let mut pools = lock(&self.pools);
        for pool in pools.values_mut() {
            let (gone, here): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut pool.waiting)
                .into_iter()
                .partition(|waiting| waiting.taker.worker == *worker);
            pool.waiting = here;
            for waiting in gone {
                // One that is gone needs no word.
                drop(waiting.wake.send(Wake::Work(Vec::new())));
            }
        }
    }

    /// Lets every waiter look, and whoever is looking look once more: time has passed, others may
    /// have left something, or the process ends.
    pub fn look_again(&self) {
        let mut pools = lock(&self.pools);
        for pool in pools.values_mut() {
            pool.generation += 1;
            pool.has_backlog = true;
            for waiting in pool.waiting.drain(..) {
                // One that is gone needs no waking.
                drop(waiting.wake.send(Wake::Look));
            }
        }
    }

    /// How many wait for work of a pool.
    pub fn waiting(&self, pool: &PoolName) -> usize {
        lock(&self.pools)
            .get(pool)
            .map_or(0, |pool| pool.waiting.len())
    }
}

fn pool_of<'p, T>(pools: &'p mut HashMap<PoolName, Pool<T>>, name: &PoolName) -> &'p mut Pool<T> {
    pools.entry(name.clone()).or_default()
}

impl<T> Reservation<T> {
    /// Who waits.
    pub fn taker(&self) -> &Taker {
        &self.waiting.taker
    }

    /// Gives work to the waiter, or back to the caller where the waiter is gone.
    pub fn serve(self, work: Vec<T>) -> Result<(), Vec<T>> {
        match self.waiting.wake.send(Wake::Work(work)) {
            Ok(()) | Err(Wake::Look) => Ok(()),
            Err(Wake::Work(work)) => Err(work),
        }
    }
}

impl<T> Wait<T> {
    /// Waits to be woken; nothing where that takes too long.
    pub async fn woken(mut self, patience: Duration) -> Option<Wake<T>> {
        if let Ok(woken) = tokio::time::timeout(patience, &mut self.woken).await {
            return woken.ok();
        }
        if self.leave() {
            return None;
        }
        // Somebody has a reservation of this place, and serves it or puts it back within an append.
        (&mut self.woken).await.ok()
    }

    /// Whether it still was at its place.
    fn leave(&self) -> bool {
        let mut pools = lock(&self.pools);
        let Some(pool) = pools.get_mut(&self.pool) else {
            return false;
        };
        let before = pool.waiting.len();
        pool.waiting.retain(|waiting| waiting.number != self.number);
        pool.waiting.len() < before
    }
}

impl<T> Drop for Wait<T> {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::ZERO;
    const LONG: Duration = Duration::from_hours(1);

    fn pool() -> PoolName {
        PoolName::new("shared").unwrap()
    }

    fn taker(max: usize) -> Taker {
        Taker {
            worker: WorkerId::new("w1").unwrap(),
            kinds: None,
            max,
            lease: Millis::from_secs(30),
        }
    }

    fn waits(desk: &Desk<u32>) -> Wait<u32> {
        let mark = desk.mark(&pool());
        desk.wait(&pool(), taker(1), mark).unwrap()
    }

    #[tokio::test]
    async fn a_waiter_is_served() {
        let desk = Desk::default();
        let wait = waits(&desk);
        let reserved = desk.reserve(&pool(), "noop").unwrap();
        assert!(desk.reserve(&pool(), "noop").is_none());
        reserved.serve(vec![7]).unwrap();
        assert_eq!(wait.woken(LONG).await, Some(Wake::Work(vec![7])));
    }

    #[tokio::test]
    async fn work_for_a_waiter_that_is_gone_comes_back() {
        let desk = Desk::default();
        let wait = waits(&desk);
        let reserved = desk.reserve(&pool(), "noop").unwrap();
        drop(wait);
        assert_eq!(reserved.serve(vec![7]), Err(vec![7]));
    }

    #[tokio::test]
    async fn a_waiter_that_is_put_back_waits_on() {
        let desk = Desk::default();
        let wait = waits(&desk);
        let reserved = desk.reserve(&pool(), "noop").unwrap();
        desk.put_back(reserved);
        assert_eq!(desk.waiting(&pool()), 1);
        assert_eq!(wait.woken(NOW).await, None);
        assert_eq!(desk.waiting(&pool()), 0);
    }

    #[tokio::test]
    async fn what_is_left_in_the_store_wakes_as_many_as_it_needs() {
        let desk = Desk::default();
        let (first, second) = (waits(&desk), waits(&desk));
        desk.left(&pool(), 1);
        assert_eq!(first.woken(LONG).await, Some(Wake::Look));
        assert_eq!(desk.waiting(&pool()), 1);
        assert_eq!(second.woken(NOW).await, None);
    }

    #[tokio::test]
    async fn a_worker_that_may_be_gone_is_given_nothing() {
        let desk = Desk::default();
        let wait = waits(&desk);
        desk.dismiss(&WorkerId::new("w2").unwrap());
        assert_eq!(desk.waiting(&pool()), 1);
        desk.dismiss(&WorkerId::new("w1").unwrap());
        assert!(desk.reserve(&pool(), "noop").is_none());
        assert_eq!(wait.woken(LONG).await, Some(Wake::Work(vec![])));
    }

    #[test]
    fn nobody_waits_past_work_that_was_left_since_the_mark() {
        let desk = Desk::<u32>::default();
        let mark = desk.mark(&pool());
        assert!(mark.has_backlog, "work from before this process");
        desk.emptied(&pool(), mark);
        assert!(!desk.mark(&pool()).has_backlog);
        desk.left(&pool(), 1);
        assert!(desk.wait(&pool(), taker(1), mark).is_none());
        desk.emptied(&pool(), mark);
        assert!(desk.mark(&pool()).has_backlog, "the mark is older");
    }

    #[test]
    fn nobody_waits_past_the_word_to_look_again() {
        let desk = Desk::<u32>::default();
        let mark = desk.mark(&pool());
        desk.look_again();
        desk.emptied(&pool(), mark);
        assert!(desk.mark(&pool()).has_backlog);
        assert!(desk.wait(&pool(), taker(1), mark).is_none());
    }

    #[test]
    fn a_pool_that_nobody_asked_for_is_not_kept_in_mind() {
        let desk = Desk::<u32>::default();
        desk.left(&pool(), 1);
        assert!(lock(&desk.pools).is_empty());
        assert!(desk.mark(&pool()).has_backlog);
    }

    #[test]
    fn a_waiter_gets_only_what_it_can_do() {
        let desk = Desk::<u32>::default();
        let mark = desk.mark(&pool());
        let only_http = Taker {
            kinds: Some(vec!["http".into()]),
            ..taker(1)
        };
        let _wait = desk.wait(&pool(), only_http, mark).unwrap();
        assert!(desk.reserve(&pool(), "python").is_none());
        assert!(desk.reserve(&pool(), "http").is_some());
    }
}

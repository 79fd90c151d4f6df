//! The one thread that writes.
//!
//! It never waits for company: it takes what is there when it is free. Alone, a call costs one
//! commit; under load, many share one. Within a group every call has a savepoint of its own, so
//! that none fails its neighbours.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::bind::failure;
use crate::error::StoreError;

/// Calls that share one commit at most.
const MAX_GROUP: usize = 256;

/// What a commit owes to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Durability {
    /// It is on the disk before the call is answered.
    Synced,
    /// A loss of power may forget it; the next synced commit makes it durable too.
    Forgettable,
}

/// How often a store has committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Commits {
    /// All commits.
    pub all: u64,
    /// Those that waited for the disk.
    pub synced: u64,
}

#[derive(Debug, Default)]
struct Counters {
    all: AtomicU64,
    synced: AtomicU64,
}

/// Answers a call once its commit has come to an end, good or bad.
type Reply = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// Does the work of a call, and says whether what it wrote is to be kept. Without a connection there
/// is no transaction to work in, and only the reply is made.
type Work = Box<dyn FnOnce(Option<&Connection>) -> (bool, Reply) + Send>;

/// A call on its way to the writer.
struct Job {
    durability: Durability,
    work: Work,
}

/// The way to the writer.
#[derive(Debug)]
pub(super) struct Writer {
    /// Present until the writer is dropped.
    queue: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    counters: Arc<Counters>,
}

impl Writer {
    /// Hands a connection to a thread of its own, which ends when the writer is dropped.
    pub(super) fn start(connection: Connection, queue: usize) -> Result<Self, StoreError> {
        let (sender, receiver) = mpsc::channel(queue.max(1));
        let counters = Arc::new(Counters::default());
        let mut thread = Thread {
            connection,
            is_synced: true,
            counters: Arc::clone(&counters),
        };
        let thread = std::thread::Builder::new()
            .name("noetl-sqlite-writer".to_owned())
            .spawn(move || thread.run(receiver))
            .map_err(StoreError::retry)?;
        Ok(Self {
            queue: Some(sender),
            thread: Some(thread),
            counters,
        })
    }

    pub(super) fn commits(&self) -> Commits {
        Commits {
            all: self.counters.all.load(Ordering::Relaxed),
            synced: self.counters.synced.load(Ordering::Relaxed),
        }
    }

    /// Calls that wait for the thread.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        let queue = self.queue.as_ref().unwrap();
        queue.max_capacity() - queue.capacity()
    }

    /// Does some work in the next transaction. When it fails, it leaves nothing behind.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        durability: Durability,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (sender, receiver) = oneshot::channel();
        let work = Box::new(move |connection: Option<&Connection>| {
            let result = connection.map_or_else(|| Err(rolled_back()), work);
            let is_kept = result.is_ok();
            let reply: Reply = Box::new(move |committed| {
                // Who no longer waits for the answer does not get one.
                let _ = sender.send(committed.and(result));
            });
            (is_kept, reply)
        });
        let job = Job { durability, work };
        let has_stopped = || StoreError::fatal("the writer has stopped");
        let queue = self.queue.as_ref().ok_or_else(has_stopped)?;
        queue.send(job).await.map_err(|_| has_stopped())?;
        receiver
            .await
            .map_err(|_| StoreError::unknown("the writer has stopped"))?
    }
}

/// What was handed in is still written, and the file is closed before its lock is given up.
impl Drop for Writer {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has nothing left to close.
            let _ = thread.join();
        }
    }
}

struct Thread {
    connection: Connection,
    /// Whether commits wait for the disk at the moment.
    is_synced: bool,
    counters: Arc<Counters>,
}

impl Thread {
    fn run(&mut self, mut queue: mpsc::Receiver<Job>) {
        while let Some(first) = queue.blocking_recv() {
            let mut group = vec![first];
            while group.len() < MAX_GROUP
                && let Ok(job) = queue.try_recv()
            {
                group.push(job);
            }
            self.commit(group);
        }
    }

    fn commit(&mut self, group: Vec<Job>) {
        let is_synced = group.iter().any(|job| job.durability == Durability::Synced);
        let begun = self.begin(is_synced);
        let (worked, replies) = self.work(begun, group);
        let outcome = worked.and_then(|()| self.end());
        if outcome.is_ok() {
            self.counters.all.fetch_add(1, Ordering::Relaxed);
            self.counters
                .synced
                .fetch_add(u64::from(is_synced), Ordering::Relaxed);
        } else if !self.connection.is_autocommit() {
            // Should even this fail, the next BEGIN fails too and says so.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        for reply in replies {
            reply(outcome.clone());
        }
    }

    fn begin(&mut self, is_synced: bool) -> Result<(), StoreError> {
        if self.is_synced != is_synced {
            let level = if is_synced { "FULL" } else { "NORMAL" };
            self.connection
                .pragma_update(None, "synchronous", level)
                .map_err(failure)?;
            self.is_synced = is_synced;
        }
        self.connection
            .execute_batch("BEGIN IMMEDIATE")
            .map_err(failure)
    }

    /// Does the work of a group, as long as its transaction lives: what came after its end would be
    /// committed by itself.
    fn work(
        &self,
        begun: Result<(), StoreError>,
        group: Vec<Job>,
    ) -> (Result<(), StoreError>, Vec<Reply>) {
        let mut outcome = begun;
        let mut replies = Vec::with_capacity(group.len());
        for job in group {
            if outcome.is_ok() {
                let (kept, reply) = self.one(job);
                outcome = kept;
                replies.push(reply);
            } else {
                replies.push((job.work)(None).1);
            }
        }
        (outcome, replies)
    }

    fn one(&self, job: Job) -> (Result<(), StoreError>, Reply) {
        if let Err(error) = self.connection.execute_batch("SAVEPOINT job") {
            return (Err(failure(error)), (job.work)(None).1);
        }
        let (is_kept, reply) = (job.work)(Some(&self.connection));
        // A full disk may end the whole transaction, and with it the savepoint.
        if self.connection.is_autocommit() {
            return (Err(rolled_back()), reply);
        }
        let ended = self.connection.execute_batch(if is_kept {
            "RELEASE job"
        } else {
            "ROLLBACK TO job; RELEASE job"
        });
        (ended.map_err(failure), reply)
    }

    fn end(&self) -> Result<(), StoreError> {
        self.connection
            .execute_batch("COMMIT")
            .map_err(|error| failure(error).with_unknown_outcome())
    }
}

/// Of a transaction that the database ended by itself.
pub(super) fn rolled_back() -> StoreError {
    StoreError::retry("the transaction was rolled back")
}

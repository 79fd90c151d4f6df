//! The one thread that writes.
//!
//! It never waits for company: it takes what is there when it is free. Alone, a call costs one
//! commit; under load, many share one. None fails its neighbours: a group in which a call fails is
//! rolled back and done again with a savepoint for each call.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::bind::{execute, failure};
use crate::error::StoreError;

/// Calls that share one commit at most.
const MAX_GROUP: usize = 256;

/// Bytes that share one commit, but for the last call of a group.
const MAX_GROUP_BYTES: usize = 16 * 1024 * 1024;

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

/// How much a call looks after its neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Care {
    /// Not at all: should it fail after it has written something, the whole group is rolled back and
    /// done again. Savepoints copy every page that is written behind them, and failures are rare.
    Bold,
    /// What fails is rolled back to a savepoint.
    Careful,
}

/// A call on its way through the writer.
trait Task: Send {
    /// Does the work, perhaps once more, and says whether what it wrote is to be kept.
    fn run(&mut self, connection: &Connection, care: Care) -> bool;

    /// Answers the call once its commit has come to an end, good or bad.
    fn reply(self: Box<Self>, committed: Result<(), StoreError>);
}

/// A call, and what its work has given.
struct Call<T, W> {
    work: W,
    result: Result<T, StoreError>,
    sender: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, W> Task for Call<T, W>
where
    T: Send,
    W: Fn(&Connection, Care) -> Result<T, StoreError> + Send,
{
    fn run(&mut self, connection: &Connection, care: Care) -> bool {
        self.result = (self.work)(connection, care);
        self.result.is_ok()
    }

    fn reply(self: Box<Self>, committed: Result<(), StoreError>) {
        // Who no longer waits for the answer does not get one.
        let _ = self.sender.send(committed.and(self.result));
    }
}

/// A call with what the group has to know of it.
struct Job {
    durability: Durability,
    /// About how much it writes.
    bytes: usize,
    task: Box<dyn Task>,
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

    /// Writes nothing: for a file that is only read.
    pub(super) fn none() -> Self {
        Self {
            queue: None,
            thread: None,
            counters: Arc::default(),
        }
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

    /// Does some work in the next transaction. When it fails, it leaves nothing behind. It may be
    /// done twice, with the first time forgotten.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        durability: Durability,
        work: impl Fn(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.hand_in(durability, 0, move |connection, _| work(connection))
            .await
    }

    /// Does some work that writes about so many bytes, and waits for the disk.
    pub(super) async fn run_large<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl Fn(&Connection, Care) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.hand_in(Durability::Synced, bytes, work).await
    }

    async fn hand_in<T: Send + 'static>(
        &self,
        durability: Durability,
        bytes: usize,
        work: impl Fn(&Connection, Care) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (sender, receiver) = oneshot::channel();
        let job = Job {
            durability,
            bytes,
            task: Box::new(Call {
                work,
                result: Err(rolled_back()),
                sender,
            }),
        };
        let has_stopped = || StoreError::fatal("the writer has stopped");
        let is_only_read = || StoreError::fatal("the file is open for reading only");
        let queue = self.queue.as_ref().ok_or_else(is_only_read)?;
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
            let mut bytes = first.bytes;
            let mut group = vec![first];
            while group.len() < MAX_GROUP
                && bytes <= MAX_GROUP_BYTES
                && let Ok(job) = queue.try_recv()
            {
                bytes += job.bytes;
                group.push(job);
            }
            self.commit(group);
        }
    }

    fn commit(&mut self, mut group: Vec<Job>) {
        let is_synced = group.iter().any(|job| job.durability == Durability::Synced);
        let outcome = match self.transaction(&mut group, is_synced, Care::Bold) {
            Err(Failed::OneOfThem) => self.transaction(&mut group, is_synced, Care::Careful),
            outcome => outcome,
        };
        if outcome.is_ok() {
            self.counters.all.fetch_add(1, Ordering::Relaxed);
            self.counters
                .synced
                .fetch_add(u64::from(is_synced), Ordering::Relaxed);
        }
        let outcome = outcome.map_err(|failed| match failed {
            Failed::All(error) => error,
            Failed::OneOfThem => rolled_back(),
        });
        for job in group {
            job.task.reply(outcome.clone());
        }
    }

    fn transaction(
        &mut self,
        group: &mut [Job],
        is_synced: bool,
        care: Care,
    ) -> Result<(), Failed> {
        self.begin(is_synced)?;
        let done = self.work(group, care).and_then(|()| Ok(self.end()?));
        if done.is_err() && !self.connection.is_autocommit() {
            // Should even this fail, the next BEGIN fails too and says so.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        done
    }

    fn begin(&mut self, is_synced: bool) -> Result<(), StoreError> {
        if self.is_synced != is_synced {
            let level = if is_synced { "FULL" } else { "NORMAL" };
            self.connection
                .pragma_update(None, "synchronous", level)
                .map_err(failure)?;
            self.is_synced = is_synced;
        }
        execute(&self.connection, "BEGIN IMMEDIATE", []).map_err(failure)?;
        Ok(())
    }

    /// Does the work of a group, as long as its transaction lives: what came after its end would be
    /// committed by itself.
    fn work(&self, group: &mut [Job], care: Care) -> Result<(), Failed> {
        for job in group {
            match care {
                Care::Bold => {
                    if !job.task.run(&self.connection, care) {
                        return Err(Failed::OneOfThem);
                    }
                }
                Care::Careful => self.with_savepoint(&mut *job.task)?,
            }
            // A full disk may end the whole transaction.
            if self.connection.is_autocommit() {
                return Err(rolled_back().into());
            }
        }
        Ok(())
    }

    fn with_savepoint(&self, task: &mut dyn Task) -> Result<(), StoreError> {
        execute(&self.connection, "SAVEPOINT job", []).map_err(failure)?;
        let is_kept = task.run(&self.connection, Care::Careful);
        // A full disk may end the whole transaction, and with it the savepoint.
        if self.connection.is_autocommit() {
            return Err(rolled_back());
        }
        if !is_kept {
            execute(&self.connection, "ROLLBACK TO job", []).map_err(failure)?;
        }
        execute(&self.connection, "RELEASE job", []).map_err(failure)?;
        Ok(())
    }

    fn end(&self) -> Result<(), StoreError> {
        execute(&self.connection, "COMMIT", [])
            .map_err(|error| failure(error).with_unknown_outcome())?;
        Ok(())
    }
}

/// Why a group was not committed.
enum Failed {
    /// The database failed, and with it all of them.
    All(StoreError),
    /// A call failed that looked after nobody.
    OneOfThem,
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Self::All(error)
    }
}

/// Of a transaction that the database ended by itself.
pub(super) fn rolled_back() -> StoreError {
    StoreError::retry("the transaction was rolled back")
}

//! Writer thread with group commit.
//!
//! The thread takes all queued calls when it is free and never waits for more. A single call costs
//! one commit. Under load, many calls share one commit. A failed call does not fail the other calls
//! of its group: the group is rolled back and run again with a savepoint for each call.
//!
//! A database in memory has no thread: each call commits on the caller's thread, under a lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::bind::{execute_cached, to_store_error};
use crate::error::StoreError;
use crate::sql::Durability;

/// Maximum calls per commit.
const MAX_GROUP_CALLS: usize = 256;

/// Maximum bytes per commit. The last call of a group may exceed it.
const MAX_GROUP_BYTES: usize = 16 * 1024 * 1024;

/// Number of commits of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitCounts {
    /// All commits.
    pub total: u64,
    /// Commits that waited for a sync to disk.
    pub synced: u64,
}

#[derive(Debug, Default)]
struct CommitCounters {
    total: AtomicU64,
    synced: AtomicU64,
}

/// Protection of the other calls of a group from a failing call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailureIsolation {
    /// None: if the call fails after a write, the whole group is rolled back and run again. This is
    /// the first try, since savepoints copy every page written after them and failures are rare.
    WholeGroup,
    /// A failing call is rolled back to its savepoint.
    Savepoint,
}

/// Call in the writer's queue.
trait WriteTask: Send {
    /// Runs the work and returns true if its writes are to be committed. May run a second time.
    fn run_work(&mut self, connection: &mut Connection, isolation: FailureIsolation) -> bool;

    /// Error of the work, if it has failed.
    fn error(&self) -> Option<&StoreError>;

    /// Answers the call after its commit has succeeded or failed.
    fn send_reply(self: Box<Self>, outcome: Result<(), StoreError>);
}

/// A call with the result of its work.
struct WriteCall<T, W> {
    work: W,
    result: Result<T, StoreError>,
    sender: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, W> WriteTask for WriteCall<T, W>
where
    T: Send,
    W: Fn(&mut Connection, FailureIsolation) -> Result<T, StoreError> + Send,
{
    fn run_work(&mut self, connection: &mut Connection, isolation: FailureIsolation) -> bool {
        self.result = (self.work)(connection, isolation);
        self.result.is_ok()
    }

    fn error(&self) -> Option<&StoreError> {
        self.result.as_ref().err()
    }

    fn send_reply(self: Box<Self>, outcome: Result<(), StoreError>) {
        // The caller may have stopped waiting.
        let _ = self.sender.send(outcome.and(self.result));
    }
}

/// A call with its durability and size.
struct WriteJob {
    durability: Durability,
    /// Approximate bytes that the call writes.
    bytes: usize,
    task: Box<dyn WriteTask>,
}

/// Handle of the writer.
#[derive(Debug)]
pub(super) struct SqliteWriter {
    mode: WriterMode,
    counters: Arc<CommitCounters>,
}

#[derive(Debug)]
enum WriterMode {
    /// The file is open read-only.
    ReadOnly,
    /// A thread commits the calls of a queue.
    Thread {
        /// `None` once the writer is dropped.
        queue: Option<mpsc::Sender<WriteJob>>,
        thread: Option<JoinHandle<()>>,
    },
    /// Callers commit on their own thread.
    Memory(MemoryConnection),
}

/// The only connection to a database in memory, shared by the writer and all readers.
#[derive(Debug, Clone)]
pub(super) struct MemoryConnection(Arc<Mutex<GroupWriter>>);

impl MemoryConnection {
    /// Runs work on the connection.
    pub(super) fn with_connection<T>(&self, work: impl FnOnce(&Connection) -> T) -> T {
        work(&self.0.lock().connection)
    }
}

impl SqliteWriter {
    /// Starts the writer thread with its connection. The thread ends when the writer is dropped.
    pub(super) fn spawn_writer(
        connection: Connection,
        queue_capacity: usize,
    ) -> Result<Self, StoreError> {
        let (sender, receiver) = mpsc::channel(queue_capacity.max(1));
        let counters = Arc::new(CommitCounters::default());
        let mut writer = GroupWriter::new(connection, &counters);
        let thread = std::thread::Builder::new()
            .name("noetl-sqlite-writer".to_owned())
            .spawn(move || writer.writer_loop(receiver))
            .map_err(StoreError::retry)?;
        let mode = WriterMode::Thread { queue: Some(sender), thread: Some(thread) };
        Ok(Self { mode, counters })
    }

    /// Returns the writer of a database in memory, and its connection for the readers.
    pub(super) fn in_memory(connection: Connection) -> (Self, MemoryConnection) {
        let counters = Arc::new(CommitCounters::default());
        let writer = GroupWriter::new(connection, &counters);
        let connection = MemoryConnection(Arc::new(Mutex::new(writer)));
        (Self { mode: WriterMode::Memory(connection.clone()), counters }, connection)
    }

    /// Returns a writer that rejects all calls, for a read-only store.
    pub(super) fn read_only() -> Self {
        Self { mode: WriterMode::ReadOnly, counters: Arc::default() }
    }

    pub(super) fn commit_counts(&self) -> CommitCounts {
        CommitCounts {
            total: self.counters.total.load(Ordering::Relaxed),
            synced: self.counters.synced.load(Ordering::Relaxed),
        }
    }

    /// Number of calls in the queue.
    #[cfg(test)]
    pub(super) fn queued_calls(&self) -> usize {
        match &self.mode {
            WriterMode::Thread { queue: Some(queue), .. } => {
                queue.max_capacity() - queue.capacity()
            }
            _ => 0,
        }
    }

    /// Runs work in the next transaction. If the work fails, its writes are rolled back. The work
    /// may run twice, with the first run rolled back.
    pub(super) async fn run_write<T: Send + 'static>(
        &self,
        durability: Durability,
        work: impl Fn(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.submit_job(durability, 0, move |connection, _| work(connection)).await
    }

    /// Runs work that writes about `bytes` bytes, and waits for the sync to disk.
    pub(super) async fn run_large_write<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl Fn(&mut Connection, FailureIsolation) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.submit_job(Durability::Synced, bytes, work).await
    }

    /// Runs work that writes about `bytes` bytes in the next transaction.
    pub(super) async fn submit_job<T: Send + 'static>(
        &self,
        durability: Durability,
        bytes: usize,
        work: impl Fn(&mut Connection, FailureIsolation) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (sender, receiver) = oneshot::channel();
        let job = WriteJob {
            durability,
            bytes,
            task: Box::new(WriteCall { work, result: Err(rolled_back_error()), sender }),
        };
        let stopped = || StoreError::fatal("the writer has stopped");
        match &self.mode {
            WriterMode::ReadOnly => {
                return Err(StoreError::fatal("the database file is open read-only"));
            }
            WriterMode::Thread { queue, .. } => {
                let queue = queue.as_ref().ok_or_else(stopped)?;
                queue.send(job).await.map_err(|_| stopped())?;
            }
            WriterMode::Memory(connection) => {
                // Nothing is synced, so the level never changes.
                let job = WriteJob { durability: Durability::Synced, ..job };
                connection.0.lock().commit_group(vec![job]);
            }
        }
        receiver.await.map_err(|_| StoreError::unknown_outcome("the writer has stopped"))?
    }
}

/// Queued calls are still written, and the file is closed before its lock is released.
impl Drop for SqliteWriter {
    fn drop(&mut self) {
        if let WriterMode::Thread { queue, thread } = &mut self.mode {
            *queue = None;
            if let Some(thread) = thread.take() {
                // A thread that panicked has nothing left to close.
                let _ = thread.join();
            }
        }
    }
}

/// Commits groups of calls on a connection.
#[derive(Debug)]
struct GroupWriter {
    connection: Connection,
    /// True while commits wait for a sync to disk.
    is_synced: bool,
    counters: Arc<CommitCounters>,
}

impl GroupWriter {
    fn new(connection: Connection, counters: &Arc<CommitCounters>) -> Self {
        Self { connection, is_synced: true, counters: Arc::clone(counters) }
    }

    fn writer_loop(&mut self, mut queue: mpsc::Receiver<WriteJob>) {
        while let Some(first) = queue.blocking_recv() {
            let mut bytes = first.bytes;
            let mut group = vec![first];
            while group.len() < MAX_GROUP_CALLS
                && bytes <= MAX_GROUP_BYTES
                && let Ok(job) = queue.try_recv()
            {
                bytes += job.bytes;
                group.push(job);
            }
            self.commit_group(group);
        }
    }

    fn commit_group(&mut self, mut group: Vec<WriteJob>) {
        let is_synced = group.iter().any(|job| job.durability == Durability::Synced);
        let outcome =
            match self.run_transaction(&mut group, is_synced, FailureIsolation::WholeGroup) {
                Err(GroupFailure::Call) => {
                    self.run_transaction(&mut group, is_synced, FailureIsolation::Savepoint)
                }
                outcome => outcome,
            };
        if outcome.is_ok() {
            self.counters.total.fetch_add(1, Ordering::Relaxed);
            self.counters.synced.fetch_add(u64::from(is_synced), Ordering::Relaxed);
        }
        let outcome = outcome.map_err(|failure| match failure {
            GroupFailure::Database(error) => error,
            GroupFailure::Call => rolled_back_error(),
        });
        for job in group {
            job.task.send_reply(outcome.clone());
        }
    }

    fn run_transaction(
        &mut self,
        group: &mut [WriteJob],
        is_synced: bool,
        isolation: FailureIsolation,
    ) -> Result<(), GroupFailure> {
        self.begin_transaction(is_synced)?;
        let outcome =
            self.run_group(group, isolation).and_then(|()| Ok(self.commit_transaction()?));
        if outcome.is_err() && !self.connection.is_autocommit() {
            // If the rollback fails, the next BEGIN fails too and reports it.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        outcome
    }

    fn begin_transaction(&mut self, is_synced: bool) -> Result<(), StoreError> {
        if self.is_synced != is_synced {
            let level = if is_synced { "FULL" } else { "NORMAL" };
            self.connection.pragma_update(None, "synchronous", level).map_err(to_store_error)?;
            self.is_synced = is_synced;
        }
        execute_cached(&self.connection, "BEGIN IMMEDIATE", []).map_err(to_store_error)?;
        Ok(())
    }

    /// Runs the work of a group. Stops when the database ends the transaction, since later writes
    /// would be committed one by one.
    fn run_group(
        &mut self,
        group: &mut [WriteJob],
        isolation: FailureIsolation,
    ) -> Result<(), GroupFailure> {
        for job in group {
            match isolation {
                FailureIsolation::WholeGroup => {
                    if !job.task.run_work(&mut self.connection, isolation) {
                        return Err(GroupFailure::Call);
                    }
                }
                FailureIsolation::Savepoint => self.run_in_savepoint(&mut *job.task)?,
            }
            // A full disk may end the whole transaction.
            if self.connection.is_autocommit() {
                return Err(rolled_back_by(&*job.task).into());
            }
        }
        Ok(())
    }

    fn run_in_savepoint(&mut self, task: &mut dyn WriteTask) -> Result<(), StoreError> {
        execute_cached(&self.connection, "SAVEPOINT job", []).map_err(to_store_error)?;
        let succeeded = task.run_work(&mut self.connection, FailureIsolation::Savepoint);
        // A full disk may end the whole transaction, including the savepoint.
        if self.connection.is_autocommit() {
            return Err(rolled_back_by(task));
        }
        if !succeeded {
            execute_cached(&self.connection, "ROLLBACK TO job", []).map_err(to_store_error)?;
        }
        execute_cached(&self.connection, "RELEASE job", []).map_err(to_store_error)?;
        Ok(())
    }

    fn commit_transaction(&self) -> Result<(), StoreError> {
        match execute_cached(&self.connection, "COMMIT", []) {
            Ok(_) => Ok(()),
            // A full disk is noticed before the end of the transaction is written. Only the index of
            // the WAL grows after it.
            Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull) => {
                Err(to_store_error(error))
            }
            Err(error) => Err(to_store_error(error).with_unknown_outcome()),
        }
    }
}

/// Reason for a group that was not committed.
enum GroupFailure {
    /// The database failed, and with it every call of the group.
    Database(StoreError),
    /// A call without a savepoint failed.
    Call,
}

impl From<StoreError> for GroupFailure {
    fn from(error: StoreError) -> Self {
        Self::Database(error)
    }
}

/// Returns the error for a transaction that ended during a call.
fn rolled_back_by(task: &dyn WriteTask) -> StoreError {
    let disk_full = task.error().filter(|error| error.is_disk_full());
    disk_full.cloned().unwrap_or_else(rolled_back_error)
}

/// Returns the error for a transaction that the database rolled back.
pub(super) fn rolled_back_error() -> StoreError {
    StoreError::retry("the transaction was rolled back")
}

//! Writer tasks with group commit.
//!
//! Each writer has a connection and takes all queued appends when it is free. A single append costs
//! one commit. Under load, many appends share one commit. An execution always goes to the same
//! writer, so appends of one process do not conflict with each other in the database.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use noetl_types::{ExecutionId, Month};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_postgres::Client;

use super::PostgresOptions;
use super::append::{self, AppendStatements};
use super::bind::{is_key_conflict, is_missing_partition, to_store_error};
use super::partition;
use super::pool::ConnectionPool;
use super::table_owner::TableOwner;
use crate::error::{StoreError, StoreSaturated};
use crate::model::{AppendError, AppendReceipt};
use crate::row::AppendRows;

/// Maximum appends per statement.
const MAX_GROUP_APPENDS: usize = 256;

/// Maximum events per statement, unless a single append has more.
const MAX_GROUP_EVENTS: usize = 5_000;

/// Maximum bytes per statement, unless a single append has more.
const MAX_GROUP_BYTES: usize = 16 * 1024 * 1024;

type AppendVerdict = Result<AppendReceipt, AppendError>;

/// Append in the queue of a writer.
struct QueuedAppend {
    rows: AppendRows,
    reply: oneshot::Sender<AppendVerdict>,
}

/// Handles of the writer tasks.
#[derive(Debug)]
pub(super) struct WriterPool {
    queues: Vec<mpsc::Sender<QueuedAppend>>,
    /// Maximum time to wait for capacity of a queue.
    queue_timeout: Duration,
    commit_count: Arc<AtomicU64>,
}

impl WriterPool {
    pub(super) fn spawn_writers(
        pool: &Arc<ConnectionPool>,
        owner: &Arc<TableOwner>,
        options: &PostgresOptions,
    ) -> Self {
        let commit_count = Arc::new(AtomicU64::new(0));
        let queues = (0..options.writer_count.max(1))
            .map(|_| {
                let (sender, receiver) = mpsc::channel(options.queue_capacity.max(1));
                let writer = AppendWriter {
                    pool: Arc::clone(pool),
                    owner: Arc::clone(owner),
                    commits: Arc::clone(&commit_count),
                    open_session: None,
                };
                // The task ends when the store is dropped and the queue is empty.
                tokio::spawn(writer.writer_loop(receiver));
                sender
            })
            .collect();
        Self { queues, queue_timeout: options.acquire_timeout, commit_count }
    }

    pub(super) fn commit_count(&self) -> u64 {
        self.commit_count.load(Ordering::Relaxed)
    }

    /// Appends the items of one call. Items of the same execution are sent one after the other,
    /// each in its own round. All others are sent together.
    pub(super) async fn append_items(
        &self,
        items: Vec<Result<AppendRows, AppendError>>,
    ) -> Vec<AppendVerdict> {
        let mut verdicts: Vec<Option<AppendVerdict>> = Vec::new();
        let mut remaining = VecDeque::new();
        for (index, rows) in items.into_iter().enumerate() {
            match rows {
                Ok(rows) => {
                    verdicts.push(None);
                    remaining.push_back((index, rows));
                }
                Err(error) => verdicts.push(Some(Err(error))),
            }
        }
        while !remaining.is_empty() {
            let (round, later) = split_round(remaining);
            remaining = later;
            let mut replies = Vec::new();
            for (index, rows) in round {
                replies.push((index, self.enqueue_append(rows).await));
            }
            for (index, reply) in replies {
                let verdict = match reply {
                    Ok(reply) => reply.await.unwrap_or_else(|_| {
                        Err(StoreError::unknown_outcome("the writer has stopped").into())
                    }),
                    Err(error) => Err(error.into()),
                };
                if let Some(entry) = verdicts.get_mut(index) {
                    *entry = Some(verdict);
                }
            }
        }
        let unanswered = || Err(StoreError::fatal("an append got no reply from its writer").into());
        verdicts.into_iter().map(|verdict| verdict.unwrap_or_else(unanswered)).collect()
    }

    async fn enqueue_append(
        &self,
        rows: AppendRows,
    ) -> Result<oneshot::Receiver<AppendVerdict>, StoreError> {
        let stopped = || StoreError::fatal("the writer has stopped");
        let count = self.queues.len().max(1);
        // Ids of the same millisecond differ in their lowest bits, others in the bits above.
        let id = rows.execution_id.get();
        let mixed = (id ^ (id >> 22)).unsigned_abs();
        let index = usize::try_from(mixed).unwrap_or_default() % count;
        let queue = self.queues.get(index).ok_or_else(stopped)?;
        let permit = timeout(self.queue_timeout, queue.reserve()).await;
        let saturated = |_| StoreError::retry(StoreSaturated(self.queue_timeout));
        let permit = permit.map_err(saturated)?.map_err(|_| stopped())?;
        let (reply, receiver) = oneshot::channel();
        permit.send(QueuedAppend { rows, reply });
        Ok(receiver)
    }
}

type IndexedRows = (usize, AppendRows);

/// Splits items into the first one of every execution and the rest.
fn split_round(items: VecDeque<IndexedRows>) -> (Vec<IndexedRows>, VecDeque<IndexedRows>) {
    let mut executions = BTreeSet::new();
    let mut round = Vec::new();
    let mut later = VecDeque::new();
    for item in items {
        if executions.insert(item.1.execution_id) {
            round.push(item);
        } else {
            later.push_back(item);
        }
    }
    (round, later)
}

/// Connection with its prepared append statements.
struct WriterSession {
    client: Client,
    prepared: AppendStatements,
}

struct AppendWriter {
    pool: Arc<ConnectionPool>,
    owner: Arc<TableOwner>,
    commits: Arc<AtomicU64>,
    open_session: Option<WriterSession>,
}

impl AppendWriter {
    async fn writer_loop(mut self, mut queue: mpsc::Receiver<QueuedAppend>) {
        let mut queued = VecDeque::new();
        loop {
            if queued.is_empty() {
                match queue.recv().await {
                    Some(first) => queued.push_back(first),
                    None => return,
                }
            }
            while queued.len() < MAX_GROUP_APPENDS
                && let Ok(next) = queue.try_recv()
            {
                queued.push_back(next);
            }
            let group = take_next_group(&mut queued);
            self.write_group(group).await;
        }
    }

    async fn write_group(&mut self, group: Vec<QueuedAppend>) {
        let items: Vec<_> = group.iter().map(|queued| &queued.rows).collect();
        let verdicts = self.append_isolating_failures(&items).await;
        for (queued, verdict) in group.into_iter().zip(verdicts) {
            // The caller may have stopped waiting.
            let _ = queued.reply.send(verdict);
        }
    }

    /// Appends a group. If one item makes the statement fail, each item is appended separately, so
    /// that it does not fail the others.
    async fn append_isolating_failures(&mut self, items: &[&AppendRows]) -> Vec<AppendVerdict> {
        let error = match self.send_creating_partitions(items).await {
            Ok(verdicts) => return verdicts,
            Err(error) => error,
        };
        let is_item_failure =
            matches!(error, SendFailure::IdTaken | SendFailure::Store(StoreError::Fatal { .. }));
        if !is_item_failure || items.len() == 1 {
            let append_error = AppendError::from(error);
            return vec![Err(append_error); items.len()];
        }
        let mut verdicts = Vec::with_capacity(items.len());
        for item in items {
            match self.send_creating_partitions(&[*item]).await {
                Ok(mut verdict) => verdicts.append(&mut verdict),
                Err(error) => verdicts.push(Err(error.into())),
            }
        }
        verdicts
    }

    /// Sends a statement. If a log partition is missing, creates it and sends the statement again.
    async fn send_creating_partitions(
        &mut self,
        items: &[&AppendRows],
    ) -> Result<Vec<AppendVerdict>, SendFailure> {
        match self.send_statement(items).await {
            Err(SendFailure::NoPartition) => {
                self.create_partitions(items).await?;
                self.send_statement(items).await
            }
            result => result,
        }
    }

    async fn send_statement(
        &mut self,
        items: &[&AppendRows],
    ) -> Result<Vec<AppendVerdict>, SendFailure> {
        let session = self.open_session().await?;
        let result = append::append_group(&session.client, &mut session.prepared, items).await;
        match result {
            Ok(verdicts) => {
                self.commits.fetch_add(1, Ordering::Relaxed);
                Ok(verdicts)
            }
            Err(error) if is_key_conflict(&error) => Err(SendFailure::IdTaken),
            Err(error) if is_missing_partition(&error) => Err(SendFailure::NoPartition),
            Err(error) => Err(SendFailure::Store(to_store_error(error))),
        }
    }

    async fn open_session(&mut self) -> Result<&mut WriterSession, StoreError> {
        let session = match self.open_session.take() {
            Some(session) if !session.client.is_closed() => session,
            Some(_) | None => {
                let client = self.pool.open_connection().await?;
                WriterSession { client, prepared: AppendStatements::default() }
            }
        };
        Ok(self.open_session.insert(session))
    }

    async fn create_partitions(&self, items: &[&AppendRows]) -> Result<(), StoreError> {
        let month = |id: ExecutionId| Month::from_timestamp(id.time());
        let months: BTreeSet<Month> = items.iter().map(|item| month(item.execution_id)).collect();
        let mut pooled = self.owner.acquire().await?;
        for month in months {
            partition::ensure_partition(pooled.client()?, &self.owner, month).await?;
        }
        pooled.mark_idle();
        Ok(())
    }
}

/// Failure of a statement. Nothing was written, unless a store error says that the outcome is
/// unknown.
enum SendFailure {
    IdTaken,
    NoPartition,
    Store(StoreError),
}

impl From<StoreError> for SendFailure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<SendFailure> for AppendError {
    fn from(failure: SendFailure) -> Self {
        match failure {
            SendFailure::IdTaken => Self::IdTaken,
            SendFailure::NoPartition => StoreError::fatal("a log partition is missing").into(),
            SendFailure::Store(error) => error.into(),
        }
    }
}

/// Takes as many of the first appends as fit, at most one per execution. The others keep their
/// order.
fn take_next_group(queued: &mut VecDeque<QueuedAppend>) -> Vec<QueuedAppend> {
    let mut executions = BTreeSet::new();
    let (mut events, mut bytes) = (0, 0);
    let mut group = Vec::new();
    let mut later = VecDeque::new();
    for item in queued.drain(..) {
        let (more_events, more_bytes) = (events + item.rows.events.len(), bytes + item.rows.bytes);
        let fits = more_events <= MAX_GROUP_EVENTS && more_bytes <= MAX_GROUP_BYTES;
        let fits = fits || group.is_empty();
        // Once an append of an execution is deferred, its later appends are too, to keep their
        // order.
        if executions.insert(item.rows.execution_id) && fits {
            (events, bytes) = (more_events, more_bytes);
            group.push(item);
        } else {
            later.push_back(item);
        }
    }
    *queued = later;
    group
}

//! Tasks that append.
//!
//! Each has a connection and takes what waits when it is free: alone, an append costs one commit;
//! under load, many share one. An execution always goes to the same writer, so the appends of one
//! process do not meet as conflicts in the database.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use noetl_types::{ExecutionId, Month};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_postgres::Client;

use super::PostgresOptions;
use super::append::{self, Prepared};
use super::bind::{failure, is_taken, lacks_partition};
use super::owner::Owner;
use super::partition;
use super::pool::Pool;
use crate::error::{Saturated, StoreError};
use crate::model::{AppendRefused, Appended};
use crate::row::Rows;

/// Appends that share one statement at most.
const MAX_GROUP: usize = 256;

/// Events that share one statement, unless one append has more by itself.
const MAX_GROUP_EVENTS: usize = 5_000;

/// Bytes that share one statement, unless one append has more by itself.
const MAX_GROUP_BYTES: usize = 16 * 1024 * 1024;

type Verdict = Result<Appended, AppendRefused>;

/// An append on its way to a writer.
struct Waiting {
    rows: Rows,
    reply: oneshot::Sender<Verdict>,
}

/// The ways to the writers.
#[derive(Debug)]
pub(super) struct Writers {
    queues: Vec<mpsc::Sender<Waiting>>,
    /// How long one waits for a place in a queue.
    patience: Duration,
    commits: Arc<AtomicU64>,
}

impl Writers {
    pub(super) fn start(pool: &Arc<Pool>, owner: &Arc<Owner>, options: &PostgresOptions) -> Self {
        let commits = Arc::new(AtomicU64::new(0));
        let queues = (0..options.writers.max(1))
            .map(|_| {
                let (sender, receiver) = mpsc::channel(options.queue.max(1));
                let writer = Writer {
                    pool: Arc::clone(pool),
                    owner: Arc::clone(owner),
                    commits: Arc::clone(&commits),
                    session: None,
                };
                // The task ends when the store is dropped and the queue is empty.
                tokio::spawn(writer.run(receiver));
                sender
            })
            .collect();
        Self {
            queues,
            patience: options.acquire_timeout,
            commits,
        }
    }

    pub(super) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Appends the items of one call. Those of the same execution go one after the other, each in
    /// its own round; all others go together.
    pub(super) async fn append(&self, items: Vec<Result<Rows, AppendRefused>>) -> Vec<Verdict> {
        let mut verdicts: Vec<Option<Verdict>> = Vec::new();
        let mut left = VecDeque::new();
        for (place, rows) in items.into_iter().enumerate() {
            match rows {
                Ok(rows) => {
                    verdicts.push(None);
                    left.push_back((place, rows));
                }
                Err(refused) => verdicts.push(Some(Err(refused))),
            }
        }
        while !left.is_empty() {
            let (round, later) = split_round(left);
            left = later;
            let mut replies = Vec::new();
            for (place, rows) in round {
                replies.push((place, self.send(rows).await));
            }
            for (place, reply) in replies {
                let verdict = match reply {
                    Ok(reply) => reply.await.unwrap_or_else(|_| {
                        Err(StoreError::unknown("the writer has stopped").into())
                    }),
                    Err(error) => Err(error.into()),
                };
                if let Some(slot) = verdicts.get_mut(place) {
                    *slot = Some(verdict);
                }
            }
        }
        let unanswered = || Err(StoreError::fatal("an append was not answered").into());
        verdicts
            .into_iter()
            .map(|verdict| verdict.unwrap_or_else(unanswered))
            .collect()
    }

    async fn send(&self, rows: Rows) -> Result<oneshot::Receiver<Verdict>, StoreError> {
        let stopped = || StoreError::fatal("the writer has stopped");
        let count = self.queues.len().max(1);
        // Ids of one millisecond differ in their lowest bits, those of others above.
        let id = rows.execution_id.get();
        let mixed = (id ^ (id >> 22)).unsigned_abs();
        let place = usize::try_from(mixed).unwrap_or_default() % count;
        let queue = self.queues.get(place).ok_or_else(stopped)?;
        let place = timeout(self.patience, queue.reserve()).await;
        let saturated = |_| StoreError::retry(Saturated(self.patience));
        let place = place.map_err(saturated)?.map_err(|_| stopped())?;
        let (reply, receiver) = oneshot::channel();
        place.send(Waiting { rows, reply });
        Ok(receiver)
    }
}

type Placed = (usize, Rows);

/// The first item of every execution, and the rest.
fn split_round(items: VecDeque<Placed>) -> (Vec<Placed>, VecDeque<Placed>) {
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

/// A connection with its statement.
struct Session {
    client: Client,
    prepared: Prepared,
}

struct Writer {
    pool: Arc<Pool>,
    owner: Arc<Owner>,
    commits: Arc<AtomicU64>,
    session: Option<Session>,
}

impl Writer {
    async fn run(mut self, mut queue: mpsc::Receiver<Waiting>) {
        let mut waiting = VecDeque::new();
        loop {
            if waiting.is_empty() {
                match queue.recv().await {
                    Some(first) => waiting.push_back(first),
                    None => return,
                }
            }
            while waiting.len() < MAX_GROUP
                && let Ok(next) = queue.try_recv()
            {
                waiting.push_back(next);
            }
            let group = take_group(&mut waiting);
            self.write(group).await;
        }
    }

    async fn write(&mut self, group: Vec<Waiting>) {
        let items: Vec<_> = group.iter().map(|waiting| &waiting.rows).collect();
        let verdicts = self.group(&items).await;
        for (waiting, verdict) in group.into_iter().zip(verdicts) {
            // Who no longer waits for the answer does not get one.
            let _ = waiting.reply.send(verdict);
        }
    }

    /// Appends a group; if the statement fails because of one item, each is tried by itself, so that
    /// none fails its neighbours.
    async fn group(&mut self, items: &[&Rows]) -> Vec<Verdict> {
        let error = match self.attempt(items).await {
            Ok(verdicts) => return verdicts,
            Err(error) => error,
        };
        let is_of_an_item = matches!(
            error,
            Failed::IdTaken | Failed::Store(StoreError::Fatal { .. })
        );
        if !is_of_an_item || items.len() == 1 {
            let refused = AppendRefused::from(error);
            return vec![Err(refused); items.len()];
        }
        let mut verdicts = Vec::with_capacity(items.len());
        for item in items {
            match self.attempt(&[*item]).await {
                Ok(mut verdict) => verdicts.append(&mut verdict),
                Err(error) => verdicts.push(Err(error.into())),
            }
        }
        verdicts
    }

    /// Sends a statement, once more when the log lacks a month.
    async fn attempt(&mut self, items: &[&Rows]) -> Result<Vec<Verdict>, Failed> {
        match self.send(items).await {
            Err(Failed::NoPartition) => {
                self.make_months(items).await?;
                self.send(items).await
            }
            result => result,
        }
    }

    async fn send(&mut self, items: &[&Rows]) -> Result<Vec<Verdict>, Failed> {
        let session = self.session().await?;
        let result = append::append(&session.client, &mut session.prepared, items).await;
        match result {
            Ok(verdicts) => {
                self.commits.fetch_add(1, Ordering::Relaxed);
                Ok(verdicts)
            }
            Err(error) if is_taken(&error) => Err(Failed::IdTaken),
            Err(error) if lacks_partition(&error) => Err(Failed::NoPartition),
            Err(error) => Err(Failed::Store(failure(error))),
        }
    }

    async fn session(&mut self) -> Result<&mut Session, StoreError> {
        let session = match self.session.take() {
            Some(session) if !session.client.is_closed() => session,
            Some(_) | None => {
                let client = self.pool.connect().await?;
                Session {
                    client,
                    prepared: Prepared::default(),
                }
            }
        };
        Ok(self.session.insert(session))
    }

    async fn make_months(&self, items: &[&Rows]) -> Result<(), StoreError> {
        let month = |id: ExecutionId| Month::of(id.time());
        let months: BTreeSet<Month> = items.iter().map(|item| month(item.execution_id)).collect();
        let mut pooled = self.owner.get().await?;
        for month in months {
            partition::ensure(pooled.client()?, &self.owner, month).await?;
        }
        pooled.done();
        Ok(())
    }
}

/// Why a statement wrote nothing, or may not have.
enum Failed {
    IdTaken,
    NoPartition,
    Store(StoreError),
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<Failed> for AppendRefused {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::IdTaken => Self::IdTaken,
            Failed::NoPartition => StoreError::fatal("the log lacks a month").into(),
            Failed::Store(error) => error.into(),
        }
    }
}

/// As many of the first as fit, each execution once; the others keep their order.
fn take_group(waiting: &mut VecDeque<Waiting>) -> Vec<Waiting> {
    let mut executions = BTreeSet::new();
    let (mut events, mut bytes) = (0, 0);
    let mut group = Vec::new();
    let mut later = VecDeque::new();
    for item in waiting.drain(..) {
        let (more_events, more_bytes) = (events + item.rows.events.len(), bytes + item.rows.bytes);
        let fits = more_events <= MAX_GROUP_EVENTS && more_bytes <= MAX_GROUP_BYTES;
        let fits = fits || group.is_empty();
        // An execution that is put off stays put off, or its appends would change places.
        if executions.insert(item.rows.execution_id) && fits {
            (events, bytes) = (more_events, more_bytes);
            group.push(item);
        } else {
            later.push_back(item);
        }
    }
    *waiting = later;
    group
}

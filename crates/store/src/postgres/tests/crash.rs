//! PostgreSQL is killed under load.
//!
//! A kill loses the memory of the database, but no data that it has written to a file. The test
//! proves that an answer waits for the commit. The control test proves that a loss would be
//! detected.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use noetl_testkit::postgres::{ClusterRole, PostgresCluster, TestDatabase};
use noetl_types::record::verify_chain;
use noetl_types::{ExecutionId, ExecutionVersion, StoredEvent};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{connect_raw, test_options};
use crate::postgres::{PostgresOptions, PostgresStore};
use crate::prelude::*;
use crate::suite::dedup::dedup_reservation;
use crate::suite::fixture::{TestExecution, append_one};
use crate::{AppendError, AppendRequest, LogHead, LogPageLimit, StoreError};

const WRITER_COUNT: usize = 32;
/// Answers before a kill.
const ANSWERS_BEFORE_KILL: usize = 600;
/// Offset of the run that a redelivered message starts.
const REDELIVERY_ID_OFFSET: i64 = 1_000_000;

/// Builds the start of a run. Runs with even numbers are started by messages that may be delivered
/// twice.
fn start_append(number: i64, run: &TestExecution) -> AppendRequest {
    let dedup =
        (number % 2 == 0).then(|| dedup_reservation(&number.to_string(), "body", "12:00:00"));
    AppendRequest { dedup, ..run.start_request() }
}

/// Answers that the writers received.
#[derive(Default)]
struct WriterAnswers {
    /// The newest acknowledged head of each run.
    acknowledged: BTreeMap<ExecutionId, LogHead>,
    /// Runs whose last append has an unknown outcome.
    unknown: usize,
}

/// A separate database that is killed, and a store that reconnects to it.
struct CrashHarness {
    cluster: PostgresCluster,
    database: TestDatabase,
    store: Arc<PostgresStore>,
    next_run: Arc<AtomicI64>,
}

impl CrashHarness {
    async fn new(settings: &[&str], synchronous_commit: &'static str) -> Self {
        let cluster = PostgresCluster::start_private(settings, ClusterRole::Primary).unwrap();
        let database = TestDatabase::in_cluster(&cluster).unwrap();
        let options = PostgresOptions { synchronous_commit, ..test_options(&database) };
        let store = Arc::new(PostgresStore::open(&options).await.unwrap());
        // The tables themselves must survive the kill.
        database.run_statement("CHECKPOINT").unwrap();
        Self { cluster, database, store, next_run: Arc::default() }
    }

    /// Writes until the kill, then restarts the database.
    async fn write_until_killed(&self) -> WriterAnswers {
        let (answer_sender, mut answer_receiver) = mpsc::unbounded_channel();
        let mut writers = JoinSet::new();
        for _ in 0..WRITER_COUNT {
            let store = Arc::clone(&self.store);
            let next_run = Arc::clone(&self.next_run);
            writers.spawn(write_until_failure(store, next_run, answer_sender.clone()));
        }
        drop(answer_sender);
        let mut answers = WriterAnswers::default();
        let mut count = 0;
        let mut kill_task = None;
        // The channel closes when the last writer stops.
        while let Some((run, head)) = answer_receiver.recv().await {
            answers.acknowledged.insert(run, head);
            count += 1;
            if count == ANSWERS_BEFORE_KILL {
                let cluster = self.cluster.clone();
                kill_task = Some(tokio::task::spawn_blocking(move || cluster.kill_cluster()));
            }
        }
        answers.unknown = writers.join_all().await.into_iter().sum();
        let kill_task = kill_task.expect("the writers stop because of the kill");
        kill_task.await.unwrap().unwrap();
        let cluster = self.cluster.clone();
        let restart_task = tokio::task::spawn_blocking(move || cluster.restart_after_kill());
        restart_task.await.unwrap().unwrap();
        answers
    }

    /// Counts the runs that lack their acknowledged head.
    async fn count_lost(&self, answers: &WriterAnswers) -> usize {
        let mut lost = 0;
        for (run, head) in &answers.acknowledged {
            let log = self.read_log(*run).await;
            verify_chain(&log).unwrap();
            let exists = log.iter().any(|event| {
                ExecutionVersion::from(event.record.seq) == head.version
                    && event.chain == head.chain
            });
            lost += usize::from(!exists);
            let unacknowledged = log.last().map_or(0, |last| {
                ExecutionVersion::from(last.record.seq).get() - head.version.get()
            });
            assert!(unacknowledged <= 1, "a writer waits for each answer");
        }
        lost
    }

    /// Redelivers every message of some runs, each to start another run. Exactly one of the two
    /// runs must exist, independent of the answer before the kill.
    async fn redeliver_messages(&self, numbers: std::ops::Range<i64>, answers: &WriterAnswers) {
        let orphans = "SELECT count(*) FROM subscription_dedup WHERE NOT EXISTS (
            SELECT FROM execution WHERE execution.execution_id = subscription_dedup.execution_id
        )";
        let client = connect_raw(&self.database).await;
        let count = async |sql| client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0);
        assert_eq!(count(orphans).await, 0, "a dedup key without its execution");
        for number in numbers.filter(|number| number % 2 == 0) {
            let (first, second) =
                (TestExecution::new(number), TestExecution::new(number + REDELIVERY_ID_OFFSET));
            let redelivery = AppendRequest {
                dedup: start_append(number, &first).dedup,
                ..second.start_request()
            };
            let is_acknowledged = answers.acknowledged.contains_key(&first.id);
            let first_exists = match self.deliver_message(redelivery).await {
                Some(execution_id) => {
                    assert_eq!(execution_id, first.id);
                    true
                }
                None => false,
            };
            assert!(first_exists || !is_acknowledged, "the message of {number} is lost");
            for (run, exists) in [(&first, first_exists), (&second, !first_exists)] {
                assert_eq!(self.read_log(run.id).await.is_empty(), !exists, "{number}");
            }
        }
        assert_eq!(count(orphans).await, 0);
    }

    /// Starts a run by a message. Returns the run that the message has already started, if any.
    async fn deliver_message(&self, start: AppendRequest) -> Option<ExecutionId> {
        for _ in 0..100 {
            match append_one(&*self.store, start.clone()).await {
                Ok(_) | Err(AppendError::AlreadyExists) => return None,
                Err(AppendError::Duplicate { execution_id }) => return Some(execution_id),
                // The connection is from before the kill.
                Err(AppendError::Store(StoreError::Retry { .. })) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
        panic!("the restarted database cannot be written to");
    }

    /// Reads a log. Panics if it cannot be read, since that does not prove a loss.
    async fn read_log(&self, run: ExecutionId) -> Vec<StoredEvent> {
        // Connections from before the kill fail once each, and there are few of them.
        for _ in 0..100 {
            match self.store.read_events(run, ExecutionVersion::EMPTY, LogPageLimit::MAX).await {
                Ok(log) => return log,
                Err(StoreError::Retry { .. }) => {}
                Err(fatal @ StoreError::Fatal { .. }) => panic!("not read: {fatal}"),
            }
        }
        panic!("the restarted database cannot be read");
    }
}

/// Writes short runs in sequence. Returns the number of appends with an unknown outcome.
async fn write_until_failure(
    store: Arc<PostgresStore>,
    next_run: Arc<AtomicI64>,
    answer_sender: mpsc::UnboundedSender<(ExecutionId, LogHead)>,
) -> usize {
    loop {
        let number = next_run.fetch_add(1, Ordering::Relaxed);
        let mut run = TestExecution::new(number);
        let builders: [fn(i64, &mut TestExecution) -> AppendRequest; 3] = [
            |number, run| start_append(number, run),
            |_, run| run.step_request(),
            |_, run| run.end_request(),
        ];
        for build in builders {
            let append = build(number, &mut run);
            match run.append_to(&*store, append).await {
                Ok(appended) => answer_sender.send((run.id, appended.head)).unwrap(),
                Err(AppendError::Store(StoreError::Retry { outcome_unknown, .. })) => {
                    return usize::from(outcome_unknown);
                }
                Err(other) => panic!("{other:?}"),
            }
        }
    }
}

/// If the first delivery of a message got no answer, its redelivery still results in exactly one
/// run.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn killed_postgres_loses_no_acknowledged_append() {
    let harness = CrashHarness::new(&[], "on").await;
    let mut unknown = 0;
    // All rounds use the same store, which has to reconnect.
    for round in 0..3 {
        let first = harness.next_run.load(Ordering::Relaxed);
        let answers = harness.write_until_killed().await;
        assert!(answers.acknowledged.len() >= ANSWERS_BEFORE_KILL / 3);
        assert_eq!(harness.count_lost(&answers).await, 0, "in round {round}");
        let end = harness.next_run.load(Ordering::Relaxed);
        harness.redeliver_messages(first..end, &answers).await;
        unknown += answers.unknown;
    }
    assert!(unknown > 0, "a kill leaves appends with an unknown outcome");
}

/// Control: the harness detects a loss where commits do not wait for the disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn asynchronous_commit_loses_acknowledged_appends() {
    let harness = CrashHarness::new(&["wal_writer_delay=10s"], "off").await;
    for _ in 0..20 {
        let answers = harness.write_until_killed().await;
        if harness.count_lost(&answers).await > 0 {
            return;
        }
    }
    panic!("nothing was ever lost");
}

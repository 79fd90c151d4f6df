//! PostgreSQL is killed under load.
//!
//! A kill takes what the database had in its memory, but not what it had written to a file. So this
//! shows that an answer waits for the commit, and the control shows that a loss would be seen.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use noetl_testkit::postgres::{Cluster, Database, Role};
use noetl_types::record::verify_chain;
use noetl_types::{ExecutionId, StoredEvent, Version};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{options, raw};
use crate::postgres::{PostgresOptions, PostgresStore};
use crate::suite::claim::message;
use crate::suite::fixture::{Run, one};
use crate::{Append, AppendRefused, Head, LogPage, Store as _, StoreError};

const WRITERS: usize = 32;
/// Answers before a kill.
const ENOUGH: usize = 600;
/// How far the runs that a message is given to once more are from those before.
const AGAIN: i64 = 1_000_000;

/// The start of a run. Those of even numbers are started by messages that may come twice.
fn start(number: i64, run: &Run) -> Append {
    let dedup = (number % 2 == 0).then(|| message(&number.to_string(), "body", "12:00:00"));
    Append {
        dedup,
        ..run.start()
    }
}

/// What the writers were told.
#[derive(Default)]
struct Told {
    /// The newest answer about each run.
    acknowledged: BTreeMap<ExecutionId, Head>,
    /// Runs that somebody was waiting for an answer about: what they waited for may be there or not.
    unknown: usize,
}

/// A database of its own that is killed, and a store that lives through it.
struct Bench {
    cluster: Cluster,
    database: Database,
    store: Arc<PostgresStore>,
    next_run: Arc<AtomicI64>,
}

impl Bench {
    async fn new(settings: &[&str], synchronous_commit: &'static str) -> Self {
        let cluster = Cluster::own(settings, Role::Primary).unwrap();
        let database = Database::of(&cluster).unwrap();
        let options = PostgresOptions {
            synchronous_commit,
            ..options(&database)
        };
        let store = Arc::new(PostgresStore::open(&options).await.unwrap());
        // The tables are not what is to be lost.
        database.run("CHECKPOINT").unwrap();
        Self {
            cluster,
            database,
            store,
            next_run: Arc::default(),
        }
    }

    /// Writes until the kill, and starts the database again.
    async fn round(&self) -> Told {
        let (tell, mut answers) = mpsc::unbounded_channel();
        let mut writers = JoinSet::new();
        for _ in 0..WRITERS {
            let store = Arc::clone(&self.store);
            let next_run = Arc::clone(&self.next_run);
            writers.spawn(write_until_it_fails(store, next_run, tell.clone()));
        }
        drop(tell);
        let mut told = Told::default();
        let mut count = 0;
        let mut killing = None;
        // The end of the answers is that of the last writer.
        while let Some((run, head)) = answers.recv().await {
            told.acknowledged.insert(run, head);
            count += 1;
            if count == ENOUGH {
                let cluster = self.cluster.clone();
                killing = Some(tokio::task::spawn_blocking(move || cluster.kill()));
            }
        }
        told.unknown = writers.join_all().await.into_iter().sum();
        let killing = killing.expect("the writers stop because of the kill");
        killing.await.unwrap().unwrap();
        let cluster = self.cluster.clone();
        let start = tokio::task::spawn_blocking(move || cluster.start_again());
        start.await.unwrap().unwrap();
        told
    }

    /// How many of the runs are not as they were acknowledged.
    async fn lost(&self, told: &Told) -> usize {
        let mut lost = 0;
        for (run, head) in &told.acknowledged {
            let log = self.read(*run).await;
            verify_chain(&log).unwrap();
            let is_there = log.iter().any(|event| {
                Version::from(event.record.seq) == head.version && event.chain == head.chain
            });
            lost += usize::from(!is_there);
            let unacknowledged = log.last().map_or(0, |last| {
                Version::from(last.record.seq).get() - head.version.get()
            });
            assert!(unacknowledged <= 1, "a writer waits for each answer");
        }
        lost
    }

    /// Gives every message of some runs out once more, each to start another run: whatever was said about
    /// it before the kill, it has started one of the two.
    async fn redeliver(&self, numbers: std::ops::Range<i64>, told: &Told) {
        let orphans = "SELECT count(*) FROM subscription_dedup WHERE NOT EXISTS (
            SELECT FROM execution WHERE execution.execution_id = subscription_dedup.execution_id
        )";
        let client = raw(&self.database).await;
        let count = async |sql| client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0);
        assert_eq!(count(orphans).await, 0, "a claim without its execution");
        for number in numbers.filter(|number| number % 2 == 0) {
            let (first, second) = (Run::new(number), Run::new(number + AGAIN));
            let again = Append {
                dedup: start(number, &first).dedup,
                ..second.start()
            };
            let is_told = told.acknowledged.contains_key(&first.id);
            let is_first_there = match self.deliver(again).await {
                Some(execution_id) => {
                    assert_eq!(execution_id, first.id);
                    true
                }
                None => false,
            };
            assert!(
                is_first_there || !is_told,
                "the message of {number} is lost"
            );
            for (run, is_there) in [(&first, is_first_there), (&second, !is_first_there)] {
                assert_eq!(self.read(run.id).await.is_empty(), !is_there, "{number}");
            }
        }
        assert_eq!(count(orphans).await, 0);
    }

    /// Starts a run by a message; gives the one that it has started before.
    async fn deliver(&self, start: Append) -> Option<ExecutionId> {
        for _ in 0..100 {
            match one(&*self.store, start.clone()).await {
                Ok(_) | Err(AppendRefused::AlreadyExists) => return None,
                Err(AppendRefused::Duplicate { execution_id }) => return Some(execution_id),
                // Of connections from before the kill.
                Err(AppendRefused::Store(StoreError::Retry { .. })) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
        panic!("the database was started again, and cannot be written to");
    }

    /// A log that cannot be read says nothing about what is in it.
    async fn read(&self, run: ExecutionId) -> Vec<StoredEvent> {
        // Connections from before the kill are found out by using them, and there are few.
        for _ in 0..100 {
            match self.store.events(run, Version::EMPTY, LogPage::MAX).await {
                Ok(log) => return log,
                Err(StoreError::Retry { .. }) => {}
                Err(fatal @ StoreError::Fatal { .. }) => panic!("not read: {fatal}"),
            }
        }
        panic!("the database was started again, and cannot be read");
    }
}

/// Writes short runs one after the other; gives how many answers never came.
async fn write_until_it_fails(
    store: Arc<PostgresStore>,
    next_run: Arc<AtomicI64>,
    tell: mpsc::UnboundedSender<(ExecutionId, Head)>,
) -> usize {
    loop {
        let number = next_run.fetch_add(1, Ordering::Relaxed);
        let mut run = Run::new(number);
        let acts: [fn(i64, &mut Run) -> Append; 3] = [
            |number, run| start(number, run),
            |_, run| run.step(),
            |_, run| run.end(),
        ];
        for act in acts {
            let append = act(number, &mut run);
            match run.write(&*store, append).await {
                Ok(appended) => tell.send((run.id, appended.head)).unwrap(),
                Err(AppendRefused::Store(StoreError::Retry {
                    outcome_unknown, ..
                })) => return usize::from(outcome_unknown),
                Err(other) => panic!("{other:?}"),
            }
        }
    }
}

/// Nor does a message start nothing, or two runs, where its first delivery got no answer.
/// Hole D1.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_acknowledged_is_lost_when_postgres_is_killed() {
    let bench = Bench::new(&[], "on").await;
    let mut unknown = 0;
    // The store of the first round is that of the last: it connects anew.
    for round in 0..3 {
        let first = bench.next_run.load(Ordering::Relaxed);
        let told = bench.round().await;
        assert!(told.acknowledged.len() >= ENOUGH / 3);
        assert_eq!(bench.lost(&told).await, 0, "in round {round}");
        let behind = bench.next_run.load(Ordering::Relaxed);
        bench.redeliver(first..behind, &told).await;
        unknown += told.unknown;
    }
    assert!(unknown > 0, "a kill in mid-flight leaves somebody waiting");
}

/// A harness that never fails proves nothing.
/// Hole T14.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_store_that_does_not_wait_for_the_disk_loses_acknowledged_runs() {
    let bench = Bench::new(&["wal_writer_delay=10s"], "off").await;
    for _ in 0..20 {
        let told = bench.round().await;
        if bench.lost(&told).await > 0 {
            return;
        }
    }
    panic!("nothing was ever lost");
}

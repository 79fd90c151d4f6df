//! Partitions of the log are dropped while others read and write it.
//!
//! Lock waits are read from the database, so no test depends on a clock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use noetl_testkit::postgres::TestDatabase;
use noetl_types::{ExecutionId, Month};
use tokio::task::JoinSet;

use super::publishing::{purge_before_november, write_august_run, write_ended_run_in};
use super::{connect_raw, new_database, open_store};
use crate::postgres::PostgresStore;
use crate::prelude::*;
use crate::suite::damaged_rows;
use crate::suite::fixture::{TestExecution, append_one};
use crate::{
    AppendError, LogPartition, OldPartition, PinReason, PurgePlan, PurgeReport, purge_old_data,
};

/// Tasks that start and end executions until they are stopped.
struct BackgroundWriters {
    stop_flag: Arc<AtomicBool>,
    written: Arc<AtomicI64>,
    tasks: JoinSet<()>,
}

impl BackgroundWriters {
    fn start(store: &Arc<PostgresStore>) -> Self {
        let (stop_flag, written) = (Arc::<AtomicBool>::default(), Arc::<AtomicI64>::default());
        let mut tasks = JoinSet::new();
        for _ in 0..4 {
            let (store, stop_flag) = (Arc::clone(store), Arc::clone(&stop_flag));
            let written = Arc::clone(&written);
            tasks.spawn(async move {
                while !stop_flag.load(Ordering::Relaxed) {
                    let number = written.fetch_add(1, Ordering::Relaxed);
                    let mut run = TestExecution::create_started(&*store, number).await;
                    let end = run.end_request();
                    run.append_to(&*store, end).await.unwrap();
                }
            });
        }
        Self { stop_flag, written, tasks }
    }

    /// Stops the writers and returns the number of executions. Panics if any of them failed.
    async fn stop(mut self) -> i64 {
        self.stop_flag.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
        self.written.load(Ordering::Relaxed)
    }
}

/// Selects the waits for a lock of the log or of one partition: the waiting statement, its lock
/// mode, true for the log as a whole, and the start of the blocking transaction.
const LOCK_WAITS_SQL: &str = "SELECT waiting.pid::text || ' ' || waiting.query_start::text,
        requested.mode, requested.relation = 'noetl.event'::regclass, blocking.xact_start::text
    FROM pg_locks AS requested
    JOIN pg_stat_activity AS waiting ON waiting.pid = requested.pid
    CROSS JOIN LATERAL unnest(pg_blocking_pids(requested.pid)) AS blocker(pid)
    JOIN pg_stat_activity AS blocking ON blocking.pid = blocker.pid
    WHERE NOT requested.granted AND requested.locktype = 'relation'
        AND waiting.datname = current_database() AND blocking.xact_start IS NOT NULL";

/// Lock waits that were observed.
#[derive(Default)]
struct ObservedWaits {
    /// True if a drop has waited. Only then do the other observations prove anything.
    drop_waited: bool,
    /// Blocking transactions of each waiting statement of a writer.
    writers: BTreeMap<String, BTreeSet<String>>,
}

impl ObservedWaits {
    async fn record_waits(&mut self, watcher: &tokio_postgres::Client) {
        for row in watcher.query(LOCK_WAITS_SQL, &[]).await.unwrap() {
            let (mode, is_log): (&str, bool) = (row.get(1), row.get(2));
            self.drop_waited |= mode == "AccessExclusiveLock";
            if mode == "RowExclusiveLock" && is_log {
                let waits = self.writers.entry(row.get(0)).or_default();
                waits.insert(row.get(3));
            }
        }
    }
}

/// Purges repeatedly until a drop was seen waiting for the reader. Panics if a partition is
/// dropped.
async fn purge_until_blocked(
    store: &PostgresStore,
    plan: &PurgePlan,
    database: &TestDatabase,
) -> ObservedWaits {
    let watcher = connect_raw(database).await;
    let mut observed = ObservedWaits::default();
    while !observed.drop_waited {
        let purge = purge_old_data(store, plan, &());
        tokio::pin!(purge);
        let report: PurgeReport = loop {
            tokio::select! {
                biased;
                report = &mut purge => break report.unwrap(),
                () = observed.record_waits(&watcher) => {}
            }
        };
        assert_eq!(report.dropped, []);
    }
    observed
}

/// A report that reads the whole log keeps its partitions, and no writer waits behind the drop that
/// waits for the report.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writers_do_not_wait_for_blocked_drop() {
    for query in [
        "SELECT count(*) FROM event",
        // A reader of a single partition, such as a backup.
        "SELECT count(*) FROM event_y2026m08",
    ] {
        let database = new_database();
        let store = Arc::new(open_store(&database).await);
        let old = write_august_run(&*store).await;
        let plan = purge_before_november(&*store).await;
        let mut other = connect_raw(&database).await;
        let reader = other.transaction().await.unwrap();
        reader.query(query, &[]).await.unwrap();
        let writers = BackgroundWriters::start(&store);
        let observed = purge_until_blocked(&store, &plan, &database).await;
        // The last runs of the writers end while the reader is still open.
        assert!(writers.stop().await > 0);
        assert_eq!(observed.writers, BTreeMap::new(), "{query}");
        assert!(store.find_execution(old.id).await.unwrap().is_some());
        reader.commit().await.unwrap();
        let report = purge_old_data(&*store, &plan, &()).await.unwrap();
        assert_eq!(report.dropped.len(), 1, "{report:?}");
    }
}

/// A reader of the current month locks the log as a whole, so writers wait behind a drop, but no
/// longer than one drop attempt.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writer_waits_for_at_most_one_drop_attempt() {
    let database = new_database();
    let store = Arc::new(open_store(&database).await);
    write_august_run(&*store).await;
    let run = TestExecution::create_started(&*store, 1_000_000).await;
    let plan = purge_before_november(&*store).await;
    let mut other = connect_raw(&database).await;
    let reader = other.transaction().await.unwrap();
    let query = format!("SELECT count(*) FROM event WHERE execution_id = {}", run.id.get());
    reader.query(&query, &[]).await.unwrap();
    let writers = BackgroundWriters::start(&store);
    let observed = purge_until_blocked(&store, &plan, &database).await;
    assert!(writers.stop().await > 0);
    let repeated_waits: Vec<_> = observed.writers.values().filter(|it| it.len() > 1).collect();
    assert!(repeated_waits.is_empty(), "{repeated_waits:?}");
    reader.commit().await.unwrap();
    let report = purge_old_data(&*store, &plan, &()).await.unwrap();
    assert_eq!(report.dropped.len(), 1, "{report:?}");
}

/// Of the months past the window, only those whose executions have all ended are dropped while
/// others write. Late events of a dropped month are refused, and a live execution in an older month
/// continues.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn drop_during_writes_removes_only_finished_months() {
    let database = new_database();
    let store = Arc::new(open_store(&database).await);
    let old = write_august_run(&*store).await;
    let first_id = LogPartition::for_month(Month::new(2026, 7).unwrap()).first_id;
    let mut live_run = TestExecution::with_id(first_id + 1_000_000);
    live_run.append_to(&*store, live_run.start_request()).await.unwrap();
    let mut ended_in_july = TestExecution::with_id(first_id + 9_000_000);
    ended_in_july.append_to(&*store, ended_in_july.start_request()).await.unwrap();
    let end = ended_in_july.end_request();
    ended_in_july.append_to(&*store, end).await.unwrap();
    let plan = purge_before_november(&*store).await;
    let writers = BackgroundWriters::start(&store);
    let report = loop {
        let report = purge_old_data(&*store, &plan, &()).await.unwrap();
        if !report.dropped.is_empty() {
            break report;
        }
    };
    let dropped: Vec<_> = report.dropped.iter().map(|old| old.partition.name.as_str()).collect();
    assert_eq!(dropped, ["event_y2026m08"]);
    let pinned: Vec<_> = report.skipped.iter().map(|it| it.pin_reason.as_ref()).collect();
    assert_eq!(pinned, [Some(&PinReason::NotEnded(live_run.id))]);
    // The partition is not created again for a late event.
    let mut late = old.clone();
    let step = late.step_request();
    assert_eq!(append_one(&*store, step).await, Err(AppendError::Dropped));
    let step = live_run.step_request();
    live_run.append_to(&*store, step).await.unwrap();
    let end = live_run.end_request();
    live_run.append_to(&*store, end).await.unwrap();
    let written = writers.stop().await;
    let exists = |id: ExecutionId| {
        let store = Arc::clone(&store);
        async move { store.find_execution(id).await.unwrap().is_some() }
    };
    for number in 0..written {
        assert!(exists(TestExecution::new(number).id).await, "{number}");
    }
    assert!(exists(ended_in_july.id).await && !exists(old.id).await);
    // All executions of July have ended.
    let report = purge_old_data(&*store, &plan, &()).await.unwrap();
    assert_eq!(report.dropped.len(), 1, "{report:?}");
}

/// A month that cannot be dropped is reported, and the next one is dropped. The cause is a reader,
/// or an object of an operator that depends on the partition.
#[tokio::test]
async fn undroppable_month_does_not_pin_others() {
    let database = new_database();
    let store = open_store(&database).await;
    let names = |partitions: &[OldPartition]| {
        let names = partitions.iter().map(|old| old.partition.name.to_string());
        names.collect::<Vec<_>>()
    };
    let reason = |report: &PurgeReport| report.skipped[0].pin_reason.as_ref().unwrap().to_string();
    write_ended_run_in(&store, 7).await;
    write_august_run(&store).await;
    let plan = purge_before_november(&store).await;
    let mut other = connect_raw(&database).await;
    let reader = other.transaction().await.unwrap();
    let query = "SELECT count(*) FROM event_y2026m07";
    reader.query(query, &[]).await.unwrap();
    let report = purge_old_data(&store, &plan, &()).await.unwrap();
    assert_eq!(names(&report.skipped), ["event_y2026m07"]);
    assert_eq!(names(&report.dropped), ["event_y2026m08"]);
    assert!(reason(&report).contains("lock timeout"), "{}", reason(&report));
    reader.commit().await.unwrap();

    write_ended_run_in(&store, 9).await;
    let view = "CREATE VIEW noetl.report AS SELECT event_type FROM noetl.event_y2026m07";
    database.run_statement(view).unwrap();
    let report = purge_old_data(&store, &plan, &()).await.unwrap();
    assert_eq!(names(&report.skipped), ["event_y2026m07"]);
    assert_eq!(names(&report.dropped), ["event_y2026m09"]);
    assert!(reason(&report).contains("view report depends"), "{}", reason(&report));
    database.run_statement("DROP VIEW noetl.report").unwrap();
    let report = purge_old_data(&store, &plan, &()).await.unwrap();
    assert_eq!(names(&report.dropped), ["event_y2026m07"]);
}

#[tokio::test]
async fn unreadable_month_does_not_pin_others() {
    let database = new_database();
    let store = open_store(&database).await;
    let run = |sql: String| database.run_statement(&sql).unwrap();
    damaged_rows::unreadable_month_does_not_pin_others(&store, run, "noetl.").await;
}

/// With a default partition, dropping any month would need a lock of all partitions, and a missing
/// month would go unnoticed.
#[tokio::test]
async fn event_table_has_no_default_partition() {
    let database = new_database();
    let _store = open_store(&database).await;
    let sql = "SELECT partdefid = 0 FROM pg_partitioned_table
        WHERE partrelid = 'noetl.event'::regclass";
    let row = connect_raw(&database).await.query_one(sql, &[]).await.unwrap();
    assert!(row.get::<_, bool>(0));
}

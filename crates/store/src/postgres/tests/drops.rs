//! Months of the log go while others read and write it.
//!
//! What waits for whom is asked of the database itself: no clock decides.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use noetl_testkit::postgres::Database;
use noetl_types::{ExecutionId, Month};
use tokio::task::JoinSet;

use super::outlets::{august, before_november, ended_in};
use super::{open, raw};
use crate::postgres::PostgresStore;
use crate::suite::damage;
use crate::suite::fixture::{Run, one};
use crate::{AppendRefused, LogPart, OldPart, Pinned, Purge, Purged, Store, purge};

/// Runs that begin and end for as long as nobody says that it is enough.
struct Writers {
    enough: Arc<AtomicBool>,
    written: Arc<AtomicI64>,
    tasks: JoinSet<()>,
}

impl Writers {
    fn start(store: &Arc<PostgresStore>) -> Self {
        let (enough, written) = (Arc::<AtomicBool>::default(), Arc::<AtomicI64>::default());
        let mut tasks = JoinSet::new();
        for _ in 0..4 {
            let (store, enough) = (Arc::clone(store), Arc::clone(&enough));
            let written = Arc::clone(&written);
            tasks.spawn(async move {
                while !enough.load(Ordering::Relaxed) {
                    let number = written.fetch_add(1, Ordering::Relaxed);
                    let mut run = Run::started(&*store, number).await;
                    let end = run.end();
                    run.write(&*store, end).await.unwrap();
                }
            });
        }
        Self {
            enough,
            written,
            tasks,
        }
    }

    /// How many runs were written; none of them failed.
    async fn stop(mut self) -> i64 {
        self.enough.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
        self.written.load(Ordering::Relaxed)
    }
}

/// Who waits for a lock of the log or of a month of it: who it is and since when, whether it is a
/// writer, and the transactions that it waits for.
const WAITS: &str = "SELECT waiting.pid::text || ' ' || waiting.query_start::text,
        asked.mode, asked.relation = 'noetl.event'::regclass, blocking.xact_start::text
    FROM pg_locks AS asked
    JOIN pg_stat_activity AS waiting ON waiting.pid = asked.pid
    CROSS JOIN LATERAL unnest(pg_blocking_pids(asked.pid)) AS blocker(pid)
    JOIN pg_stat_activity AS blocking ON blocking.pid = blocker.pid
    WHERE NOT asked.granted AND asked.locktype = 'relation'
        AND waiting.datname = current_database() AND blocking.xact_start IS NOT NULL";

/// What was seen of who waits.
#[derive(Default)]
struct Seen {
    /// Whether somebody who drops a month has waited: only then is there anything to see.
    drop_waited: bool,
    /// For which transactions each statement of a writer has waited.
    writers: BTreeMap<String, BTreeSet<String>>,
}

impl Seen {
    async fn look(&mut self, watcher: &tokio_postgres::Client) {
        for row in watcher.query(WAITS, &[]).await.unwrap() {
            let (mode, is_log): (&str, bool) = (row.get(1), row.get(2));
            self.drop_waited |= mode == "AccessExclusiveLock";
            if mode == "RowExclusiveLock" && is_log {
                let waits = self.writers.entry(row.get(0)).or_default();
                waits.insert(row.get(3));
            }
        }
    }
}

/// Purges, again and again, until somebody was seen to wait for the reader. Nothing may go.
async fn purge_in_vain(store: &PostgresStore, asked: &Purge, database: &Database) -> Seen {
    let watcher = raw(database).await;
    let mut seen = Seen::default();
    while !seen.drop_waited {
        let purging = purge(store, asked);
        tokio::pin!(purging);
        let done: Purged = loop {
            tokio::select! {
                biased;
                done = &mut purging => break done.unwrap(),
                () = seen.look(&watcher) => {}
            }
        };
        assert_eq!(done.dropped, []);
    }
    seen
}

/// A report that reads all of the log keeps its months, and no writer waits for whoever waits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r2_no_writer_waits_behind_a_drop_that_waits_for_a_report() {
    for report in [
        "SELECT count(*) FROM event",
        // Somebody looks at the one month alone, such as a backup.
        "SELECT count(*) FROM event_y2026m08",
    ] {
        let database = Database::new().unwrap();
        let store = Arc::new(open(&database).await);
        let old = august(&*store).await;
        let asked = before_november(&*store).await;
        let mut other = raw(&database).await;
        let reader = other.transaction().await.unwrap();
        reader.query(report, &[]).await.unwrap();
        let writers = Writers::start(&store);
        let seen = purge_in_vain(&store, &asked, &database).await;
        // Their last runs end while the reader reads.
        assert!(writers.stop().await > 0);
        assert_eq!(seen.writers, BTreeMap::new(), "{report}");
        assert!(store.execution(old.id).await.unwrap().is_some());
        reader.commit().await.unwrap();
        let done = purge(&*store, &asked).await.unwrap();
        assert_eq!(done.dropped.len(), 1, "{done:?}");
    }
}

/// A reader of the present month keeps the log as a whole, so that writers wait behind a drop; no
/// longer than one try lasts, whatever else the purge does.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r2_a_writer_waits_for_one_try_to_drop_a_month_at_most() {
    let database = Database::new().unwrap();
    let store = Arc::new(open(&database).await);
    august(&*store).await;
    let run = Run::started(&*store, 1_000_000).await;
    let asked = before_november(&*store).await;
    let mut other = raw(&database).await;
    let reader = other.transaction().await.unwrap();
    let report = format!(
        "SELECT count(*) FROM event WHERE execution_id = {}",
        run.id.get()
    );
    reader.query(&report, &[]).await.unwrap();
    let writers = Writers::start(&store);
    let seen = purge_in_vain(&store, &asked, &database).await;
    assert!(writers.stop().await > 0);
    let patient: Vec<_> = seen.writers.values().filter(|it| it.len() > 1).collect();
    assert!(patient.is_empty(), "{patient:?}");
    reader.commit().await.unwrap();
    let done = purge(&*store, &asked).await.unwrap();
    assert_eq!(done.dropped.len(), 1, "{done:?}");
}

/// Of months past the window those go in which nothing lives any more, while others write. What comes
/// late for them is refused, and what lives in an older month goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r1_only_what_may_go_goes_while_others_write() {
    let database = Database::new().unwrap();
    let store = Arc::new(open(&database).await);
    let old = august(&*store).await;
    let lo = LogPart::of(Month::new(2026, 7).unwrap()).lo;
    let mut live = Run::with_id(lo + 1_000_000);
    live.write(&*store, live.start()).await.unwrap();
    let mut ended_beside = Run::with_id(lo + 9_000_000);
    ended_beside
        .write(&*store, ended_beside.start())
        .await
        .unwrap();
    let end = ended_beside.end();
    ended_beside.write(&*store, end).await.unwrap();
    let asked = before_november(&*store).await;
    let writers = Writers::start(&store);
    let done = loop {
        let done = purge(&*store, &asked).await.unwrap();
        if !done.dropped.is_empty() {
            break done;
        }
    };
    let dropped: Vec<_> = done
        .dropped
        .iter()
        .map(|old| old.part.name.as_str())
        .collect();
    assert_eq!(dropped, ["event_y2026m08"]);
    let pinned: Vec<_> = done.skipped.iter().map(|it| it.pinned.as_ref()).collect();
    assert_eq!(pinned, [Some(&Pinned::Live(live.id))]);
    // It is not made anew for whoever comes late.
    let mut late = old.clone();
    let step = late.step();
    assert_eq!(one(&*store, step).await, Err(AppendRefused::Gone));
    let step = live.step();
    live.write(&*store, step).await.unwrap();
    let end = live.end();
    live.write(&*store, end).await.unwrap();
    let written = writers.stop().await;
    let is_there = |id: ExecutionId| {
        let store = Arc::clone(&store);
        async move { store.execution(id).await.unwrap().is_some() }
    };
    for number in 0..written {
        assert!(is_there(Run::new(number).id).await, "{number}");
    }
    assert!(is_there(ended_beside.id).await && !is_there(old.id).await);
    // Nothing lives in July any more.
    let done = purge(&*store, &asked).await.unwrap();
    assert_eq!(done.dropped.len(), 1, "{done:?}");
}

/// A month that cannot go is told, and the next one goes: whether others read it, or an operator has made
/// something that needs it.
#[tokio::test]
async fn a_month_that_cannot_go_keeps_no_other() {
    let database = Database::new().unwrap();
    let store = open(&database).await;
    let names = |parts: &[OldPart]| {
        let names = parts.iter().map(|old| old.part.name.to_string());
        names.collect::<Vec<_>>()
    };
    let why = |done: &Purged| done.skipped[0].pinned.as_ref().unwrap().to_string();
    ended_in(&store, 7).await;
    august(&store).await;
    let asked = before_november(&store).await;
    let mut other = raw(&database).await;
    let reader = other.transaction().await.unwrap();
    let report = "SELECT count(*) FROM event_y2026m07";
    reader.query(report, &[]).await.unwrap();
    let done = purge(&store, &asked).await.unwrap();
    assert_eq!(names(&done.skipped), ["event_y2026m07"]);
    assert_eq!(names(&done.dropped), ["event_y2026m08"]);
    assert!(why(&done).contains("lock timeout"), "{}", why(&done));
    reader.commit().await.unwrap();

    ended_in(&store, 9).await;
    let view = "CREATE VIEW noetl.report AS SELECT event_type FROM noetl.event_y2026m07";
    database.run(view).unwrap();
    let done = purge(&store, &asked).await.unwrap();
    assert_eq!(names(&done.skipped), ["event_y2026m07"]);
    assert_eq!(names(&done.dropped), ["event_y2026m09"]);
    assert!(why(&done).contains("view report depends"), "{}", why(&done));
    database.run("DROP VIEW noetl.report").unwrap();
    let done = purge(&store, &asked).await.unwrap();
    assert_eq!(names(&done.dropped), ["event_y2026m07"]);
}

#[tokio::test]
async fn a_month_that_cannot_be_looked_at_keeps_no_other() {
    let database = Database::new().unwrap();
    let store = open(&database).await;
    let run = |sql: String| database.run(&sql).unwrap();
    damage::a_month_that_cannot_be_looked_at_keeps_no_other(&store, run, "noetl.").await;
}

/// A table that takes whatever fits nowhere else would keep any month from going without a lock of
/// all, and would hide that a month is missing.
#[tokio::test]
async fn r3_no_table_takes_what_fits_nowhere_else() {
    let database = Database::new().unwrap();
    let _store = open(&database).await;
    let sql = "SELECT partdefid = 0 FROM pg_partitioned_table
        WHERE partrelid = 'noetl.event'::regclass";
    let row = raw(&database).await.query_one(sql, &[]).await.unwrap();
    assert!(row.get::<_, bool>(0));
}

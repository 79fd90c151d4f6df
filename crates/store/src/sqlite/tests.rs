//! The suite on SQLite, and what only a file can get wrong.

use std::future::{Ready, ready};
use std::sync::Arc;

use noetl_types::id::first_id_at;
use noetl_types::limits::PageLimit;
use rusqlite::Connection;
use tempfile::TempDir;
use tokio::task::JoinSet;

use super::writer::Durability;
use super::{SqliteOptions, SqliteStore};
use crate::suite::fixture::{Run, at, lease_of, one};
use crate::suite::result::{put, result};
use crate::suite::stream::an_unreadable_row_is_told_of;
use crate::suite::{
    Bench, damage, differ, differ_in_lanes, differ_with_faults, outlet_suite, store_suite,
};
use crate::{Commons as _, Outlets as _, Store as _, StoreError, Swept, Upkeep as _};

mod plans;
mod steps;

struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        Self {
            folder: TempDir::new().unwrap(),
        }
    }

    fn options(&self) -> SqliteOptions {
        SqliteOptions::new(self.folder.path().join("noetl.db"))
    }

    fn store(&self) -> SqliteStore {
        SqliteStore::open(&self.options()).unwrap()
    }
}

fn bench() -> Ready<Bench> {
    let place = Place::new();
    let path = place.options().path;
    let called = path.clone();
    let options = SqliteOptions {
        blobs: Some(place.folder.path().join("blobs")),
        ..place.options()
    };
    ready(Bench {
        store: Arc::new(SqliteStore::open(&options).unwrap()),
        drop_before: Box::new(move |time| {
            let connection = Connection::open(&path).unwrap();
            let hi = first_id_at(time.as_unix_ms());
            let range = "INSERT INTO retention_range (lo, hi, dropped_at) VALUES (0, ?1, 0)";
            connection.execute(range, [hi]).unwrap();
            let gone = "DELETE FROM execution WHERE execution_id < ?1";
            connection.execute(gone, [hi]).unwrap();
            Box::pin(async {})
        }),
        call_row: Box::new(move |row, name| {
            let connection = Connection::open(&called).unwrap();
            let call = "UPDATE outbox SET message_id = ?2 WHERE outbox_id = ?1";
            connection.execute(call, (row.get(), name)).unwrap();
        }),
        keep: Box::new(place),
    })
}

store_suite!(bench);
outlet_suite!(bench);

#[tokio::test]
async fn o7_a_damaged_row_dies_alone() {
    let place = Place::new();
    let store = place.store();
    let connection = Connection::open(place.options().path).unwrap();
    let run = |sql: String| assert_eq!(connection.execute(&sql, []).unwrap(), 1);
    damage::o7_a_damaged_row_dies_alone(&store, run, "").await;
}

#[tokio::test]
async fn a_month_that_cannot_be_looked_at_keeps_no_other() {
    let place = Place::new();
    let store = place.store();
    let connection = Connection::open(place.options().path).unwrap();
    let run = |sql: String| assert_eq!(connection.execute(&sql, []).unwrap(), 1);
    damage::a_month_that_cannot_be_looked_at_keeps_no_other(&store, run, "").await;
}

#[tokio::test]
async fn histories_are_those_of_the_model() {
    sweep(0..20).await;
}

async fn sweep(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        println!("seed {seed}");
        let place = Place::new();
        differ(&place.store(), seed, 200).await;
        let place = Place::new();
        differ_with_faults(place.store(), seed, 200).await;
    }
}

#[tokio::test]
#[ignore = "a long sweep"]
async fn heavy_many_histories_are_those_of_the_model() {
    sweep(1_000..3_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 16)]
async fn histories_beside_each_other_are_those_of_the_model() {
    let place = Place::new();
    differ_in_lanes(Arc::new(place.store()), 0, 16, 200).await;
}

#[tokio::test]
async fn all_is_there_when_the_file_is_opened_again() {
    let place = Place::new();
    let mut run = Run::started(&place.store(), 1).await;
    let store = place.store();
    let append = run.step();
    run.write(&store, append).await.unwrap();
    let execution = store.execution(run.id).await.unwrap().unwrap();
    assert_eq!(execution.head, run.head);
}

#[tokio::test]
async fn a_file_is_read_beside_whoever_writes_it() {
    let place = Place::new();
    assert!(SqliteStore::open_to_read(&place.options()).is_err());
    let store = place.store();
    let mut run = Run::started(&store, 1).await;
    let reader = SqliteStore::open_to_read(&place.options()).unwrap();
    let append = run.step();
    run.write(&store, append).await.unwrap();
    let execution = reader.execution(run.id).await.unwrap().unwrap();
    assert_eq!(execution.head, run.head);
    let refused = one(&reader, Run::new(2).start()).await.unwrap_err();
    assert!(
        format!("{refused:?}").contains("for reading only"),
        "{refused:?}"
    );
    // Nobody writes any more, and what was written is still there to be read.
    drop((store, reader));
    let reader = SqliteStore::open_to_read(&place.options()).unwrap();
    assert!(reader.execution(run.id).await.unwrap().is_some());
}

#[tokio::test]
async fn a_file_that_is_not_up_to_date_is_not_read() {
    let place = Place::new();
    drop(place.store());
    let connection = Connection::open(place.options().path).unwrap();
    let newest =
        "DELETE FROM schema_migration WHERE version = (SELECT max(version) FROM schema_migration)";
    connection.execute(newest, []).unwrap();
    let refused = SqliteStore::open_to_read(&place.options()).unwrap_err();
    assert!(format!("{refused:?}").contains("OldFile"), "{refused:?}");
    let schema = SqliteStore::schema(&place.options()).unwrap();
    assert!(schema.is_old() && schema.version == schema.newest - 1);
    drop(connection);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_appends_share_few_commits() {
    let place = Place::new();
    let store = Arc::new(place.store());
    // The writer is busy before the first append comes, and until all of them wait.
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    let (begin, mut has_begun) = tokio::sync::mpsc::unbounded_channel();
    let busy = {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            store
                .writer
                .run(Durability::Forgettable, move |_| {
                    begin.send(()).unwrap();
                    // The sender is dropped when everything waits.
                    let _ = receiver.recv();
                    Ok(())
                })
                .await
        })
    };
    has_begun.recv().await.unwrap();
    let mut appends = JoinSet::new();
    for number in 0..256 {
        let store = Arc::clone(&store);
        appends.spawn(async move { one(&*store, Run::new(number).start()).await });
    }
    while store.writer.waiting() < 256 {
        tokio::task::yield_now().await;
    }
    let before = store.commits();
    drop(sender);
    busy.await.unwrap().unwrap();
    for result in appends.join_all().await {
        result.unwrap();
    }
    let commits = store.commits().all - before.all;
    assert!(commits < 20, "{commits} commits");
    // The log file of SQLite itself marks the last page of every commit that wrote anything, which
    // the first one did not.
    let in_file = commits_in_wal(&place.options().path);
    // Opening a new file takes one for each migration, and one for their table.
    let newest = SqliteStore::schema(&place.options()).unwrap().newest;
    let migrating = u64::try_from(newest).unwrap() + 1;
    assert_eq!(in_file, migrating + commits - 1);
}

/// A plan that looked at what was bound would be made anew at each use.
#[tokio::test]
async fn a_statement_out_of_the_cache_is_not_prepared_again() {
    let place = Place::new();
    let store = SqliteStore::open(&place.options()).unwrap();
    let prepared = store
        .writer
        .run(Durability::Synced, |connection| {
            let sql = "SELECT event.seq FROM outbox LEFT JOIN event
                ON outbox.payload IS NULL AND event.execution_id = outbox.execution_id
                    AND event.event_id = outbox.event_id
                WHERE outbox.outbox_id = ?1";
            let mut times = 0;
            for id in 1..=8 {
                let mut statement = connection.prepare_cached(sql).unwrap();
                let mut rows = statement.query([id]).unwrap();
                while rows.next().unwrap().is_some() {}
                drop(rows);
                times = statement.get_status(rusqlite::StatementStatus::RePrepare);
            }
            Ok(times)
        })
        .await;
    assert_eq!(prepared.unwrap(), 0);
}

/// Counts the commits in a write-ahead log that was never restarted.
fn commits_in_wal(database: &std::path::Path) -> u64 {
    let mut path = database.as_os_str().to_owned();
    path.push("-wal");
    let bytes = std::fs::read(path).unwrap();
    let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
    let page = usize::try_from(number(&bytes[8..12])).unwrap();
    // A frame is a head of 24 bytes and a page; the head of the last one of a commit tells the size
    // of the database, all others zero.
    let frames = bytes[32..].chunks_exact(24 + page);
    let ends = frames.filter(|frame| number(&frame[4..8]) > 0);
    u64::try_from(ends.count()).unwrap()
}

#[tokio::test]
async fn a_grant_does_not_wait_for_the_disk() {
    let place = Place::new();
    let store = place.store();
    let mut run = Run::started(&store, 1).await;
    run.issue(&store).await;
    let before = store.commits();
    let leased = store.lease(lease_of("w", 1, 1)).await;
    assert_eq!(leased.unwrap().len(), 1);
    let after = store.commits();
    assert_eq!(
        (after.all - before.all, after.synced - before.synced),
        (1, 0)
    );
    let append = run.step();
    run.write(&store, append).await.unwrap();
    assert_eq!(store.commits().synced, after.synced + 1);
}

#[test]
fn a_second_writer_is_refused() {
    let place = Place::new();
    let first = place.store();
    let second = SqliteStore::open(&place.options());
    let Err(StoreError::Fatal { cause }) = second else {
        panic!("{second:?}");
    };
    let text = cause.to_string();
    let me = format!("another process (process {}) writes to", std::process::id());
    assert!(text.starts_with(&me), "{text}");
    assert!(text.contains("stop it first"), "{text}");
    drop(first);
    place.store();
}

#[test]
fn a_file_of_another_program_is_refused() {
    let place = Place::new();
    drop(place.store());
    let connection = Connection::open(place.options().path).unwrap();
    connection
        .execute("UPDATE schema_migration SET sha256 = ?1", ["0".repeat(64)])
        .unwrap();
    let refused = SqliteStore::open(&place.options()).unwrap_err();
    assert_eq!(refused, StoreError::fatal(""));
    connection
        .execute_batch(
            "UPDATE schema_migration SET version = version + 97;
             UPDATE meta SET value = '98' WHERE key = 'oldest_program'",
        )
        .unwrap();
    let refused = SqliteStore::open(&place.options()).unwrap_err();
    let StoreError::Fatal { cause } = refused else {
        panic!("{refused:?}");
    };
    assert!(cause.to_string().contains("newer than this program"));
}

/// A newer release was here and only added to the tables: whoever comes back works on.
#[tokio::test]
async fn tables_that_a_newer_release_added_to_are_worked_with() {
    let place = Place::new();
    let run = Run::started(&place.store(), 1).await;
    let connection = Connection::open(place.options().path).unwrap();
    let newer = "ALTER TABLE execution ADD COLUMN newer TEXT;
        ALTER TABLE event ADD COLUMN newer TEXT;
        ALTER TABLE command ADD COLUMN newer TEXT;
        ALTER TABLE outbox ADD COLUMN newer TEXT;
        CREATE TABLE newer (n INTEGER) STRICT;
        INSERT INTO schema_migration (version, name, sha256)
        SELECT 900, 'newer', sha256 FROM schema_migration WHERE version = 1";
    connection.execute_batch(newer).unwrap();
    drop(connection);
    let store = place.store();
    assert!(store.execution(run.id).await.unwrap().is_some());
    crate::suite::outbox::published_run(&store, 2, 2).await;
    let claim = crate::suite::outbox::claim("a", 10, at("12:00:00"));
    assert_eq!(store.claim_outbox(claim).await.unwrap().rows.len(), 2);
    drop(store);
    let reader = SqliteStore::open_to_read(&place.options()).unwrap();
    assert!(reader.execution(run.id).await.unwrap().is_some());
}

#[tokio::test]
async fn work_that_fails_leaves_nothing_behind() {
    let place = Place::new();
    let store = place.store();
    let failed: Result<(), _> = store
        .writer
        .run(Durability::Synced, |connection| {
            let sql = "INSERT INTO retention_range (lo, hi, dropped_at) VALUES (0, 9, 0)";
            connection.execute(sql, []).unwrap();
            Err(StoreError::retry("on purpose"))
        })
        .await;
    assert_eq!(failed, Err(StoreError::retry("")));
    let id = noetl_types::ExecutionId::new(5).unwrap();
    assert!(!store.is_gone(id).await.unwrap());
}

/// Makes room for a number of pages more, or for as many as there may be.
async fn allow_pages(store: &SqliteStore, more: Option<i64>) {
    let work = move |connection: &Connection| {
        let pages: i64 = connection
            .pragma_query_value(None, "page_count", |row| row.get(0))
            .unwrap();
        let most = more.map_or(1_000_000, |more| pages + more);
        connection
            .execute_batch(&format!("PRAGMA max_page_count = {most}"))
            .unwrap();
        Ok(())
    };
    let allowed = store.writer.run(Durability::Forgettable, work);
    allowed.await.unwrap();
}

/// Calls of two appends each, which wait for the writer together.
async fn start_in_pairs(store: &Arc<SqliteStore>, runs: &mut [Run]) -> usize {
    let mut calls = Vec::new();
    for pair in runs.chunks(2) {
        let store = Arc::clone(store);
        let appends: Vec<_> = pair
            .iter()
            .map(|run| {
                let mut append = run.start();
                append.events[0].error = Some("x".repeat(20_000).into());
                append
            })
            .collect();
        calls.push(tokio::spawn(async move { store.append(appends).await }));
    }
    let mut failures = 0;
    for (pair, call) in runs.chunks_mut(2).zip(calls) {
        for (run, answer) in pair.iter_mut().zip(call.await.unwrap()) {
            match answer {
                Ok(appended) => run.head = appended.head,
                Err(crate::AppendRefused::Store(StoreError::Retry { .. })) => failures += 1,
                Err(other) => panic!("{other:?}"),
            }
        }
    }
    failures
}

#[tokio::test]
async fn a_full_disk_loses_nothing_that_was_answered() {
    let place = Place::new();
    let store = Arc::new(place.store());
    let mut runs: Vec<_> = (1..=24).map(Run::new).collect();
    assert_eq!(start_in_pairs(&store, &mut runs[..8]).await, 0);
    allow_pages(&store, Some(20)).await;
    let failures = start_in_pairs(&store, &mut runs[8..]).await;
    assert!(failures > 0, "the disk was never full");
    allow_pages(&store, None).await;
    for run in &mut runs {
        let execution = store.execution(run.id).await.unwrap();
        assert_eq!(execution.is_some(), run.head != crate::Head::START);
        let append = if execution.is_some() {
            // The id of the first event is taken by the start.
            run.event(noetl_types::EventType::StepEnter);
            run.step()
        } else {
            run.start()
        };
        run.write(&*store, append).await.unwrap();
    }
}

/// Appends that the child of the next test makes, one after the other.
const CHILD_APPENDS: u64 = 20;

#[tokio::test]
#[ignore = "it is run by the test that counts its syncs"]
async fn child_that_appends_and_leases() {
    let place = Place::new();
    let store = place.store();
    for number in 1..=CHILD_APPENDS {
        let number = i64::try_from(number).unwrap();
        Run::started(&store, number).await;
    }
    // Grants by themselves are not synced.
    for _ in 0..100 {
        store.lease(lease_of("w", 1, 1)).await.unwrap();
    }
    println!("done");
}

/// Runs the test above under `strace`, and reads how often it has synced.
/// Hole I6.
#[test]
fn every_answered_append_was_synced() {
    let folder = TempDir::new().unwrap();
    let report = folder.path().join("report");
    let child = std::process::Command::new("strace")
        .args(["-f", "-c", "-e", "trace=fdatasync,fsync", "-o"])
        .arg(&report)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "--nocapture"])
        .arg("sqlite::tests::child_that_appends_and_leases")
        .output();
    let output = match child {
        Ok(output) => output,
        Err(error) => return println!("skipped: strace cannot be run: {error}"),
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    if complaint.contains("ptrace") {
        return println!("skipped: strace may not trace here: {complaint}");
    }
    assert!(said.contains("done"), "{said}{complaint}");
    let report = std::fs::read_to_string(&report).unwrap();
    // Columns: share, seconds, microseconds per call, calls, perhaps errors, name.
    let syncs: u64 = report
        .lines()
        .filter(|line| line.ends_with("fdatasync") || line.ends_with("fsync"))
        .map(|line| {
            line.split_whitespace()
                .nth(3)
                .unwrap()
                .parse::<u64>()
                .unwrap()
        })
        .sum();
    assert!(syncs >= CHILD_APPENDS, "{syncs} syncs\n{report}");
    assert!(
        syncs < CHILD_APPENDS + 60,
        "grants sync too: {syncs} syncs\n{report}"
    );
}

/// The files of large results, but for what is on its way.
fn files(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for shelf in std::fs::read_dir(folder).unwrap() {
        let shelf = shelf.unwrap().path();
        if !shelf.ends_with("aside") {
            let on_shelf = std::fs::read_dir(shelf).unwrap();
            files.extend(on_shelf.map(|file| file.unwrap().path()));
        }
    }
    files
}

#[tokio::test]
async fn large_results_are_files_until_nobody_names_them() {
    let place = Place::new();
    let folder = place.folder.path().join("blobs");
    let options = SqliteOptions {
        blobs: Some(folder.clone()),
        ..place.options()
    };
    let store = SqliteStore::open(&options).unwrap();
    let run = Run::started(&store, 1).await;
    let large = vec![b'x'; crate::BLOB_BYTES + 1];
    let small = vec![b'x'; crate::BLOB_BYTES];
    store
        .put_result(put(run.id, result(1, &large)))
        .await
        .unwrap();
    // The same content is one file.
    let mut again = put(run.id, result(2, &large));
    again.expires_at = Some(at("15:00:00"));
    store.put_result(again).await.unwrap();
    store
        .put_result(put(run.id, result(3, &small)))
        .await
        .unwrap();
    assert_eq!(files(&folder).len(), 1);
    let sweep = |what: Swept, time: &'static str| {
        let store = &store;
        async move { store.sweep(what, at(time), PageLimit::MAX).await.unwrap() }
    };
    assert_eq!(sweep(Swept::Blobs, "20:00:00").await, 0, "it is named");
    assert_eq!(sweep(Swept::Results, "14:00:00").await, 2);
    assert_eq!(sweep(Swept::Blobs, "20:00:00").await, 0, "one row is left");
    assert_eq!(sweep(Swept::Results, "15:00:00").await, 1);
    assert_eq!(sweep(Swept::Blobs, "13:00:00").await, 0, "it is young");
    assert_eq!(sweep(Swept::Blobs, "13:00:00.000001").await, 1);
    assert!(files(&folder).is_empty());
}

#[tokio::test]
async fn t8_a_row_that_cannot_be_read_stops_no_other() {
    let place = Place::new();
    let store = place.store();
    let path = place.options().path;
    an_unreadable_row_is_told_of(&store, || {
        let connection = Connection::open(path).unwrap();
        let damage = "UPDATE event SET tenant_id = '' WHERE seq = 2";
        assert_eq!(connection.execute(damage, []).unwrap(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_file_that_is_damaged_or_lost_is_told() {
    let place = Place::new();
    let folder = place.folder.path().join("blobs");
    let options = SqliteOptions {
        blobs: Some(folder.clone()),
        ..place.options()
    };
    let store = SqliteStore::open(&options).unwrap();
    let run = Run::started(&store, 1).await;
    let large = vec![b'x'; crate::BLOB_BYTES + 1];
    let sent = put(run.id, result(1, &large));
    store.put_result(sent.clone()).await.unwrap();
    let file = files(&folder).remove(0);
    let id = sent.result.result_id;
    // A sweep has it aside for a moment, and is killed.
    let aside = folder.join("aside").join(file.file_name().unwrap());
    std::fs::rename(&file, &aside).unwrap();
    assert!(store.result(run.id, id).await.unwrap().is_some());
    let half = folder.join("aside").join("half.1.2");
    std::fs::write(&half, b"x").unwrap();
    let long_ago = std::time::SystemTime::UNIX_EPOCH;
    let written = std::fs::File::options().append(true).open(&half).unwrap();
    written.set_modified(long_ago).unwrap();
    let swept = store.sweep(Swept::Blobs, at("20:00:00"), PageLimit::MAX);
    assert_eq!(swept.await.unwrap(), 0);
    assert!(file.exists() && !aside.exists() && !half.exists());

    std::fs::write(&file, b"other").unwrap();
    let damaged = store.result(run.id, id).await;
    assert_eq!(damaged, Err(StoreError::fatal("")));
    // Who puts it again mends it.
    store.put_result(sent.clone()).await.unwrap();
    assert!(store.result(run.id, id).await.unwrap().is_some());
    std::fs::remove_file(&file).unwrap();
    let lost = store.result(run.id, id).await;
    assert_eq!(lost, Err(StoreError::retry("")));

    let mut wrong = put(run.id, result(2, &large));
    wrong.result.sha256 = noetl_types::sha256("other");
    let refused = store.put_result(wrong).await;
    assert_eq!(refused, Err(StoreError::fatal("").into()));
    drop(store);
    let without = place.store().result(run.id, id).await;
    assert_eq!(without, Err(StoreError::fatal("")));
}

#[tokio::test]
async fn t11_a_copy_of_a_file_in_use_is_a_store() {
    let place = Place::new();
    let store = place.store();
    let mut run = Run::started(&store, 1).await;
    let append = run.step();
    run.write(&store, append).await.unwrap();
    let to = place.folder.path().join("copy.db");
    store.backup(&to).await.unwrap();
    // What is there is not overwritten.
    assert!(matches!(
        store.backup(&to).await,
        Err(StoreError::Fatal { .. })
    ));
    let append = run.step();
    run.write(&store, append).await.unwrap();
    let copy = SqliteStore::open(&SqliteOptions::new(to)).unwrap();
    let found = copy.execution(run.id).await.unwrap().unwrap();
    assert_eq!(found.head.version.get(), 2);
    assert_eq!(crate::verify_log(&copy, run.id).await.unwrap(), None);
    // T11: what goes on from the copy is not taken for what went on in the file.
    let (of_copy, of_file) = (copy.log_epoch().await, store.log_epoch().await);
    assert_eq!(of_copy.unwrap(), of_file.unwrap().next());
    assert_eq!(copy.integrity().await.unwrap(), Vec::<String>::new());
}

/// Copies that are made while somebody writes as fast as possible end, and each is whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t11_a_copy_is_whole_while_somebody_writes() {
    let place = Place::new();
    let store = Arc::new(place.store());
    let mut run = Run::started(&*store, 1).await;
    let id = run.id;
    let (stop, is_over) = tokio::sync::oneshot::channel::<()>();
    let writing = tokio::spawn({
        let store = Arc::clone(&store);
        let mut is_over = is_over;
        async move {
            let mut written = 0_u32;
            while is_over.try_recv().is_err() {
                let append = run.step();
                run.write(&*store, append).await.unwrap();
                written += 1;
            }
            written
        }
    });
    let mut last = 0;
    for number in 0..5 {
        // Something is written between any two copies, so that each differs from the one before.
        loop {
            let found = store.execution(id).await.unwrap().unwrap();
            if found.head.version.get() > last {
                break;
            }
            tokio::task::yield_now().await;
        }
        let to = place.folder.path().join(format!("copy-{number}.db"));
        store.backup(&to).await.unwrap();
        let copy = SqliteStore::open(&SqliteOptions::new(to)).unwrap();
        let found = copy.execution(id).await.unwrap().unwrap();
        assert!(found.head.version.get() > last);
        last = found.head.version.get();
        assert_eq!(crate::verify_log(&copy, id).await.unwrap(), None);
        assert_eq!(copy.integrity().await.unwrap(), Vec::<String>::new());
    }
    stop.send(()).unwrap();
    assert!(writing.await.unwrap() > 0);
}

/// An event that was changed by hand is named.
#[tokio::test]
async fn a_log_that_was_edited_is_told() {
    let place = Place::new();
    let store = place.store();
    let mut run = Run::started(&store, 1).await;
    for _ in 0..3 {
        let append = run.step();
        run.write(&store, append).await.unwrap();
    }
    let connection = Connection::open(place.options().path).unwrap();
    let edit = "UPDATE event SET node_name = 'other' WHERE seq = 3";
    connection.execute(edit, []).unwrap();
    let damage = crate::verify_log(&store, run.id).await.unwrap().unwrap();
    assert_eq!(
        damage.to_string(),
        format!("execution {}: event 3 is not what was written", run.id)
    );
    connection
        .execute("DELETE FROM event WHERE seq = 4", [])
        .unwrap();
    let undo = "UPDATE event SET node_name = NULL WHERE seq = 3";
    connection.execute(undo, []).unwrap();
    let damage = crate::verify_log(&store, run.id).await.unwrap().unwrap();
    assert_eq!(
        damage,
        crate::LogDamage::End {
            execution_id: run.id
        }
    );
}

/// A table that somebody drops is missed.
#[tokio::test]
async fn tables_are_there_or_missing() {
    let place = Place::new();
    let store = place.store();
    let tables = store.tables().await.unwrap();
    assert!(tables.len() > 20, "{tables:?}");
    assert!(tables.values().all(|is_there| *is_there), "{tables:?}");
    let connection = Connection::open(place.options().path).unwrap();
    connection.execute("DROP TABLE keychain", []).unwrap();
    let tables = store.tables().await.unwrap();
    let missing: Vec<_> = tables.iter().filter(|(_, is_there)| !**is_there).collect();
    assert_eq!(missing, [(&"keychain", &false)]);
}

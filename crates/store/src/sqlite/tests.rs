//! The store suite on SQLite, and tests of behaviour specific to a file.

use std::future::{Ready, ready};
use std::path::Path;
use std::sync::Arc;

use noetl_types::id::first_id_at;
use noetl_types::limits::PageLimit;
use noetl_types::{OutboxId, Timestamp};
use rusqlite::Connection;
use tempfile::TempDir;
use tokio::task::JoinSet;

use super::{SqliteOptions, SqliteStore};
use crate::prelude::*;
use crate::sql::Durability;
use crate::suite::fixture::{TestExecution, append_one, lease_request, test_time};
use crate::suite::result::{new_result, result_put};
use crate::suite::stream::assert_unreadable_row_is_reported;
use crate::suite::{
    StoreFixture, compare_concurrent_with_model, compare_with_model,
    compare_with_model_under_faults, damaged_rows, publishing_suite, store_suite,
};
use crate::{GcTarget, StoreError};

mod in_memory;
mod purge_steps;
mod query_plans;

struct TempDatabase {
    folder: TempDir,
}

impl TempDatabase {
    fn new() -> Self {
        Self { folder: TempDir::new().unwrap() }
    }

    fn options(&self) -> SqliteOptions {
        SqliteOptions::new(self.folder.path().join("noetl.db"))
    }

    fn open_store(&self) -> SqliteStore {
        SqliteStore::open(&self.options()).unwrap()
    }
}

/// Makes every update of an event fail, so that each case of the suite also proves that the store
/// never changes one.
fn forbid_event_updates(path: &Path) {
    let trigger = "CREATE TRIGGER events_are_immutable BEFORE UPDATE ON event \
        BEGIN SELECT RAISE(ABORT, 'an event is immutable'); END";
    Connection::open(path).unwrap().execute_batch(trigger).unwrap();
}

fn mark_dropped_before(connection: &Connection, time: Timestamp) {
    let hi = first_id_at(time.as_unix_ms());
    let insert = "INSERT INTO retention_range (lo, hi, dropped_at) VALUES (0, ?1, 0)";
    connection.execute(insert, [hi]).unwrap();
    connection.execute("DELETE FROM execution WHERE execution_id < ?1", [hi]).unwrap();
}

fn set_message_id(connection: &Connection, row: OutboxId, message_id: &str) {
    let sql = "UPDATE outbox SET message_id = ?2 WHERE outbox_id = ?1";
    connection.execute(sql, (row.get(), message_id)).unwrap();
}

fn create_fixture() -> Ready<StoreFixture> {
    let database = TempDatabase::new();
    let path = database.options().path;
    let outbox_path = path.clone();
    let options = SqliteOptions {
        blob_folder: Some(database.folder.path().join("blobs")),
        ..database.options()
    };
    let store = SqliteStore::open(&options).unwrap();
    forbid_event_updates(&path);
    ready(StoreFixture {
        store: Arc::new(store),
        mark_dropped_before: Box::new(move |time| {
            mark_dropped_before(&Connection::open(&path).unwrap(), time);
            Box::pin(async {})
        }),
        set_message_id: Box::new(move |row, message_id| {
            set_message_id(&Connection::open(&outbox_path).unwrap(), row, message_id);
        }),
        resources: Box::new(database),
    })
}

store_suite!(create_fixture);
publishing_suite!(create_fixture);

#[tokio::test]
async fn damaged_row_becomes_dead_alone() {
    let database = TempDatabase::new();
    let store = database.open_store();
    let connection = Connection::open(database.options().path).unwrap();
    let run = |sql: String| assert_eq!(connection.execute(&sql, []).unwrap(), 1);
    damaged_rows::damaged_row_becomes_dead_alone(&store, run, "").await;
}

#[tokio::test]
async fn unreadable_month_does_not_pin_others() {
    let database = TempDatabase::new();
    let store = database.open_store();
    let connection = Connection::open(database.options().path).unwrap();
    let run = |sql: String| assert_eq!(connection.execute(&sql, []).unwrap(), 1);
    damaged_rows::unreadable_month_does_not_pin_others(&store, run, "").await;
}

#[tokio::test]
async fn histories_match_model() {
    compare_histories(0..20).await;
}

async fn compare_histories(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        println!("seed {seed}");
        let database = TempDatabase::new();
        compare_with_model(&database.open_store(), seed, 200).await;
        let database = TempDatabase::new();
        compare_with_model_under_faults(database.open_store(), seed, 200).await;
    }
}

#[tokio::test]
#[ignore = "a long sweep"]
async fn heavy_many_histories_match_model() {
    compare_histories(1_000..3_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 16)]
async fn concurrent_histories_match_model() {
    let database = TempDatabase::new();
    compare_concurrent_with_model(Arc::new(database.open_store()), 0, 16, 200).await;
}

#[tokio::test]
async fn data_survives_reopening() {
    let database = TempDatabase::new();
    let mut run = TestExecution::create_started(&database.open_store(), 1).await;
    let store = database.open_store();
    let append = run.step_request();
    run.append_to(&store, append).await.unwrap();
    let execution = store.find_execution(run.id).await.unwrap().unwrap();
    assert_eq!(execution.head, run.head);
}

#[tokio::test]
async fn read_only_store_reads_beside_writer() {
    let database = TempDatabase::new();
    assert!(SqliteStore::open_read_only(&database.options()).is_err());
    let store = database.open_store();
    let mut run = TestExecution::create_started(&store, 1).await;
    let reader = SqliteStore::open_read_only(&database.options()).unwrap();
    let append = run.step_request();
    run.append_to(&store, append).await.unwrap();
    let execution = reader.find_execution(run.id).await.unwrap().unwrap();
    assert_eq!(execution.head, run.head);
    let error = append_one(&reader, TestExecution::new(2).start_request()).await.unwrap_err();
    assert!(format!("{error:?}").contains("read-only"), "{error:?}");
    // The data is readable without a writer.
    drop((store, reader));
    let reader = SqliteStore::open_read_only(&database.options()).unwrap();
    assert!(reader.find_execution(run.id).await.unwrap().is_some());
}

#[tokio::test]
async fn read_only_open_refuses_outdated_file() {
    let database = TempDatabase::new();
    drop(database.open_store());
    let connection = Connection::open(database.options().path).unwrap();
    let sql =
        "DELETE FROM schema_migration WHERE version = (SELECT max(version) FROM schema_migration)";
    connection.execute(sql, []).unwrap();
    let error = SqliteStore::open_read_only(&database.options()).unwrap_err();
    assert!(format!("{error:?}").contains("PendingMigration"), "{error:?}");
    let schema = SqliteStore::schema_status(&database.options()).unwrap();
    assert!(schema.is_outdated() && schema.version == schema.newest - 1);
    drop(connection);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_appends_share_few_commits() {
    let database = TempDatabase::new();
    let store = Arc::new(database.open_store());
    // The writer is busy from before the first append until all of them are queued.
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    let (started_sender, mut started) = tokio::sync::mpsc::unbounded_channel();
    let busy_call = {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            store
                .writer
                .run_write(Durability::Unsynced, move |_| {
                    started_sender.send(()).unwrap();
                    // The sender is dropped when all appends are queued.
                    let _ = receiver.recv();
                    Ok(())
                })
                .await
        })
    };
    started.recv().await.unwrap();
    let mut appends = JoinSet::new();
    for number in 0..256 {
        let store = Arc::clone(&store);
        appends.spawn(async move {
            append_one(&*store, TestExecution::new(number).start_request()).await
        });
    }
    while store.writer.queued_calls() < 256 {
        tokio::task::yield_now().await;
    }
    let before = store.commit_counts();
    drop(sender);
    busy_call.await.unwrap().unwrap();
    for result in appends.join_all().await {
        result.unwrap();
    }
    let commits = store.commit_counts().total - before.total;
    assert!(commits < 20, "{commits} commits");
    // The WAL of SQLite marks the last page of every commit that wrote anything. The first commit
    // wrote nothing.
    let wal_commits = count_wal_commits(&database.options().path);
    // Opening a new file takes one commit for each migration, and one for their table.
    let newest = SqliteStore::schema_status(&database.options()).unwrap().newest;
    let migration_commits = u64::try_from(newest).unwrap() + 1;
    assert_eq!(wal_commits, migration_commits + commits - 1);
}

/// A plan that depends on the bound values would be prepared again at each use.
#[tokio::test]
async fn cached_statement_is_not_prepared_again() {
    let database = TempDatabase::new();
    let store = SqliteStore::open(&database.options()).unwrap();
    let reprepared = store
        .writer
        .run_write(Durability::Synced, |connection| {
            let sql = "SELECT event.seq FROM outbox LEFT JOIN event
                ON outbox.payload IS NULL AND event.execution_id = outbox.execution_id
                    AND event.event_id = outbox.event_id
                WHERE outbox.outbox_id = ?1";
            let mut count = 0;
            for id in 1..=8 {
                let mut statement = connection.prepare_cached(sql).unwrap();
                let mut rows = statement.query([id]).unwrap();
                while rows.next().unwrap().is_some() {}
                drop(rows);
                count = statement.get_status(rusqlite::StatementStatus::RePrepare);
            }
            Ok(count)
        })
        .await;
    assert_eq!(reprepared.unwrap(), 0);
}

fn count_wal_commits(database: &Path) -> u64 {
    let mut path = database.as_os_str().to_owned();
    path.push("-wal");
    let bytes = std::fs::read(path).unwrap();
    let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
    let page = usize::try_from(number(&bytes[8..12])).unwrap();
    // A frame is a 24-byte header and a page. The header of the last frame of a commit contains the
    // size of the database, all others zero.
    let frames = bytes[32..].chunks_exact(24 + page);
    let ends = frames.filter(|frame| number(&frame[4..8]) > 0);
    u64::try_from(ends.count()).unwrap()
}

#[tokio::test]
async fn lease_grant_is_not_synced() {
    let database = TempDatabase::new();
    let store = database.open_store();
    let mut run = TestExecution::create_started(&store, 1).await;
    run.issue_command(&store).await;
    let before = store.commit_counts();
    let leased = store.lease_commands(lease_request("w", 1, 1)).await;
    assert_eq!(leased.unwrap().len(), 1);
    let after = store.commit_counts();
    assert_eq!((after.total - before.total, after.synced - before.synced), (1, 0));
    let append = run.step_request();
    run.append_to(&store, append).await.unwrap();
    assert_eq!(store.commit_counts().synced, after.synced + 1);
}

#[test]
fn second_writer_is_refused() {
    let database = TempDatabase::new();
    let first = database.open_store();
    let second = SqliteStore::open(&database.options());
    let Err(StoreError::Fatal { cause }) = second else {
        panic!("{second:?}");
    };
    let text = cause.to_string();
    let expected = format!("another process (PID {}) has ", std::process::id());
    assert!(text.starts_with(&expected), "{text}");
    assert!(text.contains("stop it"), "{text}");
    drop(first);
    database.open_store();
}

#[test]
fn changed_or_newer_schema_is_refused() {
    let database = TempDatabase::new();
    drop(database.open_store());
    let connection = Connection::open(database.options().path).unwrap();
    connection.execute("UPDATE schema_migration SET sha256 = ?1", ["0".repeat(64)]).unwrap();
    let error = SqliteStore::open(&database.options()).unwrap_err();
    assert_eq!(error, StoreError::fatal(""));
    connection
        .execute_batch(
            "UPDATE schema_migration SET version = version + 97;
             UPDATE meta SET value = '98' WHERE key = 'oldest_program'",
        )
        .unwrap();
    let error = SqliteStore::open(&database.options()).unwrap_err();
    let StoreError::Fatal { cause } = error else {
        panic!("{error:?}");
    };
    assert!(cause.to_string().contains("newer than this program"));
}

/// A newer release migrated this file and only added to the tables, so an older program continues
/// to work.
#[tokio::test]
async fn additive_newer_schema_is_accepted() {
    let database = TempDatabase::new();
    let run = TestExecution::create_started(&database.open_store(), 1).await;
    let connection = Connection::open(database.options().path).unwrap();
    let newer = "ALTER TABLE execution ADD COLUMN newer TEXT;
        ALTER TABLE event ADD COLUMN newer TEXT;
        ALTER TABLE command ADD COLUMN newer TEXT;
        ALTER TABLE outbox ADD COLUMN newer TEXT;
        CREATE TABLE newer (n INTEGER) STRICT;
        INSERT INTO schema_migration (version, name, sha256)
        SELECT 900, 'newer', sha256 FROM schema_migration WHERE version = 1";
    connection.execute_batch(newer).unwrap();
    drop(connection);
    let store = database.open_store();
    assert!(store.find_execution(run.id).await.unwrap().is_some());
    crate::suite::outbox::create_run_with_outbox(&store, 2, 2).await;
    let claim = crate::suite::outbox::outbox_claim("a", 10, test_time("12:00:00"));
    assert_eq!(store.claim_outbox(claim).await.unwrap().rows.len(), 2);
    drop(store);
    let reader = SqliteStore::open_read_only(&database.options()).unwrap();
    assert!(reader.find_execution(run.id).await.unwrap().is_some());
}

#[tokio::test]
async fn failed_write_is_rolled_back() {
    let database = TempDatabase::new();
    let store = database.open_store();
    let failed: Result<(), _> = store
        .writer
        .run_write(Durability::Synced, |connection| {
            let sql = "INSERT INTO retention_range (lo, hi, dropped_at) VALUES (0, 9, 0)";
            connection.execute(sql, []).unwrap();
            Err(StoreError::retry("on purpose"))
        })
        .await;
    assert_eq!(failed, Err(StoreError::retry("")));
    let id = noetl_types::ExecutionId::new(5).unwrap();
    assert!(!store.is_dropped(id).await.unwrap());
}

/// Limits the database to a number of additional pages, or removes the limit.
async fn limit_pages(store: &SqliteStore, additional: Option<i64>) {
    let work = move |connection: &mut Connection| {
        let pages: i64 =
            connection.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
        let max_pages = additional.map_or(1_000_000, |additional| pages + additional);
        connection.execute_batch(&format!("PRAGMA max_page_count = {max_pages}")).unwrap();
        Ok(())
    };
    let limited = store.writer.run_write(Durability::Unsynced, work);
    limited.await.unwrap();
}

/// Sends calls of two appends each, which queue for the writer together. Returns the number of
/// failures.
async fn append_in_pairs(store: &Arc<SqliteStore>, runs: &mut [TestExecution]) -> usize {
    let mut calls = Vec::new();
    for pair in runs.chunks(2) {
        let store = Arc::clone(store);
        let appends: Vec<_> = pair
            .iter()
            .map(|run| {
                let mut append = run.start_request();
                append.events[0].error = Some("x".repeat(20_000).into());
                append
            })
            .collect();
        calls.push(tokio::spawn(async move { store.append_events(appends).await }));
    }
    let mut failures = 0;
    for (pair, call) in runs.chunks_mut(2).zip(calls) {
        for (run, result) in pair.iter_mut().zip(call.await.unwrap()) {
            match result {
                Ok(appended) => run.head = appended.head,
                Err(crate::AppendError::Store(error)) if error.is_disk_full() => failures += 1,
                Err(other) => panic!("{other:?}"),
            }
        }
    }
    failures
}

#[tokio::test]
async fn full_disk_loses_no_acknowledged_append() {
    let database = TempDatabase::new();
    let store = Arc::new(database.open_store());
    let mut runs: Vec<_> = (1..=24).map(TestExecution::new).collect();
    assert_eq!(append_in_pairs(&store, &mut runs[..8]).await, 0);
    limit_pages(&store, Some(20)).await;
    let failures = append_in_pairs(&store, &mut runs[8..]).await;
    assert!(failures > 0, "the disk was never full");
    limit_pages(&store, None).await;
    for run in &mut runs {
        let execution = store.find_execution(run.id).await.unwrap();
        assert_eq!(execution.is_some(), run.head != crate::LogHead::START);
        let append = if execution.is_some() {
            // The start has used the id of the first event.
            run.next_event(noetl_types::EventType::StepEnter);
            run.step_request()
        } else {
            run.start_request()
        };
        run.append_to(&*store, append).await.unwrap();
    }
}

/// Appends that `child_that_appends_and_leases` makes in sequence.
const CHILD_APPENDS: u64 = 20;

#[tokio::test]
#[ignore = "run by the test that counts its syncs"]
async fn child_that_appends_and_leases() {
    let database = TempDatabase::new();
    let store = database.open_store();
    for number in 1..=CHILD_APPENDS {
        let number = i64::try_from(number).unwrap();
        TestExecution::create_started(&store, number).await;
    }
    // Lease grants alone are not synced.
    for _ in 0..100 {
        store.lease_commands(lease_request("w", 1, 1)).await.unwrap();
    }
    println!("done");
}

/// Runs `child_that_appends_and_leases` under `strace` and counts its syncs.
#[test]
fn every_acknowledged_append_is_synced() {
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
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    if stderr.contains("ptrace") {
        return println!("skipped: strace may not trace here: {stderr}");
    }
    assert!(stdout.contains("done"), "{stdout}{stderr}");
    let report = std::fs::read_to_string(&report).unwrap();
    // Columns: share, seconds, microseconds per call, calls, errors (optional), name.
    let syncs: u64 = report
        .lines()
        .filter(|line| line.ends_with("fdatasync") || line.ends_with("fsync"))
        .map(|line| line.split_whitespace().nth(3).unwrap().parse::<u64>().unwrap())
        .sum();
    assert!(syncs >= CHILD_APPENDS, "{syncs} syncs\n{report}");
    assert!(syncs < CHILD_APPENDS + 60, "grants sync too: {syncs} syncs\n{report}");
}

/// Lists the files of large results, except temporary ones.
fn blob_files(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for shard in std::fs::read_dir(folder).unwrap() {
        let shard = shard.unwrap().path();
        if !shard.ends_with("aside") {
            let entries = std::fs::read_dir(shard).unwrap();
            files.extend(entries.map(|file| file.unwrap().path()));
        }
    }
    files
}

#[tokio::test]
async fn large_results_are_files_until_unreferenced() {
    let database = TempDatabase::new();
    let folder = database.folder.path().join("blobs");
    let options = SqliteOptions { blob_folder: Some(folder.clone()), ..database.options() };
    let store = SqliteStore::open(&options).unwrap();
    let run = TestExecution::create_started(&store, 1).await;
    let large = vec![b'x'; crate::MIN_BLOB_BYTES + 1];
    let small = vec![b'x'; crate::MIN_BLOB_BYTES];
    store.put_result(result_put(run.id, new_result(1, &large))).await.unwrap();
    // Equal contents share one file.
    let mut second = result_put(run.id, new_result(2, &large));
    second.expires_at = Some(test_time("15:00:00"));
    store.put_result(second).await.unwrap();
    store.put_result(result_put(run.id, new_result(3, &small))).await.unwrap();
    assert_eq!(blob_files(&folder).len(), 1);
    let delete_expired = |target: GcTarget, time: &'static str| {
        let store = &store;
        async move { store.delete_expired(target, test_time(time), PageLimit::MAX).await.unwrap() }
    };
    assert_eq!(delete_expired(GcTarget::Blobs, "20:00:00").await, 0, "it is referenced");
    assert_eq!(delete_expired(GcTarget::Results, "14:00:00").await, 2);
    assert_eq!(delete_expired(GcTarget::Blobs, "20:00:00").await, 0, "one row is left");
    assert_eq!(delete_expired(GcTarget::Results, "15:00:00").await, 1);
    assert_eq!(delete_expired(GcTarget::Blobs, "13:00:00").await, 0, "it is young");
    assert_eq!(delete_expired(GcTarget::Blobs, "13:00:00.000001").await, 1);
    assert!(blob_files(&folder).is_empty());
}

#[tokio::test]
async fn unreadable_row_does_not_stop_feed() {
    let database = TempDatabase::new();
    let store = database.open_store();
    let path = database.options().path;
    assert_unreadable_row_is_reported(&store, || {
        let connection = Connection::open(path).unwrap();
        let damage = "UPDATE event SET tenant_id = '' WHERE seq = 2";
        assert_eq!(connection.execute(damage, []).unwrap(), 1);
    })
    .await;
}

#[tokio::test]
async fn damaged_or_missing_blob_is_reported() {
    let database = TempDatabase::new();
    let folder = database.folder.path().join("blobs");
    let options = SqliteOptions { blob_folder: Some(folder.clone()), ..database.options() };
    let store = SqliteStore::open(&options).unwrap();
    let run = TestExecution::create_started(&store, 1).await;
    let large = vec![b'x'; crate::MIN_BLOB_BYTES + 1];
    let put = result_put(run.id, new_result(1, &large));
    store.put_result(put.clone()).await.unwrap();
    let file = blob_files(&folder).remove(0);
    let id = put.result.result_id;
    // A garbage collection was killed after it had moved the file aside.
    let aside = folder.join("aside").join(file.file_name().unwrap());
    std::fs::rename(&file, &aside).unwrap();
    assert!(store.find_result(run.id, id).await.unwrap().is_some());
    let partial = folder.join("aside").join("half.1.2");
    std::fs::write(&partial, b"x").unwrap();
    let long_ago = std::time::SystemTime::UNIX_EPOCH;
    let file_handle = std::fs::File::options().append(true).open(&partial).unwrap();
    file_handle.set_modified(long_ago).unwrap();
    let deleted = store.delete_expired(GcTarget::Blobs, test_time("20:00:00"), PageLimit::MAX);
    assert_eq!(deleted.await.unwrap(), 0);
    assert!(file.exists() && !aside.exists() && !partial.exists());

    std::fs::write(&file, b"other").unwrap();
    let damaged = store.find_result(run.id, id).await;
    assert_eq!(damaged, Err(StoreError::fatal("")));
    // Storing the result again repairs the file.
    store.put_result(put.clone()).await.unwrap();
    assert!(store.find_result(run.id, id).await.unwrap().is_some());
    std::fs::remove_file(&file).unwrap();
    let missing = store.find_result(run.id, id).await;
    assert_eq!(missing, Err(StoreError::retry("")));

    let mut mismatched = result_put(run.id, new_result(2, &large));
    mismatched.result.sha256 = noetl_types::sha256("other");
    let result = store.put_result(mismatched).await;
    assert_eq!(result, Err(StoreError::fatal("").into()));
    drop(store);
    let without_folder = database.open_store().find_result(run.id, id).await;
    assert_eq!(without_folder, Err(StoreError::fatal("")));
}

#[tokio::test]
async fn backup_of_open_file_is_valid_store() {
    let database = TempDatabase::new();
    let store = database.open_store();
    let mut run = TestExecution::create_started(&store, 1).await;
    let append = run.step_request();
    run.append_to(&store, append).await.unwrap();
    let to = database.folder.path().join("copy.db");
    store.write_backup(&to).await.unwrap();
    // An existing file is not overwritten.
    assert!(matches!(store.write_backup(&to).await, Err(StoreError::Fatal { .. })));
    let append = run.step_request();
    run.append_to(&store, append).await.unwrap();
    let copy = SqliteStore::open(&SqliteOptions::new(to)).unwrap();
    let found = copy.find_execution(run.id).await.unwrap().unwrap();
    assert_eq!(found.head.version.get(), 2);
    assert_eq!(crate::verify_log(&copy, run.id).await.unwrap(), None);
    // Events appended to the copy must not be confused with those appended to the original.
    let (copy_epoch, original_epoch) = (copy.log_epoch().await, store.log_epoch().await);
    assert_ne!(copy_epoch.unwrap(), original_epoch.unwrap());
    assert_eq!(copy.check_integrity().await.unwrap(), Vec::<String>::new());
}

/// Backups made during continuous writes complete, and each is consistent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backup_is_consistent_during_writes() {
    let database = TempDatabase::new();
    let store = Arc::new(database.open_store());
    let mut run = TestExecution::create_started(&*store, 1).await;
    let id = run.id;
    let (stop_sender, stop_receiver) = tokio::sync::oneshot::channel::<()>();
    let writer = tokio::spawn({
        let store = Arc::clone(&store);
        let mut stop_receiver = stop_receiver;
        async move {
            let mut append_count = 0_u32;
            while stop_receiver.try_recv().is_err() {
                let append = run.step_request();
                run.append_to(&*store, append).await.unwrap();
                append_count += 1;
            }
            append_count
        }
    });
    let mut last = 0;
    for number in 0..5 {
        // Waits for a write since the last backup, so that each backup differs from the one before.
        loop {
            let found = store.find_execution(id).await.unwrap().unwrap();
            if found.head.version.get() > last {
                break;
            }
            tokio::task::yield_now().await;
        }
        let to = database.folder.path().join(format!("copy-{number}.db"));
        store.write_backup(&to).await.unwrap();
        let copy = SqliteStore::open(&SqliteOptions::new(to)).unwrap();
        let found = copy.find_execution(id).await.unwrap().unwrap();
        assert!(found.head.version.get() > last);
        last = found.head.version.get();
        assert_eq!(crate::verify_log(&copy, id).await.unwrap(), None);
        assert_eq!(copy.check_integrity().await.unwrap(), Vec::<String>::new());
    }
    stop_sender.send(()).unwrap();
    assert!(writer.await.unwrap() > 0);
}

#[tokio::test]
async fn edited_log_is_reported() {
    let database = TempDatabase::new();
    let store = database.open_store();
    let mut run = TestExecution::create_started(&store, 1).await;
    for _ in 0..3 {
        let append = run.step_request();
        run.append_to(&store, append).await.unwrap();
    }
    let connection = Connection::open(database.options().path).unwrap();
    let edit = "UPDATE event SET node_name = 'other' WHERE seq = 3";
    connection.execute(edit, []).unwrap();
    let damage = crate::verify_log(&store, run.id).await.unwrap().unwrap();
    assert_eq!(
        damage.to_string(),
        format!("execution {}: event 3 was modified after it was written", run.id)
    );
    connection.execute("DELETE FROM event WHERE seq = 4", []).unwrap();
    let undo = "UPDATE event SET node_name = NULL WHERE seq = 3";
    connection.execute(undo, []).unwrap();
    let damage = crate::verify_log(&store, run.id).await.unwrap().unwrap();
    assert_eq!(damage, crate::LogDamage::HeadMismatch { execution_id: run.id });
}

#[tokio::test]
async fn missing_tables_are_reported() {
    let database = TempDatabase::new();
    let store = database.open_store();
    let tables = store.check_tables().await.unwrap();
    assert!(tables.len() > 20, "{tables:?}");
    assert!(tables.values().all(|exists| *exists), "{tables:?}");
    let connection = Connection::open(database.options().path).unwrap();
    connection.execute("DROP TABLE keychain", []).unwrap();
    let tables = store.check_tables().await.unwrap();
    let missing: Vec<_> = tables.iter().filter(|(_, exists)| !**exists).collect();
    assert_eq!(missing, [(&"keychain", &false)]);
}

/// Files of the store, also those that SQLite creates, are private whatever the umask is.
#[tokio::test]
async fn files_are_readable_only_by_owner() {
    use std::os::unix::fs::MetadataExt as _;
    let database = TempDatabase::new();
    let folder = database.folder.path();
    let mut options = SqliteOptions::new(folder.join("noetl.db"));
    options.blob_folder = Some(folder.join("blobs"));
    let store = SqliteStore::open(&options).unwrap();
    let run = TestExecution::create_started(&store, 1).await;
    let large = vec![b'x'; crate::MIN_BLOB_BYTES + 1];
    store.put_result(result_put(run.id, new_result(1, &large))).await.unwrap();
    store.write_backup(&folder.join("copy.db")).await.unwrap();
    let mut folders = vec![folder.to_owned()];
    let mut names = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let metadata = std::fs::metadata(&path).unwrap();
            assert_eq!(metadata.mode() & 0o077, 0, "{}", path.display());
            if metadata.is_dir() {
                folders.push(path);
            } else {
                names.push(path.file_name().unwrap().to_string_lossy().into_owned());
            }
        }
    }
    for name in ["noetl.db", "noetl.db-wal", "noetl.db-shm", "noetl.db.lock", "copy.db"] {
        assert!(names.iter().any(|found| found == name), "{names:?}");
    }
    assert_eq!(names.len(), 6, "{names:?}");
}

/// A closed store needs no other file than the database file.
#[tokio::test]
async fn closed_file_contains_all_data() {
    let database = TempDatabase::new();
    let store = database.open_store();
    let run = TestExecution::create_started(&store, 1).await;
    assert!(store.find_execution(run.id).await.unwrap().is_some());
    drop(store);
    let wal = database.folder.path().join("noetl.db-wal");
    assert!(!wal.exists(), "{:?}", wal.metadata());
    let moved = database.folder.path().join("moved.db");
    std::fs::copy(database.folder.path().join("noetl.db"), &moved).unwrap();
    let store = SqliteStore::open(&SqliteOptions::new(moved)).unwrap();
    assert!(store.find_execution(run.id).await.unwrap().is_some());
}

#[tokio::test]
async fn row_in_flight_without_lease_is_claimable() {
    let database = TempDatabase::new();
    let store = database.open_store();
    crate::suite::outbox::create_run_with_outbox(&store, 1, 3).await;
    let path = database.options().path;
    let run = |sql: &str| Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    crate::suite::outbox::row_in_flight_without_lease_is_claimable(&store, run, "").await;
}

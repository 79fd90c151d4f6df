//! The store suite on PostgreSQL, and tests of behaviour specific to a PostgreSQL cluster.

mod cancellation;
mod crash;
mod migrations;
mod notify_channel;
mod partition_drops;
mod publishing;
mod query_plans;
mod replay;
mod roles;
mod timeouts;
mod tls;

use std::sync::Arc;

use noetl_testkit::postgres::{ClusterRole, PostgresCluster, TestDatabase};
use noetl_types::id::first_id_at;
use tokio::task::JoinSet;
use tokio_postgres::NoTls;

use super::{PostgresOptions, PostgresStore};
use crate::prelude::*;
use crate::suite::fixture::{TestExecution, append_one, lease_request, test_time};
use crate::suite::{
    StoreFixture, compare_concurrent_with_model, compare_with_model,
    compare_with_model_under_faults, publishing_suite, store_suite,
};
use crate::testing::migrated_database;
use crate::{AppendError, FeedLimit, LogPageLimit, StoreError};

fn test_options(database: &TestDatabase) -> PostgresOptions {
    PostgresOptions::new(database.connection_config(), test_time("12:00:00"))
}

/// Creates a database with migrated tables.
fn new_database() -> TestDatabase {
    migrated_database(test_time("12:00:00")).unwrap()
}

async fn open_store(database: &TestDatabase) -> PostgresStore {
    PostgresStore::open(&test_options(database)).await.unwrap()
}

async fn connect_raw(database: &TestDatabase) -> tokio_postgres::Client {
    let (client, connection) =
        tokio_postgres::connect(&database.connection_config(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("SET search_path = noetl").await.unwrap();
    client
}

async fn create_fixture() -> StoreFixture {
    let database = Arc::new(new_database());
    let options = test_options(&database);
    create_fixture_with(database, &options).await
}

async fn create_fixture_with(
    database: Arc<TestDatabase>,
    options: &PostgresOptions,
) -> StoreFixture {
    let store = Arc::new(PostgresStore::open(options).await.unwrap());
    let drop_database = Arc::clone(&database);
    let outbox_database = Arc::clone(&database);
    StoreFixture {
        store,
        mark_dropped_before: Box::new(move |time| {
            let hi = first_id_at(time.as_unix_ms());
            let sql = format!(
                "INSERT INTO noetl.retention_range (lo, hi, dropped_at) VALUES (0, {hi}, 'epoch');
                 DELETE FROM noetl.execution WHERE execution_id < {hi}"
            );
            drop_database.run_statement(&sql).unwrap();
            Box::pin(async {})
        }),
        set_message_id: Box::new(move |row, message_id| {
            let sql = "UPDATE noetl.outbox SET message_id";
            let sql = format!("{sql} = '{message_id}' WHERE outbox_id = {row}");
            outbox_database.run_statement(&sql).unwrap();
        }),
        resources: Box::new(database),
    }
}

store_suite!(create_fixture);
publishing_suite!(create_fixture);

#[tokio::test]
async fn histories_match_model() {
    compare_histories(0..6).await;
}

async fn compare_histories(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        println!("seed {seed}");
        let database = new_database();
        compare_with_model(&open_store(&database).await, seed, 200).await;
        let database = new_database();
        compare_with_model_under_faults(open_store(&database).await, seed, 200).await;
    }
}

#[tokio::test]
#[ignore = "a long sweep"]
async fn heavy_many_histories_match_model() {
    compare_histories(1_000..3_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 16)]
async fn concurrent_histories_match_model() {
    let database = new_database();
    compare_concurrent_with_model(Arc::new(open_store(&database).await), 0, 16, 200).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_appends_share_few_commits() {
    let database = new_database();
    let store = Arc::new(open_store(&database).await);
    TestExecution::create_started(&*store, 999).await;
    let before = store.commit_count();
    let mut appends = JoinSet::new();
    for number in 0..256 {
        let store = Arc::clone(&store);
        appends.spawn(async move {
            append_one(&*store, TestExecution::new(number).start_request()).await
        });
    }
    for result in appends.join_all().await {
        result.unwrap();
    }
    let commits = store.commit_count() - before;
    assert!(commits < 20, "{commits} commits");
    // Every event stores the id of its transaction, assigned by the database.
    let client = connect_raw(&database).await;
    let row =
        client.query_one("SELECT count(DISTINCT tx), count(*) FROM event", &[]).await.unwrap();
    let (transactions, events): (i64, i64) = (row.get(0), row.get(1));
    assert_eq!(events, 257);
    assert_eq!(u64::try_from(transactions).unwrap(), store.commit_count());
}

/// Plans are made while the tables are empty, and two indexes begin with the execution. With the
/// wrong one, every grant would read all events of its run.
#[tokio::test]
async fn lease_grant_reads_only_its_own_event() {
    let database = new_database();
    let store = open_store(&database).await;
    let granted = store.lease_commands(lease_request("first", 1, 10)).await.unwrap();
    assert_eq!(granted, []);
    let mut run = TestExecution::create_started(&store, 1).await;
    for _ in 0..50 {
        run.issue_command(&store).await;
    }
    let granted = store.lease_commands(lease_request("second", 2, 10)).await.unwrap();
    assert_eq!(granted.len(), 10);
    // A session reports its reads when it ends.
    drop(store);
    let client = connect_raw(&database).await;
    let other_sessions = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()";
    while client.query_one(other_sessions, &[]).await.unwrap().get::<_, i64>(0) > 0 {
        tokio::task::yield_now().await;
    }
    let index_reads = "SELECT
            sum(idx_tup_read) FILTER (WHERE indexrelname LIKE '%seq_key')::bigint,
            sum(idx_tup_read) FILTER (WHERE indexrelname LIKE 'event%pkey')::bigint
        FROM pg_stat_user_indexes";
    let row = client.query_one(index_reads, &[]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (0, 10));
}

#[tokio::test]
async fn concurrent_starts_migrate_once() {
    let database = TestDatabase::new().unwrap();
    let mut starts = JoinSet::new();
    for _ in 0..6 {
        let options = test_options(&database);
        starts.spawn(async move { PostgresStore::open(&options).await.map(drop) });
    }
    for result in starts.join_all().await {
        result.unwrap();
    }
}

#[tokio::test]
async fn answers_are_independent_of_time_zone() {
    let database = TestDatabase::new().unwrap();
    let mut run = TestExecution::new(1);
    let mut answers = Vec::new();
    for time_zone in ["UTC", "Asia/Tokyo", "America/New_York"] {
        let options = PostgresOptions { time_zone, ..test_options(&database) };
        let store = PostgresStore::open(&options).await.unwrap();
        let append = if run.head == crate::LogHead::START {
            run.start_request()
        } else {
            run.step_request()
        };
        run.append_to(&store, append).await.unwrap();
        let events = store
            .read_events(run.id, noetl_types::ExecutionVersion::EMPTY, LogPageLimit::MAX)
            .await;
        answers.push((events.unwrap(), store.find_execution(run.id).await.unwrap().unwrap()));
        let (events, execution) = answers.last().unwrap();
        noetl_types::record::verify_chain(events).unwrap();
        assert_eq!(execution.facts.started_at, test_time("12:00:00"));
        assert!(events.iter().all(|event| event.record.ingest_time == test_time("12:00:00")));
    }
    let client = connect_raw(&database).await;
    let row = client
        .query_one("SELECT count(DISTINCT extract(epoch FROM event_time)) FROM event", &[])
        .await
        .unwrap();
    assert_eq!(row.get::<_, i64>(0), 1);
}

#[tokio::test]
async fn missing_month_is_created() {
    let database = new_database();
    let store = open_store(&database).await;
    let mut old = TestExecution::new(-5_000_000_000);
    assert_eq!(noetl_types::Month::from_timestamp(old.id.time()).to_string(), "2026-10");
    let append = old.start_request();
    old.append_to(&store, append).await.unwrap();
    let client = connect_raw(&database).await;
    let rows = client
        .query("SELECT relid::text FROM pg_partition_tree('event') WHERE isleaf ORDER BY 1", &[])
        .await
        .unwrap();
    let names: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(names, ["event_y2026m10", "event_y2026m11", "event_y2026m12", "event_y2027m01"]);
}

#[tokio::test]
async fn locked_execution_conflicts_without_blocking_others() {
    let database = new_database();
    let store = open_store(&database).await;
    let mut locked = TestExecution::create_started(&store, 1).await;
    let mut free = TestExecution::create_started(&store, 2).await;
    let mut other = connect_raw(&database).await;
    let transaction = other.transaction().await.unwrap();
    let lock = "SELECT FROM execution WHERE execution_id = $1 FOR UPDATE";
    transaction.execute(lock, &[&locked.id.get()]).await.unwrap();
    let results = store.append_events(vec![locked.step_request(), free.step_request()]).await;
    assert!(matches!(results[0], Err(AppendError::Conflict { .. })));
    assert!(results[1].is_ok(), "{results:?}");
    transaction.commit().await.unwrap();
    let append = locked.step_request();
    locked.append_to(&store, append).await.unwrap();
}

/// An open transaction with an older id holds the feed back. Nothing is skipped when it commits.
#[tokio::test]
async fn feed_does_not_skip_late_commit() {
    let database = new_database();
    let store = open_store(&database).await;
    let mut first = TestExecution::create_started(&store, 1).await;
    let mut other = connect_raw(&database).await;
    let transaction = other.transaction().await.unwrap();
    transaction
        .execute(
            "INSERT INTO event (execution_id, event_id, seq, event_type, status, tenant_id,
                organization_id, event_time, created_at, ingest_time, schema_version, chain)
             SELECT execution_id, event_id + 100, 50, event_type, status, tenant_id,
                organization_id, event_time, created_at, ingest_time, schema_version, chain
             FROM event",
            &[],
        )
        .await
        .unwrap();
    let append = first.step_request();
    first.append_to(&store, append).await.unwrap();
    let start = noetl_types::FeedPosition::default();
    // Other tests in the cluster may briefly hold even the first event back.
    let before = loop {
        let batch = store.read_feed(start, FeedLimit::MAX).await.unwrap();
        if !batch.events.is_empty() {
            break batch;
        }
    };
    assert_eq!(before.events.len(), 1, "the later event has to wait");
    transaction.commit().await.unwrap();
    let mut after = before.next;
    let mut seqs = Vec::new();
    while seqs.len() < 2 {
        let batch = store.read_feed(after, FeedLimit::MAX).await.unwrap();
        after = batch.next;
        seqs.extend(batch.events.iter().map(|event| event.record.seq.get()));
    }
    assert_eq!(seqs, [50, 2]);
}

#[tokio::test]
async fn lease_grant_relaxes_only_its_transaction() {
    let database = new_database();
    let store =
        PostgresStore::open(&PostgresOptions { max_connections: 1, ..test_options(&database) })
            .await
            .unwrap();
    let mut run = TestExecution::create_started(&store, 1).await;
    run.issue_command(&store).await;
    let leased = store.lease_commands(lease_request("w", 1, 1)).await.unwrap();
    assert_eq!(leased.len(), 1);
    let mut client = store.pool.acquire().await.unwrap();
    let rows = client.query_rows("SHOW synchronous_commit", &[]).await.unwrap();
    assert_eq!(rows[0].get::<_, &str>(0), "on");
}

#[tokio::test]
async fn broken_connection_is_replaced() {
    let database = new_database();
    let store = open_store(&database).await;
    let mut run = TestExecution::create_started(&store, 1).await;
    let break_all = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()";
    database.run_statement(break_all).unwrap();
    // At most one call fails on the broken connection. It can be retried.
    loop {
        let append = run.step_request();
        match run.append_to(&store, append).await {
            Ok(_) => break,
            Err(AppendError::Store(StoreError::Retry { .. })) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(run.head.version, noetl_types::ExecutionVersion::new(2).unwrap());
}

#[tokio::test]
async fn unreachable_server_is_retryable() {
    let options = PostgresOptions::new("host=/nonexistent user=nobody", test_time("12:00:00"));
    let error = PostgresStore::open(&options).await.unwrap_err();
    assert_eq!(error, StoreError::retry(""));
}

fn fatal_message(error: &StoreError) -> String {
    match error {
        StoreError::Fatal { cause } => cause.to_string(),
        StoreError::Retry { .. } => panic!("{error:?}"),
    }
}

#[tokio::test]
async fn server_without_fsync_is_refused() {
    let cluster = PostgresCluster::start_private(&["fsync=off"], ClusterRole::Primary).unwrap();
    let options =
        PostgresOptions::new(cluster.connection_config("postgres"), test_time("12:00:00"));
    let error = PostgresStore::open(&options).await.unwrap_err();
    assert!(fatal_message(&error).starts_with("the setting fsync is off"));
    // The setting `unsafe_durability` permits it.
    let permitted = PostgresOptions { unsafe_durability: true, ..options };
    let store = PostgresStore::open(&permitted).await.unwrap();
    TestExecution::create_started(&store, 1).await;
}

#[tokio::test]
async fn opens_connections_and_caches_statements_as_configured() {
    let database = new_database();
    let options = PostgresOptions {
        initial_connections: 3,
        max_prepared_statements: 1,
        ..PostgresOptions::new(database.connection_config(), test_time("12:00:00"))
    };
    let store = PostgresStore::open(&options).await.unwrap();
    assert_eq!(store.pool.idle_statement_counts(), [0, 0, 0]);
    let run = TestExecution::create_started(&store, 1).await;
    for _ in 0..2 {
        assert!(store.find_execution(run.id).await.unwrap().is_some());
        assert!(!store.is_dropped(run.id).await.unwrap());
    }
    assert_eq!(store.pool.idle_statement_counts(), [0, 0, 1]);
}

#[tokio::test]
async fn standby_is_refused() {
    let cluster = PostgresCluster::start_private(&[], ClusterRole::Standby).unwrap();
    let options =
        PostgresOptions::new(cluster.connection_config("postgres"), test_time("12:00:00"));
    let error = PostgresStore::open(&options).await.unwrap_err();
    assert!(fatal_message(&error).starts_with("the PostgreSQL server is a read-only standby"));
}

/// Sessions of the store wait for the disk, independent of the default of the database.
#[tokio::test]
async fn appends_override_asynchronous_commit_default() {
    let database = new_database();
    let name = database.name();
    database.run_statement(&format!("ALTER DATABASE {name} SET synchronous_commit = off")).unwrap();
    let store = open_store(&database).await;
    TestExecution::create_started(&store, 1).await;
    let mut client = store.pool.acquire().await.unwrap();
    let rows = client.query_rows("SHOW synchronous_commit", &[]).await.unwrap();
    assert_eq!(rows[0].get::<_, &str>(0), "on");
}

#[tokio::test]
async fn missing_tables_are_reported() {
    let database = new_database();
    let store = open_store(&database).await;
    let tables = store.check_tables().await.unwrap();
    assert!(tables.len() > 20, "{tables:?}");
    assert!(tables.values().all(|exists| *exists), "{tables:?}");
    database.run_statement("DROP TABLE noetl.keychain").unwrap();
    let tables = store.check_tables().await.unwrap();
    let missing: Vec<_> = tables.iter().filter(|(_, exists)| !**exists).collect();
    assert_eq!(missing, [(&"keychain", &false)]);
}

/// A newer release migrated this database. An older program continues to work if the migration only
/// added to the tables. It is refused if the migration changed something that it uses.
#[tokio::test]
async fn additive_newer_schema_is_accepted() {
    let database = new_database();
    let run = TestExecution::create_started(&open_store(&database).await, 1).await;
    let newer = "ALTER TABLE noetl.execution ADD COLUMN newer TEXT;
        ALTER TABLE noetl.event ADD COLUMN newer TEXT;
        ALTER TABLE noetl.command ADD COLUMN newer TEXT;
        ALTER TABLE noetl.outbox ADD COLUMN newer TEXT;
        CREATE TABLE noetl.newer (n INT);
        INSERT INTO noetl.schema_migration (version, name, sha256)
        SELECT 900, 'newer', sha256 FROM noetl.schema_migration WHERE version = 1";
    database.run_statement(newer).unwrap();
    let store = open_store(&database).await;
    assert!(store.find_execution(run.id).await.unwrap().is_some());
    crate::suite::outbox::create_run_with_outbox(&store, 2, 2).await;
    let claim = crate::suite::outbox::outbox_claim("a", 10, test_time("12:00:00"));
    assert_eq!(store.claim_outbox(claim).await.unwrap().rows.len(), 2);
    let require_newer = "UPDATE noetl.meta SET value = '900' WHERE key = 'oldest_program'";
    database.run_statement(require_newer).unwrap();
    let error = PostgresStore::open(&test_options(&database)).await.unwrap_err();
    let message = fatal_message(&error);
    assert!(message.contains("newer than this program"), "{message}");
}

//! The suite on PostgreSQL, and what only a cluster can get wrong.

mod abandoned;
mod drops;
mod gists;
mod kill;
mod line;
mod migrations;
mod outlets;
mod plans;
mod roles;
mod tls;
mod waits;

use std::sync::Arc;

use noetl_testkit::postgres::{Cluster, Database, Role};
use noetl_types::id::first_id_at;
use tokio::task::JoinSet;
use tokio_postgres::NoTls;

use super::{PostgresOptions, PostgresStore};
use crate::suite::fixture::{Run, at, lease_of, one};
use crate::suite::{Bench, differ, differ_in_lanes, differ_with_faults, outlet_suite, store_suite};
use crate::{AppendRefused, FeedLimit, LogPage, Outlets as _, Store as _, StoreError, Upkeep as _};

fn options(database: &Database) -> PostgresOptions {
    PostgresOptions::new(database.config(), at("12:00:00"))
}

async fn open(database: &Database) -> PostgresStore {
    PostgresStore::open(&options(database)).await.unwrap()
}

async fn raw(database: &Database) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(&database.config(), NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    client
        .batch_execute("SET search_path = noetl")
        .await
        .unwrap();
    client
}

async fn bench() -> Bench {
    let database = Arc::new(Database::new().unwrap());
    let options = options(&database);
    bench_of(database, &options).await
}

async fn bench_of(database: Arc<Database>, options: &PostgresOptions) -> Bench {
    let store = Arc::new(PostgresStore::open(options).await.unwrap());
    let dropping = Arc::clone(&database);
    let calling = Arc::clone(&database);
    Bench {
        store,
        drop_before: Box::new(move |time| {
            let hi = first_id_at(time.as_unix_ms());
            let range = format!(
                "INSERT INTO noetl.retention_range (lo, hi, dropped_at) VALUES (0, {hi}, 'epoch');
                 DELETE FROM noetl.execution WHERE execution_id < {hi}"
            );
            dropping.run(&range).unwrap();
            Box::pin(async {})
        }),
        call_row: Box::new(move |row, name| {
            let call = "UPDATE noetl.outbox SET message_id";
            let call = format!("{call} = '{name}' WHERE outbox_id = {row}");
            calling.run(&call).unwrap();
        }),
        keep: Box::new(database),
    }
}

store_suite!(bench);
outlet_suite!(bench);

#[tokio::test]
async fn histories_are_those_of_the_model() {
    sweep(0..6).await;
}

async fn sweep(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        println!("seed {seed}");
        let database = Database::new().unwrap();
        differ(&open(&database).await, seed, 200).await;
        let database = Database::new().unwrap();
        differ_with_faults(open(&database).await, seed, 200).await;
    }
}

#[tokio::test]
#[ignore = "a long sweep"]
async fn heavy_many_histories_are_those_of_the_model() {
    sweep(1_000..3_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 16)]
async fn histories_beside_each_other_are_those_of_the_model() {
    let database = Database::new().unwrap();
    differ_in_lanes(Arc::new(open(&database).await), 0, 16, 200).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_appends_share_few_commits() {
    let database = Database::new().unwrap();
    let store = Arc::new(open(&database).await);
    Run::started(&*store, 999).await;
    let before = store.commits();
    let mut appends = JoinSet::new();
    for number in 0..256 {
        let store = Arc::clone(&store);
        appends.spawn(async move { one(&*store, Run::new(number).start()).await });
    }
    for result in appends.join_all().await {
        result.unwrap();
    }
    let commits = store.commits() - before;
    assert!(commits < 20, "{commits} commits");
    // Every event has the number of its transaction, which the database gave.
    let client = raw(&database).await;
    let row = client
        .query_one("SELECT count(DISTINCT tx), count(*) FROM event", &[])
        .await
        .unwrap();
    let (transactions, events): (i64, i64) = (row.get(0), row.get(1));
    assert_eq!(events, 257);
    assert_eq!(u64::try_from(transactions).unwrap(), store.commits());
}

/// Plans are made while the tables are empty, and two indexes begin with the execution: with the
/// wrong one every grant would read all of its run.
#[tokio::test]
async fn a_grant_reads_its_own_event_and_no_other() {
    let database = Database::new().unwrap();
    let store = open(&database).await;
    let granted = store.lease(lease_of("first", 1, 10)).await.unwrap();
    assert_eq!(granted, []);
    let mut run = Run::started(&store, 1).await;
    for _ in 0..50 {
        run.issue(&store).await;
    }
    let granted = store.lease(lease_of("second", 2, 10)).await.unwrap();
    assert_eq!(granted.len(), 10);
    // What a session has read is known when it is gone.
    drop(store);
    let client = raw(&database).await;
    let others = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()";
    while client
        .query_one(others, &[])
        .await
        .unwrap()
        .get::<_, i64>(0)
        > 0
    {
        tokio::task::yield_now().await;
    }
    let read = "SELECT
            sum(idx_tup_read) FILTER (WHERE indexrelname LIKE '%seq_key')::bigint,
            sum(idx_tup_read) FILTER (WHERE indexrelname LIKE 'event%pkey')::bigint
        FROM pg_stat_user_indexes";
    let row = client.query_one(read, &[]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (0, 10));
}

#[tokio::test]
async fn processes_that_start_together_migrate_once() {
    let database = Database::new().unwrap();
    let mut starts = JoinSet::new();
    for _ in 0..6 {
        let options = options(&database);
        starts.spawn(async move { PostgresStore::open(&options).await.map(drop) });
    }
    for result in starts.join_all().await {
        result.unwrap();
    }
}

#[tokio::test]
async fn answers_do_not_depend_on_the_time_zone() {
    let database = Database::new().unwrap();
    let mut run = Run::new(1);
    let mut answers = Vec::new();
    for time_zone in ["UTC", "Asia/Tokyo", "America/New_York"] {
        let options = PostgresOptions {
            time_zone,
            ..options(&database)
        };
        let store = PostgresStore::open(&options).await.unwrap();
        let append = if run.head == crate::Head::START {
            run.start()
        } else {
            run.step()
        };
        run.write(&store, append).await.unwrap();
        let events = store
            .events(run.id, noetl_types::Version::EMPTY, LogPage::MAX)
            .await;
        answers.push((
            events.unwrap(),
            store.execution(run.id).await.unwrap().unwrap(),
        ));
        let (events, execution) = answers.last().unwrap();
        noetl_types::record::verify_chain(events).unwrap();
        assert_eq!(execution.facts.started_at, at("12:00:00"));
        assert!(
            events
                .iter()
                .all(|event| event.record.ingest_time == at("12:00:00"))
        );
    }
    let client = raw(&database).await;
    let row = client
        .query_one(
            "SELECT count(DISTINCT extract(epoch FROM event_time)) FROM event",
            &[],
        )
        .await
        .unwrap();
    assert_eq!(row.get::<_, i64>(0), 1);
}

#[tokio::test]
async fn a_month_that_is_missing_is_made() {
    let database = Database::new().unwrap();
    let store = open(&database).await;
    let mut old = Run::new(-5_000_000_000);
    assert_eq!(noetl_types::Month::of(old.id.time()).to_string(), "2026-10");
    let append = old.start();
    old.write(&store, append).await.unwrap();
    let client = raw(&database).await;
    let rows = client
        .query(
            "SELECT relid::text FROM pg_partition_tree('event') WHERE isleaf ORDER BY 1",
            &[],
        )
        .await
        .unwrap();
    let names: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(
        names,
        [
            "event_y2026m10",
            "event_y2026m11",
            "event_y2026m12",
            "event_y2027m01"
        ]
    );
}

#[tokio::test]
async fn a_run_in_another_hand_is_a_conflict_and_holds_nobody_up() {
    let database = Database::new().unwrap();
    let store = open(&database).await;
    let mut held = Run::started(&store, 1).await;
    let mut free = Run::started(&store, 2).await;
    let mut other = raw(&database).await;
    let transaction = other.transaction().await.unwrap();
    let lock = "SELECT FROM execution WHERE execution_id = $1 FOR UPDATE";
    transaction.execute(lock, &[&held.id.get()]).await.unwrap();
    let results = store.append(vec![held.step(), free.step()]).await;
    assert!(matches!(results[0], Err(AppendRefused::Conflict { .. })));
    assert!(results[1].is_ok(), "{results:?}");
    transaction.commit().await.unwrap();
    let append = held.step();
    held.write(&store, append).await.unwrap();
}

/// An open transaction with an older id holds the feed back; nothing is skipped when it commits.
/// Hole T1.
#[tokio::test]
async fn a_late_commit_is_not_skipped_by_the_feed() {
    let database = Database::new().unwrap();
    let store = open(&database).await;
    let mut first = Run::started(&store, 1).await;
    let mut other = raw(&database).await;
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
    let append = first.step();
    first.write(&store, append).await.unwrap();
    let start = noetl_types::FeedPosition::default();
    // Other tests in the cluster may hold even the first event back for a moment.
    let before = loop {
        let batch = store.feed(start, FeedLimit::MAX).await.unwrap();
        if !batch.events.is_empty() {
            break batch;
        }
    };
    assert_eq!(before.events.len(), 1, "the later event has to wait");
    transaction.commit().await.unwrap();
    let mut after = before.next;
    let mut seqs = Vec::new();
    while seqs.len() < 2 {
        let batch = store.feed(after, FeedLimit::MAX).await.unwrap();
        after = batch.next;
        seqs.extend(batch.events.iter().map(|event| event.record.seq.get()));
    }
    assert_eq!(seqs, [50, 2]);
}

#[tokio::test]
async fn a_grant_relaxes_only_its_own_transaction() {
    let database = Database::new().unwrap();
    let store = PostgresStore::open(&PostgresOptions {
        connections: 1,
        ..options(&database)
    })
    .await
    .unwrap();
    let mut run = Run::started(&store, 1).await;
    run.issue(&store).await;
    let leased = store.lease(lease_of("w", 1, 1)).await.unwrap();
    assert_eq!(leased.len(), 1);
    let mut client = store.pool.get().await.unwrap();
    let rows = client.rows("SHOW synchronous_commit", &[]).await.unwrap();
    assert_eq!(rows[0].get::<_, &str>(0), "on");
}

#[tokio::test]
async fn a_broken_connection_is_replaced() {
    let database = Database::new().unwrap();
    let store = open(&database).await;
    let mut run = Run::started(&store, 1).await;
    let break_all = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()";
    database.run(break_all).unwrap();
    // At most one call finds out the hard way, and may be repeated.
    loop {
        let append = run.step();
        match run.write(&store, append).await {
            Ok(_) => break,
            Err(AppendRefused::Store(StoreError::Retry { .. })) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(run.head.version, noetl_types::Version::new(2).unwrap());
}

#[tokio::test]
async fn a_server_that_is_not_there_may_be_there_later() {
    let options = PostgresOptions::new("host=/nonexistent user=nobody", at("12:00:00"));
    let refused = PostgresStore::open(&options).await.unwrap_err();
    assert_eq!(refused, StoreError::retry(""));
}

fn refusal_of(refused: &StoreError) -> String {
    match refused {
        StoreError::Fatal { cause } => cause.to_string(),
        StoreError::Retry { .. } => panic!("{refused:?}"),
    }
}

/// Hole T14.
#[tokio::test]
async fn a_server_that_may_lose_what_it_answered_is_refused() {
    let cluster = Cluster::own(&["fsync=off"], Role::Primary).unwrap();
    let options = PostgresOptions::new(cluster.config("postgres"), at("12:00:00"));
    let refused = PostgresStore::open(&options).await.unwrap_err();
    assert!(refusal_of(&refused).starts_with("the setting fsync is off"));
    // Unless somebody has said that it may.
    let told = PostgresOptions {
        unsafe_durability: true,
        ..options
    };
    let store = PostgresStore::open(&told).await.unwrap();
    Run::started(&store, 1).await;
}

#[tokio::test]
async fn connections_are_opened_and_statements_kept_as_somebody_says() {
    let database = Database::new().unwrap();
    let options = PostgresOptions {
        opened: 3,
        prepared: 1,
        ..PostgresOptions::new(database.config(), at("12:00:00"))
    };
    let store = PostgresStore::open(&options).await.unwrap();
    assert_eq!(store.pool.idle_sessions(), [0, 0, 0]);
    let run = Run::started(&store, 1).await;
    for _ in 0..2 {
        assert!(store.execution(run.id).await.unwrap().is_some());
        assert!(!store.is_gone(run.id).await.unwrap());
    }
    assert_eq!(store.pool.idle_sessions(), [0, 0, 1]);
}

/// Hole T15.
#[tokio::test]
async fn a_standby_is_refused() {
    let cluster = Cluster::own(&[], Role::Standby).unwrap();
    let options = PostgresOptions::new(cluster.config("postgres"), at("12:00:00"));
    let refused = PostgresStore::open(&options).await.unwrap_err();
    assert!(refusal_of(&refused).starts_with("the server is a standby"));
}

/// Whatever the database says, a session of the store waits for the disk.
/// Hole T14.
#[tokio::test]
async fn a_database_that_forgets_by_default_does_not_forget_appends() {
    let database = Database::new().unwrap();
    let name = database.name();
    database
        .run(&format!(
            "ALTER DATABASE {name} SET synchronous_commit = off"
        ))
        .unwrap();
    let store = open(&database).await;
    Run::started(&store, 1).await;
    let mut client = store.pool.get().await.unwrap();
    let rows = client.rows("SHOW synchronous_commit", &[]).await.unwrap();
    assert_eq!(rows[0].get::<_, &str>(0), "on");
}

/// A table that somebody drops is missed.
#[tokio::test]
async fn tables_are_there_or_missing() {
    let database = Database::new().unwrap();
    let store = open(&database).await;
    let tables = store.tables().await.unwrap();
    assert!(tables.len() > 20, "{tables:?}");
    assert!(tables.values().all(|is_there| *is_there), "{tables:?}");
    database.run("DROP TABLE noetl.keychain").unwrap();
    let tables = store.tables().await.unwrap();
    let missing: Vec<_> = tables.iter().filter(|(_, is_there)| !**is_there).collect();
    assert_eq!(missing, [(&"keychain", &false)]);
}

/// A newer release was here and only added to the tables: whoever comes back works on. Where it changed
/// what an older one uses, that one is refused.
#[tokio::test]
async fn tables_that_a_newer_release_added_to_are_worked_with() {
    let database = Database::new().unwrap();
    let run = Run::started(&open(&database).await, 1).await;
    let newer = "ALTER TABLE noetl.execution ADD COLUMN newer TEXT;
        ALTER TABLE noetl.event ADD COLUMN newer TEXT;
        ALTER TABLE noetl.command ADD COLUMN newer TEXT;
        ALTER TABLE noetl.outbox ADD COLUMN newer TEXT;
        CREATE TABLE noetl.newer (n INT);
        INSERT INTO noetl.schema_migration (version, name, sha256)
        SELECT 900, 'newer', sha256 FROM noetl.schema_migration WHERE version = 1";
    database.run(newer).unwrap();
    let store = open(&database).await;
    assert!(store.execution(run.id).await.unwrap().is_some());
    crate::suite::outbox::published_run(&store, 2, 2).await;
    let claim = crate::suite::outbox::claim("a", 10, at("12:00:00"));
    assert_eq!(store.claim_outbox(claim).await.unwrap().rows.len(), 2);
    let not_for_it = "UPDATE noetl.meta SET value = '900' WHERE key = 'oldest_program'";
    database.run(not_for_it).unwrap();
    let refused = PostgresStore::open(&options(&database)).await.unwrap_err();
    let told = refusal_of(&refused);
    assert!(told.contains("newer than this program"), "{told}");
}

//! Behaviour of outbox, streams and retention that is specific to a PostgreSQL cluster.

use std::sync::Arc;

use noetl_testkit::postgres::TestDatabase;
use noetl_types::limits::PageLimit;
use noetl_types::{FeedPosition, Json, Millis, Month, QuarantineId, Text, json, sha256};

use super::{connect_raw, create_fixture_with, new_database, open_store, test_options};
use crate::outbox::{COUNT_BY_STATUS, COUNT_CLAIMABLE, LIST_DEAD_ROWS, OUTBOX_STATS, PURGE_OUTBOX};
use crate::postgres::outbox::{CLAIM_OUTBOX, MARK_PUBLISHED};
use crate::postgres::{PostgresOptions, PostgresStore};
use crate::prelude::*;
use crate::streams::UPDATE_MESSAGE_IDS;
use crate::suite::fixture::{TestExecution, append_one, test_time};
use crate::suite::outbox::{all_outbox_rows, create_run_with_outbox, outbox_claim, outbox_mark};
use crate::suite::stream::{
    STREAM_NAME, assert_unreadable_row_is_reported, lease_stream, lease_test_stream, move_cursor,
    stream_lease_request,
};
use crate::suite::{damaged_rows, outbox, projection, retention};
use crate::{
    AppendError, CursorMove, EnabledPublishers, FeedLimit, LogEpoch, LogPartition,
    MAX_FEED_BATCH_BYTES, OutboxPayload, OutboxStatus, PinReason, PurgePlan, QuarantineFilter,
    QuarantinedItem, Store, purge_old_data,
};

/// Reads positions from the feed until there are `events` of them.
async fn read_feed_positions(
    store: &dyn Store,
    after: FeedPosition,
    events: usize,
) -> Vec<FeedPosition> {
    let (mut after, mut positions) = (after, Vec::new());
    while positions.len() < events {
        let batch = store.read_feed(after, FeedLimit::clamped(2)).await.unwrap();
        after = batch.next;
        positions.extend(batch.events.iter().map(|event| event.feed));
        tokio::task::yield_now().await;
    }
    positions
}

/// Rules about times give the same result in sessions with other time zones.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn publishing_is_independent_of_time_zone() {
    for time_zone in ["Asia/Tokyo", "America/New_York"] {
        let create_zoned_fixture = || async move {
            let database = Arc::new(TestDatabase::new().unwrap());
            let options = PostgresOptions { time_zone, ..test_options(&database) };
            create_fixture_with(database, &options).await
        };
        outbox::rows_of_dead_publisher_are_reclaimed(&create_zoned_fixture().await).await;
        outbox::published_rows_are_purged_in_batches(&create_zoned_fixture().await).await;
        projection::projected_events_create_execution(&create_zoned_fixture().await).await;
        retention::only_finished_months_are_dropped(&create_zoned_fixture().await).await;
        retention::old_commands_and_silent_pools_are_purged(&create_zoned_fixture().await).await;
    }
}

#[tokio::test]
async fn unreadable_row_does_not_stop_feed() {
    let database = new_database();
    let store = open_store(&database).await;
    assert_unreadable_row_is_reported(&store, || {
        let damage = "UPDATE noetl.event SET tenant_id = '' WHERE seq = 2";
        database.run_statement(damage).unwrap();
    })
    .await;
}

/// A transaction that began earlier holds the cursor back. Nothing is skipped when it commits.
#[tokio::test]
async fn stream_started_now_misses_no_late_commit() {
    let database = new_database();
    let store = open_store(&database).await;
    let mut run = TestExecution::create_started(&store, 1).await;
    read_feed_positions(&store, FeedPosition::default(), 1).await;
    let mut other = connect_raw(&database).await;
    let late = other.transaction().await.unwrap();
    let copy = "INSERT INTO event (execution_id, event_id, seq, event_type, status, tenant_id,
            organization_id, event_time, created_at, ingest_time, schema_version, chain)
         SELECT execution_id, event_id + 100, 50, event_type, status, tenant_id,
            organization_id, event_time, created_at, ingest_time, schema_version, chain
         FROM event";
    late.execute(copy, &[]).await.unwrap();
    let mut append = run.step_request();
    append.now = test_time("12:00:07");
    run.append_to(&store, append).await.unwrap();
    let request = crate::StreamLeaseRequest {
        begin: crate::StreamStart::Now,
        ..stream_lease_request(STREAM_NAME, "a", test_time("12:00:10"))
    };
    let cursor = lease_stream(&store, request).await;
    let lag = store.feed_lag(cursor.position).await.unwrap();
    assert_eq!((lag.events, lag.end), (0, cursor.position));
    // The committed event is held back, and the lag reports since when.
    assert_eq!(lag.held_back_since, Some(test_time("12:00:07")));
    assert_eq!(lag.horizon_age(test_time("12:00:10")), Millis::from_secs(3));
    late.commit().await.unwrap();
    let positions = read_feed_positions(&store, cursor.position, 2).await;
    assert!(positions.is_sorted());
}

/// An event with a huge id does not move the feed, because the store assigns its positions.
#[tokio::test]
async fn huge_event_id_does_not_stop_feed() {
    let database = new_database();
    let store = open_store(&database).await;
    let run = TestExecution::new(1);
    let mut start = run.start_request();
    start.events[0].event_id = noetl_types::EventId::new(i64::MAX).unwrap();
    append_one(&store, start).await.unwrap();
    TestExecution::create_started(&store, 2).await;
    let positions = read_feed_positions(&store, FeedPosition::default(), 2).await;
    assert!(positions.is_sorted());
    let cursor = lease_test_stream(&store, "a", "12:00:00").await;
    let forward = CursorMove::Forward { from: cursor.position, to: positions[1] };
    assert!(move_cursor(&store, &cursor, forward).await);
}

/// A database that was restored into another cluster has the transaction ids of the old cluster.
#[tokio::test]
async fn restored_log_starts_new_epoch() {
    let database = new_database();
    let run = {
        let store = open_store(&database).await;
        let run = create_run_with_outbox(&store, 1, 3).await;
        read_feed_positions(&store, FeedPosition::default(), 3).await;
        let cursor = lease_test_stream(&store, "a", "12:00:00").await;
        assert_eq!(cursor.log_epoch, LogEpoch::FIRST);
        run
    };
    database.run_statement(MOVE_LOG_TO_OTHER_CLUSTER).unwrap();
    let store = open_store(&database).await;
    let epoch = store.log_epoch().await.unwrap();
    assert_ne!(epoch, LogEpoch::FIRST);
    let rows = store.list_outbox_rows(all_outbox_rows()).await.unwrap();
    assert!(rows.iter().all(|row| row.message_id.starts_with(&format!("{}:", epoch.get()))));
    let cursor = store.find_stream_cursor(&Text::from(STREAM_NAME)).await.unwrap().unwrap();
    assert_eq!(cursor.log_epoch, LogEpoch::FIRST);
    // The old events have transaction 0, and new ones follow them.
    let mut run = run;
    let append = run.step_request();
    run.append_to(&store, append).await.unwrap();
    let positions = read_feed_positions(&store, FeedPosition::default(), 4).await;
    assert!(positions.is_sorted());
    assert!(positions[..3].iter().all(|it| it.tx == 0));
    assert!(positions[3].tx > 0);
    let lag = store.feed_lag(FeedPosition::default()).await.unwrap();
    assert_eq!((lag.events, lag.end), (4, positions[3]));
    let lag = store.feed_lag(positions[1]).await.unwrap();
    assert_eq!(lag.events, 2);
    // Opening the store again keeps the epoch.
    drop(store);
    let store = open_store(&database).await;
    assert_eq!(store.log_epoch().await.unwrap(), epoch);
    assert_eq!(read_feed_positions(&store, FeedPosition::default(), 4).await, positions);
}

/// The transaction ids look like those of this cluster, but the log records that it was written in
/// another cluster, on another timeline of this one, or before a dump was restored.
#[tokio::test]
async fn log_from_other_cluster_starts_new_epoch() {
    let database = new_database();
    let epoch = async || open_store(&database).await.log_epoch().await.unwrap();
    let before = {
        let store = open_store(&database).await;
        create_run_with_outbox(&store, 1, 3).await;
        read_feed_positions(&store, FeedPosition::default(), 3).await
    };
    assert!(before.iter().all(|it| it.tx > 0));
    assert_eq!(epoch().await, LogEpoch::FIRST);
    let mut epochs = vec![LogEpoch::FIRST];
    let move_to = |key: &str, elsewhere: &str| {
        format!("UPDATE noetl.meta SET value = '{elsewhere}' WHERE key = '{key}'")
    };
    for moved in [
        move_to("cluster", "7000000000000000000"),
        move_to("timeline", "0000000F"),
        RESTORE_META.to_owned(),
        RESTORE_META.to_owned(),
    ] {
        database.run_statement(&moved).unwrap();
        let store = open_store(&database).await;
        let expected = store.log_epoch().await.unwrap();
        assert!(!epochs.contains(&expected), "{moved}");
        epochs.push(expected);
        let rows = store.list_outbox_rows(all_outbox_rows()).await.unwrap();
        let prefix = format!("{}:", expected.get());
        assert!(rows.iter().all(|row| row.message_id.starts_with(&prefix)));
        let positions = read_feed_positions(&store, FeedPosition::default(), 3).await;
        assert!(positions.iter().all(|it| it.tx == 0), "{positions:?}");
        // Opening the store again keeps the epoch.
        drop(store);
        assert_eq!(epoch().await, expected);
        database.run_statement("VACUUM FULL noetl.meta").unwrap();
        assert_eq!(epoch().await, expected);
    }
}

/// Writes the rows again in another transaction of the same cluster, as the restore of a dump does.
const RESTORE_META: &str = "CREATE TEMPORARY TABLE dump AS SELECT * FROM noetl.meta;
    TRUNCATE noetl.meta;
    INSERT INTO noetl.meta SELECT * FROM dump;
    DROP TABLE dump";

/// Gives the log the transaction ids of another cluster, as after a restore: far ahead of this
/// cluster, and not in the order of its positions.
pub(super) const MOVE_LOG_TO_OTHER_CLUSTER: &str =
    "UPDATE noetl.event SET tx = ((1000000000000 - position)::text)::xid8";

/// Waits until `events` events after a position are readable. They stay readable.
async fn wait_until_readable(store: &dyn Store, after: FeedPosition, events: u64) {
    while store.feed_lag(after).await.unwrap().events < events {
        tokio::task::yield_now().await;
    }
}

/// A reader that finds nothing polls again from the same position, so it must not wait for deleted
/// rows.
#[tokio::test]
async fn feed_continues_after_earlier_epochs_are_dropped() {
    let database = new_database();
    let mut run = {
        let store = open_store(&database).await;
        create_run_with_outbox(&store, 1, 3).await
    };
    database.run_statement(MOVE_LOG_TO_OTHER_CLUSTER).unwrap();
    let store = open_store(&database).await;
    let append = run.step_request();
    run.append_to(&store, append).await.unwrap();
    let start = FeedPosition::default();
    wait_until_readable(&store, start, 4).await;
    let earlier = read_feed_positions(&store, start, 3).await;
    let position_of_new_event = async |after| {
        let batch = store.read_feed(after, FeedLimit::MAX).await.unwrap();
        let seqs: Vec<_> = batch.events.iter().map(|event| event.record.seq).collect();
        assert_eq!(seqs, [noetl_types::Seq::new(4).unwrap()]);
        batch.next
    };
    // First without the last row of the earlier epochs, read from the middle of them, then without
    // any of their rows.
    let delete_sql =
        |positions: &str| format!("DELETE FROM noetl.event WHERE position {positions}");
    let last = earlier[2].position;
    database.run_statement(&delete_sql(&format!("= {last}"))).unwrap();
    let next = position_of_new_event(earlier[1]).await;
    assert!(next.tx > 0);
    database.run_statement(&delete_sql(&format!("<= {last}"))).unwrap();
    assert_eq!(position_of_new_event(start).await, next);
    // With an empty log, the feed neither blocks nor moves back.
    database.run_statement(&delete_sql("> 0")).unwrap();
    let batch = store.read_feed(start, FeedLimit::MAX).await.unwrap();
    assert_eq!((batch.events.len(), batch.is_full), (0, false));
    assert!(batch.next >= earlier[2]);
}

/// A server that was running before another one started a new log epoch reads the new epoch too.
#[tokio::test]
async fn running_server_follows_new_epoch() {
    let database = new_database();
    let store = open_store(&database).await;
    let mut run = create_run_with_outbox(&store, 1, 3).await;
    let start = FeedPosition::default();
    read_feed_positions(&store, start, 3).await;
    database.run_statement(MOVE_LOG_TO_OTHER_CLUSTER).unwrap();
    let other = open_store(&database).await;
    assert_ne!(other.log_epoch().await.unwrap(), LogEpoch::FIRST);
    assert_eq!(store.feed_lag(start).await.unwrap().events, 3);
    let request = crate::StreamLeaseRequest {
        begin: crate::StreamStart::Now,
        ..stream_lease_request("now", "a", test_time("12:00:10"))
    };
    let now_cursor = lease_stream(&store, request).await;
    let batch = store.read_feed(start, FeedLimit::MAX).await.unwrap();
    assert!(batch.events.iter().all(|event| event.feed.tx == 0));
    assert_eq!((batch.events.len(), batch.next), (3, now_cursor.position));
    let append = run.step_request();
    run.append_to(&other, append).await.unwrap();
    wait_until_readable(&store, now_cursor.position, 1).await;
    let positions = read_feed_positions(&store, start, 4).await;
    assert_eq!(positions, read_feed_positions(&other, start, 4).await);
    // Events that a stream of the new epoch has published do not pin their month.
    let cursor = lease_test_stream(&store, "a", "12:00:00").await;
    let restart = CursorMove::Restart { to: positions[2], stream_created_at: None };
    assert!(move_cursor(&store, &cursor, restart).await);
    let end = run.end_request();
    run.append_to(&other, end).await.unwrap();
    wait_until_readable(&store, start, 5).await;
    let publishers = EnabledPublishers { outbox: false, streams: vec![STREAM_NAME.into()] };
    let far_future = noetl_types::Timestamp::parse("2090-01-01T00:00:00Z").unwrap();
    let pin_reason = async || {
        store.list_old_partitions(far_future, &publishers).await.unwrap()[0].pin_reason.clone()
    };
    assert_eq!(pin_reason().await, Some(PinReason::Stream(STREAM_NAME.into())));
    let forward = CursorMove::Forward {
        from: positions[2],
        to: read_feed_positions(&store, start, 5).await[4],
    };
    assert!(move_cursor(&store, &cursor, forward).await);
    assert_eq!(pin_reason().await, None);
}

/// The old rows are indexed one partition at a time, without blocking writers. Later partitions
/// have the index from the start.
#[tokio::test]
async fn new_epoch_indexes_partitions_one_by_one() {
    let database = new_database();
    create_run_with_outbox(&open_store(&database).await, 1, 3).await;
    let client = connect_raw(&database).await;
    let indexes = "SELECT indexrelid::regclass::text FROM pg_index
        WHERE indnatts = 1 AND pg_get_indexdef(indexrelid) LIKE '%position%'
            AND indisvalid
        ORDER BY 1";
    let indexes = async || {
        let rows = client.query(indexes, &[]).await.unwrap();
        let names = rows.iter().map(|row| row.get::<_, String>(0));
        names.collect::<Vec<_>>()
    };
    assert_eq!(indexes().await, Vec::<String>::new());
    // An invalid index of an interrupted start is replaced.
    let sql = "CREATE INDEX event_y2026m12_by_position ON noetl.event_y2026m12 (position);
        UPDATE pg_index SET indisvalid = false
            WHERE indexrelid = 'noetl.event_y2026m12_by_position'::regclass";
    database.run_statement(sql).unwrap();
    database.run_statement(MOVE_LOG_TO_OTHER_CLUSTER).unwrap();
    let mut starts = tokio::task::JoinSet::new();
    for _ in 0..3 {
        let options = test_options(&database);
        starts.spawn(async move { PostgresStore::open(&options).await });
    }
    let mut epochs = std::collections::BTreeSet::new();
    for store in starts.join_all().await {
        epochs.insert(store.unwrap().log_epoch().await.unwrap());
    }
    assert_eq!((epochs.len(), epochs.contains(&LogEpoch::FIRST)), (1, false));
    let months = ["2026m11", "2026m12", "2027m01"];
    let mut expected: Vec<_> = months.map(|month| format!("event_y{month}_by_position")).to_vec();
    expected.insert(0, "event_by_position".to_owned());
    assert_eq!(indexes().await, expected);
    let store = open_store(&database).await;
    store.ensure_log_partitions(test_time("12:00:00"), 3).await.unwrap();
    assert_eq!(indexes().await.len(), expected.len() + 1);
}

/// Covers compressible and incompressible values, because PostgreSQL reports their sizes in
/// different ways.
#[tokio::test]
async fn feed_read_is_bounded_by_bytes() {
    let length = MAX_FEED_BATCH_BYTES / 3;
    let digests = (0..).map(|number: u64| sha256(number.to_string()).to_string());
    let incompressible: String = digests.take(length / 64).collect();
    for text in ["x".repeat(length), incompressible] {
        let database = new_database();
        let store = open_store(&database).await;
        let mut run = TestExecution::create_started(&store, 1).await;
        for _ in 0..5 {
            let mut append = run.step_request();
            append.events[0].context = Some(Json::from(text.as_str()));
            run.append_to(&store, append).await.unwrap();
        }
        let (mut after, mut event_count, mut reads) = (FeedPosition::default(), 0, 0);
        while event_count < 6 {
            let batch = store.read_feed(after, FeedLimit::MAX).await.unwrap();
            assert!(batch.events.len() <= 4);
            event_count += batch.events.len();
            reads += usize::from(!batch.events.is_empty());
            after = batch.next;
        }
        assert!(reads > 1);
    }
}

/// Opens a store with a few unpublished rows among many published ones.
pub(super) async fn store_with_published_rows(database: &TestDatabase) -> PostgresStore {
    let store = open_store(database).await;
    create_run_with_outbox(&store, 1, 3).await;
    let sql = "INSERT INTO noetl.outbox (event_id, execution_id, message_id, status, published_at)
        SELECT number, 1, 'x', 'PUBLISHED', 'epoch' FROM generate_series(1, 30000) AS number;
        VACUUM ANALYZE noetl.outbox";
    for statement in sql.split(';') {
        database.run_statement(statement).unwrap();
    }
    store
}

/// Published rows are not read to report the state of the outbox, and a row is marked by its key.
#[tokio::test]
async fn outbox_queries_skip_published_rows() {
    let database = new_database();
    let store = store_with_published_rows(&database).await;
    let client = connect_raw(&database).await;
    // The generic plan, which frequently executed statements get.
    let settings = "SET plan_cache_mode = force_generic_plan;
        SET enable_hashjoin = off;
        SET enable_mergejoin = off";
    client.batch_execute(settings).await.unwrap();
    let by_key: [&str; 4] =
        [PURGE_OUTBOX.postgres(), MARK_PUBLISHED, &CLAIM_OUTBOX, UPDATE_MESSAGE_IDS.postgres()];
    for (sql, values) in [
        (COUNT_CLAIMABLE.postgres(), "now()"),
        (COUNT_BY_STATUS.postgres(), "10000"),
        (OUTBOX_STATS.postgres(), ""),
        (PURGE_OUTBOX.postgres(), "now(), 500"),
        (LIST_DEAD_ROWS.postgres(), "'DEAD', 1, 500"),
        (MARK_PUBLISHED, "'{1}', '{1}', now()"),
        (&CLAIM_OUTBOX, "now(), 50, 1000, 'a', now(), 20"),
        (UPDATE_MESSAGE_IDS.postgres(), ""),
    ] {
        client.batch_execute("DEALLOCATE ALL").await.unwrap();
        let prepare = format!("PREPARE look AS {sql}");
        client.batch_execute(&prepare).await.unwrap();
        let explain = match values {
            "" => "EXPLAIN EXECUTE look".to_owned(),
            values => format!("EXPLAIN EXECUTE look({values})"),
        };
        let plan = client.query(&explain, &[]).await.unwrap();
        let plan: Vec<String> = plan.iter().map(|row| row.get(0)).collect();
        let plan = plan.join("\n");
        assert!(!plan.contains("Seq Scan on outbox"), "{sql}\n{plan}");
        // Rows are found by key where the key is known, and never by a scan of all keys.
        let has_key = plan.contains("outbox_pkey on outbox");
        assert_eq!(has_key, by_key.contains(&sql), "{sql}\n{plan}");
        let scans_in_flight = sql == MARK_PUBLISHED && plan.contains("outbox_in_flight");
        assert!(!scans_in_flight, "{plan}");
    }
    let stats = store.outbox_stats().await.unwrap();
    assert_eq!(stats.rows.get(&OutboxStatus::Pending), Some(&3));
    let published = stats.rows.get(&OutboxStatus::Published).copied();
    let published = published.unwrap_or_default();
    assert!((20_000..40_000).contains(&published), "{published}");
}

#[tokio::test]
async fn published_rows_do_not_block_claims() {
    let database = new_database();
    let store = store_with_published_rows(&database).await;
    let now = test_time("12:00:00");
    assert_eq!(store.count_claimable_outbox_rows(now).await.unwrap(), 3);
    let rows = store.claim_outbox(outbox_claim("a", 100, now)).await.unwrap().rows;
    assert_eq!(rows.len(), 3);
    let marks = rows.iter().map(outbox_mark).collect();
    assert_eq!(store.mark_published(marks, now).await.unwrap(), 3);
    let purged = store.purge_outbox_rows(test_time("11:00:00"), PageLimit::MAX).await;
    assert_eq!(purged.unwrap(), 500);
}

/// Rows of external writers are claimed with their payload, and a malformed one does not block the
/// others.
#[tokio::test]
async fn external_outbox_rows_are_claimed() {
    let database = new_database();
    let store = open_store(&database).await;
    let external_rows = r#"INSERT INTO noetl.outbox (event_id, message_id, payload, available_at)
        VALUES (7, 'own', '{"b": 1, "a": 1e2}', '2026-11-05T11:00:00Z'),
            (8, 'twice', '{"a": 1, "a": 2}', '2026-11-05T11:00:01Z'),
            (9, 'empty', NULL, '2026-11-05T11:00:02Z')"#;
    database.run_statement(external_rows).unwrap();
    let rows = store.claim_outbox(outbox_claim("a", 10, test_time("12:00:00"))).await.unwrap().rows;
    let ids: Vec<_> = rows.iter().map(|row| row.message_id.as_str()).collect();
    assert_eq!(ids, ["own", "twice", "empty"]);
    assert!(rows.iter().all(|row| row.execution_id.is_none() && row.subject.is_none()));
    let canonical = json::parse(br#"{"a":100,"b":1}"#).unwrap();
    assert_eq!(rows[0].payload, OutboxPayload::External(canonical));
    let text = Json::from(r#"{"a": 1, "a": 2}"#);
    assert_eq!(rows[1].payload, OutboxPayload::External(text));
    assert_eq!(rows[2].payload, OutboxPayload::External(Json::Null));
    let invalid = "INSERT INTO noetl.outbox (event_id, message_id, payload_codec)
        VALUES (1, 'x', 'arrow-feather')";
    database.run_statement(invalid).unwrap_err();
}

#[tokio::test]
async fn damaged_row_becomes_dead_alone() {
    let database = new_database();
    let store = open_store(&database).await;
    let run = |sql: String| database.run_statement(&sql).unwrap();
    damaged_rows::damaged_row_becomes_dead_alone(&store, run, "noetl.").await;
}

/// If a damaged row cannot be marked dead, it stays in flight. The rows claimed with it are still
/// returned, because no other publisher could claim them before their leases end.
#[tokio::test]
async fn damaged_row_that_stays_in_flight_blocks_no_other() {
    let database = new_database();
    let store = open_store(&database).await;
    create_run_with_outbox(&store, 1, 3).await;
    let ids: Vec<_> = store.list_outbox_rows(all_outbox_rows()).await.unwrap();
    let ids: Vec<_> = ids.iter().map(|row| row.outbox_id).collect();
    let damage = damaged_rows::RowDamage::Event.to_sql("noetl.", ids[1]);
    database.run_statement(&damage).unwrap();
    let refuse_dead = "CREATE FUNCTION noetl.refuse() RETURNS trigger LANGUAGE plpgsql
            AS 'BEGIN RAISE EXCEPTION ''not now''; END';
        CREATE TRIGGER no_burial BEFORE UPDATE ON noetl.outbox FOR EACH ROW
            WHEN (new.status = 'DEAD') EXECUTE FUNCTION noetl.refuse()";
    database.run_statement(refuse_dead).unwrap();
    let claimed = store.claim_outbox(outbox_claim("a", 10, test_time("12:00:00"))).await;
    let claimed = claimed.unwrap();
    let claimed_ids: Vec<_> = claimed.rows.iter().map(|row| row.outbox_id).collect();
    assert_eq!(claimed_ids, [ids[0], ids[2]]);
    assert_eq!(claimed.dead, []);
    let row = outbox::find_outbox_row(&store, ids[1]).await;
    assert_eq!(row.status, OutboxStatus::InFlight);
}

#[tokio::test]
async fn months_are_created_ahead() {
    let database = new_database();
    let store = open_store(&database).await;
    let until = |store: PostgresStore| async move {
        let until = store.log_partitions_until().await.unwrap().unwrap();
        (until.to_string(), store)
    };
    let (end, store) = until(store).await;
    assert_eq!(end, "2027-02-01T00:00:00Z");
    store.ensure_log_partitions(test_time("12:00:00"), 5).await.unwrap();
    store.ensure_log_partitions(test_time("12:00:00"), 5).await.unwrap();
    let (end, _) = until(store).await;
    assert_eq!(end, "2027-05-01T00:00:00Z");
}

pub(super) async fn write_august_run(store: &dyn Store) -> TestExecution {
    write_ended_run_in(store, 8).await
}

/// Writes an ended execution into a month of 2026.
pub(super) async fn write_ended_run_in(store: &dyn Store, month: u8) -> TestExecution {
    let first_id = LogPartition::for_month(Month::new(2026, month).unwrap()).first_id;
    let mut run = TestExecution::with_id(first_id + 1_000_000);
    run.append_to(store, run.start_request()).await.unwrap();
    let end = run.end_request();
    run.append_to(store, end).await.unwrap();
    run
}

pub(super) async fn purge_before_november(store: &dyn Store) -> PurgePlan {
    let now = store.database_clock().await.unwrap().unwrap();
    PurgePlan {
        commands_before: None,
        runtimes_before: None,
        events_before: Some(noetl_types::Timestamp::parse("2026-11-01T00:00:00Z").unwrap()),
        outbox_before: None,
        publishers: EnabledPublishers::default(),
        now,
        server_time: now,
        dry_run: false,
    }
}

/// A purge does not wait for a long read. It reports the month and keeps all of it.
#[tokio::test]
async fn long_read_keeps_month_without_blocking() {
    let database = new_database();
    let store = open_store(&database).await;
    let old = write_august_run(&store).await;
    let mut other = connect_raw(&database).await;
    let reader = other.transaction().await.unwrap();
    reader.query("SELECT count(*) FROM event", &[]).await.unwrap();
    let plan = purge_before_november(&store).await;
    let report = purge_old_data(&store, &plan, &()).await.unwrap();
    assert_eq!(report.dropped, []);
    assert!(matches!(report.skipped[0].pin_reason, Some(PinReason::Refused(_))));
    assert!(!store.is_dropped(old.id).await.unwrap());
    assert!(store.find_execution(old.id).await.unwrap().is_some());
    // Writers continue.
    TestExecution::create_started(&store, 1).await;
    reader.commit().await.unwrap();
    assert_eq!(purge_old_data(&store, &plan, &()).await.unwrap().dropped.len(), 1);
}

/// A default partition and one without an upper bound are never dropped, nor is a partition that
/// changed since the check.
#[tokio::test]
async fn only_checked_partition_is_dropped() {
    let database = new_database();
    let store = open_store(&database).await;
    write_august_run(&store).await;
    let sql = "CREATE TABLE noetl.rest PARTITION OF noetl.event DEFAULT;
        CREATE TABLE noetl.endless PARTITION OF noetl.event
            FOR VALUES FROM (9000000000000000000) TO (MAXVALUE)";
    database.run_statement(sql).unwrap();
    let no_publishers = EnabledPublishers::default();
    let now = store.database_clock().await.unwrap().unwrap();
    let far_future = noetl_types::Timestamp::parse("2090-01-01T00:00:00Z").unwrap();
    let partitions = store.list_old_partitions(far_future, &no_publishers).await.unwrap();
    let names: Vec<_> = partitions.iter().map(|old| old.partition.name.as_str()).collect();
    assert_eq!(names, ["event_y2026m08", "event_y2026m11", "event_y2026m12", "event_y2027m01"]);
    let mut changed = partitions[0].partition.clone();
    changed.end_id += 1;
    let drop_partition = async |partition: &LogPartition| {
        let dropped = store.drop_partition(partition, &no_publishers, now).await;
        dropped.unwrap()
    };
    let pin_reason = drop_partition(&changed).await;
    assert!(matches!(pin_reason, Some(PinReason::Refused(_))));
    // An operator detaches the partition and attaches another table with the same name and range.
    let (partition, name) = (&partitions[0].partition, &partitions[0].partition.name);
    let replace = format!(
        "DROP TABLE noetl.rest;
         ALTER TABLE noetl.event DETACH PARTITION noetl.{name};
         ALTER TABLE noetl.{name} RENAME TO kept;
         CREATE TABLE noetl.{name} PARTITION OF noetl.event FOR VALUES FROM ({}) TO ({})",
        partition.first_id, partition.end_id
    );
    database.run_statement(&replace).unwrap();
    let pin_reason = drop_partition(partition).await;
    assert!(matches!(pin_reason, Some(PinReason::Refused(_))), "{pin_reason:?}");
    let partitions = store.list_old_partitions(far_future, &no_publishers).await.unwrap();
    assert_eq!(
        (&partitions[0].partition.name, partitions[0].partition.first_id),
        (name, partition.first_id)
    );
    assert_ne!(partitions[0].partition, *partition);
    assert_eq!(drop_partition(&partitions[0].partition).await, None);
    let client = connect_raw(&database).await;
    let row = client.query_one("SELECT count(*) FROM kept", &[]).await;
    assert_eq!(row.unwrap().get::<_, i64>(0), 2);
}

#[tokio::test]
async fn clock_skew_prevents_drops() {
    let database = new_database();
    let store = open_store(&database).await;
    let old = write_august_run(&store).await;
    let mut plan = purge_before_november(&store).await;
    plan.server_time = plan.now.saturating_add(Millis::from_hours(2));
    let report = purge_old_data(&store, &plan, &()).await.unwrap();
    assert!(report.clock_skew.is_some_and(|skew| skew > Millis::from_hours(1)));
    assert_eq!((report.dropped.len(), report.skipped.len()), (0, 0));
    assert!(store.find_execution(old.id).await.unwrap().is_some());
}

#[tokio::test]
async fn dropped_month_is_not_recreated() {
    let database = new_database();
    let store = open_store(&database).await;
    let old = write_august_run(&store).await;
    let plan = purge_before_november(&store).await;
    assert_eq!(purge_old_data(&store, &plan, &()).await.unwrap().dropped.len(), 1);
    let late = TestExecution::with_id(old.id.get() + 5_000_000).start_request();
    assert_eq!(append_one(&store, late).await, Err(AppendError::Dropped));
    let client = connect_raw(&database).await;
    let sql = "SELECT to_regclass('event_y2026m08') IS NOT NULL";
    assert!(!client.query_one(sql, &[]).await.unwrap().get::<_, bool>(0));
}

#[tokio::test]
async fn items_are_quarantined_in_one_statement() {
    let database = new_database();
    let store = open_store(&database).await;
    let sql = "CREATE TABLE noetl.seen (n int);
        CREATE FUNCTION noetl.see() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN INSERT INTO noetl.seen VALUES (1); RETURN NULL; END $$;
        CREATE TRIGGER see AFTER INSERT ON noetl.outbox_quarantine
            FOR EACH STATEMENT EXECUTE FUNCTION noetl.see()";
    database.run_statement(sql).unwrap();
    let item = |number: i64| QuarantinedItem {
        quarantine_id: QuarantineId::new(number).unwrap(),
        source: "projector".into(),
        raw: format!("{number} \u{1F980}").into(),
        code: "bad_value".into(),
        message: "no".into(),
        created_at: test_time("12:00:00"),
    };
    store.quarantine_items((1..=100).map(item).collect()).await.unwrap();
    let filter = QuarantineFilter { source: None, after: None, limit: PageLimit::MAX };
    let items: Vec<_> = (1..=100).map(item).collect();
    assert_eq!(store.list_quarantined_items(filter).await.unwrap(), items);
    let client = connect_raw(&database).await;
    let row = client.query_one("SELECT count(*) FROM noetl.seen", &[]);
    assert_eq!(row.await.unwrap().get::<_, i64>(0), 1);
}

/// A row that another publisher has locked does not block a claim, which returns the other rows.
#[tokio::test]
async fn locked_row_is_skipped_by_claims() {
    let database = new_database();
    let store = open_store(&database).await;
    create_run_with_outbox(&store, 1, 3).await;
    let rows = store.list_outbox_rows(all_outbox_rows()).await.unwrap();
    let rows: Vec<_> = rows.iter().map(|row| row.outbox_id).collect();
    let mut other = connect_raw(&database).await;
    let transaction = other.transaction().await.unwrap();
    let lock = "SELECT outbox_id FROM outbox ORDER BY available_at, outbox_id LIMIT 1 FOR UPDATE";
    let locked: i64 = transaction.query_one(lock, &[]).await.unwrap().get(0);
    assert_eq!(locked, rows[0].get());
    // If the claim waited for the lock, it would never return.
    let claimed = store.claim_outbox(outbox_claim("a", 10, test_time("12:00:00"))).await;
    let ids = |rows: &[crate::ClaimedMessage]| {
        let ids = rows.iter().map(|row| row.outbox_id);
        ids.collect::<Vec<_>>()
    };
    assert_eq!(ids(&claimed.unwrap().rows), rows[1..]);
    transaction.commit().await.unwrap();
    let claimed = store.claim_outbox(outbox_claim("b", 10, test_time("12:00:00"))).await;
    assert_eq!(ids(&claimed.unwrap().rows), rows[..1]);
}

/// A claim counts the bytes of payloads that other writers inserted, also if they are compressed.
#[tokio::test]
async fn claim_is_bounded_by_size_of_external_payloads() {
    let database = new_database();
    let store = open_store(&database).await;
    let sql = "INSERT INTO noetl.outbox (event_id, message_id, payload, available_at, bytes)
        SELECT number, number, to_json(repeat('x', 4 * 1024 * 1024)), '2026-11-05T11:00:00Z', 1
        FROM generate_series(1, 6) AS number";
    database.run_statement(sql).unwrap();
    let now = test_time("12:00:00");
    for expected in [3, 3, 0] {
        let claimed = store.claim_outbox(outbox_claim("a", 100, now)).await.unwrap();
        assert_eq!(claimed.rows.len(), expected);
    }
}

#[tokio::test]
async fn row_in_flight_without_lease_is_claimable() {
    let database = new_database();
    let store = open_store(&database).await;
    create_run_with_outbox(&store, 1, 3).await;
    let run = |sql: &str| database.run_statement(sql).unwrap();
    outbox::row_in_flight_without_lease_is_claimable(&store, run, "noetl.").await;
}

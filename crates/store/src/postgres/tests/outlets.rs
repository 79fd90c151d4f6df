//! What only a cluster can get wrong about outbox, streams and retention.

use std::sync::Arc;

use noetl_testkit::postgres::Database;
use noetl_types::limits::PageLimit;
use noetl_types::{FeedPosition, Json, Millis, Month, QuarantineId, Text, json, sha256};

use super::{bench_of, open, options, raw};
use crate::postgres::outbox::{CLAIM, COUNTS, FACTS, LIST_DEAD, MARK_PUBLISHED, PENDING, PURGE};
use crate::postgres::stream::RENAME;
use crate::postgres::{PostgresOptions, PostgresStore};
use crate::suite::fixture::{Run, at, one};
use crate::suite::outbox::{all, claim, mark, published_run};
use crate::suite::stream::{NAME, an_unreadable_row_is_told_of, owner, take, taken};
use crate::suite::{copy, damage, outbox, retention};
use crate::{
    AppendRefused, EnabledOutlets, FEED_BYTES, FeedLimit, LogEpoch, LogPart, OutboxStatus,
    Outlets as _, Payload, Pinned, Purge, QuarantineFilter, Quarantined, Store, StreamMove,
    Upkeep as _, purge,
};

/// All positions of the feed, once there are so many.
async fn feed(store: &dyn Store, after: FeedPosition, events: usize) -> Vec<FeedPosition> {
    let (mut after, mut found) = (after, Vec::new());
    while found.len() < events {
        let batch = store.feed(after, FeedLimit::clamped(2)).await.unwrap();
        after = batch.next;
        found.extend(batch.events.iter().map(|event| event.feed));
        tokio::task::yield_now().await;
    }
    found
}

/// Rules that look at times give the same in sessions of other zones.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn p5_outlets_do_not_depend_on_the_time_zone() {
    for time_zone in ["Asia/Tokyo", "America/New_York"] {
        let zoned = || async move {
            let database = Arc::new(Database::new().unwrap());
            let options = PostgresOptions {
                time_zone,
                ..options(&database)
            };
            bench_of(database, &options).await
        };
        outbox::o1_o2_rows_of_a_dead_publisher_come_back(&zoned().await).await;
        outbox::o9_published_rows_are_purged_in_batches(&zoned().await).await;
        copy::copies_make_their_execution(&zoned().await).await;
        retention::r1_only_months_that_are_over_go(&zoned().await).await;
        retention::old_commands_and_silent_pools_go(&zoned().await).await;
    }
}

#[tokio::test]
async fn t8_a_row_that_cannot_be_read_stops_no_other() {
    let database = Database::new().unwrap();
    let store = open(&database).await;
    an_unreadable_row_is_told_of(&store, || {
        let damage = "UPDATE noetl.event SET tenant_id = '' WHERE seq = 2";
        database.run(damage).unwrap();
    })
    .await;
}

/// A transaction that began earlier holds the cursor back; nothing is skipped when it commits.
#[tokio::test]
async fn t1_a_stream_that_begins_now_misses_no_late_commit() {
    let database = Database::new().unwrap();
    let store = open(&database).await;
    let mut run = Run::started(&store, 1).await;
    feed(&store, FeedPosition::default(), 1).await;
    let mut other = raw(&database).await;
    let late = other.transaction().await.unwrap();
    let copy = "INSERT INTO event (execution_id, event_id, seq, event_type, status, tenant_id,
            organization_id, event_time, created_at, ingest_time, schema_version, chain)
         SELECT execution_id, event_id + 100, 50, event_type, status, tenant_id,
            organization_id, event_time, created_at, ingest_time, schema_version, chain
         FROM event";
    late.execute(copy, &[]).await.unwrap();
    let mut append = run.step();
    append.now = at("12:00:07");
    run.write(&store, append).await.unwrap();
    let begin = crate::StreamTake {
        begin: crate::StreamBegin::Now,
        ..take(NAME, "a", at("12:00:10"))
    };
    let cursor = taken(&store, begin).await;
    let lag = store.feed_lag(cursor.position).await.unwrap();
    assert_eq!((lag.events, lag.end), (0, cursor.position));
    // The committed event waits, which an alarm can see.
    assert_eq!(lag.held_back_since, Some(at("12:00:07")));
    assert_eq!(lag.horizon_age(at("12:00:10")), Millis::from_secs(3));
    late.commit().await.unwrap();
    let found = feed(&store, cursor.position, 2).await;
    assert!(found.is_sorted());
}

/// One event with a huge id moves nothing: positions are the store's own.
#[tokio::test]
async fn t3_a_huge_id_does_not_silence_the_feed() {
    let database = Database::new().unwrap();
    let store = open(&database).await;
    let run = Run::new(1);
    let mut start = run.start();
    start.events[0].event_id = noetl_types::EventId::new(i64::MAX).unwrap();
    one(&store, start).await.unwrap();
    Run::started(&store, 2).await;
    let found = feed(&store, FeedPosition::default(), 2).await;
    assert!(found.is_sorted());
    let cursor = taken(&store, take(NAME, "a", at("12:00:00"))).await;
    let forward = StreamMove::Forward {
        from: cursor.position,
        to: found[1],
    };
    assert!(store.move_stream(owner(&cursor), forward).await.unwrap());
}

/// A database that was restored into another cluster: its transactions are those of the other one.
#[tokio::test]
async fn t11_a_restored_log_begins_a_new_life() {
    let database = Database::new().unwrap();
    let run = {
        let store = open(&database).await;
        let run = published_run(&store, 1, 3).await;
        feed(&store, FeedPosition::default(), 3).await;
        let cursor = taken(&store, take(NAME, "a", at("12:00:00"))).await;
        assert_eq!(cursor.log_epoch, LogEpoch::FIRST);
        run
    };
    database.run(ELSEWHERE).unwrap();
    let store = open(&database).await;
    assert_eq!(store.log_epoch().await.unwrap(), LogEpoch::FIRST.next());
    let rows = store.outbox(all()).await.unwrap();
    assert!(rows.iter().all(|row| row.message_id.starts_with("2:")));
    let cursor = store
        .stream_cursor(&Text::from(NAME))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(cursor.log_epoch, LogEpoch::FIRST);
    // The old events count as those of transaction 0; new ones come behind them.
    let mut run = run;
    let append = run.step();
    run.write(&store, append).await.unwrap();
    let found = feed(&store, FeedPosition::default(), 4).await;
    assert!(found.is_sorted());
    assert!(found[..3].iter().all(|it| it.tx == 0));
    assert!(found[3].tx > 0);
    let lag = store.feed_lag(FeedPosition::default()).await.unwrap();
    assert_eq!((lag.events, lag.end), (4, found[3]));
    let lag = store.feed_lag(found[1]).await.unwrap();
    assert_eq!(lag.events, 2);
    // Opened once more it is the same life.
    drop(store);
    let store = open(&database).await;
    assert_eq!(store.log_epoch().await.unwrap(), LogEpoch::FIRST.next());
    assert_eq!(feed(&store, FeedPosition::default(), 4).await, found);
}

/// A log whose transactions look like those of this cluster, and which remembers to have been written in
/// another one, or in another past of this one.
#[tokio::test]
async fn t11_a_log_that_comes_from_elsewhere_begins_a_new_life_whatever_its_transactions_are() {
    let database = Database::new().unwrap();
    let epoch = async || open(&database).await.log_epoch().await.unwrap();
    let before = {
        let store = open(&database).await;
        published_run(&store, 1, 3).await;
        feed(&store, FeedPosition::default(), 3).await
    };
    assert!(before.iter().all(|it| it.tx > 0));
    assert_eq!(epoch().await, LogEpoch::FIRST);
    let mut expected = LogEpoch::FIRST;
    for (key, elsewhere) in [("cluster", "7000000000000000000"), ("timeline", "0000000F")] {
        let sql = format!("UPDATE noetl.meta SET value = '{elsewhere}' WHERE key = '{key}'");
        database.run(&sql).unwrap();
        expected = expected.next();
        let store = open(&database).await;
        assert_eq!(store.log_epoch().await.unwrap(), expected, "{key}");
        let rows = store.outbox(all()).await.unwrap();
        let prefix = format!("{}:", expected.get());
        assert!(rows.iter().all(|row| row.message_id.starts_with(&prefix)));
        let found = feed(&store, FeedPosition::default(), 3).await;
        assert!(found.iter().all(|it| it.tx == 0), "{found:?}");
        // Here it stays where it is.
        drop(store);
        assert_eq!(epoch().await, expected);
    }
}

/// The log of an earlier life, as after a restore: far ahead of this cluster, and not in the order of
/// its positions.
pub(super) const ELSEWHERE: &str =
    "UPDATE noetl.event SET tx = ((1000000000000 - position)::text)::xid8";

/// Waits until so many events can be read behind a place; then they stay so.
async fn readable(store: &dyn Store, after: FeedPosition, events: u64) {
    while store.feed_lag(after).await.unwrap().events < events {
        tokio::task::yield_now().await;
    }
}

/// Whoever finds nothing asks again from the same place, so what is gone must not be waited for.
#[tokio::test]
async fn t11_the_feed_goes_on_where_retention_took_the_earlier_lives() {
    let database = Database::new().unwrap();
    let mut run = {
        let store = open(&database).await;
        published_run(&store, 1, 3).await
    };
    database.run(ELSEWHERE).unwrap();
    let store = open(&database).await;
    let append = run.step();
    run.write(&store, append).await.unwrap();
    let start = FeedPosition::default();
    readable(&store, start, 4).await;
    let old = feed(&store, start, 3).await;
    let place_of_new = async |after| {
        let batch = store.feed(after, FeedLimit::MAX).await.unwrap();
        let found: Vec<_> = batch.events.iter().map(|event| event.record.seq).collect();
        assert_eq!(found, [noetl_types::Seq::new(4).unwrap()]);
        batch.next
    };
    // Halfway through the earlier lives, once the last row of theirs is gone, then without any.
    let rows = |positions: &str| format!("DELETE FROM noetl.event WHERE position {positions}");
    let last = old[2].position;
    database.run(&rows(&format!("= {last}"))).unwrap();
    let next = place_of_new(old[1]).await;
    assert!(next.tx > 0);
    database.run(&rows(&format!("<= {last}"))).unwrap();
    assert_eq!(place_of_new(start).await, next);
    // Nor does it stop, or go back, where nothing is left at all.
    database.run(&rows("> 0")).unwrap();
    let batch = store.feed(start, FeedLimit::MAX).await.unwrap();
    assert_eq!((batch.events.len(), batch.is_full), (0, false));
    assert!(batch.next >= old[2]);
}

/// A server that was there before another one began a new life of the log reads that one too.
#[tokio::test]
async fn t11_a_running_server_follows_into_a_new_life() {
    let database = Database::new().unwrap();
    let store = open(&database).await;
    let mut run = published_run(&store, 1, 3).await;
    let start = FeedPosition::default();
    feed(&store, start, 3).await;
    database.run(ELSEWHERE).unwrap();
    let other = open(&database).await;
    assert_eq!(other.log_epoch().await.unwrap(), LogEpoch::FIRST.next());
    assert_eq!(store.feed_lag(start).await.unwrap().events, 3);
    let begin = crate::StreamTake {
        begin: crate::StreamBegin::Now,
        ..take("now", "a", at("12:00:10"))
    };
    let now = taken(&store, begin).await;
    let batch = store.feed(start, FeedLimit::MAX).await.unwrap();
    assert!(batch.events.iter().all(|event| event.feed.tx == 0));
    assert_eq!((batch.events.len(), batch.next), (3, now.position));
    let append = run.step();
    run.write(&other, append).await.unwrap();
    readable(&store, now.position, 1).await;
    let found = feed(&store, start, 4).await;
    assert_eq!(found, feed(&other, start, 4).await);
    // What a stream of the new life has published is not waited for.
    let cursor = taken(&store, take(NAME, "a", at("12:00:00"))).await;
    let restart = StreamMove::Restart {
        to: found[2],
        stream_created_at: None,
    };
    assert!(store.move_stream(owner(&cursor), restart).await.unwrap());
    let end = run.end();
    run.write(&other, end).await.unwrap();
    readable(&store, start, 5).await;
    let outlets = EnabledOutlets {
        outbox: false,
        streams: vec![NAME.into()],
    };
    let far = noetl_types::Timestamp::parse("2090-01-01T00:00:00Z").unwrap();
    let pinned = async || {
        store.old_parts(far, &outlets).await.unwrap()[0]
            .pinned
            .clone()
    };
    assert_eq!(pinned().await, Some(Pinned::Stream(NAME.into())));
    let all = StreamMove::Forward {
        from: found[2],
        to: feed(&store, start, 5).await[4],
    };
    assert!(store.move_stream(owner(&cursor), all).await.unwrap());
    assert_eq!(pinned().await, None);
}

/// The rows are indexed part by part, each beside whoever writes; all parts to come are from the
/// beginning.
#[tokio::test]
async fn t11_a_new_life_indexes_the_old_rows_part_by_part() {
    let database = Database::new().unwrap();
    published_run(&open(&database).await, 1, 3).await;
    let client = raw(&database).await;
    let indexes = "SELECT indexrelid::regclass::text FROM pg_index
        WHERE indnatts = 1 AND pg_get_indexdef(indexrelid) LIKE '%position%'
            AND indisvalid
        ORDER BY 1";
    let indexes = async || {
        let found = client.query(indexes, &[]).await.unwrap();
        let names = found.iter().map(|row| row.get::<_, String>(0));
        names.collect::<Vec<_>>()
    };
    assert_eq!(indexes().await, Vec::<String>::new());
    // What a start that was broken off has left is of no use, and in nobody's way.
    let broken = "CREATE INDEX event_y2026m12_by_position ON noetl.event_y2026m12 (position);
        UPDATE pg_index SET indisvalid = false
            WHERE indexrelid = 'noetl.event_y2026m12_by_position'::regclass";
    database.run(broken).unwrap();
    database.run(ELSEWHERE).unwrap();
    let mut starts = tokio::task::JoinSet::new();
    for _ in 0..3 {
        let options = options(&database);
        starts.spawn(async move { PostgresStore::open(&options).await });
    }
    for store in starts.join_all().await {
        let epoch = store.unwrap().log_epoch().await.unwrap();
        assert_eq!(epoch, LogEpoch::FIRST.next());
    }
    let parts = ["2026m11", "2026m12", "2027m01"];
    let mut expected: Vec<_> = parts
        .map(|part| format!("event_y{part}_by_position"))
        .to_vec();
    expected.insert(0, "event_by_position".to_owned());
    assert_eq!(indexes().await, expected);
    let store = open(&database).await;
    store.keep_months(at("12:00:00"), 3).await.unwrap();
    assert_eq!(indexes().await.len(), expected.len() + 1);
}

/// What a database compresses, and what it cannot: their sizes are told in different ways.
#[tokio::test]
async fn t17_a_read_of_the_feed_is_bounded_by_bytes() {
    let length = FEED_BYTES / 3;
    let digests = (0..).map(|number: u64| sha256(number.to_string()).to_string());
    let noise: String = digests.take(length / 64).collect();
    for text in ["x".repeat(length), noise] {
        let database = Database::new().unwrap();
        let store = open(&database).await;
        let mut run = Run::started(&store, 1).await;
        for _ in 0..5 {
            let mut append = run.step();
            append.events[0].context = Some(Json::from(text.as_str()));
            run.write(&store, append).await.unwrap();
        }
        let (mut after, mut seen, mut reads) = (FeedPosition::default(), 0, 0);
        while seen < 6 {
            let batch = store.feed(after, FeedLimit::MAX).await.unwrap();
            assert!(batch.events.len() <= 4);
            seen += batch.events.len();
            reads += usize::from(!batch.events.is_empty());
            after = batch.next;
        }
        assert!(reads > 1);
    }
}

/// A store with a few rows to publish among many that are published.
pub(super) async fn mostly_published(database: &Database) -> PostgresStore {
    let store = open(database).await;
    published_run(&store, 1, 3).await;
    let many = "INSERT INTO noetl.outbox (event_id, execution_id, message_id, status, published_at)
        SELECT number, 1, 'x', 'PUBLISHED', 'epoch' FROM generate_series(1, 30000) AS number;
        VACUUM ANALYZE noetl.outbox";
    for statement in many.split(';') {
        database.run(statement).unwrap();
    }
    store
}

/// However many rows are published, none of them is read to find out how the outbox stands, and one
/// that is marked is found by its key.
#[tokio::test]
async fn o9_published_rows_cost_a_look_nothing() {
    let database = Database::new().unwrap();
    let store = mostly_published(&database).await;
    let client = raw(&database).await;
    // The plan for any value, as a statement gets it that is run often.
    let settings = "SET plan_cache_mode = force_generic_plan;
        SET enable_hashjoin = off;
        SET enable_mergejoin = off";
    client.batch_execute(settings).await.unwrap();
    let by_key: [&str; 4] = [PURGE, MARK_PUBLISHED, &CLAIM, RENAME];
    for (sql, values) in [
        (PENDING, "now()"),
        (COUNTS, "10000"),
        (FACTS, ""),
        (PURGE, "now(), 500"),
        (&LIST_DEAD, "'DEAD', 1, 500"),
        (MARK_PUBLISHED, "'{1}', '{1}', now()"),
        (&CLAIM, "now(), 50, 1000, 'a', now(), 20"),
        (RENAME, ""),
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
        // By its key where that is known, and never by walking through all keys.
        let has_key = plan.contains("outbox_pkey on outbox");
        assert_eq!(has_key, by_key.contains(&sql), "{sql}\n{plan}");
        let walks = sql == MARK_PUBLISHED && plan.contains("outbox_in_flight");
        assert!(!walks, "{plan}");
    }
    let facts = store.outbox_facts().await.unwrap();
    assert_eq!(facts.rows.get(&OutboxStatus::Pending), Some(&3));
    let published = facts.rows.get(&OutboxStatus::Published).copied();
    let published = published.unwrap_or_default();
    assert!((20_000..40_000).contains(&published), "{published}");
}

/// However many rows are published, those that are not are found, taken and marked.
#[tokio::test]
async fn o9_published_rows_are_in_nobodys_way() {
    let database = Database::new().unwrap();
    let store = mostly_published(&database).await;
    let now = at("12:00:00");
    assert_eq!(store.outbox_pending(now).await.unwrap(), 3);
    let rows = store.claim_outbox(claim("a", 100, now)).await.unwrap().rows;
    assert_eq!(rows.len(), 3);
    let marks = rows.iter().map(mark).collect();
    assert_eq!(store.mark_published(marks, now).await.unwrap(), 3);
    let purged = store.purge_outbox(at("11:00:00"), PageLimit::MAX).await;
    assert_eq!(purged.unwrap(), 500);
}

/// Rows that somebody else wrote: what they say is handed on, and an odd one stops nobody.
#[tokio::test]
async fn o10_rows_of_others_are_handed_on() {
    let database = Database::new().unwrap();
    let store = open(&database).await;
    let others = r#"INSERT INTO noetl.outbox (event_id, message_id, payload, available_at)
        VALUES (7, 'own', '{"b": 1, "a": 1e2}', '2026-11-05T11:00:00Z'),
            (8, 'twice', '{"a": 1, "a": 2}', '2026-11-05T11:00:01Z'),
            (9, 'empty', NULL, '2026-11-05T11:00:02Z')"#;
    database.run(others).unwrap();
    let rows = store
        .claim_outbox(claim("a", 10, at("12:00:00")))
        .await
        .unwrap()
        .rows;
    let ids: Vec<_> = rows.iter().map(|row| row.message_id.as_str()).collect();
    assert_eq!(ids, ["own", "twice", "empty"]);
    assert!(
        rows.iter()
            .all(|row| row.execution_id.is_none() && row.subject.is_none())
    );
    let given = json::parse(br#"{"a":100,"b":1}"#).unwrap();
    assert_eq!(rows[0].payload, Payload::Given(given));
    let odd = Json::from(r#"{"a": 1, "a": 2}"#);
    assert_eq!(rows[1].payload, Payload::Given(odd));
    assert_eq!(rows[2].payload, Payload::Given(Json::Null));
    let wrong = "INSERT INTO noetl.outbox (event_id, message_id, payload_codec)
        VALUES (1, 'x', 'arrow-feather')";
    database.run(wrong).unwrap_err();
}

#[tokio::test]
async fn o7_a_damaged_row_dies_alone() {
    let database = Database::new().unwrap();
    let store = open(&database).await;
    let run = |sql: String| database.run(&sql).unwrap();
    damage::o7_a_damaged_row_dies_alone(&store, run, "noetl.").await;
}

/// A damaged row that cannot be buried either stays in flight; those that were claimed with it are handed
/// out, since nobody else would be given them before their leases end.
#[tokio::test]
async fn a_damaged_row_that_cannot_be_buried_takes_no_other_with_it() {
    let database = Database::new().unwrap();
    let store = open(&database).await;
    published_run(&store, 1, 3).await;
    let ids: Vec<_> = store.outbox(all()).await.unwrap();
    let ids: Vec<_> = ids.iter().map(|row| row.outbox_id).collect();
    let damage = damage::Damage::Event.statement("noetl.", ids[1]);
    database.run(&damage).unwrap();
    let no_burial = "CREATE FUNCTION noetl.refuse() RETURNS trigger LANGUAGE plpgsql
            AS 'BEGIN RAISE EXCEPTION ''not now''; END';
        CREATE TRIGGER no_burial BEFORE UPDATE ON noetl.outbox FOR EACH ROW
            WHEN (new.status = 'DEAD') EXECUTE FUNCTION noetl.refuse()";
    database.run(no_burial).unwrap();
    let claimed = store.claim_outbox(claim("a", 10, at("12:00:00"))).await;
    let claimed = claimed.unwrap();
    let given: Vec<_> = claimed.rows.iter().map(|row| row.outbox_id).collect();
    assert_eq!(given, [ids[0], ids[2]]);
    assert_eq!(claimed.dead, []);
    let row = outbox::row(&store, ids[1]).await;
    assert_eq!(row.status, OutboxStatus::InFlight);
}

#[tokio::test]
async fn months_are_made_ahead_and_told() {
    let database = Database::new().unwrap();
    let store = open(&database).await;
    let until = |store: PostgresStore| async move {
        let until = store.months_until().await.unwrap().unwrap();
        (until.to_string(), store)
    };
    let (ahead, store) = until(store).await;
    assert_eq!(ahead, "2027-02-01T00:00:00Z");
    store.keep_months(at("12:00:00"), 5).await.unwrap();
    store.keep_months(at("12:00:00"), 5).await.unwrap();
    let (ahead, _) = until(store).await;
    assert_eq!(ahead, "2027-05-01T00:00:00Z");
}

pub(super) async fn august(store: &dyn Store) -> Run {
    ended_in(store, 8).await
}

/// A run of a month of 2026 that has ended.
pub(super) async fn ended_in(store: &dyn Store, month: u8) -> Run {
    let lo = LogPart::of(Month::new(2026, month).unwrap()).lo;
    let mut run = Run::with_id(lo + 1_000_000);
    run.write(store, run.start()).await.unwrap();
    let end = run.end();
    run.write(store, end).await.unwrap();
    run
}

pub(super) async fn before_november(store: &dyn Store) -> Purge {
    Purge {
        commands_before: None,
        runtimes_before: None,
        events_before: Some(noetl_types::Timestamp::parse("2026-11-01T00:00:00Z").unwrap()),
        outbox_before: None,
        outlets: EnabledOutlets::default(),
        now: store.clock().await.unwrap().unwrap(),
        dry_run: false,
    }
}

/// A report that reads the log for long is not waited for: its month is told and stays, whole.
#[tokio::test]
async fn r2_a_reader_keeps_a_month_and_nobody_waits_for_it() {
    let database = Database::new().unwrap();
    let store = open(&database).await;
    let old = august(&store).await;
    let mut other = raw(&database).await;
    let reader = other.transaction().await.unwrap();
    reader
        .query("SELECT count(*) FROM event", &[])
        .await
        .unwrap();
    let asked = before_november(&store).await;
    let done = purge(&store, &asked).await.unwrap();
    assert_eq!(done.dropped, []);
    assert!(matches!(done.skipped[0].pinned, Some(Pinned::Refused(_))));
    assert!(!store.is_gone(old.id).await.unwrap());
    assert!(store.execution(old.id).await.unwrap().is_some());
    // Whoever writes goes on.
    Run::started(&store, 1).await;
    reader.commit().await.unwrap();
    assert_eq!(purge(&store, &asked).await.unwrap().dropped.len(), 1);
}

/// What takes whatever fits nowhere else, or has no end, never goes; nor does a part that changed.
#[tokio::test]
async fn r4_only_the_part_that_was_looked_at_goes() {
    let database = Database::new().unwrap();
    let store = open(&database).await;
    august(&store).await;
    let odd = "CREATE TABLE noetl.rest PARTITION OF noetl.event DEFAULT;
        CREATE TABLE noetl.endless PARTITION OF noetl.event
            FOR VALUES FROM (9000000000000000000) TO (MAXVALUE)";
    database.run(odd).unwrap();
    let none = EnabledOutlets::default();
    let now = store.clock().await.unwrap().unwrap();
    let far = noetl_types::Timestamp::parse("2090-01-01T00:00:00Z").unwrap();
    let parts = store.old_parts(far, &none).await.unwrap();
    let names: Vec<_> = parts.iter().map(|old| old.part.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "event_y2026m08",
            "event_y2026m11",
            "event_y2026m12",
            "event_y2027m01"
        ]
    );
    let mut changed = parts[0].part.clone();
    changed.hi += 1;
    let refused = store.drop_part(&changed, &none, now).await.unwrap();
    assert!(matches!(refused, Some(Pinned::Refused(_))));
    // Somebody keeps the month, and puts another table of its name and range in its place.
    let (part, name) = (&parts[0].part, &parts[0].part.name);
    let replace = format!(
        "DROP TABLE noetl.rest;
         ALTER TABLE noetl.event DETACH PARTITION noetl.{name};
         ALTER TABLE noetl.{name} RENAME TO kept;
         CREATE TABLE noetl.{name} PARTITION OF noetl.event FOR VALUES FROM ({}) TO ({})",
        part.lo, part.hi
    );
    database.run(&replace).unwrap();
    let refused = store.drop_part(part, &none, now).await.unwrap();
    assert!(matches!(refused, Some(Pinned::Refused(_))), "{refused:?}");
    let parts = store.old_parts(far, &none).await.unwrap();
    assert_eq!((&parts[0].part.name, parts[0].part.lo), (name, part.lo));
    assert_ne!(parts[0].part, *part);
    let dropped = store.drop_part(&parts[0].part, &none, now).await.unwrap();
    assert_eq!(dropped, None);
    let client = raw(&database).await;
    let kept = client.query_one("SELECT count(*) FROM kept", &[]).await;
    assert_eq!(kept.unwrap().get::<_, i64>(0), 2);
}

#[tokio::test]
async fn r6_nothing_goes_while_the_clocks_are_apart() {
    let database = Database::new().unwrap();
    let store = open(&database).await;
    let old = august(&store).await;
    let mut asked = before_november(&store).await;
    asked.now = asked.now.saturating_add(Millis::from_hours(2));
    let done = purge(&store, &asked).await.unwrap();
    assert!(
        done.clocks_apart
            .is_some_and(|apart| apart > Millis::from_hours(1))
    );
    assert_eq!((done.dropped.len(), done.skipped.len()), (0, 0));
    assert!(store.execution(old.id).await.unwrap().is_some());
}

/// A month that was dropped is not made again for whoever comes late.
#[tokio::test]
async fn r1_a_dropped_month_is_not_made_again() {
    let database = Database::new().unwrap();
    let store = open(&database).await;
    let old = august(&store).await;
    let asked = before_november(&store).await;
    assert_eq!(purge(&store, &asked).await.unwrap().dropped.len(), 1);
    let late = Run::with_id(old.id.get() + 5_000_000).start();
    assert_eq!(one(&store, late).await, Err(AppendRefused::Gone));
    let client = raw(&database).await;
    let there = "SELECT to_regclass('event_y2026m08') IS NOT NULL";
    assert!(
        !client
            .query_one(there, &[])
            .await
            .unwrap()
            .get::<_, bool>(0)
    );
}

/// However many are refused, they are put aside at once.
#[tokio::test]
async fn what_is_refused_is_put_aside_in_one_statement() {
    let database = Database::new().unwrap();
    let store = open(&database).await;
    let count = "CREATE TABLE noetl.seen (n int);
        CREATE FUNCTION noetl.see() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN INSERT INTO noetl.seen VALUES (1); RETURN NULL; END $$;
        CREATE TRIGGER see AFTER INSERT ON noetl.outbox_quarantine
            FOR EACH STATEMENT EXECUTE FUNCTION noetl.see()";
    database.run(count).unwrap();
    let refused = |number: i64| Quarantined {
        quarantine_id: QuarantineId::new(number).unwrap(),
        source: "projector".into(),
        raw: format!("{number} \u{1F980}").into(),
        code: "bad_value".into(),
        message: "no".into(),
        created_at: at("12:00:00"),
    };
    store
        .quarantine((1..=100).map(refused).collect())
        .await
        .unwrap();
    let all = QuarantineFilter {
        source: None,
        after: None,
        limit: PageLimit::MAX,
    };
    let kept: Vec<_> = (1..=100).map(refused).collect();
    assert_eq!(store.quarantined(all).await.unwrap(), kept);
    let client = raw(&database).await;
    let seen = client.query_one("SELECT count(*) FROM noetl.seen", &[]);
    assert_eq!(seen.await.unwrap().get::<_, i64>(0), 1);
}

/// A publisher that has a row in hand holds up nobody: the next one gets the others.
#[tokio::test]
async fn a_row_that_is_locked_is_passed_by() {
    let database = Database::new().unwrap();
    let store = open(&database).await;
    published_run(&store, 1, 3).await;
    let rows = store.outbox(all()).await.unwrap();
    let rows: Vec<_> = rows.iter().map(|row| row.outbox_id).collect();
    let mut other = raw(&database).await;
    let slow = other.transaction().await.unwrap();
    let lock = "SELECT outbox_id FROM outbox ORDER BY available_at, outbox_id LIMIT 1 FOR UPDATE";
    let locked: i64 = slow.query_one(lock, &[]).await.unwrap().get(0);
    assert_eq!(locked, rows[0].get());
    // Were it to wait, it would do so for ever.
    let claimed = store.claim_outbox(claim("a", 10, at("12:00:00"))).await;
    let ids = |rows: &[crate::ClaimedMessage]| {
        let ids = rows.iter().map(|row| row.outbox_id);
        ids.collect::<Vec<_>>()
    };
    assert_eq!(ids(&claimed.unwrap().rows), rows[1..]);
    slow.commit().await.unwrap();
    let claimed = store.claim_outbox(claim("b", 10, at("12:00:00"))).await;
    assert_eq!(ids(&claimed.unwrap().rows), rows[..1]);
}

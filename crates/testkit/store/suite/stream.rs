//! Streams: one publisher, a cursor that only moves forward, and log epochs.

use std::sync::Arc;

use noetl_types::record::{ElapsedTime, ProjectedFields};
use noetl_types::{
    EventName, EventType, FeedPosition, Json, Millis, NewEvent, Text, Timestamp, json,
};
use tokio::task::JoinSet;

use super::StoreFixture;
use super::fixture::{TestExecution, feed_message, test_time};
use super::history::SeededRng;
use super::outbox::{all_outbox_rows, claim_rows, create_run_with_outbox, outbox_mark};
use crate::{
    CursorMove, FeedLimit, FeedMessage, LogEpoch, Store, StreamCursor, StreamLeaseOutcome,
    StreamLeaseRequest, StreamOwner, StreamStart,
};

pub(crate) const STREAM_NAME: &str = "event_stream_tailer";

/// Returns a request for a stream lease of 30 seconds.
pub(crate) fn stream_lease_request(name: &str, owner: &str, now: Timestamp) -> StreamLeaseRequest {
    StreamLeaseRequest {
        name: Text::from(name),
        owner: Text::from(owner),
        now,
        lease_until: now.saturating_add(Millis::from_secs(30)),
        begin: StreamStart::Beginning,
    }
}

pub(crate) async fn lease_stream(store: &dyn Store, request: StreamLeaseRequest) -> StreamCursor {
    match store.lease_stream(request).await.unwrap() {
        StreamLeaseOutcome::Granted(cursor) => cursor,
        held @ StreamLeaseOutcome::Held { .. } => panic!("{held:?}"),
    }
}

/// Leases the stream [`STREAM_NAME`].
pub(crate) async fn lease_test_stream(store: &dyn Store, owner: &str, time: &str) -> StreamCursor {
    lease_stream(store, stream_lease_request(STREAM_NAME, owner, test_time(time))).await
}

/// Moves a cursor as its owner. Returns false if the move is rejected.
pub(crate) async fn move_cursor(store: &dyn Store, cursor: &StreamCursor, to: CursorMove) -> bool {
    let moved = store.move_stream_cursor(stream_owner(cursor), to).await;
    moved.unwrap()
}

pub(crate) fn stream_owner(cursor: &StreamCursor) -> StreamOwner {
    StreamOwner { name: cursor.name.clone(), epoch: cursor.epoch, now: test_time("12:00:00") }
}

/// Returns the positions of `events` events, once all of them are readable.
async fn feed_positions(store: &dyn Store, events: usize) -> Vec<FeedPosition> {
    let messages = read_messages(store, events).await;
    messages.iter().map(|message| message.feed).collect()
}

/// Returns the messages of `events` events, once all of them are readable.
pub(crate) async fn read_messages(store: &dyn Store, events: usize) -> Vec<FeedMessage> {
    let (mut after, mut messages) = (FeedPosition::default(), Vec::new());
    while messages.len() < events {
        let batch = store.read_feed_messages(after, FeedLimit::MAX).await.unwrap();
        after = batch.next;
        messages.extend(batch.events.into_iter().map(Result::unwrap));
        tokio::task::yield_now().await;
    }
    messages
}

/// Returns a text that requires escaping, or looks as if it does.
fn random_text(rng: &mut SeededRng) -> Text {
    let texts = [
        "",
        "a",
        "null",
        "quote \" back \\ slash /",
        "line\nand\ttab\r\u{8}\u{c}\u{1}\u{1f}\u{7f}",
        "é日本\u{1F600}\u{2028}",
        "\\u0000",
    ];
    let index = usize::try_from(rng.next_below(texts.len() as u64)).unwrap();
    Text::from(texts[index])
}

fn random_json(rng: &mut SeededRng, depth: u64) -> Json {
    match rng.next_below(if depth == 0 { 6 } else { 8 }) {
        0 => Json::Null,
        1 => Json::from(rng.one_in(2)),
        2 => Json::from(-5 * i64::try_from(rng.next_below(1 << 20)).unwrap()),
        3 => Json::from(u64::MAX - rng.next_below(9)),
        4 => json::parse(b"[0.1,1e300,5e-324,-0.5,1e21]").unwrap(),
        5 => Json::from(random_text(rng)),
        6 => {
            let count = rng.next_below(4);
            Json::list((0..count).map(|_| random_json(rng, depth - 1)))
        }
        _ => {
            let names = ["b", "a", "", "é", "a\"b", "Z"];
            let chosen = names.iter().filter(|_| rng.one_in(2)).copied();
            let chosen: Vec<_> = chosen.collect();
            Json::object(chosen.into_iter().map(|name| (name, random_json(rng, depth - 1))))
        }
    }
}

/// Returns an event with random fields.
fn random_event(run: &mut TestExecution, rng: &mut SeededRng) -> NewEvent {
    let mut event = run.next_event(EventType::CallDone);
    let mut text = |field: &mut Option<Text>| *field = rng.one_in(2).then(|| random_text(rng));
    for field in [
        &mut event.node_id, &mut event.node_name, &mut event.node_type, &mut event.stage_id,
        &mut event.frame_id, &mut event.aggregate_id, &mut event.error, &mut event.stack_trace,
        &mut event.worker_id, &mut event.correlation_id,
    ] {
        text(field);
    }
    for field in [&mut event.context, &mut event.result, &mut event.meta, &mut event.payload_ref] {
        let value = rng.one_in(2).then(|| random_json(rng, 3));
        // A null value means an absent field.
        *field = value.filter(|value| !value.is_null());
    }
    event.duration =
        rng.one_in(2).then(|| ElapsedTime::from(Millis::from_ms(rng.next_below(9_999))));
    if rng.one_in(8) {
        event.event_type = EventName::parse_lenient(Some("Weird *.> Name!")).unwrap();
        event.projected = ProjectedFields {
            current_index: Some(-1),
            current_item: Some(random_text(rng)),
            extra: Some(Json::object([("more", random_json(rng, 2))])),
            ..ProjectedFields::default()
        }
        .into_option();
    }
    if rng.one_in(12) {
        // Larger than most values, and compressed by some databases.
        event.context = Some(Json::from("x".repeat(40_000)));
    }
    event
}

/// Messages composed from columns equal messages composed from events, in the same order and for
/// all sizes.
pub(crate) async fn feed_messages_match_feed_events(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut rng = SeededRng::new(7);
    let mut run = TestExecution::create_started(store, 1).await;
    for _ in 0..12 {
        let events = (0..16).map(|_| random_event(&mut run, &mut rng)).collect();
        let append = run.append_request(events);
        run.append_to(store, append).await.unwrap();
    }
    let total = usize::try_from(run.head.version.get()).unwrap();
    feed_positions(store, total).await;
    for limit in [7, 500] {
        let limit = FeedLimit::clamped(limit);
        let (mut after, mut count) = (FeedPosition::default(), 0);
        while count < total {
            let batch = store.read_feed_messages(after, limit).await.unwrap();
            let mut events = store.read_feed(after, limit).await.unwrap().events;
            assert!(batch.is_full || count + batch.events.len() == total);
            assert!(!batch.events.is_empty() && batch.events.len() <= events.len());
            events.truncate(batch.events.len());
            let expected = events.iter().map(|event| Ok(feed_message(event)));
            assert_eq!(batch.events, expected.collect::<Vec<_>>());
            assert_eq!(batch.next, events[events.len() - 1].feed);
            count += events.len();
            after = batch.next;
        }
    }
}

/// An unreadable row is reported at its position and does not block other rows.
pub(crate) async fn assert_unreadable_row_is_reported(store: &dyn Store, damage: impl FnOnce()) {
    create_run_with_outbox(store, 1, 3).await;
    let positions = feed_positions(store, 3).await;
    damage();
    for limit in [FeedLimit::clamped(1), FeedLimit::MAX] {
        let (mut after, mut entries) = (FeedPosition::default(), Vec::new());
        while entries.len() < 3 {
            let batch = store.read_feed_messages(after, limit).await.unwrap();
            after = batch.next;
            entries.extend(batch.events);
        }
        assert_eq!(after, positions[2]);
        let [Ok(first), Err(unreadable), Ok(last)] = &*entries else {
            panic!("{entries:?}");
        };
        let seen = [first.feed, unreadable.feed, last.feed];
        assert_eq!(&seen, &*positions);
        let reason = "column tenant_id of table event is damaged: ";
        assert!(unreadable.reason.starts_with(reason), "{unreadable:?}");
        // A reader of whole events also gets the events after the unreadable row.
        let (mut after, mut entries) = (FeedPosition::default(), Vec::new());
        while entries.len() < 2 {
            let batch = store.read_feed(after, limit).await.unwrap();
            assert!(!batch.events.is_empty());
            after = batch.next;
            entries.extend(batch.events.iter().map(|event| event.feed));
        }
        assert_eq!(entries, [positions[0], positions[2]]);
        assert_eq!(after, positions[2]);
    }
}

pub(crate) async fn stream_starts_at_requested_position(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let name = Text::from(STREAM_NAME);
    assert_eq!(store.find_stream_cursor(&name).await.unwrap(), None);
    // In an empty log, the current end is the beginning.
    let empty = StreamLeaseRequest {
        begin: StreamStart::Now,
        ..stream_lease_request("empty", "a", test_time("12:00:00"))
    };
    let cursor = lease_stream(store, empty).await;
    assert_eq!(cursor.position, FeedPosition::default());
    create_run_with_outbox(store, 1, 3).await;
    let positions = feed_positions(store, 3).await;
    let from_now = StreamLeaseRequest {
        begin: StreamStart::Now,
        ..stream_lease_request("now", "a", test_time("12:00:00"))
    };
    let cursor = lease_stream(store, from_now).await;
    assert_eq!(Some(&cursor.position), positions.last());
    let cursor = lease_test_stream(store, "a", "12:00:00").await;
    assert_eq!(cursor.position, FeedPosition::default());
    assert_eq!(cursor.log_epoch, LogEpoch::FIRST);
    assert_eq!((cursor.epoch, cursor.owner.as_deref()), (1, Some("a")));
    // The cursor is stored at once.
    assert_eq!(store.find_stream_cursor(&name).await.unwrap(), Some(cursor));
}

pub(crate) async fn stream_has_one_publisher(fixture: &StoreFixture) {
    let store = &*fixture.store;
    create_run_with_outbox(store, 1, 3).await;
    let positions = feed_positions(store, 3).await;
    let start = FeedPosition::default();
    let a = lease_test_stream(store, "a", "12:00:00").await;
    let request = stream_lease_request(STREAM_NAME, "b", test_time("12:00:29.999"));
    let held = store.lease_stream(request).await;
    let expected =
        StreamLeaseOutcome::Held { owner: Text::from("a"), until: test_time("12:00:30") };
    assert_eq!(held.unwrap(), expected);
    let forward = |from, to| CursorMove::Forward { from, to };
    let step = forward(start, positions[0]);
    assert!(move_cursor(store, &a, step).await);
    // Neither from another position, nor backwards, nor to the same position.
    for invalid in [
        forward(start, positions[1]),
        forward(positions[0], start),
        forward(positions[0], positions[0]),
    ] {
        assert!(!move_cursor(store, &a, invalid).await);
    }
    assert!(store.renew_stream_lease(stream_owner(&a), test_time("12:01:00")).await.unwrap());
    let request = stream_lease_request(STREAM_NAME, "b", test_time("12:00:59"));
    let held = store.lease_stream(request).await;
    assert!(matches!(held.unwrap(), StreamLeaseOutcome::Held { .. }));
    // The lease expires, and its former owner is fenced.
    let b = lease_test_stream(store, "b", "12:01:00").await;
    assert_eq!((b.epoch, b.position), (2, positions[0]));
    let late = forward(positions[0], positions[2]);
    assert!(!move_cursor(store, &a, late).await);
    assert!(!store.renew_stream_lease(stream_owner(&a), test_time("13:00:00")).await.unwrap());
    assert!(!store.release_stream_lease(stream_owner(&a)).await.unwrap());
    let step = forward(positions[0], positions[1]);
    assert!(move_cursor(store, &b, step).await);
    assert!(store.release_stream_lease(stream_owner(&b)).await.unwrap());
    assert!(!store.release_stream_lease(stream_owner(&b)).await.unwrap());
    let c = lease_test_stream(store, "c", "12:01:01").await;
    assert_eq!((c.epoch, c.position), (3, positions[1]));
    // A restarted process with the same name does not share the lease of its former instance.
    let restarted = lease_test_stream(store, "c", "12:01:02").await;
    assert_eq!(restarted.epoch, 4);
    assert!(!store.renew_stream_lease(stream_owner(&c), test_time("13:00:00")).await.unwrap());
    // A lease that a clock one day ahead granted does not hold the stream until tomorrow.
    let tomorrow = test_time("12:02:00").saturating_add(Millis::from_days(1));
    lease_stream(store, stream_lease_request(STREAM_NAME, "c", tomorrow)).await;
    lease_test_stream(store, "d", "12:03:00").await;
}

pub(crate) async fn only_lease_holder_moves_cursor(fixture: &StoreFixture) {
    let store = &*fixture.store;
    create_run_with_outbox(store, 1, 9).await;
    let positions = feed_positions(store, 9).await;
    let mut tasks = JoinSet::new();
    for number in 0..16 {
        let store = Arc::clone(&fixture.store);
        let positions = positions.clone();
        tasks.spawn(async move {
            let mut moved = 0;
            for round in 0..20_u64 {
                let now = test_time("12:00:00").saturating_add(Millis::from_secs(round * 31));
                let request = stream_lease_request(STREAM_NAME, &format!("p{number}"), now);
                let StreamLeaseOutcome::Granted(cursor) =
                    store.lease_stream(request).await.unwrap()
                else {
                    continue;
                };
                let next = positions.iter().find(|it| **it > cursor.position);
                if let Some(to) = next {
                    let step = CursorMove::Forward { from: cursor.position, to: *to };
                    let is_moved = move_cursor(&*store, &cursor, step).await;
                    moved += usize::from(is_moved);
                }
            }
            moved
        });
    }
    let moved: usize = tasks.join_all().await.into_iter().sum();
    let name = Text::from(STREAM_NAME);
    let cursor = store.find_stream_cursor(&name).await.unwrap().unwrap();
    let index = positions.iter().position(|it| *it == cursor.position);
    assert_eq!(index.map_or(0, |index| index + 1), moved);
}

pub(crate) async fn new_log_epoch_changes_message_ids(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let run = create_run_with_outbox(store, 1, 2).await;
    let now = test_time("12:00:00");
    let cursor = lease_stream(store, stream_lease_request(STREAM_NAME, "a", now)).await;
    let rows = claim_rows(store, "p", 1, now).await;
    store.mark_published(vec![outbox_mark(&rows[0])], now).await.unwrap();
    assert_eq!(store.log_epoch().await.unwrap(), LogEpoch::FIRST);
    let second = store.start_log_epoch().await.unwrap();
    assert_ne!(second, LogEpoch::FIRST);
    assert_eq!(store.log_epoch().await.unwrap(), second);
    let ids = store.list_outbox_rows(all_outbox_rows()).await.unwrap();
    let ids: Vec<_> = ids.iter().map(|row| row.message_id.to_string()).collect();
    assert_eq!(ids, [format!("1:{}:1", run.id), format!("{}:{}:2", second.get(), run.id)]);
    // A cursor of the old epoch cannot move until the stream is restarted.
    let positions = feed_positions(store, 2).await;
    let forward = CursorMove::Forward { from: cursor.position, to: positions[0] };
    assert!(!move_cursor(store, &cursor, forward).await);
    let name = Text::from(STREAM_NAME);
    let old = store.find_stream_cursor(&name).await.unwrap().unwrap();
    assert_eq!(old.log_epoch, LogEpoch::FIRST);
    let restart = CursorMove::Restart {
        to: FeedPosition::default(),
        stream_created_at: Some(test_time("11:00:00")),
    };
    assert!(move_cursor(store, &cursor, restart).await);
    let new = store.find_stream_cursor(&name).await.unwrap().unwrap();
    assert_eq!(new.log_epoch, second);
    assert_eq!(new.stream_created_at, Some(test_time("11:00:00")));
    assert!(move_cursor(store, &cursor, forward).await);
}

/// Message ids of external writers are not changed.
pub(crate) async fn new_log_epoch_keeps_external_message_ids(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let run = create_run_with_outbox(store, 1, 4).await;
    let rows = store.list_outbox_rows(all_outbox_rows()).await.unwrap();
    let names = ["order:42", "1:order:42", "plain"];
    for (row, name) in rows[1..].iter().zip(names) {
        (fixture.set_message_id)(row.outbox_id, name);
    }
    let mut epochs = vec![LogEpoch::FIRST];
    for _ in 0..2 {
        let epoch = store.start_log_epoch().await.unwrap();
        assert!(!epochs.contains(&epoch));
        epochs.push(epoch);
        let rows = store.list_outbox_rows(all_outbox_rows()).await.unwrap();
        let own_id = format!("{}:{}:1", epoch.get(), run.id);
        let message_ids: Vec<_> = rows.iter().map(|row| row.message_id.as_str()).collect();
        assert_eq!(message_ids, [&*own_id, names[0], names[1], names[2]]);
    }
}

pub(crate) async fn feed_lag_is_reported(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let lag = store.feed_lag(FeedPosition::default()).await.unwrap();
    assert_eq!((lag.events, lag.oldest), (0, None));
    assert_eq!(lag.end, FeedPosition::default());
    let mut run = TestExecution::create_started(store, 1).await;
    let mut append = run.step_request();
    append.now = test_time("12:00:05");
    run.append_to(store, append).await.unwrap();
    let positions = feed_positions(store, 2).await;
    let lag = store.feed_lag(FeedPosition::default()).await.unwrap();
    assert_eq!((lag.events, lag.oldest), (2, Some(test_time("12:00:00"))));
    assert_eq!(lag.end, positions[1]);
    let lag = store.feed_lag(positions[0]).await.unwrap();
    assert_eq!((lag.events, lag.oldest), (1, Some(test_time("12:00:05"))));
    let lag = store.feed_lag(positions[1]).await.unwrap();
    assert_eq!((lag.events, lag.oldest), (0, None));
    assert_eq!(lag.end, positions[1]);
}

/// An event with an old id that is appended late is the next to be read, because ids do not define
/// the order.
pub(crate) async fn late_event_with_old_id_is_read_next(fixture: &StoreFixture) {
    let store = &*fixture.store;
    TestExecution::create_started(store, 9).await;
    let last = feed_positions(store, 1).await[0];
    let old = TestExecution::create_started(store, 1).await;
    loop {
        let batch = store.read_feed(last, FeedLimit::MAX).await.unwrap();
        let found = batch.events.first();
        if let Some(event) = found {
            assert_eq!(event.record.event.execution_id, old.id);
            assert_eq!(batch.events.len(), 1);
            return;
        }
        // Other transactions in the cluster may briefly hold back the end of the log.
        tokio::task::yield_now().await;
    }
}

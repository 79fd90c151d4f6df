//! Streams: one publisher, a cursor that goes forward only, lives of the log.

use std::sync::Arc;

use noetl_types::record::{CopiedFields, Elapsed};
use noetl_types::{
    EventName, EventType, FeedPosition, Json, Millis, NewEvent, Text, Timestamp, json,
};
use tokio::task::JoinSet;

use super::Bench;
use super::fixture::{Run, at};
use super::history::Dice;
use super::outbox::{all, claim, mark, published_run};
use crate::{
    FeedLimit, FeedMessage, LogEpoch, Store, StreamBegin, StreamCursor, StreamMove, StreamOwner,
    StreamTake, StreamTaken,
};

pub(crate) const NAME: &str = "event_stream_tailer";

/// A publisher wants a stream for half a minute.
pub(crate) fn take(name: &str, owner: &str, now: Timestamp) -> StreamTake {
    StreamTake {
        name: Text::from(name),
        owner: Text::from(owner),
        now,
        lease_until: now.saturating_add(Millis::from_secs(30)),
        begin: StreamBegin::Beginning,
    }
}

pub(crate) async fn taken(store: &dyn Store, take: StreamTake) -> StreamCursor {
    match store.take_stream(take).await.unwrap() {
        StreamTaken::Taken(cursor) => cursor,
        held @ StreamTaken::Held { .. } => panic!("{held:?}"),
    }
}

pub(crate) fn owner(cursor: &StreamCursor) -> StreamOwner {
    StreamOwner {
        name: cursor.name.clone(),
        epoch: cursor.epoch,
        now: at("12:00:00"),
    }
}

/// Everything that can be read, once all of so many events can.
async fn feed(store: &dyn Store, events: usize) -> Vec<FeedPosition> {
    let all = messages(store, events).await;
    all.iter().map(|message| message.feed).collect()
}

/// The messages of so many events, once all of them can be read.
pub(crate) async fn messages(store: &dyn Store, events: usize) -> Vec<FeedMessage> {
    let (mut after, mut all) = (FeedPosition::default(), Vec::new());
    while all.len() < events {
        let batch = store.messages(after, FeedLimit::MAX).await.unwrap();
        after = batch.next;
        all.extend(batch.events.into_iter().map(Result::unwrap));
        tokio::task::yield_now().await;
    }
    all
}

/// A text that has to be escaped, or looks as if.
fn any_text(dice: &mut Dice) -> Text {
    let texts = [
        "",
        "a",
        "null",
        "quote \" back \\ slash /",
        "line\nand\ttab\r\u{8}\u{c}\u{1}\u{1f}\u{7f}",
        "é日本\u{1F600}\u{2028}",
        "\\u0000",
    ];
    let place = usize::try_from(dice.roll(texts.len() as u64)).unwrap();
    Text::from(texts[place])
}

fn any_json(dice: &mut Dice, depth: u64) -> Json {
    match dice.roll(if depth == 0 { 6 } else { 8 }) {
        0 => Json::Null,
        1 => Json::from(dice.one_in(2)),
        2 => Json::from(-5 * i64::try_from(dice.roll(1 << 20)).unwrap()),
        3 => Json::from(u64::MAX - dice.roll(9)),
        4 => json::parse(b"[0.1,1e300,5e-324,-0.5,1e21]").unwrap(),
        5 => Json::from(any_text(dice)),
        6 => {
            let count = dice.roll(4);
            Json::list((0..count).map(|_| any_json(dice, depth - 1)))
        }
        _ => {
            let names = ["b", "a", "", "é", "a\"b", "Z"];
            let some = names.iter().filter(|_| dice.one_in(2)).copied();
            let some: Vec<_> = some.collect();
            Json::object(
                some.into_iter()
                    .map(|name| (name, any_json(dice, depth - 1))),
            )
        }
    }
}

/// An event with any of its fields.
fn any_event(run: &mut Run, dice: &mut Dice) -> NewEvent {
    let mut event = run.event(EventType::CallDone);
    let mut text = |field: &mut Option<Text>| *field = dice.one_in(2).then(|| any_text(dice));
    for field in [
        &mut event.node_id,
        &mut event.node_name,
        &mut event.node_type,
        &mut event.stage_id,
        &mut event.frame_id,
        &mut event.aggregate_id,
        &mut event.error,
        &mut event.stack_trace,
        &mut event.worker_id,
        &mut event.correlation_id,
    ] {
        text(field);
    }
    for field in [
        &mut event.context,
        &mut event.result,
        &mut event.meta,
        &mut event.payload_ref,
    ] {
        let value = dice.one_in(2).then(|| any_json(dice, 3));
        // Null is absence.
        *field = value.filter(|value| !value.is_null());
    }
    event.duration = dice
        .one_in(2)
        .then(|| Elapsed::from(Millis::from_ms(dice.roll(9_999))));
    if dice.one_in(8) {
        event.event_type = EventName::read_copied(Some("Weird *.> Name!")).unwrap();
        event.copied = CopiedFields {
            current_index: Some(-1),
            current_item: Some(any_text(dice)),
            extra: Some(Json::object([("more", any_json(dice, 2))])),
            ..CopiedFields::default()
        }
        .into_option();
    }
    if dice.one_in(12) {
        // Larger than most, and compressed where a database does that.
        event.context = Some(Json::from("x".repeat(40_000)));
    }
    event
}

/// What is composed from the columns of an event is what is written from the event itself, in the same
/// order, whatever the sizes are.
pub(crate) async fn messages_are_the_events_of_the_feed(bench: &Bench) {
    let store = &*bench.store;
    let mut dice = Dice::new(7);
    let mut run = Run::started(store, 1).await;
    for _ in 0..12 {
        let events = (0..16).map(|_| any_event(&mut run, &mut dice)).collect();
        let append = run.append(events);
        run.write(store, append).await.unwrap();
    }
    let wanted = usize::try_from(run.head.version.get()).unwrap();
    feed(store, wanted).await;
    for limit in [7, 500] {
        let limit = FeedLimit::clamped(limit);
        let (mut after, mut seen) = (FeedPosition::default(), 0);
        while seen < wanted {
            let batch = store.messages(after, limit).await.unwrap();
            let mut events = store.feed(after, limit).await.unwrap().events;
            assert!(batch.is_full || seen + batch.events.len() == wanted);
            assert!(!batch.events.is_empty() && batch.events.len() <= events.len());
            events.truncate(batch.events.len());
            let expected = events.iter().map(|event| Ok(FeedMessage::of(event)));
            assert_eq!(batch.events, expected.collect::<Vec<_>>());
            assert_eq!(batch.next, events[events.len() - 1].feed);
            seen += events.len();
            after = batch.next;
        }
    }
}

/// A row that nobody can read is told of at its place, and stops none of its neighbours.
pub(crate) async fn an_unreadable_row_is_told_of(store: &dyn Store, damage: impl FnOnce()) {
    published_run(store, 1, 3).await;
    let places = feed(store, 3).await;
    damage();
    for limit in [FeedLimit::clamped(1), FeedLimit::MAX] {
        let (mut after, mut found) = (FeedPosition::default(), Vec::new());
        while found.len() < 3 {
            let batch = store.messages(after, limit).await.unwrap();
            after = batch.next;
            found.extend(batch.events);
        }
        assert_eq!(after, places[2]);
        let [Ok(first), Err(unreadable), Ok(last)] = &*found else {
            panic!("{found:?}");
        };
        let seen = [first.feed, unreadable.feed, last.feed];
        assert_eq!(&seen, &*places);
        let why = "column tenant_id of table event is damaged: ";
        assert!(unreadable.why.starts_with(why), "{unreadable:?}");
        // Who reads whole events is not kept from those behind it either.
        let (mut after, mut found) = (FeedPosition::default(), Vec::new());
        while found.len() < 2 {
            let batch = store.feed(after, limit).await.unwrap();
            assert!(!batch.events.is_empty());
            after = batch.next;
            found.extend(batch.events.iter().map(|event| event.feed));
        }
        assert_eq!(found, [places[0], places[2]]);
        assert_eq!(after, places[2]);
    }
}

pub(crate) async fn a_stream_begins_where_it_is_told(bench: &Bench) {
    let store = &*bench.store;
    let name = Text::from(NAME);
    assert_eq!(store.stream_cursor(&name).await.unwrap(), None);
    // Of a log without events now is the beginning.
    let empty = StreamTake {
        begin: StreamBegin::Now,
        ..take("empty", "a", at("12:00:00"))
    };
    let cursor = taken(store, empty).await;
    assert_eq!(cursor.position, FeedPosition::default());
    published_run(store, 1, 3).await;
    let positions = feed(store, 3).await;
    let from_now = StreamTake {
        begin: StreamBegin::Now,
        ..take("now", "a", at("12:00:00"))
    };
    let cursor = taken(store, from_now).await;
    assert_eq!(Some(&cursor.position), positions.last());
    let cursor = taken(store, take(NAME, "a", at("12:00:00"))).await;
    assert_eq!(cursor.position, FeedPosition::default());
    assert_eq!(cursor.log_epoch, LogEpoch::FIRST);
    assert_eq!((cursor.epoch, cursor.owner.as_deref()), (1, Some("a")));
    // It is kept at once.
    assert_eq!(store.stream_cursor(&name).await.unwrap(), Some(cursor));
}

pub(crate) async fn t7_a_stream_has_one_publisher(bench: &Bench) {
    let store = &*bench.store;
    published_run(store, 1, 3).await;
    let positions = feed(store, 3).await;
    let start = FeedPosition::default();
    let a = taken(store, take(NAME, "a", at("12:00:00"))).await;
    let held = store.take_stream(take(NAME, "b", at("12:00:29.999"))).await;
    let expected = StreamTaken::Held {
        owner: Text::from("a"),
        until: at("12:00:30"),
    };
    assert_eq!(held.unwrap(), expected);
    let forward = |from, to| StreamMove::Forward { from, to };
    let step = forward(start, positions[0]);
    assert!(store.move_stream(owner(&a), step).await.unwrap());
    // Neither from elsewhere nor backwards nor on the spot.
    for wrong in [
        forward(start, positions[1]),
        forward(positions[0], start),
        forward(positions[0], positions[0]),
    ] {
        assert!(!store.move_stream(owner(&a), wrong).await.unwrap());
    }
    assert!(store.renew_stream(owner(&a), at("12:01:00")).await.unwrap());
    let held = store.take_stream(take(NAME, "b", at("12:00:59"))).await;
    assert!(matches!(held.unwrap(), StreamTaken::Held { .. }));
    // The lease runs out; the slow one can do nothing any more.
    let b = taken(store, take(NAME, "b", at("12:01:00"))).await;
    assert_eq!((b.epoch, b.position), (2, positions[0]));
    let late = forward(positions[0], positions[2]);
    assert!(!store.move_stream(owner(&a), late).await.unwrap());
    assert!(!store.renew_stream(owner(&a), at("13:00:00")).await.unwrap());
    assert!(!store.release_stream(owner(&a)).await.unwrap());
    let step = forward(positions[0], positions[1]);
    assert!(store.move_stream(owner(&b), step).await.unwrap());
    assert!(store.release_stream(owner(&b)).await.unwrap());
    assert!(!store.release_stream(owner(&b)).await.unwrap());
    let c = taken(store, take(NAME, "c", at("12:01:01"))).await;
    assert_eq!((c.epoch, c.position), (3, positions[1]));
    // A process that comes back under its name does not share with what is left of it.
    let again = taken(store, take(NAME, "c", at("12:01:02"))).await;
    assert_eq!(again.epoch, 4);
    assert!(!store.renew_stream(owner(&c), at("13:00:00")).await.unwrap());
}

pub(crate) async fn t7_of_racing_publishers_one_moves_the_cursor(bench: &Bench) {
    let store = &*bench.store;
    published_run(store, 1, 9).await;
    let positions = feed(store, 9).await;
    let mut racers = JoinSet::new();
    for number in 0..16 {
        let store = Arc::clone(&bench.store);
        let positions = positions.clone();
        racers.spawn(async move {
            let mut moved = 0;
            for round in 0..20_u64 {
                let now = at("12:00:00").saturating_add(Millis::from_secs(round * 31));
                let wish = take(NAME, &format!("p{number}"), now);
                let StreamTaken::Taken(cursor) = store.take_stream(wish).await.unwrap() else {
                    continue;
                };
                let next = positions.iter().find(|it| **it > cursor.position);
                if let Some(to) = next {
                    let step = StreamMove::Forward {
                        from: cursor.position,
                        to: *to,
                    };
                    let is_moved = store.move_stream(owner(&cursor), step).await.unwrap();
                    moved += usize::from(is_moved);
                }
            }
            moved
        });
    }
    let moved: usize = racers.join_all().await.into_iter().sum();
    let name = Text::from(NAME);
    let cursor = store.stream_cursor(&name).await.unwrap().unwrap();
    let place = positions.iter().position(|it| *it == cursor.position);
    assert_eq!(place.map_or(0, |place| place + 1), moved);
}

pub(crate) async fn t11_a_new_life_of_the_log_has_new_names(bench: &Bench) {
    let store = &*bench.store;
    let run = published_run(store, 1, 2).await;
    let now = at("12:00:00");
    let cursor = taken(store, take(NAME, "a", now)).await;
    let out = store.claim_outbox(claim("p", 1, now)).await.unwrap().rows;
    store
        .mark_published(vec![mark(&out[0])], now)
        .await
        .unwrap();
    assert_eq!(store.log_epoch().await.unwrap(), LogEpoch::FIRST);
    let second = store.begin_log_epoch().await.unwrap();
    assert_eq!(second, LogEpoch::FIRST.next());
    assert_eq!(store.log_epoch().await.unwrap(), second);
    let ids = store.outbox(all()).await.unwrap();
    let ids: Vec<_> = ids.iter().map(|row| row.message_id.to_string()).collect();
    assert_eq!(ids, [format!("1:{}:1", run.id), format!("2:{}:2", run.id)]);
    // A cursor of the old life goes nowhere until the stream is made anew.
    let positions = feed(store, 2).await;
    let forward = StreamMove::Forward {
        from: cursor.position,
        to: positions[0],
    };
    assert!(!store.move_stream(owner(&cursor), forward).await.unwrap());
    let name = Text::from(NAME);
    let old = store.stream_cursor(&name).await.unwrap().unwrap();
    assert_eq!(old.log_epoch, LogEpoch::FIRST);
    let restart = StreamMove::Restart {
        to: FeedPosition::default(),
        stream_created_at: Some(at("11:00:00")),
    };
    assert!(store.move_stream(owner(&cursor), restart).await.unwrap());
    let new = store.stream_cursor(&name).await.unwrap().unwrap();
    assert_eq!(new.log_epoch, second);
    assert_eq!(new.stream_created_at, Some(at("11:00:00")));
    assert!(store.move_stream(owner(&cursor), forward).await.unwrap());
}

/// Rows of others have names of their own, which are not ours to change.
pub(crate) async fn t11_what_others_called_their_rows_stays(bench: &Bench) {
    let store = &*bench.store;
    let run = published_run(store, 1, 4).await;
    let rows = store.outbox(all()).await.unwrap();
    let names = ["order:42", "1:order:42", "plain"];
    for (row, name) in rows[1..].iter().zip(names) {
        (bench.call_row)(row.outbox_id, name);
    }
    for epoch in [2, 3] {
        store.begin_log_epoch().await.unwrap();
        let rows = store.outbox(all()).await.unwrap();
        let ours = format!("{epoch}:{}:1", run.id);
        let found: Vec<_> = rows.iter().map(|row| row.message_id.as_str()).collect();
        assert_eq!(found, [&*ours, names[0], names[1], names[2]]);
    }
}

pub(crate) async fn the_feed_says_how_far_it_is_ahead(bench: &Bench) {
    let store = &*bench.store;
    let lag = store.feed_lag(FeedPosition::default()).await.unwrap();
    assert_eq!((lag.events, lag.oldest), (0, None));
    assert_eq!(lag.end, FeedPosition::default());
    let mut run = Run::started(store, 1).await;
    let mut append = run.step();
    append.now = at("12:00:05");
    run.write(store, append).await.unwrap();
    let positions = feed(store, 2).await;
    let lag = store.feed_lag(FeedPosition::default()).await.unwrap();
    assert_eq!((lag.events, lag.oldest), (2, Some(at("12:00:00"))));
    assert_eq!(lag.end, positions[1]);
    let lag = store.feed_lag(positions[0]).await.unwrap();
    assert_eq!((lag.events, lag.oldest), (1, Some(at("12:00:05"))));
    let lag = store.feed_lag(positions[1]).await.unwrap();
    assert_eq!((lag.events, lag.oldest), (0, None));
    assert_eq!(lag.end, positions[1]);
}

/// What was named long ago and comes now is the next to be read: names do not order.
pub(crate) async fn t2_an_old_id_that_comes_late_is_read_next(bench: &Bench) {
    let store = &*bench.store;
    Run::started(store, 9).await;
    let last = feed(store, 1).await[0];
    let old = Run::started(store, 1).await;
    loop {
        let batch = store.feed(last, FeedLimit::MAX).await.unwrap();
        let found = batch.events.first();
        if let Some(event) = found {
            assert_eq!(event.record.event.execution_id, old.id);
            assert_eq!(batch.events.len(), 1);
            return;
        }
        // Others in the cluster may hold back the end of the log for a moment.
        tokio::task::yield_now().await;
    }
}

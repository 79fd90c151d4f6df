//! Streams: one publisher, a cursor that goes forward only, lives of the log.

use std::sync::Arc;

use noetl_types::{FeedPosition, Millis, Text, Timestamp};
use tokio::task::JoinSet;

use super::Bench;
use super::fixture::{Run, at};
use super::outbox::{all, claim, mark, published_run};
use crate::{
    FeedLimit, LogEpoch, Store, StreamBegin, StreamCursor, StreamMove, StreamOwner, StreamTake,
    StreamTaken,
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
    loop {
        let batch = store
            .feed(FeedPosition::default(), FeedLimit::MAX)
            .await
            .unwrap();
        if batch.events.len() >= events {
            return batch.events.iter().map(|event| event.feed).collect();
        }
        tokio::task::yield_now().await;
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

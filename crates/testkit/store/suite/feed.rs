//! The feed of all events.

use std::collections::BTreeMap;
use std::sync::Arc;

use noetl_types::{ExecutionId, FeedPosition, StoredEvent};
use tokio::task::JoinSet;

use super::StoreFixture;
use super::fixture::TestExecution;
use crate::{FeedLimit, Store};

async fn read_whole_feed(store: &dyn Store, after: &mut FeedPosition) -> Vec<StoredEvent> {
    let mut all = Vec::new();
    loop {
        let batch = store.read_feed(*after, FeedLimit::clamped(4)).await.unwrap();
        *after = batch.next;
        all.extend(batch.events);
        if !batch.is_full {
            return all;
        }
    }
}

/// Asserts that every event occurs once, and those of each execution in order.
fn assert_each_event_once(events: &[StoredEvent], expected: &BTreeMap<ExecutionId, i64>) {
    assert!(events.is_sorted_by(|a, b| a.feed < b.feed));
    let mut seen: BTreeMap<ExecutionId, i64> = BTreeMap::new();
    for event in events {
        let last = seen.entry(event.record.event.execution_id).or_default();
        assert_eq!(event.record.seq.get(), *last + 1);
        *last += 1;
    }
    assert_eq!(seen, *expected);
}

pub(crate) async fn feed_delivers_each_event_once_in_order(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut runs = [
        TestExecution::create_started(store, 2).await,
        TestExecution::create_started(store, 1).await,
    ];
    for step in 0..7 {
        let run = &mut runs[step % 2];
        let append = run.step_request();
        run.append_to(store, append).await.unwrap();
    }
    let mut after = FeedPosition::default();
    let mut events = Vec::new();
    // Other writers in the same cluster may briefly hold back the end of the feed.
    while events.len() < 9 {
        events.extend(read_whole_feed(store, &mut after).await);
    }
    let expected = BTreeMap::from([(runs[0].id, 5), (runs[1].id, 4)]);
    assert_each_event_once(&events, &expected);
    assert_eq!(read_whole_feed(store, &mut after).await, []);
    let log = store
        .read_events(runs[0].id, noetl_types::ExecutionVersion::EMPTY, crate::LogPageLimit::MAX)
        .await
        .unwrap();
    let run_events: Vec<_> =
        events.into_iter().filter(|event| event.record.event.execution_id == runs[0].id).collect();
    assert_eq!(run_events, log);
}

pub(crate) async fn follower_misses_nothing_while_writers_race(fixture: &StoreFixture) {
    let mut writers = JoinSet::new();
    for number in 0..8 {
        let store = Arc::clone(&fixture.store);
        writers.spawn(async move {
            let mut run = TestExecution::create_started(&*store, number).await;
            for _ in 0..11 {
                let append = run.step_request();
                run.append_to(&*store, append).await.unwrap();
            }
        });
    }
    let mut after = FeedPosition::default();
    let mut events = Vec::new();
    while writers.join_next().await.is_some() {
        events.extend(read_whole_feed(&*fixture.store, &mut after).await);
    }
    let expected = (0..8).map(|number| (TestExecution::new(number).id, 12)).collect();
    // Other commits in the same cluster may briefly hold back the end of the feed.
    while events.len() < 96 {
        events.extend(read_whole_feed(&*fixture.store, &mut after).await);
    }
    assert_each_event_once(&events, &expected);
}

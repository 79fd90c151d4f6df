//! The feed of all events.

use std::collections::BTreeMap;
use std::sync::Arc;

use noetl_types::{ExecutionId, FeedPosition, StoredEvent};
use tokio::task::JoinSet;

use super::Bench;
use super::fixture::Run;
use crate::{FeedLimit, Store};

async fn read_all(store: &dyn Store, after: &mut FeedPosition) -> Vec<StoredEvent> {
    let mut all = Vec::new();
    loop {
        let batch = store.feed(*after, FeedLimit::clamped(4)).await.unwrap();
        *after = batch.next;
        all.extend(batch.events);
        if !batch.is_full {
            return all;
        }
    }
}

/// Every event once, the events of each execution in their order.
fn check(events: &[StoredEvent], expected: &BTreeMap<ExecutionId, i64>) {
    assert!(events.is_sorted_by(|a, b| a.feed < b.feed));
    let mut seen: BTreeMap<ExecutionId, i64> = BTreeMap::new();
    for event in events {
        let last = seen.entry(event.record.event.execution_id).or_default();
        assert_eq!(event.record.seq.get(), *last + 1);
        *last += 1;
    }
    assert_eq!(seen, *expected);
}

pub(crate) async fn the_feed_has_everything_once_in_order(bench: &Bench) {
    let store = &*bench.store;
    let mut runs = [Run::started(store, 2).await, Run::started(store, 1).await];
    for step in 0..7 {
        let run = &mut runs[step % 2];
        let append = run.step();
        run.write(store, append).await.unwrap();
    }
    let mut after = FeedPosition::default();
    let mut events = Vec::new();
    // Whoever else writes in the same cluster may hold the end of the feed back for a moment.
    while events.len() < 9 {
        events.extend(read_all(store, &mut after).await);
    }
    let expected = BTreeMap::from([(runs[0].id, 5), (runs[1].id, 4)]);
    check(&events, &expected);
    assert_eq!(read_all(store, &mut after).await, []);
    let log = store
        .events(runs[0].id, noetl_types::Version::EMPTY, crate::LogPage::MAX)
        .await
        .unwrap();
    let of_run: Vec<_> = events
        .into_iter()
        .filter(|event| event.record.event.execution_id == runs[0].id)
        .collect();
    assert_eq!(of_run, log);
}

pub(crate) async fn a_follower_misses_nothing_while_writers_race(bench: &Bench) {
    let mut writers = JoinSet::new();
    for number in 0..8 {
        let store = Arc::clone(&bench.store);
        writers.spawn(async move {
            let mut run = Run::started(&*store, number).await;
            for _ in 0..11 {
                let append = run.step();
                run.write(&*store, append).await.unwrap();
            }
        });
    }
    let mut after = FeedPosition::default();
    let mut events = Vec::new();
    while writers.join_next().await.is_some() {
        events.extend(read_all(&*bench.store, &mut after).await);
    }
    let expected = (0..8).map(|number| (Run::new(number).id, 12)).collect();
    // A commit of somebody else in the same cluster may hold the horizon back for a moment.
    while events.len() < 96 {
        events.extend(read_all(&*bench.store, &mut after).await);
    }
    check(&events, &expected);
}

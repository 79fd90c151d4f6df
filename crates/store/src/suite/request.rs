//! Requests that are taken before they are worked on.

use std::sync::Arc;

use noetl_types::limits::PageLimit;
use noetl_types::{EventId, Json, TenantId, Text, sha256};
use tokio::task::JoinSet;

use super::Bench;
use super::fixture::at;
use crate::Store;
use crate::model::{RequestEnd, RequestKey, RequestTake, Swept, Taken};

/// A request under a key at a time, for a minute, with a number for what follows.
pub(crate) fn taking(key: &str, body: &str, (number, now): (i64, &str)) -> RequestTake {
    let now = at(now);
    RequestTake {
        key: RequestKey {
            tenant_id: TenantId::default(),
            route: Text::from("POST /api/signals"),
            key_sha256: sha256(key),
        },
        body_sha256: sha256(body),
        work_id: EventId::new(number).unwrap(),
        now,
        until: now.saturating_add(noetl_types::Millis::from_secs(60)),
        expires_at: at("13:00:00"),
    }
}

async fn take(store: &dyn Store, key: &str, body: &str, (number, now): (i64, &str)) -> Taken {
    store
        .take_request(taking(key, body, (number, now)))
        .await
        .unwrap()
}

fn yours(number: i64) -> Taken {
    Taken::Yours(EventId::new(number).unwrap())
}

fn answer(text: &str) -> RequestEnd {
    RequestEnd::Answered {
        status: 200,
        answer: Text::from(text),
    }
}

pub(crate) async fn a_request_is_worked_on_once_and_answered_alike(bench: &Bench) {
    let store = &*bench.store;
    let key = taking("k", "body", (1, "12:00:00")).key;
    let settle = |number, end| {
        let id = EventId::new(number).unwrap();
        store.settle_request(key.clone(), id, end)
    };
    assert_eq!(take(store, "k", "body", (1, "12:00:00")).await, yours(1));
    let again = (2, "12:00:59");
    assert_eq!(take(store, "k", "body", again).await, Taken::UnderWay);
    assert_eq!(take(store, "k", "other", again).await, Taken::Mismatch);
    // What is worked on was not answered yet.
    let answered = || store.answered(&key.tenant_id, &key.route, key.key_sha256, at("12:10:00"));
    assert_eq!(answered().await.unwrap(), None);
    // Only who works on it says what came of it.
    settle(2, answer("wrong")).await.unwrap();
    assert_eq!(take(store, "k", "body", again).await, Taken::UnderWay);
    settle(1, answer("{\"a\":1}")).await.unwrap();
    settle(1, answer("late")).await.unwrap();
    settle(1, RequestEnd::Refused).await.unwrap();
    for now in ["12:00:59", "12:59:59"] {
        let Taken::Answered(kept) = take(store, "k", "body", (3, now)).await else {
            panic!("not answered");
        };
        assert_eq!((kept.status, &kept.answer), (200, &Json::from("{\"a\":1}")));
        assert_eq!(take(store, "k", "other", (3, now)).await, Taken::Mismatch);
    }
    assert!(answered().await.unwrap().is_some());
    // Its time is over, so the key may be used for something else.
    assert_eq!(take(store, "k", "other", (4, "13:00:00")).await, yours(4));
    // What was refused leaves nothing.
    settle(4, RequestEnd::Refused).await.unwrap();
    assert_eq!(take(store, "k", "third", (5, "12:00:00")).await, yours(5));
    // Other keys, routes and tenants are others.
    assert_eq!(take(store, "l", "other", (6, "12:00:00")).await, yours(6));
    let mut elsewhere = taking("k", "other", (7, "12:00:00"));
    elsewhere.key.route = Text::from("POST /api/executions");
    assert_eq!(store.take_request(elsewhere).await.unwrap(), yours(7));
    let mut foreign = taking("k", "other", (8, "12:00:00"));
    foreign.key.tenant_id = TenantId::new("else").unwrap();
    assert_eq!(store.take_request(foreign).await.unwrap(), yours(8));
    let swept = store.sweep(Swept::Idempotency, at("13:00:00"), PageLimit::MAX);
    assert_eq!(swept.await.unwrap(), 4);
}

pub(crate) async fn work_that_nobody_does_any_more_is_taken_over(bench: &Bench) {
    let store = &*bench.store;
    assert_eq!(take(store, "k", "body", (1, "12:00:00")).await, yours(1));
    // What follows from it has the same id, however often it is tried.
    assert_eq!(take(store, "k", "body", (2, "12:01:00")).await, yours(1));
    assert_eq!(
        take(store, "k", "body", (3, "12:01:01")).await,
        Taken::UnderWay
    );
    assert_eq!(
        take(store, "k", "other", (3, "12:59:00")).await,
        Taken::Mismatch
    );
    let key = taking("k", "body", (1, "12:00:00")).key;
    let id = EventId::new(1).unwrap();
    let end = RequestEnd::Unknown {
        now: at("12:01:02"),
    };
    store.settle_request(key, id, end).await.unwrap();
    assert_eq!(take(store, "k", "body", (4, "12:01:02")).await, yours(1));
}

pub(crate) async fn of_racing_requests_one_is_worked_on(bench: &Bench) {
    let mut racers = JoinSet::new();
    for number in 1..=32 {
        let store = Arc::clone(&bench.store);
        racers.spawn(async move { take(&*store, "k", "body", (number, "12:00:00")).await });
    }
    let taken = racers.join_all().await;
    let winners = taken.iter().filter(|it| matches!(it, Taken::Yours(_)));
    assert_eq!(winners.count(), 1, "{taken:?}");
    let others = taken.iter().filter(|it| **it == Taken::UnderWay);
    assert_eq!(others.count(), 31, "{taken:?}");
}

//! Requests that are reserved before they are processed.

use std::sync::Arc;

use noetl_types::limits::PageLimit;
use noetl_types::{EventId, Json, TenantId, Text, sha256};
use tokio::task::JoinSet;

use super::StoreFixture;
use super::fixture::test_time;
use crate::Store;
use crate::model::{GcTarget, RequestKey, RequestOutcome, RequestReservation, ReserveOutcome};

/// Returns a reservation of a key for one minute. `number` is the id of the work.
pub(crate) fn request_reservation(
    key: &str,
    body: &str,
    number: i64,
    now: &str,
) -> RequestReservation {
    let now = test_time(now);
    RequestReservation {
        key: RequestKey {
            tenant_id: TenantId::default(),
            route: Text::from("POST /api/signals"),
            key_sha256: sha256(key),
        },
        body_sha256: sha256(body),
        work_id: EventId::new(number).unwrap(),
        now,
        until: now.saturating_add(noetl_types::Millis::from_secs(60)),
        expires_at: test_time("13:00:00"),
    }
}

async fn reserve_request(
    store: &dyn Store,
    key: &str,
    body: &str,
    number: i64,
    now: &str,
) -> ReserveOutcome {
    store.reserve_request(request_reservation(key, body, number, now)).await.unwrap()
}

fn reserved_as(number: i64) -> ReserveOutcome {
    ReserveOutcome::Reserved(EventId::new(number).unwrap())
}

fn answered_outcome(text: &str) -> RequestOutcome {
    RequestOutcome::Answered { status: 200, answer: Text::from(text) }
}

pub(crate) async fn reserved_request_runs_once_and_replays_answer(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let key = request_reservation("k", "body", 1, "12:00:00").key;
    let reserve = |body, number, now| reserve_request(store, "k", body, number, now);
    let complete = |number, outcome| {
        let id = EventId::new(number).unwrap();
        store.complete_request(key.clone(), id, outcome)
    };
    assert_eq!(reserve("body", 1, "12:00:00").await, reserved_as(1));
    let later = "12:00:59";
    assert_eq!(reserve("body", 2, later).await, ReserveOutcome::InProgress);
    assert_eq!(reserve("other", 2, later).await, ReserveOutcome::Mismatch);
    // A request in progress has no answer yet.
    let answered = || {
        store.find_answered_request(
            &key.tenant_id,
            &key.route,
            key.key_sha256,
            test_time("12:10:00"),
        )
    };
    assert_eq!(answered().await.unwrap(), None);
    // Only the holder of the reservation can complete it.
    complete(2, answered_outcome("wrong")).await.unwrap();
    assert_eq!(reserve("body", 2, later).await, ReserveOutcome::InProgress);
    complete(1, answered_outcome("{\"a\":1}")).await.unwrap();
    complete(1, answered_outcome("late")).await.unwrap();
    complete(1, RequestOutcome::Refused).await.unwrap();
    for now in ["12:00:59", "12:59:59"] {
        let ReserveOutcome::Answered(request) = reserve("body", 3, now).await else {
            panic!("not answered");
        };
        assert_eq!((request.status, &request.answer), (200, &Json::from("{\"a\":1}")));
        assert_eq!(reserve("other", 3, now).await, ReserveOutcome::Mismatch);
    }
    assert!(answered().await.unwrap().is_some());
    // The key has expired, so it can be used for another request.
    assert_eq!(reserve("other", 4, "13:00:00").await, reserved_as(4));
    // A refused request leaves no reservation.
    complete(4, RequestOutcome::Refused).await.unwrap();
    assert_eq!(reserve("third", 5, "12:00:00").await, reserved_as(5));
    // Other keys, routes and tenants are independent.
    assert_eq!(reserve_request(store, "l", "other", 6, "12:00:00").await, reserved_as(6));
    let mut other_route = request_reservation("k", "other", 7, "12:00:00");
    other_route.key.route = Text::from("POST /api/executions");
    assert_eq!(store.reserve_request(other_route).await.unwrap(), reserved_as(7));
    let mut other_tenant = request_reservation("k", "other", 8, "12:00:00");
    other_tenant.key.tenant_id = TenantId::new("else").unwrap();
    assert_eq!(store.reserve_request(other_tenant).await.unwrap(), reserved_as(8));
    let deleted =
        store.delete_expired(GcTarget::Idempotency, test_time("13:00:00"), PageLimit::MAX);
    assert_eq!(deleted.await.unwrap(), 4);
}

pub(crate) async fn abandoned_request_is_taken_over(fixture: &StoreFixture) {
    let store = &*fixture.store;
    assert_eq!(reserve_request(store, "k", "body", 1, "12:00:00").await, reserved_as(1));
    // Repeated attempts keep the id of the work.
    assert_eq!(reserve_request(store, "k", "body", 2, "12:01:00").await, reserved_as(1));
    assert_eq!(
        reserve_request(store, "k", "body", 3, "12:01:01").await,
        ReserveOutcome::InProgress
    );
    assert_eq!(reserve_request(store, "k", "other", 3, "12:59:00").await, ReserveOutcome::Mismatch);
    let key = request_reservation("k", "body", 1, "12:00:00").key;
    let id = EventId::new(1).unwrap();
    let outcome = RequestOutcome::Unknown { retry_at: test_time("12:01:02") };
    store.complete_request(key, id, outcome).await.unwrap();
    assert_eq!(reserve_request(store, "k", "body", 4, "12:01:02").await, reserved_as(1));
    // A clock ahead of this one made the reservation.
    assert_eq!(reserve_request(store, "ahead", "body", 5, "13:00:00").await, reserved_as(5));
    assert_eq!(reserve_request(store, "ahead", "body", 6, "12:00:00").await, reserved_as(5));
    // The only server starts again.
    assert_eq!(store.release_requests(test_time("12:01:03")).await, Ok(2));
    assert_eq!(reserve_request(store, "k", "body", 7, "12:01:03").await, reserved_as(1));
}

pub(crate) async fn one_of_racing_requests_is_reserved(fixture: &StoreFixture) {
    let mut tasks = JoinSet::new();
    for number in 1..=32 {
        let store = Arc::clone(&fixture.store);
        tasks.spawn(async move { reserve_request(&*store, "k", "body", number, "12:00:00").await });
    }
    let outcomes = tasks.join_all().await;
    let winners = outcomes.iter().filter(|it| matches!(it, ReserveOutcome::Reserved(_)));
    assert_eq!(winners.count(), 1, "{outcomes:?}");
    let others = outcomes.iter().filter(|it| **it == ReserveOutcome::InProgress);
    assert_eq!(others.count(), 31, "{outcomes:?}");
}

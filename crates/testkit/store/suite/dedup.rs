//! Dedup keys start one execution, and idempotency keys have one effect.

use std::sync::Arc;

use noetl_types::{Json, TenantId, Text, sha256};
use tokio::task::JoinSet;

use super::StoreFixture;
use super::fixture::{TestExecution, append_one, test_time};
use crate::{
    AnsweredRequest, AppendError, AppendReceipt, AppendRequest, DedupReservation,
    IdempotencyRecord, InvalidAppend, Store,
};

pub(crate) fn dedup_reservation(key: &str, body: &str, seen: &str) -> DedupReservation {
    let seen_at = test_time(seen);
    DedupReservation {
        scope: -7,
        key: Text::from(key),
        payload_sha256: sha256(body),
        seen_at,
        expires_at: seen_at.saturating_add(noetl_types::Millis::from_secs(300)),
    }
}

pub(crate) fn idempotency_record(key: &str, body: &str, expires: &str) -> IdempotencyRecord {
    IdempotencyRecord {
        route: Text::from("POST /api/execute"),
        key_sha256: sha256(key),
        body_sha256: sha256(body),
        status: 200,
        answer: Json::from(body),
        expires_at: test_time(expires),
    }
}

fn start_with_dedup(number: i64, reservation: DedupReservation) -> AppendRequest {
    AppendRequest { dedup: Some(reservation), ..TestExecution::new(number).start_request() }
}

async fn execution_exists(store: &dyn Store, number: i64) -> bool {
    let execution = store.find_execution(TestExecution::new(number).id).await.unwrap();
    execution.is_some()
}

fn duplicate_error(number: i64) -> Result<AppendReceipt, AppendError> {
    let execution_id = TestExecution::new(number).id;
    Err(AppendError::Duplicate { execution_id })
}

pub(crate) async fn dedup_key_starts_one_execution(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let first = start_with_dedup(1, dedup_reservation("m", "body", "12:00:00"));
    append_one(store, first.clone()).await.unwrap();
    // The same start again, as after a lost answer.
    assert_eq!(append_one(store, first).await, Err(AppendError::AlreadyExists));
    let repeated = start_with_dedup(2, dedup_reservation("m", "body", "12:01:00"));
    assert_eq!(append_one(store, repeated).await, duplicate_error(1));
    let other = start_with_dedup(3, dedup_reservation("m", "other", "12:01:00"));
    let mismatch = AppendError::DedupMismatch { execution_id: TestExecution::new(1).id };
    assert_eq!(append_one(store, other).await, Err(mismatch));
    assert!(!execution_exists(store, 2).await && !execution_exists(store, 3).await);
    // Another key, and the same key in another scope.
    append_one(store, start_with_dedup(4, dedup_reservation("n", "body", "12:01:00")))
        .await
        .unwrap();
    let mut other_scope = dedup_reservation("m", "body", "12:01:00");
    other_scope.scope = 7;
    append_one(store, start_with_dedup(5, other_scope)).await.unwrap();

    // The same outcomes, queried before an append.
    for (key, body, seen, has_seen) in [
        ("m", "body", "12:01:00", true),
        ("m", "other", "12:01:00", true),
        ("m", "body", "12:05:00", false),
        ("o", "body", "12:01:00", false),
    ] {
        let seen = store.has_seen_message(dedup_reservation(key, body, seen)).await.unwrap();
        assert_eq!(seen, has_seen, "{key} {body}");
    }

    let mut run = TestExecution::create_started(store, 6).await;
    let late = AppendRequest {
        dedup: Some(dedup_reservation("x", "body", "12:00:00")),
        ..run.step_request()
    };
    assert_eq!(append_one(store, late).await, Err(InvalidAppend::DedupWithoutStart.into()));
}

pub(crate) async fn dedup_window_ends_exactly(fixture: &StoreFixture) {
    let store = &*fixture.store;
    append_one(store, start_with_dedup(1, dedup_reservation("m", "body", "12:00:00")))
        .await
        .unwrap();
    let inside = start_with_dedup(2, dedup_reservation("m", "body", "12:04:59.999999"));
    assert_eq!(append_one(store, inside).await, duplicate_error(1));
    // Later messages do not move the end of the window.
    append_one(store, start_with_dedup(3, dedup_reservation("m", "other", "12:05:00")))
        .await
        .unwrap();
    // The window of the message that started the execution applies.
    let mut short = dedup_reservation("m", "other", "12:09:00");
    short.expires_at = test_time("12:09:01");
    assert_eq!(append_one(store, start_with_dedup(4, short)).await, duplicate_error(3));
    let inside = start_with_dedup(5, dedup_reservation("m", "other", "12:09:59.999999"));
    assert_eq!(append_one(store, inside).await, duplicate_error(3));
}

pub(crate) async fn dedup_keys_of_any_length_work(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let long = "ü".repeat(10_000);
    let longer = format!("{long}!");
    for (number, key) in (1..).zip([long.as_str(), &longer, "", "日本"]) {
        let first = start_with_dedup(number, dedup_reservation(key, "body", "12:00:00"));
        append_one(store, first).await.unwrap();
        let repeated = start_with_dedup(number + 10, dedup_reservation(key, "body", "12:00:00"));
        assert_eq!(append_one(store, repeated).await, duplicate_error(number));
    }
}

/// Half of them arrive when the window of an older message has just ended.
pub(crate) async fn racing_messages_start_one_execution(fixture: &StoreFixture) {
    for (round, key) in (0..).zip(["fresh", "over"]) {
        let first = 1 + round * 100;
        if key == "over" {
            let old = start_with_dedup(first, dedup_reservation(key, "old", "11:55:00"));
            append_one(&*fixture.store, old).await.unwrap();
        }
        let mut tasks = JoinSet::new();
        for offset in 1..=32 {
            let store = Arc::clone(&fixture.store);
            tasks.spawn(async move {
                let number = first + offset;
                let reservation = dedup_reservation(key, "body", "12:00:00");
                (
                    TestExecution::new(number).id,
                    append_one(&*store, start_with_dedup(number, reservation)).await,
                )
            });
        }
        let results = tasks.join_all().await;
        let winners = results.iter().filter(|(_, result)| result.is_ok());
        let winners: Vec<_> = winners.map(|(id, _)| *id).collect();
        assert_eq!(winners.len(), 1, "{results:?}");
        for (id, result) in &results {
            if *id != winners[0] {
                let execution_id = winners[0];
                let expected = Err(AppendError::Duplicate { execution_id });
                assert_eq!(*result, expected);
                assert_eq!(fixture.store.find_execution(*id).await.unwrap(), None);
            }
        }
        let winner = fixture.store.find_execution(winners[0]).await.unwrap();
        assert!(winner.is_some(), "the execution named in all answers exists");
    }
}

/// Appends of one call are independent, so any of them may be the first to reserve a key.
pub(crate) async fn messages_of_one_call_are_deduplicated(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let bodies = ["body", "body", "other"];
    let mut appends: Vec<_> = (1..)
        .zip(bodies)
        .map(|(number, body)| start_with_dedup(number, dedup_reservation("m", body, "12:00:00")))
        .collect();
    appends.push(start_with_dedup(4, dedup_reservation("n", "body", "12:00:00")));
    appends.push(TestExecution::new(5).start_request());
    let mut results = store.append_events(appends).await;
    assert!(results[3].is_ok() && results[4].is_ok(), "{results:?}");
    results.truncate(3);
    let first = results.iter().position(Result::is_ok).unwrap();
    let execution_id = TestExecution::new(1 + i64::try_from(first).unwrap()).id;
    for (index, result) in results.into_iter().enumerate() {
        let expected = if bodies[index] == bodies[first] {
            AppendError::Duplicate { execution_id }
        } else {
            AppendError::DedupMismatch { execution_id }
        };
        assert!(index == first || result == Err(expected), "{index}");
    }
    // A message whose append is refused does not reserve its key.
    let results = store
        .append_events(vec![
            start_with_dedup(5, dedup_reservation("o", "body", "12:00:00")),
            start_with_dedup(6, dedup_reservation("o", "body", "12:00:00")),
        ])
        .await;
    assert_eq!(results[0], Err(AppendError::AlreadyExists));
    assert!(results[1].is_ok(), "{results:?}");
}

pub(crate) async fn idempotent_request_has_one_effect(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let tenant = TenantId::default();
    let send = |number: i64, record: IdempotencyRecord, now: &str| {
        let mut append = TestExecution::new(number).start_request();
        append.now = test_time(now);
        append.idempotency = Some(record);
        append_one(store, append)
    };
    let record = idempotency_record("k", "body", "13:00:00");
    send(1, record.clone(), "12:00:00").await.unwrap();
    let answered = AnsweredRequest {
        body_sha256: sha256("body"),
        status: 200,
        answer: Json::from("body"),
        execution_id: TestExecution::new(1).id,
        expires_at: test_time("13:00:00"),
    };
    let replay = Err(AppendError::AlreadyAnswered(Box::new(answered.clone())));
    assert_eq!(send(2, record.clone(), "12:30:00").await, replay);
    let other = idempotency_record("k", "other", "13:00:00");
    assert_eq!(send(3, other, "12:30:00").await, Err(AppendError::IdempotencyMismatch));
    let read = |now: &'static str| {
        let (tenant, record) = (tenant.clone(), record.clone());
        async move {
            let answered = store.find_answered_request(
                &tenant,
                &record.route,
                record.key_sha256,
                test_time(now),
            );
            answered.await.unwrap()
        }
    };
    assert_eq!(read("12:59:59.999999").await, Some(answered));
    assert_eq!(read("13:00:00").await, None);
    // Another route, and the same key after its expiry.
    let mut other_route = record.clone();
    other_route.route = Text::from("POST /api/signals");
    send(4, other_route, "12:30:00").await.unwrap();
    send(5, idempotency_record("k", "other", "14:00:00"), "13:00:00").await.unwrap();

    // The effect of a request may be any append, not only a start.
    let mut run = TestExecution::create_started(store, 6).await;
    let cancel = idempotency_record("c", "cancel", "13:00:00");
    let mut append = run.step_request();
    append.idempotency = Some(cancel.clone());
    run.append_to(store, append).await.unwrap();
    let mut append = run.step_request();
    append.idempotency = Some(cancel);
    let result = append_one(store, append).await;
    assert!(matches!(result, Err(AppendError::AlreadyAnswered(_))));
}

pub(crate) async fn racing_idempotent_requests_have_one_effect(fixture: &StoreFixture) {
    let mut tasks = JoinSet::new();
    for number in 1..=32 {
        let store = Arc::clone(&fixture.store);
        tasks.spawn(async move {
            let mut append = TestExecution::new(number).start_request();
            append.idempotency = Some(idempotency_record("k", "body", "13:00:00"));
            (number, append_one(&*store, append).await)
        });
    }
    let results = tasks.join_all().await;
    let winners = results.iter().filter(|(_, result)| result.is_ok());
    let winners: Vec<_> = winners.map(|(number, _)| *number).collect();
    assert_eq!(winners.len(), 1, "{results:?}");
    for (number, result) in results {
        match result {
            Ok(_) => assert!(execution_exists(&*fixture.store, number).await),
            Err(AppendError::AlreadyAnswered(answered)) => {
                assert_eq!(answered.execution_id, TestExecution::new(winners[0]).id);
                assert!(!execution_exists(&*fixture.store, number).await);
            }
            Err(other) => panic!("{other:?}"),
        }
    }
}

/// A request may carry a message. If one of the two keys is refused, the other one is not reserved.
pub(crate) async fn refused_append_reserves_no_key(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let send = |number: i64, message_key: &str, request_key: &str| {
        let mut append =
            start_with_dedup(number, dedup_reservation(message_key, "body", "12:00:00"));
        append.idempotency = Some(idempotency_record(request_key, "body", "13:00:00"));
        append_one(store, append)
    };
    send(1, "m", "k").await.unwrap();
    assert_eq!(send(2, "m", "fresh").await, duplicate_error(1));
    let replayed = send(3, "fresh", "k").await;
    assert!(matches!(replayed, Err(AppendError::AlreadyAnswered(_))));
    // A repeated request gets its original answer, not the information that its message is a
    // duplicate.
    let replayed = send(4, "m", "k").await;
    assert!(matches!(replayed, Err(AppendError::AlreadyAnswered(_))));
    send(5, "fresh", "fresh").await.unwrap();
    for (number, expected) in [(1, true), (2, false), (3, false), (4, false), (5, true)] {
        assert_eq!(execution_exists(store, number).await, expected, "{number}");
    }

    let mut tasks = JoinSet::new();
    for task in 0..16 {
        let store = Arc::clone(&fixture.store);
        tasks.spawn(async move {
            // The same messages in other requests, and the same requests with other messages.
            let (message_key, request_key) = (task % 4, task / 4);
            let reservation = dedup_reservation(&format!("race {message_key}"), "body", "12:00:00");
            let mut append = start_with_dedup(100 + task, reservation);
            let key = format!("race {request_key}");
            append.idempotency = Some(idempotency_record(&key, "body", "13:00:00"));
            (message_key, request_key, append_one(&*store, append).await)
        });
    }
    let results = tasks.join_all().await;
    let winners = results.iter().filter(|(_, _, result)| result.is_ok());
    let winners: Vec<_> = winners.map(|it| (it.0, it.1)).collect();
    for (message_key, request_key, result) in &results {
        if result.is_err() {
            // A refused append shares a key with an accepted one.
            let shares_key = |it: &&(i64, i64)| it.0 == *message_key || it.1 == *request_key;
            assert!(winners.iter().any(|it| shares_key(&it)), "{results:?}");
        }
    }
    let messages: std::collections::BTreeSet<_> = winners.iter().map(|it| it.0).collect();
    assert_eq!(messages.len(), winners.len(), "{winners:?}");
}

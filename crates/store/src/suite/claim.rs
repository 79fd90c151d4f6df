//! Messages that start one execution, and requests that have one effect.

use std::sync::Arc;

use noetl_types::{Json, TenantId, Text, sha256};
use tokio::task::JoinSet;

use super::Bench;
use super::fixture::{Run, at, one};
use crate::{
    Answered, Append, AppendRefused, Appended, DedupClaim, IdempotencyClaim, InvalidAppend, Store,
};

pub(crate) fn message(key: &str, body: &str, seen: &str) -> DedupClaim {
    let seen_at = at(seen);
    DedupClaim {
        scope: -7,
        key: Text::from(key),
        payload_sha256: sha256(body),
        seen_at,
        expires_at: seen_at.saturating_add(noetl_types::Millis::from_secs(300)),
    }
}

pub(crate) fn request(key: &str, body: &str, expires: &str) -> IdempotencyClaim {
    IdempotencyClaim {
        route: Text::from("POST /api/execute"),
        key_sha256: sha256(key),
        body_sha256: sha256(body),
        status: 200,
        answer: Json::from(body),
        expires_at: at(expires),
    }
}

fn start(number: i64, claim: DedupClaim) -> Append {
    Append {
        dedup: Some(claim),
        ..Run::new(number).start()
    }
}

async fn exists(store: &dyn Store, number: i64) -> bool {
    let execution = store.execution(Run::new(number).id).await.unwrap();
    execution.is_some()
}

fn duplicate_of(number: i64) -> Result<Appended, AppendRefused> {
    let execution_id = Run::new(number).id;
    Err(AppendRefused::Duplicate { execution_id })
}

/// Hole D6.
pub(crate) async fn a_message_starts_one_execution(bench: &Bench) {
    let store = &*bench.store;
    let first = start(1, message("m", "body", "12:00:00"));
    one(store, first.clone()).await.unwrap();
    // The same start once more, as after an answer that was lost.
    assert_eq!(one(store, first).await, Err(AppendRefused::AlreadyExists));
    let again = start(2, message("m", "body", "12:01:00"));
    assert_eq!(one(store, again).await, duplicate_of(1));
    let other = start(3, message("m", "other", "12:01:00"));
    let mismatch = AppendRefused::DedupMismatch {
        execution_id: Run::new(1).id,
    };
    assert_eq!(one(store, other).await, Err(mismatch));
    assert!(!exists(store, 2).await && !exists(store, 3).await);
    // Another key, and the same key elsewhere.
    one(store, start(4, message("n", "body", "12:01:00")))
        .await
        .unwrap();
    let mut elsewhere = message("m", "body", "12:01:00");
    elsewhere.scope = 7;
    one(store, start(5, elsewhere)).await.unwrap();

    // The same, asked before anything is written.
    for (key, body, seen, has_seen) in [
        ("m", "body", "12:01:00", true),
        ("m", "other", "12:01:00", true),
        ("m", "body", "12:05:00", false),
        ("o", "body", "12:01:00", false),
    ] {
        let seen = store.has_seen(message(key, body, seen)).await.unwrap();
        assert_eq!(seen, has_seen, "{key} {body}");
    }

    let mut run = Run::started(store, 6).await;
    let late = Append {
        dedup: Some(message("x", "body", "12:00:00")),
        ..run.step()
    };
    assert_eq!(
        one(store, late).await,
        Err(InvalidAppend::DedupWithoutStart.into())
    );
}

/// Hole D3.
pub(crate) async fn windows_end_exactly(bench: &Bench) {
    let store = &*bench.store;
    one(store, start(1, message("m", "body", "12:00:00")))
        .await
        .unwrap();
    let inside = start(2, message("m", "body", "12:04:59.999999"));
    assert_eq!(one(store, inside).await, duplicate_of(1));
    // What came in between does not move the end.
    one(store, start(3, message("m", "other", "12:05:00")))
        .await
        .unwrap();
    // The window that counts is that of the message which started something.
    let mut short = message("m", "other", "12:09:00");
    short.expires_at = at("12:09:01");
    assert_eq!(one(store, start(4, short)).await, duplicate_of(3));
    let inside = start(5, message("m", "other", "12:09:59.999999"));
    assert_eq!(one(store, inside).await, duplicate_of(3));
}

/// Hole D5.
pub(crate) async fn keys_of_any_length(bench: &Bench) {
    let store = &*bench.store;
    let long = "ü".repeat(10_000);
    let longer = format!("{long}!");
    for (number, key) in (1..).zip([long.as_str(), &longer, "", "日本"]) {
        let first = start(number, message(key, "body", "12:00:00"));
        one(store, first).await.unwrap();
        let again = start(number + 10, message(key, "body", "12:00:00"));
        assert_eq!(one(store, again).await, duplicate_of(number));
    }
}

/// Half of them come once the window of an older message has just ended.
/// Holes D1, D2.
pub(crate) async fn thirty_two_racing_messages_start_one_execution(bench: &Bench) {
    for (round, key) in (0..).zip(["fresh", "over"]) {
        let first = 1 + round * 100;
        if key == "over" {
            let old = start(first, message(key, "old", "11:55:00"));
            one(&*bench.store, old).await.unwrap();
        }
        let mut racers = JoinSet::new();
        for racer in 1..=32 {
            let store = Arc::clone(&bench.store);
            racers.spawn(async move {
                let number = first + racer;
                let claim = message(key, "body", "12:00:00");
                (
                    Run::new(number).id,
                    one(&*store, start(number, claim)).await,
                )
            });
        }
        let results = racers.join_all().await;
        let winners = results.iter().filter(|(_, result)| result.is_ok());
        let winners: Vec<_> = winners.map(|(id, _)| *id).collect();
        assert_eq!(winners.len(), 1, "{results:?}");
        for (id, result) in &results {
            if *id != winners[0] {
                let execution_id = winners[0];
                let expected = Err(AppendRefused::Duplicate { execution_id });
                assert_eq!(*result, expected);
                assert_eq!(bench.store.execution(*id).await.unwrap(), None);
            }
        }
        let winner = bench.store.execution(winners[0]).await.unwrap();
        assert!(winner.is_some(), "the one that all are told of exists");
    }
}

/// Appends of one call are independent, so any of them may be the first under a key.
pub(crate) async fn messages_of_one_call(bench: &Bench) {
    let store = &*bench.store;
    let bodies = ["body", "body", "other"];
    let mut appends: Vec<_> = (1..)
        .zip(bodies)
        .map(|(number, body)| start(number, message("m", body, "12:00:00")))
        .collect();
    appends.push(start(4, message("n", "body", "12:00:00")));
    appends.push(Run::new(5).start());
    let mut results = store.append(appends).await;
    assert!(results[3].is_ok() && results[4].is_ok(), "{results:?}");
    results.truncate(3);
    let first = results.iter().position(Result::is_ok).unwrap();
    let execution_id = Run::new(1 + i64::try_from(first).unwrap()).id;
    for (place, result) in results.into_iter().enumerate() {
        let expected = if bodies[place] == bodies[first] {
            AppendRefused::Duplicate { execution_id }
        } else {
            AppendRefused::DedupMismatch { execution_id }
        };
        assert!(place == first || result == Err(expected), "{place}");
    }
    // A message whose own append is refused stands in nobody's way.
    let results = store
        .append(vec![
            start(5, message("o", "body", "12:00:00")),
            start(6, message("o", "body", "12:00:00")),
        ])
        .await;
    assert_eq!(results[0], Err(AppendRefused::AlreadyExists));
    assert!(results[1].is_ok(), "{results:?}");
}

/// Hole I8.
pub(crate) async fn a_request_has_its_effect_once(bench: &Bench) {
    let store = &*bench.store;
    let tenant = TenantId::default();
    let send = |number: i64, claim: IdempotencyClaim, now: &str| {
        let mut append = Run::new(number).start();
        append.now = at(now);
        append.idempotency = Some(claim);
        one(store, append)
    };
    let claim = request("k", "body", "13:00:00");
    send(1, claim.clone(), "12:00:00").await.unwrap();
    let answered = Answered {
        body_sha256: sha256("body"),
        status: 200,
        answer: Json::from("body"),
        execution_id: Run::new(1).id,
        expires_at: at("13:00:00"),
    };
    let replay = Err(AppendRefused::Replay(Box::new(answered.clone())));
    assert_eq!(send(2, claim.clone(), "12:30:00").await, replay);
    let other = request("k", "other", "13:00:00");
    assert_eq!(
        send(3, other, "12:30:00").await,
        Err(AppendRefused::IdempotencyMismatch)
    );
    let read = |now: &'static str| {
        let (tenant, claim) = (tenant.clone(), claim.clone());
        async move {
            let answered = store.answered(&tenant, &claim.route, claim.key_sha256, at(now));
            answered.await.unwrap()
        }
    };
    assert_eq!(read("12:59:59.999999").await, Some(answered));
    assert_eq!(read("13:00:00").await, None);
    // Another route, and the same key when its time is over.
    let mut elsewhere = claim.clone();
    elsewhere.route = Text::from("POST /api/signals");
    send(4, elsewhere, "12:30:00").await.unwrap();
    send(5, request("k", "other", "14:00:00"), "13:00:00")
        .await
        .unwrap();

    // It need not be a start that a request has for its effect.
    let mut run = Run::started(store, 6).await;
    let cancel = request("c", "cancel", "13:00:00");
    let mut append = run.step();
    append.idempotency = Some(cancel.clone());
    run.write(store, append).await.unwrap();
    let mut append = run.step();
    append.idempotency = Some(cancel);
    let refused = one(store, append).await;
    assert!(matches!(refused, Err(AppendRefused::Replay(_))));
}

/// Hole I8.
pub(crate) async fn racing_requests_have_one_effect(bench: &Bench) {
    let mut racers = JoinSet::new();
    for number in 1..=32 {
        let store = Arc::clone(&bench.store);
        racers.spawn(async move {
            let mut append = Run::new(number).start();
            append.idempotency = Some(request("k", "body", "13:00:00"));
            (number, one(&*store, append).await)
        });
    }
    let results = racers.join_all().await;
    let winners = results.iter().filter(|(_, result)| result.is_ok());
    let winners: Vec<_> = winners.map(|(number, _)| *number).collect();
    assert_eq!(winners.len(), 1, "{results:?}");
    for (number, result) in results {
        match result {
            Ok(_) => assert!(exists(&*bench.store, number).await),
            Err(AppendRefused::Replay(answered)) => {
                assert_eq!(answered.execution_id, Run::new(winners[0]).id);
                assert!(!exists(&*bench.store, number).await);
            }
            Err(other) => panic!("{other:?}"),
        }
    }
}

/// A request may carry a message. Whichever of the two is refused, the other is not remembered.
pub(crate) async fn a_refused_claim_leaves_no_other(bench: &Bench) {
    let store = &*bench.store;
    let send = |number: i64, message_key: &str, request_key: &str| {
        let mut append = start(number, message(message_key, "body", "12:00:00"));
        append.idempotency = Some(request(request_key, "body", "13:00:00"));
        one(store, append)
    };
    send(1, "m", "k").await.unwrap();
    assert_eq!(send(2, "m", "fresh").await, duplicate_of(1));
    let replayed = send(3, "fresh", "k").await;
    assert!(matches!(replayed, Err(AppendRefused::Replay(_))));
    // A repeated request hears what it was told, not that its message is a duplicate.
    let replayed = send(4, "m", "k").await;
    assert!(matches!(replayed, Err(AppendRefused::Replay(_))));
    send(5, "fresh", "fresh").await.unwrap();
    for (number, is_there) in [(1, true), (2, false), (3, false), (4, false), (5, true)] {
        assert_eq!(exists(store, number).await, is_there, "{number}");
    }

    let mut racers = JoinSet::new();
    for racer in 0..16 {
        let store = Arc::clone(&bench.store);
        racers.spawn(async move {
            // The same messages in other requests, and the same requests with other messages.
            let (message_key, request_key) = (racer % 4, racer / 4);
            let claim = message(&format!("race {message_key}"), "body", "12:00:00");
            let mut append = start(100 + racer, claim);
            let key = format!("race {request_key}");
            append.idempotency = Some(request(&key, "body", "13:00:00"));
            (message_key, request_key, one(&*store, append).await)
        });
    }
    let results = racers.join_all().await;
    let winners = results.iter().filter(|(_, _, result)| result.is_ok());
    let winners: Vec<_> = winners.map(|it| (it.0, it.1)).collect();
    for (message_key, request_key, result) in &results {
        if result.is_err() {
            // Whoever is refused shares a key with one that was not.
            let shares = |it: &&(i64, i64)| it.0 == *message_key || it.1 == *request_key;
            assert!(winners.iter().any(|it| shares(&it)), "{results:?}");
        }
    }
    let messages: std::collections::BTreeSet<_> = winners.iter().map(|it| it.0).collect();
    assert_eq!(messages.len(), winners.len(), "{winners:?}");
}

//! Retention: only what may go goes, and what comes late is told so.

use axum::http::Method;
use noetl_store::{StreamBegin, StreamOwner, StreamTake, StreamTaken};
use noetl_types::{ErrorCode, Millis, Scope};
use serde_json::{Value, json};

use super::House;
use super::backends::{Shelter, on_every_store};
use super::internal::{http, id_at};
use super::tokens::token_of;

/// The log of a run of March 2025 that has ended, or not.
async fn copy(house: &House, number: i64, is_ended: bool) -> i64 {
    let execution_id = id_at("2025-03-10T00:00:00Z") + number * 100;
    let last = if is_ended {
        "playbook.completed"
    } else {
        "step.enter"
    };
    let events = json!({ "events": [
        { "execution_id": execution_id, "event_id": execution_id + 1, "event_type": "step.enter" },
        { "execution_id": execution_id, "event_id": execution_id + 2, "event_type": last },
    ] });
    let answer = house.told("events/project", events).await;
    assert_eq!(answer["projected"], 2, "{answer}");
    execution_id
}

/// Marks all that waits in the outbox.
async fn publish_all(house: &House) {
    let claimed = house.told("outbox/claim", json!({ "limit": 1000 })).await;
    let rows = claimed["rows"].as_array().unwrap();
    let ids: Vec<_> = rows.iter().map(|row| row["outbox_id"].clone()).collect();
    let marked = house.told("outbox/mark-published", json!({ "outbox_ids": ids }));
    assert_eq!(marked.await["marked"], ids.len());
}

async fn purge(house: &House, days: i64, dry_run: bool) -> Value {
    let body = json!({ "event_retention_days": days, "dry_run": dry_run });
    house.told("cleanup/purge", body).await
}

async fn open(shelter: &Shelter) -> House {
    shelter
        .house(http(), |settings| settings.outbox = true)
        .await
}

#[tokio::test]
async fn windows_are_checked_and_defaults_touch_no_events() {
    on_every_store(async |shelter| {
        let house = open(shelter).await;
        let execution_id = copy(&house, 0, true).await;
        publish_all(&house).await;
        let nothing = json!({ "commands_purged": 0, "runtime_purged": 0, "events_purged": 0,
            "outbox_purged": 0, "dry_run": false });
        for body in ["", "{}", r#"{ "event_retention_days": -5, "odd": 1 }"#] {
            let purged = house.ask(Method::POST, "cleanup/purge", body).await;
            assert_eq!((purged.status, purged.json()), (200, nothing.clone()));
        }
        for wrong in [
            json!({ "event_retention_days": 36_501 }),
            json!({ "command_retention_days": 4_294_967_295_i64 }),
            json!({ "runtime_stale_minutes": 4_294_967_295_i64 }),
            json!({ "event_retention_days": i64::MAX }),
        ] {
            let refused = house.refuses("cleanup/purge", wrong).await;
            refused.is_problem(ErrorCode::OutOfRange);
        }
        let run = house.get(&format!("/api/executions/{execution_id}")).await;
        assert_eq!(run.status, 200);
    })
    .await;
}

#[tokio::test]
async fn what_runs_or_waits_to_be_published_stays_and_the_rest_goes() {
    on_every_store(async |shelter| {
        let house = open(shelter).await;
        let ended = copy(&house, 0, true).await;
        let live = copy(&house, 1, false).await;
        publish_all(&house).await;
        let kept = purge(&house, 30, false).await;
        assert_eq!(kept["events_purged"], 0, "{kept}");
        assert_eq!(kept["skipped"][0]["partition"], "event_y2025m03", "{kept}");
        let end = json!({ "events": [{ "execution_id": live, "event_id": live + 3,
            "event_type": "playbook.cancelled" }] });
        house.told("events/project", end).await;
        let kept = purge(&house, 30, false).await;
        assert_eq!(kept["events_purged"], 0, "an unpublished event: {kept}");
        publish_all(&house).await;
        let plan = purge(&house, 30, true).await;
        assert_eq!(plan["event_partitions_dropped"], json!(["event_y2025m03"]));
        assert_eq!(
            house.get(&format!("/api/executions/{ended}")).await.status,
            200
        );
        let gone = purge(&house, 30, false).await;
        assert_eq!(
            gone["event_partitions_dropped"],
            json!(["event_y2025m03"]),
            "{gone}"
        );
        assert_eq!(gone["events_purged"], 1);
        for execution_id in [ended, live] {
            late(&house, execution_id).await;
        }
        // Other months go on as before, and there is nothing more to drop.
        house.finished().await;
        assert_eq!(purge(&house, 30, false).await["events_purged"], 0);
    })
    .await;
}

/// Another server publishes the stream that this one is not set to, or did so until lately.
#[tokio::test]
async fn what_another_server_has_not_streamed_yet_stays() {
    on_every_store(async |shelter| {
        let house = open(shelter).await;
        let now = house.runtime.now();
        let take = StreamTake {
            name: "event_stream_tailer".into(),
            owner: "another server".into(),
            now,
            lease_until: now,
            begin: StreamBegin::Now,
        };
        let taken = shelter.store.take_stream(take).await.unwrap();
        let StreamTaken::Taken(cursor) = taken else {
            panic!("{taken:?}");
        };
        copy(&house, 0, true).await;
        publish_all(&house).await;
        let kept = purge(&house, 30, false).await;
        assert_eq!(kept["events_purged"], 0, "{kept}");
        let why = kept["skipped"][0]["reason"].as_str().unwrap();
        assert!(why.contains("event_stream_tailer"), "{kept}");
        // Nobody has published it for so long that nobody will.
        let gave_up = StreamOwner {
            name: cursor.name,
            epoch: cursor.epoch,
            now: now.saturating_sub(Millis::from_days(30)),
        };
        assert!(shelter.store.release_stream(gave_up).await.unwrap());
        assert_eq!(purge(&house, 30, false).await["events_purged"], 1);
    })
    .await;
}

/// Another server writes rows to the outbox that this one is not set to, or did so until lately.
#[tokio::test]
async fn what_another_server_has_in_the_outbox_stays() {
    on_every_store(async |shelter| {
        let writing = open(shelter).await;
        copy(&writing, 0, true).await;
        let other = shelter.house(http(), |_| {}).await;
        let kept = purge(&other, 30, false).await;
        assert_eq!(kept["events_purged"], 0, "{kept}");
        let why = kept["skipped"][0]["reason"].as_str().unwrap();
        assert!(why.contains("outbox"), "{kept}");
        publish_all(&writing).await;
        assert_eq!(purge(&other, 30, false).await["events_purged"], 1);
    })
    .await;
}

/// Who drops what, by which token and from where, is asked about later.
#[tokio::test]
async fn a_purge_is_in_the_trail() {
    let house = open(&Shelter::memory()).await;
    purge(&house, 30, true).await;
    let admin = token_of(&house.runtime, "default", &[Scope::Admin]).await;
    let trail = house.call(&admin, Method::GET, "/api/audit", json!({}));
    let newest = trail.await.at("/entries/0");
    assert_eq!(
        newest["act"], "POST /api/internal/cleanup/purge",
        "{newest}"
    );
    assert_eq!(newest["actor"], "platform");
    assert_eq!(newest["outcome"], "ok");
}

/// What comes for a run that was dropped.
async fn late(house: &House, execution_id: i64) {
    house
        .get(&format!("/api/executions/{execution_id}"))
        .await
        .is_problem(ErrorCode::RetentionDropped);
    let events = json!({ "events": [{ "execution_id": execution_id, "event_id": execution_id + 9,
        "event_type": "step.exit" }] });
    let answer = house.told("events/project", events).await;
    assert_eq!(
        answer["rejected"][0]["code"], "retention_dropped",
        "{answer}"
    );
    let event = json!({ "execution_id": execution_id, "step": "x", "event_type": "call.done",
        "worker_id": "w1" });
    house
        .post("/api/events", event)
        .await
        .is_problem(ErrorCode::RetentionDropped);
}

#[tokio::test]
async fn a_purge_goes_on_beside_runs() {
    on_every_store(async |shelter| {
        let house = open(shelter).await;
        copy(&house, 0, true).await;
        publish_all(&house).await;
        let runs = async {
            let mut runs = Vec::new();
            for _ in 0..20 {
                runs.push(house.finished().await);
            }
            runs
        };
        let purges = async {
            let mut dropped = 0;
            for _ in 0..10 {
                dropped += purge(&house, 30, false).await["events_purged"]
                    .as_u64()
                    .unwrap();
            }
            dropped
        };
        let (runs, dropped) = tokio::join!(runs, purges);
        assert_eq!(dropped, 1);
        for run in runs {
            let run = house.get(&format!("/api/executions/{run}")).await;
            assert_eq!(run.text_at("/status"), "COMPLETED");
        }
    })
    .await;
}

/// A row that an operator has given up keeps nothing; one that is only dead does.
#[tokio::test]
async fn what_was_given_up_counts_as_published() {
    on_every_store(async |shelter| {
        let house = shelter
            .house(http(), |settings| {
                settings.outbox = true;
                settings.outbox_max_attempts = 1;
            })
            .await;
        copy(&house, 0, true).await;
        let claimed = house.told("outbox/claim", json!({})).await;
        let rows = claimed["rows"].as_array().unwrap();
        let ids: Vec<_> = rows.iter().map(|row| row["outbox_id"].clone()).collect();
        for id in &ids {
            let failed = json!({ "outbox_id": id, "error": "no route" });
            let failed = house.told("outbox/mark-failed", failed).await;
            assert_eq!(failed["marked"], true, "without attempts there is no fence");
        }
        let kept = purge(&house, 30, false).await;
        assert_eq!(kept["events_purged"], 0, "{kept}");
        let discarded = house.told("outbox/discard", json!({ "outbox_ids": ids }));
        assert_eq!(discarded.await["changed"], ids.len());
        let gone = purge(&house, 30, false).await;
        assert_eq!(gone["events_purged"], 1, "{gone}");
    })
    .await;
}

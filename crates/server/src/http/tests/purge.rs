//! Retention drops only finished and published months, and late events are answered accordingly.

use axum::http::Method;
use noetl_store::{StreamLeaseOutcome, StreamLeaseRequest, StreamOwner, StreamStart};
use noetl_types::{ErrorCode, Millis, Scope};
use serde_json::{Value, json};

use super::TestServer;
use super::backends::{StoreFixture, on_every_store};
use super::internal::{id_at_time, internal_settings};
use super::tokens::create_token;

/// Projects the log of a run of March 2025, ended or not.
async fn project_run(server: &TestServer, number: i64, is_ended: bool) -> i64 {
    let execution_id = id_at_time("2025-03-10T00:00:00Z") + number * 100;
    let last = if is_ended { "playbook.completed" } else { "step.enter" };
    let events = json!({ "events": [
        { "execution_id": execution_id, "event_id": execution_id + 1, "event_type": "step.enter" },
        { "execution_id": execution_id, "event_id": execution_id + 2, "event_type": last },
    ] });
    let answer = server.internal_post("events/project", events).await;
    assert_eq!(answer["projected"], 2, "{answer}");
    execution_id
}

/// Marks all rows of the outbox as published.
async fn publish_all(server: &TestServer) {
    let claimed = server.internal_post("outbox/claim", json!({ "limit": 1000 })).await;
    let rows = claimed["rows"].as_array().unwrap();
    let ids: Vec<_> = rows.iter().map(|row| row["outbox_id"].clone()).collect();
    let marked = server.internal_post("outbox/mark-published", json!({ "outbox_ids": ids }));
    assert_eq!(marked.await["marked"], ids.len());
}

async fn purge_events(server: &TestServer, days: i64, dry_run: bool) -> Value {
    let body = json!({ "event_retention_days": days, "dry_run": dry_run });
    server.internal_post("cleanup/purge", body).await
}

async fn start_outbox_server(fixture: &StoreFixture) -> TestServer {
    fixture
        .start_server(internal_settings(), |settings| {
            settings.outbox = crate::settings::OutboxSetting::Enabled;
        })
        .await
}

#[tokio::test]
async fn purge_validates_windows_and_keeps_events_by_default() {
    on_every_store(async |fixture| {
        let server = start_outbox_server(fixture).await;
        let execution_id = project_run(&server, 0, true).await;
        publish_all(&server).await;
        let nothing = json!({ "commands_purged": 0, "runtime_purged": 0, "events_purged": 0,
            "outbox_purged": 0, "dry_run": false });
        for body in ["", "{}", r#"{ "event_retention_days": -5, "odd": 1 }"#] {
            let purged = server.internal_request(Method::POST, "cleanup/purge", body).await;
            assert_eq!((purged.status, purged.json()), (200, nothing.clone()));
        }
        for wrong in [
            json!({ "event_retention_days": 36_501 }),
            json!({ "command_retention_days": 4_294_967_295_i64 }),
            json!({ "runtime_stale_minutes": 4_294_967_295_i64 }),
            json!({ "event_retention_days": i64::MAX }),
            json!({ "event_retention_days": u64::MAX }),
            json!({ "command_retention_days": 1e300 }),
            json!({ "runtime_stale_minutes": 1_u64 << 63 }),
        ] {
            let refused = server.internal_post_response("cleanup/purge", wrong).await;
            refused.assert_problem(ErrorCode::OutOfRange);
        }
        let run = server.get(&format!("/api/executions/{execution_id}")).await;
        assert_eq!(run.status, 200);
    })
    .await;
}

#[tokio::test]
async fn purge_keeps_open_and_unpublished_months() {
    on_every_store(async |fixture| {
        let server = start_outbox_server(fixture).await;
        let ended = project_run(&server, 0, true).await;
        let running = project_run(&server, 1, false).await;
        publish_all(&server).await;
        let unpurged = purge_events(&server, 30, false).await;
        assert_eq!(unpurged["events_purged"], 0, "{unpurged}");
        assert_eq!(unpurged["skipped"][0]["partition"], "event_y2025m03", "{unpurged}");
        let end = json!({ "events": [{ "execution_id": running, "event_id": running + 3,
            "event_type": "playbook.cancelled" }] });
        server.internal_post("events/project", end).await;
        let unpurged = purge_events(&server, 30, false).await;
        assert_eq!(unpurged["events_purged"], 0, "an unpublished event: {unpurged}");
        publish_all(&server).await;
        let plan = purge_events(&server, 30, true).await;
        assert_eq!(plan["event_partitions_dropped"], json!(["event_y2025m03"]));
        assert_eq!(server.get(&format!("/api/executions/{ended}")).await.status, 200);
        let purged = purge_events(&server, 30, false).await;
        assert_eq!(purged["event_partitions_dropped"], json!(["event_y2025m03"]), "{purged}");
        assert_eq!(purged["events_purged"], 1);
        for execution_id in [ended, running] {
            check_late_events(&server, execution_id).await;
        }
        // Other months are unaffected, and there is nothing more to drop.
        server.run_two_steps().await;
        assert_eq!(purge_events(&server, 30, false).await["events_purged"], 0);
    })
    .await;
}

/// Another server publishes or recently published a stream that this server does not have
/// configured.
#[tokio::test]
async fn purge_keeps_events_unstreamed_by_other_server() {
    on_every_store(async |fixture| {
        let server = start_outbox_server(fixture).await;
        let now = server.services.infra.now();
        let request = StreamLeaseRequest {
            name: "event_stream_tailer".into(),
            owner: "another server".into(),
            now,
            lease_until: now,
            begin: StreamStart::Now,
        };
        let outcome = fixture.store.lease_stream(request).await.unwrap();
        let StreamLeaseOutcome::Granted(cursor) = outcome else {
            panic!("{outcome:?}");
        };
        project_run(&server, 0, true).await;
        publish_all(&server).await;
        let unpurged = purge_events(&server, 30, false).await;
        assert_eq!(unpurged["events_purged"], 0, "{unpurged}");
        let reason = unpurged["skipped"][0]["reason"].as_str().unwrap();
        assert!(reason.contains("event_stream_tailer"), "{unpurged}");
        // It has not been published for so long that it is considered abandoned.
        let abandoned = StreamOwner {
            name: cursor.name,
            epoch: cursor.epoch,
            now: now.saturating_sub(Millis::from_days(30)),
        };
        assert!(fixture.store.release_stream_lease(abandoned).await.unwrap());
        assert_eq!(purge_events(&server, 30, false).await["events_purged"], 1);
    })
    .await;
}

/// Another server writes or recently wrote outbox rows, which this server does not have configured.
#[tokio::test]
async fn purge_keeps_events_in_outbox_of_other_server() {
    on_every_store(async |fixture| {
        let writer = start_outbox_server(fixture).await;
        project_run(&writer, 0, true).await;
        let other = fixture.start_server(internal_settings(), |_| {}).await;
        let unpurged = purge_events(&other, 30, false).await;
        assert_eq!(unpurged["events_purged"], 0, "{unpurged}");
        let reason = unpurged["skipped"][0]["reason"].as_str().unwrap();
        assert!(reason.contains("outbox"), "{unpurged}");
        publish_all(&writer).await;
        assert_eq!(purge_events(&other, 30, false).await["events_purged"], 1);
    })
    .await;
}

/// Audits must show who dropped what, with which token and from where.
#[tokio::test]
async fn purge_is_audited() {
    let server = start_outbox_server(&StoreFixture::in_memory()).await;
    purge_events(&server, 30, true).await;
    let admin = create_token(&server.services, "default", &[Scope::Admin]).await;
    let audit = server.call_with_token(&admin, Method::GET, "/api/audit", json!({}));
    let newest = audit.await.json_at("/entries/0");
    assert_eq!(newest["action"], "POST /api/internal/cleanup/purge", "{newest}");
    assert_eq!(newest["actor"], "platform");
    assert_eq!(newest["outcome"], "ok");
}

/// Sends late events of a dropped run.
async fn check_late_events(server: &TestServer, execution_id: i64) {
    server
        .get(&format!("/api/executions/{execution_id}"))
        .await
        .assert_problem(ErrorCode::RetentionDropped);
    let events = json!({ "events": [{ "execution_id": execution_id, "event_id": execution_id + 9,
        "event_type": "step.exit" }] });
    let answer = server.internal_post("events/project", events).await;
    assert_eq!(answer["rejected"][0]["code"], "retention_dropped", "{answer}");
    let event = json!({ "execution_id": execution_id, "step": "x", "event_type": "call.done",
        "worker_id": "w1" });
    server.post("/api/events", event).await.assert_problem(ErrorCode::RetentionDropped);
}

#[tokio::test]
async fn purge_runs_concurrently_with_executions() {
    on_every_store(async |fixture| {
        let server = start_outbox_server(fixture).await;
        project_run(&server, 0, true).await;
        publish_all(&server).await;
        let runs = async {
            let mut runs = Vec::new();
            for _ in 0..20 {
                runs.push(server.run_two_steps().await);
            }
            runs
        };
        let purges = async {
            let mut dropped = 0;
            for _ in 0..10 {
                dropped +=
                    purge_events(&server, 30, false).await["events_purged"].as_u64().unwrap();
            }
            dropped
        };
        let (runs, dropped) = tokio::join!(runs, purges);
        assert_eq!(dropped, 1);
        for run in runs {
            let run = server.get(&format!("/api/executions/{run}")).await;
            assert_eq!(run.text_at("/status"), "COMPLETED");
        }
    })
    .await;
}

/// A discarded row does not block a purge. A dead row does.
#[tokio::test]
async fn discarded_rows_count_as_published() {
    on_every_store(async |fixture| {
        let server = fixture
            .start_server(internal_settings(), |settings| {
                settings.outbox = crate::settings::OutboxSetting::Enabled;
                settings.outbox_max_attempts = 1;
            })
            .await;
        project_run(&server, 0, true).await;
        let claimed = server.internal_post("outbox/claim", json!({})).await;
        let rows = claimed["rows"].as_array().unwrap();
        let ids: Vec<_> = rows.iter().map(|row| row["outbox_id"].clone()).collect();
        for id in &ids {
            let failed = json!({ "outbox_id": id, "error": "no route" });
            let failed = server.internal_post("outbox/mark-failed", failed).await;
            assert_eq!(failed["marked"], true, "without attempts there is no fence");
        }
        let unpurged = purge_events(&server, 30, false).await;
        assert_eq!(unpurged["events_purged"], 0, "{unpurged}");
        let discarded = server.internal_post("outbox/discard", json!({ "outbox_ids": ids }));
        assert_eq!(discarded.await["changed"], ids.len());
        let purged = purge_events(&server, 30, false).await;
        assert_eq!(purged["events_purged"], 1, "{purged}");
    })
    .await;
}

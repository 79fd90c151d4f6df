//! Classic routes that do not concern runs, and routes that are not implemented.

use axum::http::Method;
use noetl_playbook::json_schema;
use noetl_types::{ErrorCode, Scope};
use serde_json::{Value, json};

use super::backends::{StoreFixture, on_every_store};
use super::tokens::{create_token, declared_routes, path_with_sample_ids};
use super::{TestServer, is_ok, start_secured_server, start_server};
use crate::http::settings::HttpSettings;

const SQL_CONSOLE: &str = "/api/postgres/execute";

/// Published clients call these operations, and must learn that the server does not have them.
#[tokio::test]
async fn ai_operations_answer_not_supported() {
    let server = start_secured_server().await;
    let admin = create_admin_token(&server).await;
    let mut unsupported = Vec::new();
    for (method, route) in declared_routes() {
        if !route.shape.only_fails || route.path == SQL_CONSOLE {
            continue;
        }
        let path = path_with_sample_ids(route.path);
        let reply = server.call_with_token(&admin, method.clone(), &path, json!({})).await;
        reply.assert_problem(ErrorCode::NotSupported);
        unsupported.push(format!("{method} {}", route.path));
    }
    unsupported.sort();
    let expected = [
        "POST /api/catalog/playbooks/explain/ai",
        "POST /api/catalog/playbooks/generate/ai",
        "POST /api/executions/{execution_id}/analyze/ai",
    ];
    assert_eq!(unsupported, expected);
}

/// Planned features have no routes.
#[tokio::test]
async fn planned_features_are_not_found() {
    let server = start_secured_server().await;
    let admin = create_admin_token(&server).await;
    for (method, path) in [
        (Method::POST, "/api/executions/7/fork"),
        (Method::GET, "/api/executions/7/diff"),
        (Method::GET, "/api/subscriptions"),
        (Method::PATCH, "/api/schedules/7"),
        (Method::POST, "/api/ingress/orders"),
        (Method::PUT, "/api/playbook-tests/suites/a"),
        (Method::GET, "/api/objects/a"),
        (Method::GET, "/api/threads"),
        (Method::POST, "/api/internal/ingress/orders"),
    ] {
        let reply = server.call_with_token(&admin, method, path, json!({})).await;
        reply.assert_problem(ErrorCode::NotFound);
    }
}

async fn create_admin_token(server: &TestServer) -> String {
    create_token(&server.services, "default", &[Scope::Admin]).await
}

#[tokio::test]
async fn db_routes_validate_tables() {
    on_every_store(async |fixture: &StoreFixture| {
        let server = fixture.start_server(HttpSettings::default(), |_| {}).await;
        let admin = create_admin_token(&server).await;
        for (method, path) in [
            (Method::GET, "/api/db/validate"),
            (Method::POST, "/api/db/init"),
            (Method::POST, "/api/db/init"),
        ] {
            let found = server.call_with_token(&admin, method, path, json!({})).await;
            assert!(is_ok(&found), "{}", found.text);
            assert_eq!(found.json_at("/valid"), true);
            assert_eq!(found.json_at("/status"), "ok");
            assert_eq!(found.json_at("/missing"), json!([]));
            let has_log = found.json_at("/tables").as_array().unwrap().contains(&json!("event"));
            assert!(has_log, "{}", found.text);
        }
        let audit = server.call_with_token(&admin, Method::GET, "/api/audit", json!({})).await;
        assert!(audit.text.contains("POST /api/db/init"), "{}", audit.text);
    })
    .await;
}

const FAILING_PLAYBOOK: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: fails, path: demo/fails }
workflow:
  - step: start
    tool: { kind: noop }
    next: { arcs: [{ step: last }] }
  - step: last
    tool: { kind: noop }
";

#[tokio::test]
async fn analyzes_failed_run() {
    let server = start_server().await;
    let execution_id = server.start_playbook(FAILING_PLAYBOOK, "demo/fails").await;
    let command = server.lease_command().await;
    server.complete_command(&command, json!({})).await;
    let command = server.lease_command().await;
    let report = json!({
        "execution_id": command["execution_id"], "command_id": command["command_id"],
        "attempt": command["attempt"], "lease_token": command["lease_token"],
        "status": "failed", "error": { "kind": "transform", "message": "no luck", "retryable": false },
    });
    let body = json!({ "worker_id": "w1", "reports": [report] });
    let reported = server.post("/api/commands/report", body).await;
    assert_eq!(reported.text_at("/results/0/status"), "accepted");

    let path = format!("/api/executions/{execution_id}/analyze");
    let analyze = async |body: Value| server.post(&path, body).await;
    let whole = analyze(json!({})).await;
    assert_eq!(whole.text_at("/status"), "FAILED");
    assert!(whole.text_at("/summary").contains("no luck"), "{}", whole.text);
    let seqs = |reply: &super::TestResponse| -> Vec<u64> {
        let events = reply.json_at("/events");
        let events = events.as_array().unwrap().iter();
        events.map(|event| event["seq"].as_u64().unwrap()).collect()
    };
    let last = u64::try_from(seqs(&whole).len()).unwrap();
    assert_eq!(seqs(&whole), (1..=last).collect::<Vec<_>>());

    // A small sample contains the events of the failure.
    let few = analyze(json!({ "event_sample_size": 2 })).await;
    for event in few.json_at("/events").as_array().unwrap() {
        assert_eq!(event["status"], "FAILED", "{event}");
    }
    assert_eq!(seqs(&few).len(), 2);
    let late = analyze(json!({ "max_events": 3 })).await;
    assert_eq!(seqs(&late), [last - 2, last - 1, last]);

    for wrong in [
        json!({ "max_events": 0 }),
        json!({ "max_events": 20_001 }),
        json!({ "event_sample_size": 501 }),
    ] {
        analyze(wrong).await.assert_problem(ErrorCode::OutOfRange);
    }
    let unknown = "/api/executions/7000000000000000000/analyze";
    let unknown = server.post(unknown, json!({})).await;
    unknown.assert_problem(ErrorCode::NotFound);
}

#[tokio::test]
async fn serves_document_schemas() {
    let settings = HttpSettings {
        config_schema: Some(r#"{"title":"settings"}"#.into()),
        ..HttpSettings::default()
    };
    let server = StoreFixture::in_memory().start_server(settings, |_| {}).await;
    let get = async |name: &str| server.get(&format!("/api/schema/{name}")).await;
    let playbook = get("playbook.json").await;
    assert_eq!(playbook.json(), json_schema());
    get("subscription.json").await.assert_problem(ErrorCode::NotFound);
    assert_eq!(get("config.json").await.json_at("/title"), "settings");
    get("playbook").await.assert_problem(ErrorCode::NotFound);
    let without_schema = start_server().await.get("/api/schema/config.json").await;
    without_schema.assert_problem(ErrorCode::NotSupported);
}

#[tokio::test]
async fn sql_console_is_rejected() {
    let body = json!({ "query": "SELECT 1" });
    for (sql_console, code) in [(false, ErrorCode::Forbidden), (true, ErrorCode::NotSupported)] {
        let settings = HttpSettings { sql_console, ..HttpSettings::default() };
        let server = StoreFixture::in_memory().start_server(settings, |_| {}).await;
        let admin = create_admin_token(&server).await;
        let refused = server.call_with_token(&admin, Method::POST, SQL_CONSOLE, body.clone()).await;
        refused.assert_problem(code);
    }
}

//! Classic routes beside the runs, and what is known by name alone.

use axum::http::Method;
use noetl_api::paths;
use noetl_playbook::{SchemaOf, json_schema};
use noetl_types::{ErrorCode, Scope};
use serde_json::{Value, json};

use super::backends::{Shelter, on_every_store};
use super::tokens::{routes, token_of, with_some_id};
use super::{House, closed_house, house, is_ok};
use crate::http::settings::HttpSettings;

/// What is not done says so, whatever it is asked.
#[tokio::test]
async fn what_is_known_by_name_alone_says_so() {
    let house = closed_house().await;
    let internal = [Scope::InternalOutbox, Scope::InternalProject];
    let scopes = [&[Scope::Admin][..], &internal].concat();
    let admin = token_of(&house.runtime, "default", &scopes).await;
    let mut named = Vec::new();
    for (method, route) in routes() {
        if !route.shape.only_fails || route.path == paths::SQL_CONSOLE {
            continue;
        }
        let path = with_some_id(&route.path);
        let reply = house.call(&admin, method.clone(), &path, json!({})).await;
        reply.is_problem(ErrorCode::NotSupported);
        named.push(format!("{method} {}", route.path));
    }
    for wanted in [
        "POST /api/executions/{execution_id}/fork",
        "GET /api/subscriptions",
        "PATCH /api/schedules/{schedule_id}",
        "POST /api/ingress/{*listener}",
        "PUT /api/playbook-tests/suites/{*suite_id}",
        "GET /api/objects/{*key}",
    ] {
        assert!(named.iter().any(|named| named == wanted), "{named:?}");
    }
}

async fn admin_of(house: &House) -> String {
    token_of(&house.runtime, "default", &[Scope::Admin]).await
}

#[tokio::test]
async fn tables_are_looked_at() {
    on_every_store(async |shelter: &Shelter| {
        let house = shelter.house(HttpSettings::default(), |_| {}).await;
        let admin = admin_of(&house).await;
        for (method, path) in [
            (Method::GET, "/api/db/validate"),
            (Method::POST, "/api/db/init"),
            (Method::POST, "/api/db/init"),
        ] {
            let found = house.call(&admin, method, path, json!({})).await;
            assert!(is_ok(&found), "{}", found.text);
            assert_eq!(found.at("/valid"), true);
            assert_eq!(found.at("/status"), "ok");
            assert_eq!(found.at("/missing"), json!([]));
            let is_memory = found.text_at("/message").starts_with("memory");
            let has_log = found
                .at("/tables")
                .as_array()
                .unwrap()
                .contains(&json!("event"));
            assert_eq!(has_log, !is_memory, "{}", found.text);
        }
        let trail = house
            .call(&admin, Method::GET, "/api/audit", json!({}))
            .await;
        assert!(trail.text.contains("POST /api/db/init"), "{}", trail.text);
    })
    .await;
}

const FAILS: &str = "apiVersion: noetl.io/v2
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
async fn a_run_is_analyzed() {
    let house = house().await;
    let execution_id = house.started_with(FAILS, "demo/fails").await;
    let command = house.leased().await;
    house.finish(&command, json!({})).await;
    let command = house.leased().await;
    let report = json!({
        "execution_id": command["execution_id"], "command_id": command["command_id"],
        "attempt": command["attempt"], "lease_token": command["lease_token"],
        "status": "failed", "error": { "kind": "transform", "message": "no luck", "retryable": false },
    });
    let body = json!({ "worker_id": "w1", "reports": [report] });
    let reported = house.post("/api/commands/report", body).await;
    assert_eq!(reported.text_at("/results/0/status"), "accepted");

    let path = format!("/api/executions/{execution_id}/analyze");
    let analyze = async |body: Value| house.post(&path, body).await;
    let whole = analyze(json!({})).await;
    assert_eq!(whole.text_at("/status"), "FAILED");
    assert!(
        whole.text_at("/summary").contains("no luck"),
        "{}",
        whole.text
    );
    let seqs = |reply: &super::Reply| -> Vec<u64> {
        let events = reply.at("/events");
        let events = events.as_array().unwrap().iter();
        events.map(|event| event["seq"].as_u64().unwrap()).collect()
    };
    let last = u64::try_from(seqs(&whole).len()).unwrap();
    assert_eq!(seqs(&whole), (1..=last).collect::<Vec<_>>());

    // Of a few, those that tell of the failure.
    let few = analyze(json!({ "event_sample_size": 2 })).await;
    for event in few.at("/events").as_array().unwrap() {
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
        analyze(wrong).await.is_problem(ErrorCode::OutOfRange);
    }
    let nobody = "/api/executions/7000000000000000000/analyze";
    let nobody = house.post(nobody, json!({})).await;
    nobody.is_problem(ErrorCode::NotFound);
}

#[tokio::test]
async fn documents_have_schemas() {
    let schemas = HttpSettings {
        config_schema: Some(r#"{"title":"settings"}"#.into()),
        ..HttpSettings::default()
    };
    let house = Shelter::memory().house(schemas, |_| {}).await;
    let get = async |name: &str| house.get(&format!("/api/schema/{name}")).await;
    let playbook = get("playbook.json").await;
    assert_eq!(playbook.json(), json_schema(SchemaOf::Playbook));
    let subscription = get("subscription.json").await;
    assert_eq!(subscription.json(), json_schema(SchemaOf::Subscription));
    assert_eq!(get("config.json").await.at("/title"), "settings");
    get("playbook").await.is_problem(ErrorCode::NotFound);
    let bare = super::house().await.get("/api/schema/config.json").await;
    bare.is_problem(ErrorCode::NotSupported);
}

#[tokio::test]
async fn the_sql_console_is_closed() {
    let body = json!({ "query": "SELECT 1" });
    for (sql_console, code) in [
        (false, ErrorCode::Forbidden),
        (true, ErrorCode::NotSupported),
    ] {
        let settings = HttpSettings {
            sql_console,
            ..HttpSettings::default()
        };
        let house = Shelter::memory().house(settings, |_| {}).await;
        let admin = admin_of(&house).await;
        let path = "/api/postgres/execute";
        let refused = house.call(&admin, Method::POST, path, body.clone()).await;
        refused.is_problem(code);
    }
}

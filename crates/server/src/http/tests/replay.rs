//! Replay of executions over HTTP.

use std::sync::Arc;

use axum::http::Method;
use noetl_api::tokens::CreateTokenRequest;
use noetl_store::prelude::*;
use noetl_store::{EnabledPublishers, LogPartition, SqliteStore};
use noetl_types::json::{parse, to_canonical};
use noetl_types::{ErrorCode, Json, JsonMap, Month, Scope, Timestamp, sha256};
use serde_json::Value;

use super::{
    TWO_STEPS, TestResponse, TestServer, start_secured_server, start_server, start_server_on,
};
use crate::access::CallContext;

fn replay_path(execution_id: &str, rest: &str) -> String {
    format!("/api/replay/state?execution_id={execution_id}{rest}")
}

impl TestServer {
    async fn get_replay(&self, execution_id: &str, rest: &str) -> TestResponse {
        self.get(&replay_path(execution_id, rest)).await
    }
}

fn number_at(reply: &TestResponse, pointer: &str) -> i64 {
    let found = reply.json_at(pointer);
    found.as_i64().unwrap_or_else(|| panic!("{pointer} is {found}"))
}

/// Recomputes the checksum from the bytes of the answer.
fn checksum_of_body(reply: &TestResponse) -> String {
    const UNCHECKED_FIELDS: [&str; 8] = [
        "checksum", "projection_checksums", "projection", "replay_snapshot", "truncated",
        "warnings", "payload_resolution", "payload_resolution_summary",
    ];
    let json = parse(reply.text.as_bytes()).unwrap();
    let covered: JsonMap = json
        .as_map()
        .unwrap()
        .iter()
        .filter(|(key, _)| !UNCHECKED_FIELDS.contains(&&***key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    sha256(to_canonical(&Json::from(covered))).to_string()
}

#[tokio::test]
async fn replay_answer_has_all_fields() {
    let server = start_server().await;
    let id = server.run_two_steps().await;
    let reply = server.get_replay(&id, "").await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    assert_eq!(reply.text_at("/execution/status"), "COMPLETED");
    assert_eq!(reply.text_at("/execution/last_node_name"), "last");
    assert_eq!(reply.text_at("/projection"), "all");
    assert_eq!(reply.text_at("/tenant_id"), "default");
    assert_eq!(reply.text_at("/last_event_type"), "playbook.completed");
    // Ids are numbers here, as clients have always read them, except inside of entries.
    assert_eq!(reply.json_at("/execution_id").to_string(), id);
    assert!(reply.json_at("/last_event_id").is_number());
    let commands = reply.json_at("/commands");
    let commands = commands.as_object().unwrap();
    assert_eq!(commands.len(), 2);
    for (key, entry) in commands {
        assert_eq!(entry["command_id"], key.as_str());
        assert_eq!(entry["status"], "COMPLETED");
        assert_eq!(entry["worker_id"], "w1");
        assert_eq!(entry["issued_event_id"].to_string(), *key);
    }
    for empty in ["/stages", "/frames", "/business_objects", "/loops"] {
        assert_eq!(reply.json_at(empty), serde_json::json!({}), "{empty}");
    }
    assert_eq!(reply.text_at("/checksum/type"), "sha256");
    assert_eq!(reply.text_at("/checksum/value"), checksum_of_body(&reply));
    assert_eq!(number_at(&reply, "/checksum/fold_version"), 1);
    let parts = reply.json_at("/projection_checksums");
    let names: Vec<_> = parts.as_object().unwrap().keys().cloned().collect();
    assert_eq!(names, ["execution", "stage", "frame", "command", "business_object", "loop"]);
    assert!(reply.json().get("truncated").is_none());
}

/// Requested projections change neither the replay nor its checksums.
#[tokio::test]
async fn projections_are_echoed() {
    let server = start_server().await;
    let id = server.run_two_steps().await;
    let all = server.get_replay(&id, "").await;
    for part in ["execution", "stage", "frame", "command", "business_object", "loop"] {
        let reply = server.get_replay(&id, &format!("&projection={part}")).await;
        assert_eq!(reply.text_at("/projection"), part);
        assert_eq!(reply.json_at("/checksum"), all.json_at("/checksum"));
        assert_eq!(reply.json_at("/commands"), all.json_at("/commands"));
    }
    let wrong = server.get_replay(&id, "&projection=steps").await;
    wrong.assert_problem(ErrorCode::BadQuery);
}

#[tokio::test]
async fn rejects_invalid_replay_queries() {
    let server = start_server().await;
    let id = server.start_two_steps().await;
    let assert_refused = |reply: TestResponse, code| {
        reply.assert_problem(code);
    };
    assert_refused(server.get("/api/replay/state").await, ErrorCode::BadQuery);
    assert_refused(server.get_replay("seven", "").await, ErrorCode::BadId);
    assert_refused(server.get_replay("7", "").await, ErrorCode::NotFound);
    for (rest, code) in [
        ("&as_of_position=1&as_of_event_id=2", ErrorCode::BadQuery),
        ("&as_of_position=1&as_of_time=2026-01-01T00:00:00Z", ErrorCode::BadQuery),
        ("&as_of_position=-1", ErrorCode::OutOfRange),
        ("&as_of_position=first", ErrorCode::BadQuery),
        ("&as_of_time=yesterday", ErrorCode::BadQuery),
        ("&as_of_event_id=0", ErrorCode::BadQuery),
        ("&as_of_event_id=77", ErrorCode::NotFound),
        ("&limit=0", ErrorCode::OutOfRange),
        ("&limit=-3", ErrorCode::OutOfRange),
        ("&limit=many", ErrorCode::BadQuery),
        ("&resolve_payloads=perhaps", ErrorCode::BadQuery),
    ] {
        assert_refused(server.get_replay(&id, rest).await, code);
    }
    // Unknown parameters are ignored, as they always were.
    assert_eq!(server.get_replay(&id, "&verbose=1").await.status, 200);
}

/// The tenant comes from the token, never from a parameter. Executions of other tenants are not
/// found.
#[tokio::test]
async fn foreign_tenants_are_not_found() {
    let server = start_server().await;
    let id = server.run_two_steps().await;
    for rest in ["&tenant_id=other", "&organization_id=other"] {
        let foreign = server.get_replay(&id, rest).await;
        let nothing = server.get_replay("77", rest).await;
        foreign.assert_problem(ErrorCode::NotFound);
        assert_eq!(foreign.json_at("/detail"), nothing.json_at("/detail"));
    }
    let own = "&tenant_id=default&organization_id=default";
    assert_eq!(server.get_replay(&id, own).await.status, 200);
}

/// Within a tenant, a caller sees only the runs of its organization.
#[tokio::test]
async fn organization_comes_from_identity() {
    let server = start_secured_server().await;
    let token = async |organization: &str| {
        let request = CreateTokenRequest {
            name: organization.into(),
            scopes: vec![Scope::Admin],
            organization_id: Some(organization.parse().unwrap()),
            ..CreateTokenRequest::default()
        };
        let created = server
            .services
            .identities
            .create_token(CallContext::server(), request, &"test".into())
            .await;
        created.unwrap().token.to_string()
    };
    let (eu, us) = (token("eu").await, token("us").await);
    let post = async |path: &str, body| server.call_with_token(&eu, Method::POST, path, body).await;
    let content = serde_json::json!({ "content": TWO_STEPS });
    assert_eq!(post("/api/catalog/register", content).await.status, 200);
    let request = serde_json::json!({ "path": "demo/two" });
    let id = post("/api/execute", request).await.text_at("/execution_id");
    let replay = async |token: &str, rest: &str| {
        let path = replay_path(&id, rest);
        server.call_with_token(token, Method::GET, &path, Value::Null).await
    };
    for rest in ["", "&organization_id=eu", "&tenant_id=default"] {
        let own = replay(&eu, rest).await;
        assert_eq!(own.status, 200, "{rest}: {}", own.text);
        assert_eq!(own.text_at("/organization_id"), "eu");
    }
    for (token, rest) in [(&us, ""), (&us, "&organization_id=eu"), (&eu, "&organization_id=us")] {
        replay(token, rest).await.assert_problem(ErrorCode::NotFound);
    }
}

#[tokio::test]
async fn dropped_execution_is_gone() {
    let store = SqliteStore::in_memory().unwrap();
    let first_month = LogPartition::for_month(Month::new(2024, 1).unwrap());
    let publishers = EnabledPublishers { outbox: false, streams: Vec::new() };
    let now = Timestamp::parse("2026-01-01T00:00:00Z").unwrap();
    assert_eq!(store.drop_partition(&first_month, &publishers, now).await.unwrap(), None);
    let server = start_server_on(Arc::new(store)).await;
    let dropped = server.get_replay("7", "").await;
    dropped.assert_problem(ErrorCode::RetentionDropped);
}

/// A truncated replay is reported and has no checksum.
#[tokio::test]
async fn truncating_limit_is_reported() {
    let server = start_server().await;
    let id = server.run_two_steps().await;
    let whole = server.get_replay(&id, "").await;
    let events = number_at(&whole, "/event_count");
    let truncated = server.get_replay(&id, &format!("&limit={}", events - 1)).await;
    assert_eq!(truncated.json_at("/truncated"), true);
    assert_eq!(truncated.text_at("/execution/status"), "RUNNING");
    assert_eq!(number_at(&truncated, "/event_count"), events - 1);
    for field in ["checksum", "projection_checksums"] {
        assert!(truncated.json().get(field).is_none(), "{field} of {}", truncated.text);
    }
    let enough = server.get_replay(&id, &format!("&limit={events}")).await;
    assert_eq!(enough.json(), whole.json());
    // A limit after the requested position truncates nothing.
    let bounded = server.get_replay(&id, "&as_of_position=3&limit=3").await;
    assert!(bounded.json().get("truncated").is_none());
    assert_eq!(number_at(&bounded, "/event_count"), 3);
}

/// A position is a seq, a number too large for a seq is an event id, and an unknown position is not
/// found.
#[tokio::test]
async fn position_is_a_seq() {
    let server = start_server().await;
    let id = server.run_two_steps().await;
    let whole = server.get_replay(&id, "").await;
    let nothing = server.get_replay(&id, "&as_of_position=0").await;
    assert_eq!(nothing.text_at("/execution/status"), "UNKNOWN");
    assert_eq!(number_at(&nothing, "/event_count"), 0);
    let beyond_end = server.get_replay(&id, "&as_of_position=4000").await;
    assert_eq!(beyond_end.json(), whole.json());
    // The largest seq and the smallest event id.
    let largest_seq = server.get_replay(&id, "&as_of_position=1099511627775").await;
    assert_eq!(largest_seq.json(), whole.json());
    let event = server.get_replay(&id, "&as_of_position=1099511627776").await;
    event.assert_problem(ErrorCode::NotFound);
    let third = server.get_replay(&id, "&as_of_position=3").await;
    let event = number_at(&third, "/last_event_id");
    for rest in ["as_of_event_id", "as_of_position"] {
        let same = server.get_replay(&id, &format!("&{rest}={event}")).await;
        assert_eq!(same.json(), third.json(), "{rest}");
    }
    let unknown = format!("&as_of_position={}", event + (1 << 40));
    server.get_replay(&id, &unknown).await.assert_problem(ErrorCode::NotFound);
}

#[tokio::test]
async fn reference_resolution_is_bounded() {
    let server = start_server().await;
    let id = server.start_two_steps().await;
    let command = server.lease_command().await;
    let rows: Vec<i64> = (0..20_000).collect();
    server.complete_command(&command, serde_json::json!(rows)).await;
    let plain = server.get_replay(&id, "").await;
    assert!(plain.json_at("/execution/payload_refs/0/event_id").is_string());
    assert!(plain.json().get("payload_resolution").is_none());
    let resolved = server.get_replay(&id, "&resolve_payloads=true").await;
    assert_eq!(resolved.json_at("/checksum"), plain.json_at("/checksum"));
    let first = resolved.json_at("/payload_resolution/0");
    assert_eq!(first["scope"], "execution");
    assert_eq!(first["resolution"]["resolved"], true);
    assert_eq!(first["resolution"]["row_count"], 20_000);
    assert_eq!(first["resolution"]["value_type"], "array");
    assert_eq!(first["resolution"]["checksum"], first["reference_summary"]["sha256"]);
    let summary = resolved.json_at("/payload_resolution_summary");
    assert_eq!(summary["all_resolved"], true, "{summary}");
    assert_eq!(summary["total"], summary["resolved"]);
    // Only summaries are returned, never bodies.
    assert!(resolved.text.len() < 20_000, "{}", resolved.text.len());
}

#[tokio::test]
async fn blank_parameters_are_rejected() {
    let server = start_server().await;
    let id = server.run_two_steps().await;
    for blank in ["as_of_time=", "as_of_time=%20", "as_of_event_id=", "as_of_position=", "limit="] {
        let reply = server.get_replay(&id, &format!("&{blank}")).await;
        reply.assert_problem(ErrorCode::BadQuery);
        assert!(reply.text_at("/detail").contains("is blank"), "{}", reply.text);
    }
}

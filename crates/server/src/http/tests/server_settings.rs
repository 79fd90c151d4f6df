//! Effects of server settings on callers.

use axum::http::Method;
use noetl_types::limits::MaxAttempts;
use noetl_types::{ByteSize, ErrorCode};
use serde_json::json;

use super::backends::StoreFixture;
use super::{TWO_STEPS, TestServer, build_request};
use crate::http::settings::HttpSettings;
use crate::settings::Settings;

async fn start_server_with_settings(change: impl FnOnce(&mut Settings)) -> TestServer {
    let fixture = StoreFixture::in_memory();
    fixture.start_server(HttpSettings::default(), change).await
}

#[tokio::test]
async fn max_attempts_setting_applies_to_commands() {
    let server = start_server_with_settings(|settings| {
        settings.defaults.max_attempts = MaxAttempts::clamped(7);
    })
    .await;
    server.start_two_steps().await;
    let commands = server.get("/api/commands").await;
    assert_eq!(commands.json_at("/commands/0/max_attempts"), 7);
}

#[tokio::test]
async fn inline_limit_keeps_large_results_out_of_log() {
    let is_inline = async |server: TestServer| {
        let execution_id = server.start_two_steps().await;
        let command = server.lease_command().await;
        let reported = server.complete_command(&command, json!("x".repeat(2000))).await;
        assert_eq!(reported.text_at("/results/0/status"), "accepted");
        let events = format!("/api/executions/{execution_id}/events?type=call.done");
        let events = server.get(&events).await;
        assert_eq!(events.json_at("/events").as_array().unwrap().len(), 1);
        events.text.contains(&"x".repeat(2000))
    };
    assert!(is_inline(start_server_with_settings(|_| {}).await).await);
    let small_limit =
        |settings: &mut Settings| settings.defaults.inline_max = ByteSize::from_kib(1);
    assert!(!is_inline(start_server_with_settings(small_limit).await).await);
}

#[tokio::test]
async fn rejects_results_above_size_limit() {
    let server =
        start_server_with_settings(|settings| settings.max_result_size = ByteSize::from_kib(64))
            .await;
    let execution_id = server.start_two_steps().await;
    let path = format!("/api/result/{execution_id}");
    let put = async |length: usize| {
        let body = json!({ "name": "r", "data": "x".repeat(length) });
        server.put(&path, body).await
    };
    // The quotes count too.
    assert_eq!(put(64 * 1024 - 2).await.status, 200);
    put(64 * 1024 - 1).await.assert_problem(ErrorCode::TooLarge);
}

/// A body limit above the document limit applies to documents too.
#[tokio::test]
async fn body_limit_applies_to_documents() {
    let settings = HttpSettings { max_body: ByteSize::from_mib(10), ..HttpSettings::default() };
    let server = StoreFixture::in_memory().start_server(settings, |_| {}).await;
    let long = "x".repeat(9 * 1024 * 1024);
    let body = json!({ "path": "demo/two", "payload": { "long": long } });
    let started = server.post("/api/execute", body).await;
    started.assert_problem(ErrorCode::NotFound);
    let content = format!("{TWO_STEPS}# {long}\n");
    let body = json!({ "content": content }).to_string();
    let register = build_request(Method::POST, "/api/catalog/register", body);
    let registered = server.send(register).await;
    assert_ne!(registered.json()["code"], "too_large", "{}", registered.status);
}

#[tokio::test]
async fn disabled_metrics_are_not_found() {
    let server = start_server_with_settings(|settings| settings.metrics = false).await;
    server.get("/metrics").await.assert_problem(ErrorCode::NotFound);
}

#[tokio::test]
async fn readyz_reports_unsafe_durability() {
    let settings = HttpSettings { unsafe_durability: true, ..HttpSettings::default() };
    let server = StoreFixture::in_memory().start_server(settings, |_| {}).await;
    let ready = server.get("/readyz").await;
    assert_eq!(ready.json_at("/unsafe"), json!(["NOETL_UNSAFE_DURABILITY"]));
}

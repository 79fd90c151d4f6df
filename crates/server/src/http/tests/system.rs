//! Routes for users about the system itself.

use noetl_types::ErrorCode;
use serde_json::json;

use super::{is_ok, start_secured_server, start_server};

#[tokio::test]
async fn dashboard_stats_count_runs() {
    let server = start_server().await;
    server.run_two_steps().await;
    server.start_two_steps().await;
    let worker = json!({ "name": "w1" });
    server.post("/api/worker/pool/register", worker).await;
    let stats = server.get("/api/dashboard/stats").await;
    assert!(is_ok(&stats), "{}", stats.text);
    for (key, count) in [
        ("total_executions", 2),
        ("successful_executions", 1),
        ("running_executions", 1),
        ("failed_executions", 0),
        ("total_playbooks", 1),
        ("total_workers", 1),
    ] {
        assert_eq!(stats.json_at(&format!("/stats/{key}")), count, "{key}");
        assert_eq!(stats.json_at(&format!("/{key}")), count, "{key}");
    }
    let widgets = server.get("/api/dashboard/widgets").await;
    assert_eq!(widgets.json_at("/widgets").as_array().unwrap().len(), 7);
}

#[tokio::test]
async fn reports_execution_shard() {
    let server = start_server().await;
    let path = "/api/runtime/shard-info?execution_id=7000000000000000000";
    let one = server.get(path).await;
    assert_eq!(
        (one.json_at("/shard_index"), one.text_at("/source")),
        (json!(0), "server_config".into())
    );
    let many = server.get(&format!("{path}&shard_count=16")).await;
    assert_eq!(many.text_at("/source"), "query");
    assert!(many.json_at("/shard_index").as_u64().unwrap() < 16);
    for wrong in [format!("{path}&shard_count=0"), format!("{path}&shard_count=1025")] {
        server.get(&wrong).await.assert_problem(ErrorCode::OutOfRange);
    }
    server.get("/api/runtime/shard-info").await.assert_problem(ErrorCode::BadQuery);
}

#[tokio::test]
async fn reports_identity_and_health() {
    let server = start_server().await;
    let me = server.get("/api/whoami").await;
    assert_eq!(me.text_at("/actor"), "developer");
    let scopes = me.json_at("/scopes");
    assert!(scopes.as_array().unwrap().contains(&json!("worker")));
    assert!(scopes.as_array().unwrap().contains(&json!("admin")));
    assert!(!scopes.to_string().contains("internal"));
    let health = server.get("/api/health").await;
    assert_eq!((health.status, health.text_at("/status")), (200, "ok".into()));
    assert_eq!(health.text_at("/database"), "ok");
    let ai = server.post("/api/catalog/playbooks/explain/ai", json!({})).await;
    ai.assert_problem(ErrorCode::NotSupported);
    assert!(is_ok(&server.get("/api/status").await));
}

#[tokio::test]
async fn stores_variables_of_run() {
    let server = start_server().await;
    let execution_id = server.start_two_steps().await;
    let vars = format!("/api/vars/{execution_id}");
    let long = json!({ "variables": [
        { "var_name": "a", "var_value": 1, "var_type": "computed", "source_step": "start" },
        { "var_name": "b", "var_value": [2] },
    ] });
    let set = server.post(&vars, long).await;
    assert_eq!(set.json_at("/variables_set"), 2, "{}", set.text);
    let short = server.post(&vars, json!({ "c": { "d": 3 } })).await;
    assert_eq!(short.json_at("/variables_set"), 1, "{}", short.text);
    let all = server.get(&vars).await;
    assert_eq!(all.json_at("/variables"), json!({ "a": 1, "b": [2], "c": { "d": 3 } }));
    let one = server.get(&format!("{vars}/a")).await;
    assert_eq!(one.text_at("/var_type"), "computed");
    let wrong = json!({ "variables": [{ "var_name": "x", "var_type": "odd" }] });
    server.post(&vars, wrong).await.assert_problem(ErrorCode::Validation);
    let delete =
        |path: String| server.send(super::build_request(axum::http::Method::DELETE, &path, ""));
    assert!(is_ok(&delete(format!("{vars}/a")).await));
    delete(format!("{vars}/a")).await.assert_problem(ErrorCode::NotFound);
    server.get(&format!("{vars}/a")).await.assert_problem(ErrorCode::NotFound);
    assert_eq!(delete(vars).await.json_at("/deleted"), 2);
}

#[tokio::test]
async fn stored_result_can_be_read() {
    let server = start_server().await;
    let execution_id = server.start_two_steps().await;
    let path = format!("/api/result/{execution_id}");
    let body = json!({ "name": "rows", "data": { "n": [1, 2] }, "ttl": 60 });
    let put = server.put(&path, body).await;
    assert!(is_ok(&put), "{}", put.text);
    let reference = put.text_at("/ref");
    assert!(reference.starts_with(&format!("noetl://execution/{execution_id}/result/rows/")));
    assert!(put.json_at("/expires_at").is_string());
    let found = server.get(&format!("/api/result/resolve?ref={reference}")).await;
    assert_eq!(found.json(), json!({ "n": [1, 2] }));
    for wrong in [json!({ "name": "", "data": 1 }), json!({ "name": "x", "data": 1, "ttl": 0 })] {
        server.put(&path, wrong).await.assert_problem(ErrorCode::Validation);
    }
}

#[tokio::test]
async fn metrics_count_operations() {
    let server = start_server().await;
    server.run_two_steps().await;
    server.start_two_steps().await;
    server.get("/api/executions/none").await;
    let scrape = server.get("/metrics").await;
    assert!(is_ok(&scrape), "{}", scrape.text);
    for line in [
        "noetl_events_ingested_total{event_type=\"playbook.completed\",status=\"COMPLETED\"} 1",
        "noetl_execute_outcomes_total{entry=\"single\",outcome=\"started\"} 2",
        "noetl_executions{status=\"RUNNING\"} 1",
        "noetl_commands{pool=\"shared\",status=\"PENDING\"} 1",
        "noetl_lease_expired_total 0",
        "noetl_event_stream_published_total 0",
        "noetl_event_stream_skipped_total 0",
        "noetl_event_stream_lag_events 0",
        "noetl_event_stream_lag_seconds 0",
        "noetl_commit_horizon_age_seconds 0",
        "noetl_http_request_seconds_count{route=\"/api/executions/{execution_id}\",code=\"400\"} 1",
        "# EOF",
    ] {
        assert!(scrape.text.contains(line), "{line}\n{}", scrape.text);
    }
}

#[tokio::test]
async fn repeated_result_with_key_is_stored_once() {
    let server = start_server().await;
    let execution_id = server.start_two_steps().await;
    let path = format!("/api/result/{execution_id}");
    let put = async |key: Option<&'static str>, n: i64| {
        let body = json!({ "name": "rows", "data": { "n": n } }).to_string();
        let mut request = super::build_request(axum::http::Method::PUT, &path, body);
        if let Some(key) = key {
            let key = axum::http::HeaderValue::from_static(key);
            request.headers_mut().insert("idempotency-key", key);
        }
        let stored = server.send(request).await;
        assert!(is_ok(&stored), "{}", stored.text);
        stored.text_at("/ref")
    };
    let first = put(Some("7:1:a:1"), 1).await;
    assert_eq!(put(Some("7:1:a:1"), 1).await, first);
    // A retried task may have produced a different result.
    let others = [
        put(Some("7:1:a:1"), 2).await,
        put(Some("7:1:a:2"), 1).await,
        put(None, 1).await,
        put(None, 1).await,
    ];
    let all: std::collections::BTreeSet<&String> = others.iter().chain([&first]).collect();
    assert_eq!(all.len(), 5);
}

#[tokio::test]
async fn openapi_requires_authentication() {
    let server = start_server().await;
    let document = server.get("/api/openapi.json").await;
    assert_eq!(document.header("content-type"), Some("application/json"));
    assert_eq!(document.json()["openapi"], "3.1.0");
    let page = server.get("/noetl/docs").await;
    assert_eq!(page.status, 200);
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'"), "{policy}");
    assert!(page.text.contains("/api/execute"), "{}", page.text);
    // The page is for browsers, which have no token. It reveals nothing about this server.
    let secured = start_secured_server().await;
    let refused = secured.get("/api/openapi.json").await;
    refused.assert_problem(ErrorCode::Unauthenticated);
    let page = secured.get("/api/docs").await;
    assert_eq!(page.status, 200);
    assert!(!page.text.contains(env!("CARGO_PKG_VERSION")), "{}", page.text);
}

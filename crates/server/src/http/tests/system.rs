//! The system as people look at it.

use noetl_types::ErrorCode;
use serde_json::json;

use super::{closed_house, house, is_ok};

#[tokio::test]
async fn counters_count() {
    let house = house().await;
    house.finished().await;
    house.started().await;
    let worker = json!({ "name": "w1" });
    house.post("/api/worker/pool/register", worker).await;
    let stats = house.get("/api/dashboard/stats").await;
    assert!(is_ok(&stats), "{}", stats.text);
    for (key, count) in [
        ("total_executions", 2),
        ("successful_executions", 1),
        ("running_executions", 1),
        ("failed_executions", 0),
        ("total_playbooks", 1),
        ("total_workers", 1),
    ] {
        assert_eq!(stats.at(&format!("/stats/{key}")), count, "{key}");
        assert_eq!(stats.at(&format!("/{key}")), count, "{key}");
    }
    let widgets = house.get("/api/dashboard/widgets").await;
    assert_eq!(widgets.at("/widgets").as_array().unwrap().len(), 7);
}

#[tokio::test]
async fn placement_is_told() {
    let house = house().await;
    let path = "/api/runtime/shard-info?execution_id=7000000000000000000";
    let one = house.get(path).await;
    assert_eq!(
        (one.at("/shard_index"), one.text_at("/source")),
        (json!(0), "server_config".into())
    );
    let many = house.get(&format!("{path}&shard_count=16")).await;
    assert_eq!(many.text_at("/source"), "query");
    assert!(many.at("/shard_index").as_u64().unwrap() < 16);
    for wrong in [
        format!("{path}&shard_count=0"),
        format!("{path}&shard_count=1025"),
    ] {
        house.get(&wrong).await.is_problem(ErrorCode::OutOfRange);
    }
    house
        .get("/api/runtime/shard-info")
        .await
        .is_problem(ErrorCode::BadQuery);
}

#[tokio::test]
async fn identity_and_health() {
    let house = house().await;
    let me = house.get("/api/whoami").await;
    assert_eq!(me.text_at("/actor"), "developer");
    let scopes = me.at("/scopes");
    assert!(scopes.as_array().unwrap().contains(&json!("worker")));
    assert!(!scopes.as_array().unwrap().contains(&json!("admin")));
    let health = house.get("/api/health").await;
    assert_eq!(
        (health.status, health.text_at("/status")),
        (200, "ok".into())
    );
    assert_eq!(health.text_at("/database"), "ok");
    let ai = house
        .post("/api/catalog/playbooks/explain/ai", json!({}))
        .await;
    ai.is_problem(ErrorCode::NotSupported);
    house
        .get("/api/status")
        .await
        .is_problem(ErrorCode::Forbidden);
}

#[tokio::test]
async fn variables_are_kept_beside_a_run() {
    let house = house().await;
    let execution_id = house.started().await;
    let vars = format!("/api/vars/{execution_id}");
    let long = json!({ "variables": [
        { "var_name": "a", "var_value": 1, "var_type": "computed", "source_step": "start" },
        { "var_name": "b", "var_value": [2] },
    ] });
    let set = house.post(&vars, long).await;
    assert_eq!(set.at("/variables_set"), 2, "{}", set.text);
    let short = house.post(&vars, json!({ "c": { "d": 3 } })).await;
    assert_eq!(short.at("/variables_set"), 1, "{}", short.text);
    let all = house.get(&vars).await;
    assert_eq!(
        all.at("/variables"),
        json!({ "a": 1, "b": [2], "c": { "d": 3 } })
    );
    let one = house.get(&format!("{vars}/a")).await;
    assert_eq!(one.text_at("/var_type"), "computed");
    let wrong = json!({ "variables": [{ "var_name": "x", "var_type": "odd" }] });
    house
        .post(&vars, wrong)
        .await
        .is_problem(ErrorCode::Validation);
    let delete = |path: String| house.send(super::request(axum::http::Method::DELETE, &path, ""));
    assert!(is_ok(&delete(format!("{vars}/a")).await));
    delete(format!("{vars}/a"))
        .await
        .is_problem(ErrorCode::NotFound);
    house
        .get(&format!("{vars}/a"))
        .await
        .is_problem(ErrorCode::NotFound);
    assert_eq!(delete(vars).await.at("/deleted"), 2);
}

#[tokio::test]
async fn a_result_is_put_and_found_again() {
    let house = house().await;
    let execution_id = house.started().await;
    let path = format!("/api/result/{execution_id}");
    let body = json!({ "name": "rows", "data": { "n": [1, 2] }, "ttl": 60 });
    let put = house.put(&path, body).await;
    assert!(is_ok(&put), "{}", put.text);
    let reference = put.text_at("/ref");
    assert!(reference.starts_with(&format!("noetl://execution/{execution_id}/result/rows/")));
    assert!(put.at("/expires_at").is_string());
    let found = house
        .get(&format!("/api/result/resolve?ref={reference}"))
        .await;
    assert_eq!(found.json(), json!({ "n": [1, 2] }));
    for wrong in [
        json!({ "name": "", "data": 1 }),
        json!({ "name": "x", "data": 1, "ttl": 0 }),
    ] {
        house
            .put(&path, wrong)
            .await
            .is_problem(ErrorCode::Validation);
    }
}

#[tokio::test]
async fn what_happens_is_counted() {
    let house = house().await;
    house.finished().await;
    house.started().await;
    house.get("/api/executions/none").await;
    let told = house.get("/metrics").await;
    assert!(is_ok(&told), "{}", told.text);
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
        assert!(told.text.contains(line), "{line}\n{}", told.text);
    }
}

#[tokio::test]
async fn a_result_that_is_sent_twice_under_a_key_is_kept_once() {
    let house = house().await;
    let execution_id = house.started().await;
    let path = format!("/api/result/{execution_id}");
    let put = async |key: Option<&'static str>, n: i64| {
        let body = json!({ "name": "rows", "data": { "n": n } }).to_string();
        let mut request = super::request(axum::http::Method::PUT, &path, body);
        if let Some(key) = key {
            let key = axum::http::HeaderValue::from_static(key);
            request.headers_mut().insert("idempotency-key", key);
        }
        let kept = house.send(request).await;
        assert!(is_ok(&kept), "{}", kept.text);
        kept.text_at("/ref")
    };
    let first = put(Some("7:1:a:1"), 1).await;
    assert_eq!(put(Some("7:1:a:1"), 1).await, first);
    // A task that ran once more may have made something else.
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
async fn the_api_describes_itself_to_whoever_is_somebody() {
    let house = house().await;
    let document = house.get("/api/openapi.json").await;
    assert_eq!(document.header("content-type"), Some("application/json"));
    assert_eq!(document.json()["openapi"], "3.1.0");
    let page = house.get("/noetl/docs").await;
    assert_eq!(page.status, 200);
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'"), "{policy}");
    assert!(page.text.contains("/api/execute"), "{}", page.text);
    // The page is for browsers, which have no token to show; it tells nothing of this server.
    let closed = closed_house().await;
    let refused = closed.get("/api/openapi.json").await;
    refused.is_problem(ErrorCode::Unauthenticated);
    let page = closed.get("/api/docs").await;
    assert_eq!(page.status, 200);
    assert!(
        !page.text.contains(env!("CARGO_PKG_VERSION")),
        "{}",
        page.text
    );
}

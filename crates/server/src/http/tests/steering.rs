//! Executions are started in batches and once more, held, let go and ended.

use noetl_api::execution::{CleanupRequest, FinalizeRequest};
use noetl_types::{ErrorCode, ExecutionId, ExecutionStatus};
use serde_json::{Value, json};

use super::{House, Reply, TWO_STEPS, house, is_ok};

async fn steer(house: &House, execution_id: &str, verb: &str) -> Reply {
    let path = format!("/api/executions/{execution_id}/{verb}");
    house.post(&path, json!({ "reason": "a test" })).await
}

#[tokio::test]
async fn a_run_is_held_and_let_go() {
    let house = house().await;
    let execution_id = house.started().await;
    for _ in 0..2 {
        let paused = steer(&house, &execution_id, "pause").await;
        assert_eq!(paused.text_at("/status"), "PAUSED", "{}", paused.text);
        assert_eq!(paused.at("/seq"), 4);
    }
    for _ in 0..2 {
        let resumed = steer(&house, &execution_id, "resume").await;
        assert_eq!(resumed.text_at("/status"), "RUNNING", "{}", resumed.text);
        assert_eq!(resumed.at("/seq"), 5);
    }
    let unknown = format!("/api/executions/{execution_id}/pause");
    let unknown = house.post(&unknown, json!({ "why": 1 })).await;
    unknown.is_problem(ErrorCode::Validation);
    assert!(is_ok(&steer(&house, &execution_id, "stop").await));
    let over = steer(&house, &execution_id, "pause").await;
    over.is_problem(ErrorCode::AlreadyTerminal);
    let nowhere = steer(&house, "7000000000000000000", "pause").await;
    nowhere.is_problem(ErrorCode::NotFound);
}

#[tokio::test]
async fn only_an_admin_finalizes_and_cleans_up() {
    let house = house().await;
    let execution_id = house.started().await;
    let finalize = format!("/api/executions/{execution_id}/finalize");
    let body = json!({ "status": "COMPLETED" });
    let refused = house.post(&finalize, body).await;
    refused.is_problem(ErrorCode::Forbidden);
    let refused = house.post("/api/executions/cleanup", json!({})).await;
    refused.is_problem(ErrorCode::Forbidden);

    let id: ExecutionId = execution_id.parse().unwrap();
    let request = |status| FinalizeRequest {
        status,
        error: None,
        reason: Some("stuck".into()),
    };
    let wrong = house
        .runtime
        .finalize(id, None, request(ExecutionStatus::Paused));
    assert!(wrong.await.is_err());
    let actor = Some("ann".into());
    let finalized = house
        .runtime
        .finalize(id, actor, request(ExecutionStatus::Failed));
    assert_eq!(finalized.await.unwrap().status, ExecutionStatus::Failed);
    let log = house
        .get(&format!("/api/executions/{execution_id}/events?order=desc"))
        .await;
    assert_eq!(log.text_at("/events/0/event_type"), "playbook.failed");
    assert_eq!(log.text_at("/events/0/meta/actor"), "ann");
    assert_eq!(log.text_at("/events/0/meta/reason"), "stuck");
    assert_eq!(log.text_at("/events/1/event_type"), "command.cancelled");
    let again = house
        .runtime
        .finalize(id, None, request(ExecutionStatus::Failed));
    let problem = again.await.unwrap_err().into_problem();
    assert_eq!(problem.known_code(), Some(ErrorCode::AlreadyTerminal));

    // A run with a command that waits is not idle.
    house.started().await;
    let all = CleanupRequest {
        older_than_minutes: 0,
        dry_run: false,
    };
    let cleaned = house.runtime.clean_up(None, all).await.unwrap();
    assert_eq!(cleaned.cancelled_count, 0);
}

#[tokio::test]
async fn a_run_is_made_once_more() {
    let house = house().await;
    let execution_id = house.started().await;
    let path = format!("/api/executions/{execution_id}/rerun");
    let again = house
        .post(&path, json!({ "workload": { "more": [1] } }))
        .await;
    assert!(is_ok(&again), "{}", again.text);
    let id = again.text_at("/execution_id");
    assert_ne!(id, execution_id);
    let detail = house.get(&format!("/api/executions/{id}")).await;
    assert_eq!(
        detail.at("/workload"),
        json!({ "greeting": "hello", "more": [1] })
    );
    assert_eq!(detail.at("/events/0/meta/rerun_of"), json!(execution_id));
    let plain = house
        .send(super::request(axum::http::Method::POST, &path, ""))
        .await;
    assert!(is_ok(&plain), "{}", plain.text);
}

#[tokio::test]
async fn many_runs_begin_each_by_itself() {
    let house = house().await;
    house
        .post("/api/catalog/register", json!({ "content": TWO_STEPS }))
        .await;
    let one = json!({ "path": "demo/two", "workload": { "n": 1 } });
    let items = json!([one, { "path": "nowhere" }, { "path": 7 }, one]);
    let batch = json!({ "executions": items });
    let answer = house.post("/api/execute/batch", batch).await;
    assert!(is_ok(&answer), "{}", answer.text);
    let counts: Vec<Value> = ["count", "started", "duplicates", "failed"]
        .map(|key| answer.at(&format!("/{key}")))
        .to_vec();
    assert_eq!(counts, [4, 2, 0, 2]);
    let statuses: Vec<String> = (0..4)
        .map(|at| answer.text_at(&format!("/results/{at}/status")))
        .collect();
    assert_eq!(statuses, ["started", "error", "error", "started"]);
    assert!(answer.at("/results/0/execution_id").is_string());
    assert_eq!(answer.at("/results/3/index"), 3);
    for wrong in [json!([]), Value::from(vec![json!({}); 1001])] {
        let refused = house
            .post("/api/execute/batch", json!({ "executions": wrong }))
            .await;
        refused.is_problem(ErrorCode::Validation);
    }
}

/// Hole D4.
#[tokio::test]
async fn what_would_not_happen_is_refused() {
    let house = house().await;
    house
        .post("/api/catalog/register", json!({ "content": TWO_STEPS }))
        .await;
    for (field, value, code) in [
        (
            "dedup",
            json!({ "key": "k", "window_secs": 0 }),
            ErrorCode::OutOfRange,
        ),
        (
            "dedup",
            json!({ "key": "k", "window_secs": 2_592_001 }),
            ErrorCode::OutOfRange,
        ),
        (
            "start_at",
            json!("2999-01-01T00:00:00Z"),
            ErrorCode::OutOfRange,
        ),
        ("priority", json!(101), ErrorCode::OutOfRange),
    ] {
        let mut body = json!({ "path": "demo/two" });
        body[field] = value;
        let reply = house.post("/api/execute", body).await;
        reply.is_problem(code);
    }
    let body = json!({ "path": "demo/two", "resource_kind": "Playbook", "start_at": "2020-01-01T00:00:00Z" });
    assert!(is_ok(&house.post("/api/execute", body).await));
}

#[tokio::test]
async fn lists_are_filtered() {
    let house = house().await;
    house
        .post("/api/catalog/register", json!({ "content": TWO_STEPS }))
        .await;
    for team in ["red", "blue"] {
        let body = json!({ "path": "demo/two", "labels": { "team": team } });
        assert!(is_ok(&house.post("/api/execute", body).await));
    }
    let count = async |query: &str| {
        let list = house.get(&format!("/api/executions?{query}")).await;
        list.json()
            .as_array()
            .unwrap_or_else(|| panic!("{}", list.text))
            .len()
    };
    for (query, hits) in [
        ("label=team", 2),
        ("label=team%3Dred", 1),
        ("label=team%3Dgreen", 0),
        ("label=other", 0),
        ("since=2020-01-01T00:00:00Z", 2),
        ("since=2999-01-01T00:00:00Z", 0),
        ("until=2020-01-01T00:00:00Z", 0),
        ("until=2999-01-01T00:00:00Z", 2),
        ("q=demo", 2),
        ("q=nothing", 0),
    ] {
        assert_eq!(count(query).await, hits, "{query}");
    }
    house
        .get("/api/executions?since=yesterday")
        .await
        .is_problem(ErrorCode::BadQuery);
}

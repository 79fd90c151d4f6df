//! As many executions of a tenant go on as may.

use axum::body::Body;
use axum::http::Method;
use noetl_api::execute::ExecuteRequest;
use noetl_types::{ErrorCode, Scope};
use serde_json::{Value, json};

use super::backends::{Shelter, on_every_store};
use super::tokens::token_of;
use super::{House, Reply, TWO_STEPS, request};
use crate::http::settings::HttpSettings;

/// A house in which three executions may go on.
async fn small_house(shelter: &Shelter) -> House {
    let house = shelter
        .house(HttpSettings::default(), |settings| {
            settings.max_live_executions = 3;
        })
        .await;
    let body = json!({ "content": TWO_STEPS });
    let registered = house.post("/api/catalog/register", body).await;
    assert_eq!(registered.status, 200, "{}", registered.text);
    house
}

async fn start_once(house: &House, key: &str) -> Reply {
    let body = Body::from(json!({ "path": "demo/two" }).to_string());
    let mut request = request(Method::POST, "/api/execute", body);
    let headers = request.headers_mut();
    headers.insert("idempotency-key", key.parse().unwrap());
    house.send(request).await
}

async fn start(house: &House) -> Reply {
    house
        .post("/api/execute", json!({ "path": "demo/two" }))
        .await
}

#[tokio::test]
async fn what_is_beyond_the_limit_is_refused_until_some_have_ended() {
    on_every_store(async |shelter: &Shelter| {
        let house = small_house(shelter).await;
        let first = start_once(&house, "k1").await;
        assert_eq!(first.status, 200, "{}", first.text);
        let first = first.text_at("/execution_id");
        assert_eq!(start(&house).await.status, 200);
        let two = json!({ "executions": [{ "path": "demo/two" }, { "path": "demo/two" }] });
        let batch = house.post("/api/execute/batch", two).await;
        assert_eq!(batch.at("/started"), json!(1), "{}", batch.text);
        assert_eq!(batch.at("/failed"), json!(1), "{}", batch.text);

        let refused = start(&house).await;
        refused.is_problem(ErrorCode::Quota);
        assert!(
            refused.text.contains("has 3 executions"),
            "{}",
            refused.text
        );
        let rerun = format!("/api/executions/{first}/rerun");
        let rerun = house.post(&rerun, json!({})).await;
        rerun.is_problem(ErrorCode::Quota);
        // What began under a key is told again.
        let again = start_once(&house, "k1").await;
        assert_eq!(again.text_at("/execution_id"), first);
        start_once(&house, "k2").await.is_problem(ErrorCode::Quota);

        for _ in 0..3 {
            house.work().await;
        }
        for _ in 0..3 {
            assert_eq!(start(&house).await.status, 200);
        }
        start(&house).await.is_problem(ErrorCode::Quota);
    })
    .await;
}

/// A message that comes again begins nothing, so there is room for it.
#[tokio::test]
async fn a_message_that_began_something_is_told_so_at_the_limit() {
    on_every_store(async |shelter: &Shelter| {
        let house = small_house(shelter).await;
        let message = async |key: &str, payload: Value| {
            let dedup = json!({ "key": key });
            let body = json!({ "path": "demo/two", "payload": payload, "dedup": dedup });
            house.post("/api/execute", body).await
        };
        let first = message("m", json!({})).await;
        assert_eq!(first.text_at("/status"), "started");
        for _ in 0..2 {
            assert_eq!(start(&house).await.status, 200);
        }
        let again = message("m", json!({})).await;
        assert_eq!(again.text_at("/status"), "duplicate", "{}", again.text);
        let id = "/execution_id";
        assert_eq!(again.text_at(id), first.text_at(id));
        let other = message("m", json!({ "other": 1 })).await;
        other.is_problem(ErrorCode::DedupMismatch);
        message("n", json!({})).await.is_problem(ErrorCode::Quota);
    })
    .await;
}

/// Only a worker starts what its run needs; everybody else could name any run of theirs.
#[tokio::test]
async fn to_name_a_parent_or_a_path_of_the_platform_is_no_way_around() {
    let shelter = Shelter::memory();
    let house = small_house(&shelter).await;
    let parent = start(&house).await.text_at("/execution_id");
    for _ in 0..2 {
        assert_eq!(start(&house).await.status, 200);
    }
    let child = json!({ "path": "demo/two", "parent_execution_id": parent });
    let ask = async |scope: Scope| {
        let token = token_of(&house.runtime, "default", &[scope]).await;
        let execute = "/api/execute";
        house
            .call(&token, Method::POST, execute, child.clone())
            .await
    };
    ask(Scope::ExecRun).await.is_problem(ErrorCode::Quota);
    assert_eq!(ask(Scope::Worker).await.status, 200);

    let theirs = token_of(&house.runtime, "acme", &[Scope::Admin]).await;
    let post = async |path: &str, body| house.call(&theirs, Method::POST, path, body).await;
    let content = TWO_STEPS.replace("demo/two", "system/two");
    post("/api/catalog/register", json!({ "content": content })).await;
    let own = json!({ "path": "system/two" });
    for _ in 0..3 {
        assert_eq!(post("/api/execute", own.clone()).await.status, 200);
    }
    let refused = post("/api/execute", own).await;
    refused.is_problem(ErrorCode::Quota);
}

/// A child that is refused would fail its parent, and what keeps the platform going would stop.
#[tokio::test]
async fn children_and_the_platform_are_not_refused() {
    on_every_store(async |shelter: &Shelter| {
        let house = small_house(shelter).await;
        house.runtime.register_shipped().await.unwrap();
        let parent = start(&house).await.text_at("/execution_id");
        for _ in 0..2 {
            assert_eq!(start(&house).await.status, 200);
        }
        let wanted = async |body: Value| house.post("/api/execute", body).await;
        let child = json!({ "path": "demo/two", "parent_execution_id": parent });
        assert_eq!(wanted(child.clone()).await.status, 200);
        let cleanup = ExecuteRequest {
            path: Some("system/scheduled_cleanup".parse().unwrap()),
            ..ExecuteRequest::default()
        };
        house.runtime.execute(cleanup).await.unwrap();
        start(&house).await.is_problem(ErrorCode::Quota);
        // Of a run that has ended there are no children.
        let cancelled = format!("/api/executions/{parent}/cancel");
        let cancelled = house.post(&cancelled, json!({ "cascade": false })).await;
        assert_eq!(cancelled.status, 200, "{}", cancelled.text);
        wanted(child).await.is_problem(ErrorCode::Quota);
    })
    .await;
}

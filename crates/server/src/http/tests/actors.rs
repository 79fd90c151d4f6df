//! Who did something: in the logs of runs, in the trail, and in the log of the server.

use std::sync::atomic::Ordering;

use axum::body::{Body, to_bytes};
use axum::http::Method;
use noetl_types::{ErrorCode, Scope};
use serde_json::{Value, json};

use super::faults::breakable;
use super::paper::Paper;
use super::tokens::{token_of, with_token};
use super::{House, TWO_STEPS, closed_house, closed_settings, house, house_with, is_ok, request};

const USER: [Scope; 4] = [
    Scope::ExecRead,
    Scope::ExecRun,
    Scope::CatalogWrite,
    Scope::Worker,
];

/// What the first event of a run says about who asked for it.
async fn starter(house: &House, token: Option<&str>, execution_id: &Value) -> Value {
    let id = execution_id.as_str().unwrap();
    let path = format!("/api/executions/{id}/events?limit=1");
    let page = match token {
        Some(token) => house.call(token, Method::GET, &path, json!({})).await,
        None => house.get(&path).await,
    };
    assert_eq!(page.text_at("/events/0/event_type"), "playbook.started");
    page.at("/events/0/meta")
        .get("actor")
        .cloned()
        .unwrap_or_default()
}

#[tokio::test]
async fn a_run_says_who_asked_for_it() {
    let house = closed_house().await;
    let user = token_of(&house.runtime, "acme", &USER).await;
    let post = async |path: &str, body: Value| {
        let done = house.call(&user, Method::POST, path, body).await;
        assert!(is_ok(&done), "{path}: {}", done.text);
        done
    };
    post("/api/catalog/register", json!({ "content": TWO_STEPS })).await;
    let wanted = json!({ "path": "demo/two" });
    let alone = post("/api/execute", wanted.clone())
        .await
        .at("/execution_id");
    let batch = post("/api/execute/batch", json!({ "executions": [wanted] })).await;
    let rerun = format!("/api/executions/{}/rerun", alone.as_str().unwrap());
    let again = post(&rerun, json!({})).await.at("/execution_id");
    for id in [alone, batch.at("/results/0/execution_id"), again] {
        assert_eq!(starter(&house, Some(&user), &id).await, "acme-token");
    }
}

#[tokio::test]
async fn whoever_shows_nothing_is_not_named() {
    let house = house().await;
    let id = json!(house.started().await);
    assert_eq!(starter(&house, None, &id).await, Value::Null);
}

#[tokio::test]
async fn changes_of_the_catalog_and_leave_of_workers_are_in_the_trail() {
    let house = closed_house().await;
    let user = token_of(&house.runtime, "acme", &USER).await;
    let admin = token_of(&house.runtime, "acme", &[Scope::Admin]).await;
    let calls = [
        (
            Method::POST,
            "/api/catalog/register",
            json!({ "content": TWO_STEPS }),
        ),
        (Method::DELETE, "/api/catalog/playbooks/demo/two", json!({})),
        (
            Method::POST,
            "/api/catalog/restore",
            json!({ "path": "demo/two" }),
        ),
        (
            Method::POST,
            "/api/worker/pool/register",
            json!({ "name": "w1" }),
        ),
        (
            Method::POST,
            "/api/worker/pool/drain",
            json!({ "name": "w1" }),
        ),
    ];
    for (method, path, body) in calls {
        let done = house.call(&user, method, path, body).await;
        assert!(is_ok(&done), "{path}: {}", done.text);
    }
    let nobody = json!({ "name": "w2" });
    let none = house.call(&user, Method::POST, "/api/worker/pool/drain", nobody);
    none.await.is_problem(ErrorCode::NotFound);
    let trail = house
        .call(&admin, Method::GET, "/api/audit", json!({}))
        .await;
    let entries = trail.at("/entries");
    let entries = entries.as_array().unwrap().iter().rev();
    let told: Vec<_> = entries
        .map(|entry| {
            assert_eq!(entry["actor"], "acme-token");
            let text = |key: &str| entry[key].as_str().unwrap().to_owned();
            (text("act"), text("outcome"))
        })
        .collect();
    let expected = [
        ("POST /api/catalog/register", "ok"),
        ("DELETE /api/catalog/playbooks/{*playbook_id}", "ok"),
        ("POST /api/catalog/restore", "ok"),
        ("POST /api/worker/pool/drain", "ok"),
        ("POST /api/worker/pool/drain", "not_found"),
    ]
    .map(|(act, outcome)| (act.to_owned(), outcome.to_owned()));
    assert_eq!(told, expected);
}

#[tokio::test]
async fn what_is_logged_says_whose_it_is_and_of_which_run() {
    let house = closed_house().await;
    let user = token_of(&house.runtime, "acme", &USER).await;
    let paper = Paper::default();
    let watched = paper.watch();
    let path = "/api/executions/7000000000000000000";
    let none = house.call(&user, Method::GET, path, json!({})).await;
    none.is_problem(ErrorCode::NotFound);
    let wrong = "/api/executions/anything-at-all";
    let wrong = house.call(&user, Method::GET, wrong, json!({})).await;
    wrong.is_problem(ErrorCode::BadId);
    drop(watched);
    let lines = paper.saying("request");
    assert_eq!(lines.len(), 2, "{lines:?}");
    for (line, reply) in lines.iter().zip([&none, &wrong]) {
        let of = &line["span"];
        assert_eq!(of["request_id"].as_str(), reply.header("x-request-id"));
        assert_eq!(
            (&of["tenant"], &of["actor"]),
            (&json!("acme"), &json!("acme-token"))
        );
    }
    assert_eq!(lines[0]["span"]["execution_id"], "7000000000000000000");
    assert_eq!(lines[1]["span"].get("execution_id"), None);
}

/// Before it is known whose a request is, and long after it was answered.
#[tokio::test]
async fn what_is_logged_at_the_door_and_of_live_answers_says_of_which_request_it_is() {
    let (store, is_broken) = breakable();
    let house = house_with(store, &closed_settings()).await;
    let user = token_of(&house.runtime, "acme", &USER).await;
    let register = json!({ "content": TWO_STEPS });
    house
        .call(&user, Method::POST, "/api/catalog/register", register)
        .await;
    let begin = json!({ "path": "demo/two" });
    let begun = house.call(&user, Method::POST, "/api/execute", begin).await;
    let id = begun.text_at("/execution_id");
    let paper = Paper::default();
    let watched = paper.watch();
    let follow = format!("/api/executions/{id}/events/stream");
    let follow = with_token(request(Method::GET, &follow, Body::empty()), &user);
    let live = house.front.answer(&super::peer().into(), follow).await;
    assert_eq!(live.status(), 200);
    is_broken.store(true, Ordering::SeqCst);
    to_bytes(live.into_body(), 1 << 20).await.unwrap();
    let ends = paper.saying("a live answer ends early");
    assert_eq!(ends.len(), 1, "{ends:?}");
    assert_eq!(ends[0]["span"]["actor"], "acme-token");
    assert_eq!(ends[0]["span"]["execution_id"], json!(id));
    // Whose a token is that nobody knows yet only the store can tell.
    let stranger = format!("noetl_{}_{}", "a".repeat(8), "b".repeat(43));
    let refused = house
        .call(&stranger, Method::GET, "/api/whoami", json!({}))
        .await;
    drop(watched);
    let of = refused.header("x-request-id").unwrap();
    let failed = paper.saying("the store failed");
    let found = failed.iter().find(|line| line["span"]["request_id"] == of);
    assert!(found.is_some(), "{of}: {} {failed:?}", refused.text);
}

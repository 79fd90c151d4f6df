//! Definitions over the wire.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use noetl_types::ErrorCode;
use serde_json::{Value, json};

use super::{House, Reply, TWO_STEPS, house, is_ok};

async fn register(house: &House, content: &str) -> Reply {
    house
        .post("/api/catalog/register", json!({ "content": content }))
        .await
}

#[tokio::test]
async fn versions_follow_content() {
    let house = house().await;
    let first = register(&house, TWO_STEPS).await;
    assert_eq!(first.text_at("/status"), "success");
    assert_eq!(first.text_at("/path"), "demo/two");
    assert_eq!(first.text_at("/kind"), "playbook");
    assert_eq!(
        (first.at("/version"), first.at("/unchanged")),
        (json!(1), json!(false))
    );
    let catalog_id = first.text_at("/catalog_id");
    // The same content, packed: nothing new.
    let same = register(&house, &BASE64_STANDARD.encode(TWO_STEPS)).await;
    assert_eq!(
        (same.at("/version"), same.at("/unchanged")),
        (json!(1), json!(true))
    );
    assert_eq!(same.text_at("/catalog_id"), catalog_id);
    let other = register(&house, &format!("{TWO_STEPS}# more\n")).await;
    assert_eq!(
        (other.at("/version"), other.at("/unchanged")),
        (json!(2), json!(false))
    );

    for (wanted, version) in [
        (json!({ "path": "demo/two" }), 2),
        (json!({ "path": "demo/two", "version": "latest" }), 2),
        (json!({ "path": "demo/two", "version": 1 }), 1),
        (json!({ "path": "demo/two", "version": "1" }), 1),
        (json!({ "catalog_id": catalog_id }), 1),
        (json!({ "catalog_id": catalog_id, "path": "elsewhere" }), 1),
        (
            json!({ "catalog_id": catalog_id.parse::<u64>().unwrap() }),
            1,
        ),
    ] {
        let item = house.post("/api/catalog/resource", wanted.clone()).await;
        assert!(is_ok(&item), "{wanted}: {}", item.text);
        assert_eq!(item.at("/version"), version, "{wanted}");
        assert!(item.text_at("/content").starts_with(TWO_STEPS));
    }
    for (wanted, code) in [
        (json!({}), ErrorCode::Validation),
        (
            json!({ "path": "demo/two", "version": "newest" }),
            ErrorCode::Validation,
        ),
        (
            json!({ "path": "demo/two", "version": 3 }),
            ErrorCode::NotFound,
        ),
        (json!({ "path": "nowhere" }), ErrorCode::NotFound),
        (json!({ "catalog_id": 7 }), ErrorCode::NotFound),
    ] {
        let reply = house.post("/api/catalog/resource", wanted).await;
        reply.is_problem(code);
    }
}

#[tokio::test]
async fn a_rehearsal_writes_nothing() {
    let house = house().await;
    let body = json!({ "content": TWO_STEPS, "dry_run": true });
    let dry = house.post("/api/catalog/register", body.clone()).await;
    assert!(is_ok(&dry), "{}", dry.text);
    assert_eq!(dry.json().get("version"), None);
    let wanted = json!({ "path": "demo/two" });
    let reply = house.post("/api/catalog/resource", wanted).await;
    reply.is_problem(ErrorCode::NotFound);
    register(&house, TWO_STEPS).await;
    let dry = house.post("/api/catalog/register", body).await;
    assert_eq!(
        (dry.at("/version"), dry.at("/unchanged")),
        (json!(1), json!(true))
    );
}

#[tokio::test]
async fn errors_are_told_with_their_places() {
    let house = house().await;
    let wrong = TWO_STEPS.replace("step: last }] }", "step: lost }] }");
    let reply = register(&house, &wrong).await;
    reply.is_problem(ErrorCode::Validation);
    assert_eq!(reply.at("/errors/0/line"), 9, "{}", reply.text);
    assert!(reply.text_at("/errors/0/code").starts_with("NP"));
    let reply = register(&house, "workflow: [").await;
    reply.is_problem(ErrorCode::YamlSyntax);
    assert!(reply.at("/errors/0/line").is_u64());
    for content in ["", "just words", "a: b"] {
        let reply = register(&house, content).await;
        assert!(
            (400..=422).contains(&reply.status),
            "{content}: {}",
            reply.text
        );
    }
}

#[tokio::test]
async fn documents_of_other_kinds_are_kept_under_their_kind() {
    let house = house().await;
    let schedule = "apiVersion: noetl.io/v1
kind: Schedule
metadata: { name: nightly }
spec: { playbook: demo/two, cron: '0 3 * * *' }
";
    let reply = register(&house, schedule).await;
    assert!(is_ok(&reply), "{}", reply.text);
    assert_eq!(
        (&*reply.text_at("/kind"), &*reply.text_at("/path")),
        ("schedule", "nightly")
    );
    let unchecked = "apiVersion: v1\nkind: Toaster\nmetadata: { name: m, path: models/m }\n";
    let reply = register(&house, unchecked).await;
    assert!(is_ok(&reply), "{}", reply.text);
    assert_eq!(
        (&*reply.text_at("/kind"), &*reply.text_at("/path")),
        ("toaster", "models/m")
    );
    let codes = reply.at("/warnings");
    assert!(
        codes
            .as_array()
            .unwrap()
            .iter()
            .any(|found| found["code"] == "NP009"),
        "{codes}"
    );
    let nameless = register(&house, "apiVersion: v1\nkind: Model\n").await;
    nameless.is_problem(ErrorCode::Validation);
}

#[tokio::test]
async fn what_the_system_runs_is_for_admins() {
    let house = house().await;
    let system = TWO_STEPS.replace("demo/two", "system/two");
    let reply = register(&house, &system).await;
    reply.is_problem(ErrorCode::Forbidden);
    let request = serde_json::from_value(json!({ "content": system })).unwrap();
    let answer = house
        .runtime
        .register_any_definition(request)
        .await
        .unwrap();
    assert_eq!(
        serde_json::to_value(answer).unwrap()["version"],
        Value::from(1)
    );
}

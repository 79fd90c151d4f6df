//! Definitions in lists, their texts and forms.

use noetl_types::ErrorCode;
use serde_json::{Value, json};

use super::{House, TWO_STEPS, house, is_ok};

const AGENT: &str =
    "kind: Agent\nmetadata: { name: helper, path: agents/helper, capabilities: [read, write] }\n";

async fn register(house: &House, content: &str) {
    let body = json!({ "content": content });
    let reply = house.post("/api/catalog/register", body).await;
    assert!(is_ok(&reply), "{}", reply.text);
}

fn named(path: &str) -> String {
    TWO_STEPS.replace("demo/two", path)
}

#[tokio::test]
async fn definitions_are_listed() {
    let house = house().await;
    for path in ["b", "a", "c/d"] {
        register(&house, &named(path)).await;
    }
    register(&house, AGENT).await;
    let paths = |reply: &super::Reply| -> Vec<String> {
        let entries = reply.at("/entries");
        let entries = entries.as_array().unwrap().iter();
        entries
            .map(|entry| entry["path"].as_str().unwrap().to_owned())
            .collect()
    };
    let all = house.post("/api/catalog/list", json!({})).await;
    assert_eq!(paths(&all), ["a", "agents/helper", "b", "c/d"]);
    assert!(all.text_at("/entries/0/content").contains("workflow"));
    assert_eq!(all.text_at("/entries/0/status"), "active");
    let some = json!({ "resource_type": "Playbook", "q": "b", "include_content": false });
    let some = house.post("/api/catalog/list", some).await;
    assert_eq!(paths(&some), ["b"]);
    assert_eq!(some.json().pointer("/entries/0/content"), None);
    let first = house.post("/api/catalog/list", json!({ "limit": 2 })).await;
    assert_eq!(paths(&first), ["a", "agents/helper"]);
    let next = json!({ "limit": 2, "cursor": first.at("/next_cursor") });
    let next = house.post("/api/catalog/list", next).await;
    assert_eq!(paths(&next), ["b", "c/d"]);
    assert_eq!(next.json().get("next_cursor"), None);

    let kinds = house.get("/api/catalog/list/Playbook").await;
    assert_eq!(kinds.json(), json!(["a", "b", "c/d"]));
    let able = json!({ "capabilities": ["write"] });
    let able = house.post("/api/catalog/agents/list", able).await;
    assert_eq!(paths(&able), ["agents/helper"]);
    let unable = json!({ "capabilities": ["write", "fly"] });
    let unable = house.post("/api/catalog/agents/list", unable).await;
    assert_eq!(unable.at("/entries"), json!([]));
}

#[tokio::test]
async fn all_versions_are_listed_in_pages() {
    let house = house().await;
    for path in ["b", "a", "c"] {
        register(&house, &named(path)).await;
    }
    for step in ["x", "y"] {
        let text = named("a").replace("metadata:", &format!("# {step}\nmetadata:"));
        register(&house, &text).await;
    }
    let mut cursor = Value::Null;
    let mut pages: Vec<Vec<(String, u64)>> = Vec::new();
    loop {
        let mut body = json!({ "latest_only": false, "limit": 2, "include_content": false });
        if !cursor.is_null() {
            body["cursor"] = cursor;
        }
        let page = house.post("/api/catalog/list", body).await;
        assert!(is_ok(&page), "{}", page.text);
        let entries = page.at("/entries");
        let shown = entries.as_array().unwrap().iter().map(|entry| {
            let path = entry["path"].as_str().unwrap().to_owned();
            (path, entry["version"].as_u64().unwrap())
        });
        pages.push(shown.collect());
        match page.json().get("next_cursor") {
            Some(next) => cursor = next.clone(),
            None => break,
        }
    }
    let a = |version| ("a".to_owned(), version);
    let expected = [vec![a(3), a(2)], vec![a(1), ("b".to_owned(), 1)]];
    assert_eq!(pages[..2], expected);
    assert_eq!(pages[2..], [vec![("c".to_owned(), 1)]]);
    let named = json!({ "latest_only": false, "q": "a" });
    let named = house.post("/api/catalog/list", named).await;
    assert_eq!(named.at("/entries").as_array().unwrap().len(), 3);
    let odd = json!({ "latest_only": false, "cursor": "a" });
    let odd = house.post("/api/catalog/list", odd).await;
    odd.is_problem(ErrorCode::BadQuery);
}

#[tokio::test]
async fn many_definitions_are_registered_each_by_itself() {
    let house = house().await;
    let items =
        json!([{ "content": TWO_STEPS }, { "content": "kind: [" }, { "content": named("x") }]);
    let answer = house
        .post("/api/catalog/register/batch", json!({ "items": items }))
        .await;
    assert!(is_ok(&answer), "{}", answer.text);
    assert_eq!(
        (answer.at("/registered"), answer.at("/failed")),
        (json!(2), json!(1))
    );
    assert_eq!(answer.text_at("/results/0/path"), "demo/two");
    assert_eq!(answer.text_at("/results/1/status"), "error");
    assert!(!answer.text_at("/results/1/error").is_empty());
    let many = Value::from(vec![json!({ "content": "" }); 201]);
    let refused = house
        .post("/api/catalog/register/batch", json!({ "items": many }))
        .await;
    refused.is_problem(ErrorCode::Validation);
}

#[tokio::test]
async fn texts_are_read_checked_and_replaced() {
    let house = house().await;
    register(&house, TWO_STEPS).await;
    let address = "/api/catalog/playbook/content?playbook_id=demo%2Ftwo";
    let content = house.get(address).await;
    assert_eq!(content.text_at("/content"), TWO_STEPS);
    let changed = format!("{TWO_STEPS}# more\n");
    let put = house.put(address, json!({ "content": changed })).await;
    assert_eq!(put.at("/version"), 2, "{}", put.text);
    let other = house
        .put(address, json!({ "content": named("elsewhere") }))
        .await;
    other.is_problem(ErrorCode::Validation);
    let put = house
        .put("/api/catalog/playbook", json!({ "content": named("new") }))
        .await;
    assert_eq!(put.at("/version"), 1, "{}", put.text);
    house
        .get("/api/catalog/playbook/content")
        .await
        .is_problem(ErrorCode::BadQuery);
    house
        .get("/api/catalog/playbook/content?playbook_id=nowhere")
        .await
        .is_problem(ErrorCode::NotFound);

    let check = "/api/catalog/playbooks/validate";
    let well = house.post(check, json!({ "content": TWO_STEPS })).await;
    assert_eq!(well.at("/valid"), true, "{}", well.text);
    let broken = TWO_STEPS.replace("kind: noop", "kind: nope");
    let broken = house.post(check, json!({ "content": broken })).await;
    assert_eq!(broken.at("/valid"), false);
    assert!(!broken.text_at("/errors/0").is_empty());
    assert!(broken.at("/diagnostics/0/line").as_u64().unwrap() > 1);
}

#[tokio::test]
async fn a_form_is_read_off_the_workload() {
    let house = house().await;
    let content = TWO_STEPS.replace(
        "workload: { greeting: hello }",
        "workload: { greeting: hello, limits: { rows: 5 }, all: true }",
    );
    register(&house, &content).await;
    let form = house.get("/api/catalog/demo/two/ui_schema").await;
    assert!(is_ok(&form), "{}", form.text);
    assert_eq!(
        (form.text_at("/title"), form.at("/version")),
        ("two".into(), json!(1))
    );
    let kinds: Vec<String> = (0..3)
        .map(|at| form.text_at(&format!("/fields/{at}/kind")))
        .collect();
    assert_eq!(kinds, ["string", "object", "boolean"]);
    assert_eq!(form.text_at("/fields/1/children/0/kind"), "number");
    assert_eq!(form.text_at("/fields/0/default"), "hello");
    house
        .get("/api/catalog/demo/two/ui_schema?version=9")
        .await
        .is_problem(ErrorCode::NotFound);
    house
        .get("/api/catalog/demo/two/other")
        .await
        .is_problem(ErrorCode::NotFound);
}

#[tokio::test]
async fn a_definition_is_archived_and_restored() {
    let house = house().await;
    let execution_id = house.started().await;
    let archive = || {
        let path = "/api/catalog/playbooks/demo/two";
        house.send(super::request(axum::http::Method::DELETE, path, ""))
    };
    archive().await.is_problem(ErrorCode::InFlight);
    let stop = format!("/api/executions/{execution_id}/stop");
    assert!(is_ok(&house.post(&stop, json!({})).await));
    let archived = archive().await;
    assert_eq!(archived.text_at("/status"), "archived", "{}", archived.text);
    let list = house.post("/api/catalog/list", json!({})).await;
    assert_eq!(list.at("/entries"), json!([]));
    let run = json!({ "path": "demo/two" });
    let refused = house.post("/api/execute", run.clone()).await;
    refused.is_problem(ErrorCode::NotFound);
    let restored = house
        .post("/api/catalog/restore", json!({ "path": "demo/two" }))
        .await;
    assert_eq!(restored.text_at("/status"), "active", "{}", restored.text);
    assert!(is_ok(&house.post("/api/execute", run).await));
    house
        .post("/api/catalog/restore", json!({ "path": "nowhere" }))
        .await
        .is_problem(ErrorCode::NotFound);
}

#[tokio::test]
async fn versions_are_listed_newest_first() {
    let house = house().await;
    for more in ["", "# two\n", "# three\n"] {
        register(&house, &format!("{TWO_STEPS}{more}")).await;
    }
    let first = house.get("/api/catalog/demo/two/versions?limit=2").await;
    assert!(is_ok(&first), "{}", first.text);
    assert_eq!(
        (
            first.at("/entries/0/version"),
            first.at("/entries/1/version")
        ),
        (json!(3), json!(2))
    );
    let cursor = first.text_at("/next_cursor");
    let rest = house
        .get(&format!("/api/catalog/demo/two/versions?cursor={cursor}"))
        .await;
    assert_eq!(rest.at("/entries").as_array().unwrap().len(), 1);
    assert_eq!(rest.json().get("next_cursor"), None);
}

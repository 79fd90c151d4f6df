//! Lists, contents and forms of definitions.

use noetl_types::ErrorCode;
use serde_json::{Value, json};

use super::{TWO_STEPS, TestServer, is_ok, start_server};

const AGENT_DOCUMENT: &str =
    "kind: Agent\nmetadata: { name: helper, path: agents/helper, capabilities: [read, write] }\n";

async fn register_content(server: &TestServer, content: &str) {
    let body = json!({ "content": content });
    let reply = server.post("/api/catalog/register", body).await;
    assert!(is_ok(&reply), "{}", reply.text);
}

fn playbook_at_path(path: &str) -> String {
    TWO_STEPS.replace("demo/two", path)
}

#[tokio::test]
async fn lists_definitions() {
    let server = start_server().await;
    for path in ["b", "a", "c/d"] {
        register_content(&server, &playbook_at_path(path)).await;
    }
    register_content(&server, AGENT_DOCUMENT).await;
    let paths = |reply: &super::TestResponse| -> Vec<String> {
        let entries = reply.json_at("/entries");
        let entries = entries.as_array().unwrap().iter();
        entries.map(|entry| entry["path"].as_str().unwrap().to_owned()).collect()
    };
    let all = server.post("/api/catalog/list", json!({})).await;
    assert_eq!(paths(&all), ["a", "agents/helper", "b", "c/d"]);
    assert!(all.text_at("/entries/0/content").contains("workflow"));
    assert_eq!(all.text_at("/entries/0/status"), "active");
    let filtered = json!({ "resource_type": "Playbook", "q": "b", "include_content": false });
    let filtered = server.post("/api/catalog/list", filtered).await;
    assert_eq!(paths(&filtered), ["b"]);
    assert_eq!(filtered.json().pointer("/entries/0/content"), None);
    let first = server.post("/api/catalog/list", json!({ "limit": 2 })).await;
    assert_eq!(paths(&first), ["a", "agents/helper"]);
    let next = json!({ "limit": 2, "cursor": first.json_at("/next_cursor") });
    let next = server.post("/api/catalog/list", next).await;
    assert_eq!(paths(&next), ["b", "c/d"]);
    assert_eq!(next.json().get("next_cursor"), None);

    let kinds = server.get("/api/catalog/list/Playbook").await;
    assert_eq!(kinds.json(), json!(["a", "b", "c/d"]));
    let capable = json!({ "capabilities": ["write"] });
    let capable = server.post("/api/catalog/agents/list", capable).await;
    assert_eq!(paths(&capable), ["agents/helper"]);
    let incapable = json!({ "capabilities": ["write", "fly"] });
    let incapable = server.post("/api/catalog/agents/list", incapable).await;
    assert_eq!(incapable.json_at("/entries"), json!([]));
}

#[tokio::test]
async fn lists_all_versions_in_pages() {
    let server = start_server().await;
    for path in ["b", "a", "c"] {
        register_content(&server, &playbook_at_path(path)).await;
    }
    for step in ["x", "y"] {
        let text = playbook_at_path("a").replace("metadata:", &format!("# {step}\nmetadata:"));
        register_content(&server, &text).await;
    }
    let mut cursor = Value::Null;
    let mut pages: Vec<Vec<(String, u64)>> = Vec::new();
    loop {
        let mut body = json!({ "latest_only": false, "limit": 2, "include_content": false });
        if !cursor.is_null() {
            body["cursor"] = cursor;
        }
        let page = server.post("/api/catalog/list", body).await;
        assert!(is_ok(&page), "{}", page.text);
        let entries = page.json_at("/entries");
        let listed = entries.as_array().unwrap().iter().map(|entry| {
            let path = entry["path"].as_str().unwrap().to_owned();
            (path, entry["version"].as_u64().unwrap())
        });
        pages.push(listed.collect());
        match page.json().get("next_cursor") {
            Some(next) => cursor = next.clone(),
            None => break,
        }
    }
    let a = |version| ("a".to_owned(), version);
    let expected = [vec![a(3), a(2)], vec![a(1), ("b".to_owned(), 1)]];
    assert_eq!(pages[..2], expected);
    assert_eq!(pages[2..], [vec![("c".to_owned(), 1)]]);
    let filtered = json!({ "latest_only": false, "q": "a" });
    let filtered = server.post("/api/catalog/list", filtered).await;
    assert_eq!(filtered.json_at("/entries").as_array().unwrap().len(), 3);
    let invalid = json!({ "latest_only": false, "cursor": "a" });
    let invalid = server.post("/api/catalog/list", invalid).await;
    invalid.assert_problem(ErrorCode::BadQuery);
}

#[tokio::test]
async fn batch_registration_reports_each_item() {
    let server = start_server().await;
    let items = json!([{ "content": TWO_STEPS }, { "content": "kind: [" }, { "content": playbook_at_path("x") }]);
    let reply = server.post("/api/catalog/register/batch", json!({ "items": items })).await;
    assert!(is_ok(&reply), "{}", reply.text);
    assert_eq!((reply.json_at("/registered"), reply.json_at("/failed")), (json!(2), json!(1)));
    assert_eq!(reply.text_at("/results/0/path"), "demo/two");
    assert_eq!(reply.text_at("/results/1/status"), "error");
    assert!(!reply.text_at("/results/1/error").is_empty());
    let many = Value::from(vec![json!({ "content": "" }); 201]);
    let refused = server.post("/api/catalog/register/batch", json!({ "items": many })).await;
    refused.assert_problem(ErrorCode::Validation);
}

#[tokio::test]
async fn reads_validates_and_replaces_content() {
    let server = start_server().await;
    register_content(&server, TWO_STEPS).await;
    let content_path = "/api/catalog/playbook/content?playbook_id=demo%2Ftwo";
    let content = server.get(content_path).await;
    assert_eq!(content.text_at("/content"), TWO_STEPS);
    let changed = format!("{TWO_STEPS}# more\n");
    let put = server.put(content_path, json!({ "content": changed })).await;
    assert_eq!(put.json_at("/version"), 2, "{}", put.text);
    let other = server.put(content_path, json!({ "content": playbook_at_path("elsewhere") })).await;
    other.assert_problem(ErrorCode::Validation);
    let put =
        server.put("/api/catalog/playbook", json!({ "content": playbook_at_path("new") })).await;
    assert_eq!(put.json_at("/version"), 1, "{}", put.text);
    server.get("/api/catalog/playbook/content").await.assert_problem(ErrorCode::BadQuery);
    server
        .get("/api/catalog/playbook/content?playbook_id=nowhere")
        .await
        .assert_problem(ErrorCode::NotFound);

    let validate_path = "/api/catalog/playbooks/validate";
    let valid = server.post(validate_path, json!({ "content": TWO_STEPS })).await;
    assert_eq!(valid.json_at("/valid"), true, "{}", valid.text);
    let broken = TWO_STEPS.replace("kind: noop", "kind: nope");
    let broken = server.post(validate_path, json!({ "content": broken })).await;
    assert_eq!(broken.json_at("/valid"), false);
    assert!(!broken.text_at("/errors/0").is_empty());
    assert!(broken.json_at("/diagnostics/0/line").as_u64().unwrap() > 1);
}

#[tokio::test]
async fn derives_form_from_workload() {
    let server = start_server().await;
    let content = TWO_STEPS.replace(
        "workload: { greeting: hello }",
        "workload: { greeting: hello, limits: { rows: 5 }, all: true }",
    );
    register_content(&server, &content).await;
    let form = server.get("/api/catalog/demo/two/ui_schema").await;
    assert!(is_ok(&form), "{}", form.text);
    assert_eq!((form.text_at("/title"), form.json_at("/version")), ("two".into(), json!(1)));
    let kinds: Vec<String> =
        (0..3).map(|index| form.text_at(&format!("/fields/{index}/kind"))).collect();
    assert_eq!(kinds, ["string", "object", "boolean"]);
    assert_eq!(form.text_at("/fields/1/children/0/kind"), "number");
    assert_eq!(form.text_at("/fields/0/default"), "hello");
    server
        .get("/api/catalog/demo/two/ui_schema?version=9")
        .await
        .assert_problem(ErrorCode::NotFound);
    server.get("/api/catalog/demo/two/other").await.assert_problem(ErrorCode::NotFound);
}

#[tokio::test]
async fn archives_and_restores_definition() {
    let server = start_server().await;
    let execution_id = server.start_two_steps().await;
    let archive = || {
        let path = "/api/catalog/playbooks/demo/two";
        server.send(super::build_request(axum::http::Method::DELETE, path, ""))
    };
    archive().await.assert_problem(ErrorCode::InFlight);
    let stop = format!("/api/executions/{execution_id}/stop");
    assert!(is_ok(&server.post(&stop, json!({})).await));
    let archived = archive().await;
    assert_eq!(archived.text_at("/status"), "archived", "{}", archived.text);
    let list = server.post("/api/catalog/list", json!({})).await;
    assert_eq!(list.json_at("/entries"), json!([]));
    let request = json!({ "path": "demo/two" });
    let refused = server.post("/api/execute", request.clone()).await;
    refused.assert_problem(ErrorCode::NotFound);
    let restored = server.post("/api/catalog/restore", json!({ "path": "demo/two" })).await;
    assert_eq!(restored.text_at("/status"), "active", "{}", restored.text);
    assert!(is_ok(&server.post("/api/execute", request).await));
    server
        .post("/api/catalog/restore", json!({ "path": "nowhere" }))
        .await
        .assert_problem(ErrorCode::NotFound);
}

#[tokio::test]
async fn lists_versions_newest_first() {
    let server = start_server().await;
    for more in ["", "# two\n", "# three\n"] {
        register_content(&server, &format!("{TWO_STEPS}{more}")).await;
    }
    let first = server.get("/api/catalog/demo/two/versions?limit=2").await;
    assert!(is_ok(&first), "{}", first.text);
    assert_eq!(
        (first.json_at("/entries/0/version"), first.json_at("/entries/1/version")),
        (json!(3), json!(2))
    );
    let cursor = first.text_at("/next_cursor");
    let rest = server.get(&format!("/api/catalog/demo/two/versions?cursor={cursor}")).await;
    assert_eq!(rest.json_at("/entries").as_array().unwrap().len(), 1);
    assert_eq!(rest.json().get("next_cursor"), None);
}

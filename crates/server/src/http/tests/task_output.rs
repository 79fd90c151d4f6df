//! Output of tasks that is sent while they run.

use axum::http::Method;
use noetl_types::{ErrorCode, Scope};
use serde_json::{Value, json};

use super::tokens::create_token;
use super::{TestServer, completed_report, start_secured_server, start_server};

fn output_of(command: &Value, chunks: &Value) -> Value {
    json!({
        "execution_id": command["execution_id"],
        "command_id": command["command_id"],
        "attempt": command["attempt"],
        "lease_token": command["lease_token"],
        "chunks": chunks,
    })
}

fn output_request(command: &Value, chunks: &Value) -> Value {
    json!({ "worker_id": "w1", "outputs": [output_of(command, chunks)] })
}

impl TestServer {
    async fn send_output(&self, command: &Value, chunks: &Value) -> Value {
        let stored = self.post("/api/commands/output", output_request(command, chunks)).await;
        assert_eq!(stored.status, 200, "{}", stored.text);
        stored.json_at("/results/0")
    }
}

#[tokio::test]
async fn output_is_listed_while_its_task_runs() {
    let server = start_server().await;
    let id = server.start_two_steps().await;
    let command = server.lease_command().await;
    let chunks = json!([
        { "number": 0, "task": "start", "stdout": "one\n", "stderr": "oh\n" },
        { "number": 1, "stdout": "two\n", "dropped_bytes": 7 },
    ]);
    assert_eq!(server.send_output(&command, &chunks).await["ok"], true);
    // A repeated request stores nothing.
    assert_eq!(server.send_output(&command, &chunks).await["ok"], true);
    let path = format!("/api/executions/{id}/logs");
    let listed = server.get(&path).await.json();
    assert_eq!(listed["chunks"].as_array().unwrap().len(), 2);
    let first = &listed["chunks"][0];
    assert_eq!((&first["step"], &first["task"]), (&json!("start"), &json!("start")));
    assert_eq!((&first["stdout"], &first["stderr"]), (&json!("one\n"), &json!("oh\n")));
    assert_eq!((&first["position"], &first["attempt"]), (&json!(1), &json!(1)));
    assert_eq!(listed["chunks"][1]["dropped_bytes"], 7);
    for (query, positions) in [
        ("?limit=1", json!([1])),
        ("?after=1", json!([2])),
        ("?step=start&attempt=1", json!([1, 2])),
        ("?step=last", json!([])),
        ("?attempt=2", json!([])),
    ] {
        let page = server.get(&format!("{path}{query}")).await.json();
        let found = page["chunks"].as_array().unwrap().iter().map(|chunk| &chunk["position"]);
        assert_eq!(json!(found.collect::<Vec<_>>()), positions, "{query}");
        assert_eq!(page.get("next_after").is_some(), query == "?limit=1", "{query}");
    }
    server.get(&format!("{path}?limit=501")).await.assert_problem(ErrorCode::OutOfRange);
    server.get(&format!("{path}?color=red")).await.assert_problem(ErrorCode::BadQuery);
    server.get("/api/executions/7/logs").await.assert_problem(ErrorCode::NotFound);
}

/// The rest of the output arrives with the report, and nothing after it.
#[tokio::test]
async fn output_ends_with_its_command() {
    let server = start_server().await;
    let id = server.start_two_steps().await;
    let command = server.lease_command().await;
    server.send_output(&command, &json!([{ "number": 0, "stdout": "one\n" }])).await;
    let mut report = completed_report(&command, &json!(1));
    let last = json!([{ "number": 1, "stdout": "two\n", "last": true }]);
    report["outputs"] = json!([output_of(&command, &last)]);
    let reported = server.post("/api/commands/report", report).await;
    assert_eq!(reported.text_at("/results/0/status"), "accepted");
    let late = server.send_output(&command, &json!([{ "number": 2, "stdout": "late" }])).await;
    assert_eq!((&late["ok"], &late["code"]), (&json!(false), &json!("not_lease_holder")));
    let listed = server.get(&format!("/api/executions/{id}/logs")).await.json();
    let text = |index: usize| {
        (listed["chunks"][index]["stdout"].clone(), listed["chunks"][index]["last"].clone())
    };
    assert_eq!(text(0), (json!("one\n"), json!(false)));
    assert_eq!(text(1), (json!("two\n"), json!(true)));
    assert_eq!(listed["chunks"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn output_stream_resumes_and_ends_with_the_run() {
    let server = start_server().await;
    let id = server.start_two_steps().await;
    let path = format!("/api/executions/{id}/logs/stream");
    let work = async {
        let command = server.lease_command().await;
        for number in 0..3 {
            let chunks = json!([{ "number": number, "stdout": format!("line {number}\n") }]);
            server.send_output(&command, &chunks).await;
        }
        server.complete_command(&command, json!(1)).await;
        let last = server.lease_command().await;
        server.complete_command(&last, json!(1)).await;
    };
    let (followed, ()) = tokio::join!(server.get(&path), work);
    assert_eq!(followed.headers["content-type"], "text/event-stream; charset=utf-8");
    assert!(followed.text.ends_with("event: end\ndata: {}\n\n"), "{}", followed.text);
    let ids = |text: &str| -> Vec<String> {
        text.lines().filter_map(|line| line.strip_prefix("id: ")).map(str::to_owned).collect()
    };
    assert_eq!(ids(&followed.text), ["1", "2", "3"]);
    assert!(followed.text.contains("event: output\ndata: {"), "{}", followed.text);
    let resumed = server.get(&format!("{path}?last_event_id=2")).await;
    assert_eq!(ids(&resumed.text), ["3"]);
    server.get(&format!("{path}?last_event_id=x")).await.assert_problem(ErrorCode::BadQuery);
}

#[tokio::test]
async fn size_of_output_requests_is_limited() {
    let server = start_server().await;
    server.start_two_steps().await;
    let command = server.lease_command().await;
    let many: Vec<_> = (0..201).map(|number| json!({ "number": number })).collect();
    let large = "x".repeat(16 * 1024 + 1);
    for request in [
        output_request(&command, &json!(many)),
        output_request(&command, &json!([{ "number": 0, "stderr": large }])),
        json!({ "worker_id": "w1", "outputs": vec![output_of(&command, &json!([])); 101] }),
    ] {
        let refused = server.post("/api/commands/output", request).await;
        refused.assert_problem(ErrorCode::Validation);
    }
}

#[tokio::test]
async fn tenants_cannot_write_or_read_output_of_others() {
    let server = start_secured_server().await;
    let [own, other] = ["acme", "spy"];
    let own = create_token(&server.services, own, &[Scope::Admin]).await;
    let other = create_token(&server.services, other, &[Scope::Admin]).await;
    let call = async |token: &str, method: Method, path: &str, body: Value| {
        server.call_with_token(token, method, path, body).await
    };
    let register = json!({ "content": super::TWO_STEPS });
    call(&own, Method::POST, "/api/catalog/register", register).await;
    let start = json!({ "path": "demo/two" });
    let id = call(&own, Method::POST, "/api/execute", start).await.text_at("/execution_id");
    let lease = json!({ "worker_id": "w1", "pool": "shared", "wait_ms": 10_000 });
    let leased = call(&own, Method::POST, "/api/commands/lease", lease).await;
    let command = leased.json_at("/commands/0");
    let request = output_request(&command, &json!([{ "number": 0, "stdout": "private" }]));
    let forged = call(&other, Method::POST, "/api/commands/output", request.clone()).await;
    assert_eq!(forged.text_at("/results/0/code"), "not_lease_holder");
    let stored = call(&own, Method::POST, "/api/commands/output", request).await;
    assert_eq!(stored.json_at("/results/0/ok"), true);
    for path in ["logs", "logs/stream"].map(|name| format!("/api/executions/{id}/{name}")) {
        let reply = call(&other, Method::GET, &path, json!({})).await;
        reply.assert_problem(ErrorCode::NotFound);
    }
    let listed = call(&own, Method::GET, &format!("/api/executions/{id}/logs"), json!({})).await;
    assert_eq!(listed.text_at("/chunks/0/stdout"), "private");
}

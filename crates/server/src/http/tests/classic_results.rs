//! Results in the envelope of published workers: the log holds what our own workers report.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{TestResponse, TestServer, is_ok, start_server};

/// An event of a published worker, and what our own worker reports for the same call.
struct RecordedCall {
    name: String,
    content: Value,
}

fn recorded_calls() -> Vec<RecordedCall> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../testkit/corpus/classic");
    let mut calls: Vec<RecordedCall> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            RecordedCall { name, content: serde_json::from_str(&text).unwrap() }
        })
        .collect();
    calls.sort_by(|one, other| one.name.cmp(&other.name));
    calls
}

fn playbook_with_tool(path: &str, tool: &Value) -> String {
    let step = json!({ "step": "start", "tool": tool });
    json!({
        "apiVersion": "noetl.io/v2", "kind": "Playbook",
        "metadata": { "name": "recorded", "path": path }, "workflow": [step],
    })
    .to_string()
}

/// A classic worker of one execution.
struct ClassicWorker<'s> {
    server: &'s TestServer,
    execution_id: String,
}

impl ClassicWorker<'_> {
    async fn claim(&self) -> TestResponse {
        let label = self.server.claim_newest(&self.execution_id).await;
        let event_id = label.as_str().unwrap().split(':').nth(2).unwrap().to_owned();
        let path = format!("/api/commands/{event_id}");
        self.server.get(&path).await
    }

    /// Claims the next command and reports this payload.
    async fn report(&self, event_type: &str, payload: Value) -> TestResponse {
        let claimed = self.claim().await;
        self.post(&claimed, event_type, payload).await
    }

    async fn post(&self, claimed: &TestResponse, event_type: &str, payload: Value) -> TestResponse {
        let body = json!({
            "execution_id": self.execution_id, "step": claimed.json_at("/node_name"),
            "name": event_type, "payload": payload, "worker_id": "w1",
            "meta": { "command_id": claimed.json_at("/meta/command_id") },
        });
        let posted = self.server.post("/api/events", body).await;
        assert_eq!(
            (posted.status, posted.text_at("/status")),
            (200, "ok".into()),
            "{}",
            posted.text
        );
        posted
    }

    /// Reports data as a published worker does.
    async fn report_data(&self, data: Value) -> TestResponse {
        self.report("call.done", envelope(&data)).await
    }

    async fn store(&self, data: &Value) -> String {
        let path = format!("/api/result/{}", self.execution_id);
        let stored = self.server.put(&path, json!({ "name": "start", "data": data })).await;
        assert!(is_ok(&stored), "{}", stored.text);
        stored.text_at("/ref")
    }

    /// The last event that ends a call.
    async fn call_event(&self) -> Value {
        let log = self.server.read_log(&self.execution_id).await;
        let is_end = |event: &&Value| {
            event["event_type"] == "call.done" || event["event_type"] == "call.error"
        };
        log.iter().rfind(is_end).unwrap().clone()
    }
}

fn envelope(data: &Value) -> Value {
    let report = json!({ "status": "success", "data": data, "exit_code": 0, "stdout": "",
        "duration_ms": 7 });
    json!({ "result": { "status": "success", "context": report } })
}

async fn start_worker<'s>(server: &'s TestServer, path: &str, content: &str) -> ClassicWorker<'s> {
    let execution_id = server.start_playbook(content, path).await;
    ClassicWorker { server, execution_id }
}

#[tokio::test]
async fn recorded_calls_are_stored_as_own_worker_reports_them() {
    let server = start_server().await;
    let mut mismatches = Vec::new();
    for RecordedCall { name, content } in recorded_calls() {
        let path = format!("recorded/{name}");
        let playbook = playbook_with_tool(&path, &content["task"]);
        let worker = start_worker(&server, &path, &playbook).await;
        let mut payload = content["payload"].to_string();
        if let Some(data) = content.get("stored") {
            payload = payload.replace("$STORED", &worker.store(data).await);
        }
        let payload = serde_json::from_str(&payload).unwrap();
        worker.report(content["event"].as_str().unwrap(), payload).await;
        let event = worker.call_event().await;
        let result = &event["result"]["context"];
        let error = |error: &Value| match error {
            Value::Null => Value::Null,
            error => {
                json!({ "kind": error["kind"], "code": error["code"], "message": error["message"] })
            }
        };
        let found = (result["result"].clone(), error(&result["error"]));
        let expected = (content["data"].clone(), content["error"].clone());
        if found != expected {
            mismatches.push(format!("{name}:\n  found {found:?}\n  expected {expected:?}"));
        }
        let status = if content["error"].is_null() { "COMPLETED" } else { "FAILED" };
        assert_eq!(server.execution_status(&worker.execution_id).await, status, "{name}");
    }
    assert!(mismatches.is_empty(), "{}", mismatches.join("\n"));
}

const READING_PLAYBOOK: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: reading, path: demo/reading }
workflow:
  - step: load
    tool: { kind: python, code: 'result = {}' }
    next: { arcs: [{ step: use }] }
  - step: use
    tool: { kind: noop, result: \"{{ load.rows | length }} {{ load.rows[4999].id }}\" }
";

/// Large data is stored apart, inline or by reference of the worker, and later steps read it.
#[tokio::test]
async fn later_steps_read_large_data() {
    let rows: Vec<Value> = (0..5000).map(|id| json!({ "id": id, "name": "row" })).collect();
    let data = json!({ "rows": rows });
    for by_reference in [false, true] {
        let server = start_server().await;
        let worker = start_worker(&server, "demo/reading", READING_PLAYBOOK).await;
        if by_reference {
            let uri = worker.store(&data).await;
            worker.report_data(json!({ "kind": "ref", "ref": uri })).await;
        } else {
            worker.report_data(data.clone()).await;
        }
        let claimed = worker.claim().await;
        let rows = claimed.json_at("/context/render_context/load/rows");
        assert_eq!(rows.as_array().map(Vec::len), Some(5000));
        // The worker has no result of its own, so the server renders it.
        worker.post(&claimed, "call.done", envelope(&Value::Null)).await;
        let event = worker.call_event().await;
        assert_eq!(event["result"]["context"]["result"], "5000 4999", "{event}");
    }
}

const PIPELINE_PLAYBOOK: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: pipeline, path: demo/pipeline }
workflow:
  - step: work
    input: { city: Berlin }
    tool:
      - name: fetch
        kind: python
        code: 'result = {}'
        set: { page: \"{{ output.page }}\", iter.seen: \"{{ output.page }}\" }
        spec:
          policy:
            rules:
              - when: \"{{ output.page < 2 }}\"
                then: { do: jump, to: fetch }
      - name: count
        kind: shell
        command: 'echo {{ fetch.page }} {{ page }} {{ _prev.page }}'
        input: { n: \"{{ page }}\" }
    next: { arcs: [{ step: use }] }
  - step: use
    tool: { kind: noop, result: \"{{ work.fetch.page }} {{ work.exit_code }}\" }
";

/// A classic worker gets the tasks of a pipeline one by one, each with the data of those before.
#[tokio::test]
async fn pipeline_reaches_worker_task_by_task() {
    let server = start_server().await;
    let worker = start_worker(&server, "demo/pipeline", PIPELINE_PLAYBOOK).await;
    for page in 1..=2 {
        let claimed = worker.claim().await;
        assert_eq!(claimed.text_at("/context/tool_config/kind"), "python");
        assert_eq!(claimed.json_at("/context/args"), json!({ "city": "Berlin" }));
        assert_eq!(claimed.text_at("/action"), "python");
        worker.post(&claimed, "call.done", envelope(&json!({ "page": page }))).await;
        // The worker reports the end of its command, which is not a late result.
        worker.post(&claimed, "command.completed", json!({})).await;
    }
    let claimed = worker.claim().await;
    assert_eq!(claimed.text_at("/action"), "shell");
    assert_eq!(claimed.text_at("/meta/tool_kind"), "shell");
    let config = claimed.json_at("/context/tool_config");
    assert_eq!(config["command"], "echo {{ fetch.page }} {{ page }} {{ _prev.page }}");
    assert_eq!(claimed.json_at("/context/args"), json!({ "city": "Berlin", "n": "{{ page }}" }));
    let variables = claimed.json_at("/context/render_context");
    assert_eq!(variables["fetch"]["page"], 2);
    assert_eq!(variables["page"], 2);
    assert_eq!(variables["_prev"], json!({ "page": 2 }));
    assert_eq!(variables["results"], json!({ "fetch": { "page": 2 } }));
    assert_eq!(variables["iter"]["seen"], 2);
    worker.post(&claimed, "call.done", envelope(&json!({ "exit_code": 0 }))).await;
    worker.report_data(Value::Null).await;
    let event = worker.call_event().await;
    assert_eq!(event["result"]["context"]["result"], "2 0", "{event}");
    assert_eq!(server.execution_status(&worker.execution_id).await, "COMPLETED");
    let types = server.event_types(&worker.execution_id).await;
    assert!(!types.contains(&"command.result_ignored".to_owned()), "{types:?}");
}

/// A worker of this release continues a pipeline that a classic worker began.
#[tokio::test]
async fn own_worker_continues_pipeline_of_classic_worker() {
    let server = start_server().await;
    let worker = start_worker(&server, "demo/pipeline", PIPELINE_PLAYBOOK).await;
    worker.report_data(json!({ "page": 2 })).await;
    let command = server.lease_command().await;
    assert_eq!(command["context"]["relay"]["to"], "count", "{command}");
    assert_eq!(command["context"]["relay"]["results"]["fetch"]["page"], 2, "{command}");
}

/// The failure of a task fails the step, with the data of the tasks before it.
#[tokio::test]
async fn failed_task_ends_pipeline() {
    let server = start_server().await;
    let worker = start_worker(&server, "demo/pipeline", PIPELINE_PLAYBOOK).await;
    worker.report_data(json!({ "page": 2 })).await;
    let report = json!({ "status": "success", "data": null, "exit_code": 3, "stdout": "",
        "stderr": "no luck", "duration_ms": 7 });
    let claimed = worker.claim().await;
    worker.post(&claimed, "call.done", json!({ "result": report })).await;
    // Its worker regards the command as completed. The event only repeats the end of the call.
    worker.post(&claimed, "command.completed", json!({})).await;
    let event = worker.call_event().await;
    let context = &event["result"]["context"];
    assert_eq!(event["event_type"], "call.error");
    assert_eq!(
        (&context["error"]["task"], &context["error"]["code"]),
        (&json!("count"), &json!(3))
    );
    assert_eq!(context["result"]["fetch"]["page"], 2, "{event}");
    assert_eq!(context["result"]["failed_task"], "count");
    assert_eq!(server.execution_status(&worker.execution_id).await, "FAILED");
}

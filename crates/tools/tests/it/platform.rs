//! Tools that call the control plane, which the tests simulate.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use noetl_tools::platform::{
    ChildDefinition, ChildRequest, NewResult, OutputSink, OutputStream, PlaybookLauncher,
    ResultReceipt, ResultRef, ResultStore, StartedChild,
};
use noetl_tools::{CancellationToken, ToolCall, ToolKind, ToolOutcome};
use noetl_types::{Json, JsonMap, TaskError, TaskErrorKind, sha256};

use crate::support::{
    parse_json, python_call, run_failing, shell_call, test_toolbox, tool_call, wait_until,
};

#[derive(Default)]
struct FakePlatform {
    results: Mutex<BTreeMap<String, Json>>,
    started: Mutex<Vec<ChildRequest>>,
    /// Standard output and standard error.
    output: Mutex<[String; 2]>,
}

impl OutputSink for FakePlatform {
    fn write_output(&self, stream: OutputStream, bytes: &[u8]) {
        let index = usize::from(stream == OutputStream::Stderr);
        self.output.lock().unwrap()[index] += &String::from_utf8_lossy(bytes);
    }
}

#[async_trait]
impl ResultStore for FakePlatform {
    async fn fetch_result(&self, reference: ResultRef) -> Result<Json, TaskError> {
        let results = self.results.lock().unwrap().get(&*reference.uri).cloned();
        results.ok_or_else(|| TaskError::new(TaskErrorKind::NotFound, "no such result"))
    }

    async fn store_result(&self, result: NewResult) -> Result<ResultReceipt, TaskError> {
        let uri = format!("noetl://execution/{}/result/{}/1", result.execution_id, result.name);
        let text = result.data.to_string();
        self.results.lock().unwrap().insert(uri.clone(), result.data);
        Ok(ResultReceipt { uri, bytes: text.len() as u64, sha256: sha256(&text).to_string() })
    }
}

#[async_trait]
impl PlaybookLauncher for FakePlatform {
    async fn start_playbook(&self, child: ChildRequest) -> Result<StartedChild, TaskError> {
        let path = match &child.definition {
            ChildDefinition::Id(id) => format!("of/{id}"),
            ChildDefinition::Path { path, .. } => path.clone(),
        };
        self.started.lock().unwrap().push(child);
        Ok(StartedChild { execution_id: "99".into(), path })
    }
}

async fn run_with_platform(platform: &Arc<FakePlatform>, call: ToolCall) -> ToolOutcome {
    let platform = Some(Arc::clone(platform) as _);
    test_toolbox().call_with_platform(platform, call, CancellationToken::new()).await
}

fn artifact_call(config: &str, input: &str) -> ToolCall {
    ToolCall {
        input: parse_json(input).as_map().unwrap().clone(),
        ..tool_call(ToolKind::Artifact, &parse_json(config))
    }
}

#[tokio::test]
async fn stored_artifact_can_be_fetched_in_every_form() {
    let platform = Arc::new(FakePlatform::default());
    let put = artifact_call(r#"{"action": "put", "data": {"rows": [1, 2]}}"#, "{}");
    let outcome = run_with_platform(&platform, put).await;
    assert_eq!(outcome.error, None);
    let digest = sha256(r#"{"rows":[1,2]}"#);
    assert_eq!(
        outcome.data.to_string(),
        format!(
            r#"{{"bytes":14,"ref":"noetl://execution/7001/result/greet/1","sha256":"{digest}"}}"#
        )
    );
    let address = r#""noetl://execution/7001/result/greet/1""#;
    for (config, input) in [
        (format!(r#"{{"result_ref": {address}}}"#), "{}".to_owned()),
        (format!(r#"{{"ref": {address}, "action": "get"}}"#), "{}".to_owned()),
        (format!(r#"{{"uri": {address}, "prefer": "local"}}"#), "{}".to_owned()),
        ("{}".to_owned(), format!(r#"{{"result_ref": {address}}}"#)),
        (
            "{}".to_owned(),
            format!(r#"{{"result_ref": {{"ref": {address}, "sha256": "{digest}"}}}}"#),
        ),
        (format!(r#"{{"result_ref": {{"_ref": {address}}}}}"#), "{}".to_owned()),
    ] {
        for kind in [ToolKind::Artifact, ToolKind::ResultFetch] {
            let get = ToolCall { kind, ..artifact_call(&config, &input) };
            let outcome = run_with_platform(&platform, get).await;
            assert_eq!(outcome.error, None, "{config} {input}");
            assert_eq!(outcome.data.to_string(), r#"{"rows":[1,2]}"#);
        }
    }
    let named = artifact_call(r#"{"action": "put"}"#, r#"{"data": null, "name": "mine"}"#);
    assert_eq!(run_with_platform(&platform, named).await.error, None);
    let results = platform.results.lock().unwrap();
    assert!(results.contains_key("noetl://execution/7001/result/mine/1"));
}

#[tokio::test]
async fn rejects_invalid_references() {
    let platform = Arc::new(FakePlatform::default());
    for (config, kind, part) in [
        ("{}", TaskErrorKind::Schema, "'result_ref' is missing"),
        (r#"{"ref": "noetl://execution/1/result/x/1"}"#, TaskErrorKind::NotFound, "no such result"),
        (r#"{"ref": "s3://b/k"}"#, TaskErrorKind::Unsupported, "s3://b/k"),
        (r#"{"ref": 5}"#, TaskErrorKind::Schema, "'result_ref'"),
        (r#"{"ref": {}}"#, TaskErrorKind::Schema, "'result_ref.ref'"),
        (r#"{"ref": {"ref": "noetl://x", "sha256": "zz"}}"#, TaskErrorKind::Parse, "digest"),
        (r#"{"action": "put"}"#, TaskErrorKind::Schema, "'data' is missing"),
        (r#"{"action": "drop"}"#, TaskErrorKind::Parse, "'drop'"),
    ] {
        let outcome = run_with_platform(&platform, artifact_call(config, "{}")).await;
        let error = outcome.error.unwrap();
        assert_eq!(error.kind, kind, "{}", error.message);
        assert!(error.message.contains(part), "{}", error.message);
    }
    let alone = artifact_call(r#"{"ref": "noetl://x"}"#, "{}");
    let (kind, _) = run_failing(&test_toolbox(), alone).await;
    assert_eq!(kind, TaskErrorKind::Unsupported);
}

#[tokio::test]
async fn starts_child_playbook() {
    let platform = Arc::new(FakePlatform::default());
    let playbook = |config: &str| ToolCall {
        input: JsonMap::from([("a".into(), Json::from(2))]),
        ..tool_call(ToolKind::Playbook, &parse_json(config))
    };
    let config = r#"{"path": "team/child", "version": 3, "payload": {"a": 1, "b": 1}}"#;
    let outcome = run_with_platform(&platform, playbook(config)).await;
    assert_eq!(
        outcome.data.to_string(),
        r#"{"async":true,"execution_id":"99","path":"team/child","status":"started"}"#
    );
    let child = platform.started.lock().unwrap().pop().unwrap();
    assert_eq!(
        child,
        ChildRequest {
            definition: ChildDefinition::Path {
                path: "team/child".into(),
                version: Some("3".into()),
            },
            payload: parse_json(r#"{"a": 2, "b": 1}"#),
            parent_execution_id: "7001".into(),
            idempotency_key: "7001:4:greet:1".into(),
        }
    );
    run_with_platform(&platform, playbook(r#"{"catalog_id": 12, "path": "x"}"#)).await;
    let child = platform.started.lock().unwrap().pop().unwrap();
    assert_eq!(child.definition, ChildDefinition::Id("12".into()));
    for (config, kind, part) in [
        ("{}", TaskErrorKind::Schema, "'path' or 'catalog_id'"),
        (r#"{"path": "x", "return_step": "end"}"#, TaskErrorKind::Unsupported, "by the server"),
        (r#"{"path": "x", "return_result": true}"#, TaskErrorKind::Unsupported, "by the server"),
        (r#"{"path": "x", "payload": [1]}"#, TaskErrorKind::Schema, "'payload'"),
    ] {
        let error = run_with_platform(&platform, playbook(config)).await.error.unwrap();
        assert_eq!(error.kind, kind, "{}", error.message);
        assert!(error.message.contains(part), "{}", error.message);
    }
    assert!(platform.started.lock().unwrap().is_empty());
}

#[tokio::test]
async fn output_arrives_while_a_task_runs() {
    let content = Json::from("echo out; echo err >&2; sleep 1000");
    let script = Json::object([("type", Json::from("inline")), ("content", content)]);
    let script = Json::object([("script", script)]);
    for (call, expected) in [
        (shell_call("echo out; echo err >&2; sleep 1000"), ["out\n", "err\n"]),
        (
            python_call(
                "import sys, time\nprint('out')\nprint('err', file=sys.stderr)\ntime.sleep(1000)",
            ),
            ["out\n", "err\n"],
        ),
        (tool_call(ToolKind::Script, &script), ["out\nerr\n", ""]),
    ] {
        let kind = call.kind;
        let platform = Arc::new(FakePlatform::default());
        let cancel = CancellationToken::new();
        let (handle, toolbox) = (Some(Arc::clone(&platform) as _), test_toolbox());
        let run = toolbox.call_with_platform(handle, call, cancel.clone());
        let output = || platform.output.lock().unwrap().clone();
        let watch = async {
            wait_until("the output arrives", || output() == expected).await;
            cancel.cancel();
        };
        let (outcome, ()) = tokio::join!(run, watch);
        assert_eq!(outcome.error.unwrap().kind, TaskErrorKind::Cancelled, "{kind}");
    }
}

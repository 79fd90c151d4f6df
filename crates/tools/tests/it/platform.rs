//! Tools that ask the control plane, which is played here.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use noetl_tools::platform::{
    Child, ChildDefinition, KeptResult, NewResult, Playbooks, ResultRef, Results, StartedChild,
};
use noetl_tools::{Call, CancellationToken, Outcome, ToolKind};
use noetl_types::{Json, JsonMap, TaskError, TaskErrorKind, sha256};

use crate::support::{call, error, toolbox, value};

#[derive(Default)]
struct Played {
    kept: Mutex<BTreeMap<String, Json>>,
    started: Mutex<Vec<Child>>,
}

#[async_trait]
impl Results for Played {
    async fn fetch(&self, reference: ResultRef) -> Result<Json, TaskError> {
        let kept = self.kept.lock().unwrap().get(&*reference.uri).cloned();
        kept.ok_or_else(|| TaskError::new(TaskErrorKind::NotFound, "no such result"))
    }

    async fn put(&self, result: NewResult) -> Result<KeptResult, TaskError> {
        let uri = format!(
            "noetl://execution/{}/result/{}/1",
            result.execution_id, result.name
        );
        let text = result.data.to_string();
        self.kept.lock().unwrap().insert(uri.clone(), result.data);
        Ok(KeptResult {
            uri,
            bytes: text.len() as u64,
            sha256: sha256(&text).to_string(),
        })
    }
}

#[async_trait]
impl Playbooks for Played {
    async fn start(&self, child: Child) -> Result<StartedChild, TaskError> {
        let path = match &child.definition {
            ChildDefinition::Id(id) => format!("of/{id}"),
            ChildDefinition::Path { path, .. } => path.clone(),
        };
        self.started.lock().unwrap().push(child);
        Ok(StartedChild {
            execution_id: "99".into(),
            path,
        })
    }
}

async fn on(platform: &Arc<Played>, call: Call) -> Outcome {
    let platform = Some(Arc::clone(platform) as _);
    toolbox()
        .call_on(platform, call, CancellationToken::new())
        .await
}

fn artifact(config: &str, input: &str) -> Call {
    Call {
        input: value(input).as_map().unwrap().clone(),
        ..call(ToolKind::Artifact, &value(config))
    }
}

#[tokio::test]
async fn what_was_put_can_be_fetched_in_every_form() {
    let platform = Arc::new(Played::default());
    let put = artifact(r#"{"action": "put", "data": {"rows": [1, 2]}}"#, "{}");
    let outcome = on(&platform, put).await;
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
        (
            format!(r#"{{"ref": {address}, "action": "get"}}"#),
            "{}".to_owned(),
        ),
        (
            format!(r#"{{"uri": {address}, "prefer": "local"}}"#),
            "{}".to_owned(),
        ),
        ("{}".to_owned(), format!(r#"{{"result_ref": {address}}}"#)),
        (
            "{}".to_owned(),
            format!(r#"{{"result_ref": {{"ref": {address}, "sha256": "{digest}"}}}}"#),
        ),
        (
            format!(r#"{{"result_ref": {{"_ref": {address}}}}}"#),
            "{}".to_owned(),
        ),
    ] {
        for kind in [ToolKind::Artifact, ToolKind::ResultFetch] {
            let get = Call {
                kind,
                ..artifact(&config, &input)
            };
            let outcome = on(&platform, get).await;
            assert_eq!(outcome.error, None, "{config} {input}");
            assert_eq!(outcome.data.to_string(), r#"{"rows":[1,2]}"#);
        }
    }
    let named = artifact(r#"{"action": "put"}"#, r#"{"data": null, "name": "mine"}"#);
    assert_eq!(on(&platform, named).await.error, None);
    let kept = platform.kept.lock().unwrap();
    assert!(kept.contains_key("noetl://execution/7001/result/mine/1"));
}

#[tokio::test]
async fn references_that_lead_nowhere() {
    let platform = Arc::new(Played::default());
    for (config, kind, part) in [
        ("{}", TaskErrorKind::Schema, "'result_ref' is missing"),
        (
            r#"{"ref": "noetl://execution/1/result/x/1"}"#,
            TaskErrorKind::NotFound,
            "no such result",
        ),
        (
            r#"{"ref": "s3://b/k"}"#,
            TaskErrorKind::Unsupported,
            "s3://b/k",
        ),
        (r#"{"ref": 5}"#, TaskErrorKind::Schema, "'result_ref'"),
        (r#"{"ref": {}}"#, TaskErrorKind::Schema, "'result_ref.ref'"),
        (
            r#"{"ref": {"ref": "noetl://x", "sha256": "zz"}}"#,
            TaskErrorKind::Parse,
            "digest",
        ),
        (
            r#"{"action": "put"}"#,
            TaskErrorKind::Schema,
            "'data' is missing",
        ),
        (r#"{"action": "drop"}"#, TaskErrorKind::Parse, "'drop'"),
    ] {
        let outcome = on(&platform, artifact(config, "{}")).await;
        let error = outcome.error.unwrap();
        assert_eq!(error.kind, kind, "{}", error.message);
        assert!(error.message.contains(part), "{}", error.message);
    }
    let alone = artifact(r#"{"ref": "noetl://x"}"#, "{}");
    let (kind, _) = error(&toolbox(), alone).await;
    assert_eq!(kind, TaskErrorKind::Unsupported);
}

#[tokio::test]
async fn a_playbook_is_started_in_passing() {
    let platform = Arc::new(Played::default());
    let playbook = |config: &str| Call {
        input: JsonMap::from([("a".into(), Json::from(2))]),
        ..call(ToolKind::Playbook, &value(config))
    };
    let config = r#"{"path": "team/child", "version": 3, "payload": {"a": 1, "b": 1}}"#;
    let outcome = on(&platform, playbook(config)).await;
    assert_eq!(
        outcome.data.to_string(),
        r#"{"async":true,"execution_id":"99","path":"team/child","status":"started"}"#
    );
    let child = platform.started.lock().unwrap().pop().unwrap();
    assert_eq!(
        child,
        Child {
            definition: ChildDefinition::Path {
                path: "team/child".into(),
                version: Some("3".into()),
            },
            payload: value(r#"{"a": 2, "b": 1}"#),
            parent_execution_id: "7001".into(),
            idempotency_key: "7001:4:greet:1".into(),
        }
    );
    on(&platform, playbook(r#"{"catalog_id": 12, "path": "x"}"#)).await;
    let child = platform.started.lock().unwrap().pop().unwrap();
    assert_eq!(child.definition, ChildDefinition::Id("12".into()));
    for (config, kind, part) in [
        ("{}", TaskErrorKind::Schema, "'path' or 'catalog_id'"),
        (
            r#"{"path": "x", "return_step": "end"}"#,
            TaskErrorKind::Unsupported,
            "by the server",
        ),
        (
            r#"{"path": "x", "return_result": true}"#,
            TaskErrorKind::Unsupported,
            "by the server",
        ),
        (
            r#"{"path": "x", "payload": [1]}"#,
            TaskErrorKind::Schema,
            "'payload'",
        ),
    ] {
        let error = on(&platform, playbook(config)).await.error.unwrap();
        assert_eq!(error.kind, kind, "{}", error.message);
        assert!(error.message.contains(part), "{}", error.message);
    }
    assert!(platform.started.lock().unwrap().is_empty());
}

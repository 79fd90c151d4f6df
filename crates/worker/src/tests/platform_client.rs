//! Platform calls that the worker makes to the server for its tools.

use std::sync::Arc;

use noetl_api::execute::VersionSelector;
use noetl_tools::platform::{
    ChildDefinition, ChildRequest, NewResult, PlaybookLauncher as _, ResultRef, ResultStore as _,
};
use noetl_types::{ByteSize, ErrorCode, Json, TaskErrorKind, json::to_canonical, sha256};

use super::TestWorker;
use super::fake::{FakeServer, leased_command};
use crate::definitions::DefinitionCache;
use crate::platform_client::PlatformClient;

const RESULT_URI: &str = "noetl://execution/7/result/a/1";

fn new_platform_client() -> (Arc<FakeServer>, PlatformClient) {
    let server = Arc::new(FakeServer::default());
    let api: Arc<dyn noetl_api::WorkerApi> = Arc::clone(&server) as _;
    let definitions = Arc::new(DefinitionCache::new(Arc::clone(&api), ByteSize::from_mib(1)));
    (server, PlatformClient::new(api, definitions))
}

fn new_result() -> NewResult {
    NewResult {
        execution_id: "7".into(),
        step: "s".into(),
        name: "rows".into(),
        data: Json::from("x"),
        idempotency_key: "7:4:s:1".into(),
    }
}

fn new_child(definition: ChildDefinition) -> ChildRequest {
    ChildRequest {
        definition,
        payload: Json::object([("a", Json::from(1))]),
        parent_execution_id: "7".into(),
        idempotency_key: "7:4:s:1".into(),
    }
}

#[tokio::test(start_paused = true)]
async fn tool_fetches_stored_result() {
    let worker = TestWorker::with_concurrency(1);
    let data = Json::from("far away");
    worker.server.with_state(|state| state.payloads.insert(RESULT_URI.into(), data.clone()));
    worker.server.enqueue([leased_command(4, "fetch")]);
    worker.wait_for_reports(1).await;
    assert_eq!(worker.server.final_reports()[0].result, Some(data));
}

#[tokio::test(start_paused = true)]
async fn fetched_result_is_verified_by_digest() {
    let (server, client) = new_platform_client();
    let data = Json::from(5);
    server.with_state(|state| state.payloads.insert(RESULT_URI.into(), data.clone()));
    let reference = |digest| ResultRef { uri: RESULT_URI.into(), sha256: Some(digest) };
    let correct = reference(sha256(to_canonical(&data)));
    assert_eq!(client.fetch_result(correct).await, Ok(data));
    let wrong = client.fetch_result(reference(sha256("other"))).await.unwrap_err();
    assert_eq!(wrong.kind, TaskErrorKind::StorageAccess);
    let missing = ResultRef { uri: "noetl://execution/7/result/b/1".into(), sha256: None };
    let error = client.fetch_result(missing).await.unwrap_err();
    assert_eq!(error.kind, TaskErrorKind::NotFound);
}

#[tokio::test(start_paused = true)]
async fn stored_result_has_step_and_idempotency_key() {
    let (server, client) = new_platform_client();
    let receipt = client.store_result(new_result()).await.unwrap();
    assert_eq!(receipt.uri, "noetl://execution/7/result/rows/1");
    assert_eq!((receipt.bytes, receipt.sha256), (3, sha256("\"x\"").to_string()));
    let (request, key) = server.with_state(|state| state.stored_results.pop().unwrap());
    assert_eq!(request.source_step.unwrap(), "s");
    assert_eq!(key, "7:4:s:1");
    for (code, kind) in [
        (ErrorCode::TooLarge, TaskErrorKind::Limit),
        (ErrorCode::QuotaExceeded, TaskErrorKind::StorageQuota),
        (ErrorCode::NotSupported, TaskErrorKind::Unsupported),
        (ErrorCode::Forbidden, TaskErrorKind::Auth),
        (ErrorCode::Validation, TaskErrorKind::StorageAccess),
    ] {
        server.with_state(|state| state.platform_error = Some(code));
        let error = client.store_result(new_result()).await.unwrap_err();
        assert_eq!(error.kind, kind, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn child_is_started_with_idempotency_key() {
    let (server, client) = new_platform_client();
    let by_path = ChildDefinition::Path { path: "team/child".into(), version: Some("2".into()) };
    let started = client.start_playbook(new_child(by_path.clone())).await.unwrap();
    assert_eq!(started.execution_id, "99");
    assert_eq!(started.path, "team/child");
    let (request, key) = server.with_state(|state| state.started_executions.pop().unwrap());
    assert_eq!(key, "7:4:s:1");
    assert_eq!(request.version, Some(VersionSelector::Label("2".into())));
    assert_eq!(request.parent_execution_id.unwrap().to_string(), "7");
    assert_eq!(request.payload.unwrap().to_string(), r#"{"a":1}"#);

    let by_id = ChildDefinition::Id("5".into());
    client.start_playbook(new_child(by_id)).await.unwrap();
    let (request, _) = server.with_state(|state| state.started_executions.pop().unwrap());
    assert_eq!(request.catalog_id.unwrap().to_string(), "5");

    for (definition, part) in [
        (ChildDefinition::Id("five".into()), "'catalog_id'"),
        (ChildDefinition::Path { path: String::new(), version: None }, "'path'"),
    ] {
        let error = client.start_playbook(new_child(definition)).await.unwrap_err();
        assert_eq!(error.kind, TaskErrorKind::Schema);
        assert!(error.message.contains(part), "{}", error.message);
    }
    for (code, kind) in [
        (ErrorCode::NotFound, TaskErrorKind::NotFound),
        (ErrorCode::Forbidden, TaskErrorKind::Auth),
        (ErrorCode::Validation, TaskErrorKind::Child),
    ] {
        server.with_state(|state| state.platform_error = Some(code));
        let error = client.start_playbook(new_child(by_path.clone())).await.unwrap_err();
        assert_eq!(error.kind, kind, "{code}");
    }
}

/// The call is retried with the same idempotency key.
#[tokio::test(start_paused = true)]
async fn platform_calls_are_retried_until_server_returns() {
    let (server, client) = new_platform_client();
    server.with_state(|state| state.is_unreachable = true);
    let store = tokio::spawn(async move { client.store_result(new_result()).await });
    while server.with_state(|state| state.failed_calls) < 3 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    server.with_state(|state| state.is_unreachable = false);
    store.await.unwrap().unwrap();
    assert_eq!(server.with_state(|state| state.stored_results.len()), 1);
}

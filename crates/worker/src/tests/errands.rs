//! What a worker does for its tools at the server.

use std::sync::Arc;

use noetl_api::execute::Version;
use noetl_tools::platform::{
    Child, ChildDefinition, NewResult, Playbooks as _, ResultRef, Results as _,
};
use noetl_types::{ByteSize, ErrorCode, Json, TaskErrorKind, json::to_canonical, sha256};

use super::Bench;
use super::fake::{FakeServer, command};
use crate::errands::Errands;
use crate::library::Library;

const ADDRESS: &str = "noetl://execution/7/result/a/1";

fn errands() -> (Arc<FakeServer>, Errands) {
    let server = Arc::new(FakeServer::default());
    let api: Arc<dyn noetl_api::WorkerApi> = Arc::clone(&server) as _;
    let library = Arc::new(Library::new(Arc::clone(&api), ByteSize::from_mib(1)));
    (server, Errands::new(api, library))
}

fn result() -> NewResult {
    NewResult {
        execution_id: "7".into(),
        step: "s".into(),
        name: "rows".into(),
        data: Json::from("x"),
        idempotency_key: "7:4:s:1".into(),
    }
}

fn child(definition: ChildDefinition) -> Child {
    Child {
        definition,
        payload: Json::object([("a", Json::from(1))]),
        parent_execution_id: "7".into(),
        idempotency_key: "7:4:s:1".into(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_reaches_what_is_kept() {
    let bench = Bench::of(1);
    let data = Json::from("far away");
    bench
        .server
        .see(|seen| seen.payloads.insert(ADDRESS.into(), data.clone()));
    bench.server.offer([command(4, "fetch")]);
    bench.until_reported(1).await;
    assert_eq!(bench.server.taken()[0].result, Some(data));
}

#[tokio::test(start_paused = true)]
async fn what_is_fetched_has_the_digest_of_its_reference() {
    let (server, errands) = errands();
    let data = Json::from(5);
    server.see(|seen| seen.payloads.insert(ADDRESS.into(), data.clone()));
    let reference = |digest| ResultRef {
        uri: ADDRESS.into(),
        sha256: Some(digest),
    };
    let right = reference(sha256(to_canonical(&data)));
    assert_eq!(errands.fetch(right).await, Ok(data));
    let wrong = errands.fetch(reference(sha256("other"))).await.unwrap_err();
    assert_eq!(wrong.kind, TaskErrorKind::StorageAccess);
    let nowhere = ResultRef {
        uri: "noetl://execution/7/result/b/1".into(),
        sha256: None,
    };
    let error = errands.fetch(nowhere).await.unwrap_err();
    assert_eq!(error.kind, TaskErrorKind::NotFound);
}

#[tokio::test(start_paused = true)]
async fn what_is_put_says_whose_it_is_and_its_key() {
    let (server, errands) = errands();
    let kept = errands.put(result()).await.unwrap();
    assert_eq!(kept.uri, "noetl://execution/7/result/rows/1");
    assert_eq!((kept.bytes, kept.sha256), (3, sha256("\"x\"").to_string()));
    let (wish, key) = server.see(|seen| seen.kept.pop().unwrap());
    assert_eq!(wish.source_step.unwrap(), "s");
    assert_eq!(key, "7:4:s:1");
    for (code, kind) in [
        (ErrorCode::TooLarge, TaskErrorKind::Limit),
        (ErrorCode::Quota, TaskErrorKind::StorageQuota),
        (ErrorCode::NotSupported, TaskErrorKind::Unsupported),
        (ErrorCode::Forbidden, TaskErrorKind::Auth),
        (ErrorCode::Validation, TaskErrorKind::StorageAccess),
    ] {
        server.see(|seen| seen.refuses_errands = Some(code));
        let refused = errands.put(result()).await.unwrap_err();
        assert_eq!(refused.kind, kind, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_child_is_started_once_for_its_key() {
    let (server, errands) = errands();
    let by_path = ChildDefinition::Path {
        path: "team/child".into(),
        version: Some("2".into()),
    };
    let started = errands.start(child(by_path.clone())).await.unwrap();
    assert_eq!(started.execution_id, "99");
    assert_eq!(started.path, "team/child");
    let (wish, key) = server.see(|seen| seen.started.pop().unwrap());
    assert_eq!(key, "7:4:s:1");
    assert_eq!(wish.version, Some(Version::Word("2".into())));
    assert_eq!(wish.parent_execution_id.unwrap().to_string(), "7");
    assert_eq!(wish.payload.unwrap().to_string(), r#"{"a":1}"#);

    let by_id = ChildDefinition::Id("5".into());
    errands.start(child(by_id)).await.unwrap();
    let (wish, _) = server.see(|seen| seen.started.pop().unwrap());
    assert_eq!(wish.catalog_id.unwrap().to_string(), "5");

    for (definition, part) in [
        (ChildDefinition::Id("five".into()), "'catalog_id'"),
        (
            ChildDefinition::Path {
                path: String::new(),
                version: None,
            },
            "'path'",
        ),
    ] {
        let error = errands.start(child(definition)).await.unwrap_err();
        assert_eq!(error.kind, TaskErrorKind::Schema);
        assert!(error.message.contains(part), "{}", error.message);
    }
    for (code, kind) in [
        (ErrorCode::NotFound, TaskErrorKind::NotFound),
        (ErrorCode::Forbidden, TaskErrorKind::Auth),
        (ErrorCode::Validation, TaskErrorKind::Child),
    ] {
        server.see(|seen| seen.refuses_errands = Some(code));
        let refused = errands.start(child(by_path.clone())).await.unwrap_err();
        assert_eq!(refused.kind, kind, "{code}");
    }
}

/// A server that is away for a while is asked again, with the same key.
#[tokio::test(start_paused = true)]
async fn errands_outlast_a_restart_of_the_server() {
    let (server, errands) = errands();
    server.see(|seen| seen.is_away = true);
    let putting = tokio::spawn(async move { errands.put(result()).await });
    while server.see(|seen| seen.turned_away) < 3 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    server.see(|seen| seen.is_away = false);
    putting.await.unwrap().unwrap();
    assert_eq!(server.see(|seen| seen.kept.len()), 1);
}

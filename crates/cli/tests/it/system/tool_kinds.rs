//! Every tool kind through real processes, on both backends.

use std::sync::Arc;

use noetl_types::{ExecutionId, Json};

use crate::system::test_cluster::{
    ConcurrentCases, EndedRuns, TestCluster, parse_json, to_json_string,
};

#[tokio::test(flavor = "multi_thread")]
async fn kinds_on_sqlite() {
    run_all_kinds(TestCluster::on_sqlite(15).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_on_postgres() {
    run_all_kinds(TestCluster::on_postgres(15).await).await;
}

async fn run_all_kinds(cluster: Arc<TestCluster>) {
    install_fake_docker(&cluster);
    let hello = cluster.file_path("hello.sh");
    std::fs::write(hello, "echo from a file\n").expect("a script");
    let mut cases = ConcurrentCases::new(cluster);
    spawn_code_cases(&mut cases);
    spawn_service_cases(&mut cases);
    cases.spawn_case("playbook", playbook_starts_child);
    cases.spawn_case("unsupported", |cluster| {
        assert_result(cluster, "unsupported", UNSUPPORTED_RESULT)
    });
    cases.assert_all_pass().await;
}

/// Spawns the cases of tools that run code or compute a result.
fn spawn_code_cases(cases: &mut ConcurrentCases) {
    cases.spawn_case("noop", |cluster| {
        assert_result(cluster, "noop", r#"{"said":"nothing to do","list":[1,2.5,null,true]}"#)
    });
    cases.spawn_case("python", |cluster| {
        assert_result(
            cluster,
            "python",
            r#"{"good":{"sorted":[1,2,3],"median":2},"kind":"transform","said":true}"#,
        )
    });
    cases.spawn_case("shell", |cluster| {
        assert_result(
            cluster,
            "shell",
            r#"{"greets":true,"stderr":"aside","code":7,"half":"half"}"#,
        )
    });
    cases.spawn_case("script", |cluster| {
        assert_result(cluster, "script", r#"{"inline":"hello Ann","local":"from a file","code":0}"#)
    });
    cases.spawn_case("rhai", |cluster| {
        assert_result(cluster, "rhai", r#"{"sum":6,"kind":"transform"}"#)
    });
    cases.spawn_case("workbook", |cluster| assert_result(cluster, "workbook", r#""hello Ann!""#));
    cases.spawn_case("container", |cluster| {
        assert_result(
            cluster,
            "container",
            r#"{"code":0,"said":"Ann: registry.example/greeter:1"}"#,
        )
    });
}

/// Spawns the cases of tools that call a service or a database.
fn spawn_service_cases(cases: &mut ConcurrentCases) {
    cases.spawn_case("http", |cluster| assert_result(cluster, "http", HTTP_RESULT));
    cases.spawn_case("postgres", |cluster| assert_result(cluster, "postgres", POSTGRES_RESULT));
    cases.spawn_case("sqlite", |cluster| {
        assert_result(cluster, "sqlite", r#"{"found":[{"id":2,"text":"second"}],"sum":3}"#)
    });
    cases.spawn_case("transfer", |cluster| assert_result(cluster, "transfer", TRANSFER_RESULT));
    cases.spawn_case("mcp", |cluster| {
        assert_result(cluster, "mcp", r#"{"text":"5","sum":5,"status":"success"}"#)
    });
    cases.spawn_case("artifact", |cluster| {
        assert_result(
            cluster,
            "artifact",
            r#"{"get":{"answer":42},"fetch":42,"gone":"not_found","bytes":13}"#,
        )
    });
}

const HTTP_RESULT: &str = r#"{
    "echo": {"method": "POST", "query": "q=1&yes=true", "body": {"a": [1, 2]}, "visitor": "http"},
    "code": 200, "visits": 3, "missing": 404
}"#;
const POSTGRES_RESULT: &str = r#"{
    "rows": [{"id": 1, "name": "Ann; or 'A'", "born": "1990-02-03", "worth": "12.50"},
             {"id": 2, "name": "Bob", "born": null, "worth": null}],
    "bound": "Bob", "clash": "23505"
}"#;
const TRANSFER_RESULT: &str = r#"{
    "fetched": 2, "way": "sqlite_to_postgres", "chunks": 2,
    "rows": [{"code": "CHF", "rate": 0.95}, {"code": "EUR", "rate": 1.1}]
}"#;
const UNSUPPORTED_RESULT: &str = r#"{
    "subscription": "unsupported: this worker does not support the source 'kafka'; use nats",
    "kubernetes": "unsupported: this worker does not run containers on Kubernetes; use runtime: local"
}"#;

/// Installs a fake `docker` that prints the image that it was asked to run.
fn install_fake_docker(cluster: &TestCluster) {
    use std::os::unix::fs::PermissionsExt as _;
    let file = cluster.deployment.bin_dir().join("docker");
    let script = r#"#!/bin/sh
verb=$1
for last; do :; done
case "$verb" in
rm) echo "No such container: $last" >&2; exit 1 ;;
run) echo "$WHO: $last" ;;
esac
"#;
    std::fs::write(&file, script).expect("a program");
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&file, executable).expect("permissions");
}

/// Runs the playbook of a tool kind and compares its result. The payload has the values of all
/// kinds.
async fn assert_result(
    cluster: Arc<TestCluster>,
    kind: &'static str,
    expected: &'static str,
) -> EndedRuns {
    let run = start_kind(&cluster, kind).await;
    assert_eq!(cluster.wait_for_result(run).await, parse_json(expected), "{kind}");
    vec![run]
}

async fn start_kind(cluster: &TestCluster, kind: &str) -> ExecutionId {
    let payload = format!(
        r#"{{"url":{},"dsn":{},"file":{},"folder":{},"visitor":"{kind}"}}"#,
        to_json_string(&cluster.services.url),
        to_json_string(cluster.task_database.connection_config()),
        to_json_string(cluster.file_path(&format!("{kind}.db")).display()),
        to_json_string(cluster.deployment.dir.path().display()),
    );
    cluster.start(&format!("kinds/{kind}"), &payload).await
}

async fn playbook_starts_child(cluster: Arc<TestCluster>) -> EndedRuns {
    cluster.register_playbook("kinds/noop").await;
    let run = start_kind(&cluster, "playbook").await;
    let result = cluster.wait_for_result(run).await;
    assert_eq!(result.get("status"), Some(&Json::from("started")));
    assert_eq!(result.get("path"), Some(&Json::from("kinds/noop")));
    let child = result.get("child").and_then(Json::as_str);
    let child: ExecutionId = child.expect("an id").parse().expect("an id");
    cluster.wait_for_result(child).await;
    vec![run, child]
}

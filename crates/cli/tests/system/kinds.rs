//! Every kind of tool through real processes, on both grounds.

use std::sync::Arc;

use noetl_types::{ExecutionId, Json};

use crate::town::{Cases, Runs, Town, json, quoted};

#[tokio::test(flavor = "multi_thread")]
async fn kinds_on_sqlite() {
    all(Town::small(15).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_on_postgres() {
    all(Town::large(15).await).await;
}

async fn all(town: Arc<Town>) {
    play_engine(&town);
    let hello = town.file("hello.sh");
    std::fs::write(hello, "echo from a file\n").expect("a script");
    let mut cases = Cases::of(town);
    cases.case("noop", |town| {
        gives(
            town,
            "noop",
            r#"{"said":"nothing to do","list":[1,2.5,null,true]}"#,
        )
    });
    cases.case("python", |town| {
        gives(
            town,
            "python",
            r#"{"good":{"sorted":[1,2,3],"median":2},"kind":"transform","said":true}"#,
        )
    });
    cases.case("shell", |town| {
        gives(
            town,
            "shell",
            r#"{"greets":true,"stderr":"aside","code":7,"half":"half"}"#,
        )
    });
    cases.case("http", |town| gives(town, "http", HTTP));
    cases.case("postgres", |town| gives(town, "postgres", POSTGRES));
    cases.case("sqlite", |town| {
        gives(
            town,
            "sqlite",
            r#"{"found":[{"id":2,"text":"second"}],"sum":3}"#,
        )
    });
    cases.case("transfer", |town| gives(town, "transfer", TRANSFER));
    cases.case("script", |town| {
        gives(
            town,
            "script",
            r#"{"inline":"hello Ann","local":"from a file","code":0}"#,
        )
    });
    cases.case("mcp", |town| {
        gives(town, "mcp", r#"{"text":"5","sum":5,"status":"success"}"#)
    });
    cases.case("artifact", |town| {
        gives(
            town,
            "artifact",
            r#"{"get":{"answer":42},"fetch":42,"gone":"not_found","bytes":13}"#,
        )
    });
    cases.case("playbook", playbook);
    cases.case("workbook", |town| {
        gives(town, "workbook", r#""hello Ann!""#)
    });
    cases.case("container", |town| {
        gives(
            town,
            "container",
            r#"{"code":0,"said":"Ann: registry.example/greeter:1"}"#,
        )
    });
    cases.case("unsupported", |town| {
        gives(town, "unsupported", UNSUPPORTED)
    });
    cases.all_pass().await;
}

const HTTP: &str = r#"{
    "echo": {"method": "POST", "query": "q=1&yes=true", "body": {"a": [1, 2]}, "visitor": "http"},
    "code": 200, "visits": 3, "missing": 404
}"#;
const POSTGRES: &str = r#"{
    "rows": [{"id": 1, "name": "Ann; or 'A'", "born": "1990-02-03", "worth": "12.50"},
             {"id": 2, "name": "Bob", "born": null, "worth": null}],
    "bound": "Bob", "clash": "23505"
}"#;
const TRANSFER: &str = r#"{
    "fetched": 2, "way": "sqlite_to_postgres", "chunks": 2,
    "rows": [{"code": "CHF", "rate": 0.95}, {"code": "EUR", "rate": 1.1}]
}"#;
const UNSUPPORTED: &str = r#"{
    "duckdb": "unsupported: tasks of kind 'duckdb' need a build with feature 'duckdb', which this worker lacks",
    "ducklake": "unsupported: tasks of kind 'ducklake' need a build with feature 'duckdb', which this worker lacks",
    "snowflake": "unsupported: tasks of kind 'snowflake' need a build with feature 'snowflake', which this worker lacks",
    "rhai": "unsupported: tasks of kind 'rhai' need a build with feature 'rhai', which this worker lacks",
    "subscription": "unsupported: this worker has no way to messages of 'kafka', only of nats",
    "wasm": "unsupported: kind 'wasm' is reserved and cannot run",
    "kubernetes": "unsupported: containers on Kubernetes need a build with feature 'kubernetes'; use runtime: local",
    "kubernetes_job": "unsupported: a script with 'job' runs on Kubernetes, which needs a build with feature 'kubernetes'; leave 'job' out to run it on the worker"
}"#;

/// An engine of containers that says what it was asked to run.
fn play_engine(town: &Town) {
    use std::os::unix::fs::PermissionsExt as _;
    let file = town.house.programs().join("docker");
    let script = r#"#!/bin/sh
verb=$1
for last; do :; done
case "$verb" in
rm) echo "No such container: $last" >&2; exit 1 ;;
run) echo "$WHO: $last" ;;
esac
"#;
    std::fs::write(&file, script).expect("a program");
    let all = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&file, all).expect("permissions");
}

/// Runs the playbook of a kind with everything that any kind needs; it must give this.
async fn gives(town: Arc<Town>, kind: &'static str, expected: &'static str) -> Runs {
    let run = start(&town, kind).await;
    assert_eq!(town.result(run).await, json(expected), "{kind}");
    vec![run]
}

async fn start(town: &Town, kind: &str) -> ExecutionId {
    let payload = format!(
        r#"{{"url":{},"dsn":{},"file":{},"folder":{},"visitor":"{kind}"}}"#,
        quoted(&town.outside.url),
        quoted(town.tables.config()),
        quoted(town.file(&format!("{kind}.db")).display()),
        quoted(town.house.folder.path().display()),
    );
    town.start(&format!("kinds/{kind}"), &payload).await
}

async fn playbook(town: Arc<Town>) -> Runs {
    town.register("kinds/noop").await;
    let run = start(&town, "playbook").await;
    let result = town.result(run).await;
    assert_eq!(result.get("status"), Some(&Json::from("started")));
    assert_eq!(result.get("path"), Some(&Json::from("kinds/noop")));
    let child = result.get("child").and_then(Json::as_str);
    let child: ExecutionId = child.expect("an id").parse().expect("an id");
    town.result(child).await;
    vec![run, child]
}

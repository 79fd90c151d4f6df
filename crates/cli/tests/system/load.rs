//! Many runs at once and a very long loop, within bounded memory of the server.

use noetl_api::execute::ExecuteRequest;
use noetl_api::query::ExecutionsQuery;
use noetl_types::limits::PageLimit;
use noetl_types::{EventType, ExecutionId, ExecutionStatus, Json};

use crate::house::{Caller, House};
use crate::logs::{count, sound};
use crate::process::Noetl;
use crate::town::{json, register};
use crate::wire::post;

/// What a server may use, in MiB. A build for tests uses more than one for people.
const MEMORY: u64 = 400;

fn is_within_memory(server: &Noetl) {
    let used = server.resident_mib();
    assert!(used < MEMORY, "{used} MiB");
}

/// So many runs wait at once; one signal ends them all.
async fn parked(house: House, runs: usize) {
    let house = house.with_leases_of(120);
    let server = house.server();
    let url = server.url.clone().expect("a server");
    let caller = Caller::of(&server);
    register(&caller, "load/parked").await;
    let mut all: Vec<ExecutionId> = Vec::new();
    while all.len() < runs {
        let some = (runs - all.len()).min(1000);
        all.extend(start_batch(&url, some).await);
    }
    is_within_memory(&server);
    let worker = house.worker_of_pool(&server, "w1", &["--concurrency", "64"]);
    let news = json(r#"{"name":"news","payload":7}"#);
    let sent = post(&url, "/api/signals", &news).await.ok();
    let delivered = sent.get("delivered").and_then(Json::as_list);
    assert_eq!(delivered.expect("a list").len(), runs);
    for run in &all {
        caller.until(*run, |status| status.completed).await;
    }
    is_within_memory(&server);
    let still_running = ExecutionsQuery {
        status: Some(ExecutionStatus::Running),
        limit: PageLimit::clamped(1),
        ..ExecutionsQuery::default()
    };
    let rest = caller.0.executions(&still_running).await.expect("a list");
    assert!(rest.executions.is_empty(), "{rest:?}");
    drop((worker, server));
    for run in all.iter().step_by(runs / 10) {
        let log = sound(&house, *run).await;
        assert_eq!(count(&log, EventType::SignalReceived), 1);
        assert_eq!(count(&log, EventType::PlaybookCompleted), 1);
    }
}

async fn start_batch(url: &str, count: usize) -> Vec<ExecutionId> {
    let one = json(r#"{"path":"load/parked"}"#);
    let batch = Json::object([("executions", Json::list(vec![one; count]))]);
    let answer = post(url, "/api/execute/batch", &batch).await.ok();
    assert_eq!(
        answer.get("started").and_then(Json::as_u64),
        u64::try_from(count).ok()
    );
    let results = answer.get("results").and_then(Json::as_list);
    let id = |result: &Json| {
        let id = result.get("execution_id").and_then(Json::as_str);
        id.expect("an id").parse().expect("an id")
    };
    results.expect("a list").iter().map(id).collect()
}

/// A loop of so many items.
async fn wide(house: House, items: u32) {
    let house = house.with_leases_of(120);
    let server = house.server();
    let caller = Caller::of(&server);
    let path = register(&caller, "load/wide").await;
    let _workers =
        ["w1", "w2"].map(|name| house.worker_of_pool(&server, name, &["--concurrency", "64"]));
    let request = ExecuteRequest {
        path: Some(path),
        payload: Some(json(&format!(r#"{{"count":{items}}}"#))),
        ..ExecuteRequest::default()
    };
    let run = caller.0.execute(&request).await;
    let run = run.expect("started").execution_id;
    caller.completed(&[run]).await;
    is_within_memory(&server);
    let result = caller.status(run).await.result.expect("a result");
    let last = items - 1;
    let expected = format!(r#"{{"total":{items},"last":{last}}}"#);
    assert_eq!(result, json(&expected));
    server.kill();
    let log = sound(&house, run).await;
    let calls = usize::try_from(items).expect("a size") + 1;
    assert_eq!(count(&log, EventType::CommandCompleted), calls);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_runs_wait_on_sqlite() {
    parked(House::on_sqlite(), 1000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_runs_wait_on_postgres() {
    parked(House::on_postgres(), 1000).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes in a build for tests"]
async fn heavy_ten_thousand_runs_wait_on_sqlite() {
    parked(House::on_sqlite(), 10_000).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes in a build for tests"]
async fn heavy_ten_thousand_runs_wait_on_postgres() {
    parked(House::on_postgres(), 10_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loop_of_two_thousand_on_sqlite() {
    wide(House::on_sqlite(), 2000).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes in a build for tests"]
async fn heavy_a_loop_of_twenty_thousand_on_sqlite() {
    wide(House::on_sqlite(), 20_000).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes in a build for tests"]
async fn heavy_a_loop_of_twenty_thousand_on_postgres() {
    wide(House::on_postgres(), 20_000).await;
}

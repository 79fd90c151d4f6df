//! Many concurrent runs and a very long loop, within bounded memory of the server.

use noetl_api::execute::ExecuteRequest;
use noetl_api::query::ExecutionsQuery;
use noetl_types::limits::PageLimit;
use noetl_types::{EventType, ExecutionId, ExecutionStatus, Json};

use crate::system::deployment::{TestClient, TestDeployment};
use crate::system::event_logs::{assert_log_valid, count_events};
use crate::system::process::NoetlProcess;
use crate::system::raw_http::post_json;
use crate::system::test_cluster::{parse_json, register_playbook_file};

/// Memory limit of the server in MiB. A debug build uses more than a release build.
const MAX_SERVER_MIB: u64 = 400;

fn assert_memory_bounded(server: &NoetlProcess) {
    let used = server.peak_memory_mib();
    assert!(used < MAX_SERVER_MIB, "{used} MiB");
}

/// Starts `runs` runs that wait, and ends them all with one signal.
async fn check_waiting_runs(deployment: TestDeployment, runs: usize) {
    let deployment = deployment.with_lease_secs(120);
    let server = deployment.start_server();
    let url = server.url.clone().expect("a server");
    let client = TestClient::connect(&server);
    register_playbook_file(&client, "load/parked").await;
    let mut started: Vec<ExecutionId> = Vec::new();
    while started.len() < runs {
        let count = (runs - started.len()).min(1000);
        started.extend(start_batch(&url, count).await);
    }
    assert_memory_bounded(&server);
    let worker = deployment.start_worker_with_args(&server, "w1", &["--concurrency", "64"]);
    let signal = parse_json(r#"{"name":"news","payload":7}"#);
    let response = post_json(&url, "/api/signals", &signal).await.expect_ok();
    let delivered = response.get("delivered").and_then(Json::as_list);
    assert_eq!(delivered.expect("a list").len(), runs);
    for run in &started {
        client.wait_for_status(*run, |status| status.completed).await;
    }
    assert_memory_bounded(&server);
    let still_running = ExecutionsQuery {
        status: Some(ExecutionStatus::Running),
        limit: PageLimit::clamped(1),
        ..ExecutionsQuery::default()
    };
    let remaining = client.0.list_executions(&still_running).await.expect("a list");
    assert!(remaining.executions.is_empty(), "{remaining:?}");
    drop((worker, server));
    for run in started.iter().step_by(runs / 10) {
        let log = assert_log_valid(&deployment, *run).await;
        assert_eq!(count_events(&log, EventType::SignalReceived), 1);
        assert_eq!(count_events(&log, EventType::PlaybookCompleted), 1);
    }
}

async fn start_batch(url: &str, count: usize) -> Vec<ExecutionId> {
    let execution = parse_json(r#"{"path":"load/parked"}"#);
    let batch = Json::object([("executions", Json::list(vec![execution; count]))]);
    let response = post_json(url, "/api/execute/batch", &batch).await.expect_ok();
    assert_eq!(response.get("started").and_then(Json::as_u64), u64::try_from(count).ok());
    let results = response.get("results").and_then(Json::as_list);
    let id = |result: &Json| {
        let id = result.get("execution_id").and_then(Json::as_str);
        id.expect("an id").parse().expect("an id")
    };
    results.expect("a list").iter().map(id).collect()
}

/// Runs a loop of `items` items.
async fn check_wide_loop(deployment: TestDeployment, items: u32) {
    let deployment = deployment.with_lease_secs(120);
    let server = deployment.start_server();
    let client = TestClient::connect(&server);
    let path = register_playbook_file(&client, "load/wide").await;
    let _workers = ["w1", "w2"]
        .map(|name| deployment.start_worker_with_args(&server, name, &["--concurrency", "64"]));
    let request = ExecuteRequest {
        path: Some(path),
        payload: Some(parse_json(&format!(r#"{{"count":{items}}}"#))),
        ..ExecuteRequest::default()
    };
    let run = client.0.execute_playbook(&request).await;
    let run = run.expect("started").execution_id;
    client.assert_completed(&[run]).await;
    assert_memory_bounded(&server);
    let result = client.run_status(run).await.result.expect("a result");
    let last = items - 1;
    let expected = format!(r#"{{"total":{items},"last":{last}}}"#);
    assert_eq!(result, parse_json(&expected));
    server.kill();
    let log = assert_log_valid(&deployment, run).await;
    let calls = usize::try_from(items).expect("a size") + 1;
    assert_eq!(count_events(&log, EventType::CommandCompleted), calls);
}

#[tokio::test(flavor = "multi_thread")]
async fn thousand_waiting_runs_stay_within_memory_on_sqlite() {
    check_waiting_runs(TestDeployment::on_sqlite(), 1000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn thousand_waiting_runs_stay_within_memory_on_postgres() {
    check_waiting_runs(TestDeployment::on_postgres(), 1000).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes in a debug build"]
async fn heavy_ten_thousand_waiting_runs_stay_within_memory_on_sqlite() {
    check_waiting_runs(TestDeployment::on_sqlite(), 10_000).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes in a debug build"]
async fn heavy_ten_thousand_waiting_runs_stay_within_memory_on_postgres() {
    check_waiting_runs(TestDeployment::on_postgres(), 10_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn loop_of_two_thousand_stays_within_memory_on_sqlite() {
    check_wide_loop(TestDeployment::on_sqlite(), 2000).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes in a debug build"]
async fn heavy_loop_of_twenty_thousand_stays_within_memory_on_sqlite() {
    check_wide_loop(TestDeployment::on_sqlite(), 20_000).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes in a debug build"]
async fn heavy_loop_of_twenty_thousand_stays_within_memory_on_postgres() {
    check_wide_loop(TestDeployment::on_postgres(), 20_000).await;
}

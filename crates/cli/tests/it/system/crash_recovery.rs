//! Recovery after `kill -9` mid-run.

use std::collections::BTreeSet;

use noetl_types::{EventType, ExecutionId, Json};

use crate::system::deployment::{TestClient, TestDeployment, wait_until};
use crate::system::event_logs::{assert_log_valid, count_events};

/// Two steps and a loop between them. Each call appends its idempotency key to the effects file.
const WORK_PLAYBOOK: &str = r#"workload: { effects_file: /dev/null }
workflow:
  - step: start
    tool: { kind: shell, command: "echo $NOETL_IDEMPOTENCY_KEY >> {{ workload.effects_file }}" }
    next: { arcs: [{ step: many }] }
  - step: many
    loop: { in: 6, iterator: n, spec: { mode: parallel, max_in_flight: 3 } }
    tool: { kind: shell, command: "sleep 0.2; echo $NOETL_IDEMPOTENCY_KEY >> {{ workload.effects_file }}" }
    next: { arcs: [{ step: last }] }
  - step: last
    tool: { kind: shell, command: "echo $NOETL_IDEMPOTENCY_KEY >> {{ workload.effects_file }}" }
"#;
const CALLS_PER_RUN: usize = 8;
const RUNS: usize = 6;

async fn start_work(deployment: &TestDeployment, client: &TestClient) -> Vec<ExecutionId> {
    client.register_playbook("work", WORK_PLAYBOOK).await;
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        runs.push(start_one(deployment, client).await);
    }
    runs
}

async fn start_one(deployment: &TestDeployment, client: &TestClient) -> ExecutionId {
    let effects_file = Json::from(deployment.effects_file().display().to_string());
    let started = client.start("work", Json::object([("effects_file", effects_file)]));
    started.await.expect("started")
}

/// Waits until a part of the work is done.
async fn wait_until_mid_run(deployment: &TestDeployment) {
    wait_until("work is under way", || {
        deployment.effects_lines().len() >= RUNS * CALLS_PER_RUN / 4
    })
    .await;
}

/// Asserts that all work was done, with one idempotency key per call, even for repeated calls.
async fn assert_all_completed(deployment: &TestDeployment, runs: &[ExecutionId]) {
    for run in runs {
        let log = assert_log_valid(deployment, *run).await;
        assert_eq!(count_events(&log, EventType::PlaybookCompleted), 1);
        assert_eq!(count_events(&log, EventType::CommandCompleted), CALLS_PER_RUN);
    }
    let keys: BTreeSet<String> = deployment.effects_lines().into_iter().collect();
    assert_eq!(keys.len(), runs.len() * CALLS_PER_RUN, "one key for each call");
}

async fn check_killed_worker(deployment: TestDeployment) {
    let server = deployment.start_server();
    let client = TestClient::connect(&server);
    let first = deployment.start_worker(&server, "first");
    let runs = start_work(&deployment, &client).await;
    wait_until_mid_run(&deployment).await;
    first.kill();
    let _second = deployment.start_worker(&server, "second");
    client.assert_completed(&runs).await;
    server.kill();
    assert_all_completed(&deployment, &runs).await;
}

async fn check_killed_server(deployment: TestDeployment) {
    let server = deployment.start_server();
    let worker = deployment.start_worker(&server, "first");
    let runs = start_work(&deployment, &TestClient::connect(&server)).await;
    wait_until_mid_run(&deployment).await;
    server.kill();
    let server = deployment.start_server();
    // The new server has another port, so the worker of the old server cannot reach it.
    worker.kill();
    let _worker = deployment.start_worker(&server, "second");
    TestClient::connect(&server).assert_completed(&runs).await;
    server.kill();
    assert_all_completed(&deployment, &runs).await;
}

/// Server and worker survive and reconnect to the database.
async fn check_killed_database(deployment: TestDeployment) {
    let server = deployment.start_server();
    let client = TestClient::connect(&server);
    let _worker = deployment.start_worker(&server, "first");
    let mut runs = start_work(&deployment, &client).await;
    wait_until_mid_run(&deployment).await;
    deployment.kill_database().await;
    deployment.start_database().await;
    client.assert_completed(&runs).await;
    // New work is accepted too.
    let later = start_one(&deployment, &client).await;
    client.assert_completed(&[later]).await;
    runs.push(later);
    server.kill();
    assert_all_completed(&deployment, &runs).await;
}

/// Simulates a power cut, except for the disk.
async fn check_everything_killed(deployment: TestDeployment) {
    let server = deployment.start_server();
    let workers = [deployment.start_worker(&server, "w1"), deployment.start_worker(&server, "w2")];
    let runs = start_work(&deployment, &TestClient::connect(&server)).await;
    wait_until_mid_run(&deployment).await;
    // Stopped first, so that no process observes the end of another.
    for process in [&server, &workers[0], &workers[1]] {
        process.send_signal("STOP");
    }
    deployment.kill_database().await;
    for process in [&server, &workers[0], &workers[1]] {
        process.send_signal("KILL");
    }
    drop((server, workers));
    deployment.start_database().await;
    let server = deployment.start_server();
    let _worker = deployment.start_worker(&server, "w1");
    TestClient::connect(&server).assert_completed(&runs).await;
    server.kill();
    assert_all_completed(&deployment, &runs).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_worker_loses_nothing_on_sqlite() {
    check_killed_worker(TestDeployment::on_sqlite()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_worker_loses_nothing_on_postgres() {
    check_killed_worker(TestDeployment::on_postgres()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_server_loses_nothing_on_sqlite() {
    check_killed_server(TestDeployment::on_sqlite()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_server_loses_nothing_on_postgres() {
    check_killed_server(TestDeployment::on_postgres()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_postgres_loses_nothing() {
    check_killed_database(TestDeployment::on_dedicated_postgres()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killing_everything_loses_nothing_on_sqlite() {
    check_everything_killed(TestDeployment::on_sqlite()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killing_everything_loses_nothing_on_postgres() {
    check_everything_killed(TestDeployment::on_dedicated_postgres()).await;
}

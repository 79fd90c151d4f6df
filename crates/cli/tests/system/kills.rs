//! kill -9, in mid-run.

use std::collections::BTreeSet;

use noetl_types::{EventType, ExecutionId, Json};

use crate::house::{Caller, House, until};
use crate::logs::{count, sound};

/// Three steps in a row and a loop, each of which leaves its key with the witness.
const WORK: &str = r#"workload: { witness: /dev/null }
workflow:
  - step: start
    tool: { kind: shell, command: "echo $NOETL_IDEMPOTENCY_KEY >> {{ workload.witness }}" }
    next: { arcs: [{ step: many }] }
  - step: many
    loop: { in: 6, iterator: n, spec: { mode: parallel, max_in_flight: 3 } }
    tool: { kind: shell, command: "sleep 0.2; echo $NOETL_IDEMPOTENCY_KEY >> {{ workload.witness }}" }
    next: { arcs: [{ step: last }] }
  - step: last
    tool: { kind: shell, command: "echo $NOETL_IDEMPOTENCY_KEY >> {{ workload.witness }}" }
"#;
/// Calls of one run.
const CALLS: usize = 8;
const RUNS: usize = 6;

async fn start_work(house: &House, caller: &Caller) -> Vec<ExecutionId> {
    caller.register("work", WORK).await;
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        runs.push(start_one(house, caller).await);
    }
    runs
}

async fn start_one(house: &House, caller: &Caller) -> ExecutionId {
    let witness = Json::from(house.witness().display().to_string());
    let started = caller.start("work", Json::object([("witness", witness)]));
    started.await.expect("started")
}

/// Waits until some of the work is done, but not all.
async fn mid_run(house: &House) {
    until("work is under way", || {
        house.witnessed().len() >= RUNS * CALLS / 4
    })
    .await;
}

/// All of the work happened, each call under one key however often it was made.
async fn all_is_well(house: &House, runs: &[ExecutionId]) {
    for run in runs {
        let log = sound(house, *run).await;
        assert_eq!(count(&log, EventType::PlaybookCompleted), 1);
        assert_eq!(count(&log, EventType::CommandCompleted), CALLS);
    }
    let keys: BTreeSet<String> = house.witnessed().into_iter().collect();
    assert_eq!(keys.len(), runs.len() * CALLS, "one key for each call");
}

async fn killed_worker(house: House) {
    let server = house.server();
    let caller = Caller::of(&server);
    let first = house.worker(&server, "first");
    let runs = start_work(&house, &caller).await;
    mid_run(&house).await;
    first.kill();
    let _second = house.worker(&server, "second");
    caller.completed(&runs).await;
    server.kill();
    all_is_well(&house, &runs).await;
}

async fn killed_server(house: House) {
    let server = house.server();
    let worker = house.worker(&server, "first");
    let runs = start_work(&house, &Caller::of(&server)).await;
    mid_run(&house).await;
    server.kill();
    let server = house.server();
    // The port is another one, so the worker that waits for the old server is of no use.
    worker.kill();
    let _worker = house.worker(&server, "second");
    Caller::of(&server).completed(&runs).await;
    server.kill();
    all_is_well(&house, &runs).await;
}

/// Server and worker live on, and find the database again.
async fn killed_database(house: House) {
    let server = house.server();
    let caller = Caller::of(&server);
    let _worker = house.worker(&server, "first");
    let mut runs = start_work(&house, &caller).await;
    mid_run(&house).await;
    house.kill_database().await;
    house.start_database().await;
    caller.completed(&runs).await;
    // The house takes new work too.
    let later = start_one(&house, &caller).await;
    caller.completed(&[later]).await;
    runs.push(later);
    server.kill();
    all_is_well(&house, &runs).await;
}

/// A power cut, but for the disk.
async fn everything_is_killed(house: House) {
    let server = house.server();
    let workers = [house.worker(&server, "w1"), house.worker(&server, "w2")];
    let runs = start_work(&house, &Caller::of(&server)).await;
    mid_run(&house).await;
    // None of them sees another one end.
    for process in [&server, &workers[0], &workers[1]] {
        process.signal("STOP");
    }
    house.kill_database().await;
    for process in [&server, &workers[0], &workers[1]] {
        process.signal("KILL");
    }
    drop((server, workers));
    house.start_database().await;
    let server = house.server();
    let _worker = house.worker(&server, "w1");
    Caller::of(&server).completed(&runs).await;
    server.kill();
    all_is_well(&house, &runs).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_worker_loses_nothing_on_sqlite() {
    killed_worker(House::on_sqlite()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_worker_loses_nothing_on_postgres() {
    killed_worker(House::on_postgres()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_loses_nothing_on_sqlite() {
    killed_server(House::on_sqlite()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_loses_nothing_on_postgres() {
    killed_server(House::on_postgres()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_postgres_loses_nothing() {
    killed_database(House::on_its_own_postgres()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_killed_and_nothing_is_lost_on_sqlite() {
    everything_is_killed(House::on_sqlite()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_killed_and_nothing_is_lost_on_postgres() {
    everything_is_killed(House::on_its_own_postgres()).await;
}

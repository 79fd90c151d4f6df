//! `kill -9` during waits, child runs, loops and approvals.
//!
//! Servers restart at the same address, so workers and clients reconnect. Every run must end as if
//! nothing had happened, and an acknowledged request must take effect.

use std::collections::BTreeSet;
use std::time::Duration;

use noetl_api::execute::ExecuteRequest;
use noetl_types::{EventType, ExecutionId, Json};

use crate::system::constructs::max_concurrent;
use crate::system::deployment::{TestClient, TestDeployment, wait_until};
use crate::system::event_logs::{assert_log_valid, count_events};
use crate::system::process::NoetlProcess;
use crate::system::raw_http::post_json;
use crate::system::test_cluster::{parse_json, register_playbook_file, to_json_string};

/// Processes to kill.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KillTarget {
    Server,
    Worker,
    Both,
}

/// Number of concurrent runs.
const RUNS: usize = 3;
/// Calls of a run, including its child run.
const CALLS_PER_RUN: usize = 12;

/// Server and worker that are killed and restarted.
struct TestRig {
    deployment: TestDeployment,
    server: Option<NoetlProcess>,
    worker: Option<NoetlProcess>,
    url: String,
    restarts: u32,
}

impl TestRig {
    fn new(deployment: TestDeployment) -> Self {
        let server = deployment.start_server();
        let worker = deployment.start_worker(&server, "w0");
        Self {
            url: server.url.clone().expect("a server"),
            server: Some(server),
            worker: Some(worker),
            deployment,
            restarts: 0,
        }
    }

    fn client(&self) -> TestClient {
        TestClient::connect(self.server.as_ref().expect("a server"))
    }

    /// Kills processes and starts them again.
    fn kill_and_restart(&mut self, target: KillTarget) {
        self.restarts += 1;
        if target != KillTarget::Worker {
            drop(self.server.take());
        }
        if target != KillTarget::Server {
            drop(self.worker.take());
        }
        let server =
            self.server.get_or_insert_with(|| self.deployment.restart_server_at(&self.url));
        let name = format!("w{}", self.restarts);
        self.worker.get_or_insert_with(|| self.deployment.start_worker(server, &name));
    }

    async fn start(&self) -> Vec<ExecutionId> {
        let client = self.client();
        register_playbook_file(&client, "faults/child").await;
        let path = register_playbook_file(&client, "faults/everything").await;
        let effects_file = to_json_string(self.deployment.effects_file().display());
        let mut runs = Vec::new();
        for _ in 0..RUNS {
            let request = ExecuteRequest {
                path: Some(path.clone()),
                payload: Some(parse_json(&format!(r#"{{"effects_file":{effects_file}}}"#))),
                ..ExecuteRequest::default()
            };
            let started = client.0.execute_playbook(&request).await;
            runs.push(started.expect("started").execution_id);
        }
        runs
    }

    /// Approves and signals a run as soon as it waits for that. Both requests are acknowledged.
    async fn approve_and_signal(&self, run: ExecutionId) {
        let path = |action: &str| format!("/api/executions/{run}/{action}");
        let decision = parse_json(r#"{"step":"ask","decision":"approve"}"#);
        let polling = async {
            loop {
                let response = post_json(&self.url, &path("approve"), &decision).await;
                match response.status {
                    200 => return,
                    // The step is not entered yet.
                    409 => tokio::time::sleep(Duration::from_millis(20)).await,
                    _ => panic!("{response:?}"),
                }
            }
        };
        let approved = tokio::time::timeout(Duration::from_mins(1), polling).await;
        assert!(approved.is_ok(), "the run never asks for approval");
        let signal = parse_json(r#"{"name":"news","payload":"good"}"#);
        let response = post_json(&self.url, &path("signal"), &signal).await.expect_ok();
        assert_eq!(response.get("delivered"), Some(&Json::from(true)));
    }

    fn effect_keys(&self) -> BTreeSet<String> {
        self.deployment.effects_lines().into_iter().collect()
    }
}

async fn check_repeated_kills(deployment: TestDeployment, target: KillTarget) {
    let mut rig = TestRig::new(deployment);
    let runs = rig.start().await;
    wait_until("work is under way", || rig.effect_keys().len() >= RUNS * 2).await;
    rig.kill_and_restart(target);
    // An acknowledged request takes effect even if the server is killed right after it.
    rig.approve_and_signal(runs[0]).await;
    rig.kill_and_restart(target);
    // All remaining work waits for approvals and signals.
    wait_until("only waits are left", || rig.effect_keys().len() >= RUNS * (CALLS_PER_RUN - 1))
        .await;
    rig.kill_and_restart(target);
    rig.approve_and_signal(runs[1]).await;
    rig.approve_and_signal(runs[2]).await;
    rig.kill_and_restart(target);
    rig.client().assert_completed(&runs).await;
    assert_all_completed(rig, &runs).await;
}

async fn assert_all_completed(mut rig: TestRig, runs: &[ExecutionId]) {
    let expected = parse_json(r#"{"many":6,"child":"done","by":true,"news":"good"}"#);
    let client = rig.client();
    let mut logs = Vec::new();
    for run in runs {
        let result = client.run_status(*run).await.result.expect("a result");
        assert_eq!(result.get("told"), Some(&expected));
        logs.push(*run);
        let query = noetl_api::query::ExecutionsQuery {
            parent: Some(*run),
            ..noetl_api::query::ExecutionsQuery::default()
        };
        let children = client.0.list_executions(&query).await.expect("a list");
        assert_eq!(children.executions.len(), 1, "one child");
        logs.push(children.executions[0].execution_id);
    }
    drop((rig.server.take(), rig.worker.take()));
    for run in logs {
        let log = assert_log_valid(&rig.deployment, run).await;
        assert_eq!(count_events(&log, EventType::PlaybookCompleted), 1);
    }
    assert_eq!(rig.effect_keys().len(), RUNS * CALLS_PER_RUN, "one key for each call");
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_survive_repeated_server_kills_on_sqlite() {
    check_repeated_kills(TestDeployment::on_sqlite(), KillTarget::Server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_survive_repeated_server_kills_on_postgres() {
    check_repeated_kills(TestDeployment::on_postgres(), KillTarget::Server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_survive_repeated_worker_kills_on_sqlite() {
    check_repeated_kills(TestDeployment::on_sqlite(), KillTarget::Worker).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_survive_repeated_worker_kills_on_postgres() {
    check_repeated_kills(TestDeployment::on_postgres(), KillTarget::Worker).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_survive_repeated_kills_of_both_on_sqlite() {
    check_repeated_kills(TestDeployment::on_sqlite(), KillTarget::Both).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_survive_repeated_kills_of_both_on_postgres() {
    check_repeated_kills(TestDeployment::on_postgres(), KillTarget::Both).await;
}

/// Kills the server while runs wait for concurrency slots.
async fn check_slots_after_restart(deployment: TestDeployment) {
    const WAITING: usize = 12;
    let mut rig = TestRig::new(deployment);
    let path = register_playbook_file(&rig.client(), "constructs/concurrency").await;
    let effects_file = to_json_string(rig.deployment.effects_file().display());
    let mut runs = Vec::new();
    for _ in 0..WAITING {
        let request = ExecuteRequest {
            path: Some(path.clone()),
            payload: Some(parse_json(&format!(r#"{{"effects_file":{effects_file}}}"#))),
            ..ExecuteRequest::default()
        };
        let started = rig.client().0.execute_playbook(&request).await;
        runs.push(started.expect("started").execution_id);
    }
    for lines in [3, 11] {
        wait_until("some runs have had a slot", || rig.deployment.effects_lines().len() >= lines)
            .await;
        rig.kill_and_restart(KillTarget::Server);
    }
    rig.client().assert_completed(&runs).await;
    drop((rig.server.take(), rig.worker.take()));
    let lines = rig.deployment.effects_lines();
    assert_eq!(lines.len(), 2 * WAITING, "each run had a slot once");
    let max_active = max_concurrent(&lines);
    assert!((1..=2).contains(&max_active), "{max_active} at once");
    for run in runs {
        assert_log_valid(&rig.deployment, run).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_survive_server_restart_on_sqlite() {
    check_slots_after_restart(TestDeployment::on_sqlite()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_survive_server_restart_on_postgres() {
    check_slots_after_restart(TestDeployment::on_postgres()).await;
}

/// One of two servers is killed permanently, and the other one takes over its work.
#[tokio::test(flavor = "multi_thread")]
async fn surviving_server_takes_over() {
    let deployment = TestDeployment::on_postgres();
    let doomed = deployment.start_server();
    let mut rig = TestRig::new(deployment);
    // All runs start at the server that is killed.
    let survivor = (rig.server.take(), rig.url.clone());
    rig.url = doomed.url.clone().expect("a server");
    rig.server = Some(doomed);
    let runs = rig.start().await;
    wait_until("work is under way", || rig.effect_keys().len() >= RUNS * 2).await;
    (rig.server, rig.url) = survivor;
    for run in &runs {
        rig.approve_and_signal(*run).await;
    }
    rig.client().assert_completed(&runs).await;
    assert_all_completed(rig, &runs).await;
}

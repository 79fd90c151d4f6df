//! Several servers on one database.

use std::time::Duration;

use noetl_types::{EventType, Json};

use crate::system::deployment::{TestClient, TestDeployment};
use crate::system::event_logs::{assert_log_valid, count_events};
use crate::system::process::NoetlProcess;
use crate::system::raw_http;

const FAN_OUT_PLAYBOOK: &str = "workflow:
  - {step: start, tool: {kind: noop}, next: {arcs: [{step: many}]}}
  - {step: many, tool: {kind: noop}, loop: {in: 20, iterator: n, spec: {mode: parallel, max_in_flight: 20}}, next: {arcs: [{step: last}]}}
  - {step: last, tool: {kind: noop}}
";
const RUNS: usize = 30;

/// Two servers process the same runs concurrently, because the workers of both report to both.
#[tokio::test(flavor = "multi_thread")]
async fn two_servers_issue_each_command_once() {
    let deployment = TestDeployment::on_postgres();
    let servers = [deployment.start_server(), deployment.start_server()];
    let clients = servers.each_ref().map(TestClient::connect);
    clients[0].register_playbook("fan", FAN_OUT_PLAYBOOK).await;
    let _workers = [
        deployment.start_worker(&servers[0], "w1"),
        deployment.start_worker(&servers[1], "w2"),
        deployment.start_worker(&servers[1], "w3"),
    ];
    let mut runs = Vec::new();
    for number in 0..RUNS {
        let run = clients[number % 2].start("fan", Json::empty_map()).await;
        runs.push(run.expect("started"));
    }
    clients[0].assert_completed(&runs).await;
    for run in runs {
        let log = assert_log_valid(&deployment, run).await;
        assert_eq!(count_events(&log, EventType::CommandIssued), 22);
        assert_eq!(count_events(&log, EventType::CommandCompleted), 22);
        assert_eq!(count_events(&log, EventType::StepEnter), 3);
    }
}

/// Reads a metric of the notify channel. `None` if the server has never used the channel.
async fn notify_metric(server: &NoetlProcess, what: &str) -> Option<u64> {
    let base = server.url.as_deref().expect("a server");
    let text = raw_http::get_text(base, "/metrics").await;
    let name = format!("noetl_notify_{what}");
    let value = text.lines().find_map(|line| line.strip_prefix(&name));
    value.map(|value| value.trim_start_matches("{}").trim().parse().expect("a number"))
}

/// Waits until a notify metric of both servers meets a condition.
async fn wait_for_notify_metric(
    servers: &[NoetlProcess; 2],
    what: &str,
    condition: impl Fn(Option<u64>) -> bool,
) {
    let polling = async {
        for server in servers {
            while !condition(notify_metric(server, what).await) {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    };
    let result = tokio::time::timeout(Duration::from_mins(2), polling).await;
    assert!(result.is_ok(), "{what}: timed out");
}

/// A single server sends no notifications. Two servers find each other without configuration.
#[tokio::test(flavor = "multi_thread")]
async fn servers_on_one_database_notify_each_other() {
    let deployment = TestDeployment::on_postgres();
    let first = deployment.start_server();
    let client = TestClient::connect(&first);
    client.register_playbook("fan", FAN_OUT_PLAYBOOK).await;
    let run = client.start("fan", Json::empty_map()).await;
    let run = run.expect("started");
    assert_eq!(notify_metric(&first, "up").await, None);
    assert_eq!(notify_metric(&first, "sent_total").await, Some(0));
    let servers = [first, deployment.start_server()];
    wait_for_notify_metric(&servers, "up", |up| up == Some(1)).await;
    let _worker = deployment.start_worker(&servers[1], "w1");
    let another = client.start("fan", Json::empty_map()).await;
    client.assert_completed(&[run, another.expect("started")]).await;
    let is_positive = |count: Option<u64>| count.is_some_and(|count| count > 0);
    wait_for_notify_metric(&servers, "sent_total", is_positive).await;
    wait_for_notify_metric(&servers, "received_total", is_positive).await;
}

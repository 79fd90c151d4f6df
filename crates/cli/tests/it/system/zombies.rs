//! A worker that is suspended past its lease and then resumed.

use noetl_types::{EventType, Json};

use crate::system::deployment::{TestClient, TestDeployment, wait_until};
use crate::system::event_logs::{assert_log_valid, count_events};

const SLOW_PLAYBOOK: &str = r#"workload: { effects_file: /dev/null }
workflow:
  - step: start
    tool:
      kind: shell
      command: "echo $NOETL_IDEMPOTENCY_KEY >> {{ workload.effects_file }}; while [ ! -e {{ workload.effects_file }}.go ]; do sleep 0.05; done"
"#;

/// The call is made twice under one idempotency key. The log has one result, and an audit event
/// for the other report.
#[tokio::test(flavor = "multi_thread")]
async fn late_report_of_expired_worker_is_refused() {
    let deployment = TestDeployment::on_postgres();
    let server = deployment.start_server();
    let client = TestClient::connect(&server);
    client.register_playbook("slow", SLOW_PLAYBOOK).await;
    let zombie = deployment.start_worker(&server, "zombie");
    let effects_file = deployment.effects_file().display().to_string();
    let payload = Json::object([("effects_file", Json::from(effects_file))]);
    let run = client.start("slow", payload).await.expect("started");
    wait_until("the call is made", || deployment.effects_lines().len() == 1).await;
    zombie.send_signal("STOP");
    let _second = deployment.start_worker(&server, "second");
    wait_until("the call is made again", || deployment.effects_lines().len() == 2).await;
    let effects = deployment.effects_lines();
    assert_eq!(effects[0], effects[1], "the key outlives the worker");
    let go = format!("{}.go", deployment.effects_file().display());
    std::fs::write(go, "").expect("a file");
    zombie.send_signal("CONT");
    client.assert_completed(&[run]).await;
    server.kill();
    let log = assert_log_valid(&deployment, run).await;
    assert_eq!(count_events(&log, EventType::CommandExpired), 1);
    assert_eq!(count_events(&log, EventType::CommandCompleted), 1);
}

//! Cancelling a run stops its running tasks.

use noetl_api::execution::{CancelRequest, ExecutionStatusView};
use noetl_types::{EventType, ExecutionStatus, Json};

use crate::system::deployment::{TestClient, TestDeployment, wait_until};
use crate::system::event_logs::{assert_log_valid, count_events};
use crate::system::process::is_process_alive;

const ENDLESS_PLAYBOOK: &str = r#"workload: { pid_file: /dev/null }
workflow:
  - step: start
    tool: { kind: shell, command: "sleep 1000 & echo $! > {{ workload.pid_file }}; wait" }
"#;

const CLEANED_UP_PLAYBOOK: &str = r#"executor: { spec: { final_step: clean_up } }
workload: { pid_file: /dev/null, file: /dev/null }
workflow:
  - step: start
    tool: { kind: shell, command: "sleep 1000 & echo $! > {{ workload.pid_file }}; wait" }
  - step: clean_up
    tool: { kind: shell, command: "echo {{ event.payload.status }} {{ event.payload.cancelled_steps[0] }} > {{ workload.file }}" }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_run_is_cleaned_up() {
    let deployment = TestDeployment::on_sqlite();
    let server = deployment.start_server();
    let client = TestClient::connect(&server);
    client.register_playbook("cleaned_up", CLEANED_UP_PLAYBOOK).await;
    let _worker = deployment.start_worker(&server, "w1");
    let pid_file = deployment.effects_file();
    let file = pid_file.with_extension("cleaned");
    let text = |path: &std::path::Path| Json::from(path.display().to_string());
    let payload = Json::object([("pid_file", text(&pid_file)), ("file", text(&file))]);
    let run = client.start("cleaned_up", payload).await.expect("started");
    wait_until("the process runs", || is_process_alive(&pid_file)).await;
    let cancelled = client.0.cancel_execution(run, &CancelRequest::default()).await;
    assert_eq!(cancelled.expect("cancelled").status, "cancelling");
    wait_until("the process is gone", || !is_process_alive(&pid_file)).await;
    let is_cancelled = |view: &ExecutionStatusView| view.status == ExecutionStatus::Cancelled;
    client.wait_for_status(run, is_cancelled).await;
    assert_eq!(std::fs::read_to_string(file).expect("cleaned up"), "CANCELLED start\n");
    server.kill();
    assert_log_valid(&deployment, run).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_kills_the_running_process() {
    let deployment = TestDeployment::on_sqlite();
    let server = deployment.start_server();
    let client = TestClient::connect(&server);
    client.register_playbook("for_ever", ENDLESS_PLAYBOOK).await;
    let _worker = deployment.start_worker(&server, "w1");
    let pid_file = deployment.effects_file();
    let payload = Json::object([("pid_file", Json::from(pid_file.display().to_string()))]);
    let run = client.start("for_ever", payload).await.expect("started");
    wait_until("the process runs", || is_process_alive(&pid_file)).await;
    let cancelled = client.0.cancel_execution(run, &CancelRequest::default()).await;
    assert_eq!(cancelled.expect("cancelled").cancelled_executions, [run]);
    assert_eq!(client.run_status(run).await.status, ExecutionStatus::Cancelled);
    wait_until("the process is gone", || !is_process_alive(&pid_file)).await;
    server.kill();
    let log = assert_log_valid(&deployment, run).await;
    assert_eq!(count_events(&log, EventType::CommandCancelled), 1);
}

//! Output of tasks while they run, and after they were stopped.

use std::time::Duration;

use noetl_api::credential::CredentialPutRequest;
use noetl_api::execution::CancelRequest;
use noetl_api::output::{OutputQuery, OutputView};
use noetl_types::{ExecutionId, ExecutionStatus, Json};

use crate::system::deployment::{TestClient, TestDeployment};
use crate::system::event_logs::assert_log_valid;
use crate::system::process::NoetlProcess;

/// Prints a line and then hangs.
const HANGING_PLAYBOOK: &str = r#"workflow:
  - step: hang
    tool: { kind: shell, command: "echo visible; sleep 1000" }
"#;

const TIMEOUT_PLAYBOOK: &str = r#"workflow:
  - step: shell
    tool: { kind: shell, command: "echo from shell; sleep 1000", timeout: 2s }
    next: { arcs: [{ step: python, when: "{{ event.name == 'call.error' }}" }] }
  - step: python
    tool: { kind: python, code: "import time\nprint('from python')\ntime.sleep(1000)", timeout: 5s }
"#;

/// Prints a secret in two parts, with a pause in which the first part would be sent.
const SECRET_PLAYBOOK: &str = r#"workflow:
  - step: leak
    tool: { kind: shell, auth: api_main, command: "printf 'key: sesame-'; sleep 2; echo opens-42" }
"#;

const ENDLESS_PLAYBOOK: &str = r#"workflow:
  - step: flood
    tool: { kind: shell, command: "yes 0123456789abcdef", timeout: 8s }
"#;

/// Thirty-two bytes in base64.
const ENCRYPTION_KEY: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

impl TestClient {
    async fn list_all_output(&self, run: ExecutionId) -> Vec<OutputView> {
        let mut query = OutputQuery::default();
        let mut all = Vec::new();
        loop {
            let page = self.0.list_output(run, &query).await.expect("output");
            all.extend(page.chunks);
            query.after = page.next_after;
            if query.after.is_none() {
                return all;
            }
        }
    }

    async fn wait_for_output(&self, run: ExecutionId, text: &str) -> Vec<OutputView> {
        let polling = async {
            loop {
                let output = self.list_all_output(run).await;
                if output.iter().any(|chunk| chunk.stdout.contains(text)) {
                    return output;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let result = tokio::time::timeout(Duration::from_mins(2), polling).await;
        result.unwrap_or_else(|_| panic!("'{text}' never arrives"))
    }
}

/// Output of `noetl runs logs`.
fn printed_logs(
    deployment: &TestDeployment,
    server: &NoetlProcess,
    run: ExecutionId,
    args: &[&str],
) -> String {
    let (url, run) = (server.url.as_deref().expect("a server"), run.to_string());
    deployment.run_command(&[&["runs", "logs", &run, "--server", url], args].concat())
}

async fn check_hanging_task(deployment: TestDeployment) {
    let server = deployment.start_server();
    let client = TestClient::connect(&server);
    client.register_playbook("hanging", HANGING_PLAYBOOK).await;
    let first = deployment.start_worker(&server, "first");
    let run = client.start("hanging", Json::empty_map()).await.expect("started");
    let output = client.wait_for_output(run, "visible\n").await;
    assert_eq!((output[0].step.as_str(), output[0].attempt, output[0].last), ("hang", 1, false));
    assert_eq!(printed_logs(&deployment, &server, run, &[]), "hang | visible\n");
    first.kill();
    assert_eq!(printed_logs(&deployment, &server, run, &["hang", "--bare"]), "visible\n");
    // The second attempt prints it again.
    let _second = deployment.start_worker(&server, "second");
    let attempts = async {
        loop {
            let output = client.list_all_output(run).await;
            if let [first, second] = &*output {
                break [first.attempt, second.attempt];
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let attempts = tokio::time::timeout(Duration::from_mins(2), attempts).await;
    assert_eq!(attempts.expect("a second attempt"), [1, 2]);
    client.0.cancel_execution(run, &CancelRequest::default()).await.expect("cancelled");
    let logs = printed_logs(&deployment, &server, run, &["-f"]);
    assert_eq!(logs, "hang | visible\nhang | visible\n");
    server.kill();
    assert_log_valid(&deployment, run).await;
    if matches!(deployment.backend, crate::system::deployment::StoreBackend::Sqlite) {
        let lines = deployment.run_command(&["runs", "logs", "last", "-o", "jsonl"]);
        assert_eq!(lines.lines().count(), 2, "{lines}");
        assert!(lines.contains(r#""stdout":"visible\n""#), "{lines}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn output_survives_killed_worker_and_cancel_on_sqlite() {
    check_hanging_task(TestDeployment::on_sqlite()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn output_survives_killed_worker_and_cancel_on_postgres() {
    check_hanging_task(TestDeployment::on_postgres()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn output_of_timed_out_tasks_is_printed() {
    let deployment = TestDeployment::on_sqlite();
    let server = deployment.start_server();
    let client = TestClient::connect(&server);
    client.register_playbook("slow", TIMEOUT_PLAYBOOK).await;
    let _worker = deployment.start_worker(&server, "w1");
    let run = client.start("slow", Json::empty_map()).await.expect("started");
    let logs = printed_logs(&deployment, &server, run, &["-f"]);
    assert_eq!(logs, "shell | from shell\npython | from python\n");
    assert_eq!(client.run_status(run).await.status, ExecutionStatus::Failed);
    assert_eq!(printed_logs(&deployment, &server, run, &[]), logs);
    server.kill();
    assert_log_valid(&deployment, run).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn secret_printed_in_parts_is_redacted() {
    let deployment = TestDeployment::on_sqlite();
    let server = deployment.start_server_with_env(&[("NOETL_ENCRYPTION_KEY", ENCRYPTION_KEY)]);
    let client = TestClient::connect(&server);
    let credential = CredentialPutRequest {
        name: "api_main".into(),
        kind: "bearer".into(),
        data: Json::object([("token", Json::from("sesame-opens-42"))]),
        meta: None,
        tags: Vec::new(),
        description: None,
    };
    client.0.put_credential(&credential).await.expect("stored");
    client.register_playbook("leaking", SECRET_PLAYBOOK).await;
    let _worker = deployment.start_worker(&server, "w1");
    let run = client.start("leaking", Json::empty_map()).await.expect("started");
    let first = client.wait_for_output(run, "key: ").await;
    assert_eq!(first[0].stdout, "key: ");
    // Its result contains the output too, which is not printed again.
    assert_eq!(printed_logs(&deployment, &server, run, &["-f"]), "leak | key: [REDACTED]\n");
    assert_eq!(printed_logs(&deployment, &server, run, &[]), "leak | key: [REDACTED]\n");
    let chunks = client.list_all_output(run).await;
    assert_eq!(
        chunks.last().map(|chunk| (chunk.stdout.as_str(), chunk.last)),
        Some(("[REDACTED]\n", true))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_output_stays_bounded() {
    let deployment = TestDeployment::on_sqlite();
    let server = deployment.start_server();
    let client = TestClient::connect(&server);
    client.register_playbook("flooding", ENDLESS_PLAYBOOK).await;
    let worker = deployment.start_worker(&server, "w1");
    let run = client.start("flooding", Json::empty_map()).await.expect("started");
    let logs = printed_logs(&deployment, &server, run, &["-f"]);
    assert!(logs.contains("[truncated: "), "{} bytes", logs.len());
    let bytes: usize = client.list_all_output(run).await.iter().map(|it| it.stdout.len()).sum();
    assert!((256 << 10..=1 << 20).contains(&bytes), "{bytes}");
    assert!(worker.peak_memory_mib() < 200, "{}", worker.peak_memory_mib());
}

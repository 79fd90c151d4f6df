//! Secrets pass through every tool kind and every outcome of its calls, and must not leak anywhere.
//!
//! Each path has a separate secret that identifies the path of a leak, and a marker word that is
//! not secret. The search must find the marker, or its result would prove nothing.

mod echo_server;
mod leak_search;
mod secret_paths;

use std::fs::File;
use std::process::Stdio;
use std::time::Duration;

use noetl_api::catalog::RegisterRequest;
use noetl_testkit::nats::NatsServer;
use noetl_testkit::postgres::TestDatabase;
use noetl_types::{ExecutionId, ExecutionStatus, Json};

use self::echo_server::EchoServer;
use self::leak_search::{SECRET_DIGITS, SECRET_PREFIX, SECRET_SUFFIX, SearchedContent};
use self::secret_paths::{PLAYBOOK_GROUPS, SecretPath};
use crate::system::deployment::{TestClient, TestDeployment, wait_until};
use crate::system::process::NoetlProcess;
use crate::system::raw_http::{get_bytes, post_json};
use crate::system::test_cluster::{parse_json, to_json_string};

#[tokio::test(flavor = "multi_thread")]
async fn secrets_leak_nowhere_on_sqlite() {
    CanaryDeployment::open(TestDeployment::on_sqlite()).await.assert_no_leaks().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_leak_nowhere_on_postgres() {
    CanaryDeployment::open(TestDeployment::on_postgres()).await.assert_no_leaks().await;
}

/// Deployment with a stream, an outbox, traces and debug logs, and the services that its tasks use.
struct CanaryDeployment {
    deployment: TestDeployment,
    nats: NatsServer,
    server: NoetlProcess,
    echo: EchoServer,
    /// Database, broker and directory of the tasks. They are not searched: tasks may write secrets
    /// there.
    task_database: TestDatabase,
    task_broker: NatsServer,
    task_dir: tempfile::TempDir,
}

/// Thirty-two bytes in base64.
const ENCRYPTION_KEY: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

impl CanaryDeployment {
    async fn open(deployment: TestDeployment) -> Self {
        let password = secret_value("nats_password");
        let nats = NatsServer::start_with_login("noetl", &password).expect("a broker");
        let deployment = deployment.with_lease_secs(30).with_event_stream(&nats);
        let echo = EchoServer::open(secret_value("keychain_token_issued")).await;
        for dir in ["tmp", "bin"] {
            std::fs::create_dir(deployment.dir.path().join(dir)).expect("a directory");
        }
        install_fake_docker(&deployment);
        let mut command = deployment.noetl_command();
        command
            .env("NOETL_LOG", "trace")
            .env("NOETL_UNSAFE_NATS", "false")
            .env("NOETL_OUTBOX_ENABLED", "true")
            .env("NOETL_ENCRYPTION_KEY", ENCRYPTION_KEY)
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", &echo.url)
            .args(["server", "--port", "0"]);
        let server =
            NoetlProcess::start_server_with_log(&mut command, open_log_file(&deployment, "server"));
        Self {
            nats,
            server,
            echo,
            task_database: TestDatabase::new().expect("a database"),
            task_broker: NatsServer::start().expect("a broker"),
            task_dir: tempfile::tempdir().expect("a directory"),
            deployment,
        }
    }

    fn server_url(&self) -> &str {
        self.server.url.as_deref().expect("a server")
    }

    fn start_worker(&self, name: &str) -> NoetlProcess {
        let mut command = self.deployment.worker_command(&self.server, name);
        command.env("NOETL_LOG", "trace").env("TMPDIR", self.deployment.dir.path().join("tmp"));
        NoetlProcess::start_worker_with_log(&mut command, open_log_file(&self.deployment, name))
    }

    /// Runs all paths and asserts that no secret leaked.
    async fn assert_no_leaks(self) {
        let client = TestClient::connect(&self.server);
        let mut contents = vec![self.rejected_credential_response().await];
        for path in all_paths() {
            self.store_credential(path).await;
        }
        let child = "workload: { given: '' }\nworkflow:\n  - step: told\n    tool: { kind: noop, result: \"{{ workload.given }}\" }\n";
        self.register_playbook(&client, "child", child).await;
        let mut runs =
            vec![(self.start_run_with_killed_worker(&client).await, &[] as &[SecretPath])];
        for (group, paths) in PLAYBOOK_GROUPS {
            self.register_playbook(&client, group, &build_playbook(paths)).await;
            runs.push((self.start(&client, group).await, paths));
        }
        // Workers start last, so that commands without a waiting worker are announced by the
        // broker.
        let workers = ["w1", "w2"].map(|name| self.start_worker(name));
        let cancelled_run = self.start_cancelled_run(&client).await;
        let mut problems = Vec::new();
        for (run, paths) in &runs {
            let has_ended = |status: &noetl_api::execution::ExecutionStatusView| {
                status.completed || status.failed
            };
            client.wait_for_status(*run, has_ended).await;
            let status = client.run_status(*run).await;
            let expected = if paths.iter().any(|path| path.is_last) {
                ExecutionStatus::Failed
            } else {
                ExecutionStatus::Completed
            };
            if status.status != expected {
                problems.push(format!("{status:?}"));
            }
        }
        runs.push((cancelled_run, &[]));
        contents.extend(self.collect_queried(&runs).await);
        contents.extend(self.wait_for_published().await);
        workers.into_iter().for_each(NoetlProcess::terminate);
        let Self { deployment, server, .. } = &self;
        server.send_signal("KILL");
        contents.push(leak_search::database_rows(deployment).await.require(all_marker_words()));
        contents.extend(
            leak_search::files_below(deployment.dir.path()).into_iter().map(require_debug_lines),
        );
        problems.extend(contents.iter().flat_map(SearchedContent::find_leaks));
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    /// A rejected credential is not echoed in the response.
    async fn rejected_credential_response(&self) -> SearchedContent {
        let body = format!(
            r#"{{"name":"c_refused","type":7,"data":{}}}"#,
            to_json_string(secret_value("refused"))
        );
        let response = post_json(self.server_url(), "/api/credentials", &parse_json(&body)).await;
        assert!((400..500).contains(&response.status), "{response:?}");
        SearchedContent::new("the response to an invalid credential", response.body.to_string())
            .require(["validation"])
    }

    async fn store_credential(&self, path: &SecretPath) {
        let (kind, data) = path.credential;
        let data = data.replace("<V>", &secret_value(path.name)).replace("<DIGITS>", SECRET_DIGITS);
        let body = format!(r#"{{"name":"c_{}","type":"{kind}","data":{data}}}"#, path.name);
        post_json(self.server_url(), "/api/credentials", &parse_json(&body)).await.expect_ok();
    }

    async fn register_playbook(&self, client: &TestClient, name: &str, body: &str) {
        let content = format!(
            "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: {name}, path: canary/{name} }}\n{body}"
        );
        let content = content
            .replace("<URL>", &self.echo.url)
            .replace("<DSN>", &self.task_database.connection_config())
            .replace("<NATS>", self.task_broker.url())
            .replace("<FILE>", &self.task_dir.path().join("tasks.db").display().to_string());
        let request = RegisterRequest { content, resource_type: None, dry_run: false };
        let registered = client.0.catalog_register(&request).await;
        registered.unwrap_or_else(|error| panic!("{name}: {error}"));
    }

    async fn start(&self, client: &TestClient, name: &str) -> ExecutionId {
        let path = format!("canary/{name}");
        let started = client.start(&path, Json::empty_map()).await;
        started.expect("started")
    }

    /// Starts a run and cancels it while its task has the secret.
    async fn start_cancelled_run(&self, client: &TestClient) -> ExecutionId {
        let marker_file = self.task_dir.path().join("begun");
        let name = "cancelled";
        let body = format!(
            "keychain: [{{ name: k, kind: bearer, auth: c_shell_says }}]\nworkflow:\n  - step: {name}\n    tool: {{ kind: shell, command: \"echo '{{{{ keychain.k.token }}}}'; touch {}; sleep 60\" }}\n",
            marker_file.display()
        );
        self.register_playbook(client, name, &body).await;
        let run = self.start(client, name).await;
        wait_until("the task runs", || marker_file.exists()).await;
        let path = format!("/api/executions/{run}/cancel");
        post_json(self.server_url(), &path, &Json::empty_map()).await.expect_ok();
        client.wait_for_status(run, |status| status.is_cancelled).await;
        run
    }

    /// Starts a run and kills its worker while its task has the secret. Another worker repeats the
    /// call.
    async fn start_run_with_killed_worker(&self, client: &TestClient) -> ExecutionId {
        let marker_file = self.task_dir.path().join("doomed");
        let name = "killed";
        let body = format!(
            "keychain: [{{ name: k, kind: bearer, auth: c_shell_says }}]\nworkflow:\n  - step: {name}\n    tool: {{ kind: shell, command: \"echo '{{{{ keychain.k.token }}}}'; if [ ! -e {marker_file} ]; then touch {marker_file}; sleep 60; fi\" }}\n",
            marker_file = marker_file.display()
        );
        self.register_playbook(client, name, &body).await;
        let worker = self.start_worker("w0");
        let run = self.start(client, name).await;
        wait_until("the task runs", || marker_file.exists()).await;
        worker.kill();
        run
    }

    /// Collects the output of the CLI and the API.
    async fn collect_queried(&self, runs: &[(ExecutionId, &[SecretPath])]) -> Vec<SearchedContent> {
        let mut contents = Vec::new();
        for (run, paths) in runs {
            let markers = marker_words(paths);
            for content in leak_search::command_outputs(&self.deployment, self.server_url(), *run) {
                let markers = markers.clone().into_iter();
                contents.push(
                    if content.is_named("runs events") || content.is_named("runs tail") {
                        content.require(markers)
                    } else if content.is_named("runs logs") {
                        content.require(markers.filter(|marker| marker == "seenit_shell_says"))
                    } else if content.is_named("runs explain") {
                        content.require(markers.filter(|marker| marker == "seenit_end_fails"))
                    } else {
                        content.require([run.to_string()])
                    },
                );
            }
            for (path, required) in [
                ("", Vec::new()),
                ("/status", Vec::new()),
                ("/explain", Vec::new()),
                ("/export", Vec::new()),
                ("/events?limit=500", markers.clone()),
                ("/events/stream", markers.clone()),
                ("/logs", Vec::new()),
            ] {
                let path = format!("/api/executions/{run}{path}");
                let content = get_bytes(self.server_url(), &path).await;
                contents.push(SearchedContent::new(path, content).require(required));
            }
        }
        for (path, required) in [
            ("/api/executions", "canary/shell"),
            ("/api/credentials", "c_shell_says"),
            ("/api/stream/feed?limit=500", "events"),
            ("/metrics", "noetl_"),
        ] {
            let content = get_bytes(self.server_url(), path).await;
            contents.push(SearchedContent::new(path, content).require([required]));
        }
        contents
    }

    /// Collects published messages and traces, when they are complete or after a timeout.
    async fn wait_for_published(&self) -> Vec<SearchedContent> {
        for _ in 0..300 {
            let contents = self.collect_published().await;
            if contents.len() == 3 && contents.iter().all(SearchedContent::has_required) {
                return contents;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        self.collect_published().await
    }

    async fn collect_published(&self) -> Vec<SearchedContent> {
        let steps = all_paths().map(|path| path.name);
        let traces = SearchedContent::new("the traces", self.echo.received_traces()).require(steps);
        let streams = leak_search::stream_messages(&self.nats).await.into_iter();
        let streams = streams.map(|content| {
            if content.is_named("noetl_events") {
                content.require(all_marker_words())
            } else {
                content.require(["execution_id"])
            }
        });
        streams.chain([traces]).collect()
    }
}

fn open_log_file(deployment: &TestDeployment, name: &str) -> Stdio {
    let path = deployment.dir.path().join(format!("{name}.log"));
    Stdio::from(File::create(path).expect("a file"))
}

/// Requires debug lines in the log of the server, so that its search is meaningful. Workers rarely
/// write any.
fn require_debug_lines(content: SearchedContent) -> SearchedContent {
    if content.is_named("server.log") { content.require(["DEBUG"]) } else { content }
}

fn secret_value(name: &str) -> String {
    format!("{SECRET_PREFIX}-{name}-{SECRET_SUFFIX}")
}

fn all_paths() -> impl Iterator<Item = &'static SecretPath> + Clone {
    PLAYBOOK_GROUPS.iter().flat_map(|(_, paths)| *paths)
}

fn marker_words(paths: &[SecretPath]) -> Vec<String> {
    let marked = paths.iter().filter(|path| path.shows_marker);
    marked.map(|path| format!("seenit_{}", path.name)).collect()
}

fn all_marker_words() -> Vec<String> {
    PLAYBOOK_GROUPS.iter().flat_map(|(_, paths)| marker_words(paths)).collect()
}

/// Builds a playbook with one step for each path.
fn build_playbook(paths: &[SecretPath]) -> String {
    let mut text = "workbook:
  - name: tell
    tool: { kind: python, code: 'result = [token, word]' }
keychain:
  - { name: issued, kind: oauth2, endpoint: \"<URL>/token\", auth: c_keychain_token }
  - { name: refused, kind: oauth2, endpoint: \"<URL>/refuses\", auth: c_keychain_refused }
  - { name: mapped, kind: credential, auth: c_keychain_mapped, map: { inner: outer.inner } }
"
    .to_owned();
    for SecretPath { name, .. } in paths {
        text.push_str(&format!("  - {{ name: {name}, kind: bearer, auth: c_{name} }}\n"));
    }
    text.push_str("workflow:\n");
    let next = paths.iter().skip(1).map(|path| path.name).chain(["end"]);
    for (path, next) in paths.iter().zip(next) {
        let name = path.name;
        let substitute = |text: &str| {
            text.replace("<S>", &format!("{{{{ keychain.{name}.token }}}}"))
                .replace("<K>", &format!("keychain.{name}.token"))
                .replace("<M>", &format!("{{{{ 'seen' ~ 'it_{name}' }}}}"))
                .replace("<N>", name)
        };
        let tool = substitute(path.tool).replace('\n', "\n      ");
        let when = if path.fails { ", when: \"{{ event.name == 'call.error' }}\"" } else { "" };
        text.push_str(&format!("  - step: {name}\n"));
        if !path.step.is_empty() {
            text.push_str(&format!("    {}\n", substitute(path.step)));
        }
        text.push_str(&format!("    tool:\n      {tool}\n"));
        if !path.is_last {
            text.push_str(&format!("    next: {{ arcs: [{{ step: {next}{when} }}] }}\n"));
        }
    }
    if !paths.iter().any(|path| path.is_last) {
        text.push_str("  - step: end\n    tool: { kind: noop }\n");
    }
    text
}

/// Installs a fake `docker` that prints its input, or fails with it.
fn install_fake_docker(deployment: &TestDeployment) {
    use std::os::unix::fs::PermissionsExt as _;
    let file = deployment.bin_dir().join("docker");
    let script = r#"#!/bin/sh
verb=$1
for last; do :; done
case "$verb$last" in
rm*) echo "No such container: $last" >&2; exit 1 ;;
runbroken*) echo "$WHO $WORD" >&2; exit 9 ;;
run*) echo "$WHO $WORD" ;;
esac
"#;
    std::fs::write(&file, script).expect("a program");
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&file, executable).expect("permissions");
}

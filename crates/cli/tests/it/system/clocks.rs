//! Processes whose clocks are skewed or stepped, by libfaketime.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use noetl_types::{EventType, Json};

use crate::system::deployment::{TestClient, TestDeployment, wait_until};
use crate::system::event_logs::{assert_log_valid, count_events};
use crate::system::process::NoetlProcess;
use crate::system::raw_http;

const STEPS_PLAYBOOK: &str = "workflow:
  - step: start
    tool: {kind: shell, command: 'sleep 0.2'}
    loop: {in: 6, iterator: n, spec: {mode: sequential}}
";

const PROBE_PLAYBOOK: &str = "workflow:
  - {step: start, tool: {kind: noop}}
";

const WAITING_PLAYBOOK: &str = r#"workload: { effects_file: /dev/null }
workflow:
  - step: start
    tool:
      kind: shell
      command: "echo call >> {{ workload.effects_file }}; while [ ! -e {{ workload.effects_file }}.go ]; do sleep 0.05; done"
"#;

/// File that determines the clock of the processes that use it.
struct FakeClock(PathBuf);

impl FakeClock {
    fn new(deployment: &TestDeployment, name: &str, offset: &str) -> Self {
        let clock = Self(deployment.dir.path().join(name));
        clock.set_offset(offset);
        clock
    }

    /// Sets the wall clock to an offset such as `+20s`.
    fn set_offset(&self, offset: &str) {
        let temporary = self.0.with_extension("new");
        std::fs::write(&temporary, offset).expect("a file");
        std::fs::rename(&temporary, &self.0).expect("renamed");
    }

    /// Makes a command use this clock. Its monotonic clock stays correct.
    fn apply_to<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        let libraries = std::fs::read_dir("/usr/lib").expect("a directory").flatten();
        let mut libraries = libraries.map(|entry| entry.path().join("faketime/libfaketime.so.1"));
        let library = libraries.find(|path| path.exists());
        command
            .env("LD_PRELOAD", library.expect("libfaketime is installed"))
            .env("FAKETIME_TIMESTAMP_FILE", &self.0)
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .env("DONT_FAKE_MONOTONIC", "1")
    }

    fn start_server(&self, deployment: &TestDeployment) -> NoetlProcess {
        let mut command = deployment.noetl_command();
        NoetlProcess::start_server(self.apply_to(&mut command).args(["server", "--port", "0"]))
    }
}

async fn readiness(server: &NoetlProcess) -> String {
    let url = server.url.as_deref().expect("a server");
    raw_http::get_json(url, "/readyz").await.body.to_string()
}

/// One of two servers is 20 seconds ahead of the database, four times the lease.
#[tokio::test(flavor = "multi_thread")]
async fn skewed_server_costs_no_commands() {
    let deployment = TestDeployment::on_postgres();
    let ahead = FakeClock::new(&deployment, "ahead", "+20s");
    let servers = [deployment.start_server(), ahead.start_server(&deployment)];
    let clients = servers.each_ref().map(TestClient::connect);
    clients[0].register_playbook("steps", STEPS_PLAYBOOK).await;
    let _workers =
        [deployment.start_worker(&servers[0], "w1"), deployment.start_worker(&servers[0], "w2")];
    let mut runs = Vec::new();
    for number in 0..6 {
        let run = clients[number % 2].start("steps", Json::empty_map()).await;
        runs.push(run.expect("started"));
    }
    clients[0].assert_completed(&runs).await;
    for run in runs {
        let log = assert_log_valid(&deployment, run).await;
        assert_eq!(count_events(&log, EventType::CommandExpired), 0);
    }
    let [good, skewed] = [readiness(&servers[0]).await, readiness(&servers[1]).await];
    assert!(good.contains(r#""clock":"ok""#), "{good}");
    assert!(skewed.contains(r#""clock":"failed""#), "{skewed}");
    // Synchronized, the server grants leases again.
    ahead.set_offset("+0s");
    let _late = deployment.start_worker(&servers[1], "w3");
    let ready = readiness(&servers[1]).await;
    assert!(ready.contains(r#""clock":"ok""#), "{ready}");
}

/// The clock of the only server is one day ahead while it grants a lease, and correct when it
/// starts again.
#[tokio::test(flavor = "multi_thread")]
async fn lease_of_clock_ahead_does_not_outlive_its_worker() {
    let deployment = TestDeployment::on_sqlite();
    let clock = FakeClock::new(&deployment, "clock", "+1d");
    let server = clock.start_server(&deployment);
    let client = TestClient::connect(&server);
    client.register_playbook("waiting", WAITING_PLAYBOOK).await;
    let first = deployment.start_worker(&server, "first");
    let effects_file = deployment.effects_file().display().to_string();
    let payload = Json::object([("effects_file", Json::from(effects_file))]);
    let run = client.start("waiting", payload).await.expect("started");
    wait_until("the call is made", || deployment.effects_lines().len() == 1).await;
    first.kill();
    server.kill();
    clock.set_offset("+0s");
    let server = clock.start_server(&deployment);
    let client = TestClient::connect(&server);
    let ready = readiness(&server).await;
    assert!(ready.contains(r#""machine_id":"ok""#), "{ready}");
    client.register_playbook("probe", PROBE_PLAYBOOK).await;
    probe_clock_ms(&client).await;
    let _second = deployment.start_worker(&server, "second");
    std::fs::write(format!("{}.go", deployment.effects_file().display()), "").expect("a file");
    client.assert_completed(&[run]).await;
    assert_eq!(deployment.effects_lines().len(), 2);
}

/// The clock of the only server steps while a worker is busy.
#[tokio::test(flavor = "multi_thread")]
async fn stepped_clock_costs_no_command() {
    let deployment = TestDeployment::on_sqlite();
    let clock = FakeClock::new(&deployment, "clock", "+0s");
    let server = clock.start_server(&deployment);
    let client = TestClient::connect(&server);
    client.register_playbook("waiting", WAITING_PLAYBOOK).await;
    let _worker = deployment.start_worker(&server, "w1");
    let effects_file = deployment.effects_file().display().to_string();
    let payload = Json::object([("effects_file", Json::from(effects_file))]);
    let run = client.start("waiting", payload).await.expect("started");
    wait_until("the call is made", || deployment.effects_lines().len() == 1).await;
    client.register_playbook("probe", PROBE_PLAYBOOK).await;
    let real_ms = probe_clock_ms(&client).await;
    clock.set_offset("+90s");
    while probe_clock_ms(&client).await < real_ms + 90_000 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    clock.set_offset("+0s");
    while probe_clock_ms(&client).await >= real_ms + 90_000 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let ready = readiness(&server).await;
    assert!(ready.contains(r#""machine_id":"ok""#), "{ready}");
    std::fs::write(format!("{}.go", deployment.effects_file().display()), "").expect("a file");
    client.assert_completed(&[run]).await;
    assert_eq!(deployment.effects_lines().len(), 1);
}

/// Starts a run, and returns the time of its id in milliseconds. Fails if no id is generated.
async fn probe_clock_ms(client: &TestClient) -> i64 {
    let run = client.start("probe", Json::empty_map()).await;
    run.expect("an id is generated").get() >> 22
}

/// A server that is killed while it processes a request leaves the key of the request in progress.
#[tokio::test(flavor = "multi_thread")]
async fn restarted_server_continues_abandoned_request() {
    let deployment = TestDeployment::on_sqlite();
    let server = deployment.start_server();
    let client = TestClient::connect(&server);
    client.register_playbook("probe", PROBE_PLAYBOOK).await;
    let run = client.start("probe", Json::empty_map()).await.expect("started");
    let url = server.url.clone().expect("an address");
    let path = format!("/api/executions/{run}/cancel");
    let body = Json::empty_map();
    let cancel = || raw_http::post_json_with_headers(&url, &path, "idempotency-key: k\r\n", &body);
    let first = cancel().await;
    assert_eq!(first.status, 200, "{first:?}");
    server.kill();
    // The state in which a server leaves the key if it is killed before the answer is stored.
    let database = rusqlite::Connection::open(deployment.database_file()).expect("a database");
    let in_progress = "UPDATE idempotency SET answer = 'null',
        status = -1000000 * (unixepoch() + 30) WHERE route LIKE '%cancel%'";
    assert_eq!(database.execute(in_progress, []).expect("changed"), 1);
    drop(database);
    let _server = deployment.restart_server_at(&url);
    let repeated = cancel().await;
    assert_eq!(repeated.status, 200, "{repeated:?}");
}

/// The next worker deletes the files of a killed one, and not those of a live one.
#[tokio::test(flavor = "multi_thread")]
async fn files_of_killed_worker_are_deleted() {
    let deployment = TestDeployment::on_sqlite();
    let server = deployment.start_server();
    let scratch = deployment.dir.path().join("scratch");
    std::fs::create_dir(&scratch).expect("a directory");
    let start = |name: &str| {
        let mut command = deployment.worker_command(&server, name);
        NoetlProcess::start_worker(command.env("TMPDIR", &scratch))
    };
    let folders = || {
        let entries = std::fs::read_dir(&scratch).expect("a directory").flatten();
        let names = entries.map(|entry| entry.file_name().into_string().expect("a name"));
        names.filter(|name| name.starts_with("noetl-tasks-")).collect::<BTreeSet<_>>()
    };
    let killed = start("killed");
    wait_until("the first folder exists", || folders().len() == 1).await;
    let abandoned = folders();
    let live = start("live");
    wait_until("the second folder exists", || folders().len() == 2).await;
    let of_live: BTreeSet<_> = folders().difference(&abandoned).cloned().collect();
    killed.kill();
    let _third = start("third");
    wait_until("the folder is deleted", || folders().is_disjoint(&abandoned)).await;
    wait_until("the third folder exists", || folders().len() == 2).await;
    assert!(folders().is_superset(&of_live));
    live.terminate();
}

//! `noetl dev`, `noetl server` and `noetl worker` as processes.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use crate::cli::process::{NoetlProcess, is_process_alive};
use crate::cli::run::{isolated_command, mask_run_output};
use crate::cli::support::{CLEAN_PLAYBOOK, CommandOutput, TestDir, wait_until};

/// Sends a GET request and returns the whole response.
pub(crate) fn http_get(url: &str, path: &str) -> String {
    send_request(url, &format!("GET {path}"), "")
}

/// Posts JSON and returns the whole response.
pub(crate) fn http_post(url: &str, path: &str, body: &str) -> String {
    send_request(url, &format!("POST {path}"), body)
}

fn send_request(url: &str, request_line: &str, body: &str) -> String {
    let address = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    write!(
        stream,
        "{request_line} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

pub(crate) fn start_listening(dir: &TestDir, args: &[&str]) -> (NoetlProcess, String) {
    let mut process = NoetlProcess::start(isolated_command(dir, args));
    let line = process.wait_for_stdout("NoETL listening on http://127.0.0.1:");
    let url = line.split(' ').next_back().unwrap().to_owned();
    (process, url)
}

#[test]
fn dev_prints_address_serves_and_stops() {
    let dir = TestDir::new("dev");
    let (mut dev, url) = start_listening(&dir, &["dev", "--port", "0"]);
    dev.wait_for_stdout("Data in ");
    dev.wait_for_stdout("Stop with Ctrl-C");
    assert!(http_get(&url, "/livez").starts_with("HTTP/1.1 200"));
    assert!(dir.path("data/noetl.db.server.json").exists());
    dev.send_interrupt();
    let (code, _, err) = dev.wait_for_exit();
    assert_eq!(code, 0, "{err}");
    assert!(!dir.path("data/noetl.db.server.json").exists());
    let lines: Vec<&str> = err.lines().collect();
    assert!(!lines.is_empty() && lines.iter().all(|line| line.starts_with("{\"timestamp\"")));
}

#[test]
fn run_is_executed_by_running_dev() {
    let dir = TestDir::new("dev_hand_over");
    dir.write("clean.yaml", CLEAN_PLAYBOOK);
    let local: CommandOutput =
        isolated_command(&dir, &["run", "clean.yaml"]).output().unwrap().into();
    assert_eq!(local.code, 0, "{}", local.err);
    let (_dev, url) = start_listening(&dir, &["dev", "--port", "0"]);
    let remote: CommandOutput =
        isolated_command(&dir, &["run", "clean.yaml"]).output().unwrap().into();
    assert_eq!(remote.code, 0, "{}", remote.err);
    assert!(remote.err.contains(&format!("· at {url}")), "{}", remote.err);
    let runs = http_get(&url, "/api/executions");
    for output in [&local, &remote] {
        let first = output.err.lines().next().unwrap();
        let id = first.split("run ").nth(1).unwrap().split(' ').next().unwrap();
        assert!(runs.contains(id), "{id} is not in {runs}");
    }
    let steps = |output: &CommandOutput| {
        let lines = mask_run_output(&dir, &output.err);
        lines.lines().skip(1).take(3).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(steps(&local), steps(&remote));
}

#[test]
fn run_at_dev_is_cancelled_by_interrupt() {
    let dir = TestDir::new("dev_cancel");
    dir.write("sleep.yaml", crate::cli::run::sleeping_playbook());
    let (_dev, url) = start_listening(&dir, &["dev", "--port", "0"]);
    let set = format!("folder={}", dir.path("").display());
    let process =
        NoetlProcess::start(isolated_command(&dir, &["run", "sleep.yaml", "--set", &set]));
    dir.wait_for_file("pid");
    process.send_interrupt();
    let (code, _, err) = process.wait_for_exit();
    assert_eq!(code, 130, "{err}");
    assert!(http_get(&url, "/api/executions").contains("CANCELLED"));
    let id = dir.read("pid");
    wait_until("the worker kills the tool", || !is_process_alive(id.trim()));
}

#[test]
fn rejects_second_server_on_same_database() {
    let dir = TestDir::new("dev_twice");
    let (_dev, url) = start_listening(&dir, &["dev", "--port", "0"]);
    let second: CommandOutput =
        isolated_command(&dir, &["server", "--port", "0"]).output().unwrap().into();
    assert_eq!((second.code, &*second.out), (4, ""));
    assert!(second.err.starts_with("error: another process is using"), "{}", second.err);
    assert!(second.err.contains(&format!("at {url}")), "{}", second.err);
}

#[test]
fn separate_server_and_workers_run_playbooks() {
    let dir = TestDir::new("server_worker");
    dir.write("clean.yaml", CLEAN_PLAYBOOK);
    let (mut server, url) = start_listening(&dir, &["server", "--port", "0"]);
    server.wait_for_stdout("First token");
    let admin = server.wait_for_stdout("noetl_");
    let admin = admin.trim();
    let token = |args: &[&str]| -> CommandOutput {
        let mut command = isolated_command(&dir, &[&["token"], args].concat());
        command.env("NOETL_SERVER_URL", &url).env("NOETL_TOKEN", admin);
        command.output().unwrap().into()
    };
    let created = token(&["create", "hand", "--scope", "worker", "--pool", "shared"]);
    assert_eq!(created.code, 0, "{}", created.err);
    let worker_token = created.out.trim();
    assert!(worker_token.starts_with("noetl_"), "{worker_token}");
    let listed = token(&["list"]).out;
    assert!(listed.contains("admin") && listed.contains("hand"), "{listed}");
    assert!(!listed.contains(worker_token), "{listed}");
    let args = ["worker", "--server", &url, "--concurrency", "2", "--log-format", "text"];
    let mut workers = [(); 2].map(|()| {
        let mut command = isolated_command(&dir, &args);
        command.env("NOETL_TOKEN", worker_token);
        NoetlProcess::start(command)
    });
    for worker in &mut workers {
        worker.wait_for_stdout("of pool shared for http://");
        worker.wait_for_stderr("registered");
    }
    let run = |token: Option<&str>| -> CommandOutput {
        let mut command = isolated_command(&dir, &["run", "clean.yaml"]);
        command.envs(token.map(|token| ("NOETL_TOKEN", token)));
        command.output().unwrap().into()
    };
    for _ in 0..3 {
        let output = run(Some(admin));
        assert_eq!(output.code, 0, "{}", output.err);
    }
    for token in [None, Some(worker_token)] {
        let denied = run(token);
        assert_eq!(denied.code, 6, "{}", denied.err);
    }
    for worker in workers {
        worker.send_interrupt();
        let (code, _, err) = worker.wait_for_exit();
        assert_eq!(code, 0, "{err}");
    }
    server.send_interrupt();
    assert_eq!(server.wait_for_exit().0, 0);
}

#[test]
fn startup_errors_state_the_fix() {
    let dir = TestDir::new("server_refused");
    let occupied = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = occupied.local_addr().unwrap().port().to_string();
    let run = |args: &[&str], variables: &[(&str, &str)]| -> CommandOutput {
        let mut command = isolated_command(&dir, args);
        command.envs(variables.iter().copied());
        command.output().unwrap().into()
    };
    let masked_stderr = |output: &CommandOutput| output.err.replace(&port, "PORT");

    let failed = run(&["dev", "--port", &port], &[]);
    assert_eq!(failed.code, 4);
    insta::assert_snapshot!(masked_stderr(&failed), @r"
    error: port PORT of 127.0.0.1 is already in use
      help: choose another with --port, or use --port 0 for a free one
    ");

    let failed = run(&["server", "--host", "0.0.0.0"], &[]);
    assert_eq!(failed.code, 2);
    insta::assert_snapshot!(masked_stderr(&failed), @r"
    error: 0.0.0.0 can be reached from other machines, and tokens would be sent unencrypted
      help: listen on a loopback address such as 127.0.0.1, or set NOETL_TLS_CERT and NOETL_TLS_KEY, with NOETL_DEV=false
    ");

    let failed = run(&["dev", "--host", "0.0.0.0"], &[]);
    assert_eq!(failed.code, 2);
    assert!(failed.err.contains("NOETL_DEV accepts callers without a token"), "{}", failed.err);

    let failed = run(&["server"], &[("NOETL_PORT", "80800")]);
    assert_eq!(failed.code, 2);
    insta::assert_snapshot!(masked_stderr(&failed), @"error: NOETL_PORT is '80800': must be a number from 0 to 65535");

    let failed = run(&["server", "--port", "0"], &[("NOETL_TLS_CLIENT_CA", "authority.pem")]);
    assert_eq!(failed.code, 2);
    insta::assert_snapshot!(masked_stderr(&failed), @"error: NOETL_TLS_CLIENT_CA requires client certificates, which need encrypted connections; set NOETL_TLS_CERT and NOETL_TLS_KEY too, or unset all");

    let shards = "host=a;database=noetl,host=b;database=noetl;password=hidden";
    let shards_error = "error: NOETL_SHARDS names several databases, but this version supports one";
    let cluster = "postgres://u:hidden@c/noetl";
    let cluster_error = "error: NOETL_CLUSTER_DSN names a database shared between several databases, \
        but this version supports one";
    for args in [&["server", "--port", "0"][..], &["db", "status"]] {
        for (name, value, text) in
            [("NOETL_SHARDS", shards, shards_error), ("NOETL_CLUSTER_DSN", cluster, cluster_error)]
        {
            let failed = run(args, &[(name, value)]);
            assert_eq!(failed.code, 2);
            assert!(failed.err.starts_with(text), "{}", failed.err);
            assert!(!failed.err.contains("hidden"), "{}", failed.err);
        }
    }
    assert!(!dir.path("data/noetl.db").exists());

    let dsn = format!("postgres://u:secret@127.0.0.1:{port}/noetl");
    drop(occupied);
    let failed = run(&["server", "--port", "0"], &[("NOETL_DSN", &dsn)]);
    assert_eq!(failed.code, 1);
    assert!(!failed.err.contains("secret"), "{}", failed.err);
    assert!(
        masked_stderr(&failed)
            .contains("error: cannot use the PostgreSQL database at 127.0.0.1:PORT/noetl: "),
        "{}",
        failed.err
    );

    let failed = run(&["worker", "--server", "localhost:8082"], &[]);
    assert_eq!(failed.code, 2);
    insta::assert_snapshot!(masked_stderr(&failed), @"error: --server is 'localhost:8082': must start with http:// or https://");
}

/// Without its worker the process would accept runs and never execute them.
#[test]
fn dev_exits_when_its_worker_ends() {
    let dir = TestDir::new("dev_drained");
    let mut command = isolated_command(&dir, &["dev", "--port", "0"]);
    command.env("WORKER_HEARTBEAT_INTERVAL", "1").env("WORKER_ID", "only");
    let mut dev = NoetlProcess::start(command);
    let line = dev.wait_for_stdout("NoETL listening on http://127.0.0.1:");
    let url = line.split(' ').next_back().unwrap().to_owned();
    drain_worker(&dir, &url, "only");
    let (code, _, err) = dev.wait_for_exit();
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("error: the worker stopped unexpectedly"), "{err}");
}

/// Drains a worker as soon as it is registered.
pub(crate) fn drain_worker(dir: &TestDir, url: &str, worker: &str) {
    wait_until("the worker is registered", || {
        let mut command = isolated_command(dir, &["worker", "drain", worker, "--yes"]);
        let output: CommandOutput = command.env("NOETL_SERVER_URL", url).output().unwrap().into();
        assert!(matches!(output.code, 0 | 3), "{}", output.to_snapshot());
        output.code == 0
    });
}

#[test]
fn config_show_prints_origins() {
    let dir = TestDir::new("config_show");
    dir.write("noetl.toml", "host = '127.0.0.2'\nworker_max_concurrent = 8\n");
    let mut command =
        isolated_command(&dir, &["config", "show", "--origin", "--config", "noetl.toml"]);
    let servers = "search=https://mcp.example.com/mcp?key=secret";
    command.env("NOETL_PORT", "9").env("NOETL_TOKEN", "secret").env("NOETL_MCP_SERVERS", servers);
    let output: CommandOutput = command.output().unwrap().into();
    insta::assert_snapshot!(mask_run_output(&dir, &output.to_snapshot()));
}

/// Returns the address at the end of a line.
fn last_word(line: &str) -> String {
    line.split(' ').next_back().unwrap().to_owned()
}

#[test]
fn internal_api_and_metrics_have_separate_listeners() {
    let dir = TestDir::new("separate_listeners");
    let token = "sixteen characters and more";
    let mut command = isolated_command(&dir, &["server", "--port", "0"]);
    command
        .env("NOETL_INTERNAL_API_TOKEN", token)
        .env("NOETL_INTERNAL_BIND", "127.0.0.1:0")
        .env("NOETL_METRICS_BIND", "localhost:0");
    let mut server = NoetlProcess::start(command);
    let url = last_word(&server.wait_for_stdout("NoETL listening on http://127.0.0.1:"));
    let internal = last_word(&server.wait_for_stdout("Internal API on http://127.0.0.1:"));
    let metrics = last_word(&server.wait_for_stdout("Metrics on http://127.0.0.1:"));
    let metrics = metrics.strip_suffix("/metrics").unwrap();
    let status = |url: &str, path: &str| http_get(url, path)[9..12].to_owned();
    let cells = "/api/internal/cells";
    assert_eq!((&*status(&url, cells), &*status(&internal, cells)), ("404", "403"));
    assert!(http_get(metrics, "/metrics").contains("noetl_build_info"));
    assert_eq!((&*status(&url, "/metrics"), &*status(metrics, "/api/executions")), ("401", "404"));
    let run_client = |args: &[&str], internal: Option<&str>| -> CommandOutput {
        let mut command = isolated_command(&dir, args);
        command
            .env("NOETL_INTERNAL_API_TOKEN", token)
            .env("NOETL_SERVER_URL", &url)
            .envs(internal.map(|url| ("NOETL_INTERNAL_URL", url)));
        command.output().unwrap().into()
    };
    for args in [&["outbox", "list"][..], &["stream", "rebuild", "--dry-run"]] {
        let output = run_client(args, Some(&internal));
        assert_eq!(output.code, 0, "{}", output.to_snapshot());
        assert_ne!(run_client(args, None).code, 0);
    }
    let mut second = isolated_command(&dir, &["server", "--port", "0"]);
    second.env("NOETL_INTERNAL_BIND", internal.strip_prefix("http://").unwrap());
    let second: CommandOutput = second.output().unwrap().into();
    assert!(second.err.contains("choose another in NOETL_INTERNAL_BIND"), "{}", second.err);
}

#[test]
fn plaintext_listeners_are_loopback_only() {
    let dir = TestDir::new("plaintext_listeners");
    for name in ["NOETL_INTERNAL_BIND", "NOETL_METRICS_BIND"] {
        let mut command = isolated_command(&dir, &["server", "--port", "0"]);
        let output: CommandOutput = command.env(name, "0.0.0.0:0").output().unwrap().into();
        assert_eq!(output.code, 2, "{}", output.err);
        assert!(output.err.contains("unencrypted"), "{}", output.err);
        let mut command = isolated_command(&dir, &["server", "--port", "0"]);
        let output: CommandOutput = command.env(name, "9090").output().unwrap().into();
        assert!(
            output.err.contains(name) && output.err.contains("127.0.0.1:9090"),
            "{}",
            output.err
        );
    }
}

#[test]
fn worker_serves_metrics_at_configured_address() {
    let dir = TestDir::new("worker_metrics");
    dir.write("clean.yaml", CLEAN_PLAYBOOK);
    let mut server = isolated_command(&dir, &["server", "--port", "0"]);
    server.env("NOETL_DEV", "true");
    let mut server = NoetlProcess::start(server);
    let url = last_word(&server.wait_for_stdout("NoETL listening on http://127.0.0.1:"));
    let worker = |bind: &str| {
        let mut command = isolated_command(&dir, &["worker", "--server", &url, "--id", "w1"]);
        command.env("WORKER_METRICS_BIND", bind);
        command
    };
    let mut first = NoetlProcess::start(worker("127.0.0.1:0"));
    let metrics_url = last_word(&first.wait_for_stdout("Metrics on http://127.0.0.1:"));
    let metrics_url = metrics_url.trim_end_matches("/metrics");
    let output: CommandOutput =
        isolated_command(&dir, &["run", "clean.yaml"]).output().unwrap().into();
    assert_eq!(output.code, 0, "{}", output.to_snapshot());
    let response = http_get(metrics_url, "/metrics");
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    for line in [
        "noetl_worker_commands_total{kind=\"noop\",outcome=\"completed\"} 1",
        "noetl_worker_slots 32",
        "# EOF",
    ] {
        assert!(response.lines().any(|metric| metric == line), "{line}: {response}");
    }
    assert!(http_get(metrics_url, "/livez").starts_with("HTTP/1.1 200"));
    assert!(http_get(metrics_url, "/api/executions").starts_with("HTTP/1.1 404"));

    // A second worker with the same metrics address does not start.
    let conflicting: CommandOutput =
        worker(metrics_url.strip_prefix("http://").unwrap()).output().unwrap().into();
    assert_eq!(conflicting.code, 4, "{}", conflicting.to_snapshot());
    assert!(
        conflicting.err.contains("choose another in WORKER_METRICS_BIND"),
        "{}",
        conflicting.err
    );
    let exposed: CommandOutput = worker("0.0.0.0:0").output().unwrap().into();
    assert_eq!(exposed.code, 2, "{}", exposed.to_snapshot());
    assert!(exposed.err.contains("NOETL_UNSAFE_PLAINTEXT=true"), "{}", exposed.err);
    first.send_interrupt();
    let (code, _, err) = first.wait_for_exit();
    assert_eq!(code, 0, "{err}");
}

/// A metrics listener would block the port for the next command on the machine.
#[test]
fn dev_and_run_serve_no_worker_metrics() {
    let dir = TestDir::new("worker_metrics_dev");
    dir.write("clean.yaml", CLEAN_PLAYBOOK);
    let occupied = TcpListener::bind("127.0.0.1:0").unwrap();
    let bind = occupied.local_addr().unwrap().to_string();
    let mut run = isolated_command(&dir, &["run", "clean.yaml"]);
    let output: CommandOutput = run.env("WORKER_METRICS_BIND", &bind).output().unwrap().into();
    assert_eq!(output.code, 0, "{}", output.to_snapshot());
    let mut dev = isolated_command(&dir, &["dev", "--port", "0"]);
    dev.env("WORKER_METRICS_BIND", &bind);
    let mut dev = NoetlProcess::start(dev);
    dev.wait_for_stdout("Stop with Ctrl-C");
    dev.send_interrupt();
    let (code, out, err) = dev.wait_for_exit();
    assert_eq!(code, 0, "{err}");
    assert!(!out.contains("Metrics on"), "{out}");
}

/// Starts a server that is expected to refuse, and returns its error output.
fn refused_server_output(dir: &TestDir, env: &[(&str, &str)]) -> String {
    let mut command = isolated_command(dir, &["server", "--port", "0"]);
    let output: CommandOutput = command.envs(env.iter().copied()).output().unwrap().into();
    assert_ne!(output.code, 0, "{}", output.err);
    output.err
}

#[test]
fn server_with_wrong_key_does_not_start() {
    let dir = TestDir::new("wrong_key");
    let (server, _) = start_listening(&dir, &["server", "--port", "0"]);
    server.send_interrupt();
    server.wait_for_exit();
    let other = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
    let err = refused_server_output(&dir, &[("NOETL_ENCRYPTION_KEY", other)]);
    assert!(err.contains("add it to NOETL_ENCRYPTION_KEYS_OLD"), "{err}");
    assert!(!err.contains(other), "{err}");
    // The control: the key that the first server created opens the database.
    let (_server, url) = start_listening(&dir, &["server", "--port", "0"]);
    assert!(http_get(&url, "/livez").starts_with("HTTP/1.1 200"));
}

#[test]
fn server_checks_permissions_of_its_files() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = TestDir::new("permissions");
    let (server, _) = start_listening(&dir, &["server", "--port", "0"]);
    server.send_interrupt();
    let (_, _, err) = server.wait_for_exit();
    assert!(!err.contains("chmod"), "{err}");
    let set_mode = |name: &str, mode: u32| {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(dir.path(name), permissions).unwrap();
    };
    set_mode("data/noetl.db", 0o640);
    let (server, _) = start_listening(&dir, &["server", "--port", "0"]);
    server.send_interrupt();
    let (_, _, err) = server.wait_for_exit();
    assert!(err.contains("(mode 0640); run: chmod 600 "), "{err}");
    set_mode("data/noetl.key", 0o644);
    let err = refused_server_output(&dir, &[]);
    assert!(err.contains("every user of this machine can access the encryption key"), "{err}");
    assert!(err.contains("run: chmod 600 "), "{err}");
}

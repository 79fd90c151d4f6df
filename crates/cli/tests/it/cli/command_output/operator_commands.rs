//! Operator commands: tokens, workers, the outbox, retention, the stream.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use noetl_testkit::nats::NatsServer;

use super::OutputRecorder;
use super::terminal::TestTerminal;
use crate::cli::client_commands::TestServer;
use crate::cli::process::NoetlProcess;
use crate::cli::run::isolated_command;
use crate::cli::serve::start_listening;
use crate::cli::support::{CLEAN_PLAYBOOK, CommandOutput, TestDir, wait_until};

const INTERNAL_TOKEN_ENV: (&str, &str) =
    ("NOETL_INTERNAL_API_TOKEN", "sixteen characters and more");

const CREATE_CI_TOKEN: [&str; 7] =
    ["token", "create", "ci", "--scope", "exec:run", "--scope", "exec:read"];

const CREATE_WORKER_TOKEN: [&str; 9] =
    ["token", "create", "hand", "--scope", "worker", "--pool", "gpu", "--ttl-days", "30"];

#[test]
fn token_commands() {
    let dir = TestDir::new("each_tokens");
    let (mut server, url) = start_listening(&dir, &["server", "--port", "0"]);
    server.wait_for_stdout("First token");
    let admin = server.wait_for_stdout("noetl_").trim().to_owned();
    let command_line = |args: &[&str]| {
        let mut command = isolated_command(&dir, args);
        command.env("NOETL_SERVER_URL", &url).env("NOETL_TOKEN", &admin);
        command
    };
    let recorder = || OutputRecorder::new(&command_line);
    // The secret of a token is printed once and differs each time.
    let created = CommandOutput::from(command_line(&CREATE_CI_TOKEN).output().unwrap());
    let on_terminal = TestTerminal::start(command_line(&CREATE_WORKER_TOKEN), "").wait_for_exit();
    let secrets: Vec<String> = [&created.out, &on_terminal.screen]
        .iter()
        .flat_map(|text| text.split_whitespace())
        .filter(|word| word.starts_with("noetl_"))
        .map(str::to_owned)
        .collect();
    let [first, second] = &*secrets else {
        panic!("{created:?} {on_terminal:?}");
    };
    recorder()
        .add_piped(&CREATE_CI_TOKEN, &created)
        .add_on_terminal(&CREATE_WORKER_TOKEN, &on_terminal)
        .run_both(&["token", "create", "odd", "--scope", "exec:rum"])
        .assert_matches_snapshot(
            "token_create",
            &[(first, "noetl_SECRET"), (second, "noetl_SECRET")],
        );
    let list = recorder().run_both(&["token", "list"]);
    let listed =
        CommandOutput::from(command_line(&["token", "list", "-o", "jsonl"]).output().unwrap());
    let (ci, hand) = (find_token_id("ci", &listed.out), find_token_id("hand", &listed.out));
    recorder()
        .run_piped(&["token", "revoke", &ci])
        .run_piped(&["token", "revoke", &ci, "--yes"])
        .run_piped(&["token", "revoke", "none", "--yes"])
        .run_on_terminal(&["token", "revoke", &hand], "yes\n")
        .assert_matches_snapshot("token_revoke", &[(&*url, "URL")]);
    let without_token = |args: &[&str]| {
        let mut command = isolated_command(&dir, args);
        command.env("NOETL_SERVER_URL", &url);
        command
    };
    let rejected = CommandOutput::from(without_token(&["token", "list"]).output().unwrap());
    list.run_both(&["token", "list"])
        .add_piped(&["token", "list"], &rejected)
        .assert_matches_snapshot("token_list", &[]);
}

/// Returns the id of a token in a list of JSON lines.
fn find_token_id(name: &str, listed: &str) -> String {
    let mut tokens = listed.lines().map(|line| {
        let token: serde_json::Value = serde_json::from_str(line).unwrap();
        (token["name"] == name).then(|| token["id"].as_str().unwrap().to_owned())
    });
    tokens.find_map(|id| id).unwrap()
}

#[test]
fn worker_commands() {
    let dir = TestDir::new("each_workers");
    let mut command = isolated_command(&dir, &["server", "--port", "0"]);
    command.env("NOETL_DEV", "true");
    let mut server = NoetlProcess::start(command);
    let line = server.wait_for_stdout("NoETL listening on http://127.0.0.1:");
    let url = line.split(' ').next_back().unwrap().to_owned();
    let command_line = |args: &[&str]| {
        let mut command = isolated_command(&dir, args);
        command.env("NOETL_SERVER_URL", &url);
        command
    };
    let recorder = || OutputRecorder::new(&command_line);
    let list = recorder().run_both(&["worker", "list"]);
    let mut workers = ["w1", "w2"].map(|id| {
        let args = ["worker", "--server", &url, "--id", id, "--concurrency", "2"];
        let mut command = isolated_command(&dir, &args);
        command.env("WORKER_HEARTBEAT_INTERVAL", "1");
        NoetlProcess::start(command)
    });
    for worker in &mut workers {
        worker.wait_for_stderr("registered");
    }
    list.run_both(&["worker", "list"]).assert_matches_snapshot("worker_list", &[]);
    recorder()
        .run_piped(&["worker", "drain", "w1"])
        .run_piped(&["worker", "drain", "w1", "--yes"])
        .run_piped(&["worker", "drain", "w3", "--yes"])
        .run_on_terminal(&["worker", "drain", "w2"], "yes\n")
        .assert_matches_snapshot("worker_drain", &[(&*url, "URL")]);
    for worker in workers {
        let (code, _, err) = worker.wait_for_exit();
        assert_eq!(code, 0, "{err}");
    }
}

#[test]
fn outbox_and_retention_commands() {
    let server = TestServer::with_env(
        "each_outbox",
        &[INTERNAL_TOKEN_ENV, ("NOETL_OUTBOX_MAX_ATTEMPTS", "1")],
    );
    server.dir.write("clean.yaml", CLEAN_PLAYBOOK);
    let command_line = |args: &[&str]| server.client_command(args);
    let recorder = || OutputRecorder::new(&command_line);
    server.run_ok(&["run", "clean.yaml", "-q"]);
    recorder()
        .run_both(&["outbox", "list", "--limit", "1"])
        .run_both(&["outbox", "list", "--status", "odd"])
        .assert_matches_snapshot("outbox_list", &[]);
    recorder().run_both(&["outbox", "dead"]).assert_matches_snapshot("outbox_dead", &[]);
    recorder()
        .run_both(&["outbox", "replay", "7"])
        .run_both(&["outbox", "replay", "--all"])
        .assert_matches_snapshot("outbox_replay", &[]);
    // Without a broker no publisher claims a row, so all rows have their only attempt left.
    let rows = post_internal(&server, "outbox/claim", r#"{"limit":2}"#);
    for row in rows["rows"].as_array().unwrap() {
        let failure = serde_json::json!({ "outbox_id": row["outbox_id"], "error": "no" });
        post_internal(&server, "outbox/mark-failed", &failure.to_string());
    }
    recorder()
        .run_piped(&["outbox", "replay", "--all"])
        .run_on_terminal(&["outbox", "replay", "--all"], "no\n")
        .run_on_terminal(&["outbox", "replay", "--all"], "yes\n")
        .run_piped(&["outbox", "replay", "--all", "7"])
        .assert_matches_snapshot("outbox_replay_all", &[(server.url(), "URL")]);
    let invalid_event = r#"{"events":[{"event_id":7,"event_type":"step.enter"}]}"#;
    post_internal(&server, "events/project", invalid_event);
    recorder()
        .run_both(&["outbox", "quarantined"])
        .run_both(&["outbox", "quarantined", "--source", "stream"])
        .assert_matches_snapshot("outbox_quarantined", &[]);
    recorder()
        .run_piped(&["outbox", "discard", "7"])
        .run_on_terminal(&["outbox", "discard", "7"], "no\n")
        .run_on_terminal(&["outbox", "discard", "7"], "yes\n")
        .assert_matches_snapshot("outbox_discard", &[]);
    recorder()
        .run_both(&["retention", "plan", "--events", "30"])
        .assert_matches_snapshot("retention_plan", &[]);
    recorder()
        .run_piped(&["retention", "apply"])
        .run_piped(&["retention", "apply", "--yes"])
        .run_on_terminal(&["retention", "apply"], "no\n")
        .run_on_terminal(&["retention", "apply"], "yes\n")
        .assert_matches_snapshot("retention_apply", &[(server.url(), "URL")]);
}

/// Posts to the internal API and returns the response body.
fn post_internal(server: &TestServer, path: &str, body: &str) -> serde_json::Value {
    let address = server.url().trim_start_matches("http://");
    let request = format!(
        "POST /api/internal/{path} HTTP/1.0\r\nHost: {address}\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        INTERNAL_TOKEN_ENV.1,
        body.len()
    );
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(" 200 "), "{response}");
    serde_json::from_str(body).unwrap()
}

#[test]
fn stream_commands() {
    let nats = NatsServer::start().unwrap();
    let stream_env =
        [("NOETL_NATS_URL", nats.url()), ("NOETL_EVENT_STREAM_ENABLED", "on"), INTERNAL_TOKEN_ENV];
    let disabled = TestServer::with_env("each_stream_off", &[]);
    let disabled_command = |args: &[&str]| disabled.client_command(args);
    let server = TestServer::with_env("each_stream", &stream_env);
    server.dir.write("clean.yaml", CLEAN_PLAYBOOK);
    server.run_ok(&["run", "clean.yaml", "-q"]);
    wait_until("everything is published", || {
        let status = server.run_ok(&["stream", "status", "-o", "json"]);
        let status: serde_json::Value = serde_json::from_str(&status).unwrap();
        status["state"] == "publishing" && status["lag_events"] == 0
    });
    let status = server.run_ok(&["stream", "status", "-o", "json"]);
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let name = |field: &str| status[field].as_str().unwrap().to_owned();
    let (owner, version) = (name("owner"), name("nats_version"));
    let masks = [(&*owner, "SERVER"), (&*version, "VERSION"), (server.url(), "URL")];
    let command_line = |args: &[&str]| server.client_command(args);
    // Platform runs add events at any time, so the counts are masked.
    let masked_counts = |args: &[&str]| {
        let mut output = CommandOutput::from(command_line(args).output().unwrap());
        output.out = mask_counts(&output.out);
        let mut on_terminal = TestTerminal::start(command_line(args), "").wait_for_exit();
        on_terminal.screen = mask_counts(&on_terminal.screen);
        OutputRecorder::new(&command_line)
            .add_piped(args, &output)
            .add_on_terminal(args, &on_terminal)
    };
    let run_disabled =
        |args: &[&str]| CommandOutput::from(disabled_command(args).output().unwrap());
    let (status, rebuild) = (["stream", "status"], ["stream", "rebuild", "--yes"]);
    let unconfirmed = ["stream", "rebuild"];
    let mut without_terminal = CommandOutput::from(command_line(&unconfirmed).output().unwrap());
    without_terminal.err = mask_counts(&without_terminal.err);
    masked_counts(&status)
        .add_piped(&status, &run_disabled(&status))
        .assert_matches_snapshot("stream_status", &masks);
    masked_counts(&rebuild)
        .add_piped(&rebuild, &run_disabled(&rebuild))
        .add_piped(&unconfirmed, &without_terminal)
        .assert_matches_snapshot("stream_rebuild", &masks);
    disabled.dir.write("clean.yaml", CLEAN_PLAYBOOK);
    disabled.run_ok(&["run", "clean.yaml", "-q"]);
    let from_start = ["stream", "tail", "--from-start", "--limit", "5"];
    OutputRecorder::new(&disabled_command)
        .run_both(&from_start)
        .assert_matches_snapshot("stream_tail", &[]);
}

/// Masks the counts of the stream status.
fn mask_counts(text: &str) -> String {
    let lines = text.split_inclusive('\n').map(|line| {
        let name = ["behind     ", "published  "].iter().find(|name| line.starts_with(**name));
        name.map_or_else(|| line.to_owned(), |name| format!("{name}N\n"))
    });
    lines.collect()
}

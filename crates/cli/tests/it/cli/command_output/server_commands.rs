//! Client commands for playbooks, runs and secrets.

use super::OutputRecorder;
use crate::cli::client_commands::TestServer;

const SMALL_PLAYBOOK: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: small, path: demo/small }
workload: { who: world }
workflow:
  - step: say
    tool: { kind: shell, command: 'echo hello' }
";

/// Starts a server with a playbook file and a named worker.
fn start_server_with_playbook(test: &str) -> TestServer {
    let server = TestServer::with_env(test, &[("WORKER_ID", "w1")]);
    server.dir.write("small.yaml", SMALL_PLAYBOOK);
    server
}

#[test]
fn catalog_commands() {
    let server = start_server_with_playbook("each_catalog");
    let command_line = |args: &[&str]| server.client_command(args);
    let recorder = || OutputRecorder::new(&command_line);
    let list = recorder().run_both(&["catalog", "list"]);
    let register = recorder().run_piped(&["catalog", "register", "small.yaml", "two.yaml"]);
    server.dir.write("small.yaml", SMALL_PLAYBOOK.replace("world", "moon"));
    register
        .run_on_terminal(&["catalog", "register", "small.yaml"], "")
        .assert_matches_snapshot("catalog_register", &[]);
    list.run_both(&["catalog", "list"]).assert_matches_snapshot("catalog_list", &[]);
    recorder()
        .run_both(&["catalog", "get", "demo/small@1"])
        .run_both(&["catalog", "get", "demo/smal"])
        .assert_matches_snapshot("catalog_get", &[]);
    recorder()
        .run_both(&["catalog", "history", "demo/small"])
        .assert_matches_snapshot("catalog_history", &[]);
    recorder()
        .run_both(&["catalog", "diff", "demo/small"])
        .run_both(&["catalog", "diff", "demo/two"])
        .assert_matches_snapshot("catalog_diff", &[]);
}

#[test]
fn ended_run_commands() {
    let server = start_server_with_playbook("each_runs");
    let command_line = |args: &[&str]| server.client_command(args);
    let recorder = || OutputRecorder::new(&command_line);
    let list = recorder().run_both(&["runs", "list"]);
    server.run_ok(&["catalog", "register", "small.yaml", "fails.yaml"]);
    recorder()
        .run_both(&["exec", "demo/small", "--wait"])
        .run_both(&["exec", "demo/small"])
        .run_both(&["exec", "demo/small", "--set", "whom=Ada"])
        .run_both(&["exec", "demo/smal"])
        .assert_matches_snapshot("exec", &[(server.url(), "URL")]);
    let id = server.run_ok(&["exec", "demo/small"]).trim().to_owned();
    let masks = [(id.as_str(), "ID")];
    recorder()
        .run_both(&["runs", "tail", &id])
        .run_both(&["runs", "tail", "none"])
        .assert_matches_snapshot("runs_tail", &masks);
    recorder()
        .run_both(&["runs", "events", &id])
        .run_both(&["runs", "events", &id, "--step", "none"])
        .assert_matches_snapshot("runs_events", &masks);
    recorder().run_both(&["runs", "logs", &id]).assert_matches_snapshot("runs_logs", &masks);
    recorder().run_both(&["runs", "show", &id]).assert_matches_snapshot("runs_show", &masks);
    recorder().run_both(&["runs", "explain", &id]).assert_matches_snapshot("runs_explain", &masks);
    recorder()
        .run_piped(&["runs", "rerun", &id])
        .run_on_terminal(&["runs", "rerun", &id, "--wait"], "")
        .assert_matches_snapshot("runs_rerun", &masks);
    for run in server.run_ok(&["runs", "list", "--status", "running", "-o", "jsonl"]).lines() {
        let run: serde_json::Value = serde_json::from_str(run).unwrap();
        server.run_client(&["runs", "tail", run["execution_id"].as_str().unwrap()]);
    }
    list.run_both(&["runs", "list"]).assert_matches_snapshot("runs_list", &[]);
}

#[test]
fn waiting_run_commands() {
    let server = start_server_with_playbook("each_steered");
    let command_line = |args: &[&str]| server.client_command(args);
    let recorder = || OutputRecorder::new(&command_line);
    let first = server.start_run("waits.yaml", "demo/waits");
    let second = server.run_ok(&["exec", "demo/waits"]).trim().to_owned();
    for run in [&first, &second] {
        server.wait_until_waiting_for(run, "approval");
    }
    let masks = [(first.as_str(), "ID"), (second.as_str(), "ID")];
    recorder()
        .run_piped(&["runs", "pause", &first, "--reason", "lunch"])
        .run_on_terminal(&["runs", "pause", &second], "")
        .assert_matches_snapshot("runs_pause", &masks);
    recorder()
        .run_piped(&["runs", "resume", &first])
        .run_on_terminal(&["runs", "resume", &second], "")
        .assert_matches_snapshot("runs_resume", &masks);
    let pending = recorder().run_both(&["runs", "approve"]);
    pending
        .run_piped(&["runs", "approve", &first, "--comment", "fine"])
        .run_on_terminal(&["runs", "approve", &second], "")
        .assert_matches_snapshot("runs_approve", &masks);
    for run in [&first, &second] {
        server.wait_until_waiting_for(run, "signal");
    }
    recorder()
        .run_piped(&["runs", "signal", &first, "gone"])
        .run_piped(&["runs", "signal", &first, "go", "--set", "by=me"])
        .run_on_terminal(&["runs", "signal", &second, "gone"], "")
        .assert_matches_snapshot("runs_signal", &masks);
    server.run_client(&["runs", "tail", &first]);
    recorder()
        .run_piped(&["runs", "cancel", &first, "--yes"])
        .run_piped(&["runs", "cancel", &second])
        .run_on_terminal(&["runs", "cancel", &second], "no\n")
        .run_on_terminal(&["runs", "cancel", &second], "yes\n")
        .assert_matches_snapshot("runs_cancel", &[&masks[..], &[(server.url(), "URL")]].concat());
}

#[test]
fn secret_commands() {
    let token = ("NOETL_INTERNAL_API_TOKEN", "sixteen characters and more");
    let server = TestServer::with_env("each_secrets", &[token]);
    let command_line = |args: &[&str]| server.client_command(args);
    let recorder = || OutputRecorder::new(&command_line);
    let list = recorder().run_both(&["secret", "list"]);
    let set = ["secret", "set", "api_main", "--type", "bearer"];
    let set_on_terminal =
        ["secret", "set", "pg_main", "--type", "postgres", "--description", "the warehouse"];
    recorder()
        .run_with_stdin(&set, "hidden")
        .run_on_terminal(&set_on_terminal, "{\"db_host\":\"db\",\"db_password\":\"hidden\"}\n\u{4}")
        .assert_matches_snapshot("secret_set", &[]);
    list.run_both(&["secret", "list"]).assert_matches_snapshot("secret_list", &[]);
    recorder().run_both(&["secret", "rotate"]).assert_matches_snapshot("secret_rotate", &[]);
    recorder()
        .run_piped(&["secret", "rm", "api_main"])
        .run_piped(&["secret", "rm", "api_main", "--yes"])
        .run_on_terminal(&["secret", "rm", "pg_main"], "yes\n")
        .run_on_terminal(&["secret", "rm", "pg_main"], "yes\n")
        .assert_matches_snapshot("secret_rm", &[(server.url(), "URL")]);
    recorder()
        .run_both(&["secret", "audit", "api_main"])
        .run_both(&["secret", "audit", "none"])
        .assert_matches_snapshot("secret_audit", &[]);
}

//! Selection of runs, rows and servers by commands, and confirmation before they act.

use noetl_api::client::BearerToken;
use noetl_api::internal::{MarkFailedRequest, OutboxClaimRequest};
use noetl_api::{Client, ClientSettings};
use noetl_cli::CommandExit;
use serde_json::Value;

use crate::cli::client_commands::TestServer;
use crate::cli::process::NoetlProcess;
use crate::cli::run::isolated_command;
use crate::cli::serve::start_listening;
use crate::cli::support::{CLEAN_PLAYBOOK, CommandOutput, TestDir, wait_until};

const INTERNAL_TOKEN: &str = "sixteen characters and more";
const INTERNAL_TOKEN_ENV: (&str, &str) = ("NOETL_INTERNAL_API_TOKEN", INTERNAL_TOKEN);

const PARENT_PLAYBOOK: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: parent, path: demo/parent }
workflow:
  - step: child
    tool: { kind: playbook, path: demo/two }
";

fn parse_json_lines(text: &str) -> Vec<Value> {
    let lines = text.lines();
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn last_run_is_started_by_a_user() {
    let server = TestServer::with_env("choosing_last", &[INTERNAL_TOKEN_ENV]);
    server.dir.write("parent.yaml", PARENT_PLAYBOOK);
    server.run_ok(&["catalog", "register", "two.yaml", "parent.yaml"]);
    server.run_ok(&["exec", "demo/parent", "--wait", "-q"]);
    let list_all =
        || parse_json_lines(&server.run_ok(&["runs", "list", "--system", "-o", "jsonl"]));
    let has_path = |run: &Value, path: &str| run["path"] == path;
    // The run has unpublished outbox rows, so the platform starts a publisher.
    wait_until("the platform runs its publisher", || {
        list_all().iter().any(|run| has_path(run, "system/outbox_publisher"))
    });
    let all = list_all();
    let parent = all.iter().find(|run| has_path(run, "demo/parent")).unwrap();
    let position = |path| all.iter().position(|run| has_path(run, path)).unwrap();
    assert!(position("system/outbox_publisher") < position("demo/parent"));
    assert!(position("demo/two") < position("demo/parent"));
    let last = server.run_ok(&["runs", "show", "last", "-o", "json"]);
    assert!(last.contains(parent["execution_id"].as_str().unwrap()), "{last}");
    // Lists omit platform runs unless they are requested.
    let paths = |args: &[&str]| -> Vec<String> {
        let args = [&["runs", "list", "-o", "jsonl"], args].concat();
        let runs = parse_json_lines(&server.run_ok(&args));
        let paths = runs.iter().map(|run| run["path"].as_str().unwrap());
        paths.map(str::to_owned).collect()
    };
    assert_eq!(paths(&[]), ["demo/two", "demo/parent"]);
    let by_prefix = paths(&["--path", "system/"]);
    assert!(by_prefix.contains(&"system/outbox_publisher".to_owned()));
    let by_substring = paths(&["--path", "publisher"]);
    assert!(by_substring.contains(&"system/outbox_publisher".to_owned()));
    // `cancel --all` omits them too.
    let dry_run = ["runs", "cancel", "--all", "--dry-run", "-o", "jsonl"];
    assert_eq!(server.run_ok(&dry_run), "");
    assert_eq!(server.run_ok(&[&dry_run[..], &["--path", "publisher"]].concat()), "");
    let with_system = server.run_ok(&[&dry_run[..], &["--system"]].concat());
    assert!(with_system.contains("system/outbox_publisher"), "{with_system}");
}

#[test]
fn rejects_filter_with_run_id() {
    let dir = TestDir::new("choosing_filter");
    for filter in [
        &["--path", "etl/"][..],
        &["--status", "running"],
        &["--label", "a"],
        &["--since", "1h"],
        &["--until", "1h"],
        &["--query", "x"],
        &["--system"],
    ] {
        let args = [&["runs", "cancel", "4821", "--yes"], filter].concat();
        let output = dir.run(&args);
        assert_eq!(output.code, 2, "{}", output.to_snapshot());
        assert!(output.err.contains("cannot be used with"), "{}", output.err);
    }
}

#[test]
fn unknown_token_sets_exit_code() {
    let dir = TestDir::new("choosing_denied");
    let (mut server, url) = start_listening(&dir, &["server", "--port", "0"]);
    server.wait_for_stdout("First token");
    let admin = server.wait_for_stdout("noetl_").trim().to_owned();
    let run_with_token = |token: &str, args: &[&str]| -> CommandOutput {
        let mut command = isolated_command(&dir, args);
        command.env("NOETL_SERVER_URL", &url).env("NOETL_TOKEN", token);
        command.output().unwrap().into()
    };
    let wrong_token = format!("noetl_wrong_{}", "0".repeat(64));
    let denied = run_with_token(&wrong_token, &["runs", "list"]);
    assert_eq!(denied.code, 6, "{}", denied.to_snapshot());
    let doctor = run_with_token(&wrong_token, &["doctor"]);
    assert_eq!(doctor.code, 1, "{}", doctor.to_snapshot());
    assert!(doctor.out.contains("✗ identity"), "{}", doctor.out);
    let doctor = run_with_token(&admin, &["doctor"]);
    assert!(doctor.out.contains("✓ identity"), "{}", doctor.out);
    // A profile uses only the token that it names.
    let add = ["profile", "add", "here", "--server", &url];
    assert_eq!(run_with_token(&admin, &add).code, 0);
    let without_token = run_with_token(&admin, &["runs", "list", "--profile", "here"]);
    assert_eq!(without_token.code, 6, "{}", without_token.to_snapshot());
    let add = [&add[..], &["--force", "--token-env", "NOETL_TOKEN"]].concat();
    assert_eq!(run_with_token(&admin, &add).code, 0);
    let with_token = run_with_token(&admin, &["runs", "list", "--profile", "here"]);
    assert_eq!(with_token.code, 0, "{}", with_token.to_snapshot());
    // A unique part of an id is accepted.
    let create = ["token", "create", "ci", "--scope", "exec:read", "-o", "json"];
    let created: Value = serde_json::from_str(&run_with_token(&admin, &create).out).unwrap();
    assert!(created["token"].as_str().unwrap().starts_with("noetl_"), "{created}");
    let id = created["id"].as_str().unwrap();
    let revoked = run_with_token(&admin, &["token", "revoke", &id[6..], "--yes"]);
    assert_eq!(revoked.out, format!("{id} revoked\n"), "{}", revoked.to_snapshot());
    // So is the name, if only one active token has it.
    let create = ["token", "create", "etl", "--role", "ci", "-o", "json"];
    let created: Value = serde_json::from_str(&run_with_token(&admin, &create).out).unwrap();
    let scopes = ["exec:read", "exec:run", "catalog:read", "catalog:write"];
    assert_eq!(created["scopes"], serde_json::json!(scopes));
    assert_eq!(run_with_token(&admin, &["token", "revoke", "etl", "--yes"]).code, 0);
    let missing = run_with_token(&admin, &["token", "revoke", "none", "--yes"]);
    assert_eq!(missing.code, 3, "{}", missing.to_snapshot());
}

/// `--wait` reads the run, so the token is checked before the run starts. Without a worker, the reason
/// of the wait is shown. Operator commands accept the token of an admin.
#[test]
fn exec_checks_rights_and_names_missing_workers() {
    let dir = TestDir::new("choosing_rights");
    dir.write("clean.yaml", CLEAN_PLAYBOOK);
    let (mut server, url) = start_listening(&dir, &["server", "--port", "0"]);
    server.wait_for_stdout("First token");
    let admin = server.wait_for_stdout("noetl_").trim().to_owned();
    let command = |token: &str, args: &[&str]| {
        let mut command = isolated_command(&dir, args);
        command.env("NOETL_SERVER_URL", &url).env("NOETL_TOKEN", token);
        command
    };
    let run_with_token = |token: &str, args: &[&str]| -> CommandOutput {
        command(token, args).output().unwrap().into()
    };
    let registered = run_with_token(&admin, &["catalog", "register", "clean.yaml", "-o", "json"]);
    assert_eq!(registered.code, 0, "{}", registered.to_snapshot());
    let listed = run_with_token(&admin, &["catalog", "list", "-o", "jsonl"]);
    let path = parse_json_lines(&listed.out)[0]["path"].as_str().unwrap().to_owned();
    let create = |scopes: &[&str]| {
        let args = [&["token", "create", "t", "-q"], scopes].concat();
        run_with_token(&admin, &args).out.trim().to_owned()
    };
    let starter = create(&["--scope", "exec:run"]);
    let denied = run_with_token(&starter, &["exec", &path, "--wait"]);
    assert_eq!(denied.code, 6, "{}", denied.to_snapshot());
    assert!(denied.err.contains("requires the scope exec:read"), "{}", denied.err);
    assert_eq!(run_with_token(&admin, &["runs", "list", "-o", "jsonl"]).out, "", "not started");
    assert_eq!(run_with_token(&starter, &["exec", &path]).code, 0);
    let waiter = create(&["--scope", "exec:run", "--scope", "exec:read"]);
    let mut waiting = NoetlProcess::start(command(&waiter, &["exec", &path, "--wait"]));
    let reason = waiting.wait_for_stderr("waiting: ");
    assert!(reason.contains("worker"), "{reason}");
    let plan = run_with_token(&admin, &["retention", "plan"]);
    assert_eq!(plan.code, 0, "{}", plan.to_snapshot());
    let denied = run_with_token(&waiter, &["retention", "plan"]);
    assert_ne!(denied.code, 0, "{}", denied.to_snapshot());
}

/// Makes `count` outbox rows dead and returns their ids.
fn make_rows_dead(server: &TestServer, count: usize) -> Vec<String> {
    let settings = ClientSettings {
        token: Some(BearerToken::new(INTERNAL_TOKEN.to_owned())),
        ..ClientSettings::default()
    };
    let client = Client::new(server.url(), settings).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let request = OutboxClaimRequest { limit: Some(i64::try_from(count).unwrap()) };
        let claimed = client.claim_outbox(&request).await.unwrap();
        let mut dead = Vec::new();
        for row in claimed.rows {
            let failure = MarkFailedRequest {
                outbox_id: row.outbox_id.0,
                error: "no route".into(),
                attempts: None,
                max_delay_seconds: None,
            };
            assert!(client.mark_failed(&failure).await.unwrap().marked);
            dead.push(row.outbox_id.to_string());
        }
        dead
    })
}

#[test]
fn dead_rows_are_shown_before_confirmation() {
    let env = [INTERNAL_TOKEN_ENV, ("NOETL_OUTBOX_MAX_ATTEMPTS", "1")];
    let server = TestServer::with_env("choosing_dead", &env);
    server.dir.write("clean.yaml", CLEAN_PLAYBOOK);
    server.run_ok(&["run", "clean.yaml", "-q"]);
    let dead = make_rows_dead(&server, 3);
    let [first, second, third] = dead.as_slice() else { panic!("{dead:?}") };
    let listed = parse_json_lines(&server.run_ok(&["outbox", "dead", "-o", "jsonl"]));
    assert_eq!(listed.len(), 3, "one line per row");
    assert_eq!(listed[0]["outbox_id"].to_string(), *first);
    // Only dead rows are counted, and the question names the server.
    let args = ["outbox", "discard", first, second, "7"];
    let (exit, out, err) = server.run_on_terminal(&args, "no\n");
    assert_eq!((exit, &*out), (CommandExit::Failed, ""), "{err}");
    assert!(err.contains("no route"), "{err}");
    let question = format!(
        "Discard 2 dead rows permanently, without delivering the events, at {}?",
        server.url()
    );
    assert!(err.contains(&question), "{err}");
    let dry_run = server.run_ok(&["outbox", "discard", first, "7", "--dry-run", "-o", "jsonl"]);
    assert_eq!(parse_json_lines(&dry_run).len(), 1, "{dry_run}");
    let (exit, out, err) = server.run_on_terminal(&args, "yes\n");
    assert_eq!(exit, CommandExit::Ok, "{err}");
    assert_eq!(out, "2 rows discarded\n");
    assert!(err.contains("1 of 3 rows are not dead"), "{err}");
    let replayed = server.run_ok(&["outbox", "replay", third, "--yes", "-o", "json"]);
    assert_eq!(replayed, "{\n  \"changed\": 1\n}\n");
    let missing = server.run_client(&["outbox", "replay", first]);
    assert_eq!(missing.code, 3, "{}", missing.to_snapshot());
}

#[test]
fn actions_print_json_on_request() {
    let server = TestServer::new("choosing_forms");
    server.run_ok(&["catalog", "register", "two.yaml", "waits.yaml"]);
    let args = ["exec", "demo/two", "--set", "who=Ada", "--wait", "-q"];
    let line = server.run_ok(&[&args[..], &["-o", "jsonl"]].concat());
    assert_eq!(line, "{\"who\":\"Ada\"}\n");
    let changed = server.dir.read("two.yaml").replace("world", "moon");
    server.dir.write("two.yaml", changed);
    let diff_output = server.run_client(&["catalog", "diff", "demo/two", "two.yaml", "-o", "json"]);
    assert_eq!(diff_output.code, 1);
    let diff_output: Value = serde_json::from_str(&diff_output.out).unwrap();
    assert_eq!(diff_output["differs"], true);
    let diff = diff_output["diff"].as_str().unwrap();
    assert!(diff.contains("\n-workload: { who: world }\n+workload"), "{diff}");
    let run = server.run_ok(&["exec", "demo/waits"]).trim().to_owned();
    server.wait_until_waiting_for(&run, "approval");
    for (command, status) in [("pause", "PAUSED"), ("resume", "RUNNING")] {
        let output = server.run_ok(&["runs", command, &run, "-o", "jsonl"]);
        let expected = format!("{{\"execution_id\":\"{run}\",\"status\":\"{status}\"}}\n");
        assert_eq!(output, expected);
    }
    let decision = server.run_ok(&["runs", "approve", &run, "-o", "jsonl"]);
    assert_eq!(parse_json_lines(&decision)[0]["decision"], "approve", "{decision}");
    server.wait_until_waiting_for(&run, "signal");
    let signal = server.run_ok(&["runs", "signal", &run, "other", "-o", "jsonl"]);
    assert_eq!(parse_json_lines(&signal)[0]["delivered"], false, "{signal}");
    let cancelled = server.run_ok(&["runs", "cancel", &run, "--yes", "-o", "json"]);
    let cancelled: Value = serde_json::from_str(&cancelled).unwrap();
    assert_eq!(cancelled[0]["status"], "CANCELLED", "{cancelled}");
    let rotated = server.run_ok(&["secret", "rotate", "-o", "json"]);
    assert!(rotated.contains("\"rewrapped\": 0"), "{rotated}");
    let settings = server.run_ok(&["config", "show", "-o", "jsonl"]);
    let settings = parse_json_lines(&settings);
    let port = settings.iter().find(|row| row["name"] == "NOETL_PORT");
    assert_eq!(port.unwrap()["is_secret"], false);
}

/// Runs a command with the URLs of two servers in its environment.
fn run_operator_command(
    internal_url: &str,
    server_url: &str,
    dir: &TestDir,
    args: &[&str],
) -> CommandOutput {
    let mut command = isolated_command(dir, args);
    command
        .env(INTERNAL_TOKEN_ENV.0, INTERNAL_TOKEN_ENV.1)
        .env("NOETL_INTERNAL_URL", internal_url)
        .env("NOETL_SERVER_URL", server_url);
    command.output().unwrap().into()
}

const UNREACHABLE_URL: &str = "http://127.0.0.1:1";

#[test]
fn stream_rebuild_uses_the_internal_url() {
    let server = TestServer::with_env("choosing_stream", &[INTERNAL_TOKEN_ENV]);
    let dry_run = ["stream", "rebuild", "--dry-run", "-o", "json"];
    let output = run_operator_command(server.url(), UNREACHABLE_URL, &server.dir, &dry_run);
    assert_eq!(output.code, 0, "{}", output.to_snapshot());
    assert!(output.out.contains("\"state\": \"off\""), "{}", output.out);
    for args in [&dry_run[..], &["stream", "rebuild"]] {
        let unreachable = run_operator_command(UNREACHABLE_URL, server.url(), &server.dir, args);
        assert_eq!((unreachable.code, &*unreachable.out), (5, ""), "{}", unreachable.to_snapshot());
        assert!(unreachable.err.contains(UNREACHABLE_URL), "{}", unreachable.err);
    }
}

#[test]
fn audit_resolves_runs_at_the_queried_server() {
    let server = TestServer::with_env("choosing_audit", &[INTERNAL_TOKEN_ENV]);
    server.dir.write("clean.yaml", CLEAN_PLAYBOOK);
    server.run_ok(&["run", "clean.yaml", "-q"]);
    let audit = ["secret", "audit", "--run", "last"];
    assert_eq!(server.run_ok(&audit), "");
    // The other server has different runs.
    let other = TestServer::new("choosing_audit_other");
    other.dir.write("clean.yaml", CLEAN_PLAYBOOK);
    other.run_ok(&["run", "clean.yaml", "-q"]);
    let partial_id = run_operator_command(server.url(), other.url(), &server.dir, &audit);
    assert_eq!((partial_id.code, &*partial_id.out), (2, ""), "{}", partial_id.to_snapshot());
    assert!(partial_id.err.contains("use the full id"), "{}", partial_id.err);
    let full_id = ["secret", "audit", "--run", "308400000000000001"];
    let full_id = run_operator_command(server.url(), other.url(), &server.dir, &full_id);
    assert_eq!(full_id.code, 0, "{}", full_id.to_snapshot());
}

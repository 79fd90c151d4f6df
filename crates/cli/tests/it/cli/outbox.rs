//! `noetl outbox` and `noetl retention` against a server.

use std::process::Command;

use crate::cli::process::NoetlProcess;
use crate::cli::run::isolated_command;
use crate::cli::support::{CLEAN_PLAYBOOK, CommandOutput, TestDir};

const INTERNAL_TOKEN: &str = "sixteen characters and more";

fn with_token(mut command: Command) -> Command {
    command.env("NOETL_INTERNAL_API_TOKEN", INTERNAL_TOKEN);
    command
}

fn capture_output(mut command: Command) -> CommandOutput {
    command.output().unwrap().into()
}

/// Starts a server with an outbox and returns its address.
fn start_dev_server(dir: &TestDir) -> (NoetlProcess, String) {
    let mut process =
        NoetlProcess::start(with_token(isolated_command(dir, &["dev", "--port", "0"])));
    let line = process.wait_for_stdout("NoETL listening on http://127.0.0.1:");
    let url = line.split(' ').next_back().unwrap().to_owned();
    (process, url)
}

/// Masks long numbers, which differ from run to run.
fn mask_ids(output: &CommandOutput) -> String {
    let snapshot = output.to_snapshot();
    let parts = snapshot.split_inclusive(|c: char| !c.is_ascii_digit());
    parts
        .map(|part| {
            let digits = part.trim_end_matches(|c: char| !c.is_ascii_digit());
            if digits.len() > 8 { part.replacen(digits, "<id>", 1) } else { part.to_owned() }
        })
        .collect()
}

#[test]
fn lists_outbox_rows() {
    let dir = TestDir::new("outbox_list");
    dir.write("clean.yaml", CLEAN_PLAYBOOK);
    let (_server, url) = start_dev_server(&dir);
    let run = capture_output(with_token(isolated_command(&dir, &["run", "clean.yaml"])));
    assert_eq!(run.code, 0, "{}", run.err);
    let run_client = |args: &[&str]| {
        let args: Vec<&str> = args.iter().copied().chain(["--server", &url]).collect();
        capture_output(with_token(isolated_command(&dir, &args)))
    };
    let list = run_client(&["outbox", "list", "--limit", "2"]);
    assert_eq!(list.code, 0, "{}", list.err);
    insta::assert_snapshot!("outbox_list", mask_ids(&list).replace(&url, "<url>"));
    let json = run_client(&["outbox", "list", "--status", "pending", "-o", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert!(json["rows"].as_array().unwrap().len() > 5, "{json}");
    insta::assert_snapshot!("outbox_dead", run_client(&["outbox", "dead"]).to_snapshot());
    insta::assert_snapshot!("outbox_replay", run_client(&["outbox", "replay", "7"]).to_snapshot());
    insta::assert_snapshot!(
        "outbox_discard",
        run_client(&["outbox", "discard", "7"]).to_snapshot()
    );
    insta::assert_snapshot!(
        "outbox_discard_yes",
        run_client(&["outbox", "discard", "--yes", "7"]).to_snapshot()
    );
    let unknown_status = run_client(&["outbox", "list", "--status", "odd"]);
    insta::assert_snapshot!("outbox_odd_status", unknown_status.to_snapshot());
    let without_token =
        capture_output(isolated_command(&dir, &["outbox", "list", "--server", &url]));
    insta::assert_snapshot!("outbox_forbidden", without_token.to_snapshot());
}

#[test]
fn unreachable_server_is_reported() {
    let dir = TestDir::new("outbox_alone");
    let output = capture_output(isolated_command(
        &dir,
        &["outbox", "list", "--server", "http://127.0.0.1:1"],
    ));
    assert_eq!(output.code, 5, "{}", output.err);
    let expected = "error: cannot reach the server at http://127.0.0.1:1: ";
    assert!(output.err.starts_with(expected), "{}", output.err);
}

#[test]
fn retention_is_planned_before_it_is_applied() {
    let dir = TestDir::new("retention");
    let (_server, url) = start_dev_server(&dir);
    let run_client = |args: &[&str]| {
        let args: Vec<&str> = args.iter().copied().chain(["--server", &url]).collect();
        capture_output(with_token(isolated_command(&dir, &args)))
    };
    let plan = run_client(&["retention", "plan", "--events", "30"]);
    insta::assert_snapshot!("retention_plan", plan.to_snapshot());
    let unconfirmed = run_client(&["retention", "apply"]);
    insta::assert_snapshot!("retention_apply", unconfirmed.to_snapshot());
    let done = run_client(&["retention", "apply", "--yes"]);
    insta::assert_snapshot!("retention_apply_yes", done.to_snapshot());
    let json = run_client(&["retention", "plan", "-o", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(json["dry_run"], true);
    let invalid = run_client(&["retention", "plan", "--events", "40000"]);
    insta::assert_snapshot!("retention_wrong", invalid.to_snapshot());
}

#[test]
fn database_is_inspected_checked_and_backed_up() {
    let dir = TestDir::new("db");
    dir.write("clean.yaml", CLEAN_PLAYBOOK);
    let run = capture_output(isolated_command(&dir, &["run", "clean.yaml"]));
    assert_eq!(run.code, 0, "{}", run.err);
    let masked = |output: &CommandOutput| {
        let data = dir.path("data").to_string_lossy().into_owned();
        output.to_snapshot().replace(&data, "<data>")
    };
    let status = capture_output(isolated_command(&dir, &["db", "status"]));
    assert!(status.out.contains("sqlite database"), "{}", status.to_snapshot());
    assert!(status.out.contains("execution"), "{}", status.to_snapshot());
    let checked = capture_output(isolated_command(&dir, &["db", "check"]));
    insta::assert_snapshot!("db_check", masked(&checked));
    let migrated = capture_output(isolated_command(&dir, &["db", "migrate"]));
    assert_eq!(migrated.code, 0, "{}", migrated.err);
    let backup = capture_output(isolated_command(&dir, &["db", "backup", "copy.db"]));
    insta::assert_snapshot!("db_backup", masked(&backup));
    let second_backup = capture_output(isolated_command(&dir, &["db", "backup", "copy.db"]));
    assert_eq!(second_backup.code, 4, "{}", second_backup.to_snapshot());
    let copy =
        capture_output(isolated_command(&dir, &["db", "check", "--store", "sqlite:copy.db"]));
    assert_eq!(copy.code, 0, "{}", copy.to_snapshot());
    let (_server, _) = start_dev_server(&dir);
    // While a server is running, everything works except migrations.
    for args in [&["db", "status"][..], &["db", "check"], &["db", "backup", "beside.db"]] {
        let online = capture_output(isolated_command(&dir, args));
        assert_eq!(online.code, 0, "{}", online.to_snapshot());
    }
    let copy =
        capture_output(isolated_command(&dir, &["db", "check", "--store", "sqlite:beside.db"]));
    assert_eq!(copy.code, 0, "{}", copy.to_snapshot());
    let locked = capture_output(isolated_command(&dir, &["db", "migrate"]));
    assert_eq!(locked.code, 4, "{}", locked.to_snapshot());
}

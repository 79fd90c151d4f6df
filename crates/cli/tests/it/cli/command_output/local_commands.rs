//! Commands that need no server.

use std::fs;

use super::terminal::TestTerminal;
use super::{OutputRecorder, first_lines, home_path};
use crate::cli::run::isolated_command;
use crate::cli::support::{CLEAN_PLAYBOOK, CRATE_DIR, CommandOutput, TestDir};

const FLOW_PLAYBOOK: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: flow, path: demo/flow }
workload: { who: world }
workflow:
  - step: greet
    tool: { kind: noop, result: { hello: '{{ workload.who }}' } }
    next: { arcs: [{ step: each }] }
  - step: each
    loop: { in: [1, 2, 3], iterator: n, spec: { mode: sequential } }
    tool: { kind: noop, result: '{{ n }}' }
    next: { arcs: [{ step: last }] }
  - step: last
    tool: { kind: noop, result: { who: '{{ workload.who }}', n: 3 } }
";

#[test]
fn playbook_file_commands() {
    let dir = TestDir::new("each_files");
    dir.write("flow.yaml", FLOW_PLAYBOOK)
        .write("wrong.yaml", FLOW_PLAYBOOK.replace("step: each }", "step: eech }"));
    let command_line = |args: &[&str]| isolated_command(&dir, args);
    let home = home_path(&dir);
    let masks = [(home.as_str(), "HOME")];
    OutputRecorder::new(&command_line)
        .run_both(&["run", "flow.yaml", "--set", "who=Ada"])
        .run_both(&["run", "wrong.yaml"])
        .assert_matches_snapshot("run", &masks);
    OutputRecorder::new(&command_line)
        .run_both(&["check", "flow.yaml", "wrong.yaml"])
        .run_both(&["check", "none.yaml"])
        .assert_matches_snapshot("check", &masks);
    OutputRecorder::new(&command_line)
        .run_both(&["graph", "flow.yaml"])
        .assert_matches_snapshot("graph", &masks);
    OutputRecorder::new(&command_line)
        .run_both(&["explain", "NP201"])
        .run_both(&["explain", "NP2011"])
        .assert_matches_snapshot("explain", &masks);
}

#[test]
fn replay_command() {
    let dir = TestDir::new("each_replay");
    let log = format!("{CRATE_DIR}/../testkit/corpus/logs/linear.jsonl");
    dir.write("linear.jsonl", fs::read(log).unwrap());
    let command_line = |args: &[&str]| isolated_command(&dir, args);
    OutputRecorder::new(&command_line)
        .run_both(&["replay", "--log", "linear.jsonl"])
        .run_both(&["replay", "--log", "linear.jsonl", "--at-seq", "4"])
        .assert_matches_snapshot("replay", &[]);
}

/// Long output is truncated in the snapshot.
#[test]
fn generated_texts() {
    let dir = TestDir::new("each_texts");
    let command_line = |args: &[&str]| isolated_command(&dir, args);
    for (name, args) in
        [("schema", &["schema"][..]), ("completions", &["completions", "bash"]), ("man", &["man"])]
    {
        let mut output = CommandOutput::from(command_line(args).output().unwrap());
        output.out = first_lines(&output.out, 12);
        let mut on_terminal = TestTerminal::start(command_line(args), "").wait_for_exit();
        on_terminal.screen = first_lines(&on_terminal.screen, 12);
        OutputRecorder::new(&command_line)
            .add_piped(args, &output)
            .add_on_terminal(args, &on_terminal)
            .assert_matches_snapshot(name, &[]);
    }
}

#[test]
fn profile_commands() {
    let dir = TestDir::new("each_profiles");
    let command_line = |args: &[&str]| isolated_command(&dir, args);
    let recorder = || OutputRecorder::new(&command_line);
    let list = recorder().run_both(&["profile", "list"]);
    let show = recorder().run_both(&["profile", "show"]);
    let add = ["profile", "add", "prod", "--server", "https://noetl.example.com"];
    let add_second = ["profile", "add", "here", "--server", "http://127.0.0.1:8082", "--use"];
    recorder()
        .run_piped(&add)
        .run_piped(&add)
        .run_on_terminal(&add_second, "")
        .assert_matches_snapshot("profile_add", &[]);
    list.run_both(&["profile", "list"]).assert_matches_snapshot("profile_list", &[]);
    show.run_both(&["profile", "show", "prod"]).assert_matches_snapshot("profile_show", &[]);
    recorder()
        .run_both(&["profile", "use", "prod"])
        .run_both(&["profile", "use", "prd"])
        .assert_matches_snapshot("profile_use", &[]);
    recorder()
        .run_piped(&["profile", "rm", "prod"])
        .run_on_terminal(&["profile", "rm", "prod"], "no\n")
        .run_on_terminal(&["profile", "rm", "prod"], "yes\n")
        .assert_matches_snapshot("profile_rm", &[]);
}

#[test]
fn config_command() {
    let dir = TestDir::new("each_settings");
    dir.write("noetl.toml", "host = '127.0.0.2'\n");
    let command_line = |args: &[&str]| isolated_command(&dir, args);
    let args = ["config", "show", "--origin", "--config", "noetl.toml"];
    let mut output = CommandOutput::from(command_line(&args).output().unwrap());
    // The full list is in the snapshot of `config show`.
    output.out = first_lines(&output.out, 8);
    let mut on_terminal = TestTerminal::start(command_line(&args), "").wait_for_exit();
    on_terminal.screen = first_lines(&on_terminal.screen, 8);
    let missing_file = ["config", "show", "--config", "none.toml"];
    let home = home_path(&dir);
    OutputRecorder::new(&command_line)
        .add_piped(&args, &output)
        .add_on_terminal(&args, &on_terminal)
        .run_both(&missing_file)
        .assert_matches_snapshot("config_show", &[(&home, "HOME")]);
}

#[test]
fn doctor_command() {
    let dir = TestDir::new("each_doctor");
    let command_line = |args: &[&str]| isolated_command(&dir, args);
    let checks = |text: &str| -> String {
        // The results depend on the machine, so only the names of the checks are compared.
        let mut checks: Vec<String> = Vec::new();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let sign = words.next().unwrap_or_default();
            if matches!(sign, "✓" | "!" | "✗" | "·") {
                let name = line.split("  ").next().unwrap_or_default();
                checks.push(name.chars().skip(2).collect());
            }
        }
        checks.join("\n") + "\n"
    };
    let args = ["doctor"];
    let mut output = CommandOutput::from(command_line(&args).output().unwrap());
    output.out = checks(&output.out);
    output.err = String::new();
    let mut on_terminal = TestTerminal::start(command_line(&args), "").wait_for_exit();
    on_terminal.screen = checks(&on_terminal.screen);
    OutputRecorder::new(&command_line)
        .add_piped(&args, &output)
        .add_on_terminal(&args, &on_terminal)
        .assert_matches_snapshot("doctor", &[]);
}

#[test]
fn db_commands() {
    let dir = TestDir::new("each_database");
    dir.write("clean.yaml", CLEAN_PLAYBOOK);
    let command_line = |args: &[&str]| isolated_command(&dir, args);
    let home = home_path(&dir);
    let masks = [(home.as_str(), "HOME")];
    let recorder = || OutputRecorder::new(&command_line);
    let status = recorder().run_both(&["db", "status"]);
    let output = CommandOutput::from(command_line(&["run", "clean.yaml"]).output().unwrap());
    assert_eq!(output.code, 0, "{}", output.to_snapshot());
    status.run_both(&["db", "status"]).assert_matches_snapshot("db_status", &masks);
    recorder().run_both(&["db", "migrate"]).assert_matches_snapshot("db_migrate", &masks);
    recorder().run_both(&["db", "anchor"]).assert_matches_snapshot("db_anchor", &masks);
    recorder().run_both(&["db", "check"]).assert_matches_snapshot("db_check", &masks);
    recorder()
        .run_piped(&["db", "backup", "copy.db"])
        .run_on_terminal(&["db", "backup", "copy.db"], "")
        .run_on_terminal(&["db", "backup", "other.db"], "")
        .assert_matches_snapshot("db_backup", &masks);
}

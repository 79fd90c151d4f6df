//! Commands on a database file without a server, and processes that share the file.

use serde_json::Value;

use crate::cli::process::NoetlProcess;
use crate::cli::run::{isolated_command, sleeping_playbook};
use crate::cli::support::{CommandOutput, TestDir};

/// Playbook whose step runs until the file `go` exists.
const WAITING_PLAYBOOK: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: waits }
workload: { folder: . }
workflow:
  - step: wait
    tool:
      kind: shell
      cwd: \"{{ workload.folder }}\"
      command: touch started; until [ -e go ]; do sleep 0.05; done; echo done
";

const TEXT_PLAYBOOK: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: text }
workload: { answer: hello }
workflow:
  - step: say
    tool: { kind: noop, result: \"{{ workload.answer }}\" }
";

const APPROVAL_PLAYBOOK: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: release }
workflow:
  - step: release
    tool: { kind: approval, message: Ship it? }
    next: { arcs: [{ step: say }] }
  - step: say
    tool: { kind: noop, result: shipped }
";

fn run_isolated(dir: &TestDir, args: &[&str]) -> CommandOutput {
    isolated_command(dir, args).output().unwrap().into()
}

fn run_ok(dir: &TestDir, args: &[&str]) -> String {
    let output = run_isolated(dir, args);
    assert_eq!(output.code, 0, "{args:?}: {}", output.to_snapshot());
    output.out
}

fn start_in_folder(dir: &TestDir, name: &str, playbook: &str) -> NoetlProcess {
    dir.write(name, playbook);
    let set = format!("folder={}", dir.path("").display());
    NoetlProcess::start(isolated_command(dir, &["run", name, "--set", &set]))
}

fn statuses(dir: &TestDir) -> Vec<(String, String)> {
    let text = run_ok(dir, &["runs", "list", "-o", "jsonl"]);
    let runs = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut pairs: Vec<(String, String)> = runs
        .map(|run| {
            let field = |name: &str| run[name].as_str().unwrap().to_owned();
            (field("path"), field("status"))
        })
        .collect();
    pairs.sort();
    pairs
}

#[test]
fn second_run_does_not_wait_for_the_first() {
    let dir = TestDir::new("file_second_run");
    dir.write("text.yaml", TEXT_PLAYBOOK);
    let first = start_in_folder(&dir, "sleep.yaml", sleeping_playbook());
    dir.wait_for_file("pid");
    for _ in 0..2 {
        let output = run_isolated(&dir, &["run", "text.yaml", "--lock-timeout", "0s"]);
        assert_eq!((output.code, &*output.out), (0, "hello\n"), "{}", output.to_snapshot());
    }
    first.send_interrupt();
    assert_eq!(first.wait_for_exit().0, 130);
    let expected = [("sleep", "CANCELLED"), ("text", "COMPLETED"), ("text", "COMPLETED")];
    let expected = expected.map(|(path, status)| (path.to_owned(), status.to_owned()));
    assert_eq!(statuses(&dir), expected);
}

#[test]
fn run_continues_after_the_process_that_has_the_file_open_ends() {
    for is_killed in [false, true] {
        let dir = TestDir::new(&format!("file_takeover_{is_killed}"));
        let mut first = start_in_folder(&dir, "sleep.yaml", sleeping_playbook());
        dir.wait_for_file("pid");
        let second = start_in_folder(&dir, "waits.yaml", WAITING_PLAYBOOK);
        dir.wait_for_file("started");
        if is_killed {
            first.kill();
        } else {
            first.send_interrupt();
            assert_eq!(first.wait_for_exit().0, 130);
        }
        // A third run is served by the second as soon as that has opened the file.
        dir.write("text.yaml", TEXT_PLAYBOOK);
        assert_eq!(run_ok(&dir, &["run", "text.yaml"]), "hello\n");
        dir.write("go", "");
        let (code, out, err) = second.wait_for_exit();
        assert_eq!(code, 0, "{out} {err}");
        let expected = [("sleep", "CANCELLED"), ("text", "COMPLETED"), ("waits", "COMPLETED")];
        let expected = expected.map(|(path, status)| (path.to_owned(), status.to_owned()));
        assert_eq!(statuses(&dir), expected, "killed: {is_killed}");
        if is_killed {
            let id = dir.read("pid");
            std::process::Command::new("kill").args(["-KILL", id.trim()]).status().unwrap();
        }
    }
}

#[test]
fn waiting_run_is_answered_without_a_server() {
    let dir = TestDir::new("file_approve");
    dir.write("release.yaml", APPROVAL_PLAYBOOK);
    let mut run = NoetlProcess::start(isolated_command(&dir, &["run", "release.yaml"]));
    run.wait_for_stderr("can wait for an answer");
    crate::cli::support::wait_until("the run waits", || {
        !run_ok(&dir, &["runs", "approve", "-o", "jsonl"]).is_empty()
    });
    let paused = run_ok(&dir, &["runs", "pause", "last"]);
    assert!(paused.contains("PAUSED"), "{paused}");
    let resumed = run_ok(&dir, &["runs", "resume", "last"]);
    assert!(resumed.contains("RUNNING"), "{resumed}");
    let stored = run_ok(&dir, &["runs", "signal", "last", "hello"]);
    assert!(stored.contains("stored"), "{stored}");
    run_ok(&dir, &["runs", "approve", "last"]);
    let (code, out, err) = run.wait_for_exit();
    assert_eq!((code, &*out), (0, "shipped"), "{err}");
    let mut run = NoetlProcess::start(isolated_command(&dir, &["run", "release.yaml"]));
    run.wait_for_stderr("can wait for an answer");
    crate::cli::support::wait_until("the run waits", || {
        !run_ok(&dir, &["runs", "approve", "-o", "jsonl"]).is_empty()
    });
    run_ok(&dir, &["runs", "cancel", "last", "--yes", "--reason", "not today"]);
    assert_eq!(run.wait_for_exit().0, 1);
    let shown = run_ok(&dir, &["runs", "show", "last"]);
    assert!(shown.contains("reason: not today") && !shown.contains("error"), "{shown}");
    assert!(run_ok(&dir, &["runs", "explain", "last"]).contains("not today"));
}

#[test]
fn commands_use_the_file_without_a_server() {
    let dir = TestDir::new("file_commands");
    dir.write("text.yaml", TEXT_PLAYBOOK);
    assert_eq!(run_ok(&dir, &["run", "text.yaml"]), "hello\n");
    // The worker of the earlier process has ended, so another pool runs this.
    assert_eq!(run_ok(&dir, &["runs", "rerun", "last", "--set", "answer=again"]), "again\n");
    run_ok(&dir, &["catalog", "register", "text.yaml"]);
    assert_eq!(run_ok(&dir, &["exec", "text", "--set", "answer=later"]), "later\n");
    let mut set = isolated_command(&dir, &["secret", "set", "api", "--type", "bearer"]);
    dir.write("token", "s3cret");
    set.stdin(std::fs::File::open(dir.path("token")).unwrap());
    let output: CommandOutput = set.output().unwrap().into();
    assert_eq!(output.code, 0, "{}", output.to_snapshot());
    assert!(run_ok(&dir, &["secret", "list"]).contains("api"));
    let plan = run_ok(&dir, &["retention", "plan", "--commands", "1"]);
    assert!(plan.contains("would be deleted"), "{plan}");
}

#[test]
fn only_the_owner_can_connect_to_the_socket() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = TestDir::new("file_socket");
    let run = start_in_folder(&dir, "sleep.yaml", sleeping_playbook());
    dir.wait_for_file("pid");
    let socket = dir.path("data/noetl.db.sock");
    let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    run.send_interrupt();
    assert_eq!(run.wait_for_exit().0, 130);
}

const PARENT_PLAYBOOK: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: parent }
workflow:
  - step: child
    tool: { kind: playbook, path: parts/text, return_result: true }
";

#[test]
fn run_finds_sub_playbooks_beside_its_file() {
    let dir = TestDir::new("file_siblings");
    let child = TEXT_PLAYBOOK.replace("name: text", "name: text, path: parts/text");
    dir.write("flows/parent.yaml", PARENT_PLAYBOOK).write("flows/any_name.yaml", &*child);
    // Files that are not referenced are not read as playbooks.
    dir.write("flows/broken.yaml", "kind: [");
    let output = run_isolated(&dir, &["run", "flows/parent.yaml"]);
    assert_eq!(output.code, 0, "{}", output.to_snapshot());
    assert!(output.out.contains("hello"), "{}", output.out);
    // A changed file is used by the next run.
    dir.write("flows/any_name.yaml", child.replace("answer: hello", "answer: changed"));
    assert!(run_ok(&dir, &["run", "flows/parent.yaml"]).contains("changed"));
}

const LOOP_PLAYBOOK: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: divide }
workflow:
  - step: divide
    loop: { in: '{{ [1, 0] }}', iterator: n, spec: { mode: parallel } }
    tool: { kind: python, input: { n: '{{ n }}' }, code: 'result = 1 / n' }
    next:
      arcs:
        - { step: done }
  - step: done
    tool: { kind: noop, result: done }
";

#[test]
fn explain_names_failed_items_of_a_completed_run() {
    let dir = TestDir::new("file_failed_items");
    let caught =
        "- { step: done, when: \"{{ event.name == 'call.error' }}\" }\n        - { step: done }";
    dir.write("divide.yaml", LOOP_PLAYBOOK.replace("- { step: done }", caught));
    assert_eq!(run_ok(&dir, &["run", "divide.yaml"]), "done\n");
    let text = run_ok(&dir, &["runs", "explain", "last"]);
    assert!(text.contains("divide [1]: ZeroDivisionError"), "{text}");
    assert!(!text.contains("divide [0]"), "{text}");
}

/// The worker of a local run ends with its process, so its pool must not be used again.
#[test]
fn server_reruns_a_local_run_in_its_own_pool() {
    let dir = TestDir::new("file_rerun_on_server");
    dir.write("text.yaml", TEXT_PLAYBOOK);
    assert_eq!(run_ok(&dir, &["run", "text.yaml"]), "hello\n");
    let mut dev = NoetlProcess::start(isolated_command(&dir, &["dev", "--port", "0"]));
    dev.wait_for_stdout("listening on");
    assert_eq!(run_ok(&dir, &["runs", "rerun", "last", "--wait"]), "hello\n");
}

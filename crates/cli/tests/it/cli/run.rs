//! `noetl run`: progress, result and exit code.

use std::process::Command;

use crate::cli::process::{NoetlProcess, is_process_alive};
use crate::cli::support::{CRATE_DIR, CommandOutput, TestDir, wait_until};

/// Builds a command with a separate data directory and without the user's settings.
pub(crate) fn isolated_command(dir: &TestDir, args: &[&str]) -> Command {
    let mut command = dir.noetl_command(args);
    for (name, _) in std::env::vars() {
        if name.starts_with("NOETL_") || name.starts_with("POSTGRES_") {
            command.env_remove(name);
        }
    }
    command.env("NOETL_DATA_DIR", dir.path("data"));
    command
}

const PLAYBOOK_HEADER: &str = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: flow }\n";

fn run_isolated(dir: &TestDir, args: &[&str]) -> CommandOutput {
    isolated_command(dir, args).output().unwrap().into()
}

/// Masks durations, ids and directories.
pub(crate) fn mask_run_output(dir: &TestDir, text: &str) -> String {
    let text = text.replace(&dir.path("").display().to_string(), "HOME/");
    let mut masked = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if !c.is_ascii_digit() {
            masked.push(c);
            continue;
        }
        let mut number = String::from(c);
        while let Some(digit) = chars.next_if(|next| next.is_ascii_digit() || *next == '.') {
            number.push(digit);
        }
        masked.push_str(if number.len() > 12 { "ID" } else { &number });
    }
    let parts = masked.split(' ').collect::<Vec<_>>();
    let mut masked_words: Vec<String> = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let next = parts.get(index + 1).map_or("", |next| next.trim_end_matches([',', '\n']));
        let unit = next.split('\n').next().unwrap_or_default();
        let is_time = matches!(unit.trim_end_matches(','), "ms" | "s")
            && part.chars().all(|c| c.is_ascii_digit() || c == '.');
        masked_words.push(if is_time { "N".to_owned() } else { (*part).to_owned() });
    }
    masked_words.join(" ").replace("N s", "N ms")
}

fn example_path(name: &str) -> String {
    format!("{CRATE_DIR}/../../examples/{name}")
}

/// Runs an example from its directory, as the README does.
fn run_example(test: &str, name: &str, flags: &[&str]) -> String {
    let dir = TestDir::new(test);
    let text = std::fs::read_to_string(example_path(name)).unwrap();
    dir.write(&format!("examples/{name}"), text);
    let file = format!("examples/{name}");
    let mut args = vec!["run", &*file];
    args.extend(flags);
    mask_run_output(&dir, &run_isolated(&dir, &args).to_snapshot())
}

#[test]
fn examples_pass_strict_check() {
    let dir = TestDir::new("run_examples");
    let output = run_isolated(&dir, &["check", "--strict", &example_path("")]);
    assert_eq!(output.code, 0, "{}", output.to_snapshot());
}

#[test]
fn hello_example() {
    insta::assert_snapshot!(run_example("run_hello", "hello.yaml", &[]));
}

#[test]
fn hello_example_with_input() {
    insta::assert_snapshot!(run_example(
        "run_hello_ada",
        "hello.yaml",
        &["--set", "who=Ada", "-o", "yaml"]
    ));
}

#[test]
fn fan_out_and_join() {
    insta::assert_snapshot!(run_example("run_fan_out", "fan_out_and_join.yaml", &[]));
}

#[test]
fn retries_are_shown() {
    insta::assert_snapshot!(run_example("run_retries", "retries.yaml", &[]));
}

#[test]
fn exhausted_retries_fail_at_code_line() {
    insta::assert_snapshot!(run_example(
        "run_retries_fail",
        "retries.yaml",
        &["--set", "answers_at=9"]
    ));
}

#[test]
fn caught_failure_completes_the_run() {
    insta::assert_snapshot!(run_example("run_caught", "error_handling.yaml", &[]));
}

#[test]
fn loop_with_failures() {
    let numbers = "numbers=[1, 2, x, 4]";
    insta::assert_snapshot!(run_example("run_loop", "parallel_loop.yaml", &["--set", numbers]));
}

#[test]
fn quiet_prints_only_the_result() {
    let dir = TestDir::new("run_quiet");
    let output = run_isolated(&dir, &["run", &example_path("hello.yaml"), "--quiet"]);
    assert_eq!((output.code, &*output.err), (0, ""));
    assert_eq!(output.out, "{\n  \"greeting\": \"Hello, world!\",\n  \"letters\": 10\n}\n");
}

const TEXT_PLAYBOOK: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: text }
workload: { word: hello, list: [] }
workflow:
  - step: say
    tool: { kind: noop, result: \"{{ workload.word }}\" }
";

#[test]
fn text_result_is_unquoted_except_as_json() {
    let dir = TestDir::new("run_text");
    dir.write("text.yaml", TEXT_PLAYBOOK);
    let result = |flags: &[&str]| {
        let mut args = vec!["run", "text.yaml", "--quiet", "--ephemeral"];
        args.extend(flags);
        run_isolated(&dir, &args).out
    };
    assert_eq!(result(&[]), "hello\n");
    assert_eq!(result(&["-o", "json"]), "\"hello\"\n");
    assert_eq!(result(&["--set", "word=1"]), "1\n");
    assert!(!dir.path("data").exists(), "--ephemeral stores nothing");
}

#[test]
fn set_values_override_payload_file() {
    let dir = TestDir::new("run_payload");
    dir.write("text.yaml", TEXT_PLAYBOOK.replace("workload.word", "workload.a.b ~ workload.c"))
        .write("payload.json", "{\"a\": {\"b\": \"x\"}, \"c\": \"y\"}");
    let args =
        ["run", "text.yaml", "-q", "--ephemeral", "--payload", "payload.json", "--set", "c=z"];
    assert_eq!(run_isolated(&dir, &args).out, "xz\n");
}

#[test]
fn unread_input_is_warned_about() {
    let dir = TestDir::new("run_unread");
    let playbook = |step: &str| format!("{PLAYBOOK_HEADER}workload: {{ city: Oslo }}\n{step}");
    let step = "workflow: [{ step: a, tool: { kind: noop, result: '{{ workload.city }}' } }]";
    let whole_workload = "workflow: [{ step: a, tool: { kind: noop, result: '{{ workload }}' } }]";
    dir.write("one.yaml", playbook(step)).write("whole.yaml", playbook(whole_workload));
    let stderr_of =
        |file: &str, set: &str| run_isolated(&dir, &["run", file, "--ephemeral", "--set", set]).err;
    let expected = "warning: the playbook does not read 'citty'; did you mean 'city'?";
    assert!(stderr_of("one.yaml", "citty=Rome").contains(expected));
    // A part of a name, or of another word in the playbook, does not count as a use.
    let expected = "warning: the playbook does not read 'cit'; did you mean 'city'?";
    assert!(stderr_of("one.yaml", "cit=Rome").contains(expected));
    assert!(
        stderr_of("one.yaml", "wind.max=3").contains("warning: the playbook does not read 'wind'")
    );
    for (file, set) in [("one.yaml", "city=Rome"), ("whole.yaml", "citty=Rome")] {
        let stderr = stderr_of(file, set);
        assert!(!stderr.contains("warning"), "{stderr}");
    }
}

#[test]
fn invalid_payload_names_the_flag() {
    let dir = TestDir::new("run_payload_errors");
    dir.write("text.yaml", TEXT_PLAYBOOK).write("list.json", "[1]").write("broken.yaml", "a: [");
    for (args, expected) in [
        (["--set", "word"], "error: --set 'word': must be NAME=VALUE"),
        (["--set", "list=[1"], "error: --set 'list=[1': the value is not valid YAML"),
        (["--payload", "list.json"], "error: --payload 'list.json' is a list"),
        (["--payload", "broken.yaml"], "error: --payload 'broken.yaml' is neither JSON nor YAML"),
        (["--store", "mysql"], "error: --store is 'mysql': must be sqlite:PATH"),
        (["--timeout", "soon"], "error: invalid value 'soon' for '--timeout"),
    ] {
        let mut command_line = vec!["run", "text.yaml"];
        command_line.extend(args);
        let output = run_isolated(&dir, &command_line);
        assert_eq!((output.code, &*output.out), (2, ""), "{args:?}");
        assert!(output.err.starts_with(expected), "{}", output.err);
    }
    let output = run_isolated(&dir, &["run", "text.yaml", "--payload", "none.json"]);
    assert_eq!(output.code, 3);
}

#[test]
fn invalid_playbook_is_not_run() {
    let dir = TestDir::new("run_mistakes");
    dir.write("flow.yaml", TEXT_PLAYBOOK.replace("kind: noop", "kind: nop"));
    let output = run_isolated(&dir, &["run", "flow.yaml"]);
    insta::assert_snapshot!(mask_run_output(&dir, &output.to_snapshot()));
    assert_eq!(output.code, 2);
    assert_eq!(run_isolated(&dir, &["run", "none.yaml"]).code, 3);
}

#[test]
fn run_is_cancelled_at_timeout() {
    let dir = TestDir::new("run_timeout");
    dir.write("sleep.yaml", sleeping_playbook());
    let output = run_isolated(&dir, &["run", "sleep.yaml", "--timeout", "200ms"]);
    assert_eq!(output.code, 124, "{}", output.err);
    assert!(output.err.contains("– cancelled after"), "{}", output.err);
}

/// Playbook with a step that writes its process id to a file and sleeps.
pub(crate) fn sleeping_playbook() -> &'static str {
    "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: sleep }
workload: { folder: . }
workflow:
  - step: wait
    tool:
      kind: shell
      cwd: \"{{ workload.folder }}\"
      command: echo $$ > pid.part; mv pid.part pid; exec sleep 1000
"
}

fn start_sleeping_run(dir: &TestDir) -> NoetlProcess {
    start_sleeping_run_of(dir, sleeping_playbook())
}

fn start_sleeping_run_of(dir: &TestDir, playbook: &str) -> NoetlProcess {
    dir.write("sleep.yaml", playbook);
    let set = format!("folder={}", dir.path("").display());
    let process = NoetlProcess::start(isolated_command(dir, &["run", "sleep.yaml", "--set", &set]));
    dir.wait_for_file("pid");
    process
}

#[test]
fn interrupt_cancels_the_run_and_kills_tools() {
    let dir = TestDir::new("run_interrupt");
    let process = start_sleeping_run(&dir);
    let id = dir.read("pid");
    assert!(is_process_alive(id.trim()));
    process.send_interrupt();
    let (code, out, err) = process.wait_for_exit();
    assert_eq!((code, &*out), (130, ""), "{err}");
    assert!(err.contains("– wait  "), "{err}");
    assert!(err.contains("– cancelled after"), "{err}");
    assert!(!is_process_alive(id.trim()));
}

#[test]
fn second_interrupt_kills_unresponsive_tools() {
    let dir = TestDir::new("run_impatient");
    let unresponsive = sleeping_playbook()
        .replace("exec sleep 1000", "trap '' INT TERM; while :; do sleep 1; done");
    let mut process = start_sleeping_run_of(&dir, &unresponsive);
    process.send_interrupt();
    process.wait_for_stderr("– cancelled after");
    process.send_interrupt();
    assert_eq!(process.wait_for_exit().0, 130);
    let id = dir.read("pid");
    wait_until("its tool is killed", || !is_process_alive(id.trim()));
}

#[test]
fn next_run_cancels_orphaned_run() {
    let dir = TestDir::new("run_orphan");
    dir.write("text.yaml", TEXT_PLAYBOOK);
    let mut first = start_sleeping_run(&dir);
    first.kill();
    assert_eq!(run_isolated(&dir, &["run", "text.yaml"]).code, 0);
    let mut dev = NoetlProcess::start(isolated_command(&dir, &["dev", "--port", "0"]));
    let url = dev.wait_for_stdout("listening on").split(' ').next_back().unwrap().to_owned();
    let runs = crate::cli::serve::http_get(&url, "/api/executions");
    assert!(runs.contains("CANCELLED") && runs.contains("COMPLETED"), "{runs}");
    assert!(!runs.contains("RUNNING"), "{runs}");
    let id = dir.read("pid");
    Command::new("kill").args(["-KILL", id.trim()]).status().unwrap();
}

/// On a shared database a run is orphaned only if its process sends no heartbeat.
#[test]
fn next_run_cancels_orphaned_run_on_postgres() {
    let database = noetl_testkit::postgres::TestDatabase::new().unwrap();
    let start = |dir: &TestDir, playbook: &str| {
        dir.write("flow.yaml", playbook);
        let set = format!("folder={}", dir.path("").display());
        let mut command = isolated_command(dir, &["run", "flow.yaml", "--set", &set]);
        command.env("NOETL_DSN", database.connection_config());
        NoetlProcess::start(command)
    };
    let backdate_by_an_hour = |table: &str, column: &str| {
        let sql = format!("UPDATE noetl.{table} SET {column} = {column} - interval '1 hour'");
        database.run_statement(&sql).unwrap();
    };
    let (first, second) = (TestDir::new("run_orphan_a"), TestDir::new("run_orphan_b"));
    let mut dead = start(&first, sleeping_playbook());
    first.wait_for_file("pid");
    dead.kill();
    backdate_by_an_hour("runtime", "heartbeat");
    let active = start(&second, sleeping_playbook());
    second.wait_for_file("pid");
    backdate_by_an_hour("execution", "started_at");
    let (code, out, err) = start(&TestDir::new("run_orphan_c"), TEXT_PLAYBOOK).wait_for_exit();
    assert_eq!((code, &*out), (0, "hello"), "{err}");
    let check_statuses = "DO $$ BEGIN ASSERT (SELECT array_agg(status ORDER BY execution_id)
        FROM noetl.execution) = ARRAY['CANCELLED', 'RUNNING', 'COMPLETED']; END $$";
    database.run_statement(check_statuses).unwrap();
    active.send_interrupt();
    assert_eq!(active.wait_for_exit().0, 130);
    let id = first.read("pid");
    Command::new("kill").args(["-KILL", id.trim()]).status().unwrap();
}

#[test]
fn postgres_runs_work_beside_a_server() {
    let dir = TestDir::new("run_postgres");
    dir.write("text.yaml", TEXT_PLAYBOOK);
    let database = noetl_testkit::postgres::TestDatabase::new().unwrap();
    let postgres_command = |args: &[&str]| {
        let mut command = isolated_command(&dir, args);
        command.env("NOETL_DSN", database.connection_config());
        command
    };
    let mut server = NoetlProcess::start(postgres_command(&["server", "--port", "0"]));
    server.wait_for_stdout("NoETL listening on");
    let run = || NoetlProcess::start(postgres_command(&["run", "text.yaml"]));
    for process in [run(), run()] {
        let (code, out, err) = process.wait_for_exit();
        assert_eq!((code, &*out), (0, "hello"), "{err}");
    }
}

#[test]
fn run_is_cancelled_when_worker_is_drained() {
    let dir = TestDir::new("run_drained");
    let database = noetl_testkit::postgres::TestDatabase::new().unwrap();
    let start = |args: &[&str]| {
        let mut command = isolated_command(&dir, args);
        command
            .env("NOETL_DSN", database.connection_config())
            .env("NOETL_DEV", "true")
            .env("WORKER_HEARTBEAT_INTERVAL", "1")
            .env("WORKER_ID", "single");
        NoetlProcess::start(command)
    };
    let mut server = start(&["server", "--port", "0"]);
    let line = server.wait_for_stdout("NoETL listening on http://127.0.0.1:");
    let url = line.split(' ').next_back().unwrap().to_owned();
    dir.write("sleep.yaml", sleeping_playbook());
    let set = format!("folder={}", dir.path("").display());
    let run = start(&["run", "sleep.yaml", "--set", &set]);
    dir.wait_for_file("pid");
    crate::cli::serve::drain_worker(&dir, &url, "single");
    let (code, out, err) = run.wait_for_exit();
    assert_eq!((code, &*out), (1, ""), "{err}");
    assert!(err.contains("its worker was drained"), "{err}");
    assert!(err.contains("– cancelled after"), "{err}");
}

#[test]
fn unknown_setting_is_warned_about() {
    let dir = TestDir::new("run_warn");
    dir.write("text.yaml", TEXT_PLAYBOOK);
    let mut command = isolated_command(&dir, &["run", "text.yaml", "--ephemeral"]);
    command.env("NOETL_STROE", "memory");
    let output: CommandOutput = command.output().unwrap().into();
    assert!(output.err.starts_with("warning: NOETL_STROE is not a setting"), "{}", output.err);
}

#[test]
fn rejects_file_that_is_not_a_database() {
    let dir = TestDir::new("run_not_a_database");
    dir.write("text.yaml", TEXT_PLAYBOOK)
        .write("x.db", "this is not a database, but long enough to be read. ".repeat(40));
    let output = run_isolated(&dir, &["run", "text.yaml", "--store", "sqlite:x.db"]);
    assert_eq!(output.code, 1);
    assert!(output.err.starts_with("error: cannot open the database x.db: "), "{}", output.err);
}

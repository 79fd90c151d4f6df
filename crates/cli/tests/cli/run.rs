//! `noetl run`: what it shows, what it gives, how it ends.

use std::process::Command;

use crate::process::{Process, lives};
use crate::support::{CRATE, Folder, Ran, wait_until};

/// A command line whose data is in a folder of its own.
pub(crate) fn at_home(folder: &Folder, args: &[&str]) -> Command {
    let mut command = folder.command(args);
    for (name, _) in std::env::vars() {
        if name.starts_with("NOETL_") || name.starts_with("POSTGRES_") {
            command.env_remove(name);
        }
    }
    command.env("NOETL_DATA_DIR", folder.path("data"));
    command
}

const HEAD: &str = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: flow }\n";

fn run(folder: &Folder, args: &[&str]) -> Ran {
    at_home(folder, args).output().unwrap().into()
}

/// What differs from run to run is masked: durations, ids, folders.
pub(crate) fn masked(folder: &Folder, text: &str) -> String {
    let text = text.replace(&folder.path("").display().to_string(), "HOME/");
    let mut masked = String::new();
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        if !letter.is_ascii_digit() {
            masked.push(letter);
            continue;
        }
        let mut number = String::from(letter);
        while let Some(digit) = letters.next_if(|next| next.is_ascii_digit() || *next == '.') {
            number.push(digit);
        }
        masked.push_str(if number.len() > 12 { "ID" } else { &number });
    }
    let words = masked.split(' ').collect::<Vec<_>>();
    let mut shown: Vec<String> = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let next = words
            .get(at + 1)
            .map_or("", |next| next.trim_end_matches([',', '\n']));
        let unit = next.split('\n').next().unwrap_or_default();
        let is_time = matches!(unit.trim_end_matches(','), "ms" | "s")
            && word
                .chars()
                .all(|letter| letter.is_ascii_digit() || letter == '.');
        shown.push(if is_time {
            "N".to_owned()
        } else {
            (*word).to_owned()
        });
    }
    shown.join(" ").replace("N s", "N ms")
}

fn example(name: &str) -> String {
    format!("{CRATE}/../../examples/{name}")
}

/// Runs an example from the folder that holds it, as the README does.
fn run_example(test: &str, name: &str, more: &[&str]) -> String {
    let folder = Folder::new(test);
    let text = std::fs::read_to_string(example(name)).unwrap();
    folder.write(&format!("examples/{name}"), text);
    let file = format!("examples/{name}");
    let mut args = vec!["run", &*file];
    args.extend(more);
    masked(&folder, &run(&folder, &args).shown())
}

#[test]
fn the_examples_have_no_flaw() {
    let folder = Folder::new("run_examples");
    let ran = run(&folder, &["check", "--strict", &example("")]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
}

#[test]
fn hello() {
    insta::assert_snapshot!(run_example("run_hello", "hello.yaml", &[]));
}

#[test]
fn hello_to_somebody_else() {
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
fn retries_that_do_not_help_fail_the_run_at_the_line_of_the_code() {
    insta::assert_snapshot!(run_example(
        "run_retries_fail",
        "retries.yaml",
        &["--set", "answers_at=9"]
    ));
}

#[test]
fn a_failure_that_is_caught() {
    insta::assert_snapshot!(run_example("run_caught", "error_handling.yaml", &[]));
}

#[test]
fn a_loop_with_failures() {
    let numbers = "numbers=[1, 2, x, 4]";
    insta::assert_snapshot!(run_example(
        "run_loop",
        "parallel_loop.yaml",
        &["--set", numbers]
    ));
}

#[test]
fn quiet_leaves_only_the_result() {
    let folder = Folder::new("run_quiet");
    let ran = run(&folder, &["run", &example("hello.yaml"), "--quiet"]);
    assert_eq!((ran.code, &*ran.err), (0, ""));
    assert_eq!(
        ran.out,
        "{\n  \"greeting\": \"Hello, world!\",\n  \"letters\": 10\n}\n"
    );
}

const TEXT: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: text }
workload: { word: hello, list: [] }
workflow:
  - step: say
    tool: { kind: noop, result: \"{{ workload.word }}\" }
";

#[test]
fn a_text_is_shown_as_it_is_unless_json_is_asked_for() {
    let folder = Folder::new("run_text");
    folder.write("text.yaml", TEXT);
    let result = |more: &[&str]| {
        let mut args = vec!["run", "text.yaml", "--quiet", "--ephemeral"];
        args.extend(more);
        run(&folder, &args).out
    };
    assert_eq!(result(&[]), "hello\n");
    assert_eq!(result(&["-o", "json"]), "\"hello\"\n");
    assert_eq!(result(&["--set", "word=1"]), "1\n");
    assert!(!folder.path("data").exists(), "--ephemeral leaves nothing");
}

#[test]
fn a_payload_comes_from_a_file_and_single_values_lie_over_it() {
    let folder = Folder::new("run_payload");
    folder
        .write(
            "text.yaml",
            TEXT.replace("workload.word", "workload.a.b ~ workload.c"),
        )
        .write("payload.json", "{\"a\": {\"b\": \"x\"}, \"c\": \"y\"}");
    let args = [
        "run",
        "text.yaml",
        "-q",
        "--ephemeral",
        "--payload",
        "payload.json",
        "--set",
        "c=z",
    ];
    assert_eq!(run(&folder, &args).out, "xz\n");
}

#[test]
fn an_input_that_nothing_reads_is_told() {
    let folder = Folder::new("run_unread");
    let flow = |step: &str| format!("{HEAD}workload: {{ city: Oslo }}\n{step}");
    let step = "workflow: [{ step: a, tool: { kind: noop, result: '{{ workload.city }}' } }]";
    let whole = "workflow: [{ step: a, tool: { kind: noop, result: '{{ workload }}' } }]";
    folder
        .write("one.yaml", flow(step))
        .write("whole.yaml", flow(whole));
    let said =
        |file: &str, set: &str| run(&folder, &["run", file, "--ephemeral", "--set", set]).err;
    let meant = "warning: nothing reads 'citty'; did you mean 'city'?";
    assert!(said("one.yaml", "citty=Rome").contains(meant));
    // A part of a name, or of any other word of the text, is not that name.
    let meant = "warning: nothing reads 'cit'; did you mean 'city'?";
    assert!(said("one.yaml", "cit=Rome").contains(meant));
    assert!(said("one.yaml", "wind.max=3").contains("warning: nothing reads 'wind'"));
    for (file, set) in [("one.yaml", "city=Rome"), ("whole.yaml", "citty=Rome")] {
        let said = said(file, set);
        assert!(!said.contains("warning"), "{said}");
    }
}

#[test]
fn what_is_wrong_with_a_payload_names_the_flag_and_runs_nothing() {
    let folder = Folder::new("run_payload_errors");
    folder
        .write("text.yaml", TEXT)
        .write("list.json", "[1]")
        .write("broken.yaml", "a: [");
    for (args, wanted) in [
        (
            ["--set", "word"],
            "error: --set 'word': it has to be NAME=VALUE",
        ),
        (
            ["--set", "list=[1"],
            "error: --set 'list=[1': the value is not valid YAML",
        ),
        (
            ["--payload", "list.json"],
            "error: --payload 'list.json' is a list",
        ),
        (
            ["--payload", "broken.yaml"],
            "error: --payload 'broken.yaml' is neither JSON nor YAML",
        ),
        (
            ["--store", "mysql"],
            "error: --store is 'mysql': it has to be sqlite:PATH",
        ),
        (
            ["--timeout", "soon"],
            "error: invalid value 'soon' for '--timeout",
        ),
    ] {
        let mut line = vec!["run", "text.yaml"];
        line.extend(args);
        let ran = run(&folder, &line);
        assert_eq!((ran.code, &*ran.out), (2, ""), "{args:?}");
        assert!(ran.err.starts_with(wanted), "{}", ran.err);
    }
    let ran = run(&folder, &["run", "text.yaml", "--payload", "none.json"]);
    assert_eq!(ran.code, 3);
}

#[test]
fn a_playbook_with_mistakes_is_not_run() {
    let folder = Folder::new("run_mistakes");
    folder.write("flow.yaml", TEXT.replace("kind: noop", "kind: nop"));
    let ran = run(&folder, &["run", "flow.yaml"]);
    insta::assert_snapshot!(masked(&folder, &ran.shown()));
    assert_eq!(ran.code, 2);
    assert_eq!(run(&folder, &["run", "none.yaml"]).code, 3);
}

#[test]
fn a_run_that_takes_too_long_is_cancelled() {
    let folder = Folder::new("run_timeout");
    folder.write("sleep.yaml", sleep());
    let ran = run(&folder, &["run", "sleep.yaml", "--timeout", "200ms"]);
    assert_eq!(ran.code, 124, "{}", ran.err);
    assert!(ran.err.contains("– cancelled after"), "{}", ran.err);
}

/// A step that writes its process down and stays.
pub(crate) fn sleep() -> &'static str {
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

fn sleeping(folder: &Folder) -> Process {
    sleeping_on(folder, sleep())
}

fn sleeping_on(folder: &Folder, flow: &str) -> Process {
    folder.write("sleep.yaml", flow);
    let set = format!("folder={}", folder.path("").display());
    let process = Process::start(at_home(folder, &["run", "sleep.yaml", "--set", &set]));
    folder.wait_for("pid");
    process
}

#[test]
fn an_interrupt_cancels_the_run_and_kills_its_tools() {
    let folder = Folder::new("run_interrupt");
    let process = sleeping(&folder);
    let id = folder.read("pid");
    assert!(lives(id.trim()));
    process.interrupt();
    let (code, out, err) = process.end();
    assert_eq!((code, &*out), (130, ""), "{err}");
    assert!(err.contains("– wait  "), "{err}");
    assert!(err.contains("– cancelled after"), "{err}");
    assert!(!lives(id.trim()));
}

#[test]
fn a_second_interrupt_does_not_wait_for_tools_that_do_not_listen() {
    let folder = Folder::new("run_impatient");
    let deaf = sleep().replace(
        "exec sleep 1000",
        "trap '' INT TERM; while :; do sleep 1; done",
    );
    let mut process = sleeping_on(&folder, &deaf);
    process.interrupt();
    process.tells("– cancelled after");
    process.interrupt();
    assert_eq!(process.end().0, 130);
    let id = folder.read("pid");
    wait_until("its tool is killed", || !lives(id.trim()));
}

#[test]
fn two_runs_on_one_database_take_turns() {
    let folder = Folder::new("run_two");
    folder.write("text.yaml", TEXT);
    let first = sleeping(&folder);
    let mut second = Process::start(at_home(&folder, &["run", "text.yaml"]));
    second.tells("waiting: another run uses");
    let ran = run(&folder, &["run", "text.yaml", "--lock-timeout", "0s"]);
    assert_eq!(ran.code, 4);
    assert!(
        ran.err.contains("error: another process uses"),
        "{}",
        ran.err
    );
    first.interrupt();
    assert_eq!(first.end().0, 130);
    let (code, out, err) = second.end();
    assert_eq!((code, &*out), (0, "hello"), "{err}");
}

#[test]
fn a_run_whose_process_was_killed_is_buried_by_the_next() {
    let folder = Folder::new("run_orphan");
    folder.write("text.yaml", TEXT);
    let mut first = sleeping(&folder);
    first.kill();
    assert_eq!(run(&folder, &["run", "text.yaml"]).code, 0);
    let mut dev = Process::start(at_home(&folder, &["dev", "--port", "0"]));
    let url = dev
        .says("listening on")
        .split(' ')
        .next_back()
        .unwrap()
        .to_owned();
    let runs = crate::serve::get(&url, "/api/executions");
    assert!(
        runs.contains("CANCELLED") && runs.contains("COMPLETED"),
        "{runs}"
    );
    assert!(!runs.contains("RUNNING"), "{runs}");
    let id = folder.read("pid");
    Command::new("kill")
        .args(["-KILL", id.trim()])
        .status()
        .unwrap();
}

/// Those who share a database with others are only taken for gone when nothing is heard of them.
#[test]
fn a_run_whose_process_was_killed_is_buried_on_a_shared_database_too() {
    let database = noetl_testkit::postgres::Database::new().unwrap();
    let start = |folder: &Folder, flow: &str| {
        folder.write("flow.yaml", flow);
        let set = format!("folder={}", folder.path("").display());
        let mut command = at_home(folder, &["run", "flow.yaml", "--set", &set]);
        command.env("NOETL_DSN", database.config());
        Process::start(command)
    };
    let an_hour_ago = |table: &str, column: &str| {
        let sql = format!("UPDATE noetl.{table} SET {column} = {column} - interval '1 hour'");
        database.run(&sql).unwrap();
    };
    let (first, second) = (Folder::new("run_orphan_a"), Folder::new("run_orphan_b"));
    let mut dead = start(&first, sleep());
    first.wait_for("pid");
    dead.kill();
    an_hour_ago("runtime", "heartbeat");
    let alive = start(&second, sleep());
    second.wait_for("pid");
    an_hour_ago("execution", "started_at");
    let (code, out, err) = start(&Folder::new("run_orphan_c"), TEXT).end();
    assert_eq!((code, &*out), (0, "hello"), "{err}");
    let stand = "DO $$ BEGIN ASSERT (SELECT array_agg(status ORDER BY execution_id)
        FROM noetl.execution) = ARRAY['CANCELLED', 'RUNNING', 'COMPLETED']; END $$";
    database.run(stand).unwrap();
    alive.interrupt();
    assert_eq!(alive.end().0, 130);
    let id = first.read("pid");
    Command::new("kill")
        .args(["-KILL", id.trim()])
        .status()
        .unwrap();
}

#[test]
fn runs_on_postgres_go_side_by_side_with_a_server() {
    let folder = Folder::new("run_postgres");
    folder.write("text.yaml", TEXT);
    let database = noetl_testkit::postgres::Database::new().unwrap();
    let on_postgres = |args: &[&str]| {
        let mut command = at_home(&folder, args);
        command.env("NOETL_DSN", database.config());
        command
    };
    let mut server = Process::start(on_postgres(&["server", "--port", "0"]));
    server.says("NoETL listening on");
    let run = || Process::start(on_postgres(&["run", "text.yaml"]));
    for process in [run(), run()] {
        let (code, out, err) = process.end();
        assert_eq!((code, &*out), (0, "hello"), "{err}");
    }
}

#[test]
fn a_run_whose_worker_is_asked_to_leave_is_cancelled() {
    let folder = Folder::new("run_drained");
    let database = noetl_testkit::postgres::Database::new().unwrap();
    let start = |args: &[&str]| {
        let mut line = at_home(&folder, args);
        line.env("NOETL_DSN", database.config())
            .env("NOETL_DEV", "true")
            .env("WORKER_HEARTBEAT_INTERVAL", "1")
            .env("WORKER_ID", "single");
        Process::start(line)
    };
    let mut server = start(&["server", "--port", "0"]);
    let said = server.says("NoETL listening on http://127.0.0.1:");
    let url = said.split(' ').next_back().unwrap().to_owned();
    folder.write("sleep.yaml", sleep());
    let set = format!("folder={}", folder.path("").display());
    let run = start(&["run", "sleep.yaml", "--set", &set]);
    folder.wait_for("pid");
    crate::serve::drained(&folder, &url, "single");
    let (code, out, err) = run.end();
    assert_eq!((code, &*out), (1, ""), "{err}");
    assert!(err.contains("its worker has left"), "{err}");
    assert!(err.contains("– cancelled after"), "{err}");
}

#[test]
fn a_new_setting_is_warned_of() {
    let folder = Folder::new("run_warn");
    folder.write("text.yaml", TEXT);
    let mut line = at_home(&folder, &["run", "text.yaml", "--ephemeral"]);
    line.env("NOETL_STROE", "memory");
    let ran: Ran = line.output().unwrap().into();
    assert!(
        ran.err.starts_with("warning: NOETL_STROE is not a setting"),
        "{}",
        ran.err
    );
}

#[test]
fn a_database_that_is_none_is_refused() {
    let folder = Folder::new("run_not_a_database");
    folder.write("text.yaml", TEXT).write(
        "x.db",
        "this is no database, but long enough to look at it. ".repeat(40),
    );
    let ran = run(&folder, &["run", "text.yaml", "--store", "sqlite:x.db"]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.err
            .starts_with("error: the database x.db cannot be opened: "),
        "{}",
        ran.err
    );
}

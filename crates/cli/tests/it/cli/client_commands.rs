//! Client commands: their output in a pipe and on a terminal, and their exit codes.

use std::fmt::Write as _;
use std::process::Command;

use noetl_cli::{CommandExit, Env, Io, OutputStream};

use crate::cli::process::NoetlProcess;
use crate::cli::run::isolated_command;
use crate::cli::support::{CommandOutput, TestDir, wait_until};

const TWO_STEP_PLAYBOOK: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: two, path: demo/two }
workload: { who: world }
workflow:
  - step: say
    tool: { kind: shell, command: 'echo hello; echo oh >&2' }
    next: { arcs: [{ step: each }] }
  - step: each
    loop: { in: [1, 2, 3], iterator: n, spec: { mode: parallel } }
    tool: { kind: noop, result: '{{ n }}' }
    next: { arcs: [{ step: last }] }
  - step: last
    tool: { kind: noop, result: { who: '{{ workload.who }}' } }
";

const WAITING_PLAYBOOK: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: waits, path: demo/waits }
workflow:
  - step: ask
    tool: { kind: approval, title: Ship it? }
    next: { arcs: [{ step: call }] }
  - step: call
    tool: { kind: wait, signal: go }
";

const FAILING_PLAYBOOK: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: fails, path: demo/fails }
workflow:
  - step: bad
    tool: { kind: shell, command: 'exit 3' }
";

/// Server with a worker, and the environment of its client commands.
pub(crate) struct TestServer {
    pub(crate) dir: TestDir,
    url: String,
    /// Environment variables of the server and of its clients.
    env: Vec<(&'static str, String)>,
    _dev: NoetlProcess,
}

impl TestServer {
    pub(crate) fn new(test: &str) -> Self {
        Self::with_env(test, &[])
    }

    pub(crate) fn with_env(test: &str, env: &[(&'static str, &str)]) -> Self {
        let dir = TestDir::new(test);
        let mut command = isolated_command(&dir, &["dev", "--port", "0"]);
        command.envs(env.iter().copied());
        let mut dev = NoetlProcess::start(command);
        let line = dev.wait_for_stdout("NoETL listening on http://127.0.0.1:");
        let url = line.split(' ').next_back().unwrap().to_owned();
        dev.wait_for_stdout("Stop with Ctrl-C");
        for (name, text) in [
            ("two.yaml", TWO_STEP_PLAYBOOK),
            ("waits.yaml", WAITING_PLAYBOOK),
            ("fails.yaml", FAILING_PLAYBOOK),
        ] {
            dir.write(name, text);
        }
        Self {
            dir,
            url,
            env: env.iter().map(|(name, value)| (*name, (*value).to_owned())).collect(),
            _dev: dev,
        }
    }

    /// Removes the environment variables from the client commands.
    pub(crate) fn without_env(self) -> Self {
        let env = Vec::new();
        Self { env, ..self }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Builds a client command for this server.
    pub(crate) fn client_command(&self, args: &[&str]) -> Command {
        let mut command = isolated_command(&self.dir, args);
        command
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .env("NOETL_SERVER_URL", &self.url);
        command
    }

    pub(crate) fn run_client(&self, args: &[&str]) -> CommandOutput {
        self.client_command(args).output().unwrap().into()
    }

    /// Runs a client command that must succeed and returns its standard output.
    #[track_caller]
    pub(crate) fn run_ok(&self, args: &[&str]) -> String {
        let output = self.run_client(args);
        assert_eq!(output.code, 0, "{args:?}: {}", output.to_snapshot());
        output.out
    }

    /// Runs a client command in this process on a terminal of 80 columns, with `answer` as input.
    pub(crate) fn run_on_terminal(
        &self,
        args: &[&str],
        answer: &str,
    ) -> (CommandExit, String, String) {
        let mut input = answer.as_bytes();
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let config = self.dir.path("config").display().to_string();
        let default_env =
            [("NOETL_SERVER_URL", self.url.as_str()), ("XDG_CONFIG_HOME", config.as_str())];
        let extra = self.env.iter().map(|(name, value)| (*name, value.as_str()));
        let env: Env = default_env.into_iter().chain(extra).collect();
        let mut io = Io {
            input: &mut input,
            out: OutputStream::terminal(&mut out, 80),
            err: OutputStream::terminal(&mut err, 80),
            env,
            quiet: false,
        };
        let args = ["noetl", "--color", "never"].iter().chain(args);
        let exit = noetl_cli::run(args.map(Into::into), &mut io);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (exit, text(out), text(err))
    }

    /// Registers and starts a playbook, and returns the id of the run.
    pub(crate) fn start_run(&self, file: &str, path: &str) -> String {
        self.run_ok(&["catalog", "register", file]);
        self.run_ok(&["exec", path]).trim().to_owned()
    }

    /// Waits until a run waits for something of this kind.
    pub(crate) fn wait_until_waiting_for(&self, run: &str, kind: &str) {
        let expected = format!("\"kind\": \"{kind}\"");
        wait_until(&expected, || {
            let output = self.run_client(&["runs", "explain", run, "-o", "json"]);
            output.out.contains(&expected)
        });
    }
}

/// Masks ids, times, durations and bars, and separates columns by two spaces.
pub(crate) fn mask_client_output(server: &TestServer, text: &str) -> String {
    let text = text.replace(&server.url, "URL");
    let text: String = text.chars().filter(|c| !"█░▒┄".contains(*c)).collect();
    let mut masked = String::new();
    for line in text.lines() {
        let indent = if line.starts_with(' ') { "  " } else { "" };
        let cells: Vec<String> = line.split("  ").map(str::trim).map(mask_cell).collect();
        let cells: Vec<&str> =
            cells.iter().map(String::as_str).filter(|cell| !cell.is_empty()).collect();
        writeln!(masked, "{indent}{}", cells.join("  ")).unwrap();
    }
    masked
}

fn mask_cell(text: &str) -> String {
    let words: Vec<&str> = text.split(' ').collect();
    let mut masked: Vec<String> = Vec::new();
    let mut index = 0;
    while index < words.len() {
        let word = words[index];
        let next = words.get(index + 1).map_or("", |next| next.trim_end_matches([',', ';']));
        let bare = word.trim_end_matches([',', ';', ':']);
        let is_number = !bare.is_empty() && bare.chars().all(|c| c.is_ascii_digit() || c == '.');
        if is_number && matches!(next, "ms" | "s" | "min") {
            let rest = &words[index + 1][next.len()..];
            masked.push(format!("TOOK{rest}"));
            index += 2;
            continue;
        }
        let is_id = bare.len() > 12 && bare.chars().all(|c| c.is_ascii_digit());
        let is_time = bare.len() > 18 && bare.contains('T') && bare.ends_with('Z');
        let mask = if is_id {
            "ID"
        } else if is_time {
            "TIME"
        } else {
            bare
        };
        masked.push(word.replacen(bare, mask, 1));
        index += 1;
    }
    // On a busy machine a duration may have minutes and seconds.
    masked.dedup();
    masked.join(" ")
}

/// Asserts that no line is wider than the terminal.
#[track_caller]
fn assert_fits_terminal(text: &str) {
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
    }
}

#[test]
fn definitions_are_registered_listed_and_compared() {
    let server = TestServer::new("asking_catalog");
    let masked_output =
        |args: &[&str]| mask_client_output(&server, &server.run_client(args).to_snapshot());
    let mut transcript = String::new();
    let mut record = |args: &[&str]| {
        writeln!(transcript, "$ noetl {}\n{}\n", args.join(" "), masked_output(args)).unwrap();
    };
    record(&["catalog", "list"]);
    record(&["catalog", "register", "two.yaml", "--dry-run"]);
    record(&["catalog", "register", "two.yaml", "waits.yaml"]);
    record(&["catalog", "register", "two.yaml"]);
    server.dir.write("two.yaml", TWO_STEP_PLAYBOOK.replace("world", "moon"));
    record(&["catalog", "diff", "demo/two", "two.yaml"]);
    record(&["catalog", "register", "two.yaml", "--no-headers"]);
    record(&["catalog", "list", "two"]);
    record(&["catalog", "history", "demo/two"]);
    record(&["catalog", "diff", "demo/two"]);
    record(&["catalog", "diff", "demo/two@1", "demo/two@1"]);
    record(&["catalog", "get", "demo/waits@2"]);
    record(&["exec", "demo/wait"]);
    server.dir.write("broken.yaml", TWO_STEP_PLAYBOOK.replace("step: each }", "step: eech }"));
    record(&["catalog", "register", "broken.yaml", "-q"]);
    insta::assert_snapshot!(transcript);
    assert_eq!(server.run_ok(&["catalog", "get", "demo/two@1"]), TWO_STEP_PLAYBOOK);
    let json = server.run_ok(&["catalog", "list", "-o", "jsonl"]);
    assert_eq!(json.lines().count(), 2);
}

#[test]
fn run_is_started_followed_and_listed() {
    let server = TestServer::new("asking_runs");
    server.run_ok(&["catalog", "register", "two.yaml", "fails.yaml"]);
    let waited =
        server.run_client(&["exec", "demo/two", "--set", "who=Ada", "--wait", "-o", "json"]);
    assert_eq!(waited.code, 0, "{}", waited.to_snapshot());
    assert_eq!(waited.out, "{\n  \"who\": \"Ada\"\n}\n");
    assert!(waited.err.contains("✓ each"), "{}", waited.err);
    let failed = server.run_client(&["exec", "demo/fails", "--wait", "-q"]);
    assert_eq!((failed.code, &*failed.out), (1, ""), "{}", failed.to_snapshot());
    let started = server.run_ok(&["exec", "demo/two@1", "-o", "json", "--label", "team=data"]);
    let started: serde_json::Value = serde_json::from_str(&started).unwrap();
    let id = started["execution_id"].as_str().unwrap().to_owned();
    let tailed = server.run_client(&["runs", "tail", &id]);
    assert_eq!(tailed.code, 0, "{}", tailed.to_snapshot());
    assert!(tailed.out.lines().last().unwrap().contains("playbook.completed"), "{}", tailed.out);

    let masked_output =
        |args: &[&str]| mask_client_output(&server, &server.run_client(args).to_snapshot());
    insta::assert_snapshot!("runs_list", masked_output(&["runs", "list"]));
    insta::assert_snapshot!(
        "runs_list_failed",
        masked_output(&["runs", "list", "--status", "failed", "--no-headers"])
    );
    // The number of events depends on the timing of worker and server.
    let timeline = masked_output(&["runs", "show", "last"]);
    let timeline: Vec<&str> =
        timeline.lines().filter(|line| !line.starts_with("events ")).collect();
    insta::assert_snapshot!("runs_show", timeline.join("\n"));
    insta::assert_snapshot!("runs_logs", masked_output(&["runs", "logs", "last"]));
    let labelled = server.run_ok(&["runs", "list", "--label", "team=data", "-o", "jsonl"]);
    assert_eq!(labelled.lines().count(), 1);
    assert!(labelled.contains(&id));
}

#[test]
fn runs_are_found_by_partial_id() {
    let server = TestServer::new("asking_ids");
    let first = server.start_run("two.yaml", "demo/two");
    let id = server.run_ok(&["exec", "demo/two"]).trim().to_owned();
    for run in [&first, &id] {
        assert_eq!(server.run_client(&["runs", "tail", run]).code, 0);
    }
    // The end of an id matches one run. Its beginning matches all runs.
    let end = &id[id.len() - 9..];
    assert!(server.run_ok(&["runs", "show", end]).contains(&id));
    let ambiguous = server.run_client(&["runs", "show", &id[..2]]);
    assert_eq!(ambiguous.code, 2, "{}", ambiguous.to_snapshot());
    assert!(ambiguous.err.contains("matches several runs"), "{}", ambiguous.err);
    let missing = server.run_client(&["runs", "show", "000000000"]);
    assert_eq!(missing.code, 3, "{}", missing.to_snapshot());
    let missing = server.run_client(&["runs", "events", "7000000000000000000"]);
    assert_eq!(missing.code, 3, "{}", missing.to_snapshot());
    let misspelled = server.run_client(&["runs", "list", "--status", "runing"]);
    assert_eq!(misspelled.code, 2);
    assert!(misspelled.err.contains("did you mean running?"), "{}", misspelled.err);

    let events = server.run_ok(&["runs", "events", &id, "-o", "jsonl"]);
    let last = server.run_ok(&["runs", "events", &id, "-n", "1", "--no-headers"]);
    assert!(last.contains("playbook.completed"), "{last}");
    let seqs = events.lines().filter(|line| line.contains("\"seq\":")).count();
    assert_eq!(seqs, events.lines().count());
    let step_events = server
        .run_ok(&["runs", "events", &id, "--step", "each", "--type", "step.exit", "--no-headers"]);
    assert_eq!(step_events.lines().count(), 1, "{step_events}");

    for args in [
        &["runs", "list"][..],
        &["runs", "show", "last"],
        &["runs", "events", "last"],
        &["runs", "explain", "last"],
        &["worker", "list"],
        &["catalog", "list"],
    ] {
        let (exit, out, _) = server.run_on_terminal(args, "");
        assert_eq!(exit, CommandExit::Ok, "{args:?}");
        assert!(!out.is_empty(), "{args:?}");
        assert_fits_terminal(&out);
    }
}

#[test]
fn failure_is_explained_with_its_line() {
    let server = TestServer::new("asking_failure");
    let id = server.start_run("fails.yaml", "demo/fails");
    server.run_client(&["runs", "tail", &id]);
    insta::assert_snapshot!(mask_client_output(
        &server,
        &server.run_client(&["runs", "explain", &id]).to_snapshot()
    ));
    let rerun = server.run_client(&["runs", "rerun", &id, "--wait", "-q"]);
    assert_eq!(rerun.code, 1, "{}", rerun.to_snapshot());
    let why = server.run_ok(&["runs", "explain", "last", "--why"]);
    assert!(why.contains("playbook.started"), "{why}");
}

#[test]
fn waiting_run_is_explained_and_controlled() {
    let server = TestServer::new("asking_steer");
    let id = server.start_run("waits.yaml", "demo/waits");
    server.wait_until_waiting_for(&id, "approval");
    let mut transcript = String::new();
    let mut record = |args: &[&str]| {
        let masked_output =
            mask_client_output(&server, &server.run_client(args).to_snapshot()).replace(&id, "ID");
        writeln!(transcript, "$ noetl {}\n{masked_output}\n", args.join(" ").replace(&id, "ID"))
            .unwrap();
    };
    record(&["runs", "explain", &id]);
    record(&["runs", "approve"]);
    record(&["runs", "pause", &id, "--reason", "lunch"]);
    record(&["runs", "explain", &id]);
    record(&["runs", "resume", &id]);
    record(&["runs", "approve", &id, "--comment", "fine"]);
    server.wait_until_waiting_for(&id, "signal");
    record(&["runs", "approve", &id]);
    record(&["runs", "explain", &id, "-o", "wide"]);
    record(&["runs", "signal", &id, "go", "--set", "by=me"]);
    server.run_client(&["runs", "tail", &id]);
    record(&["runs", "list", "--no-headers"]);
    record(&["runs", "cancel", &id, "--yes"]);
    record(&["runs", "pause", &id]);
    insta::assert_snapshot!(transcript);
}

#[test]
fn destructive_commands_require_confirmation() {
    let server = TestServer::new("asking_cancel");
    let id = server.start_run("waits.yaml", "demo/waits");
    let other = server.run_ok(&["exec", "demo/waits"]).trim().to_owned();
    server.wait_until_waiting_for(&id, "approval");
    server.wait_until_waiting_for(&other, "approval");
    let without_terminal = server.run_client(&["runs", "cancel", &id]);
    assert_eq!(without_terminal.code, 2, "{}", without_terminal.to_snapshot());
    assert!(without_terminal.err.contains("confirm with --yes"), "{}", without_terminal.err);
    let (exit, out, err) = server.run_on_terminal(&["runs", "cancel", &id], "no\n");
    assert_eq!((exit, &*out), (CommandExit::Failed, ""), "{err}");
    assert!(err.contains("nothing was changed"), "{err}");
    let dry_run = server.run_client(&["runs", "cancel", "--all", "--path", "demo/", "--dry-run"]);
    assert!(dry_run.err.ends_with("2 runs would be cancelled\n"), "{}", dry_run.err);
    let (exit, out, err) = server.run_on_terminal(&["runs", "cancel", &id], "yes\n");
    assert_eq!(exit, CommandExit::Ok, "{err}");
    assert_eq!(out, format!("{id} cancelled\n"));
    let (exit, out, err) = server.run_on_terminal(&["runs", "cancel", "--all"], "yes\n");
    assert_eq!(exit, CommandExit::Ok, "{err}");
    assert_eq!(out, format!("{other} cancelled\n"));
    let resumed = server.run_client(&["runs", "resume", &id]);
    assert_eq!(resumed.code, 4, "{}", resumed.to_snapshot());
}

#[test]
fn workers_are_listed_and_drained() {
    let dir = TestDir::new("asking_workers");
    let mut command = isolated_command(&dir, &["server", "--port", "0"]);
    command.env("NOETL_DEV", "true");
    let mut server = NoetlProcess::start(command);
    let line = server.wait_for_stdout("NoETL listening on http://127.0.0.1:");
    let url = line.split(' ').next_back().unwrap().to_owned();
    let args =
        ["worker", "--server", &url, "--id", "w1", "--concurrency", "2", "--log-format", "text"];
    let mut command = isolated_command(&dir, &args);
    command.env("WORKER_HEARTBEAT_INTERVAL", "1");
    let mut worker = NoetlProcess::start(command);
    worker.wait_for_stderr("registered");
    let run_client = |args: &[&str]| -> CommandOutput {
        let mut command = isolated_command(&dir, args);
        command.env("NOETL_SERVER_URL", &url).env("XDG_CONFIG_HOME", dir.path("config"));
        command.output().unwrap().into()
    };
    let listed = run_client(&["worker", "list", "--no-headers"]);
    assert_eq!(listed.code, 0, "{}", listed.to_snapshot());
    let cells: Vec<&str> = listed.out.split_whitespace().take(4).collect();
    assert_eq!(cells, ["w1", "active", "shared", "2"]);
    let missing = run_client(&["worker", "drain", "w2", "--yes"]);
    assert_eq!(missing.code, 3, "{}", missing.to_snapshot());
    let drained = run_client(&["worker", "drain", "w1", "--yes"]);
    assert_eq!((drained.code, &*drained.out), (0, "w1 draining\n"), "{}", drained.to_snapshot());
    let (code, _, err) = worker.wait_for_exit();
    assert_eq!(code, 0, "{err}");
}

#[test]
fn profiles_name_servers_and_hold_no_secrets() {
    let server = TestServer::new("asking_profiles");
    let run_client = |args: &[&str]| -> CommandOutput {
        let mut command = isolated_command(&server.dir, args);
        command.env("XDG_CONFIG_HOME", server.dir.path("config"));
        command.env("NOETL_DATA_DIR", server.dir.path("elsewhere"));
        command.output().unwrap().into()
    };
    let mut transcript = String::new();
    let mut record = |args: &[&str]| {
        let masked_output = mask_client_output(&server, &run_client(args).to_snapshot());
        let args = args.join(" ").replace(&server.url, "URL");
        writeln!(transcript, "$ noetl {args}\n{masked_output}\n").unwrap();
    };
    record(&["profile", "list"]);
    record(&["profile", "show"]);
    record(&["profile", "add", "here", "--server", &server.url]);
    record(&[
        "profile", "add", "prod", "--server", "https://noetl.example.com", "--token-env",
        "PROD_TOKEN",
    ]);
    record(&["profile", "add", "here", "--server", &server.url]);
    record(&["profile", "add", "x y", "--server", &server.url]);
    record(&["profile", "add", "odd", "--server", "noetl.example.com"]);
    record(&["profile", "list"]);
    record(&["catalog", "list"]);
    record(&["profile", "use", "prd"]);
    record(&["profile", "use", "prod"]);
    record(&["runs", "list"]);
    record(&["runs", "list", "--profile", "here"]);
    record(&["profile", "show", "-o", "yaml"]);
    record(&["profile", "rm", "prod"]);
    record(&["profile", "rm", "prod", "--yes"]);
    record(&["profile", "use", "--none"]);
    insta::assert_snapshot!(transcript);
}

#[test]
fn reads_local_database_without_server() {
    let dir = TestDir::new("asking_file");
    dir.write("two.yaml", TWO_STEP_PLAYBOOK);
    let run_client = |args: &[&str]| -> CommandOutput {
        let mut command = isolated_command(&dir, args);
        command.env("XDG_CONFIG_HOME", dir.path("config"));
        command.output().unwrap().into()
    };
    let output = run_client(&["run", "two.yaml", "-q"]);
    assert_eq!(output.code, 0, "{}", output.to_snapshot());
    let listed = run_client(&["runs", "list", "--no-headers"]);
    assert_eq!(listed.code, 0, "{}", listed.to_snapshot());
    assert!(listed.out.contains("COMPLETED  demo/two@1"), "{}", listed.out);
    assert!(listed.err.starts_with("no server is running; reading "), "{}", listed.err);
    for args in [
        &["runs", "show", "last"][..],
        &["runs", "events", "last"],
        &["runs", "logs", "last"],
        &["runs", "explain", "last"],
        &["runs", "tail", "last"],
        &["catalog", "get", "demo/two"],
        &["catalog", "history", "demo/two"],
    ] {
        let output = run_client(args);
        assert_eq!(output.code, 0, "{args:?}: {}", output.to_snapshot());
        assert!(!output.out.is_empty(), "{args:?}");
    }
    let unreachable = run_client(&["runs", "list", "--server", "http://127.0.0.1:1"]);
    assert_eq!(unreachable.code, 5, "{}", unreachable.to_snapshot());
    assert!(
        unreachable.err.starts_with("error: cannot reach the server at http://127.0.0.1:1: "),
        "{}",
        unreachable.err
    );
}

/// A run in another process can be inspected while it is active.
#[test]
fn reads_database_during_a_local_run() {
    let dir = TestDir::new("asking_beside");
    dir.write("sleep.yaml", crate::cli::run::sleeping_playbook());
    let set = format!("folder={}", dir.path("").display());
    let process =
        NoetlProcess::start(isolated_command(&dir, &["run", "sleep.yaml", "--set", &set]));
    dir.wait_for_file("pid");
    let mut command = isolated_command(&dir, &["runs", "explain", "last"]);
    command.env("XDG_CONFIG_HOME", dir.path("config"));
    let output: CommandOutput = command.output().unwrap().into();
    assert_eq!(output.code, 0, "{}", output.to_snapshot());
    assert!(output.out.contains("step `wait` is running"), "{}", output.out);
    process.send_interrupt();
    assert_eq!(process.wait_for_exit().0, 130);
}

#[test]
fn doctor_reports_problems() {
    let dir = TestDir::new("asking_doctor");
    let run_client = |args: &[&str]| -> CommandOutput {
        let mut command = isolated_command(&dir, args);
        command.env("XDG_CONFIG_HOME", dir.path("config"));
        command.output().unwrap().into()
    };
    let healthy = run_client(&["doctor", "-o", "jsonl"]);
    for check in [
        "settings", "data directory", "store", "python3", "containers", "server", "port", "clock",
        "limits", "sandbox",
    ] {
        assert!(
            healthy.out.contains(&format!("\"check\":\"{check}\"")),
            "{check}: {}",
            healthy.out
        );
    }
    assert_eq!(healthy.code, 0, "{}", healthy.to_snapshot());
    let unreachable = run_client(&["doctor", "--server", "http://127.0.0.1:1"]);
    assert_eq!(unreachable.code, 1, "{}", unreachable.to_snapshot());
    assert!(unreachable.out.contains("✗ server "), "{}", unreachable.out);
    dir.write("data/noetl.db", "this is not a database, but long enough to be read. ".repeat(40));
    let broken = run_client(&["doctor"]);
    assert_eq!(broken.code, 1, "{}", broken.to_snapshot());
    assert!(broken.out.contains("✗ store "), "{}", broken.out);
}

#[test]
fn manual_pages_are_written() {
    let dir = TestDir::new("asking_man");
    let output = dir.run(&["man", "--dir", "pages"]);
    assert_eq!(output.code, 0, "{}", output.to_snapshot());
    for page in ["noetl.1", "noetl-runs-list.1", "noetl-worker-drain.1", "noetl-catalog-diff.1"] {
        assert!(dir.read(&format!("pages/{page}")).contains(".SH NAME"), "{page}");
    }
}

const HOSTILE_PLAYBOOK: &str = r#"apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: hostile, path: demo/hostile }
workflow:
  - step: start
    tool: { kind: noop, result: "\e]0;title\a\e[2J\e[8m\x9b2J\u202egpj\x7f done" }
"#;

/// No command passes control characters of data to a terminal, in any format.
#[test]
fn control_characters_of_data_are_escaped_on_terminal() {
    let server = TestServer::new("hostile_terminal");
    server.dir.write("hostile.yaml", HOSTILE_PLAYBOOK);
    server.run_ok(&["catalog", "register", "hostile.yaml"]);
    let (exit, text, _) = server.run_on_terminal(&["exec", "demo/hostile", "--wait"], "");
    assert_eq!(exit, CommandExit::Ok, "{text}");
    assert!(text.contains(r"\u001b[2J\u001b[8m\u009b2J\u202egpj\u007f done"), "{text}");
    let run = server.run_ok(&["exec", "demo/hostile"]).trim().to_owned();
    server.run_ok(&["runs", "tail", &run]);
    let views: [&[&str]; 7] = [
        &["runs", "show", &run],
        &["runs", "events", &run],
        &["runs", "logs", &run],
        &["runs", "explain", &run],
        &["runs", "tail", &run],
        &["replay", &run],
        &["catalog", "get", "demo/hostile"],
    ];
    for view in views {
        for format in [&[][..], &["-o", "json"], &["-o", "jsonl"], &["-o", "yaml"]] {
            let (exit, text, _) = server.run_on_terminal(&[view, format].concat(), "");
            if exit == CommandExit::Usage {
                continue;
            }
            let is_control = |c: char| (c.is_control() && !"\n\t".contains(c)) || c == '\u{202e}';
            assert!(!text.contains(is_control), "{view:?} {format:?}: {text:?}");
            // A command that follows a run prints one document per event.
            if format == ["-o", "json"] {
                let documents = serde_json::Deserializer::from_str(&text).into_iter();
                let documents: Result<Vec<serde_json::Value>, _> = documents.collect();
                assert!(!documents.expect(&text).is_empty(), "{view:?}");
            }
        }
    }
}

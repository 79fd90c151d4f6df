//! The commands that ask a server: what they show, piped and on a terminal, and how they end.

use std::fmt::Write as _;
use std::process::Command;

use noetl_cli::{Env, Exit, Io, Stream};

use crate::process::Process;
use crate::run::at_home;
use crate::support::{Folder, Ran, wait_until};

const TWO: &str = "apiVersion: noetl.io/v2
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

const WAITS: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: waits, path: demo/waits }
workflow:
  - step: ask
    tool: { kind: approval, title: Ship it? }
    next: { arcs: [{ step: call }] }
  - step: call
    tool: { kind: wait, signal: go }
";

const FAILS: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: fails, path: demo/fails }
workflow:
  - step: bad
    tool: { kind: shell, command: 'exit 3' }
";

/// A server with a worker, and somebody who asks it.
pub(crate) struct House {
    pub(crate) folder: Folder,
    url: String,
    /// What the server is told, and so is who asks it.
    env: Vec<(&'static str, String)>,
    _dev: Process,
}

impl House {
    pub(crate) fn new(test: &str) -> Self {
        Self::with(test, &[])
    }

    pub(crate) fn with(test: &str, env: &[(&'static str, &str)]) -> Self {
        let folder = Folder::new(test);
        let mut command = at_home(&folder, &["dev", "--port", "0"]);
        command.envs(env.iter().copied());
        let mut dev = Process::start(command);
        let line = dev.says("NoETL listening on http://127.0.0.1:");
        let url = line.split(' ').next_back().unwrap().to_owned();
        dev.says("Stop with Ctrl-C");
        for (name, text) in [
            ("two.yaml", TWO),
            ("waits.yaml", WAITS),
            ("fails.yaml", FAILS),
        ] {
            folder.write(name, text);
        }
        Self {
            folder,
            url,
            env: env
                .iter()
                .map(|(name, value)| (*name, (*value).to_owned()))
                .collect(),
            _dev: dev,
        }
    }

    /// The same for somebody who was told nothing.
    pub(crate) fn without_env(self) -> Self {
        let env = Vec::new();
        Self { env, ..self }
    }

    /// Where the server listens.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// A command line that asks it.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = at_home(&self.folder, args);
        command
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .env("NOETL_SERVER_URL", &self.url);
        command
    }

    pub(crate) fn ask(&self, args: &[&str]) -> Ran {
        self.command(args).output().unwrap().into()
    }

    /// The same, which has to go well; gives what was printed.
    #[track_caller]
    pub(crate) fn get(&self, args: &[&str]) -> String {
        let ran = self.ask(args);
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.shown());
        ran.out
    }

    /// What a person sees on a terminal of 80 columns who types an answer.
    pub(crate) fn on_terminal(&self, args: &[&str], answer: &str) -> (Exit, String, String) {
        let mut input = answer.as_bytes();
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let config = self.folder.path("config").display().to_string();
        let usual = [
            ("NOETL_SERVER_URL", self.url.as_str()),
            ("XDG_CONFIG_HOME", config.as_str()),
        ];
        let told = self.env.iter().map(|(name, value)| (*name, value.as_str()));
        let env: Env = usual.into_iter().chain(told).collect();
        let mut io = Io {
            input: &mut input,
            out: Stream::terminal(&mut out, 80),
            err: Stream::terminal(&mut err, 80),
            env,
        };
        let args = ["noetl", "--color", "never"].iter().chain(args);
        let exit = noetl_cli::run(args.map(Into::into), &mut io);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (exit, text(out), text(err))
    }

    /// Registers a playbook and starts it; gives the run.
    pub(crate) fn started(&self, file: &str, path: &str) -> String {
        self.get(&["catalog", "register", file]);
        self.get(&["exec", path]).trim().to_owned()
    }

    /// Waits until a run waits for a kind of thing.
    pub(crate) fn until_it_waits(&self, run: &str, kind: &str) {
        let wanted = format!("\"kind\": \"{kind}\"");
        wait_until(&wanted, || {
            let explained = self.ask(&["runs", "explain", run, "-o", "json"]);
            explained.out.contains(&wanted)
        });
    }
}

/// What differs from run to run is masked: ids, times, durations, bars; columns are two blanks apart.
pub(crate) fn settled(house: &House, text: &str) -> String {
    let text = text.replace(&house.url, "URL");
    let text: String = text
        .chars()
        .filter(|letter| !"█░▒┄".contains(*letter))
        .collect();
    let mut settled = String::new();
    for line in text.lines() {
        let indent = if line.starts_with(' ') { "  " } else { "" };
        let cells: Vec<String> = line.split("  ").map(str::trim).map(cell).collect();
        let cells: Vec<&str> = cells
            .iter()
            .map(String::as_str)
            .filter(|cell| !cell.is_empty())
            .collect();
        writeln!(settled, "{indent}{}", cells.join("  ")).unwrap();
    }
    settled
}

fn cell(text: &str) -> String {
    let words: Vec<&str> = text.split(' ').collect();
    let mut shown: Vec<String> = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let word = words[at];
        let next = words
            .get(at + 1)
            .map_or("", |next| next.trim_end_matches([',', ';']));
        let bare = word.trim_end_matches([',', ';', ':']);
        let is_number = !bare.is_empty() && bare.chars().all(|l| l.is_ascii_digit() || l == '.');
        if is_number && matches!(next, "ms" | "s" | "min") {
            let rest = &words[at + 1][next.len()..];
            shown.push(format!("TOOK{rest}"));
            at += 2;
            continue;
        }
        let is_id = bare.len() > 12 && bare.chars().all(|l| l.is_ascii_digit());
        let is_time = bare.len() > 18 && bare.contains('T') && bare.ends_with('Z');
        let mask = if is_id {
            "ID"
        } else if is_time {
            "TIME"
        } else {
            bare
        };
        shown.push(word.replacen(bare, mask, 1));
        at += 1;
    }
    // On a machine that is busy, a moment may take minutes and seconds.
    shown.dedup();
    shown.join(" ")
}

/// No line is wider than the terminal.
#[track_caller]
fn fits(text: &str) {
    for line in text.lines() {
        assert!(
            line.chars().count() <= 80,
            "{} columns: {line}",
            line.chars().count()
        );
    }
}

#[test]
fn definitions_are_registered_listed_and_compared() {
    let house = House::new("asking_catalog");
    let shown = |args: &[&str]| settled(&house, &house.ask(args).shown());
    let mut story = String::new();
    let mut tell = |args: &[&str]| {
        writeln!(story, "$ noetl {}\n{}\n", args.join(" "), shown(args)).unwrap();
    };
    tell(&["catalog", "list"]);
    tell(&["catalog", "register", "two.yaml", "--dry-run"]);
    tell(&["catalog", "register", "two.yaml", "waits.yaml"]);
    tell(&["catalog", "register", "two.yaml"]);
    house.folder.write("two.yaml", TWO.replace("world", "moon"));
    tell(&["catalog", "diff", "demo/two", "two.yaml"]);
    tell(&["catalog", "register", "two.yaml", "--no-headers"]);
    tell(&["catalog", "list", "two"]);
    tell(&["catalog", "history", "demo/two"]);
    tell(&["catalog", "diff", "demo/two"]);
    tell(&["catalog", "diff", "demo/two@1", "demo/two@1"]);
    tell(&["catalog", "get", "demo/waits@2"]);
    tell(&["exec", "demo/wait"]);
    house
        .folder
        .write("broken.yaml", TWO.replace("step: each }", "step: eech }"));
    tell(&["catalog", "register", "broken.yaml", "-q"]);
    insta::assert_snapshot!(story);
    assert_eq!(house.get(&["catalog", "get", "demo/two@1"]), TWO);
    let json = house.get(&["catalog", "list", "-o", "jsonl"]);
    assert_eq!(json.lines().count(), 2);
}

#[test]
fn a_run_is_started_followed_and_looked_at() {
    let house = House::new("asking_runs");
    house.get(&["catalog", "register", "two.yaml", "fails.yaml"]);
    let waited = house.ask(&[
        "exec", "demo/two", "--set", "who=Ada", "--wait", "-o", "json",
    ]);
    assert_eq!(waited.code, 0, "{}", waited.shown());
    assert_eq!(waited.out, "{\n  \"who\": \"Ada\"\n}\n");
    assert!(waited.err.contains("✓ each"), "{}", waited.err);
    let failed = house.ask(&["exec", "demo/fails", "--wait", "-q"]);
    assert_eq!((failed.code, &*failed.out), (1, ""), "{}", failed.shown());
    let started = house.get(&["exec", "demo/two@1", "-o", "json", "--label", "team=data"]);
    let started: serde_json::Value = serde_json::from_str(&started).unwrap();
    let id = started["execution_id"].as_str().unwrap().to_owned();
    let tailed = house.ask(&["runs", "tail", &id]);
    assert_eq!(tailed.code, 0, "{}", tailed.shown());
    assert!(
        tailed
            .out
            .lines()
            .last()
            .unwrap()
            .contains("playbook.completed"),
        "{}",
        tailed.out
    );

    let shown = |args: &[&str]| settled(&house, &house.ask(args).shown());
    insta::assert_snapshot!("runs_list", shown(&["runs", "list"]));
    insta::assert_snapshot!(
        "runs_list_failed",
        shown(&["runs", "list", "--status", "failed", "--no-headers"])
    );
    // How many events there are depends on who was faster, the worker or the server.
    let drawn = shown(&["runs", "show", "last"]);
    let drawn: Vec<&str> = drawn
        .lines()
        .filter(|line| !line.starts_with("events "))
        .collect();
    insta::assert_snapshot!("runs_show", drawn.join("\n"));
    insta::assert_snapshot!("runs_logs", shown(&["runs", "logs", "last"]));
    let labelled = house.get(&["runs", "list", "--label", "team=data", "-o", "jsonl"]);
    assert_eq!(labelled.lines().count(), 1);
    assert!(labelled.contains(&id));
}

#[test]
fn runs_are_named_by_parts_of_their_ids() {
    let house = House::new("asking_ids");
    let first = house.started("two.yaml", "demo/two");
    let id = house.get(&["exec", "demo/two"]).trim().to_owned();
    for run in [&first, &id] {
        assert_eq!(house.ask(&["runs", "tail", run]).code, 0);
    }
    // The end of an id is enough, where only one run fits; its beginning fits all of them.
    let end = &id[id.len() - 9..];
    assert!(house.get(&["runs", "show", end]).contains(&id));
    let many = house.ask(&["runs", "show", &id[..2]]);
    assert_eq!(many.code, 2, "{}", many.shown());
    assert!(many.err.contains("fits several runs"), "{}", many.err);
    let none = house.ask(&["runs", "show", "000000000"]);
    assert_eq!(none.code, 3, "{}", none.shown());
    let none = house.ask(&["runs", "events", "7000000000000000000"]);
    assert_eq!(none.code, 3, "{}", none.shown());
    let odd = house.ask(&["runs", "list", "--status", "runing"]);
    assert_eq!(odd.code, 2);
    assert!(odd.err.contains("did you mean running?"), "{}", odd.err);

    let events = house.get(&["runs", "events", &id, "-o", "jsonl"]);
    let last = house.get(&["runs", "events", &id, "-n", "1", "--no-headers"]);
    assert!(last.contains("playbook.completed"), "{last}");
    let seqs = events
        .lines()
        .filter(|line| line.contains("\"seq\":"))
        .count();
    assert_eq!(seqs, events.lines().count());
    let of_step = house.get(&[
        "runs",
        "events",
        &id,
        "--step",
        "each",
        "--type",
        "step.exit",
        "--no-headers",
    ]);
    assert_eq!(of_step.lines().count(), 1, "{of_step}");

    for args in [
        &["runs", "list"][..],
        &["runs", "show", "last"],
        &["runs", "events", "last"],
        &["runs", "explain", "last"],
        &["worker", "list"],
        &["catalog", "list"],
    ] {
        let (exit, out, _) = house.on_terminal(args, "");
        assert_eq!(exit, Exit::Ok, "{args:?}");
        assert!(!out.is_empty(), "{args:?}");
        fits(&out);
    }
}

#[test]
fn a_failure_is_explained_with_its_line() {
    let house = House::new("asking_failure");
    let id = house.started("fails.yaml", "demo/fails");
    house.ask(&["runs", "tail", &id]);
    insta::assert_snapshot!(settled(
        &house,
        &house.ask(&["runs", "explain", &id]).shown()
    ));
    let again = house.ask(&["runs", "rerun", &id, "--wait", "-q"]);
    assert_eq!(again.code, 1, "{}", again.shown());
    let why = house.get(&["runs", "explain", "last", "--why"]);
    assert!(why.contains("playbook.started"), "{why}");
}

#[test]
fn a_run_that_waits_is_explained_and_steered() {
    let house = House::new("asking_steer");
    let id = house.started("waits.yaml", "demo/waits");
    house.until_it_waits(&id, "approval");
    let mut story = String::new();
    let mut tell = |args: &[&str]| {
        let shown = settled(&house, &house.ask(args).shown()).replace(&id, "ID");
        writeln!(
            story,
            "$ noetl {}\n{shown}\n",
            args.join(" ").replace(&id, "ID")
        )
        .unwrap();
    };
    tell(&["runs", "explain", &id]);
    tell(&["runs", "approve"]);
    tell(&["runs", "pause", &id, "--reason", "lunch"]);
    tell(&["runs", "explain", &id]);
    tell(&["runs", "resume", &id]);
    tell(&["runs", "approve", &id, "--comment", "fine"]);
    house.until_it_waits(&id, "signal");
    tell(&["runs", "approve", &id]);
    tell(&["runs", "explain", &id, "-o", "wide"]);
    tell(&["runs", "signal", &id, "go", "--set", "by=me"]);
    house.ask(&["runs", "tail", &id]);
    tell(&["runs", "list", "--no-headers"]);
    tell(&["runs", "cancel", &id, "--yes"]);
    tell(&["runs", "pause", &id]);
    insta::assert_snapshot!(story);
}

#[test]
fn what_cannot_be_undone_is_agreed_to() {
    let house = House::new("asking_cancel");
    let id = house.started("waits.yaml", "demo/waits");
    let other = house.get(&["exec", "demo/waits"]).trim().to_owned();
    house.until_it_waits(&id, "approval");
    house.until_it_waits(&other, "approval");
    let alone = house.ask(&["runs", "cancel", &id]);
    assert_eq!(alone.code, 2, "{}", alone.shown());
    assert!(
        alone.err.contains("agree beforehand with --yes"),
        "{}",
        alone.err
    );
    let (exit, out, err) = house.on_terminal(&["runs", "cancel", &id], "no\n");
    assert_eq!((exit, &*out), (Exit::Failed, ""), "{err}");
    assert!(err.contains("nothing was done"), "{err}");
    let dry = house.ask(&["runs", "cancel", "--all", "--path", "demo/", "--dry-run"]);
    assert!(
        dry.err.ends_with("2 runs would be cancelled\n"),
        "{}",
        dry.err
    );
    let (exit, out, err) = house.on_terminal(&["runs", "cancel", &id], "yes\n");
    assert_eq!(exit, Exit::Ok, "{err}");
    assert_eq!(out, format!("{id} cancelled\n"));
    let (exit, out, err) = house.on_terminal(&["runs", "cancel", "--all"], "yes\n");
    assert_eq!(exit, Exit::Ok, "{err}");
    assert_eq!(out, format!("{other} cancelled\n"));
    let ended = house.ask(&["runs", "resume", &id]);
    assert_eq!(ended.code, 4, "{}", ended.shown());
}

#[test]
fn workers_are_listed_and_sent_away() {
    let folder = Folder::new("asking_workers");
    let mut line = at_home(&folder, &["server", "--port", "0"]);
    line.env("NOETL_DEV", "true");
    let mut server = Process::start(line);
    let line = server.says("NoETL listening on http://127.0.0.1:");
    let url = line.split(' ').next_back().unwrap().to_owned();
    let args = [
        "worker",
        "--server",
        &url,
        "--id",
        "w1",
        "--concurrency",
        "2",
        "--log-format",
        "text",
    ];
    let mut line = at_home(&folder, &args);
    line.env("WORKER_HEARTBEAT_INTERVAL", "1");
    let mut worker = Process::start(line);
    worker.tells("registered");
    let ask = |args: &[&str]| -> Ran {
        let mut command = at_home(&folder, args);
        command
            .env("NOETL_SERVER_URL", &url)
            .env("XDG_CONFIG_HOME", folder.path("config"));
        command.output().unwrap().into()
    };
    let listed = ask(&["worker", "list", "--no-headers"]);
    assert_eq!(listed.code, 0, "{}", listed.shown());
    let cells: Vec<&str> = listed.out.split_whitespace().take(4).collect();
    assert_eq!(cells, ["w1", "active", "shared", "2"]);
    let wrong = ask(&["worker", "drain", "w2", "--yes"]);
    assert_eq!(wrong.code, 3, "{}", wrong.shown());
    let asked = ask(&["worker", "drain", "w1", "--yes"]);
    assert_eq!(
        (asked.code, &*asked.out),
        (0, "w1 draining\n"),
        "{}",
        asked.shown()
    );
    let (code, _, err) = worker.end();
    assert_eq!(code, 0, "{err}");
}

#[test]
fn profiles_name_servers_and_hold_no_secrets() {
    let house = House::new("asking_profiles");
    let ask = |args: &[&str]| -> Ran {
        let mut command = at_home(&house.folder, args);
        command.env("XDG_CONFIG_HOME", house.folder.path("config"));
        command.env("NOETL_DATA_DIR", house.folder.path("elsewhere"));
        command.output().unwrap().into()
    };
    let mut story = String::new();
    let mut tell = |args: &[&str]| {
        let shown = settled(&house, &ask(args).shown());
        let args = args.join(" ").replace(&house.url, "URL");
        writeln!(story, "$ noetl {args}\n{shown}\n").unwrap();
    };
    tell(&["profile", "list"]);
    tell(&["profile", "show"]);
    tell(&["profile", "add", "here", "--server", &house.url]);
    tell(&[
        "profile",
        "add",
        "prod",
        "--server",
        "https://noetl.example.com",
        "--token-env",
        "PROD_TOKEN",
    ]);
    tell(&["profile", "add", "here", "--server", &house.url]);
    tell(&["profile", "add", "x y", "--server", &house.url]);
    tell(&["profile", "add", "odd", "--server", "noetl.example.com"]);
    tell(&["profile", "list"]);
    tell(&["catalog", "list"]);
    tell(&["profile", "use", "prd"]);
    tell(&["profile", "use", "prod"]);
    tell(&["runs", "list"]);
    tell(&["runs", "list", "--profile", "here"]);
    tell(&["profile", "show", "-o", "yaml"]);
    tell(&["profile", "rm", "prod"]);
    tell(&["profile", "rm", "prod", "--yes"]);
    tell(&["profile", "use", "--none"]);
    insta::assert_snapshot!(story);
}

#[test]
fn without_a_server_the_database_of_this_machine_is_read() {
    let folder = Folder::new("asking_file");
    folder.write("two.yaml", TWO);
    let ask = |args: &[&str]| -> Ran {
        let mut command = at_home(&folder, args);
        command.env("XDG_CONFIG_HOME", folder.path("config"));
        command.output().unwrap().into()
    };
    let ran = ask(&["run", "two.yaml", "-q"]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    let listed = ask(&["runs", "list", "--no-headers"]);
    assert_eq!(listed.code, 0, "{}", listed.shown());
    assert!(
        listed.out.contains("COMPLETED  demo/two@1"),
        "{}",
        listed.out
    );
    assert!(
        listed.err.starts_with("no server runs: reading "),
        "{}",
        listed.err
    );
    for args in [
        &["runs", "show", "last"][..],
        &["runs", "events", "last"],
        &["runs", "logs", "last"],
        &["runs", "explain", "last"],
        &["runs", "tail", "last"],
        &["catalog", "get", "demo/two"],
        &["catalog", "history", "demo/two"],
    ] {
        let ran = ask(args);
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.shown());
        assert!(!ran.out.is_empty(), "{args:?}");
    }
    let gone = ask(&["runs", "list", "--server", "http://127.0.0.1:1"]);
    assert_eq!(gone.code, 5, "{}", gone.shown());
    assert!(
        gone.err
            .starts_with("error: the server at http://127.0.0.1:1 cannot be reached: "),
        "{}",
        gone.err
    );
}

/// A run that goes on in another process can be looked at beside it.
#[test]
fn the_database_is_read_beside_the_run_that_writes_it() {
    let folder = Folder::new("asking_beside");
    folder.write("sleep.yaml", crate::run::sleep());
    let set = format!("folder={}", folder.path("").display());
    let process = Process::start(at_home(&folder, &["run", "sleep.yaml", "--set", &set]));
    folder.wait_for("pid");
    let mut command = at_home(&folder, &["runs", "explain", "last"]);
    command.env("XDG_CONFIG_HOME", folder.path("config"));
    let ran: Ran = command.output().unwrap().into();
    assert_eq!(ran.code, 0, "{}", ran.shown());
    assert!(ran.out.contains("step `wait` is at work"), "{}", ran.out);
    process.interrupt();
    assert_eq!(process.end().0, 130);
}

#[test]
fn the_doctor_finds_what_is_amiss() {
    let folder = Folder::new("asking_doctor");
    let ask = |args: &[&str]| -> Ran {
        let mut command = at_home(&folder, args);
        command.env("XDG_CONFIG_HOME", folder.path("config"));
        command.output().unwrap().into()
    };
    let well = ask(&["doctor", "-o", "jsonl"]);
    for check in [
        "settings",
        "data folder",
        "store",
        "python3",
        "containers",
        "server",
        "port",
        "clock",
        "limits",
        "walls",
    ] {
        assert!(
            well.out.contains(&format!("\"check\":\"{check}\"")),
            "{check}: {}",
            well.out
        );
    }
    assert_eq!(well.code, 0, "{}", well.shown());
    let gone = ask(&["doctor", "--server", "http://127.0.0.1:1"]);
    assert_eq!(gone.code, 1, "{}", gone.shown());
    assert!(gone.out.contains("✗ server "), "{}", gone.out);
    folder.write(
        "data/noetl.db",
        "this is no database, but long enough to look at it. ".repeat(40),
    );
    let broken = ask(&["doctor"]);
    assert_eq!(broken.code, 1, "{}", broken.shown());
    assert!(broken.out.contains("✗ store "), "{}", broken.out);
}

#[test]
fn manual_pages_are_written() {
    let folder = Folder::new("asking_man");
    let ran = folder.run(&["man", "--dir", "pages"]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    for page in [
        "noetl.1",
        "noetl-runs-list.1",
        "noetl-worker-drain.1",
        "noetl-catalog-diff.1",
    ] {
        assert!(
            folder.read(&format!("pages/{page}")).contains(".SH NAME"),
            "{page}"
        );
    }
}

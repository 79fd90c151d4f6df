//! Commands that need no server.

use std::fs;

use super::{Shown, cut, place};
use crate::run::at_home;
use crate::support::{CLEAN, CRATE, Folder, Ran};

const FLOW: &str = "apiVersion: noetl.io/v2
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
fn playbooks_as_files() {
    let folder = Folder::new("each_files");
    folder
        .write("flow.yaml", FLOW)
        .write("wrong.yaml", FLOW.replace("step: each }", "step: eech }"));
    let line = |args: &[&str]| at_home(&folder, args);
    let home = place(&folder);
    let masks = [(home.as_str(), "HOME")];
    Shown::new(&line)
        .both(&["run", "flow.yaml", "--set", "who=Ada"])
        .both(&["run", "wrong.yaml"])
        .is("run", &masks);
    Shown::new(&line)
        .both(&["check", "flow.yaml", "wrong.yaml"])
        .both(&["check", "none.yaml"])
        .is("check", &masks);
    Shown::new(&line)
        .both(&["graph", "flow.yaml"])
        .is("graph", &masks);
    Shown::new(&line)
        .both(&["explain", "NP201"])
        .both(&["explain", "NP2011"])
        .is("explain", &masks);
}

#[test]
fn a_log_is_replayed() {
    let folder = Folder::new("each_replay");
    let log = format!("{CRATE}/../testkit/corpus/logs/linear.jsonl");
    folder.write("linear.jsonl", fs::read(log).unwrap());
    let line = |args: &[&str]| at_home(&folder, args);
    Shown::new(&line)
        .both(&["replay", "--log", "linear.jsonl"])
        .both(&["replay", "--log", "linear.jsonl", "--at-seq", "4"])
        .is("replay", &[]);
}

/// What is long is shown by its beginning.
#[test]
fn texts_for_programs() {
    let folder = Folder::new("each_texts");
    let line = |args: &[&str]| at_home(&folder, args);
    for (name, args) in [
        ("schema", &["schema"][..]),
        ("completions", &["completions", "bash"]),
        ("man", &["man"]),
    ] {
        let mut ran = Ran::from(line(args).output().unwrap());
        ran.out = cut(&ran.out, 12);
        let (code, screen) = super::terminal::Terminal::start(line(args), "").end();
        Shown::new(&line)
            .was_piped(args, &ran)
            .was_on_terminal(args, &(code, cut(&screen, 12)))
            .is(name, &[]);
    }
}

#[test]
fn profiles() {
    let folder = Folder::new("each_profiles");
    let line = |args: &[&str]| at_home(&folder, args);
    let show = || Shown::new(&line);
    let list = show().both(&["profile", "list"]);
    let shown = show().both(&["profile", "show"]);
    let add = [
        "profile",
        "add",
        "prod",
        "--server",
        "https://noetl.example.com",
    ];
    let more = [
        "profile",
        "add",
        "here",
        "--server",
        "http://127.0.0.1:8082",
        "--use",
    ];
    show()
        .piped(&add)
        .piped(&add)
        .on_terminal(&more, "")
        .is("profile_add", &[]);
    list.both(&["profile", "list"]).is("profile_list", &[]);
    shown
        .both(&["profile", "show", "prod"])
        .is("profile_show", &[]);
    show()
        .both(&["profile", "use", "prod"])
        .both(&["profile", "use", "prd"])
        .is("profile_use", &[]);
    show()
        .piped(&["profile", "rm", "prod"])
        .on_terminal(&["profile", "rm", "prod"], "no\n")
        .on_terminal(&["profile", "rm", "prod"], "yes\n")
        .is("profile_rm", &[]);
}

#[test]
fn settings() {
    let folder = Folder::new("each_settings");
    folder.write("noetl.toml", "host = '127.0.0.2'\n");
    let line = |args: &[&str]| at_home(&folder, args);
    let args = ["config", "show", "--origin", "--config", "noetl.toml"];
    let mut ran = Ran::from(line(&args).output().unwrap());
    // All of it is in the snapshot of what settings there are.
    ran.out = cut(&ran.out, 8);
    let (code, screen) = super::terminal::Terminal::start(line(&args), "").end();
    let wrong = ["config", "show", "--config", "none.toml"];
    let home = place(&folder);
    Shown::new(&line)
        .was_piped(&args, &ran)
        .was_on_terminal(&args, &(code, cut(&screen, 8)))
        .both(&wrong)
        .is("config_show", &[(&home, "HOME")]);
}

#[test]
fn the_doctor() {
    let folder = Folder::new("each_doctor");
    let line = |args: &[&str]| at_home(&folder, args);
    let checks = |text: &str| -> String {
        // What this machine has is its own; which checks there are is not.
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
    let mut ran = Ran::from(line(&args).output().unwrap());
    ran.out = checks(&ran.out);
    ran.err = String::new();
    let (code, screen) = super::terminal::Terminal::start(line(&args), "").end();
    Shown::new(&line)
        .was_piped(&args, &ran)
        .was_on_terminal(&args, &(code, checks(&screen)))
        .is("doctor", &[]);
}

#[test]
fn the_database() {
    let folder = Folder::new("each_database");
    folder.write("clean.yaml", CLEAN);
    let line = |args: &[&str]| at_home(&folder, args);
    let home = place(&folder);
    let masks = [(home.as_str(), "HOME")];
    let show = || Shown::new(&line);
    let status = show().both(&["db", "status"]);
    let ran = Ran::from(line(&["run", "clean.yaml"]).output().unwrap());
    assert_eq!(ran.code, 0, "{}", ran.shown());
    status.both(&["db", "status"]).is("db_status", &masks);
    show().both(&["db", "migrate"]).is("db_migrate", &masks);
    show().both(&["db", "check"]).is("db_check", &masks);
    show()
        .piped(&["db", "backup", "copy.db"])
        .on_terminal(&["db", "backup", "copy.db"], "")
        .on_terminal(&["db", "backup", "other.db"], "")
        .is("db_backup", &masks);
}

//! `noetl outbox` and `noetl retention` against a server.

use std::process::Command;

use crate::process::Process;
use crate::run::at_home;
use crate::support::{CLEAN, Folder, Ran};

const TOKEN: &str = "sixteen characters and more";

fn with_token(mut command: Command) -> Command {
    command.env("NOETL_INTERNAL_API_TOKEN", TOKEN);
    command
}

fn ran(mut command: Command) -> Ran {
    command.output().unwrap().into()
}

/// A server with an outbox, and its address.
fn server(folder: &Folder) -> (Process, String) {
    let mut process = Process::start(with_token(at_home(folder, &["dev", "--port", "0"])));
    let line = process.says("NoETL listening on http://127.0.0.1:");
    let url = line.split(' ').next_back().unwrap().to_owned();
    (process, url)
}

/// Numbers that differ from run to run, as they are long.
fn masked(ran: &Ran) -> String {
    let shown = ran.shown();
    let words = shown.split_inclusive(|letter: char| !letter.is_ascii_digit());
    words
        .map(|word| {
            let digits = word.trim_end_matches(|letter: char| !letter.is_ascii_digit());
            if digits.len() > 8 {
                word.replacen(digits, "<id>", 1)
            } else {
                word.to_owned()
            }
        })
        .collect()
}

#[test]
fn rows_are_listed_and_nothing_is_dead() {
    let folder = Folder::new("outbox_list");
    folder.write("clean.yaml", CLEAN);
    let (_server, url) = server(&folder);
    let run = ran(with_token(at_home(&folder, &["run", "clean.yaml"])));
    assert_eq!(run.code, 0, "{}", run.err);
    let ask = |args: &[&str]| {
        let args: Vec<&str> = args.iter().copied().chain(["--server", &url]).collect();
        ran(with_token(at_home(&folder, &args)))
    };
    let list = ask(&["outbox", "list", "--limit", "2"]);
    assert_eq!(list.code, 0, "{}", list.err);
    insta::assert_snapshot!("outbox_list", masked(&list).replace(&url, "<url>"));
    let json = ask(&["outbox", "list", "--status", "pending", "-o", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert!(json["rows"].as_array().unwrap().len() > 5, "{json}");
    insta::assert_snapshot!("outbox_dead", ask(&["outbox", "dead"]).shown());
    insta::assert_snapshot!("outbox_replay", ask(&["outbox", "replay", "7"]).shown());
    insta::assert_snapshot!("outbox_discard", ask(&["outbox", "discard", "7"]).shown());
    insta::assert_snapshot!(
        "outbox_discard_yes",
        ask(&["outbox", "discard", "--yes", "7"]).shown()
    );
    let odd = ask(&["outbox", "list", "--status", "odd"]);
    insta::assert_snapshot!("outbox_odd_status", odd.shown());
    let closed = ran(at_home(&folder, &["outbox", "list", "--server", &url]));
    insta::assert_snapshot!("outbox_forbidden", closed.shown());
}

#[test]
fn without_a_server_it_says_what_to_do() {
    let folder = Folder::new("outbox_alone");
    let alone = ran(at_home(
        &folder,
        &["outbox", "list", "--server", "http://127.0.0.1:1"],
    ));
    assert_eq!(alone.code, 5, "{}", alone.err);
    let told = "error: the server at http://127.0.0.1:1 cannot be reached: ";
    assert!(alone.err.starts_with(told), "{}", alone.err);
}

#[test]
fn retention_is_planned_before_it_is_applied() {
    let folder = Folder::new("retention");
    let (_server, url) = server(&folder);
    let ask = |args: &[&str]| {
        let args: Vec<&str> = args.iter().copied().chain(["--server", &url]).collect();
        ran(with_token(at_home(&folder, &args)))
    };
    let plan = ask(&["retention", "plan", "--events", "30"]);
    insta::assert_snapshot!("retention_plan", plan.shown());
    let asked = ask(&["retention", "apply"]);
    insta::assert_snapshot!("retention_apply", asked.shown());
    let done = ask(&["retention", "apply", "--yes"]);
    insta::assert_snapshot!("retention_apply_yes", done.shown());
    let json = ask(&["retention", "plan", "-o", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(json["dry_run"], true);
    let wrong = ask(&["retention", "plan", "--events", "40000"]);
    insta::assert_snapshot!("retention_wrong", wrong.shown());
}

#[test]
fn a_database_is_looked_at_checked_and_copied() {
    let folder = Folder::new("db");
    folder.write("clean.yaml", CLEAN);
    let run = ran(at_home(&folder, &["run", "clean.yaml"]));
    assert_eq!(run.code, 0, "{}", run.err);
    let here = |ran: &Ran| {
        let data = folder.path("data").to_string_lossy().into_owned();
        ran.shown().replace(&data, "<data>")
    };
    let status = ran(at_home(&folder, &["db", "status"]));
    assert!(status.out.contains("sqlite database"), "{}", status.shown());
    assert!(status.out.contains("execution"), "{}", status.shown());
    let checked = ran(at_home(&folder, &["db", "check"]));
    insta::assert_snapshot!("db_check", here(&checked));
    let migrated = ran(at_home(&folder, &["db", "migrate"]));
    assert_eq!(migrated.code, 0, "{}", migrated.err);
    let backup = ran(at_home(&folder, &["db", "backup", "copy.db"]));
    insta::assert_snapshot!("db_backup", here(&backup));
    let again = ran(at_home(&folder, &["db", "backup", "copy.db"]));
    assert_eq!(again.code, 4, "{}", again.shown());
    let copy = ran(at_home(
        &folder,
        &["db", "check", "--store", "sqlite:copy.db"],
    ));
    assert_eq!(copy.code, 0, "{}", copy.shown());
    let (_server, _) = server(&folder);
    // Beside a server all of it works but what changes the tables.
    for args in [
        &["db", "status"][..],
        &["db", "check"],
        &["db", "backup", "beside.db"],
    ] {
        let beside = ran(at_home(&folder, args));
        assert_eq!(beside.code, 0, "{}", beside.shown());
    }
    let copy = ran(at_home(
        &folder,
        &["db", "check", "--store", "sqlite:beside.db"],
    ));
    assert_eq!(copy.code, 0, "{}", copy.shown());
    let held = ran(at_home(&folder, &["db", "migrate"]));
    assert_eq!(held.code, 4, "{}", held.shown());
}

//! `noetl check`

use crate::support::{CLEAN, CRATE, Folder, feed};

/// A warning (an unknown key), then an error (an arc to nowhere).
const FLAWED: &str = "\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: flawed }
workflow:
  - step: start
    tool: { kind: noop }
    dsc: a slip of the pen
    next: { arcs: [{ step: nowhere }] }
";

/// A warning and nothing else.
const DOUBTFUL: &str = "\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: doubtful }
workflow:
  - step: start
    tool: { kind: noop }
    dsc: a slip of the pen
";

/// A step that only this runtime understands.
const SLEEPY: &str = "\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: sleepy }
workflow:
  - step: start
    tool: { kind: sleep, for: 1s }
";

#[test]
fn a_clean_file_is_ok() {
    let folder = Folder::new("check_clean");
    let ran = folder
        .write("clean.yaml", CLEAN)
        .run(&["check", "clean.yaml"]);
    insta::assert_snapshot!(ran.shown(), @r"
    ──── stdout
    ok clean.yaml (playbook 'clean', 1 step)
    ──── stderr
    1 file checked: no problems
    ──── exit 0
    ");
}

#[test]
fn quiet_says_nothing_about_a_clean_file() {
    let folder = Folder::new("check_quiet");
    let ran = folder
        .write("clean.yaml", CLEAN)
        .run(&["check", "-q", "clean.yaml"]);
    insta::assert_snapshot!(ran.shown(), @"──── exit 0");
}

#[test]
fn every_kind_of_document_is_named() {
    let schedule = "apiVersion: noetl.io/v1\nkind: Schedule\nmetadata: { name: nightly }\n\
        spec: { cron: '0 3 * * *', playbook: etl/nightly }\n";
    let subscription = "apiVersion: noetl.io/v1\nkind: Subscription\nmetadata: { name: orders }\n\
        spec: { source: nats, mode: pull, auth: nats_shop, stream: shop, consumer: orders, \
        dispatch: { playbook: etl/orders } }\n";
    let folder = Folder::new("check_kinds");
    let ran = folder
        .write("1.yaml", schedule)
        .write("2.yaml", subscription)
        .write(
            "3.yaml",
            "apiVersion: noetl.io/v1\nkind: Model\nmetadata: { name: forest }\n",
        )
        .run(&["check", "."]);
    insta::assert_snapshot!(ran.out, @r"
    ok 1.yaml (schedule 'nightly')
    ok 2.yaml (subscription 'orders')
    ok 3.yaml (Model, stored unchecked)
    ");
}

#[test]
fn mistakes_are_shown_and_summed_up() {
    let folder = Folder::new("check_flawed");
    let ran = folder
        .write("clean.yaml", CLEAN)
        .write("flawed.yaml", FLAWED)
        .write("more/doubtful.yml", DOUBTFUL)
        .run(&["check", "."]);
    insta::assert_snapshot!(ran.shown());
}

#[test]
fn json_has_every_field() {
    let folder = Folder::new("check_json");
    let ran = folder
        .write("clean.yaml", CLEAN)
        .write("flawed.yaml", FLAWED)
        .write("noise.yaml", [0xC3, 0x28])
        .run(&["check", "--format", "json", "."]);
    assert!(serde_json::from_str::<serde_json::Value>(&ran.out).is_ok());
    insta::assert_snapshot!(ran.shown());
}

#[test]
fn json_lines_are_one_for_each_file() {
    let folder = Folder::new("check_jsonl");
    let ran = folder
        .write("clean.yaml", CLEAN)
        .write("doubtful.yaml", DOUBTFUL)
        .run(&["check", "--format", "jsonl", "."]);
    let files: Vec<serde_json::Value> = ran
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!((ran.code, files.len(), &*ran.err), (0, 2, ""));
    assert_eq!(files[0]["file"], "clean.yaml");
    assert_eq!(files[1]["diagnostics"][0]["code"], "NP010");
}

#[test]
fn warnings_fail_only_where_they_are_told_to() {
    let folder = Folder::new("check_strict");
    folder.write("doubtful.yaml", DOUBTFUL);
    assert_eq!(folder.run(&["check", "doubtful.yaml"]).code, 0);
    assert_eq!(folder.run(&["check", "--strict", "doubtful.yaml"]).code, 1);
    let json = folder.run(&["check", "--strict", "--format", "json", "doubtful.yaml"]);
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(json["files"][0]["ok"], false);
}

#[test]
fn additions_are_noted_on_request_and_never_fail() {
    let folder = Folder::new("check_portable");
    folder.write("sleepy.yaml", SLEEPY);
    assert!(!folder.run(&["check", "sleepy.yaml"]).out.contains("NP020"));
    let ran = folder.run(&["check", "--portable", "--strict", "sleepy.yaml"]);
    insta::assert_snapshot!(ran.shown());
}

#[test]
fn errors_are_the_last_to_be_left_out() {
    let folder = Folder::new("check_max");
    folder.write("flawed.yaml", FLAWED);
    let ran = folder.run(&["check", "--max-diagnostics", "1", "flawed.yaml"]);
    assert!(
        ran.out.contains("NP201") && !ran.out.contains("NP010"),
        "{}",
        ran.out
    );
    insta::assert_snapshot!(ran.err, @r"
    1 file checked: 1 error, 1 warning (1 not shown)
    to learn more: noetl explain NP201
    ");
    assert_eq!(
        folder
            .run(&["check", "--max-diagnostics", "0", "flawed.yaml"])
            .code,
        2
    );
}

#[test]
fn standard_input_is_a_dash() {
    let ran = feed(&["check", "-"], FLAWED.as_bytes());
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("--> <stdin>:8:28"), "{}", ran.out);
}

#[test]
fn directories_are_searched_in_order_and_with_care() {
    let folder = Folder::new("check_search");
    folder
        .write("b.yaml", CLEAN)
        .write("a/z.yml", CLEAN)
        .write("a/y.txt", FLAWED)
        .write("c/d/e.yaml", CLEAN)
        .write(".hidden/flawed.yaml", FLAWED)
        .write("target/flawed.yaml", FLAWED)
        .write("node_modules/flawed.yaml", FLAWED);
    // The same file twice is checked once.
    let ran = folder.run(&["check", ".", "b.yaml", "a"]);
    let files: Vec<&str> = ran
        .out
        .lines()
        .filter_map(|line| line.split(' ').nth(1))
        .collect();
    assert_eq!(
        (files.as_slice(), ran.code),
        (&["a/z.yml", "b.yaml", "c/d/e.yaml"][..], 0)
    );
    // What is named outright is checked whatever it is called.
    assert_eq!(folder.run(&["check", "a/y.txt"]).code, 1);
    assert_eq!(folder.run(&["check", ".hidden/flawed.yaml"]).code, 1);
}

#[cfg(unix)]
#[test]
fn links_lead_to_files_but_never_in_circles() {
    use std::os::unix::fs::symlink;

    let folder = Folder::new("check_links");
    folder
        .write("real/..data/linked.yaml", CLEAN)
        .write("outside/flawed.yaml", FLAWED);
    symlink("..data/linked.yaml", folder.path("real/linked.yaml")).unwrap();
    symlink("..", folder.path("real/up")).unwrap();
    symlink("nowhere", folder.path("real/dangling.yaml")).unwrap();
    let ran = folder.run(&["check", "real"]);
    insta::assert_snapshot!(ran.out, @"ok real/linked.yaml (playbook 'clean', 1 step)");
    assert_eq!(ran.code, 0);
}

#[test]
fn what_cannot_be_read_does_not_stop_the_rest() {
    let utf16: Vec<u8> = "\u{feff}kind"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let folder = Folder::new("check_unreadable");
    let ran = folder
        .write("clean.yaml", CLEAN)
        .write("noise.yaml", [b'a', 0xC3, 0x28])
        .write("wide.yaml", utf16)
        .run(&["check", "clean.yaml/inside.yaml", "."]);
    insta::assert_snapshot!(ran.shown(), @r"
    ──── stdout
    ok clean.yaml (playbook 'clean', 1 step)
    ──── stderr
    error: cannot read 'clean.yaml/inside.yaml': not a directory
      help: a part of the path is a file
    error: 'noise.yaml' is not UTF-8 text: byte 1 cannot be read
      help: save it as UTF-8
    error: 'wide.yaml' is not UTF-8 text: byte 0 cannot be read
      help: it looks like UTF-16; save it as UTF-8
    1 file checked: no problems, 3 not read
    ──── exit 1
    ");
}

#[test]
fn a_missing_path_has_its_own_exit_code() {
    let folder = Folder::new("check_missing");
    let ran = folder
        .write("clean.yaml", CLEAN)
        .run(&["check", "clena.yaml", "clean.yaml"]);
    insta::assert_snapshot!(ran.shown(), @r"
    ──── stdout
    ok clean.yaml (playbook 'clean', 1 step)
    ──── stderr
    error: cannot find 'clena.yaml'
      help: check the spelling and the current directory
    1 file checked: no problems, 1 not read
    ──── exit 3
    ");
    // Mistakes weigh more.
    folder.write("flawed.yaml", FLAWED);
    assert_eq!(folder.run(&["check", "clena.yaml", "flawed.yaml"]).code, 1);
}

#[test]
fn a_directory_without_documents_is_not_a_success() {
    let ran = Folder::new("check_empty").run(&["check", "."]);
    insta::assert_snapshot!(ran.shown(), @r"
    ──── stderr
    error: no *.yaml or *.yml file in '.'
      help: name a file, or a directory with playbooks
    ──── exit 3
    ");
}

#[test]
fn a_directory_with_too_many_documents_is_refused() {
    let folder = Folder::new("check_too_many");
    for number in 0..=10_000 {
        folder.write(&format!("{number}.yaml"), "");
    }
    let ran = folder.run(&["check", "."]);
    insta::assert_snapshot!(ran.shown(), @r"
    ──── stderr
    error: '.' holds more than 10000 YAML files
      help: name the directories inside it one by one
    0 files checked, 1 not read
    ──── exit 1
    ");
}

#[test]
fn a_file_that_is_too_long_is_read_no_further() {
    // The cut goes through the middle of a character, which is not what is wrong with it.
    let folder = Folder::new("check_too_long");
    let ran = folder
        .write("long.yaml", "#é".repeat(700_000))
        .run(&["check", "long.yaml"]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.starts_with("error[NP007]"), "{}", ran.out);
}

#[test]
fn names_of_files_cannot_play_with_the_terminal() {
    let folder = Folder::new("check_names");
    let ran = folder.run(&["check", "\u{1b}[31mred.yaml"]);
    assert!(ran.err.contains("'\\u{1b}[31mred.yaml'"), "{}", ran.err);
}

#[test]
fn the_examples_are_flawless() {
    let examples = format!("{CRATE}/../../examples");
    let ran = Folder::new("check_examples").run(&["check", "--strict", &examples]);
    assert_eq!(ran.code, 0, "{}", ran.out);
}

//! `noetl check`

use crate::cli::support::{CLEAN_PLAYBOOK, CRATE_DIR, TestDir, run_with_stdin};

/// A warning (an unknown key), then an error (an arc to an unknown step).
const PLAYBOOK_WITH_ERROR: &str = "\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: flawed }
workflow:
  - step: start
    tool: { kind: noop }
    owner: data team
    next: { arcs: [{ step: nowhere }] }
";

const PLAYBOOK_WITH_WARNING: &str = "\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: doubtful }
workflow:
  - step: start
    tool: { kind: noop }
    owner: data team
";

/// A step that only this runtime supports.
const PLAYBOOK_WITH_ADDITION: &str = "\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: sleepy }
workflow:
  - step: start
    tool: { kind: sleep, for: 1s }
";

#[test]
fn clean_file_is_ok() {
    let dir = TestDir::new("check_clean");
    let output = dir.write("clean.yaml", CLEAN_PLAYBOOK).run(&["check", "clean.yaml"]);
    insta::assert_snapshot!(output.to_snapshot(), @r"
    ──── stdout
    ok clean.yaml (playbook 'clean', 1 step)
    ──── stderr
    1 file checked: no problems
    ──── exit 0
    ");
}

#[test]
fn quiet_omits_clean_files() {
    let dir = TestDir::new("check_quiet");
    let output = dir.write("clean.yaml", CLEAN_PLAYBOOK).run(&["check", "-q", "clean.yaml"]);
    insta::assert_snapshot!(output.to_snapshot(), @"──── exit 0");
}

#[test]
fn every_kind_of_document_is_named() {
    let schedule = "apiVersion: noetl.io/v1\nkind: Schedule\nmetadata: { name: nightly }\n\
        spec: { cron: '0 3 * * *', playbook: etl/nightly }\n";
    let dir = TestDir::new("check_kinds");
    let output = dir
        .write("1.yaml", schedule)
        .write("2.yaml", "apiVersion: noetl.io/v1\nkind: Model\nmetadata: { name: forest }\n")
        .run(&["check", "."]);
    insta::assert_snapshot!(output.to_snapshot());
}

#[test]
fn mistakes_are_shown_and_counted() {
    let dir = TestDir::new("check_flawed");
    let output = dir
        .write("clean.yaml", CLEAN_PLAYBOOK)
        .write("flawed.yaml", PLAYBOOK_WITH_ERROR)
        .write("more/doubtful.yml", PLAYBOOK_WITH_WARNING)
        .run(&["check", "."]);
    insta::assert_snapshot!(output.to_snapshot());
}

#[test]
fn json_has_every_field() {
    let dir = TestDir::new("check_json");
    let output = dir
        .write("clean.yaml", CLEAN_PLAYBOOK)
        .write("flawed.yaml", PLAYBOOK_WITH_ERROR)
        .write("noise.yaml", [0xC3, 0x28])
        .run(&["check", "--format", "json", "."]);
    assert!(serde_json::from_str::<serde_json::Value>(&output.out).is_ok());
    insta::assert_snapshot!(output.to_snapshot());
}

#[test]
fn jsonl_has_one_line_per_file() {
    let dir = TestDir::new("check_jsonl");
    let output = dir
        .write("clean.yaml", CLEAN_PLAYBOOK)
        .write("doubtful.yaml", PLAYBOOK_WITH_WARNING)
        .run(&["check", "--format", "jsonl", "."]);
    let files: Vec<serde_json::Value> =
        output.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((output.code, files.len(), &*output.err), (0, 2, ""));
    assert_eq!(files[0]["file"], "clean.yaml");
    assert_eq!(files[1]["diagnostics"][0]["code"], "NP010");
}

#[test]
fn warnings_fail_only_with_strict() {
    let dir = TestDir::new("check_strict");
    dir.write("doubtful.yaml", PLAYBOOK_WITH_WARNING);
    assert_eq!(dir.run(&["check", "doubtful.yaml"]).code, 0);
    assert_eq!(dir.run(&["check", "--strict", "doubtful.yaml"]).code, 1);
    let json = dir.run(&["check", "--strict", "--format", "json", "doubtful.yaml"]);
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(json["files"][0]["ok"], false);
}

#[test]
fn portable_notes_additions_without_failing() {
    let dir = TestDir::new("check_portable");
    dir.write("sleepy.yaml", PLAYBOOK_WITH_ADDITION);
    assert!(!dir.run(&["check", "sleepy.yaml"]).out.contains("NP020"));
    let output = dir.run(&["check", "--portable", "--strict", "sleepy.yaml"]);
    insta::assert_snapshot!(output.to_snapshot());
}

#[test]
fn errors_are_shown_before_warnings() {
    let dir = TestDir::new("check_max");
    dir.write("flawed.yaml", PLAYBOOK_WITH_ERROR);
    let output = dir.run(&["check", "--max-diagnostics", "1", "flawed.yaml"]);
    assert!(output.out.contains("NP201") && !output.out.contains("NP010"), "{}", output.out);
    insta::assert_snapshot!(output.err, @r"
    1 file checked: 1 error, 1 warning (1 not shown)
    see: noetl explain NP201
    ");
    assert_eq!(dir.run(&["check", "--max-diagnostics", "0", "flawed.yaml"]).code, 2);
}

#[test]
fn dash_reads_standard_input() {
    let output = run_with_stdin(&["check", "-"], PLAYBOOK_WITH_ERROR.as_bytes());
    assert_eq!(output.code, 1);
    assert!(output.out.contains("--> <stdin>:8:28"), "{}", output.out);
}

#[test]
fn directories_are_searched_in_order() {
    let dir = TestDir::new("check_search");
    dir.write("b.yaml", CLEAN_PLAYBOOK)
        .write("a/z.yml", CLEAN_PLAYBOOK)
        .write("a/y.txt", PLAYBOOK_WITH_ERROR)
        .write("c/d/e.yaml", CLEAN_PLAYBOOK)
        .write(".hidden/flawed.yaml", PLAYBOOK_WITH_ERROR)
        .write("target/flawed.yaml", PLAYBOOK_WITH_ERROR)
        .write("node_modules/flawed.yaml", PLAYBOOK_WITH_ERROR);
    // The same file twice is checked once.
    let output = dir.run(&["check", ".", "b.yaml", "a"]);
    let files: Vec<&str> = output.out.lines().filter_map(|line| line.split(' ').nth(1)).collect();
    assert_eq!((files.as_slice(), output.code), (&["a/z.yml", "b.yaml", "c/d/e.yaml"][..], 0));
    // A file that is named explicitly is checked for any name.
    assert_eq!(dir.run(&["check", "a/y.txt"]).code, 1);
    assert_eq!(dir.run(&["check", ".hidden/flawed.yaml"]).code, 1);
}

#[cfg(unix)]
#[test]
fn symlinks_are_followed_without_cycles() {
    use std::os::unix::fs::symlink;

    let dir = TestDir::new("check_links");
    dir.write("real/..data/linked.yaml", CLEAN_PLAYBOOK)
        .write("outside/flawed.yaml", PLAYBOOK_WITH_ERROR);
    symlink("..data/linked.yaml", dir.path("real/linked.yaml")).unwrap();
    symlink("..", dir.path("real/up")).unwrap();
    symlink("nowhere", dir.path("real/dangling.yaml")).unwrap();
    let output = dir.run(&["check", "real"]);
    insta::assert_snapshot!(output.out, @"ok real/linked.yaml (playbook 'clean', 1 step)");
    assert_eq!(output.code, 0);
}

#[test]
fn unreadable_files_do_not_stop_the_rest() {
    let utf16: Vec<u8> = "\u{feff}kind".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let dir = TestDir::new("check_unreadable");
    let output = dir
        .write("clean.yaml", CLEAN_PLAYBOOK)
        .write("noise.yaml", [b'a', 0xC3, 0x28])
        .write("wide.yaml", utf16)
        .run(&["check", "clean.yaml/inside.yaml", "."]);
    insta::assert_snapshot!(output.to_snapshot(), @r"
    ──── stdout
    ok clean.yaml (playbook 'clean', 1 step)
    ──── stderr
    error: cannot read 'clean.yaml/inside.yaml': not a directory
      help: part of the path is a file
    error: 'noise.yaml' is not UTF-8 text: invalid byte at offset 1
      help: save it as UTF-8
    error: 'wide.yaml' is not UTF-8 text: invalid byte at offset 0
      help: it looks like UTF-16; save it as UTF-8
    1 file checked: no problems, 3 not read
    ──── exit 1
    ");
}

#[test]
fn missing_path_has_its_exit_code() {
    let dir = TestDir::new("check_missing");
    let output =
        dir.write("clean.yaml", CLEAN_PLAYBOOK).run(&["check", "clena.yaml", "clean.yaml"]);
    insta::assert_snapshot!(output.to_snapshot(), @r"
    ──── stdout
    ok clean.yaml (playbook 'clean', 1 step)
    ──── stderr
    error: cannot find 'clena.yaml'
      help: check the spelling and the current directory
    1 file checked: no problems, 1 not read
    ──── exit 3
    ");
    // Diagnostics determine the exit code before missing paths.
    dir.write("flawed.yaml", PLAYBOOK_WITH_ERROR);
    assert_eq!(dir.run(&["check", "clena.yaml", "flawed.yaml"]).code, 1);
}

#[test]
fn empty_directory_fails() {
    let output = TestDir::new("check_empty").run(&["check", "."]);
    insta::assert_snapshot!(output.to_snapshot(), @r"
    ──── stderr
    error: no *.yaml or *.yml file in '.'
      help: specify a file, or a directory with playbooks
    ──── exit 3
    ");
}

#[test]
fn rejects_directory_with_too_many_files() {
    let dir = TestDir::new("check_too_many");
    for number in 0..=10_000 {
        dir.write(&format!("{number}.yaml"), "");
    }
    let output = dir.run(&["check", "."]);
    insta::assert_snapshot!(output.to_snapshot(), @r"
    ──── stderr
    error: '.' contains more than 10000 YAML files
      help: specify its subdirectories one by one
    0 files checked, 1 not read
    ──── exit 1
    ");
}

#[test]
fn oversized_file_is_rejected() {
    // The size limit splits a character, which must not be the reported error.
    let dir = TestDir::new("check_too_long");
    let output = dir.write("long.yaml", "#é".repeat(700_000)).run(&["check", "long.yaml"]);
    assert_eq!(output.code, 1);
    assert!(output.out.starts_with("error[NP007]"), "{}", output.out);
}

#[test]
fn file_names_are_escaped() {
    let dir = TestDir::new("check_names");
    let output = dir.run(&["check", "\u{1b}[31mred.yaml"]);
    assert!(output.err.contains("'\\u{1b}[31mred.yaml'"), "{}", output.err);
}

#[test]
fn examples_pass_strict_check() {
    let examples = format!("{CRATE_DIR}/../../examples");
    let output = TestDir::new("check_examples").run(&["check", "--strict", &examples]);
    assert_eq!(output.code, 0, "{}", output.out);
}

#[test]
fn playbooks_of_a_directory_may_start_each_other() {
    let parent = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: parent }
workflow:
  - step: known
    tool: { kind: playbook, path: /clean }
    next: { arcs: [{ step: unknown }] }
  - step: unknown
    tool: { kind: playbook, path: claen }
";
    let dir = TestDir::new("check_references");
    dir.write("flows/parent.yaml", parent);
    dir.write("flows/clean.yaml", CLEAN_PLAYBOOK);
    let output = dir.run(&["check", "flows"]);
    insta::assert_snapshot!(output.to_snapshot(), @r"
    ──── stdout
    ok flows/clean.yaml (playbook 'clean', 1 step)
    warning[NP706]: playbook 'claen' is not in the catalog
     --> flows/parent.yaml:9:35
      |
    9 |     tool: { kind: playbook, path: claen }
      |                                   ^^^^^
      |
    help: did you mean 'clean'?

    ──── stderr
    2 files checked: 1 warning
    see: noetl explain NP706
    ──── exit 0
    ");
    let output = dir.run(&["check", "flows/parent.yaml"]);
    assert!(!output.out.contains("NP706"), "{}", output.out);
}

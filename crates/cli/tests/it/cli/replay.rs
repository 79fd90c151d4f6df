//! `noetl replay` from a log file, from a local database, and from a server.

use std::fs;

use crate::cli::run::isolated_command;
use crate::cli::serve::start_listening;
use crate::cli::support::{CRATE_DIR, CommandOutput, TestDir, run_noetl, run_with_stdin};

fn corpus_log_path(name: &str) -> String {
    format!("{CRATE_DIR}/../testkit/corpus/logs/{name}.jsonl")
}

fn replay_log(name: &str, flags: &[&str]) -> CommandOutput {
    run_noetl(&[&["replay", "--log", &corpus_log_path(name)], flags].concat())
}

#[test]
fn log_as_text() {
    let outputs = ["parallel_loop", "classic_stages_and_frames", "classic_business_objects"]
        .map(|name| replay_log(name, &[]).to_snapshot());
    insta::assert_snapshot!(outputs.join("\n\n"));
}

#[test]
fn log_at_position() {
    let outputs = [
        replay_log("classic_underscores", &["--at-seq", "4"]),
        replay_log("classic_underscores", &["--at-seq", "0"]),
        replay_log("classic_underscores", &["--at-time", "2026-03-01T10:00:00Z"]),
        replay_log("classic_out_of_order", &["--at-event", "540431955200000008"]),
        replay_log("classic_without_types", &["--projection", "execution"]),
    ];
    insta::assert_snapshot!(outputs.map(|output| output.to_snapshot()).join("\n\n"));
}

#[test]
fn log_from_standard_input() {
    let text = fs::read(corpus_log_path("linear")).unwrap();
    let output = run_with_stdin(&["replay", "--log", "-", "-o", "json"], &text);
    assert_eq!((output.code, &*output.err), (0, ""));
    assert_eq!(output.out, replay_log("linear", &["-o", "json"]).out);
    assert!(output.out.contains("\"projection_checksums\""), "{}", output.out);
}

#[test]
fn invalid_replays_are_reported() {
    let dir = TestDir::new("replay_what_cannot");
    dir.write("gap.jsonl", "{\"execution_id\":9,\"event_id\":5,\"seq\":2}\n")
        .write("bad.jsonl", "\n{\"execution_id\":9,\"event_id\":5,\"status\":7}\n")
        .write("empty.jsonl", "");
    let invocations: [&[&str]; 8] = [
        &["replay"],
        &["replay", "--log", "gap.jsonl"],
        &["replay", "--log", "bad.jsonl"],
        &["replay", "--log", "empty.jsonl"],
        &["replay", "--log", "none.jsonl"],
        &["replay", "7", "--store", "none.db"],
        &["replay", "7", "--at-seq", "1", "--at-event", "2"],
        &["replay", "--log", "gap.jsonl", "--projection", "steps"],
    ];
    let outputs: Vec<String> = invocations
        .iter()
        .map(|args| {
            let output: CommandOutput = isolated_command(&dir, args).output().unwrap().into();
            format!("{args:?}\n{}", output.to_snapshot())
        })
        .collect();
    insta::assert_snapshot!(outputs.join("\n\n"));
}

/// Returns the checksum of a JSON response.
fn parse_checksum(response: &str) -> String {
    let (_, rest) = response.split_once("\"checksum\"").unwrap();
    let (_, rest) = rest.split_once("\"value\": \"").unwrap();
    rest[..64].to_owned()
}

#[track_caller]
fn assert_same_checksum(output: &CommandOutput, expected: &CommandOutput) {
    assert_eq!(parse_checksum(&output.out), parse_checksum(&expected.out));
}

/// A run of `noetl run` is replayed from its database file, and from a server on that file.
#[test]
fn database_and_server_replay_agree() {
    let dir = TestDir::new("replay_a_run");
    let example = format!("{CRATE_DIR}/../../examples/hello.yaml");
    let output: CommandOutput = isolated_command(&dir, &["run", &example]).output().unwrap().into();
    assert_eq!(output.code, 0, "{}", output.to_snapshot());
    let is_id = |word: &&str| word.len() > 15 && word.bytes().all(|byte| byte.is_ascii_digit());
    let id = output.err.split(|c: char| !c.is_ascii_digit()).find(is_id).unwrap().to_owned();
    let default: CommandOutput =
        isolated_command(&dir, &["replay", &id, "-o", "json"]).output().unwrap().into();
    assert_eq!((default.code, &*default.err), (0, ""), "{}", default.to_snapshot());
    assert!(default.out.contains("\"COMPLETED\""), "{}", default.out);
    let file = dir.path("data/noetl.db").display().to_string();
    let from_file = dir.run(&["replay", &id, "--store", &file, "-o", "json"]);
    assert_eq!(from_file.out, default.out);
    for run in ["last", &id[4..]] {
        let by_name = dir.run(&["replay", run, "--store", &file, "-o", "json"]);
        assert_eq!(by_name.out, default.out, "{run}: {}", by_name.to_snapshot());
    }
    let text = dir.run(&["replay", &id, "--store", &file]);
    assert!(text.out.starts_with(&format!("execution {id}  COMPLETED")), "{}", text.out);

    let (server, url) = start_listening(&dir, &["dev", "--port", "0"]);
    let from_server = dir.run(&["replay", &id, "--server", &url, "-o", "json"]);
    assert_eq!(from_server.code, 0, "{}", from_server.to_snapshot());
    assert_same_checksum(&from_server, &default);
    let last = dir.run(&["replay", "last", "--server", &url, "-o", "json"]);
    assert_same_checksum(&last, &default);
    let unknown = dir.run(&["replay", "77", "--server", &url]);
    assert_eq!(unknown.code, 3, "{}", unknown.to_snapshot());
    // A profile uses only the token that it names, not the token of the environment.
    let run_with_token = |args: &[&str], token: Option<&str>| -> CommandOutput {
        let mut command = isolated_command(&dir, args);
        command.envs(token.map(|token| ("NOETL_TOKEN", token)));
        command.output().unwrap().into()
    };
    let added = run_with_token(&["profile", "add", "here", "--server", &url], None);
    assert_eq!(added.code, 0, "{}", added.to_snapshot());
    let by_profile = ["replay", &id, "--profile", "here", "-o", "json"];
    for token in [None, Some("noetl_wrong_token")] {
        let from_server = run_with_token(&by_profile, token);
        assert_same_checksum(&from_server, &default);
    }
    let by_address = ["replay", &id, "--server", &url, "-o", "json"];
    let wrong = run_with_token(&by_address, Some("noetl_wrong_token"));
    assert!(wrong.err.contains("token"), "{}", wrong.to_snapshot());
    assert_ne!(wrong.code, 0);
    // The file can be read while the server uses it.
    let while_serving = dir.run(&["replay", &id, "--store", &file, "-o", "json"]);
    assert_same_checksum(&while_serving, &default);
    server.send_interrupt();
    let (code, _, err) = server.wait_for_exit();
    assert_eq!(code, 0, "{err}");
}

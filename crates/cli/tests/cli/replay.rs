//! `noetl replay`: from a file with events, from the database of a run, from a server.

use std::fs;

use crate::run::at_home;
use crate::serve::listening;
use crate::support::{CRATE, Folder, Ran, feed, run};

fn corpus(name: &str) -> String {
    format!("{CRATE}/../testkit/corpus/logs/{name}.jsonl")
}

fn of_log(name: &str, more: &[&str]) -> Ran {
    run(&[&["replay", "--log", &corpus(name)], more].concat())
}

#[test]
fn a_log_for_people() {
    let shown = [
        "parallel_loop",
        "classic_stages_and_frames",
        "classic_business_objects",
    ]
    .map(|name| of_log(name, &[]).shown());
    insta::assert_snapshot!(shown.join("\n\n"));
}

#[test]
fn a_log_as_of_a_moment() {
    let shown = [
        of_log("classic_underscores", &["--at-seq", "4"]),
        of_log("classic_underscores", &["--at-seq", "0"]),
        of_log(
            "classic_underscores",
            &["--at-time", "2026-03-01T10:00:00Z"],
        ),
        of_log(
            "classic_out_of_order",
            &["--at-event", "540431955200000008"],
        ),
        of_log("classic_without_types", &["--projection", "execution"]),
    ];
    insta::assert_snapshot!(shown.map(|ran| ran.shown()).join("\n\n"));
}

#[test]
fn the_same_from_standard_input() {
    let text = fs::read(corpus("linear")).unwrap();
    let fed = feed(&["replay", "--log", "-", "-o", "json"], &text);
    assert_eq!((fed.code, &*fed.err), (0, ""));
    assert_eq!(fed.out, of_log("linear", &["-o", "json"]).out);
    assert!(fed.out.contains("\"projection_checksums\""), "{}", fed.out);
}

#[test]
fn what_cannot_be_replayed_says_why() {
    let folder = Folder::new("replay_what_cannot");
    folder
        .write(
            "gap.jsonl",
            "{\"execution_id\":9,\"event_id\":5,\"seq\":2}\n",
        )
        .write(
            "bad.jsonl",
            "\n{\"execution_id\":9,\"event_id\":5,\"status\":7}\n",
        )
        .write("empty.jsonl", "");
    let tries: [&[&str]; 8] = [
        &["replay"],
        &["replay", "--log", "gap.jsonl"],
        &["replay", "--log", "bad.jsonl"],
        &["replay", "--log", "empty.jsonl"],
        &["replay", "--log", "none.jsonl"],
        &["replay", "7", "--store", "none.db"],
        &["replay", "7", "--at-seq", "1", "--at-event", "2"],
        &["replay", "--log", "gap.jsonl", "--projection", "steps"],
    ];
    let shown: Vec<String> = tries
        .iter()
        .map(|args| {
            let ran: Ran = at_home(&folder, args).output().unwrap().into();
            format!("{args:?}\n{}", ran.shown())
        })
        .collect();
    insta::assert_snapshot!(shown.join("\n\n"));
}

/// The checksum that an answer in JSON tells.
fn checksum(answer: &str) -> String {
    let (_, rest) = answer.split_once("\"checksum\"").unwrap();
    let (_, rest) = rest.split_once("\"value\": \"").unwrap();
    rest[..64].to_owned()
}

/// A run that `noetl run` left is replayed from its file, and the same from a server on that file.
#[test]
fn a_run_from_its_database_and_from_a_server() {
    let folder = Folder::new("replay_a_run");
    let example = format!("{CRATE}/../../examples/hello.yaml");
    let ran: Ran = at_home(&folder, &["run", &example])
        .output()
        .unwrap()
        .into();
    assert_eq!(ran.code, 0, "{}", ran.shown());
    let digits = |word: &&str| word.len() > 15 && word.bytes().all(|it| it.is_ascii_digit());
    let id = ran
        .err
        .split(|letter: char| !letter.is_ascii_digit())
        .find(digits)
        .unwrap()
        .to_owned();
    let usual: Ran = at_home(&folder, &["replay", &id, "-o", "json"])
        .output()
        .unwrap()
        .into();
    assert_eq!((usual.code, &*usual.err), (0, ""), "{}", usual.shown());
    assert!(usual.out.contains("\"COMPLETED\""), "{}", usual.out);
    let file = folder.path("data/noetl.db").display().to_string();
    let named = folder.run(&["replay", &id, "--store", &file, "-o", "json"]);
    assert_eq!(named.out, usual.out);
    for run in ["last", &id[4..]] {
        let found = folder.run(&["replay", run, "--store", &file, "-o", "json"]);
        assert_eq!(found.out, usual.out, "{run}: {}", found.shown());
    }
    let people = folder.run(&["replay", &id, "--store", &file]);
    assert!(
        people
            .out
            .starts_with(&format!("execution {id}  COMPLETED")),
        "{}",
        people.out
    );

    let (server, url) = listening(&folder, &["dev", "--port", "0"]);
    let there = folder.run(&["replay", &id, "--server", &url, "-o", "json"]);
    assert_eq!(there.code, 0, "{}", there.shown());
    assert_eq!(checksum(&there.out), checksum(&usual.out));
    let last = folder.run(&["replay", "last", "--server", &url, "-o", "json"]);
    assert_eq!(checksum(&last.out), checksum(&usual.out));
    let unknown = folder.run(&["replay", "77", "--server", &url]);
    assert_eq!(unknown.code, 3, "{}", unknown.shown());
    // By a profile, which is shown the token that it names: that of the environment is for others.
    let asked = |args: &[&str], token: Option<&str>| -> Ran {
        let mut command = at_home(&folder, args);
        command.envs(token.map(|token| ("NOETL_TOKEN", token)));
        command.output().unwrap().into()
    };
    let added = asked(&["profile", "add", "here", "--server", &url], None);
    assert_eq!(added.code, 0, "{}", added.shown());
    let by_profile = ["replay", &id, "--profile", "here", "-o", "json"];
    for token in [None, Some("noetl_wrong_token")] {
        let there = asked(&by_profile, token);
        assert_eq!(checksum(&there.out), checksum(&usual.out));
    }
    let by_address = ["replay", &id, "--server", &url, "-o", "json"];
    let wrong = asked(&by_address, Some("noetl_wrong_token"));
    assert!(wrong.err.contains("token"), "{}", wrong.shown());
    assert_ne!(wrong.code, 0);
    // The file is still read beside the server that has it.
    let beside = folder.run(&["replay", &id, "--store", &file, "-o", "json"]);
    assert_eq!(checksum(&beside.out), checksum(&usual.out));
    server.interrupt();
    let (code, _, err) = server.end();
    assert_eq!(code, 0, "{err}");
}

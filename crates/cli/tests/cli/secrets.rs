//! A secret goes through tools, errors and retries, and is found nowhere.

use std::fmt::Write as _;
use std::fs;

use noetl_cli::Exit;

use crate::asking::{House, settled};

const CANARY: &str = "canary-sings-8151";
/// The same in base64, as a shell makes it.
const PACKED: &str = "Y2FuYXJ5LXNpbmdzLTgxNTE";

const CARELESS: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: careless, path: demo/careless }
keychain:
  - { name: api, kind: bearer, auth: api_main }
workflow:
  - step: tells
    tool:
      kind: shell
      command: 'printf %s {{ keychain.api.token }}; printf %s {{ keychain.api.token }} | base64'
      set: { ctx.kept: '{{ keychain.api.token }}' }
    next: { arcs: [{ step: makes }] }
  - step: makes
    tool: { kind: noop, result: { loud: '{{ keychain.api.token | upper }}' } }
    next: { arcs: [{ step: fails }] }
  - step: fails
    tool:
      kind: python
      input: { token: '{{ keychain.api.token }}' }
      code: 'raise ValueError(f\"cannot log in with {token}\")'
      spec: { policy: { rules: [{ when: '{{ output.status == \"error\" }}', then: { do: retry, attempts: 2, delay: 0.01 } }] } }
    next: { arcs: [{ step: ends, when: '{{ event.name == \"call.error\" }}' }] }
  - step: ends
    tool: { kind: noop, result: '{{ ctx.kept }}' }
";

#[test]
fn a_secret_is_found_nowhere() {
    let house = House::new("secrets");
    house.folder.write("careless.yaml", CARELESS);
    let set = ["secret", "set", "api_main", "--type", "bearer"];
    let (exit, out, err) = house.on_terminal(&set, CANARY);
    assert_eq!(exit, Exit::Ok, "{err}");
    let listed = house.get(&["secret", "list"]);
    assert!(listed.contains("\napi_main  bearer  "), "{listed}");
    house.get(&["catalog", "register", "careless.yaml"]);
    let ran = house.ask(&["exec", "demo/careless", "--wait", "-o", "json"]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    let seen = [
        out,
        err,
        listed,
        ran.shown(),
        house.get(&["runs", "events", "last", "-o", "jsonl"]),
        house.get(&["runs", "show", "last"]),
        house.get(&["runs", "logs", "last"]),
        house.get(&["runs", "explain", "last"]),
    ];
    for text in &seen {
        assert!(!text.contains(CANARY) && !text.contains(PACKED), "{text}");
        assert!(!text.contains(&CANARY.to_uppercase()), "{text}");
    }
    // The tools had it: something was blacked out in what they said.
    assert!(seen[4].matches("[REDACTED]").count() >= 4, "{}", seen[4]);
    for file in fs::read_dir(house.folder.path("data")).unwrap() {
        let path = file.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        for word in [CANARY, PACKED, &CANARY.to_uppercase()] {
            let has = bytes
                .windows(word.len())
                .any(|part| part == word.as_bytes());
            assert!(!has, "{} holds {word}", path.display());
        }
    }
    assert_eq!(house.ask(&["secret", "rm", "api_main", "--yes"]).code, 0);
    assert_eq!(house.ask(&["secret", "rm", "api_main", "--yes"]).code, 3);
}

const NAMES_IT: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: names, path: demo/names }
keychain:
  - { name: api, kind: bearer, auth: api_main }
workflow:
  - step: reads
    tool: { kind: noop, result: '{{ keychain.api.token | length }}' }
";

#[test]
fn what_was_done_to_secrets_is_told() {
    let token = ("NOETL_INTERNAL_API_TOKEN", "sixteen characters and more");
    let house = House::with("secrets_audit", &[token]);
    house.folder.write("names.yaml", NAMES_IT);
    let set = ["secret", "set", "api_main", "--type", "bearer"];
    let (exit, _, err) = house.on_terminal(&set, CANARY);
    assert_eq!(exit, Exit::Ok, "{err}");
    house.get(&["catalog", "register", "names.yaml"]);
    let ran = house.ask(&["exec", "demo/names", "--wait", "-o", "json"]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    house.get(&["secret", "rm", "api_main", "--yes"]);
    assert_eq!(house.ask(&["secret", "rm", "api_main", "--yes"]).code, 3);

    let lines = house.get(&["secret", "audit", "-o", "jsonl"]);
    let rows: Vec<serde_json::Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let operations: Vec<_> = rows.iter().map(|row| row["operation"].clone()).collect();
    assert_eq!(operations, ["delete", "delete", "lend", "set"]);
    let (worker, run) = (&rows[2]["worker_id"], &rows[2]["execution_id"]);
    let (worker, run) = (worker.as_str().unwrap(), run.to_string());
    let mut story = String::new();
    for args in [
        &["secret", "audit"][..],
        &["secret", "audit", "--run", &run],
        &["secret", "audit", "api_main", "--since", "1h", "-n", "1"],
        &[
            "secret",
            "audit",
            "api_main",
            "--until",
            "2020-01-01T00:00:00Z",
        ],
        &["secret", "audit", "nobody"],
        &["secret", "audit", "--since", "soon"],
        &["secret", "audit", "--limit", "0"],
    ] {
        let told = house.ask(args).shown();
        assert!(!told.contains(CANARY), "{told}");
        let told = settled(
            &house,
            &told
                .replace(worker, "w1")
                .replace(&run, "7000000000000000001"),
        );
        writeln!(story, "$ noetl {}\n{told}", args.join(" ")).unwrap();
    }
    insta::assert_snapshot!(story.replace(&run, "ID"));
    let wide = house.get(&["secret", "audit", "-o", "wide"]);
    assert!(
        wide.contains("TENANT") && wide.contains("127.0.0.1"),
        "{wide}"
    );
    // Who runs no installation is not told.
    let refused = house.without_env().ask(&["secret", "audit"]);
    assert_eq!(refused.code, 6, "{}", refused.shown());
    let help = "set NOETL_INTERNAL_API_TOKEN";
    assert!(refused.err.contains(help), "{}", refused.err);
}

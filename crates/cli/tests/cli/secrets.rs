//! A secret goes through tools, errors and retries, and is found nowhere.

use std::fs;

use noetl_cli::Exit;

use crate::asking::House;

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
    assert!(listed.starts_with("api_main  bearer"), "{listed}");
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
    assert_eq!(house.ask(&["secret", "rm", "api_main"]).code, 0);
    assert_eq!(house.ask(&["secret", "rm", "api_main"]).code, 3);
}

//! What is seen of a run while it goes on, and of what its tasks print.

use std::fmt::Write as _;

use crate::asking::House;
use crate::support::wait_until;

/// Its first task fails and is tried again in five minutes.
const RETRIES: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: retries, path: demo/retries }
workflow:
  - step: call
    tool:
      kind: shell
      command: exit 3
      spec:
        policy:
          rules:
            - { when: '{{ output.status == \"error\" }}', then: { do: retry, attempts: 3, delay: 300 } }
";

/// One task prints and gives a result, the other writes more than a log keeps.
const PRINTS: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: prints, path: demo/prints }
workflow:
  - step: talk
    tool:
      kind: python
      code: |
        import sys
        print('to people')
        print('oh', file=sys.stderr)
        result = {'n': 7}
    next: { arcs: [{ step: large }] }
  - step: large
    tool: { kind: shell, command: 'seq 1 20000; echo done >&2' }
    next: { arcs: [{ step: end }] }
  - step: end
    tool: { kind: noop, result: '{{ talk.n }}' }
";

/// Whoever looks at a run that waits for its next attempt sees that, and until when.
#[test]
fn a_run_that_is_tried_again_later_says_so_meanwhile() {
    let house = House::new("asking_retries");
    house.folder.write("retries.yaml", RETRIES);
    house.get(&["catalog", "register", "retries.yaml"]);
    let started = house.get(&["exec", "demo/retries", "-o", "json"]);
    let started: serde_json::Value = serde_json::from_str(&started).unwrap();
    let id = started["execution_id"].as_str().unwrap();
    let mut told = serde_json::Value::Null;
    wait_until("it waits for its next attempt", || {
        let explained = house.get(&["runs", "explain", id, "-o", "json"]);
        told = serde_json::from_str(&explained).unwrap();
        told["waiting_on"][0]["kind"] == "retry"
    });
    assert_eq!(
        told["summary"],
        "step `call` failed and waits for attempt 2"
    );
    let waits = &told["waiting_on"][0];
    assert!(
        waits["until"].is_string() && waits["holders"][0].is_string(),
        "{waits}"
    );

    let shown = house.get(&["runs", "show", id]);
    let bar = shown.lines().find(|line| line.contains("call ")).unwrap();
    assert!(
        bar.contains('▒') && bar.contains("1 retry, again in "),
        "{bar}"
    );
    let shown = house.get(&["runs", "show", id, "-o", "json"]);
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let second = |time: &serde_json::Value| time.as_str().unwrap()[..19].to_owned();
    assert_eq!(
        second(&shown["steps"][0]["retry_at"]),
        second(&waits["until"])
    );
    let events = house.get(&["runs", "events", id, "--no-headers"]);
    assert!(events.contains("again in 5 min 0 s"), "{events}");
    let why = house.get(&["runs", "explain", id, "--why"]);
    assert!(why.contains("again in 5 min 0 s"), "{why}");
    house.get(&["runs", "cancel", id, "--yes"]);
}

/// What a task prints is found, whatever else it gives and however much it is.
#[test]
fn what_tasks_print_is_found() {
    let house = House::new("asking_prints");
    house.folder.write("prints.yaml", PRINTS);
    house.get(&["catalog", "register", "prints.yaml"]);
    assert_eq!(
        house.get(&["exec", "demo/prints", "--wait", "-q"]).trim(),
        "7"
    );
    let mut wanted = "talk | to people\ntalk ! oh\n".to_owned();
    for number in 1..=20_000 {
        writeln!(wanted, "large | {number}").unwrap();
    }
    wanted.push_str("large ! done\n");
    let logs = house.get(&["runs", "logs", "last"]);
    assert!(logs == wanted, "{logs:.200} … {} bytes", logs.len());
    let bare = house.get(&["runs", "logs", "last", "--step", "large", "--bare"]);
    assert_eq!(bare.lines().count(), 20_001);
}

//! Inspection of active runs and of the output of their tasks.

use std::fmt::Write as _;

use crate::cli::client_commands::TestServer;
use crate::cli::support::wait_until;

/// The task fails and is retried after five minutes.
const RETRYING_PLAYBOOK: &str = "apiVersion: noetl.io/v2
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

/// One task prints and returns a result. The other prints more than the log stores inline.
const PRINTING_PLAYBOOK: &str = "apiVersion: noetl.io/v2
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

#[test]
fn pending_retry_is_shown_with_its_time() {
    let server = TestServer::new("asking_retries");
    server.dir.write("retries.yaml", RETRYING_PLAYBOOK);
    server.run_ok(&["catalog", "register", "retries.yaml"]);
    let started = server.run_ok(&["exec", "demo/retries", "-o", "json"]);
    let started: serde_json::Value = serde_json::from_str(&started).unwrap();
    let id = started["execution_id"].as_str().unwrap();
    let mut explanation = serde_json::Value::Null;
    wait_until("the run waits for its next attempt", || {
        let output = server.run_ok(&["runs", "explain", id, "-o", "json"]);
        explanation = serde_json::from_str(&output).unwrap();
        explanation["waiting_on"][0]["kind"] == "retry"
    });
    assert_eq!(explanation["summary"], "step `call` failed and waits for attempt 2");
    let wait = &explanation["waiting_on"][0];
    assert!(wait["until"].is_string() && wait["holders"][0].is_string(), "{wait}");

    let run = server.run_ok(&["runs", "show", id]);
    let bar = run.lines().find(|line| line.contains("call ")).unwrap();
    assert!(bar.contains('▒') && bar.contains("1 retry, retry in "), "{bar}");
    let run = server.run_ok(&["runs", "show", id, "-o", "json"]);
    let run: serde_json::Value = serde_json::from_str(&run).unwrap();
    let second = |time: &serde_json::Value| time.as_str().unwrap()[..19].to_owned();
    assert_eq!(second(&run["steps"][0]["retry_at"]), second(&wait["until"]));
    let events = server.run_ok(&["runs", "events", id, "--no-headers"]);
    assert!(events.contains("retry in 5 min 0 s"), "{events}");
    let why = server.run_ok(&["runs", "explain", id, "--why"]);
    assert!(why.contains("retry in 5 min 0 s"), "{why}");
    server.run_ok(&["runs", "cancel", id, "--yes"]);
}

/// Printed output is shown independently of its size and of the result of the task.
#[test]
fn task_output_is_shown_in_full() {
    let server = TestServer::new("asking_prints");
    server.dir.write("prints.yaml", PRINTING_PLAYBOOK);
    server.run_ok(&["catalog", "register", "prints.yaml"]);
    assert_eq!(server.run_ok(&["exec", "demo/prints", "--wait", "-q"]).trim(), "7");
    let mut expected = "talk | to people\ntalk ! oh\n".to_owned();
    for number in 1..=20_000 {
        writeln!(expected, "large | {number}").unwrap();
    }
    expected.push_str("large ! done\n");
    let logs = server.run_ok(&["runs", "logs", "last"]);
    assert!(logs == expected, "{logs:.200} … {} bytes", logs.len());
    let bare = server.run_ok(&["runs", "logs", "last", "large", "--bare"]);
    assert_eq!(bare.lines().count(), 20_001);
}

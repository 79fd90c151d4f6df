//! Suspended tasks, alone and in pipelines.

use noetl_types::ExecutionStatus;

use super::{assert_data, entered_steps, format_history, parse_json, run_text};
use crate::{ErrorKind, StepStatus};

#[test]
fn sleep_ends_when_timer_fires() {
    let result = run_text("workflow:\n  - { step: rest, tool: { kind: sleep, for: 30ms } }\n");
    let events = "playbook.started test\nstep.enter rest\ncommand.issued rest\ntimer.started rest\ntimer.fired rest\ncall.done rest\ncommand.completed rest\nstep.exit rest\nplaybook.completed test\n";
    assert_eq!(format_history(&result), events);
    let data = r#"{"slept_ms":30,"fired_at":"2026-01-01T00:00:00.030Z"}"#;
    assert_data(&result, "rest", data);
    let past = run_text(
        "workflow:\n  - { step: rest, tool: { kind: sleep, until: '2025-01-01T00:00:00Z' } }\n",
    );
    assert_data(&past, "rest", r#"{"slept_ms":0,"fired_at":"2026-01-01T00:00:00Z"}"#);
    assert_eq!(format_history(&past), events);
}

fn run_wait(wait: &str) -> crate::RunResult {
    run_text(&format!(
        r"
workload:
  world:
    signals:
      - {{ at: 5, name: paid, key: a, payload: {{ n: 1 }} }}
      - {{ at: 15, name: voided, key: b, payload: {{ n: 2 }} }}
      - {{ at: 25, name: paid, key: b, payload: {{ n: 3 }} }}
workflow:
  - {{ step: before, tool: {{ kind: sleep, for: 10ms }}, next: {{ arcs: [{{ step: waits }}] }} }}
  - {{ step: waits, tool: {{ kind: wait, {wait} }} }}
"
    ))
}

#[test]
fn wait_accepts_first_matching_signal() {
    let paid =
        r#"{"name":"paid","key":"b","payload":{"n":3},"received_at":"2026-01-01T00:00:00.025Z"}"#;
    let early =
        r#"{"name":"paid","key":"a","payload":{"n":1},"received_at":"2026-01-01T00:00:00.005Z"}"#;
    let voided =
        r#"{"name":"voided","key":"b","payload":{"n":2},"received_at":"2026-01-01T00:00:00.015Z"}"#;
    for (text, data) in [
        ("signal: paid", paid),
        ("signal: paid, lookback: 5ms", early),
        ("signal: paid, lookback: 4ms", paid),
        ("signal: paid, lookback: 10ms, key: b", paid),
        ("signals: [{ name: paid }, { name: voided }]", voided),
        ("signals: [{ name: paid, key: a }, { name: voided, key: b }], lookback: 1s", early),
    ] {
        assert_data(&run_wait(text), "waits", data);
    }
    let both =
        run_wait("signals: [{ name: paid, as: p }, { name: voided }], mode: all, lookback: 1s");
    assert_data(&both, "waits", &format!(r#"{{"p":{early},"voided":{voided}}}"#));
}

#[test]
fn wait_fails_on_timeout() {
    let result = run_wait("signal: nothing, timeout: 100ms");
    let events = "command.issued waits\ntimer.started waits\nsignal.received test\nsignal.received test\ntimer.fired waits\ncall.error waits\ncommand.failed waits\nstep.exit waits\nplaybook.failed test\n";
    assert!(format_history(&result).ends_with(events), "{}", format_history(&result));
    assert_eq!(result.error_kind, Some(ErrorKind::Timeout));
}

#[test]
fn signal_is_delivered_to_one_wait() {
    let result = run_text(
        r#"
workload:
  world: { signals: [{ at: 5, name: go, payload: 1 }, { at: 6, name: go, payload: 2 }] }
workflow:
  - step: each
    loop: { in: 2, iterator: x, spec: { mode: parallel } }
    tool: { kind: wait, signal: go, timeout: 50ms }
    set: { ctx.first: "{{ output.results[0].payload }}", ctx.second: "{{ output.results[1].payload }}" }
"#,
    );
    assert_eq!(result.ctx, parse_json(r#"{"first":1,"second":2}"#));
}

fn run_approval(text: &str) -> crate::RunResult {
    run_text(&format!(
        "workflow:\n  - {{ step: ask, tool: {{ kind: approval, timeout: 100ms, {text} }} }}\n"
    ))
}

#[test]
fn approval_needs_quorum_and_one_rejection_decides() {
    for (text, approved, by, events) in [
        ("message: ann approves 10", "true", "\"ann\"", 1),
        ("message: ann rejects 10; bob approves 20", "false", "\"ann\"", 1),
        (
            "quorum: 2, message: ann approves 10; ann approves 20; bob approves 30",
            "true",
            "\"bob\"",
            2,
        ),
        ("quorum: 2, message: ann approves 10; bob rejects 30", "false", "\"bob\"", 2),
        ("approvers: [bob], message: ann approves 10; bob rejects 20", "false", "\"bob\"", 1),
        ("on_timeout: approve, message: nobody", "true", "null", 0),
        ("on_timeout: reject, quorum: 2, message: ann approves 10", "false", "null", 1),
    ] {
        let result = run_approval(text);
        let data = &result.steps["ask"].data;
        assert_eq!(data.get("approved"), Some(&parse_json(approved)), "{text}");
        assert_eq!(data.get("by"), Some(&parse_json(by)), "{text}");
        let received = format_history(&result).matches("signal.received").count();
        assert_eq!(received, events, "{text}");
    }
    let silent = run_approval("message: nobody");
    assert_eq!(silent.error_kind, Some(ErrorKind::Timeout));
}

fn run_child(does: &str, more: &str) -> crate::RunResult {
    run_text(&format!(
        "workflow:\n  - {{ step: sub, tool: {{ kind: playbook, path: a/b, input: {{ does: '{does}' }}, {more} }} }}\n"
    ))
}

#[test]
fn awaited_child_returns_data() {
    let events = "playbook.started test\nstep.enter sub\ncommand.issued sub\ntimer.started sub\nsignal.received sub\ncall.done sub\ncommand.completed sub\nstep.exit sub\nplaybook.completed test\n";
    for (does, more, data) in [
        (
            r#"completes 10 {"n": 1}"#,
            "return_result: true",
            r#"{"n":1,"execution_id":"","status":"COMPLETED"}"#,
        ),
        (
            r#"completes 10 {"status": 7}"#,
            "return_result: true",
            r#"{"execution_id":"","status":7}"#,
        ),
        (
            "completes 10 [1]",
            "return_result: true",
            r#"{"data":[1],"execution_id":"","status":"COMPLETED"}"#,
        ),
        (
            r#"completes 10 {"n": 1}"#,
            "return_step: last",
            r#"{"n":1,"step":"last","execution_id":"","status":"COMPLETED"}"#,
        ),
        (
            r#"completes 10 {"n": 1}"#,
            "return_result: true, result_step: last",
            r#"{"n":1,"step":"last","execution_id":"","status":"COMPLETED"}"#,
        ),
    ] {
        let result = run_child(does, more);
        assert_data(&result, "sub", data);
        assert_eq!(format_history(&result), events);
    }
    for (does, kind) in [
        ("fails 10", ErrorKind::Child),
        ("cancelled 10", ErrorKind::Child),
        ("hangs", ErrorKind::Timeout),
        ("completes 600000 1", ErrorKind::Timeout),
    ] {
        let result = run_child(does, "return_result: true");
        assert_eq!(result.error_kind, Some(kind), "{does}");
    }
    let detached = run_child("hangs", "version: 1");
    assert_data(
        &detached,
        "sub",
        r#"{"status":"started","execution_id":"","path":"a/b","async":true}"#,
    );
    assert!(!format_history(&detached).contains("timer"), "{}", format_history(&detached));
}

#[test]
fn pipeline_continues_after_suspension() {
    let result = run_text(
        r#"
workflow:
  - step: all
    tool:
      - { name: a, kind: noop, result: { n: 1 }, set: { mine: 5, iter.i: 6, step.s: 7, ctx.c: 8 } }
      - { name: rest, kind: sleep, for: "{{ mine * 2 }}ms", set: { slept: "{{ output.slept_ms }}" } }
      - { name: b, kind: noop, result: { sum: "{{ a.n + mine + iter.i + s + c }}", slept: "{{ slept }}", was: "{{ _prev.slept_ms }}" } }
"#,
    );
    let events = "step.enter all\ncommand.issued all\nW all\nctx.updated all\ncommand.issued all\ntimer.started all\ntimer.fired all\ncall.done all\ncommand.completed all\ncommand.issued all\nW all\nstep.exit all\n";
    assert!(format_history(&result).contains(events), "{}", format_history(&result));
    let data = &result.steps["all"].data;
    assert_eq!(data.get("sum"), Some(&parse_json("27")));
    assert_eq!(data.get("slept"), Some(&parse_json("10")));
    assert_eq!(data.get("was"), Some(&parse_json("10")));
    assert!(data.get("rest").is_some());
}

#[test]
fn jump_crosses_suspended_task() {
    let result = run_text(
        r#"
workflow:
  - step: all
    tool:
      - { name: a, kind: noop, result: "{{ (iter.n | default(0)) + 1 }}", set: { iter.n: "{{ output }}" } }
      - { name: rest, kind: sleep, for: 10ms }
      - name: b
        kind: noop
        result: "{{ iter.n }}"
        spec: { policy: { rules: [{ when: "output < 3", then: { do: jump, to: a } }] } }
"#,
    );
    assert_eq!(result.steps["all"].data.get("data"), Some(&parse_json("3")));
    assert_eq!(format_history(&result).matches("timer.fired").count(), 3);
    assert_eq!(format_history(&result).matches("command.issued").count(), 9);
}

#[test]
fn suspended_task_follows_its_policy() {
    let run = |rule: &str| {
        run_text(&format!(
            r#"
workflow:
  - step: all
    tool:
      - name: sub
        kind: playbook
        path: a/b
        return_result: true
        input: {{ does: "flaky 3 10 5" }}
        spec: {{ policy: {{ rules: [{{ when: "output.status == 'error'", then: {{ {rule} }} }}] }} }}
      - {{ name: after, kind: noop, result: "{{{{ sub.data }}}}" }}
"#
        ))
    };
    let retried = run("do: retry, attempts: 3, delay: 20ms");
    assert_eq!(retried.steps["all"].data.get("data"), Some(&parse_json("5")));
    assert_eq!(format_history(&retried).matches("call.error").count(), 2);
    assert_eq!(format_history(&retried).matches("command.issued").count(), 2);
    let exhausted = run("do: retry, attempts: 2, delay: 20ms");
    assert_eq!(exhausted.error_kind, Some(ErrorKind::Child));
    let continued = run("do: continue");
    assert_eq!(continued.status, ExecutionStatus::Completed);
    let stopped = run("do: break");
    assert!(!format_history(&stopped).contains('W'), "{}", format_history(&stopped));
    assert_eq!(stopped.status, ExecutionStatus::Completed);
}

#[test]
fn iterations_suspend_independently() {
    let result = run_text(
        r#"
workflow:
  - step: each
    loop: { in: [30, 10, 20], iterator: x, spec: { mode: parallel, max_in_flight: 2 } }
    tool:
      - { name: rest, kind: sleep, for: "{{ x }}ms" }
      - { name: say, kind: noop, result: "{{ x }}", set: { ctx.last: "{{ x }}" } }
"#,
    );
    assert_eq!(result.ctx, parse_json(r#"{"last":20}"#));
    let order: Vec<String> = result
        .history
        .iter()
        .filter(|entry| entry.event == noetl_types::EventType::CommandIssued)
        .map(|entry| entry.index.map(|index| index.to_string()).unwrap_or_default())
        .collect();
    assert_eq!(order, ["0", "1", "1", "2", "0", "2"]);
}

#[test]
fn uncaught_failure_cancels_waits_but_not_children() {
    let result = run_text(
        r"
workflow:
  - step: start
    tool: { kind: noop }
    next: { spec: { mode: inclusive }, arcs: [{ step: rest }, { step: sub }, { step: more }, { step: bad }] }
  - { step: rest, tool: { kind: sleep, for: 1s } }
  - { step: sub, tool: { kind: playbook, path: a, return_result: true, input: { does: completes 50 1 } } }
  - step: more
    tool:
      - { name: a, kind: playbook, path: a, return_result: true, input: { does: completes 60 1 } }
      - { name: b, kind: noop }
  - { step: bad, tool: { kind: shell, command: error transform } }
",
    );
    let status = |step: &str| result.steps[step].status;
    assert_eq!(status("rest"), StepStatus::Cancelled);
    assert_eq!(status("sub"), StepStatus::Completed);
    assert_eq!(status("more"), StepStatus::Cancelled);
    let events = "step.exit bad\ncommand.cancelled rest\nstep.exit rest\nsignal.received sub\ncall.done sub\ncommand.completed sub\nstep.exit sub\nsignal.received more\ncall.done more\ncommand.completed more\nstep.exit more\nplaybook.failed test\n";
    assert!(format_history(&result).ends_with(events), "{}", format_history(&result));
    assert_eq!(entered_steps(&result).len(), 5);
}

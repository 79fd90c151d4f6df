//! Task policies, as tables of rules and outcomes.

use noetl_types::EventType;

use super::{assert_data, parse_json, run_text};
use crate::{ErrorKind, RunResult};

/// Runs a step with one task that executes `command` under these policy keys.
fn run_single_task(command: &str, policy: &str) -> RunResult {
    run_text(&format!(
        "workflow:\n  - step: a\n    tool:\n      kind: shell\n      command: '{command}'\n      spec: {{ policy: {{ {policy} }} }}\n"
    ))
}

/// Counts the attempts that were followed by another one.
fn retry_count(result: &RunResult) -> usize {
    let errors = result.history.iter().filter(|event| event.event == EventType::CallError).count();
    errors - usize::from(result.error_kind.is_some())
}

#[test]
fn applies_policy_to_single_task() {
    let retry = r#"rules: [{ when: "error", then: { do: retry, attempts: N } }]"#;
    let failed: Option<ErrorKind> = Some(ErrorKind::Timeout);
    for (command, policy, kind, data, retries) in [
        // Retry: the count covers the first execution. When it is used up, the task fails.
        ("flaky 3 timeout 7", retry.replace('N', "3"), None, "7", 2),
        ("flaky 4 timeout 7", retry.replace('N', "3"), failed, "null", 2),
        ("flaky 2 timeout 7", retry.replace('N', "1"), failed, "null", 0),
        ("flaky 3 timeout 7", retry.replace(", attempts: N", ""), None, "7", 2),
        ("flaky 4 timeout 7", retry.replace(", attempts: N", ""), failed, "null", 2),
        ("flaky 2 timeout 7", retry.replace('N', "\"{{ 1 + 1 }}\""), None, "7", 1),
        // No rule matches.
        ("ok 1", retry.replace('N', "3"), None, "1", 0),
        ("error timeout", r#"rules: [{ when: "false", then: { do: retry } }]"#.into(), failed, "null", 0),
        ("error timeout 5", r#"on_unmatched: continue, rules: [{ when: "false" }]"#.into(), None, "5", 0),
        ("error timeout", r#"on_unmatched: continue, rules: [{ when: "false" }]"#.into(), None, "null", 0),
        ("error timeout", r#"on_unmatched: continue, rules: [{ when: "true", then: { do: fail } }]"#.into(), failed, "null", 0),
        // The forms of else, and a then without an action.
        ("error timeout 5", "rules: [{ else: { do: continue } }]".into(), None, "5", 0),
        ("error timeout 5", "rules: [{ else: { then: { do: break } } }]".into(), None, "5", 0),
        ("error timeout 5", "rules: [{ else: null, then: { do: continue } }]".into(), None, "5", 0),
        ("error timeout 5", r#"rules: [{ when: "error", then: { set: { ctx.x: 1 } } }]"#.into(), None, "5", 0),
        ("error timeout", "rules: [{ else: { do: fail } }]".into(), failed, "null", 0),
        // The first matching rule wins.
        ("error timeout 5", r#"rules: [{ when: "error", then: { do: continue } }, { else: { do: fail } }]"#.into(), None, "5", 0),
        // The envelope comes before the data, which is found beneath it.
        (r#"ok {"status": "bad", "n": 1}"#, r#"rules: [{ when: "output.status == \"ok\" and output.n == 1 and output.data.status == \"bad\"" }, { else: { do: fail } }]"#.into(), None, r#"{"status":"bad","n":1}"#, 0),
        ("error timeout 5", r#"rules: [{ when: "output.error.retryable and output.data == 5 and output.meta.attempt == 1 and _attempt == 1", then: { do: continue } }]"#.into(), None, "5", 0),
    ] {
        let result = run_single_task(command, &policy);
        assert_eq!(result.error_kind, kind, "{command} {policy}");
        assert_data(&result, "a", data);
        assert_eq!(retry_count(&result), retries, "{command} {policy}");
    }
}

#[test]
fn error_without_policy_fails_task() {
    let result =
        run_text("workflow:\n  - { step: a, tool: { kind: shell, command: error parse } }\n");
    assert_eq!(result.error_kind, Some(ErrorKind::Parse));
}

#[test]
fn rule_may_fail_successful_attempt() {
    let result = run_single_task("ok 3", r#"rules: [{ when: "output == 3", then: { do: fail } }]"#);
    assert_eq!(result.error_kind, Some(ErrorKind::Unknown));
    let polled = run_single_task(
        "ok 3",
        r#"rules: [{ when: "output == 3", then: { do: retry, attempts: 4 } }]"#,
    );
    assert_eq!((polled.error_kind, retry_count(&polled)), (Some(ErrorKind::Unknown), 3));
}

#[test]
fn jump_repeats_tasks_and_resets_attempts() {
    let result = run_text(r#"
workflow:
  - step: pages
    tool:
      - { name: fetch, kind: shell, command: "flaky 2 timeout 1", spec: { policy: { rules: [{ when: "error", then: { do: retry } }] } } }
      - name: more
        kind: noop
        result: "{{ (iter.page | default(0)) + _prev }}"
        spec:
          policy:
            rules:
              - when: "output < 3"
                then: { do: jump, to: TARGET, set: { iter.page: "{{ output.data }}" } }
      - { name: last, kind: noop, result: { pages: "{{ more }}", before: "{{ fetch }}" } }
"#
    .replace("TARGET", "fetch")
    .as_str());
    // Each of the three visits fails once before it succeeds.
    assert_eq!(retry_count(&result), 3);
    assert_data(
        &result,
        "pages",
        r#"{"fetch":1,"more":3,"last":{"pages":3,"before":1},"pages":3,"before":1}"#,
    );
}

#[test]
fn previous_jumps_to_preceding_task() {
    for target in ["previous", "prev", "_previous", "\"@previous\""] {
        let result = run_text(&format!(
            r#"
workflow:
  - step: a
    tool:
      - {{ name: one, kind: noop, result: "{{{{ (ctx.n | default(0)) + 1 }}}}", set: {{ ctx.n: "{{{{ output }}}}" }} }}
      - {{ name: two, kind: noop, spec: {{ policy: {{ rules: [{{ when: "ctx.n < 3", then: {{ do: jump, to: {target} }} }}] }} }} }}
"#
        ));
        assert_eq!(result.ctx, parse_json(r#"{"n":3}"#), "{target}");
    }
}

#[test]
fn pipeline_data_merges_last_task_over_labels() {
    for (last, break_at, data) in [
        ("{ n: 2, one: over }", "nothing", r#"{"one":"over","two":{"n":2,"one":"over"},"n":2}"#),
        ("7", "nothing", r#"{"one":{"n":1},"two":7,"data":7}"#),
        ("null", "nothing", r#"{"one":{"n":1},"two":null,"data":null}"#),
        ("7", "one", r#"{"one":{"n":1},"n":1}"#),
    ] {
        let result = run_text(&format!(
            r#"
workflow:
  - step: a
    tool:
      - {{ one: {{ kind: noop, result: {{ n: 1 }}, spec: {{ policy: {{ rules: [{{ when: "_task == '{break_at}'", then: {{ do: break }} }}] }} }} }} }}
      - {{ name: two, kind: noop, result: {last} }}
    next: {{ arcs: [{{ step: b }}] }}
  - {{ step: b, tool: {{ kind: noop, result: ["{{{{ a.results.one.n }}}}", "{{{{ a.two }}}}"] }} }}
"#
        ));
        assert_data(&result, "a", data);
        let two = result.steps["a"].data.get("two").cloned().unwrap_or_default();
        assert_eq!(
            result.steps["b"].data,
            noetl_types::Json::list([parse_json("1"), two]),
            "{last} {break_at}"
        );
    }
}

#[test]
fn continued_error_keeps_data() {
    let result = run_text(
        r#"
workflow:
  - step: a
    tool:
      - { name: one, kind: shell, command: 'error parse {"n": 1}', spec: { policy: { rules: [{ else: { do: continue } }] } } }
      - { kind: noop, result: { seen: "{{ one.n }}", before: "{{ _prev.n }}", mine: "{{ _task }}" } }
"#,
    );
    let last = r#"{"seen":1,"before":1,"mine":"task_1"}"#;
    assert_data(&result, "a", &format!(r#"{{"one":{{"n":1}},"task_1":{last},{}"#, &last[1..]));
}

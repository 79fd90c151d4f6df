//! Loops: their items and order, and the effect of a failed iteration.

use noetl_types::{EventType, ExecutionStatus};

use super::{assert_data, entered_steps, format_history, parse_json, run_text};
use crate::{ErrorKind, RunResult, StepStatus, normalize_data};

fn run_loop_over(source: &str) -> RunResult {
    run_text(&format!(
        "workload: {{ cities: [a, b], zones: {{ y: 2, x: 1 }} }}\nworkflow:\n  - step: each\n    loop: {{ in: {source}, iterator: x }}\n    tool: {{ kind: noop, result: \"{{{{ x }}}}\" }}\n    next: {{ arcs: [{{ step: caught, when: \"event.name == 'call.error'\" }}] }}\n  - {{ step: caught, tool: {{ kind: noop }} }}\n"
    ))
}

#[test]
fn iterates_many_kinds_of_values() {
    for (source, items) in [
        ("[1, [2]]", "[1,[2]]"),
        ("\"{{ cities }}\"", r#"["a","b"]"#),
        ("\"{{ zones }}\"", r#"[{"key":"x","value":1},{"key":"y","value":2}]"#),
        ("\"{{ 3 }}\"", "[0,1,2]"),
        ("2", "[0,1]"),
        ("0", "[]"),
        ("[]", "[]"),
        ("\"\"", "[]"),
        ("\"red, green,,\\n blue \"", r#"["red","green","blue"]"#),
        ("\"[1, 2]\"", "[1,2]"),
    ] {
        let result = run_loop_over(source);
        assert_eq!(result.steps["each"].data.get("results"), Some(&parse_json(items)), "{source}");
        assert_eq!(result.steps["each"].data.get("data"), Some(&parse_json(items)), "{source}");
    }
}

#[test]
fn value_without_items_is_catchable_failure() {
    for source in ["\"{{ nothing }}\"", "\"{{ true }}\"", "\"{{ none }}\""] {
        let result = run_loop_over(source);
        assert_eq!(result.steps["each"].error_kind, Some(ErrorKind::Schema), "{source}");
        assert_eq!(entered_steps(&result), ["each", "caught"], "{source}");
        assert_eq!(result.status, ExecutionStatus::Completed, "{source}");
    }
    let broken = run_loop_over("\"{{ 1 // 0 }}\"");
    assert_eq!(
        (broken.status, broken.error_kind),
        (ExecutionStatus::Failed, Some(ErrorKind::Template))
    );
    assert_eq!(entered_steps(&broken), ["each"]);
}

#[test]
fn empty_loop_ends_on_entry() {
    let result = run_text(
        r#"
workflow:
  - step: each
    loop: { in: [], iterator: x }
    tool: { kind: noop }
    set: { ctx.seen: "{{ event.name }}" }
    next: { arcs: [{ step: after, when: "event.name == 'loop.done'" }] }
  - { step: after, tool: { kind: noop } }
"#,
    );
    let expected = "playbook.started test\nstep.enter each\nloop.done each\nctx.updated each\nstep.exit each\nstep.enter after\n";
    assert!(format_history(&result).starts_with(expected), "{}", format_history(&result));
    assert_eq!(result.ctx, parse_json(r#"{"seen":"loop.done"}"#));
}

#[test]
fn sequential_iteration_sees_previous_writes() {
    let text = |spec: &str| {
        format!(
            r#"
workflow:
  - step: sum
    loop: {{ in: [1, 2, 3], iterator: x, spec: {{ {spec} }} }}
    tool: {{ kind: noop, result: "{{{{ (ctx.sum | default(0)) + x }}}}", set: {{ ctx.sum: "{{{{ output }}}}" }} }}
"#
        )
    };
    let sequential = run_text(&text(""));
    assert_eq!(sequential.steps["sum"].data.get("results"), Some(&parse_json("[1,3,6]")));
    assert_eq!(sequential.ctx, parse_json(r#"{"sum":6}"#));
    // In parallel each iteration sees the state as of the issue of its command: the third is issued
    // when the first is done, and the last to finish wins.
    let parallel = run_text(&text("mode: parallel, max_in_flight: 2"));
    assert_eq!(parallel.steps["sum"].data.get("results"), Some(&parse_json("[1,2,4]")));
    assert_eq!(parallel.ctx, parse_json(r#"{"sum":4}"#));
}

#[test]
fn iteration_sees_its_index() {
    let result = run_text(
        r#"
workflow:
  - step: each
    loop: { in: [a, b], iterator: x }
    tool:
      kind: noop
      result: [ "{{ iter.x ~ x }}", "{{ iter.index }}", "{{ _index }}", "{{ loop_index }}", "{{ iter._total }}", "{{ iter._first }}", "{{ loop.last }}" ]
"#,
    );
    let results = parse_json(r#"[["aa",0,0,0,2,true,false],["bb",1,1,1,2,false,true]]"#);
    assert_eq!(result.steps["each"].data.get("results"), Some(&results));
}

#[test]
fn iteration_variables_do_not_leak() {
    let result = run_text(
        r#"
workflow:
  - step: each
    loop: { in: [1, 2], iterator: x }
    tool:
      - { name: a, kind: noop, result: "{{ iter.seen | default('nothing') }}", set: { iter.seen: "{{ x }}", mine: "{{ x }}", step.shared: "{{ x }}" } }
      - { name: b, kind: noop, result: { seen: "{{ iter.seen }}", mine: "{{ mine }}" } }
    set: { ctx.after: "{{ iter.seen }}", ctx.mine: "{{ mine }}", ctx.shared: "{{ shared }}" }
"#,
    );
    let results = parse_json(
        r#"[{"a":"nothing","b":{"seen":1,"mine":1},"seen":1,"mine":1},{"a":"nothing","b":{"seen":2,"mine":2},"seen":2,"mine":2}]"#,
    );
    assert_eq!(result.steps["each"].data.get("results"), Some(&results));
    assert_eq!(result.ctx, parse_json(r#"{"after":null,"mine":null,"shared":2}"#));
}

const FAILING_LOOP: &str = r#"
workflow:
  - step: each
    spec: { policy: { failure: { mode: MODE } } }
    loop: { in: 5, iterator: x, spec: { mode: parallel, max_in_flight: 2 } }
    tool: { kind: shell, command: "{{ 'error timeout' if x == 1 else 'ok ' ~ x }}", set: { ctx.done: "{{ x }}" } }
    set: { ctx.set: true }
    next:
      arcs:
        - { step: failed, when: "event.name == 'call.error' and error.index == 1 and error.kind == 'timeout'" }
        - { step: fine, when: "event.name == 'loop.done'" }
  - { step: failed, tool: { kind: noop } }
  - { step: fine, tool: { kind: noop } }
"#;

#[test]
fn first_failed_iteration_stops_issuing() {
    let result = run_text(&FAILING_LOOP.replace("MODE", "fail_fast"));
    assert_eq!(entered_steps(&result), ["each", "failed"]);
    let issued = result.history.iter().filter(|event| event.event == EventType::CommandIssued);
    let issued: Vec<_> = issued.filter_map(|event| event.index).collect();
    // 2 is issued when 0 is done, and still finishes after 1 has failed.
    assert_eq!(issued, [0, 1, 2]);
    assert_eq!(result.ctx, parse_json(r#"{"done":2}"#));
    assert!(result.history.iter().all(|event| event.event != EventType::LoopDone));
}

#[test]
fn best_effort_counts_failures_and_continues() {
    let result = run_text(&FAILING_LOOP.replace("MODE", "best_effort"));
    assert_eq!(entered_steps(&result), ["each", "fine"]);
    let data = normalize_data(&result.steps["each"].data);
    let expected = r#"{"results":[0,null,2,3,4],"data":[0,null,2,3,4],"stats":{"total":5,"success":4,"failed":1},"errors":[{"index":1,"error":"timeout"}]}"#;
    assert_eq!(data, parse_json(expected));
    assert_eq!(result.ctx, parse_json(r#"{"done":4,"set":true}"#));
}

#[test]
fn break_ends_iteration_not_loop() {
    let result = run_text(
        r#"
workflow:
  - step: each
    loop: { in: [1, 2, 3], iterator: x }
    tool:
      - name: a
        kind: noop
        result: "{{ x }}"
        spec: { policy: { rules: [{ when: "output == 2", then: { do: break } }] } }
      - { name: b, kind: noop, result: "{{ a * 10 }}" }
"#,
    );
    let results =
        parse_json(r#"[{"a":1,"b":10,"data":10},{"a":2,"data":2},{"a":3,"b":30,"data":30}]"#);
    assert_eq!(result.steps["each"].data.get("results"), Some(&results));
}

#[test]
fn failure_elsewhere_cancels_loop() {
    let result = run_text(
        r#"
workflow:
  - step: start
    tool: { kind: noop }
    next: { spec: { mode: inclusive }, arcs: [{ step: bad }, { step: each }] }
  - { step: bad, tool: { kind: shell, command: "error transform" } }
  - step: each
    loop: { in: [1, 2, 3], iterator: x }
    tool: { kind: noop, set: { ctx.seen: "{{ x }}" } }
    set: { ctx.all: true }
"#,
    );
    assert_eq!(result.failed_steps, ["bad".into()]);
    assert_eq!(result.steps["each"].status, StepStatus::Cancelled);
    assert_eq!(result.ctx, parse_json(r#"{"seen":1}"#));
    assert_data(&result, "each", "null");
}

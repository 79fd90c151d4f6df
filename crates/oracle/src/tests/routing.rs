//! Skips, guards, admission, dead ends and the result of the run.

use noetl_types::ExecutionStatus;

use super::{assert_data, entered_steps, format_history, parse_json, run_text, skipped_steps};
use crate::{ErrorKind, StepStatus};

#[test]
fn dead_steps_are_skipped_in_document_order() {
    let result = run_text(
        r#"
workflow:
  - { step: c, tool: { kind: noop }, next: { arcs: [{ step: d }] } }
  - { step: d, tool: { kind: noop } }
  - step: start
    tool: { kind: noop, result: 1 }
    next: { arcs: [{ step: a, when: "output == 1" }, { step: b }] }
  - { step: b, tool: { kind: noop }, next: { arcs: [{ step: c }] } }
  - { step: a, tool: { kind: noop } }
"#,
    );
    assert_eq!(skipped_steps(&result), ["c:not_routed", "d:not_routed", "b:not_routed"]);
}

#[test]
fn cycle_exit_is_not_skipped_early() {
    let result = run_text(
        r#"
workflow:
  - step: poll
    tool: { kind: noop, result: "{{ (ctx.n | default(0)) + 1 }}" }
    set: { ctx.n: "{{ output }}" }
    next:
      arcs:
        - { step: again, when: "ctx.n < 3" }
        - { step: done }
  - { step: again, tool: { kind: noop }, next: { arcs: [{ step: poll }] } }
  - { step: done, tool: { kind: noop, result: "{{ ctx.n }}" } }
"#,
    );
    assert_eq!(entered_steps(&result), ["poll", "again", "poll", "again", "poll", "done"]);
    assert_eq!(skipped_steps(&result), [""; 0]);
    assert_eq!(result.result, parse_json("3"));
}

#[test]
fn unreachable_step_gets_no_event() {
    let result = run_text(
        r"
executor: { spec: { entry_step: work } }
workflow:
  - { step: alone, tool: { kind: noop }, next: { arcs: [{ step: work }] } }
  - { step: work, tool: { kind: noop } }
",
    );
    assert_eq!(result.steps["alone"].status, StepStatus::Pending);
    assert_eq!(skipped_steps(&result), [""; 0]);
}

#[test]
fn false_guard_skips_step_and_follows_arcs() {
    let result = run_text(
        r#"
workflow:
  - { step: start, tool: { kind: noop }, next: { arcs: [{ step: maybe }] } }
  - step: maybe
    when: "{{ event.name == 'call.error' }}"
    tool: { kind: noop }
    set: { ctx.ran: true }
    next:
      arcs:
        - { step: usual, when: "output" }
        - { step: skipped, when: "event.name == 'step.skipped' and event.step == 'maybe' and output is none" }
  - { step: usual, tool: { kind: noop } }
  - { step: skipped, when: "{{ event.name == 'step.skipped' }}", tool: { kind: noop, result: here } }
"#,
    );
    assert_eq!(entered_steps(&result), ["start", "skipped"]);
    assert_eq!(skipped_steps(&result), ["maybe:guard", "usual:not_routed"]);
    assert_eq!(result.ctx, parse_json("{}"));
    assert_eq!(result.result, parse_json(r#""here""#));
    assert_eq!(
        (result.steps["maybe"].runs, result.steps["maybe"].status),
        (0, StepStatus::Skipped)
    );
}

#[test]
fn skip_keeps_earlier_data() {
    let result = run_text(
        r#"
workflow:
  - step: turn
    tool: { kind: noop }
    next: { arcs: [{ step: once }] }
  - step: once
    when: "not once"
    tool: { kind: noop, result: { n: 1 } }
    next: { arcs: [{ step: turn, when: "event.name == 'call.done'" }] }
"#,
    );
    assert_eq!(entered_steps(&result), ["turn", "once", "turn"]);
    assert_eq!(skipped_steps(&result), ["once:guard"]);
    assert_data(&result, "once", r#"{"n":1}"#);
}

#[test]
fn first_matching_admission_rule_decides() {
    let admitted = |rules: &str| {
        let text = format!(
            "workload: {{ n: 2 }}\nworkflow:\n  - step: a\n    spec: {{ policy: {{ admit: {{ rules: {rules} }} }} }}\n    tool: {{ kind: noop }}\n"
        );
        let result = run_text(&text);
        assert_eq!(
            skipped_steps(&result),
            if entered_steps(&result).is_empty() { vec!["a:admission"] } else { vec![] }
        );
        !entered_steps(&result).is_empty()
    };
    let deny = r#"{ when: "n > 1", then: { allow: false } }"#;
    let allow = r#"{ when: "n == 2", then: { allow: true } }"#;
    let miss = r#"{ when: "n > 9", then: { allow: false } }"#;
    let otherwise = "{ else: { then: { allow: false } } }";
    assert!(!admitted(&format!("[{deny}, {allow}]")));
    assert!(admitted(&format!("[{allow}, {deny}]")));
    assert!(admitted(&format!("[{miss}]")));
    assert!(!admitted(&format!("[{miss}, {otherwise}]")));
    assert!(admitted(&format!("[{allow}, {otherwise}]")));
}

#[test]
fn dead_end_completes_by_default() {
    let text = |executor: &str, spec: &str| {
        format!(
            "{executor}\nworkflow:\n  - step: a\n    tool: {{ kind: noop, result: 5 }}\n    set: {{ ctx.a: 1 }}\n    next: {{ spec: {{ {spec} }}, arcs: [{{ step: b, when: \"output > 9\" }}] }}\n  - {{ step: b, tool: {{ kind: noop }} }}\n"
        )
    };
    let quiet = run_text(&text("", ""));
    assert_eq!((quiet.status, quiet.result.clone()), (ExecutionStatus::Completed, parse_json("5")));
    assert_eq!(skipped_steps(&quiet), ["b:not_routed"]);
    for strict in
        [text("", "on_no_match: error"), text("executor: { spec: { no_next_is_error: true } }", "")]
    {
        let result = run_text(&strict);
        assert_eq!(result.status, ExecutionStatus::Failed);
        assert_eq!(result.error_kind, Some(ErrorKind::Routing));
        assert_eq!(result.failed_steps, ["a".into()]);
        assert_eq!(skipped_steps(&result), [""; 0]);
        // The step's own writes were applied before its arcs were evaluated.
        assert_eq!(result.ctx, parse_json(r#"{"a":1}"#));
        assert_data(&result, "a", "null");
    }
    let terminal = run_text(
        "executor: { spec: { no_next_is_error: true } }\nworkflow:\n  - { step: a, tool: { kind: noop } }\n",
    );
    assert_eq!(terminal.status, ExecutionStatus::Completed);
}

#[test]
fn result_comes_from_final_step_end_or_dead_end() {
    let steps = "
workflow:
  - { step: start, tool: { kind: noop, result: 1 }, next: { spec: { mode: inclusive }, arcs: [{ step: end }, { step: b }] } }
  - { step: end, tool: { kind: noop, result: 2 } }
  - { step: b, tool: { kind: noop, result: 3 } }
  - { step: last, tool: { kind: noop, result: 4 } }
";
    assert_eq!(run_text(steps).result, parse_json("2"));
    assert_eq!(
        run_text(&format!("executor: {{ spec: {{ final_step: last }} }}{steps}")).result,
        parse_json("4")
    );
    let without = steps.replace("step: end", "step: fin");
    assert_eq!(run_text(&without).result, parse_json("3"));
    let undeclared = "
workflow:
  - { step: start, tool: { kind: noop, result: 1 }, next: { arcs: [{ step: end }] } }
";
    assert_eq!(run_text(undeclared).result, parse_json("1"));
}

#[test]
fn final_step_runs_once_for_any_outcome() {
    let text = |command: &str, last: &str| {
        format!(
            r#"
executor: {{ spec: {{ final_step: cleanup }} }}
workflow:
  - {{ step: work, tool: {{ kind: shell, command: "{command}" }} }}
  - step: cleanup
    tool: {{ kind: shell, command: "{last}" }}
    set: {{ ctx.saw: "{{{{ event.name ~ ' ' ~ ctx.how }}}}" }}
    when: "{{{{ event.name == 'run.ending' and event.payload.status in ['COMPLETED', 'FAILED'] }}}}"
"#
        )
    };
    let good = run_text(&text("ok 1", "ok 2"));
    assert_eq!((good.status, good.result.clone()), (ExecutionStatus::Completed, parse_json("2")));
    assert_eq!(entered_steps(&good), ["work", "cleanup"]);
    assert_eq!(skipped_steps(&good), [""; 0]);
    let bad = run_text(&text("error parse", "ok 2"));
    assert_eq!((bad.status, bad.error_kind), (ExecutionStatus::Failed, Some(ErrorKind::Parse)));
    assert_eq!(entered_steps(&bad), ["work", "cleanup"]);
    assert_eq!(bad.steps["cleanup"].status, StepStatus::Completed);
    let both = run_text(&text("error parse", "error timeout"));
    assert_eq!(both.failed_steps, ["work".into(), "cleanup".into()]);
    assert_eq!(both.error_kind, Some(ErrorKind::Parse));
    let own = run_text(&text("ok 1", "error timeout"));
    assert_eq!((own.status, own.error_kind), (ExecutionStatus::Failed, Some(ErrorKind::Timeout)));
}

#[test]
fn broken_guard_fails_uncaught() {
    let result = run_text(
        r#"
workflow:
  - step: a
    when: "1 // 0"
    tool: { kind: noop }
    next: { arcs: [{ step: b, when: "event.name == 'call.error'" }] }
  - { step: b, tool: { kind: noop } }
"#,
    );
    let lines = format_history(&result);
    assert_eq!(lines, "playbook.started test\nstep.enter a\nstep.exit a\nplaybook.failed test\n");
    assert_eq!(result.error_kind, Some(ErrorKind::Template));
}

#[test]
fn broken_arc_or_set_fails_uncaught() {
    let result = |arc: &str, set: &str| {
        run_text(&format!(
            "workflow:\n  - step: a\n    tool: {{ kind: noop, set: {{ ctx.task: 1 }} }}\n    set: {{ ctx.step: {set} }}\n    next: {{ arcs: [{arc}, {{ step: c, when: \"event.name == 'call.error'\" }}] }}\n  - {{ step: b, tool: {{ kind: noop }} }}\n  - {{ step: c, tool: {{ kind: noop }} }}\n"
        ))
    };
    let broken = "\"{{ 1 // 0 }}\"";
    for (arc, set, ctx) in [
        (format!("{{ step: b, when: {broken} }}"), "2", r#"{"task":1,"step":2}"#),
        (format!("{{ step: b, set: {{ ctx.arc: {broken} }} }}"), "2", r#"{"task":1,"step":2}"#),
        ("{ step: b }".to_owned(), broken, r#"{"task":1}"#),
    ] {
        let result = result(&arc, set);
        assert_eq!(result.error_kind, Some(ErrorKind::Template), "{arc}");
        assert_eq!(result.ctx, parse_json(ctx), "{arc}");
        assert_eq!(entered_steps(&result), ["a"], "{arc}");
        assert_eq!(skipped_steps(&result), [""; 0], "{arc}");
    }
}

#[test]
fn step_passes_are_limited() {
    let result = run_text(
        r"
executor: { spec: { policy: { limits: { max_step_runs: 3 } } } }
workflow:
  - { step: a, tool: { kind: noop }, next: { arcs: [{ step: a }] } }
",
    );
    assert_eq!(
        (result.status, result.error_kind),
        (ExecutionStatus::Failed, Some(ErrorKind::Limit))
    );
    assert_eq!(entered_steps(&result).len(), 4);
    let guarded = run_text(
        r"
executor: { spec: { policy: { limits: { max_step_runs: 3 } } } }
workflow:
  - { step: a, when: false, tool: { kind: noop }, next: { arcs: [{ step: a }] } }
",
    );
    assert_eq!(guarded.error_kind, Some(ErrorKind::Limit));
    assert_eq!(skipped_steps(&guarded), ["a:guard"; 3]);
}

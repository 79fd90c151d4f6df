//! Skips, guards, admission, dead ends and the result of the run.

use noetl_types::ExecutionStatus;

use super::{assert_data, entered, json, run, skips, told};
use crate::{ErrorKind, StepStatus};

#[test]
fn steps_die_in_document_order_and_transitively() {
    let result = run(r#"
workflow:
  - { step: c, tool: { kind: noop }, next: { arcs: [{ step: d }] } }
  - { step: d, tool: { kind: noop } }
  - step: start
    tool: { kind: noop, result: 1 }
    next: { arcs: [{ step: a, when: "output == 1" }, { step: b }] }
  - { step: b, tool: { kind: noop }, next: { arcs: [{ step: c }] } }
  - { step: a, tool: { kind: noop } }
"#);
    assert_eq!(
        skips(&result),
        ["c:not_routed", "d:not_routed", "b:not_routed"]
    );
}

#[test]
fn the_exit_of_a_turning_cycle_is_not_skipped() {
    let result = run(r#"
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
"#);
    assert_eq!(
        entered(&result),
        ["poll", "again", "poll", "again", "poll", "done"]
    );
    assert_eq!(skips(&result), [""; 0]);
    assert_eq!(result.result, json("3"));
}

#[test]
fn what_the_entry_never_reaches_gets_no_event() {
    let result = run(r"
executor: { spec: { entry_step: work } }
workflow:
  - { step: alone, tool: { kind: noop }, next: { arcs: [{ step: work }] } }
  - { step: work, tool: { kind: noop } }
");
    assert_eq!(result.steps["alone"].status, StepStatus::Pending);
    assert_eq!(skips(&result), [""; 0]);
}

#[test]
fn a_false_guard_skips_the_step_and_its_set_and_follows_its_arcs() {
    let result = run(r#"
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
"#);
    assert_eq!(entered(&result), ["start", "skipped"]);
    assert_eq!(skips(&result), ["maybe:guard", "usual:not_routed"]);
    assert_eq!(result.ctx, json("{}"));
    assert_eq!(result.result, json(r#""here""#));
    assert_eq!(
        (result.steps["maybe"].runs, result.steps["maybe"].status),
        (0, StepStatus::Skipped)
    );
}

#[test]
fn a_skipped_run_leaves_earlier_data() {
    let result = run(r#"
workflow:
  - step: turn
    tool: { kind: noop }
    next: { arcs: [{ step: once }] }
  - step: once
    when: "not once"
    tool: { kind: noop, result: { n: 1 } }
    next: { arcs: [{ step: turn, when: "event.name == 'call.done'" }] }
"#);
    assert_eq!(entered(&result), ["turn", "once", "turn"]);
    assert_eq!(skips(&result), ["once:guard"]);
    assert_data(&result, "once", r#"{"n":1}"#);
}

#[test]
fn the_first_matching_admission_rule_decides() {
    let admitted = |rules: &str| {
        let text = format!(
            "workload: {{ n: 2 }}\nworkflow:\n  - step: a\n    spec: {{ policy: {{ admit: {{ rules: {rules} }} }} }}\n    tool: {{ kind: noop }}\n"
        );
        let result = run(&text);
        assert_eq!(
            skips(&result),
            if entered(&result).is_empty() {
                vec!["a:admission"]
            } else {
                vec![]
            }
        );
        !entered(&result).is_empty()
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
fn a_dead_end_completes_unless_the_playbook_says_otherwise() {
    let text = |executor: &str, spec: &str| {
        format!(
            "{executor}\nworkflow:\n  - step: a\n    tool: {{ kind: noop, result: 5 }}\n    set: {{ ctx.a: 1 }}\n    next: {{ spec: {{ {spec} }}, arcs: [{{ step: b, when: \"output > 9\" }}] }}\n  - {{ step: b, tool: {{ kind: noop }} }}\n"
        )
    };
    let quiet = run(&text("", ""));
    assert_eq!(
        (quiet.status, quiet.result.clone()),
        (ExecutionStatus::Completed, json("5"))
    );
    assert_eq!(skips(&quiet), ["b:not_routed"]);
    for strict in [
        text("", "on_no_match: error"),
        text("executor: { spec: { no_next_is_error: true } }", ""),
    ] {
        let result = run(&strict);
        assert_eq!(result.status, ExecutionStatus::Failed);
        assert_eq!(result.error_kind, Some(ErrorKind::Routing));
        assert_eq!(result.failed_steps, ["a".into()]);
        assert_eq!(skips(&result), [""; 0]);
        // The step's own writes were made before its arcs were looked at.
        assert_eq!(result.ctx, json(r#"{"a":1}"#));
        assert_data(&result, "a", "null");
    }
    let terminal = run(
        "executor: { spec: { no_next_is_error: true } }\nworkflow:\n  - { step: a, tool: { kind: noop } }\n",
    );
    assert_eq!(terminal.status, ExecutionStatus::Completed);
}

#[test]
fn the_result_is_that_of_the_final_step_or_the_end_or_the_last_dead_end() {
    let steps = "
workflow:
  - { step: start, tool: { kind: noop, result: 1 }, next: { spec: { mode: inclusive }, arcs: [{ step: end }, { step: b }] } }
  - { step: end, tool: { kind: noop, result: 2 } }
  - { step: b, tool: { kind: noop, result: 3 } }
  - { step: last, tool: { kind: noop, result: 4 } }
";
    assert_eq!(run(steps).result, json("2"));
    assert_eq!(
        run(&format!(
            "executor: {{ spec: {{ final_step: last }} }}{steps}"
        ))
        .result,
        json("4")
    );
    let without = steps.replace("step: end", "step: fin");
    assert_eq!(run(&without).result, json("3"));
    let undeclared = "
workflow:
  - { step: start, tool: { kind: noop, result: 1 }, next: { arcs: [{ step: end }] } }
";
    assert_eq!(run(undeclared).result, json("1"));
}

#[test]
fn the_final_step_runs_once_whichever_way_the_run_ends() {
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
    let good = run(&text("ok 1", "ok 2"));
    assert_eq!(
        (good.status, good.result.clone()),
        (ExecutionStatus::Completed, json("2"))
    );
    assert_eq!(entered(&good), ["work", "cleanup"]);
    assert_eq!(skips(&good), [""; 0]);
    let bad = run(&text("error parse", "ok 2"));
    assert_eq!(
        (bad.status, bad.error_kind),
        (ExecutionStatus::Failed, Some(ErrorKind::Parse))
    );
    assert_eq!(entered(&bad), ["work", "cleanup"]);
    assert_eq!(bad.steps["cleanup"].status, StepStatus::Completed);
    let both = run(&text("error parse", "error timeout"));
    assert_eq!(both.failed_steps, ["work".into(), "cleanup".into()]);
    assert_eq!(both.error_kind, Some(ErrorKind::Parse));
    let own = run(&text("ok 1", "error timeout"));
    assert_eq!(
        (own.status, own.error_kind),
        (ExecutionStatus::Failed, Some(ErrorKind::Timeout))
    );
}

#[test]
fn a_broken_guard_is_a_run_that_fails_uncaught() {
    let result = run(r#"
workflow:
  - step: a
    when: "1 // 0"
    tool: { kind: noop }
    next: { arcs: [{ step: b, when: "event.name == 'call.error'" }] }
  - { step: b, tool: { kind: noop } }
"#);
    let lines = told(&result);
    assert_eq!(
        lines,
        "playbook.started test\nstep.enter a\nstep.exit a\nplaybook.failed test\n"
    );
    assert_eq!(result.error_kind, Some(ErrorKind::Template));
}

#[test]
fn a_broken_arc_or_set_fails_its_step_uncaught() {
    let result = |arc: &str, set: &str| {
        run(&format!(
            "workflow:\n  - step: a\n    tool: {{ kind: noop, set: {{ ctx.task: 1 }} }}\n    set: {{ ctx.step: {set} }}\n    next: {{ arcs: [{arc}, {{ step: c, when: \"event.name == 'call.error'\" }}] }}\n  - {{ step: b, tool: {{ kind: noop }} }}\n  - {{ step: c, tool: {{ kind: noop }} }}\n"
        ))
    };
    let broken = "\"{{ 1 // 0 }}\"";
    for (arc, set, ctx) in [
        (
            format!("{{ step: b, when: {broken} }}"),
            "2",
            r#"{"task":1,"step":2}"#,
        ),
        (
            format!("{{ step: b, set: {{ ctx.arc: {broken} }} }}"),
            "2",
            r#"{"task":1,"step":2}"#,
        ),
        ("{ step: b }".to_owned(), broken, r#"{"task":1}"#),
    ] {
        let result = result(&arc, set);
        assert_eq!(result.error_kind, Some(ErrorKind::Template), "{arc}");
        assert_eq!(result.ctx, json(ctx), "{arc}");
        assert_eq!(entered(&result), ["a"], "{arc}");
        assert_eq!(skips(&result), [""; 0], "{arc}");
    }
}

#[test]
fn runs_are_bounded() {
    let result = run(r"
executor: { spec: { policy: { limits: { max_step_runs: 3 } } } }
workflow:
  - { step: a, tool: { kind: noop }, next: { arcs: [{ step: a }] } }
");
    assert_eq!(
        (result.status, result.error_kind),
        (ExecutionStatus::Failed, Some(ErrorKind::Limit))
    );
    assert_eq!(entered(&result).len(), 4);
    let guarded = run(r"
executor: { spec: { policy: { limits: { max_step_runs: 3 } } } }
workflow:
  - { step: a, when: false, tool: { kind: noop }, next: { arcs: [{ step: a }] } }
");
    assert_eq!(guarded.error_kind, Some(ErrorKind::Limit));
    assert_eq!(skips(&guarded), ["a:guard"; 3]);
}

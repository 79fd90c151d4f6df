//! Failures: kept data, catching arcs, and the end of the run without one.

use noetl_types::ExecutionStatus;

use super::{assert_data, entered_steps, format_history, parse_json, run_text, skipped_steps};
use crate::{ErrorKind, StepStatus};

#[test]
fn failure_evaluates_only_arcs_that_mention_it() {
    let run = |arcs: &str| {
        run_text(&format!(
            "workload: {{ n: 1 }}\nworkflow:\n  - step: a\n    tool: {{ kind: shell, command: 'error timeout {{\"n\": 7}}' }}\n    next: {{ spec: {{ mode: inclusive }}, arcs: {arcs} }}\n  - {{ step: b, tool: {{ kind: noop, result: \"{{{{ result.n }}}}\" }} }}\n  - {{ step: c, tool: {{ kind: noop }} }}\n"
        ))
    };
    for (arcs, caught) in [
        ("[{ step: b }]", false),
        ("[{ step: b, when: true }]", false),
        ("[{ step: b, when: \"n == 1\" }]", false),
        ("[{ step: b, when: \"{{ 'event error output' }}\" }]", false),
        ("[{ step: b, when: \"{{ error }}\" }]", true),
        ("[{ step: b, when: \"error.retryable\" }]", true),
        ("[{ step: b, when: \"error.kind == 'parse'\" }]", false),
        ("[{ step: b, when: \"output.n == 7\" }]", true),
        (
            "[{ step: b, when: \"output.status == 'error' and output.error.kind == 'timeout'\" }]",
            true,
        ),
        ("[{ step: b, when: \"{{ n == 1 and event.name != 'nothing' }}\" }]", true),
        ("[{ step: b, when: \"event.name == 'call.done'\" }]", false),
        ("[{ step: c }, { step: b, when: \"event.step == 'a' and error\" }]", true),
    ] {
        let result = run(arcs);
        let status = if caught { ExecutionStatus::Completed } else { ExecutionStatus::Failed };
        assert_eq!(result.status, status, "{arcs}");
        assert_eq!(result.steps["a"].error_kind, Some(ErrorKind::Timeout), "{arcs}");
        if caught {
            assert_eq!(entered_steps(&result), ["a", "b"], "{arcs}");
            assert_data(&result, "b", "7");
            let untaken = if arcs.contains("step: c") { vec!["c:not_routed"] } else { vec![] };
            assert_eq!(skipped_steps(&result), untaken, "{arcs}");
        } else {
            assert_eq!(
                (entered_steps(&result), skipped_steps(&result)),
                (vec!["a"], vec![]),
                "{arcs}"
            );
        }
    }
}

#[test]
fn failed_pipeline_keeps_results_and_names_task() {
    let result = run_text(
        r#"
workflow:
  - step: a
    tool:
      - { name: one, kind: noop, result: 1, set: { ctx.one: 1 } }
      - { name: two, kind: shell, command: "error parse 5", set: { ctx.two: 2 } }
      - { name: three, kind: noop }
    set: { ctx.step: 3 }
    next: { arcs: [{ step: b, when: "error.task == 'two'", set: { ctx.data: "{{ output }}" } }] }
  - { step: b, tool: { kind: noop } }
"#,
    );
    assert_eq!(entered_steps(&result), ["a", "b"]);
    assert_eq!(result.ctx, parse_json(r#"{"one":1,"data":{"one":1,"failed_task":"two"}}"#));
    assert_data(&result, "a", "null");
}

#[test]
fn uncaught_failure_only_finishes_open_commands() {
    let result = run_text(
        r#"
workflow:
  - step: start
    tool: { kind: noop }
    next: { spec: { mode: inclusive }, arcs: [{ step: bad }, { step: good }, { step: worse }] }
  - { step: bad, tool: { kind: shell, command: "error transform" } }
  - { step: good, tool: { kind: noop, result: 1 }, set: { ctx.good: 1 }, next: { arcs: [{ step: more }, { step: other }] } }
  - { step: worse, tool: { kind: shell, command: "error timeout" } }
  - { step: more, tool: { kind: noop } }
  - { step: other, tool: { kind: noop } }
"#,
    );
    let history = format_history(&result);
    let from_bad = history.split_once("command.claimed bad\n").unwrap().1;
    let expected = "command.started bad\ncall.error bad\ncommand.failed bad\nstep.exit bad\n\
        W good\nctx.updated good\nstep.exit good\n\
        command.claimed worse\ncommand.started worse\ncall.error worse\ncommand.failed worse\nstep.exit worse\n\
        playbook.failed test\n";
    assert_eq!(from_bad, expected);
    assert_eq!(result.failed_steps, ["bad".into(), "worse".into()]);
    assert_eq!(result.error_kind, Some(ErrorKind::Transform));
    assert_eq!(result.steps["good"].status, StepStatus::Completed);
    assert_eq!(result.steps["more"].status, StepStatus::Pending);
    assert_eq!(skipped_steps(&result), [""; 0]);
}

#[test]
fn caught_failure_keeps_earlier_data() {
    let result = run_text(
        r#"
workflow:
  - step: a
    tool: { kind: shell, command: "{{ 'error lost' if ctx.n else 'ok 1' }}" }
    next:
      arcs:
        - { step: a, when: "not ctx.n", set: { ctx.n: 1 } }
        - { step: b, when: "event.name == 'call.error'" }
  - { step: b, tool: { kind: noop, result: { a: "{{ a }}", status: "{{ steps.a.status }}", kind: "{{ steps.a.error.kind }}", run: "{{ steps.a.run }}" } } }
"#,
    );
    assert_data(&result, "b", r#"{"a":1,"status":"FAILED","kind":"lost","run":2}"#);
    assert_eq!(result.status, ExecutionStatus::Completed);
}

#[test]
fn broken_task_template_fails_task() {
    let result = run_text(
        r#"
workflow:
  - step: a
    tool: { kind: noop, result: "{{ 1 // 0 }}" }
    next: { arcs: [{ step: b, when: "error.kind == 'template'" }] }
  - { step: b, tool: { kind: noop, input: { k: "{{ 1 // 0 }}" }, spec: { policy: { rules: [{ else: { do: continue } }] } } } }
"#,
    );
    assert_eq!(entered_steps(&result), ["a", "b"]);
    assert_eq!(result.status, ExecutionStatus::Completed);
    assert_data(&result, "b", "null");
}

#[test]
fn waiting_steps_are_not_entered_after_failure() {
    let result = run_text(
        r#"
executor: { spec: { final_step: cleanup } }
workflow:
  - step: start
    tool: { kind: noop }
    next: { spec: { mode: inclusive }, arcs: [{ step: good }, { step: bad }] }
  - { step: good, tool: { kind: noop }, next: { arcs: [{ step: merge }] } }
  - { step: bad, tool: { kind: shell, command: "error transform" }, next: { arcs: [{ step: merge }] } }
  - { step: merge, tool: { kind: noop } }
  - { step: cleanup, tool: { kind: noop } }
"#,
    );
    assert_eq!(entered_steps(&result), ["start", "good", "bad", "cleanup"]);
    assert_eq!(result.steps["merge"].status, StepStatus::Pending);
}

//! The worked examples of the language, event by event.

use noetl_types::ExecutionStatus;

use super::{assert_data, format_history, parse_json, run_text, run_with_outcomes, skipped_steps};
use crate::{ErrorKind, StepStatus, TaskCall, TaskError, ToolAnswer};

#[track_caller]
fn assert_history(result: &crate::RunResult, expected: &str) {
    let lines = |text: &str| text.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>();
    assert_eq!(lines(&format_history(result)), lines(expected.trim()));
}

#[test]
fn runs_linear_workflow() {
    let result = run_text(
        r#"
workflow:
  - step: start
    tool: { kind: noop, result: { n: 2 } }
    set: { ctx.n: "{{ output.n }}" }
    next: { arcs: [{ step: work }] }
  - { step: work, tool: { kind: noop, result: "{{ ctx.n + 1 }}" } }
"#,
    );
    assert_history(
        &result,
        "playbook.started test
         step.enter start
         command.issued start
         W start
         ctx.updated start
         step.exit start
         step.enter work
         command.issued work
         W work
         step.exit work
         playbook.completed test",
    );
    assert_eq!(result.status, ExecutionStatus::Completed);
    assert_eq!(result.result, parse_json("3"));
    assert_eq!(result.ctx, parse_json(r#"{"n":2}"#));
    assert_data(&result, "start", r#"{"n":2}"#);
}

#[test]
fn takes_conditional_arc() {
    let result = run_text(
        r#"
workflow:
  - step: start
    tool: { kind: noop, result: { n: 12 } }
    next:
      arcs:
        - { step: big, when: "{{ output.n > 10 }}", set: { ctx.size: big } }
        - { step: small }
  - { step: big, tool: { kind: noop }, next: { arcs: [{ step: done }] } }
  - { step: small, tool: { kind: noop }, next: { arcs: [{ step: done }] } }
  - { step: done, tool: { kind: noop } }
"#,
    );
    assert_history(
        &result,
        "playbook.started test
         step.enter start
         command.issued start
         W start
         step.exit start
         step.skipped small
         ctx.updated start
         step.enter big
         command.issued big
         W big
         step.exit big
         step.enter done
         command.issued done
         W done
         step.exit done
         playbook.completed test",
    );
    assert_eq!(skipped_steps(&result), ["small:not_routed"]);
    assert_eq!(result.ctx, parse_json(r#"{"size":"big"}"#));
}

#[test]
fn joins_inclusive_fan_out() {
    let result = run_text(
        r"
workflow:
  - step: start
    tool: { kind: noop }
    next: { spec: { mode: inclusive }, arcs: [{ step: a }, { step: b }] }
  - { step: a, tool: { kind: noop }, next: { arcs: [{ step: merge }] } }
  - { step: b, tool: { kind: noop }, next: { arcs: [{ step: merge }] } }
  - { step: merge, tool: { kind: noop, result: 1 } }
",
    );
    assert_history(
        &result,
        "playbook.started test
         step.enter start
         command.issued start
         W start
         step.exit start
         step.enter a
         command.issued a
         step.enter b
         command.issued b
         W a
         step.exit a
         W b
         step.exit b
         step.enter merge
         command.issued merge
         W merge
         step.exit merge
         playbook.completed test",
    );
    assert_eq!(result.steps["merge"].runs, 1);
}

#[test]
fn runs_parallel_loop() {
    let result = run_text(
        r#"
workflow:
  - step: each
    loop: { in: [1, 2, 3], iterator: x, spec: { mode: parallel, max_in_flight: 2 } }
    tool: { kind: noop, result: "{{ x * 10 }}" }
"#,
    );
    assert_history(
        &result,
        "playbook.started test
         step.enter each
         command.issued each[0]
         command.issued each[1]
         W each[0]
         command.issued each[2]
         W each[1]
         W each[2]
         loop.done each
         step.exit each
         playbook.completed test",
    );
    let data =
        r#"{"results":[10,20,30],"data":[10,20,30],"stats":{"total":3,"success":3,"failed":0}}"#;
    assert_data(&result, "each", data);
    assert_eq!(result.result, parse_json(data));
}

#[test]
fn succeeds_after_retries() {
    let server = |call: &TaskCall<'_>| {
        if call.attempt == 1 {
            ToolAnswer::Error(TaskError::new(ErrorKind::ServerError, "HTTP 503 response"))
        } else {
            ToolAnswer::Ok(parse_json(r#"{"status_code":200}"#))
        }
    };
    let result = run_with_outcomes(
        r#"
workflow:
  - step: get
    tool:
      kind: http
      url: "http://localhost/"
      spec:
        policy:
          rules:
            - when: "{{ output.error.retryable }}"
              then: { do: retry, attempts: 3, backoff: fixed, delay: 0.1 }
"#,
        &server,
    );
    assert_history(
        &result,
        "playbook.started test
         step.enter get
         command.issued get
         command.claimed get
         command.started get
         call.error get
         call.done get
         command.completed get
         step.exit get
         playbook.completed test",
    );
    assert_data(&result, "get", r#"{"status_code":200}"#);
}

#[test]
fn arc_catches_failure() {
    let shell = |call: &TaskCall<'_>| {
        assert_eq!((call.step, call.attempt, call.visit), ("charge", 1, 1));
        ToolAnswer::Error(TaskError {
            code: parse_json("3"),
            ..TaskError::new(ErrorKind::Transform, "exit code 3")
        })
    };
    let result = run_with_outcomes(
        r#"
workflow:
  - step: charge
    tool: { kind: shell, command: "exit 3" }
    next:
      arcs:
        - { step: refund, when: "{{ event.name == 'call.error' }}" }
        - { step: ship }
  - { step: refund, tool: { kind: noop } }
  - { step: ship, tool: { kind: noop } }
"#,
        &shell,
    );
    assert_history(
        &result,
        "playbook.started test
         step.enter charge
         command.issued charge
         command.claimed charge
         command.started charge
         call.error charge
         command.failed charge
         step.exit charge
         step.skipped ship
         step.enter refund
         command.issued refund
         W refund
         step.exit refund
         playbook.completed test",
    );
    assert_eq!(result.status, ExecutionStatus::Completed);
    assert_eq!(result.error_kind, None);
    assert_eq!(result.failed_steps.len(), 0);
    assert_eq!(result.steps["charge"].status, StepStatus::Failed);
    assert_eq!(result.steps["charge"].error_kind, Some(ErrorKind::Transform));
    assert_eq!(result.steps["ship"].status, StepStatus::Skipped);
}

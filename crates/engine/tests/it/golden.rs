//! Complete event log of each construct. Each snapshot was reviewed against the language reference.
//! A changed snapshot is a change of the log format.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use noetl_engine::event::TimerId;
use noetl_engine::{DecisionError, EngineInput, InputVerdict};
use noetl_testkit::sim::{SimulatedCall, Simulation, ToolBehavior};
use noetl_types::json::parse;
use noetl_types::{ErrorCode, ExecutionStatus, Json, Millis, TaskError, TaskErrorKind};

fn parse_json(text: &str) -> Json {
    parse(text.as_bytes()).unwrap()
}

fn fail_task() -> ToolBehavior {
    ToolBehavior::failure(TaskErrorKind::Transform, "boom")
}

#[test]
fn linear_workflow() {
    let sim = Simulation::from_body(
        r#"
workflow:
  - step: start
    tool: { kind: noop, result: { n: 2 } }
    set: { ctx.n: "{{ output.n }}" }
    next: { arcs: [{ step: work }] }
  - { step: work, tool: { kind: noop, result: "{{ ctx.n + 1 }}" } }
"#,
    )
    .run();
    insta::assert_snapshot!(sim.format_log());
    assert_eq!(sim.status(), ExecutionStatus::Completed);
}

#[test]
fn conditional_arcs() {
    let sim = Simulation::from_body(
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
    )
    .run();
    insta::assert_snapshot!(sim.format_log());
}

#[test]
fn inclusive_fan_out_and_join() {
    let sim = Simulation::from_body(
        r"
workflow:
  - step: start
    tool: { kind: noop }
    next: { spec: { mode: inclusive }, arcs: [{ step: a }, { step: b }] }
  - { step: a, tool: { kind: noop }, next: { arcs: [{ step: merge }] } }
  - { step: b, tool: { kind: noop }, next: { arcs: [{ step: merge }] } }
  - { step: merge, tool: { kind: noop } }
",
    )
    .run();
    insta::assert_snapshot!(sim.format_log());
}

#[test]
fn parallel_loop() {
    let sim = Simulation::from_body(
        r#"
workflow:
  - step: each
    loop: { in: [1, 2, 3], iterator: x, spec: { mode: parallel, max_in_flight: 2 } }
    tool: { kind: noop, result: "{{ x * 10 }}" }
"#,
    )
    .run();
    insta::assert_snapshot!(sim.format_log());
}

#[test]
fn retry_then_success() {
    let sim = Simulation::from_body(
        r#"
workflow:
  - step: get
    tool:
      kind: http
      url: http://localhost/x
      spec:
        policy:
          rules:
            - when: "{{ output.error.retryable }}"
              then: { do: retry, attempts: 3, backoff: fixed, delay: 0.1 }
"#,
    )
    .with_tools(|call| {
        if call.attempt > 1 {
            return ToolBehavior::Ok(parse_json(r#"{"status_code":200,"data":"hello"}"#));
        }
        let mut error = TaskError::new(TaskErrorKind::ServerError, "HTTP 503 response");
        error.status = Some(503);
        error.code = Some(Json::from(503));
        ToolBehavior::Fail(Box::new(error), parse_json(r#"{"status_code":503}"#))
    })
    .run();
    insta::assert_snapshot!(sim.format_log());
}

const CHARGE_PLAYBOOK: &str = r#"
workflow:
  - step: charge
    tool: { kind: shell, command: exit 3 }
    next:
      arcs:
        - { step: refund, when: "{{ event.name == 'call.error' }}" }
        - { step: ship }
  - { step: refund, tool: { kind: noop } }
  - { step: ship, tool: { kind: noop } }
"#;

fn fail_with_exit_3(call: &SimulatedCall<'_>) -> ToolBehavior {
    if call.step != "charge" {
        return ToolBehavior::Configured;
    }
    let mut error = TaskError::new(TaskErrorKind::Transform, "exit code 3");
    error.code = Some(Json::from(3));
    ToolBehavior::Fail(Box::new(error), parse_json(r#"{"exit_code":3,"stderr":"","stdout":""}"#))
}

#[test]
fn caught_failure() {
    let sim = Simulation::from_body(CHARGE_PLAYBOOK).with_tools(fail_with_exit_3).run();
    insta::assert_snapshot!(sim.format_log());
    assert_eq!(sim.status(), ExecutionStatus::Completed);
}

#[test]
fn guard_false_and_admission_denied() {
    let sim = Simulation::from_body(
        r#"
workload: { go: no }
workflow:
  - { step: start, tool: { kind: noop, result: 1 }, next: { arcs: [{ step: guarded }] } }
  - step: guarded
    when: "{{ workload.go }}"
    tool: { kind: noop }
    set: { ctx.never: 1 }
    next: { arcs: [{ step: denied, when: "{{ event.name == 'step.skipped' }}", set: { ctx.past: "{{ event.step }}" } }, { step: other }] }
  - step: denied
    spec: { policy: { admit: { rules: [{ when: "{{ ctx.past == 'guarded' }}", then: { allow: false } }, { else: { then: { allow: true } } }] } } }
    tool: { kind: noop }
    next: { arcs: [{ step: last }] }
  - { step: other, tool: { kind: noop } }
  - { step: last, tool: { kind: noop, result: "{{ ctx.past }}" } }
"#,
    )
    .run();
    insta::assert_snapshot!(sim.format_log());
}

#[test]
fn sequential_loop() {
    let sim = Simulation::from_body(
        r#"
workload: { sum: 0 }
workflow:
  - step: add
    loop: { in: "{{ [1, 2] }}", iterator: n }
    tool: { kind: noop, result: "{{ ctx.sum + n }}", set: { ctx.sum: "{{ output }}" } }
    set: { ctx.count: "{{ output.stats.total }}" }
"#,
    )
    .run();
    insta::assert_snapshot!(sim.format_log());
}

#[test]
fn empty_loop() {
    let sim = Simulation::from_body(
        r#"
workflow:
  - step: each
    loop: { in: "{{ workload.missing | default([]) }}", iterator: x, spec: { mode: parallel } }
    tool: { kind: noop }
    next: { arcs: [{ step: after, when: "{{ event.name == 'loop.done' and output.results == [] }}" }] }
  - { step: after, tool: { kind: noop } }
"#,
    )
    .run();
    insta::assert_snapshot!(sim.format_log());
}

#[test]
fn failed_iteration_stops_loop() {
    let mut sim =
        Simulation::from_body(
            r#"
workflow:
  - step: each
    loop: { in: 5, iterator: i, spec: { mode: parallel, max_in_flight: 3 } }
    tool: { kind: noop, result: "{{ i }}" }
"#,
        )
        .with_tools(|call| {
            if call.index == Some(1) { fail_task() } else { ToolBehavior::Configured }
        });
    sim.start().unwrap();
    // The second of three fails. The first and the third finish, and the others are never issued.
    let leases: Vec<_> =
        sim.available_commands().iter().map(|id| sim.clone().lease_command(*id, "w1")).collect();
    for index in [1, 2, 0] {
        let report = sim.execute_lease(&leases[index]).unwrap();
        sim.submit_report(report).unwrap();
    }
    insta::assert_snapshot!(sim.format_log());
}

#[test]
fn best_effort_loop_continues_after_failure() {
    let sim = Simulation::from_body(
        r#"
workflow:
  - step: each
    spec: { policy: { failure: { mode: best_effort } } }
    loop: { in: 3, iterator: i, spec: { mode: parallel } }
    tool: { kind: noop, result: "{{ i }}" }
    next: { arcs: [{ step: after, when: "{{ output.stats.failed == 1 }}" }] }
  - { step: after, tool: { kind: noop, result: "{{ each.errors[0].index }}" } }
"#,
    )
    .with_tools(|call| if call.index == Some(1) { fail_task() } else { ToolBehavior::Configured })
    .run();
    insta::assert_snapshot!(sim.format_log());
}

#[test]
fn worker_lost_once() {
    let sim = Simulation::from_body("workflow: [{ step: a, tool: { kind: noop, result: 1 } }]")
        .with_tools(|call| {
            if call.command_attempt == 1 { ToolBehavior::Lost } else { ToolBehavior::Configured }
        })
        .run();
    insta::assert_snapshot!(sim.format_log());
}

#[test]
fn worker_lost_for_good() {
    let sim = Simulation::from_body("workflow: [{ step: a, tool: { kind: noop, result: 1 } }]")
        .with_tools(|_| ToolBehavior::Lost)
        .run();
    insta::assert_snapshot!(sim.format_log());
    assert_eq!(sim.status(), ExecutionStatus::Failed);
}

#[test]
fn late_result_is_ignored() {
    let mut sim = Simulation::from_body("workflow: [{ step: a, tool: { kind: noop, result: 1 } }]");
    sim.start().unwrap();
    let lost = sim.lease_command(sim.available_commands()[0], "w1");
    let late = sim.execute_lease(&lost).unwrap();
    sim.expire_lease(&lost).unwrap();
    let stale = Ok(InputVerdict::Ignored(ErrorCode::StaleAttempt));
    assert_eq!(sim.submit_report(late.clone()), stale);
    sim.advance_clock(Millis::from_secs(1));
    sim.run_to_end();
    assert_eq!(sim.submit_report(late), Ok(InputVerdict::Duplicate));
    insta::assert_snapshot!(sim.format_log());
}

const SLOW_PLAYBOOK: &str = r#"
executor: { spec: { timeout: 1h } }
workflow:
  - step: slow
    spec: { timeout: 10s }
    loop: { in: 3, iterator: i, spec: { mode: parallel, max_in_flight: 2 } }
    tool: { kind: shell, command: sleep 60 }
    next: { arcs: [{ step: next }, { step: rescue, when: "{{ error.kind == 'timeout' }}" }] }
  - { step: next, tool: { kind: noop } }
  - { step: rescue, tool: { kind: noop, result: "{{ steps.slow.error.kind }}" } }
"#;

#[test]
fn step_timeout_caught() {
    let mut sim = Simulation::from_body(SLOW_PLAYBOOK);
    sim.start().unwrap();
    let step = TimerId::Step { step: "slow".parse().unwrap(), run: 1 };
    assert_eq!(sim.open_timers(), [TimerId::Execution, step.clone()]);
    let early = sim.decide(EngineInput::TimerFired(step));
    assert!(matches!(early, Err(DecisionError::NotDue { .. })));
    sim.advance_clock(Millis::from_secs(10));
    sim.fire_timers();
    sim.run_to_end();
    insta::assert_snapshot!(sim.format_log());
}

#[test]
fn execution_timeout() {
    let mut sim = Simulation::from_body(SLOW_PLAYBOOK);
    sim.start().unwrap();
    sim.advance_clock(Millis::from_hours(1));
    sim.decide(EngineInput::TimerFired(TimerId::Execution)).unwrap();
    insta::assert_snapshot!(sim.format_log());
    assert_eq!(sim.status(), ExecutionStatus::Failed);
}

#[test]
fn uncaught_failure_lets_open_work_finish() {
    let mut sim = Simulation::from_body(
        r#"
workflow:
  - step: start
    tool: { kind: noop }
    next: { spec: { mode: inclusive }, arcs: [{ step: bad }, { step: good }, { step: many }] }
  - { step: bad, tool: { kind: shell, command: "false" }, next: { arcs: [{ step: after }] } }
  - { step: good, tool: { kind: noop, result: 1 }, set: { ctx.good: 1 }, next: { arcs: [{ step: after }] } }
  - step: many
    loop: { in: 5, iterator: i, spec: { mode: parallel, max_in_flight: 2 } }
    tool: { kind: noop }
    next: { arcs: [{ step: after }] }
  - { step: after, tool: { kind: noop } }
"#,
    )
    .with_tools(|call| if call.step == "bad" { fail_task() } else { ToolBehavior::Configured });
    sim.start().unwrap();
    sim.run_to_end();
    insta::assert_snapshot!(sim.format_log());
    assert_eq!(sim.status(), ExecutionStatus::Failed);
}

#[test]
fn cancel_withdraws_open_commands() {
    let mut sim = Simulation::from_body(SLOW_PLAYBOOK);
    sim.start().unwrap();
    let lease = sim.lease_command(sim.available_commands()[0], "w1");
    let late = sim.execute_lease(&lease).unwrap();
    assert_eq!(sim.cancel_execution(), Ok(InputVerdict::Accepted));
    let ended = Ok(InputVerdict::Ignored(ErrorCode::AlreadyTerminal));
    assert_eq!(sim.submit_report(late), ended);
    assert_eq!(
        sim.cancel_execution(),
        Err(DecisionError::AlreadyEnded(ExecutionStatus::Cancelled))
    );
    insta::assert_snapshot!(sim.format_log());
}

#[test]
fn pause_defers_next_steps() {
    let mut sim = Simulation::from_body(
        r#"
workflow:
  - step: start
    tool: { kind: noop }
    next: { spec: { mode: inclusive }, arcs: [{ step: a }, { step: b }] }
  - { step: a, tool: { kind: noop, result: 1, set: { ctx.a: "{{ output }}" } }, next: { arcs: [{ step: c }] } }
  - { step: b, tool: { kind: noop, result: 2 }, next: { arcs: [{ step: d }] } }
  - { step: c, tool: { kind: noop } }
  - { step: d, tool: { kind: noop } }
"#,
    );
    sim.start().unwrap();
    sim.advance_once();
    let leases: Vec<_> =
        sim.available_commands().iter().map(|id| sim.clone().lease_command(*id, "w1")).collect();
    assert_eq!(sim.pause_execution(), Ok(InputVerdict::Accepted));
    assert_eq!(sim.pause_execution(), Err(DecisionError::Paused));
    assert!(sim.available_commands().is_empty());
    for lease in leases.iter().rev() {
        let report = sim.execute_lease(lease).unwrap();
        assert_eq!(sim.submit_report(report), Ok(InputVerdict::Accepted));
    }
    assert_eq!(sim.status(), ExecutionStatus::Paused);
    assert_eq!(sim.resume_execution(), Ok(InputVerdict::Accepted));
    assert_eq!(sim.resume_execution(), Err(DecisionError::NotPaused));
    sim.run_to_end();
    insta::assert_snapshot!(sim.format_log());
}

#[test]
fn timeout_that_passes_during_a_pause_fires_at_resume() {
    let mut sim = Simulation::from_body(SLOW_PLAYBOOK);
    sim.start().unwrap();
    sim.pause_execution().unwrap();
    sim.advance_clock(Millis::from_secs(20));
    let step = TimerId::Step { step: "slow".parse().unwrap(), run: 1 };
    assert_eq!(sim.decide(EngineInput::TimerFired(step)), Err(DecisionError::Paused));
    sim.resume_execution().unwrap();
    sim.fire_timers();
    sim.run_to_end();
    insta::assert_snapshot!(sim.format_log());
}

#[test]
fn lost_worker_during_a_pause() {
    let mut sim = Simulation::from_body("workflow: [{ step: a, tool: { kind: noop } }]")
        .with_tools(|_| ToolBehavior::Lost);
    sim.start().unwrap();
    for attempt in 1..=3 {
        let lease = sim.lease_command(sim.available_commands()[0], "w1");
        sim.pause_execution().unwrap();
        sim.expire_lease(&lease).unwrap();
        sim.advance_clock(Millis::from_secs(3));
        sim.resume_execution().unwrap();
        assert_eq!(sim.state().is_ended(), attempt == 3);
    }
    insta::assert_snapshot!(sim.format_log());
}

#[test]
fn broken_templates_fail_their_step_uncaught() {
    let playbooks = [
        "workflow: [{ step: a, when: '{{ 1 // 0 }}', tool: { kind: noop } }]",
        "workflow: [{ step: a, loop: { in: '{{ 1 // 0 }}', iterator: x }, tool: { kind: noop } }]",
        "workflow: [{ step: a, tool: { kind: noop }, set: { x: '{{ 1 // 0 }}' } }]",
        "workflow:\n  - { step: a, tool: { kind: noop }, next: { arcs: [{ step: b, when: '{{ 1 // 0 }}' }] } }\n  - { step: b, tool: { kind: noop } }",
        "workflow:\n  - { step: a, tool: { kind: noop }, next: { arcs: [{ step: b, set: { x: '{{ 1 // 0 }}' } }] } }\n  - { step: b, tool: { kind: noop } }",
        "workload: { x: '{{ 1 // 0 }}' }\nworkflow: [{ step: a, tool: { kind: noop } }]",
    ];
    let tables: Vec<String> =
        playbooks.iter().map(|body| Simulation::from_body(body).run().format_log()).collect();
    insta::assert_snapshot!(tables.join("\n"));
}

#[test]
fn broken_arc_does_not_catch() {
    let sim = Simulation::from_body(
        r#"
workflow:
  - step: a
    tool: { kind: shell, command: "false" }
    next: { arcs: [{ step: b, when: "{{ error.kind // 0 }}" }] }
  - { step: b, tool: { kind: noop } }
"#,
    )
    .with_tools(|_| fail_task())
    .run();
    insta::assert_snapshot!(sim.format_log());
}

#[test]
fn loop_over_non_iterable_can_be_caught() {
    let sim = Simulation::from_body(
        r#"
workflow:
  - step: each
    loop: { in: "{{ workload.nothing }}", iterator: x }
    tool: { kind: noop }
    next: { arcs: [{ step: ok }, { step: rescue, when: "{{ error.kind == 'schema' }}" }] }
  - { step: ok, tool: { kind: noop } }
  - { step: rescue, tool: { kind: noop } }
"#,
    )
    .run();
    insta::assert_snapshot!(sim.format_log());
}

#[test]
fn loop_over_undefined_name_suggests_members() {
    let sim = Simulation::from_body(
        r#"
workload: { shop: { orders: [1], "sp ace": 2 } }
workflow:
  - step: each
    loop: { in: "{{ workload.shop.items.all }}", iterator: x }
    tool: { kind: noop }
"#,
    )
    .run();
    insta::assert_snapshot!(sim.format_log());
}

#[test]
fn dead_end_fails_with_on_no_match_error() {
    let sim = Simulation::from_body(
        r#"
workflow:
  - step: a
    tool: { kind: noop }
    next: { spec: { on_no_match: error }, arcs: [{ step: b, when: "{{ false }}" }] }
  - { step: b, tool: { kind: noop } }
"#,
    )
    .run();
    insta::assert_snapshot!(sim.format_log());
}

#[test]
fn undeclared_end_only_ends_its_path() {
    let sim = Simulation::from_body(
        r"
workflow:
  - step: a
    tool: { kind: noop, result: 1 }
    next: { spec: { mode: inclusive }, arcs: [{ step: end }, { step: b }] }
  - { step: b, tool: { kind: noop, result: 2 }, next: { arcs: [{ step: end }] } }
",
    )
    .run();
    insta::assert_snapshot!(sim.format_log());
}

#[test]
fn cycle_with_exit_condition() {
    let sim = Simulation::from_body(
        r#"
workload: { n: 0 }
workflow:
  - step: count
    tool: { kind: noop, result: "{{ ctx.n + 1 }}" }
    set: { ctx.n: "{{ output }}" }
    next: { arcs: [{ step: count, when: "{{ ctx.n < 3 }}" }, { step: out }] }
  - { step: out, tool: { kind: noop, result: "{{ count }}" } }
"#,
    )
    .run();
    insta::assert_snapshot!(sim.format_log());
}

#[test]
fn step_pass_limit_fails_execution() {
    let sim = Simulation::from_body(
        r"
executor: { spec: { policy: { limits: { max_step_runs: 2 } } } }
workflow:
  - { step: a, tool: { kind: noop }, next: { arcs: [{ step: a }] } }
",
    )
    .run();
    insta::assert_snapshot!(sim.format_log());
}

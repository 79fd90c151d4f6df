//! The events of each construct, one for one. Each snapshot was read against the language: a change
//! of one is a change of what a log says.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use noetl_engine::event::TimerId;
use noetl_engine::{Input, Refused, Verdict};
use noetl_testkit::sim::{Call, Play, Sim};
use noetl_types::json::parse;
use noetl_types::{ErrorCode, ExecutionStatus, Json, Millis, TaskError, TaskErrorKind};

fn json(text: &str) -> Json {
    parse(text.as_bytes()).unwrap()
}

fn fail() -> Play {
    Play::fail(TaskErrorKind::Transform, "boom")
}

#[test]
fn a1_linear() {
    let sim = Sim::of(
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
    insta::assert_snapshot!(sim.table());
    assert_eq!(sim.status(), ExecutionStatus::Completed);
}

#[test]
fn a2_conditional() {
    let sim = Sim::of(
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
    insta::assert_snapshot!(sim.table());
}

#[test]
fn a3_inclusive_fan_out_and_join() {
    let sim = Sim::of(
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
    insta::assert_snapshot!(sim.table());
}

#[test]
fn a4_parallel_loop() {
    let sim = Sim::of(
        r#"
workflow:
  - step: each
    loop: { in: [1, 2, 3], iterator: x, spec: { mode: parallel, max_in_flight: 2 } }
    tool: { kind: noop, result: "{{ x * 10 }}" }
"#,
    )
    .run();
    insta::assert_snapshot!(sim.table());
}

#[test]
fn a5_retry_then_success() {
    let sim = Sim::of(
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
            return Play::Ok(json(r#"{"status_code":200,"data":"hello"}"#));
        }
        let mut error = TaskError::new(TaskErrorKind::ServerError, "HTTP 503 response");
        error.status = Some(503);
        error.code = Some(Json::from(503));
        Play::Fail(Box::new(error), json(r#"{"status_code":503}"#))
    })
    .run();
    insta::assert_snapshot!(sim.table());
}

const CHARGE: &str = r#"
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

fn exit_3(call: &Call<'_>) -> Play {
    if call.step != "charge" {
        return Play::AsWritten;
    }
    let mut error = TaskError::new(TaskErrorKind::Transform, "exit code 3");
    error.code = Some(Json::from(3));
    Play::Fail(
        Box::new(error),
        json(r#"{"exit_code":3,"stderr":"","stdout":""}"#),
    )
}

#[test]
fn a6_caught_failure() {
    let sim = Sim::of(CHARGE).with_tools(exit_3).run();
    insta::assert_snapshot!(sim.table());
    assert_eq!(sim.status(), ExecutionStatus::Completed);
}

#[test]
fn guard_false_and_admission_denied() {
    let sim = Sim::of(
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
    insta::assert_snapshot!(sim.table());
}

#[test]
fn sequential_loop() {
    let sim = Sim::of(
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
    insta::assert_snapshot!(sim.table());
}

#[test]
fn empty_loop() {
    let sim = Sim::of(
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
    insta::assert_snapshot!(sim.table());
}

#[test]
fn failed_iteration_fail_fast() {
    let mut sim = Sim::of(
        r#"
workflow:
  - step: each
    loop: { in: 5, iterator: i, spec: { mode: parallel, max_in_flight: 3 } }
    tool: { kind: noop, result: "{{ i }}" }
"#,
    )
    .with_tools(|call| {
        if call.index == Some(1) {
            fail()
        } else {
            Play::AsWritten
        }
    });
    sim.start().unwrap();
    // The second of three fails; the first and the third finish, the others are never issued.
    let leases: Vec<_> = sim
        .available()
        .iter()
        .map(|id| sim.clone().lease(*id, "w1"))
        .collect();
    for at in [1, 2, 0] {
        let report = sim.work(&leases[at]).unwrap();
        sim.report(report).unwrap();
    }
    insta::assert_snapshot!(sim.table());
}

#[test]
fn failed_iterations_best_effort() {
    let sim = Sim::of(
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
    .with_tools(|call| {
        if call.index == Some(1) {
            fail()
        } else {
            Play::AsWritten
        }
    })
    .run();
    insta::assert_snapshot!(sim.table());
}

#[test]
fn worker_lost_once() {
    let sim = Sim::of("workflow: [{ step: a, tool: { kind: noop, result: 1 } }]")
        .with_tools(|call| {
            if call.command_attempt == 1 {
                Play::Lost
            } else {
                Play::AsWritten
            }
        })
        .run();
    insta::assert_snapshot!(sim.table());
}

#[test]
fn worker_lost_for_good() {
    let sim = Sim::of("workflow: [{ step: a, tool: { kind: noop, result: 1 } }]")
        .with_tools(|_| Play::Lost)
        .run();
    insta::assert_snapshot!(sim.table());
    assert_eq!(sim.status(), ExecutionStatus::Failed);
}

#[test]
fn late_result_is_ignored() {
    let mut sim = Sim::of("workflow: [{ step: a, tool: { kind: noop, result: 1 } }]");
    sim.start().unwrap();
    let lost = sim.lease(sim.available()[0], "w1");
    let late = sim.work(&lost).unwrap();
    sim.expire(&lost).unwrap();
    let stale = Ok(Verdict::Ignored(ErrorCode::StaleAttempt));
    assert_eq!(sim.report(late.clone()), stale);
    sim.advance(Millis::from_secs(1));
    sim.finish();
    assert_eq!(sim.report(late), Ok(Verdict::Duplicate));
    insta::assert_snapshot!(sim.table());
}

const SLOW: &str = r#"
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
    let mut sim = Sim::of(SLOW);
    sim.start().unwrap();
    let step = TimerId::Step {
        step: "slow".parse().unwrap(),
        run: 1,
    };
    assert_eq!(sim.timers(), [TimerId::Execution, step.clone()]);
    let early = sim.decide(Input::TimerFired(step));
    assert!(matches!(early, Err(Refused::NotDue { .. })));
    sim.advance(Millis::from_secs(10));
    sim.fire_timers();
    sim.finish();
    insta::assert_snapshot!(sim.table());
}

#[test]
fn execution_timeout() {
    let mut sim = Sim::of(SLOW);
    sim.start().unwrap();
    sim.advance(Millis::from_hours(1));
    sim.decide(Input::TimerFired(TimerId::Execution)).unwrap();
    insta::assert_snapshot!(sim.table());
    assert_eq!(sim.status(), ExecutionStatus::Failed);
}

#[test]
fn uncaught_failure_lets_open_work_finish() {
    let mut sim = Sim::of(
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
    .with_tools(|call| if call.step == "bad" { fail() } else { Play::AsWritten });
    sim.start().unwrap();
    sim.finish();
    insta::assert_snapshot!(sim.table());
    assert_eq!(sim.status(), ExecutionStatus::Failed);
}

#[test]
fn cancel() {
    let mut sim = Sim::of(SLOW);
    sim.start().unwrap();
    let lease = sim.lease(sim.available()[0], "w1");
    let late = sim.work(&lease).unwrap();
    assert_eq!(sim.cancel(), Ok(Verdict::Accepted));
    let ended = Ok(Verdict::Ignored(ErrorCode::AlreadyTerminal));
    assert_eq!(sim.report(late), ended);
    assert_eq!(
        sim.cancel(),
        Err(Refused::AlreadyEnded(ExecutionStatus::Cancelled))
    );
    insta::assert_snapshot!(sim.table());
}

#[test]
fn pause_holds_consequences_back() {
    let mut sim = Sim::of(
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
    sim.step();
    let leases: Vec<_> = sim
        .available()
        .iter()
        .map(|id| sim.clone().lease(*id, "w1"))
        .collect();
    assert_eq!(sim.pause(), Ok(Verdict::Accepted));
    assert_eq!(sim.pause(), Err(Refused::Paused));
    assert!(sim.available().is_empty());
    for lease in leases.iter().rev() {
        let report = sim.work(lease).unwrap();
        assert_eq!(sim.report(report), Ok(Verdict::Accepted));
    }
    assert_eq!(sim.status(), ExecutionStatus::Paused);
    assert_eq!(sim.resume(), Ok(Verdict::Accepted));
    assert_eq!(sim.resume(), Err(Refused::NotPaused));
    sim.finish();
    insta::assert_snapshot!(sim.table());
}

#[test]
fn timeout_that_passes_during_a_pause_fires_at_resume() {
    let mut sim = Sim::of(SLOW);
    sim.start().unwrap();
    sim.pause().unwrap();
    sim.advance(Millis::from_secs(20));
    let step = TimerId::Step {
        step: "slow".parse().unwrap(),
        run: 1,
    };
    assert_eq!(sim.decide(Input::TimerFired(step)), Err(Refused::Paused));
    sim.resume().unwrap();
    sim.fire_timers();
    sim.finish();
    insta::assert_snapshot!(sim.table());
}

#[test]
fn lost_worker_during_a_pause() {
    let mut sim =
        Sim::of("workflow: [{ step: a, tool: { kind: noop } }]").with_tools(|_| Play::Lost);
    sim.start().unwrap();
    for attempt in 1..=3 {
        let lease = sim.lease(sim.available()[0], "w1");
        sim.pause().unwrap();
        sim.expire(&lease).unwrap();
        sim.advance(Millis::from_secs(3));
        sim.resume().unwrap();
        assert_eq!(sim.state().is_ended(), attempt == 3);
    }
    insta::assert_snapshot!(sim.table());
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
    let tables: Vec<String> = playbooks
        .iter()
        .map(|body| Sim::of(body).run().table())
        .collect();
    insta::assert_snapshot!(tables.join("\n"));
}

#[test]
fn broken_arc_does_not_catch() {
    let sim = Sim::of(
        r#"
workflow:
  - step: a
    tool: { kind: shell, command: "false" }
    next: { arcs: [{ step: b, when: "{{ error.kind // 0 }}" }] }
  - { step: b, tool: { kind: noop } }
"#,
    )
    .with_tools(|_| fail())
    .run();
    insta::assert_snapshot!(sim.table());
}

#[test]
fn loop_over_what_is_not_iterable_may_be_caught() {
    let sim = Sim::of(
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
    insta::assert_snapshot!(sim.table());
}

#[test]
fn loop_over_a_name_that_leads_nowhere_says_what_is_there() {
    let sim = Sim::of(
        r#"
workload: { shop: { orders: [1], "sp ace": 2 } }
workflow:
  - step: each
    loop: { in: "{{ workload.shop.items.all }}", iterator: x }
    tool: { kind: noop }
"#,
    )
    .run();
    insta::assert_snapshot!(sim.table());
}

#[test]
fn dead_end_is_a_failure_where_told() {
    let sim = Sim::of(
        r#"
workflow:
  - step: a
    tool: { kind: noop }
    next: { spec: { on_no_match: error }, arcs: [{ step: b, when: "{{ false }}" }] }
  - { step: b, tool: { kind: noop } }
"#,
    )
    .run();
    insta::assert_snapshot!(sim.table());
}

#[test]
fn undeclared_end_only_ends_its_path() {
    let sim = Sim::of(
        r"
workflow:
  - step: a
    tool: { kind: noop, result: 1 }
    next: { spec: { mode: inclusive }, arcs: [{ step: end }, { step: b }] }
  - { step: b, tool: { kind: noop, result: 2 }, next: { arcs: [{ step: end }] } }
",
    )
    .run();
    insta::assert_snapshot!(sim.table());
}

#[test]
fn cycle_with_a_way_out() {
    let sim = Sim::of(
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
    insta::assert_snapshot!(sim.table());
}

#[test]
fn too_many_runs_of_a_step() {
    let sim = Sim::of(
        r"
executor: { spec: { policy: { limits: { max_step_runs: 2 } } } }
workflow:
  - { step: a, tool: { kind: noop }, next: { arcs: [{ step: a }] } }
",
    )
    .run();
    insta::assert_snapshot!(sim.table());
}

//! One run per construct of the language.

use noetl_engine::event::TimerId;
use noetl_engine::{ApprovalChoice, ChildOutcome, EngineInput, EventData};
use noetl_testkit::sim::{ExternalResponse, Simulation, ToolBehavior};
use noetl_types::json::parse;
use noetl_types::{Json, Millis, TaskErrorKind};

fn fail_task() -> ToolBehavior {
    ToolBehavior::failure(TaskErrorKind::Transform, "boom")
}

fn started_sim(body: &str) -> Simulation {
    let mut sim = Simulation::from_body(body);
    sim.start().unwrap();
    sim
}

pub(crate) fn all_runs() -> Vec<(&'static str, Simulation)> {
    let mut runs = graph_runs();
    runs.extend(data_runs());
    runs.extend(loop_runs());
    runs.extend(failure_runs());
    runs.extend(control_runs());
    runs.extend(wait_runs());
    runs
}

fn graph_runs() -> Vec<(&'static str, Simulation)> {
    let run = |body: &str| Simulation::from_body(body).run();
    vec![
        (
            "linear",
            run(r#"
workflow:
  - { step: start, tool: { kind: noop, result: { n: 2 } }, set: { ctx.n: "{{ output.n }}" }, next: { arcs: [{ step: work }] } }
  - { step: work, tool: { kind: noop, result: "{{ ctx.n + 1 }}" } }
"#),
        ),
        (
            "conditional",
            run(r#"
workflow:
  - { step: start, tool: { kind: noop, result: { n: 12 } }, next: { arcs: [{ step: big, when: "{{ output.n > 10 }}", set: { ctx.size: big } }, { step: small }] } }
  - { step: big, tool: { kind: noop } }
  - { step: small, tool: { kind: noop } }
"#),
        ),
        (
            "fan_out_and_join",
            run(r"
workflow:
  - { step: start, tool: { kind: noop }, next: { spec: { mode: inclusive }, arcs: [{ step: a }, { step: b }] } }
  - { step: a, tool: { kind: noop }, next: { arcs: [{ step: merge }] } }
  - { step: b, tool: { kind: noop }, next: { arcs: [{ step: merge }] } }
  - { step: merge, tool: { kind: noop } }
"),
        ),
        (
            "guard_and_admission",
            run(r#"
workload: { go: no }
workflow:
  - { step: guarded, when: "{{ workload.go }}", tool: { kind: noop }, next: { arcs: [{ step: denied }] } }
  - step: denied
    spec: { policy: { admit: { rules: [{ else: { then: { allow: false } } }] } } }
    tool: { kind: noop }
    next: { arcs: [{ step: last }] }
  - { step: last, tool: { kind: noop } }
"#),
        ),
        (
            "cycle",
            run(r#"
workload: { n: 0 }
workflow:
  - step: count
    tool: { kind: noop, result: "{{ ctx.n + 1 }}" }
    set: { ctx.n: "{{ output }}" }
    next: { arcs: [{ step: count, when: "{{ ctx.n < 3 }}" }, { step: out }] }
  - { step: out, tool: { kind: noop, result: "{{ count }}" } }
"#),
        ),
    ]
}

fn data_runs() -> Vec<(&'static str, Simulation)> {
    let run = |body: &str| Simulation::from_body(body).run();
    vec![
        (
            "pipeline",
            run(r#"
workflow:
  - step: both
    tool:
      - { name: a, kind: noop, result: { n: 1 }, set: { x: "{{ output.n + 1 }}" } }
      - { name: b, kind: noop, result: "{{ a.n + x }}" }
"#),
        ),
        (
            "by_reference",
            Simulation::from_body(
                r#"
workflow:
  - { step: load, tool: { kind: http, url: http://localhost/x }, next: { arcs: [{ step: use }] } }
  - { step: use, tool: { kind: noop, result: "{{ load | length }}" } }
"#,
            )
            .with_tools(|call| match call.step {
                "load" => ToolBehavior::Ok(Json::list((0..20_000).map(Json::from))),
                _ => ToolBehavior::Configured,
            })
            .run(),
        ),
        (
            "numbers",
            run(r#"
workflow:
  - { step: a, tool: { kind: noop, result: { big: 9007199254740993, small: 1.0e-7, half: 0.5, text: "ünï\u0001code", none: null } } }
"#),
        ),
    ]
}

fn loop_runs() -> Vec<(&'static str, Simulation)> {
    let run = |body: &str| Simulation::from_body(body).run();
    vec![
        ("parallel_loop", run(r#"
workflow:
  - { step: each, loop: { in: [1, 2, 3], iterator: x, spec: { mode: parallel, max_in_flight: 2 } }, tool: { kind: noop, result: "{{ x * 10 }}" } }
"#)),
        ("sequential_loop", run(r#"
workload: { sum: 0 }
workflow:
  - { step: add, loop: { in: "{{ [1, 2] }}", iterator: n }, tool: { kind: noop, result: "{{ ctx.sum + n }}", set: { ctx.sum: "{{ output }}" } } }
"#)),
        ("empty_loop", run(r#"
workflow:
  - { step: each, loop: { in: "{{ [] }}", iterator: x }, tool: { kind: noop }, next: { arcs: [{ step: after }] } }
  - { step: after, tool: { kind: noop } }
"#)),
        ("cursor_loop", run(r#"
workflow:
  - step: each
    loop: { cursor: { claim: "rows 5" }, iterator: row, spec: { mode: cursor, max_in_flight: 2, frame: { max_rows: 2 } } }
    tool: { kind: noop, result: "{{ row.id }}" }
"#)),
        ("loop_best_effort", Simulation::from_body(r#"
workflow:
  - step: each
    spec: { policy: { failure: { mode: best_effort } } }
    loop: { in: 3, iterator: i, spec: { mode: parallel } }
    tool: { kind: noop, result: "{{ i }}" }
"#).with_tools(|call| if call.index == Some(1) { fail_task() } else { ToolBehavior::Configured }).run()),
        ("loop_fail_fast", Simulation::from_body(r#"
workflow:
  - { step: each, loop: { in: 4, iterator: i, spec: { mode: parallel, max_in_flight: 2 } }, tool: { kind: noop, result: "{{ i }}" } }
"#).with_tools(|call| if call.index == Some(1) { fail_task() } else { ToolBehavior::Configured }).run()),
    ]
}

fn failure_runs() -> Vec<(&'static str, Simulation)> {
    let charge = r#"
workflow:
  - { step: charge, tool: { kind: shell, command: exit 3 }, next: { arcs: [{ step: refund, when: "{{ event.name == 'call.error' }}" }, { step: ship }] } }
  - { step: refund, tool: { kind: noop } }
  - { step: ship, tool: { kind: noop } }
"#;
    let one = "workflow: [{ step: a, tool: { kind: noop, result: 1 } }]";
    vec![
        ("failed", Simulation::from_body(one).with_tools(|_| fail_task()).run()),
        ("caught", Simulation::from_body(charge).with_tools(|call| match call.step {
            "charge" => fail_task(),
            _ => ToolBehavior::Configured,
        }).run()),
        ("retried", Simulation::from_body(r#"
workflow:
  - step: get
    tool: { kind: http, url: http://localhost/x, spec: { policy: { rules: [{ when: "{{ output.error }}", then: { do: retry, attempts: 3, backoff: fixed, delay: 0.1 } }] } } }
"#).with_tools(|call| if call.attempt > 2 { ToolBehavior::Ok(Json::from(1)) } else { fail_task() }).run()),
        ("worker_lost_once", Simulation::from_body(one).with_tools(|call| match call.command_attempt {
            1 => ToolBehavior::Lost,
            _ => ToolBehavior::Configured,
        }).run()),
        ("worker_lost_for_good", Simulation::from_body(one).with_tools(|_| ToolBehavior::Lost).run()),
        ("late_result", late_result(one)),
        ("broken_template", Simulation::from_body("workflow: [{ step: a, when: '{{ 1 // 0 }}', tool: { kind: noop } }]").run()),
        ("too_many_runs", Simulation::from_body(r"
executor: { spec: { policy: { limits: { max_step_runs: 2 } } } }
workflow: [{ step: a, tool: { kind: noop }, next: { arcs: [{ step: a }] } }]
").run()),
    ]
}

fn late_result(body: &str) -> Simulation {
    let mut sim = started_sim(body);
    let lost = sim.lease_command(sim.available_commands()[0], "w1");
    let late = sim.execute_lease(&lost).unwrap();
    sim.expire_lease(&lost).unwrap();
    sim.submit_report(late).unwrap();
    sim.advance_clock(Millis::from_secs(1));
    sim.run_to_end();
    sim
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
  - { step: rescue, tool: { kind: noop } }
"#;

const FINAL_STEP_PLAYBOOK: &str = r#"
executor: { spec: { final_step: alert, timeout: 1h } }
workflow:
  - { step: work, tool: { kind: shell, command: work } }
  - step: alert
    tool: { kind: noop, result: "{{ event.payload }}" }
"#;

fn control_runs() -> Vec<(&'static str, Simulation)> {
    let mut cancelled = started_sim(SLOW_PLAYBOOK);
    let lease = cancelled.lease_command(cancelled.available_commands()[0], "w1");
    let late = cancelled.execute_lease(&lease).unwrap();
    cancelled.cancel_execution().unwrap();
    cancelled.submit_report(late).unwrap();

    let mut paused = started_sim(SLOW_PLAYBOOK);
    paused.pause_execution().unwrap();
    let still_paused = paused.clone();
    paused.resume_execution().unwrap();
    paused.run_to_end();

    let mut step_timeout = started_sim(SLOW_PLAYBOOK);
    step_timeout.advance_clock(Millis::from_secs(10));
    step_timeout.fire_timers();
    step_timeout.run_to_end();

    let mut execution_timeout = started_sim(SLOW_PLAYBOOK);
    execution_timeout.advance_clock(Millis::from_hours(1));
    execution_timeout.decide(EngineInput::TimerFired(TimerId::Execution)).unwrap();

    let mut cancelled_with_final_step = started_sim(FINAL_STEP_PLAYBOOK);
    cancelled_with_final_step.cancel_execution().unwrap();
    cancelled_with_final_step.run_to_end();
    let mut timeout_with_final_step = started_sim(FINAL_STEP_PLAYBOOK);
    timeout_with_final_step.advance_clock(Millis::from_hours(1));
    timeout_with_final_step.fire_timers();
    timeout_with_final_step.run_to_end();
    vec![
        ("cancelled_with_final_step", cancelled_with_final_step),
        ("timeout_with_final_step", timeout_with_final_step),
        ("cancelled_with_a_late_result", cancelled),
        ("paused_and_resumed", paused),
        ("still_paused", still_paused),
        ("still_running", started_sim(SLOW_PLAYBOOK)),
        ("step_timeout", step_timeout),
        ("execution_timeout", execution_timeout),
    ]
}

fn wait_runs() -> Vec<(&'static str, Simulation)> {
    let mut wait = started_sim("workflow: [{ step: pay, tool: { kind: wait, signal: paid } }]");
    wait.send_signal("other", None, Json::Null).unwrap();
    wait.send_signal("paid", None, parse(br#"{"sum":3}"#).unwrap()).unwrap();

    let mut timed_out =
        started_sim("workflow: [{ step: pay, tool: { kind: wait, signal: paid, timeout: 1h } }]");
    assert!(timed_out.advance_to_next_event());

    let mut approval = started_sim(
        "workflow: [{ step: ask, tool: { kind: approval, title: Ship it?, quorum: 2 } }]",
    );
    approval.send_decision("ask", "ann", ApprovalChoice::Approve).unwrap();
    approval.send_decision("ask", "bob", ApprovalChoice::Approve).unwrap();

    let mut child = started_sim(
        "workflow: [{ step: sub, tool: { kind: playbook, path: x, return_result: true } }]",
    );
    let id = child.awaited_children()[0];
    let result = EventData::Inline(Json::from(1));
    child.report_child_end(id, ChildOutcome::Completed { result }).unwrap();

    let nap = Simulation::from_body("workflow: [{ step: nap, tool: [{ name: a, kind: noop }, { name: b, kind: sleep, for: 2s }, { name: c, kind: noop }] }]")
        .with_responses(|_| ExternalResponse::Accept)
        .run();
    vec![
        ("wait", wait),
        ("wait_timed_out", timed_out),
        ("approval", approval),
        ("child", child),
        ("segments_around_a_sleep", nap),
    ]
}

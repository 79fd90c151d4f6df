//! Complete event log of each suspending construct. Each snapshot was reviewed against the language
//! reference.

use noetl_engine::{ApprovalChoice, ChildOutcome, EventData, InputVerdict};
use noetl_testkit::sim::{Simulation, ToolBehavior};
use noetl_types::{ExecutionStatus, Json, Millis, TaskErrorKind};

use super::{parse_json, started_sim};

#[test]
fn sleep_for_duration() {
    let mut sim = started_sim(
        r#"
workflow:
  - { step: nap, tool: { kind: sleep, for: 90s }, next: { arcs: [{ step: after }] } }
  - { step: after, tool: { kind: noop, result: "{{ nap.slept_ms }}" } }
"#,
    );
    assert!(sim.available_commands().is_empty());
    sim.advance_clock(Millis::from_secs(89));
    sim.fire_timers();
    assert_eq!(sim.log().len(), 4);
    sim.advance_clock(Millis::from_secs(1));
    sim.fire_timers();
    sim.run_to_end();
    insta::assert_snapshot!(sim.format_log());
    assert_eq!(sim.status(), ExecutionStatus::Completed);
}

#[test]
fn sleep_until_past_time_is_due_at_once() {
    let mut sim = started_sim(
        r#"
workflow:
  - { step: nap, tool: { kind: sleep, until: "2025-12-31T23:00:00+01:00" } }
"#,
    );
    sim.fire_timers();
    insta::assert_snapshot!(sim.format_log());
}

#[test]
fn wait_for_signal_with_key() {
    let mut sim = started_sim(
        r#"
workload: { order: 7 }
workflow:
  - { step: pay, tool: { kind: wait, signal: paid, key: "{{ order }}" } }
"#,
    );
    let paid = parse_json(r#"{"sum":3}"#);
    assert_eq!(sim.send_signal("paid", Some("8"), Json::Null), Ok(InputVerdict::Buffered));
    assert_eq!(sim.send_signal("paid", Some("7"), paid), Ok(InputVerdict::Accepted));
    insta::assert_snapshot!(sim.format_log());
}

#[test]
fn wait_with_lookback() {
    let mut sim = started_sim(
        r"
workflow:
  - { step: first, tool: { kind: noop }, next: { arcs: [{ step: pay }] } }
  - { step: pay, tool: { kind: wait, signal: paid, lookback: 1h, timeout: 2d } }
",
    );
    assert_eq!(sim.send_signal("paid", None, Json::from(1)), Ok(InputVerdict::Buffered));
    sim.advance_clock(Millis::from_minutes(10));
    sim.run_to_end();
    insta::assert_snapshot!(sim.format_log());
    assert_eq!(sim.status(), ExecutionStatus::Completed);
}

#[test]
fn wait_timed_out() {
    let mut sim =
        started_sim("workflow: [{ step: pay, tool: { kind: wait, signal: paid, timeout: 1h } }]");
    assert!(sim.advance_to_next_event());
    insta::assert_snapshot!(sim.format_log());
    assert_eq!(sim.status(), ExecutionStatus::Failed);
}

#[test]
fn approval_with_quorum() {
    let mut sim = started_sim(
        r"
workflow:
  - { step: ask, tool: { kind: approval, title: Ship it?, quorum: 2, timeout: 1d } }
",
    );
    assert_eq!(
        sim.send_decision("ask", "ann", ApprovalChoice::Approve),
        Ok(InputVerdict::Accepted)
    );
    assert_eq!(
        sim.send_decision("ask", "bob", ApprovalChoice::Approve),
        Ok(InputVerdict::Accepted)
    );
    insta::assert_snapshot!(sim.format_log());
}

#[test]
fn container_with_callback() {
    let mut sim = Simulation::from_body(
        r"
workflow:
  - { step: job, tool: { kind: container, image: busybox, callback: true } }
",
    )
    .with_tools(|_| ToolBehavior::Ok(parse_json(r#"{"job_name":"j1"}"#)));
    sim.start().unwrap();
    assert!(sim.advance_once());
    assert!(sim.available_commands().is_empty());
    let command = sim.state().commands().next().unwrap().0;
    let callback = noetl_engine::EngineInput::Callback(Box::new(noetl_engine::CallbackResult {
        command,
        data: parse_json(r#"{"exit_code":0}"#),
        error: None,
    }));
    assert_eq!(sim.decide(callback), Ok(InputVerdict::Accepted));
    insta::assert_snapshot!(sim.format_log());
}

#[test]
fn playbook_with_return_step() {
    let mut sim = started_sim(
        r#"
workload: { n: 4 }
workflow:
  - { step: sub, tool: { kind: playbook, path: etl/child, input: { n: "{{ n }}" }, return_step: end } }
"#,
    );
    let child = sim.awaited_children()[0];
    let result = EventData::Inline(parse_json(r#"{"rows":3,"status":"fine"}"#));
    sim.report_child_end(child, ChildOutcome::Completed { result }).unwrap();
    insta::assert_snapshot!(sim.format_log().replace(&child.to_string(), "<child>"));
}

#[test]
fn playbook_async() {
    let sim = started_sim(
        r"
workflow:
  - { step: sub, tool: { kind: playbook, path: etl/child, payload: { n: 1 } }, next: { arcs: [{ step: nap }] } }
  - { step: nap, tool: { kind: sleep, for: 1s } }
",
    );
    let table = sim.format_log();
    let id = super::last_call_data(&sim).get("execution_id").unwrap().clone();
    insta::assert_snapshot!(table.replace(id.as_str().unwrap(), "<child>"));
}

#[test]
fn pipeline_split_by_sleep() {
    let sim = Simulation::from_body(
        r#"
workflow:
  - step: both
    tool:
      - { name: a, kind: noop, result: { n: 1 }, set: { x: "{{ output.n + 1 }}", iter.page: 7, ctx.c: 3 } }
      - { name: nap, kind: sleep, for: "{{ x }}" }
      - { name: b, kind: noop, result: { sum: "{{ a.n + x + ctx.c + iter.page }}", before: "{{ _prev.slept_ms }}", labels: "{{ results | length }}" } }
"#,
    )
    .with_responses(|_| noetl_testkit::sim::ExternalResponse::Accept)
    .run();
    insta::assert_snapshot!(sim.format_log());
    assert_eq!(sim.status(), ExecutionStatus::Completed);
}

#[test]
fn uncaught_failure_cancels_suspended_tasks() {
    let mut sim = Simulation::from_body(
        r"
workflow:
  - step: start
    tool: { kind: noop }
    next: { spec: { mode: inclusive }, arcs: [{ step: nap }, { step: ask }, { step: sub }, { step: each }, { step: bad }] }
  - { step: nap, tool: { kind: sleep, for: 1h } }
  - { step: ask, tool: { kind: approval } }
  - { step: sub, tool: { kind: playbook, path: x, return_result: true } }
  - { step: each, loop: { in: 2, iterator: i, spec: { mode: parallel } }, tool: { kind: wait, signal: go } }
  - { step: bad, tool: { kind: shell, command: x } }
",
    )
    .with_tools(|call| match call.step {
        "bad" => ToolBehavior::failure(TaskErrorKind::Transform, "boom"),
        _ => ToolBehavior::Configured,
    });
    sim.start().unwrap();
    sim.run_to_end();
    let child = sim.awaited_children()[0];
    let result = EventData::Inline(Json::from(1));
    sim.report_child_end(child, ChildOutcome::Completed { result }).unwrap();
    insta::assert_snapshot!(sim.format_log().replace(&child.to_string(), "<child>"));
    assert_eq!(sim.status(), ExecutionStatus::Failed);
}

#[test]
fn cancel_also_cancels_awaited_children() {
    let mut sim = started_sim(
        r"
workflow:
  - { step: fire, tool: { kind: playbook, path: x }, next: { spec: { mode: inclusive }, arcs: [{ step: sub }, { step: nap }] } }
  - { step: sub, tool: { kind: playbook, path: x, return_result: true } }
  - { step: nap, tool: { kind: sleep, for: 1h } }
",
    );
    let (awaited, follow_up_count) = (sim.awaited_children()[0], sim.follow_ups().len());
    sim.cancel_execution().unwrap();
    let new = &sim.follow_ups()[follow_up_count..];
    let cancel = noetl_engine::FollowUp::CancelChild { child: awaited };
    assert_eq!(new, [cancel]);
    let started = super::last_call_data(&sim);
    let started = started.get("execution_id").unwrap().as_str().unwrap().to_owned();
    insta::assert_snapshot!(sim.format_log().replace(&started, "<child>"));
}

#[test]
fn cancel_without_children_lets_them_continue() {
    let mut sim = started_sim(
        "workflow:\n  - { step: sub, tool: { kind: playbook, path: x, return_result: true } }\n",
    );
    let (child, follow_up_count) = (sim.awaited_children()[0], sim.follow_ups().len());
    let cancel = noetl_engine::CancelInput { keeps_children: true, ..Default::default() };
    sim.decide(noetl_engine::EngineInput::Cancel(cancel)).unwrap();
    assert_eq!(sim.follow_ups().len(), follow_up_count);
    assert_eq!(sim.status(), ExecutionStatus::Cancelled);
    let result = EventData::Inline(Json::from(1));
    let late = sim.report_child_end(child, ChildOutcome::Completed { result });
    assert!(late.is_err(), "{late:?}");
}

#[test]
fn step_timeout_over_a_wait_is_caught() {
    let mut sim = started_sim(
        r#"
workflow:
  - step: pay
    spec: { timeout: 1h }
    tool: { kind: wait, signal: paid, timeout: 2h }
    next: { arcs: [{ step: late, when: "{{ error.kind == 'timeout' }}" }] }
  - { step: late, tool: { kind: noop } }
"#,
    );
    assert!(sim.advance_to_next_event());
    sim.run_to_end();
    insta::assert_snapshot!(sim.format_log());
    assert_eq!(sim.status(), ExecutionStatus::Completed);
}

#[test]
fn execution_timeout_over_a_child() {
    let mut sim = started_sim(
        r"
executor: { spec: { timeout: 1m } }
workflow: [{ step: sub, tool: { kind: playbook, path: x, return_result: true } }]
",
    );
    let child = sim.awaited_children()[0];
    assert!(sim.advance_to_next_event());
    insta::assert_snapshot!(sim.format_log());
    let cancel = noetl_engine::FollowUp::CancelChild { child };
    assert_eq!(sim.follow_ups().last(), Some(&cancel));
}

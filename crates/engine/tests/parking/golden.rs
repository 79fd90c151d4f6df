//! The events of each construct, one for one. Each snapshot was read against the language.

use noetl_engine::{ChildEnd, Data, Decided, Verdict};
use noetl_testkit::sim::{Play, Sim};
use noetl_types::{ExecutionStatus, Json, Millis, TaskErrorKind};

use super::{begun, json};

#[test]
fn sleep() {
    let mut sim = begun(
        r#"
workflow:
  - { step: nap, tool: { kind: sleep, for: 90s }, next: { arcs: [{ step: after }] } }
  - { step: after, tool: { kind: noop, result: "{{ nap.slept_ms }}" } }
"#,
    );
    assert!(sim.available().is_empty());
    sim.advance(Millis::from_secs(89));
    sim.fire_timers();
    assert_eq!(sim.log().len(), 4);
    sim.advance(Millis::from_secs(1));
    sim.fire_timers();
    sim.finish();
    insta::assert_snapshot!(sim.table());
    assert_eq!(sim.status(), ExecutionStatus::Completed);
}

/// A time that has passed is a timer that is due at once.
#[test]
fn sleep_until_a_time_that_has_passed() {
    let mut sim = begun(
        r#"
workflow:
  - { step: nap, tool: { kind: sleep, until: "2025-12-31T23:00:00+01:00" } }
"#,
    );
    sim.fire_timers();
    insta::assert_snapshot!(sim.table());
}

#[test]
fn wait() {
    let mut sim = begun(
        r#"
workload: { order: 7 }
workflow:
  - { step: pay, tool: { kind: wait, signal: paid, key: "{{ order }}" } }
"#,
    );
    let paid = json(r#"{"sum":3}"#);
    assert_eq!(sim.signal("paid", Some("8"), Json::Null), Ok(Verdict::Kept));
    assert_eq!(sim.signal("paid", Some("7"), paid), Ok(Verdict::Accepted));
    insta::assert_snapshot!(sim.table());
}

#[test]
fn wait_that_looks_back() {
    let mut sim = begun(
        r"
workflow:
  - { step: first, tool: { kind: noop }, next: { arcs: [{ step: pay }] } }
  - { step: pay, tool: { kind: wait, signal: paid, lookback: 1h, timeout: 2d } }
",
    );
    assert_eq!(sim.signal("paid", None, Json::from(1)), Ok(Verdict::Kept));
    sim.advance(Millis::from_minutes(10));
    sim.finish();
    insta::assert_snapshot!(sim.table());
    assert_eq!(sim.status(), ExecutionStatus::Completed);
}

#[test]
fn wait_timed_out() {
    let mut sim =
        begun("workflow: [{ step: pay, tool: { kind: wait, signal: paid, timeout: 1h } }]");
    assert!(sim.let_time_pass());
    insta::assert_snapshot!(sim.table());
    assert_eq!(sim.status(), ExecutionStatus::Failed);
}

#[test]
fn approval() {
    let mut sim = begun(
        r"
workflow:
  - { step: ask, tool: { kind: approval, title: Ship it?, quorum: 2, timeout: 1d } }
",
    );
    assert_eq!(
        sim.approve("ask", "ann", Decided::Approve),
        Ok(Verdict::Accepted)
    );
    assert_eq!(
        sim.approve("ask", "bob", Decided::Approve),
        Ok(Verdict::Accepted)
    );
    insta::assert_snapshot!(sim.table());
}

#[test]
fn container_with_callback() {
    let mut sim = Sim::of(
        r"
workflow:
  - { step: job, tool: { kind: container, image: busybox, callback: true } }
",
    )
    .with_tools(|_| Play::Ok(json(r#"{"job_name":"j1"}"#)));
    sim.start().unwrap();
    assert!(sim.step());
    assert!(sim.available().is_empty());
    let command = sim.state().commands().next().unwrap().0;
    let called = noetl_engine::Input::Callback(Box::new(noetl_engine::Called {
        command,
        data: json(r#"{"exit_code":0}"#),
        error: None,
    }));
    assert_eq!(sim.decide(called), Ok(Verdict::Accepted));
    insta::assert_snapshot!(sim.table());
}

#[test]
fn playbook_waiting() {
    let mut sim = begun(
        r#"
workload: { n: 4 }
workflow:
  - { step: sub, tool: { kind: playbook, path: etl/child, input: { n: "{{ n }}" }, return_step: end } }
"#,
    );
    let child = sim.children()[0];
    let result = Data::Inline(json(r#"{"rows":3,"status":"fine"}"#));
    sim.child_ended(child, ChildEnd::Completed { result })
        .unwrap();
    insta::assert_snapshot!(sim.table().replace(&child.to_string(), "<child>"));
}

#[test]
fn playbook_async() {
    let sim = begun(
        r"
workflow:
  - { step: sub, tool: { kind: playbook, path: etl/child, payload: { n: 1 } }, next: { arcs: [{ step: nap }] } }
  - { step: nap, tool: { kind: sleep, for: 1s } }
",
    );
    let table = sim.table();
    let id = super::last_data(&sim).get("execution_id").unwrap().clone();
    insta::assert_snapshot!(table.replace(id.as_str().unwrap(), "<child>"));
}

#[test]
fn pipeline_a_sleep_b() {
    let sim = Sim::of(
        r#"
workflow:
  - step: both
    tool:
      - { name: a, kind: noop, result: { n: 1 }, set: { x: "{{ output.n + 1 }}", iter.page: 7, ctx.c: 3 } }
      - { name: nap, kind: sleep, for: "{{ x }}" }
      - { name: b, kind: noop, result: { sum: "{{ a.n + x + ctx.c + iter.page }}", before: "{{ _prev.slept_ms }}", labels: "{{ results | length }}" } }
"#,
    )
    .in_world(|_| noetl_testkit::sim::Word::Yes)
    .run();
    insta::assert_snapshot!(sim.table());
    assert_eq!(sim.status(), ExecutionStatus::Completed);
}

#[test]
fn uncaught_failure_cancels_what_waits() {
    let mut sim = Sim::of(
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
        "bad" => Play::fail(TaskErrorKind::Transform, "boom"),
        _ => Play::AsWritten,
    });
    sim.start().unwrap();
    sim.finish();
    let child = sim.children()[0];
    let result = Data::Inline(Json::from(1));
    sim.child_ended(child, ChildEnd::Completed { result })
        .unwrap();
    insta::assert_snapshot!(sim.table().replace(&child.to_string(), "<child>"));
    assert_eq!(sim.status(), ExecutionStatus::Failed);
}

#[test]
fn cancel_takes_awaited_children_along() {
    let mut sim = begun(
        r"
workflow:
  - { step: fire, tool: { kind: playbook, path: x }, next: { spec: { mode: inclusive }, arcs: [{ step: sub }, { step: nap }] } }
  - { step: sub, tool: { kind: playbook, path: x, return_result: true } }
  - { step: nap, tool: { kind: sleep, for: 1h } }
",
    );
    let (awaited, errands) = (sim.children()[0], sim.errands().len());
    sim.cancel().unwrap();
    let new = &sim.errands()[errands..];
    let cancel = noetl_engine::Errand::CancelChild { child: awaited };
    assert_eq!(new, [cancel]);
    let started = super::last_data(&sim);
    let started = started
        .get("execution_id")
        .unwrap()
        .as_str()
        .unwrap()
        .to_owned();
    insta::assert_snapshot!(sim.table().replace(&started, "<child>"));
}

#[test]
fn children_go_on_where_only_their_parent_is_cancelled() {
    let mut sim = begun(
        "workflow:\n  - { step: sub, tool: { kind: playbook, path: x, return_result: true } }\n",
    );
    let (child, errands) = (sim.children()[0], sim.errands().len());
    let by = noetl_engine::event::Steering::default();
    sim.decide(noetl_engine::Input::CancelAlone(by)).unwrap();
    assert_eq!(sim.errands().len(), errands);
    assert_eq!(sim.status(), ExecutionStatus::Cancelled);
    let result = Data::Inline(Json::from(1));
    let late = sim.child_ended(child, ChildEnd::Completed { result });
    assert!(late.is_err(), "{late:?}");
}

#[test]
fn step_timeout_over_a_wait_is_caught() {
    let mut sim = begun(
        r#"
workflow:
  - step: pay
    spec: { timeout: 1h }
    tool: { kind: wait, signal: paid, timeout: 2h }
    next: { arcs: [{ step: late, when: "{{ error.kind == 'timeout' }}" }] }
  - { step: late, tool: { kind: noop } }
"#,
    );
    assert!(sim.let_time_pass());
    sim.finish();
    insta::assert_snapshot!(sim.table());
    assert_eq!(sim.status(), ExecutionStatus::Completed);
}

#[test]
fn execution_timeout_over_a_child() {
    let mut sim = begun(
        r"
executor: { spec: { timeout: 1m } }
workflow: [{ step: sub, tool: { kind: playbook, path: x, return_result: true } }]
",
    );
    let child = sim.children()[0];
    assert!(sim.let_time_pass());
    insta::assert_snapshot!(sim.table());
    let cancel = noetl_engine::Errand::CancelChild { child };
    assert_eq!(sim.errands().last(), Some(&cancel));
}

//! A pipeline split by suspended tasks has the same result as an unsplit one.

use noetl_engine::{EventData, EventKind};
use noetl_testkit::sim::{ExternalResponse, SimulatedCall, Simulation, ToolBehavior};
use noetl_types::{ExecutionStatus, Json, Millis, TaskErrorKind};

use super::parse_json;

fn run_to_end(body: &str) -> Simulation {
    Simulation::from_body(body).with_responses(|_| ExternalResponse::Accept).run()
}

fn step_data(sim: &Simulation, step: u32) -> Json {
    let step = sim.state().step_state(noetl_playbook::graph::StepIndex(step)).unwrap();
    match step.last_output().map(|output| &output.data) {
        Some(EventData::Inline(data)) => data.clone(),
        other => panic!("{other:?}"),
    }
}

/// Segment numbers of the commands in order of issue.
fn issued_segments(sim: &Simulation) -> Vec<Option<u32>> {
    let issued = |event: &noetl_engine::Event| match &event.kind {
        EventKind::CommandIssued(issued) => Some(issued.segment),
        _ => None,
    };
    sim.log().iter().filter_map(issued).collect()
}

/// Compares the same pipeline with and without a sleep, ignoring the data of the sleep.
#[test]
fn split_pipeline_yields_same_data() {
    for last in ["{ k: 1, a: hides }", "plain", "[1]", "{ data: x }"] {
        let pipeline = |nap: &str| {
            format!(
                "workflow: [{{ step: s, tool: [{{ name: a, kind: noop, result: {{ n: 1 }} }}, {nap} {{ name: b, kind: noop, result: {last} }}] }}]"
            )
        };
        let (split, whole) = (
            run_to_end(&pipeline("{ name: nap, kind: sleep, for: 1s },")),
            run_to_end(&pipeline("")),
        );
        let without_nap = |data: Json| {
            let map = data.as_map().unwrap().iter();
            Json::object(
                map.filter(|(key, _)| &***key != "nap")
                    .map(|(key, value)| (key.clone(), value.clone())),
            )
        };
        assert_eq!(without_nap(step_data(&split, 0)), step_data(&whole, 0), "{last}");
        assert_eq!(issued_segments(&split), [Some(0), Some(1), Some(2)]);
        assert_eq!(issued_segments(&whole), [None]);
    }
}

#[test]
fn pipeline_may_end_with_suspended_task() {
    let sim = run_to_end(
        "workflow: [{ step: s, tool: [{ name: a, kind: noop, result: 1 }, { name: nap, kind: sleep, for: 2s }] }]",
    );
    let data = step_data(&sim, 0);
    assert_eq!(data.get("a"), Some(&Json::from(1)));
    assert_eq!(data.get("slept_ms"), Some(&Json::from(2000)));
    assert_eq!(data.get("nap").unwrap().get("slept_ms"), Some(&Json::from(2000)));
}

/// Jumps back over a sleep with a counter that is visible in every command.
#[test]
fn jump_crosses_segments() {
    let sim = run_to_end(
        r#"
workflow:
  - step: poll
    tool:
      - { name: ask, kind: noop, result: "{{ (n | default(0)) + 1 }}", set: { n: "{{ output }}" } }
      - { name: nap, kind: sleep, for: 5s }
      - name: look
        kind: noop
        result: "{{ n }}"
        spec: { policy: { rules: [{ when: "{{ output.data < 3 }}", then: { do: jump, to: ask } }] } }
"#,
    );
    assert_eq!(sim.status(), ExecutionStatus::Completed);
    assert_eq!(step_data(&sim, 0).get("data"), Some(&Json::from(3)));
    let expected: Vec<_> = (0..9).map(Some).collect();
    assert_eq!(issued_segments(&sim), expected);
}

#[test]
fn break_in_server_segment_ends_pipeline() {
    let sim = run_to_end(
        r#"
workflow:
  - step: s
    tool:
      - { name: nap, kind: sleep, for: 1s, set: { ctx.slept: "{{ output.slept_ms }}" }, spec: { policy: { rules: [{ else: { do: break, set: { ctx.over: yes } } }] } } }
      - { name: never, kind: noop }
"#,
    );
    assert_eq!(issued_segments(&sim), [Some(0)]);
    assert_eq!(sim.state().ctx().get("slept"), Some(&Json::from(1000)));
    assert!(sim.state().ctx().get("over").is_some());
}

fn fail_task(label: &'static str) -> impl Fn(&SimulatedCall<'_>) -> ToolBehavior {
    move |call| {
        if call.label == label {
            ToolBehavior::failure(TaskErrorKind::Transform, "boom")
        } else {
            ToolBehavior::Configured
        }
    }
}

#[test]
fn failure_in_later_segment_keeps_earlier_labels() {
    let sim = Simulation::from_body(
        r#"
workflow:
  - step: s
    tool: [{ name: a, kind: noop, result: 1 }, { name: nap, kind: sleep, for: 1s }, { name: b, kind: shell, command: x }]
    next: { arcs: [{ step: after, when: "{{ event.name == 'call.error' and output.failed_task == 'b' and output.a == 1 }}" }] }
  - { step: after, tool: { kind: noop } }
"#,
    )
    .with_tools(fail_task("b"))
    .with_responses(|_| ExternalResponse::Accept)
    .run();
    assert_eq!(sim.status(), ExecutionStatus::Completed, "{}", sim.format_log());
}

#[test]
fn iterations_suspend_independently() {
    let sim = run_to_end(
        r#"
workflow:
  - step: each
    loop: { in: [3, 1, 2], iterator: x, spec: { mode: parallel, max_in_flight: 2 } }
    tool:
      - { name: a, kind: noop, result: "{{ x }}", set: { iter.seen: "{{ x * 10 }}" } }
      - { name: nap, kind: sleep, for: "{{ x }}" }
      - { name: b, kind: noop, result: "{{ iter.seen + a + _index }}" }
"#,
    );
    assert_eq!(sim.status(), ExecutionStatus::Completed);
    let results = step_data(&sim, 0);
    let results = results.get("results").unwrap().as_list().unwrap().to_vec();
    let sums: Vec<_> = results.iter().map(|one| one.get("data").cloned()).collect();
    assert_eq!(sums, [33, 12, 24].map(|sum| Some(Json::from(sum))));
    // At most two iterations are in flight.
    let mut open = std::collections::BTreeSet::new();
    for event in sim.log() {
        match &event.kind {
            EventKind::CommandIssued(issued) => {
                open.insert(issued.index);
                assert!(open.len() <= 2);
            }
            EventKind::CallDone(done) if done.continuation.is_none() => {
                open.remove(&done.at.index);
            }
            _ => {}
        }
    }
}

#[test]
fn failed_iteration_lets_sleeping_iteration_finish() {
    let body = r#"
workflow:
  - step: each
    loop: { in: 2, iterator: i, spec: { mode: parallel } }
    tool:
      - { name: nap, kind: sleep, for: "{{ i + 1 }}" }
      - { name: work, kind: shell, command: "{{ i }}" }
"#;
    let sim = Simulation::from_body(body)
        .with_tools(|call| match call.index {
            Some(0) => ToolBehavior::failure(TaskErrorKind::Transform, "boom"),
            _ => ToolBehavior::Configured,
        })
        .with_responses(|_| ExternalResponse::Accept)
        .run();
    assert_eq!(sim.status(), ExecutionStatus::Failed);
    // The open iteration finishes, including its second command.
    assert_eq!(issued_segments(&sim), [Some(0), Some(0), Some(1), Some(1)]);
}

/// Another step fails permanently while a pipeline is between two segments.
#[test]
fn failing_execution_issues_no_further_segment() {
    let mut sim = Simulation::from_body(
        r"
workflow:
  - step: start
    tool: { kind: noop }
    next: { spec: { mode: inclusive }, arcs: [{ step: s }, { step: bad }] }
  - { step: s, tool: [{ name: a, kind: noop }, { name: nap, kind: sleep, for: 1s }] }
  - { step: bad, tool: { kind: shell, command: x } }
",
    )
    .with_tools(fail_task("bad"));
    sim.start().unwrap();
    assert!(sim.advance_once());
    let leases: Vec<_> =
        sim.available_commands().iter().map(|id| sim.clone().lease_command(*id, "w1")).collect();
    for index in [1, 0] {
        let report = sim.execute_lease(&leases[index]).unwrap();
        sim.submit_report(report).unwrap();
    }
    assert_eq!(sim.status(), ExecutionStatus::Failed);
    assert_eq!(issued_segments(&sim), [None, Some(0), None]);
    assert!(sim.format_log().contains("CANCELLED"), "{}", sim.format_log());
}

/// Both the continuation and the context of the next command may be too large for an event.
#[test]
fn large_continuation_is_stored_by_reference() {
    let body = r#"
workflow:
  - step: s
    tool:
      - { name: a, kind: shell, command: x }
      - { name: nap, kind: sleep, for: 1s }
      - { name: b, kind: noop, result: "{{ a.big | length }}" }
"#;
    let sim = Simulation::from_body(body)
        .with_tools(|call| match call.label {
            "a" => ToolBehavior::Ok(Json::object([("big", Json::from("x".repeat(300_000)))])),
            _ => ToolBehavior::Configured,
        })
        .with_responses(|_| ExternalResponse::Accept)
        .run();
    assert_eq!(sim.status(), ExecutionStatus::Completed);
    assert!(sim.format_log().contains("ref"));
    sim.repeat_decisions();
}

/// The retried segment starts over at its own first task, not at the first task of the pipeline.
#[test]
fn lost_worker_restarts_only_its_segment() {
    let sim = Simulation::from_body(
        "workflow: [{ step: s, tool: [{ name: nap, kind: sleep, for: 1s }, { name: b, kind: shell, command: x }] }]",
    )
    .with_tools(|call| match call.command_attempt {
        1 => ToolBehavior::Lost,
        _ => ToolBehavior::Ok(parse_json("7")),
    })
    .with_responses(|_| ExternalResponse::Accept)
    .run();
    assert_eq!(sim.status(), ExecutionStatus::Completed);
    assert_eq!(step_data(&sim, 0).get("data"), Some(&Json::from(7)));
}

/// A container with a callback in a pipeline is retried as a separate command.
#[test]
fn retried_container_is_new_segment() {
    let sim = Simulation::from_body(
        r#"
workflow:
  - step: s
    tool:
      - { name: a, kind: noop, result: 1 }
      - { name: job, kind: container, image: i, callback: true, spec: { policy: { rules: [{ when: "{{ output.status == 'error' }}", then: { do: retry, attempts: 2, delay: 3s } }] } } }
      - { name: b, kind: noop, result: "{{ a + job.exit_code }}" }
"#,
    )
    .with_tools(|call| match call.label {
        "job" => ToolBehavior::Ok(parse_json(r#"{"job_name":"j"}"#)),
        _ => ToolBehavior::Configured,
    })
    .with_responses(|request| {
        if request.attempt == 1 {
            ExternalResponse::Reject
        } else {
            ExternalResponse::Accept
        }
    })
    .run();
    assert_eq!(sim.status(), ExecutionStatus::Completed);
    assert_eq!(issued_segments(&sim), [0, 1, 2, 3].map(Some));
    assert_eq!(step_data(&sim, 0).get("data"), Some(&Json::from(1)));
    insta::assert_snapshot!(sim.format_log());
}

/// A pipeline that jumps without ever waiting is stopped, so that the decision terminates.
#[test]
fn pipeline_jumping_without_wait_is_stopped() {
    let mut sim = Simulation::from_body(
        r#"
workflow:
  - step: s
    tool:
      - { name: a, kind: sleep, for: "{{ 'no time' }}", spec: { policy: { rules: [{ else: { do: jump, to: a } }] } } }
      - { name: b, kind: noop }
"#,
    )
    .with_light_checks();
    sim.start().unwrap();
    assert_eq!(sim.status(), ExecutionStatus::Failed);
    assert!(sim.format_log().contains("loops without waiting"));
}

#[test]
fn retry_without_delay_restarts_wait_timer() {
    let mut sim = Simulation::from_body(
        r#"
workflow:
  - step: w
    tool: { kind: wait, signal: go, timeout: 10s, spec: { policy: { rules: [{ when: "{{ output.error.kind == 'timeout' }}", then: { do: retry, attempts: 2 } }] } } }
    next: { arcs: [{ step: late, when: "{{ error.attempt == 2 }}" }] }
  - { step: late, tool: { kind: noop } }
"#,
    );
    sim.start().unwrap();
    sim.advance_clock(Millis::from_secs(10));
    sim.fire_timers();
    assert_eq!(sim.state().open_waits().count(), 1, "{}", sim.format_log());
    sim.advance_clock(Millis::from_secs(10));
    sim.fire_timers();
    sim.run_to_end();
    insta::assert_snapshot!(sim.format_log());
    assert_eq!(sim.status(), ExecutionStatus::Completed);
}

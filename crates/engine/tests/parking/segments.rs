//! Pipelines that are split by tasks that park come to the same as those that are not.

use noetl_engine::{Data, EventKind};
use noetl_testkit::sim::{Call, Play, Sim, Word};
use noetl_types::{ExecutionStatus, Json, Millis, TaskErrorKind};

use super::json;

fn run(body: &str) -> Sim {
    Sim::of(body).in_world(|_| Word::Yes).run()
}

fn data(sim: &Sim, step: u32) -> Json {
    let step = sim
        .state()
        .step(noetl_playbook::graph::StepIndex(step))
        .unwrap();
    match step.left_behind().map(|output| &output.data) {
        Some(Data::Inline(data)) => data.clone(),
        other => panic!("{other:?}"),
    }
}

/// The segments of the commands, in order of issue.
fn segments(sim: &Sim) -> Vec<Option<u32>> {
    let issued = |event: &noetl_engine::Event| match &event.kind {
        EventKind::CommandIssued(issued) => Some(issued.segment),
        _ => None,
    };
    sim.log().iter().filter_map(issued).collect()
}

/// The same pipeline with the nap and without, but for the data of the nap itself.
#[test]
fn the_data_of_a_split_pipeline() {
    for last in ["{ k: 1, a: hides }", "plain", "[1]", "{ data: x }"] {
        let pipeline = |nap: &str| {
            format!(
                "workflow: [{{ step: s, tool: [{{ name: a, kind: noop, result: {{ n: 1 }} }}, {nap} {{ name: b, kind: noop, result: {last} }}] }}]"
            )
        };
        let (split, whole) = (
            run(&pipeline("{ name: nap, kind: sleep, for: 1s },")),
            run(&pipeline("")),
        );
        let without_nap = |data: Json| {
            let map = data.as_map().unwrap().iter();
            Json::object(
                map.filter(|(key, _)| &***key != "nap")
                    .map(|(key, value)| (key.clone(), value.clone())),
            )
        };
        assert_eq!(without_nap(data(&split, 0)), data(&whole, 0), "{last}");
        assert_eq!(segments(&split), [Some(0), Some(1), Some(2)]);
        assert_eq!(segments(&whole), [None]);
    }
}

#[test]
fn a_pipeline_that_ends_with_a_task_that_parks() {
    let sim = run(
        "workflow: [{ step: s, tool: [{ name: a, kind: noop, result: 1 }, { name: nap, kind: sleep, for: 2s }] }]",
    );
    let data = data(&sim, 0);
    assert_eq!(data.get("a"), Some(&Json::from(1)));
    assert_eq!(data.get("slept_ms"), Some(&Json::from(2000)));
    assert_eq!(
        data.get("nap").unwrap().get("slept_ms"),
        Some(&Json::from(2000))
    );
}

/// A jump back over a nap, three times, with a counter that every command sees.
#[test]
fn a_jump_across_segments() {
    let sim = run(r#"
workflow:
  - step: poll
    tool:
      - { name: ask, kind: noop, result: "{{ (n | default(0)) + 1 }}", set: { n: "{{ output }}" } }
      - { name: nap, kind: sleep, for: 5s }
      - name: look
        kind: noop
        result: "{{ n }}"
        spec: { policy: { rules: [{ when: "{{ output.data < 3 }}", then: { do: jump, to: ask } }] } }
"#);
    assert_eq!(sim.status(), ExecutionStatus::Completed);
    assert_eq!(data(&sim, 0).get("data"), Some(&Json::from(3)));
    let expected: Vec<_> = (0..9).map(Some).collect();
    assert_eq!(segments(&sim), expected);
}

#[test]
fn a_break_in_a_segment_of_the_server() {
    let sim = run(r#"
workflow:
  - step: s
    tool:
      - { name: nap, kind: sleep, for: 1s, set: { ctx.slept: "{{ output.slept_ms }}" }, spec: { policy: { rules: [{ else: { do: break, set: { ctx.over: yes } } }] } } }
      - { name: never, kind: noop }
"#);
    assert_eq!(segments(&sim), [Some(0)]);
    assert_eq!(sim.state().ctx().get("slept"), Some(&Json::from(1000)));
    assert!(sim.state().ctx().get("over").is_some());
}

fn boom(label: &'static str) -> impl Fn(&Call<'_>) -> Play {
    move |call| {
        if call.label == label {
            Play::fail(TaskErrorKind::Transform, "boom")
        } else {
            Play::AsWritten
        }
    }
}

#[test]
fn a_failure_in_a_later_segment_tells_all_labels() {
    let sim = Sim::of(
        r#"
workflow:
  - step: s
    tool: [{ name: a, kind: noop, result: 1 }, { name: nap, kind: sleep, for: 1s }, { name: b, kind: shell, command: x }]
    next: { arcs: [{ step: after, when: "{{ event.name == 'call.error' and output.failed_task == 'b' and output.a == 1 }}" }] }
  - { step: after, tool: { kind: noop } }
"#,
    )
    .with_tools(boom("b"))
    .in_world(|_| Word::Yes)
    .run();
    assert_eq!(sim.status(), ExecutionStatus::Completed, "{}", sim.table());
}

#[test]
fn each_iteration_parks_on_its_own() {
    let sim = run(r#"
workflow:
  - step: each
    loop: { in: [3, 1, 2], iterator: x, spec: { mode: parallel, max_in_flight: 2 } }
    tool:
      - { name: a, kind: noop, result: "{{ x }}", set: { iter.seen: "{{ x * 10 }}" } }
      - { name: nap, kind: sleep, for: "{{ x }}" }
      - { name: b, kind: noop, result: "{{ iter.seen + a + _index }}" }
"#);
    assert_eq!(sim.status(), ExecutionStatus::Completed);
    let results = data(&sim, 0);
    let results = results.get("results").unwrap().as_list().unwrap().to_vec();
    let sums: Vec<_> = results.iter().map(|one| one.get("data").cloned()).collect();
    assert_eq!(sums, [33, 12, 24].map(|sum| Some(Json::from(sum))));
    // Never more than two iterations are under way.
    let mut open = std::collections::BTreeSet::new();
    for event in sim.log() {
        match &event.kind {
            EventKind::CommandIssued(issued) => {
                open.insert(issued.index);
                assert!(open.len() <= 2);
            }
            EventKind::CallDone(done) if done.onward.is_none() => {
                open.remove(&done.at.index);
            }
            _ => {}
        }
    }
}

#[test]
fn one_iteration_fails_while_another_sleeps() {
    let body = r#"
workflow:
  - step: each
    loop: { in: 2, iterator: i, spec: { mode: parallel } }
    tool:
      - { name: nap, kind: sleep, for: "{{ i + 1 }}" }
      - { name: work, kind: shell, command: "{{ i }}" }
"#;
    let sim = Sim::of(body)
        .with_tools(|call| match call.index {
            Some(0) => Play::fail(TaskErrorKind::Transform, "boom"),
            _ => Play::AsWritten,
        })
        .in_world(|_| Word::Yes)
        .run();
    assert_eq!(sim.status(), ExecutionStatus::Failed);
    // The one that was open finishes, its second command included.
    assert_eq!(segments(&sim), [Some(0), Some(0), Some(1), Some(1)]);
}

/// Elsewhere a step fails for good while a pipeline is between its commands.
#[test]
fn a_run_that_fails_issues_no_further_segment() {
    let mut sim = Sim::of(
        r"
workflow:
  - step: start
    tool: { kind: noop }
    next: { spec: { mode: inclusive }, arcs: [{ step: s }, { step: bad }] }
  - { step: s, tool: [{ name: a, kind: noop }, { name: nap, kind: sleep, for: 1s }] }
  - { step: bad, tool: { kind: shell, command: x } }
",
    )
    .with_tools(boom("bad"));
    sim.start().unwrap();
    assert!(sim.step());
    let leases: Vec<_> = sim
        .available()
        .iter()
        .map(|id| sim.clone().lease(*id, "w1"))
        .collect();
    for at in [1, 0] {
        let report = sim.work(&leases[at]).unwrap();
        sim.report(report).unwrap();
    }
    assert_eq!(sim.status(), ExecutionStatus::Failed);
    assert_eq!(segments(&sim), [None, Some(0), None]);
    assert!(sim.table().contains("CANCELLED"), "{}", sim.table());
}

/// What is handed on may be too big for an event; so may the context of the next command.
#[test]
fn big_data_is_handed_on_by_reference() {
    let body = r#"
workflow:
  - step: s
    tool:
      - { name: a, kind: shell, command: x }
      - { name: nap, kind: sleep, for: 1s }
      - { name: b, kind: noop, result: "{{ a.big | length }}" }
"#;
    let sim = Sim::of(body)
        .with_tools(|call| match call.label {
            "a" => Play::Ok(Json::object([("big", Json::from("x".repeat(300_000)))])),
            _ => Play::AsWritten,
        })
        .in_world(|_| Word::Yes)
        .run();
    assert_eq!(sim.status(), ExecutionStatus::Completed);
    assert!(sim.table().contains("ref"));
    sim.decide_again();
}

/// The worker of a later segment is lost: it starts over at its own first task.
#[test]
fn a_lost_worker_in_a_later_segment() {
    let sim = Sim::of(
        "workflow: [{ step: s, tool: [{ name: nap, kind: sleep, for: 1s }, { name: b, kind: shell, command: x }] }]",
    )
    .with_tools(|call| match call.command_attempt {
        1 => Play::Lost,
        _ => Play::Ok(json("7")),
    })
    .in_world(|_| Word::Yes)
    .run();
    assert_eq!(sim.status(), ExecutionStatus::Completed);
    assert_eq!(data(&sim, 0).get("data"), Some(&Json::from(7)));
}

/// A container of a pipeline that tells its end by itself, and is tried again as a command of its
/// own.
#[test]
fn a_container_that_is_tried_again() {
    let sim = Sim::of(
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
        "job" => Play::Ok(json(r#"{"job_name":"j"}"#)),
        _ => Play::AsWritten,
    })
    .in_world(|ask| {
        if ask.attempt == 1 {
            Word::No
        } else {
            Word::Yes
        }
    })
    .run();
    assert_eq!(sim.status(), ExecutionStatus::Completed);
    assert_eq!(segments(&sim), [0, 1, 2, 3].map(Some));
    assert_eq!(data(&sim, 0).get("data"), Some(&Json::from(1)));
    insta::assert_snapshot!(sim.table());
}

/// A task that goes round without waiting for anything is stopped, and the decision with it.
#[test]
fn a_pipeline_that_goes_round_at_once() {
    let mut sim = Sim::of(
        r#"
workflow:
  - step: s
    tool:
      - { name: a, kind: sleep, for: "{{ 'no time' }}", spec: { policy: { rules: [{ else: { do: jump, to: a } }] } } }
      - { name: b, kind: noop }
"#,
    )
    .lightly();
    sim.start().unwrap();
    assert_eq!(sim.status(), ExecutionStatus::Failed);
    assert!(sim.table().contains("goes round"));
}

#[test]
fn a_retry_without_delay_waits_for_its_timer() {
    let mut sim = Sim::of(
        r#"
workflow:
  - step: w
    tool: { kind: wait, signal: go, timeout: 10s, spec: { policy: { rules: [{ when: "{{ output.error.kind == 'timeout' }}", then: { do: retry, attempts: 2 } }] } } }
    next: { arcs: [{ step: late, when: "{{ error.attempt == 2 }}" }] }
  - { step: late, tool: { kind: noop } }
"#,
    );
    sim.start().unwrap();
    sim.advance(Millis::from_secs(10));
    sim.fire_timers();
    assert_eq!(sim.state().waits().count(), 1, "{}", sim.table());
    sim.advance(Millis::from_secs(10));
    sim.fire_timers();
    sim.finish();
    insta::assert_snapshot!(sim.table());
    assert_eq!(sim.status(), ExecutionStatus::Completed);
}

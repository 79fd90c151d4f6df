//! Limits on cycles, nesting, sizes and loops.

use noetl_testkit::sim::{Simulation, ToolBehavior};
use noetl_types::{EventType, ExecutionStatus, Json};

/// Kind and message of the error of a failed run.
fn failure_kind_and_message(sim: &Simulation) -> (String, String) {
    let records = sim.to_records();
    let last = records.iter().rfind(|record| record.event.event_type == EventType::PlaybookFailed);
    let meta = last.expect("a failed run").event.meta.clone().unwrap();
    let error = meta.get("error").unwrap();
    let text = |key: &str| error.get(key).and_then(Json::as_str).unwrap().to_owned();
    (text("kind"), text("message"))
}

#[test]
fn cycle_without_work_fails() {
    for body in [
        "workflow: [{ step: a, loop: { in: 0, iterator: x }, tool: { kind: noop }, next: { arcs: [{ step: a }] } }]",
        "workflow: [{ step: a, when: false, tool: { kind: noop }, next: { arcs: [{ step: a }] } }]",
    ] {
        let sim = Simulation::from_body(body).with_light_checks().run();
        let (kind, message) = failure_kind_and_message(&sim);
        assert_eq!(kind, "limit");
        assert_eq!(message, "step `a` loops without doing any work");
    }
}

#[test]
fn skipped_passes_count_towards_limit() {
    let sim = Simulation::from_body(
        r"
executor: { spec: { policy: { limits: { max_step_runs: 3 } } } }
workflow:
  - { step: a, tool: { kind: noop }, next: { arcs: [{ step: b }] } }
  - { step: b, when: false, tool: { kind: noop }, next: { arcs: [{ step: b }] } }
",
    )
    .run();
    assert_eq!(failure_kind_and_message(&sim).1, "step `b` would run more than 3 times");
}

fn nested_list(levels: usize) -> Json {
    (0..levels).fold(Json::from(1), |inner, _| Json::list([inner]))
}

#[test]
fn deeply_nested_data_fails_step() {
    for (levels, status) in [(52, ExecutionStatus::Completed), (53, ExecutionStatus::Failed)] {
        let sim =
            Simulation::from_body("workflow: [{ step: a, tool: { kind: shell, command: x } }]")
                .with_tools(move |_| ToolBehavior::Ok(nested_list(levels)))
                .run();
        assert_eq!(sim.status(), status);
        if status == ExecutionStatus::Failed {
            assert_eq!(
                failure_kind_and_message(&sim),
                ("limit".to_owned(), "the data is nested more than 52 levels deep".to_owned())
            );
        }
    }
}

#[test]
fn variables_are_limited_in_depth_and_size() {
    let sim = Simulation::from_body(
        "workflow: [{ step: a, tool: { kind: shell, command: x }, set: { ctx.a.b.c: '{{ output }}' } }]",
    )
    .with_tools(|_| ToolBehavior::Ok(nested_list(50)))
    .run();
    assert_eq!(failure_kind_and_message(&sim).1, "set: `a.b.c` is nested too deeply");
    let sim = Simulation::from_body(
        "workflow: [{ step: a, tool: { kind: shell, command: x }, set: { ctx.big: '{{ output.text * 10 }}' } }]",
    )
    .with_tools(|_| ToolBehavior::Ok(Json::object([("text", Json::from("z".repeat(40_000)))])))
    .run();
    assert_eq!(failure_kind_and_message(&sim).0, "limit");
}

#[test]
fn loops_are_limited_in_items_and_width() {
    let sim = Simulation::from_body(
        "workflow: [{ step: a, loop: { in: '{{ 1000 * 1001 }}', iterator: x }, tool: { kind: noop } }]",
    )
    .run();
    assert_eq!(failure_kind_and_message(&sim).0, "limit");
    // A fan-out above the limit is reduced to it and refilled with every report.
    let mut sim = Simulation::from_body(
        "workflow: [{ step: a, loop: { in: 10100, iterator: x, spec: { mode: parallel, max_in_flight: '{{ 20000 }}' } }, tool: { kind: noop } }]",
    )
    .with_light_checks();
    sim.start().unwrap();
    assert_eq!(sim.state().open_command_count(), 10_000);
    sim.advance_once();
    assert_eq!(sim.state().open_command_count(), 10_000);
}

#[test]
fn invalid_max_in_flight_fails_step() {
    let sim = Simulation::from_body(
        "workflow: [{ step: a, loop: { in: 3, iterator: x, spec: { mode: parallel, max_in_flight: '{{ 0 }}' } }, tool: { kind: noop } }]",
    )
    .run();
    assert_eq!(failure_kind_and_message(&sim).0, "schema");
}

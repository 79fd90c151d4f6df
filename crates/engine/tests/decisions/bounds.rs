//! Bounds that end what never would, or what no log can hold.

use noetl_testkit::sim::{Play, Sim};
use noetl_types::{EventType, ExecutionStatus, Json};

/// The kind and message of the error that a run failed with.
fn failure(sim: &Sim) -> (String, String) {
    let records = sim.records();
    let last = records
        .iter()
        .rfind(|record| record.event.event_type == EventType::PlaybookFailed);
    let meta = last.expect("a failed run").event.meta.clone().unwrap();
    let error = meta.get("error").unwrap();
    let text = |key: &str| error.get(key).and_then(Json::as_str).unwrap().to_owned();
    (text("kind"), text("message"))
}

#[test]
fn a_cycle_that_does_no_work_ends() {
    for body in [
        "workflow: [{ step: a, loop: { in: 0, iterator: x }, tool: { kind: noop }, next: { arcs: [{ step: a }] } }]",
        "workflow: [{ step: a, when: false, tool: { kind: noop }, next: { arcs: [{ step: a }] } }]",
    ] {
        let sim = Sim::of(body).lightly().run();
        let (kind, message) = failure(&sim);
        assert_eq!(kind, "limit");
        assert_eq!(message, "step `a` goes round without doing any work");
    }
}

#[test]
fn runs_that_a_guard_passes_over_count() {
    let sim = Sim::of(
        r"
executor: { spec: { policy: { limits: { max_step_runs: 3 } } } }
workflow:
  - { step: a, tool: { kind: noop }, next: { arcs: [{ step: b }] } }
  - { step: b, when: false, tool: { kind: noop }, next: { arcs: [{ step: b }] } }
",
    )
    .run();
    assert_eq!(failure(&sim).1, "step `b` would run more than 3 times");
}

fn nested(levels: usize) -> Json {
    (0..levels).fold(Json::from(1), |inner, _| Json::list([inner]))
}

#[test]
fn data_that_is_nested_too_deeply_fails_its_step() {
    for (levels, status) in [
        (52, ExecutionStatus::Completed),
        (53, ExecutionStatus::Failed),
    ] {
        let sim = Sim::of("workflow: [{ step: a, tool: { kind: shell, command: x } }]")
            .with_tools(move |_| Play::Ok(nested(levels)))
            .run();
        assert_eq!(sim.status(), status);
        if status == ExecutionStatus::Failed {
            assert_eq!(
                failure(&sim),
                (
                    "limit".to_owned(),
                    "the data is nested more than 52 levels deep".to_owned()
                )
            );
        }
    }
}

#[test]
fn variables_are_bounded_in_depth_and_size() {
    let sim = Sim::of(
        "workflow: [{ step: a, tool: { kind: shell, command: x }, set: { ctx.a.b.c: '{{ output }}' } }]",
    )
    .with_tools(|_| Play::Ok(nested(50)))
    .run();
    assert_eq!(failure(&sim).1, "set: `a.b.c` is nested too deeply");
    let sim = Sim::of(
        "workflow: [{ step: a, tool: { kind: shell, command: x }, set: { ctx.big: '{{ output.text * 10 }}' } }]",
    )
    .with_tools(|_| Play::Ok(Json::object([("text", Json::from("z".repeat(40_000)))])))
    .run();
    assert_eq!(failure(&sim).0, "limit");
}

#[test]
fn loops_are_bounded() {
    let sim = Sim::of(
        "workflow: [{ step: a, loop: { in: '{{ 1000 * 1001 }}', iterator: x }, tool: { kind: noop } }]",
    )
    .run();
    assert_eq!(failure(&sim).0, "limit");
    // A wider fan-out than any is narrowed, and goes on with every report.
    let mut sim = Sim::of(
        "workflow: [{ step: a, loop: { in: 10100, iterator: x, spec: { mode: parallel, max_in_flight: '{{ 20000 }}' } }, tool: { kind: noop } }]",
    )
    .lightly();
    sim.start().unwrap();
    assert_eq!(sim.state().open_commands(), 10_000);
    sim.step();
    assert_eq!(sim.state().open_commands(), 10_000);
}

#[test]
fn a_width_that_is_no_width_fails_the_step() {
    let sim = Sim::of(
        "workflow: [{ step: a, loop: { in: 3, iterator: x, spec: { mode: parallel, max_in_flight: '{{ 0 }}' } }, tool: { kind: noop } }]",
    )
    .run();
    assert_eq!(failure(&sim).0, "schema");
}

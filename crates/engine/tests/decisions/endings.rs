//! The final step: whichever way a run ends, once, and never where somebody ended it.

use noetl_engine::{EventKind, Verdict};
use noetl_testkit::sim::{Call, Play, Sim};
use noetl_types::{ExecutionStatus, Json, Millis, StepName, TaskErrorKind, Text};

use crate::json;

const BODY: &str = r#"
executor: { spec: { final_step: cleanup, timeout: 1h } }
workflow:
  - step: work
    tool: { kind: shell, command: work }
    next: { arcs: [{ step: rescue, when: "{{ event.name == 'call.error' and workload.caught }}" }, { step: more, when: "{{ event.name == 'call.done' }}" }] }
  - { step: rescue, tool: { kind: noop } }
  - { step: more, tool: { kind: noop } }
  - step: cleanup
    when: "{{ event.name == 'run.ending' and event.payload.status in ['COMPLETED', 'FAILED'] and not workload.skip }}"
    tool: { kind: shell, command: "clean {{ steps.work.status }}", timeout: 5m }
    spec: { timeout: 10m }
    set: { ctx.cleaned: true }
workload: { caught: false, skip: false }
"#;

/// A run whose steps of these names fail.
fn sim(failing: &'static [&'static str], payload: &str) -> Sim {
    let tools = move |call: &Call<'_>| {
        if failing.contains(&call.step) {
            return Play::fail(TaskErrorKind::Transform, "boom");
        }
        match call.config.get("command") {
            Some(command) => Play::Ok(command.clone()),
            None => Play::AsWritten,
        }
    };
    Sim::of(BODY).with_tools(tools).with_payload(json(payload))
}

fn entered(sim: &Sim) -> Vec<String> {
    let entered = sim.log().iter().filter_map(|event| match &event.kind {
        EventKind::StepEntered(entered) => Some(entered.step.to_string()),
        _ => None,
    });
    entered.collect()
}

#[test]
fn after_success() {
    let sim = sim(&[], "{}").run();
    insta::assert_snapshot!(sim.table());
    assert_eq!(sim.status(), ExecutionStatus::Completed);
    let Some(EventKind::PlaybookCompleted { result }) = sim.log().last().map(|last| &last.kind)
    else {
        panic!("{}", sim.table());
    };
    // What comes out of the final step is what comes out of the run.
    assert_eq!(result, &Some(Json::from("clean COMPLETED").into()));
    sim.decide_again();
}

#[test]
fn after_a_failure() {
    let sim = sim(&["work"], "{}").run();
    insta::assert_snapshot!(sim.table());
    assert_eq!(sim.status(), ExecutionStatus::Failed);
    assert_eq!(entered(&sim), ["work", "cleanup"]);
    assert_eq!(sim.state().ctx(), &json(r#"{"cleaned":true}"#));
    sim.decide_again();
}

#[test]
fn after_a_failure_that_was_caught() {
    let sim = sim(&["work"], r#"{"caught":true}"#).run();
    assert_eq!(sim.status(), ExecutionStatus::Completed);
    assert_eq!(entered(&sim), ["work", "rescue", "cleanup"]);
}

#[test]
fn its_own_failure_is_that_of_the_run() {
    let sim = sim(&["cleanup"], "{}").run();
    assert_eq!(sim.status(), ExecutionStatus::Failed);
    let Some(EventKind::PlaybookFailed(failed)) = sim.log().last().map(|last| &last.kind) else {
        panic!("{}", sim.table());
    };
    let names: Vec<_> = failed.failed_steps.iter().map(StepName::as_str).collect();
    assert_eq!(names, ["cleanup"]);
}

#[test]
fn the_first_failure_stays_the_first() {
    let sim = sim(&["work", "cleanup"], "{}").run();
    let Some(EventKind::PlaybookFailed(failed)) = sim.log().last().map(|last| &last.kind) else {
        panic!("{}", sim.table());
    };
    let names: Vec<_> = failed.failed_steps.iter().map(StepName::as_str).collect();
    assert_eq!(names, ["work", "cleanup"]);
    assert_eq!(failed.error.task.as_ref().map(Text::as_str), Some("work"));
}

#[test]
fn its_guard_may_pass_it_over() {
    let sim = sim(&[], r#"{"skip":true}"#).run();
    assert_eq!(sim.status(), ExecutionStatus::Completed);
    assert_eq!(entered(&sim), ["work", "more"]);
    assert!(sim.table().contains("guard"), "{}", sim.table());
    let failed = self::sim(&["work"], r#"{"skip":true}"#).run();
    assert_eq!(failed.status(), ExecutionStatus::Failed);
}

#[test]
fn who_cancels_gets_no_final_step() {
    let mut sim = sim(&[], "{}");
    sim.start().unwrap();
    assert_eq!(sim.cancel(), Ok(Verdict::Accepted));
    assert_eq!(entered(&sim), ["work"]);
}

#[test]
fn a_run_that_is_out_of_time_gets_no_final_step() {
    let mut sim = sim(&[], "{}");
    sim.start().unwrap();
    sim.advance(Millis::from_hours(1));
    sim.fire_timers();
    assert_eq!(sim.status(), ExecutionStatus::Failed);
    assert_eq!(entered(&sim), ["work"]);
}

/// The final step itself can be cancelled, paused, and be out of time.
#[test]
fn steering_reaches_the_final_step() {
    let mut sim = sim(&["work"], "{}");
    sim.start().unwrap();
    sim.step();
    assert_eq!(entered(&sim), ["work", "cleanup"]);
    let mut cancelled = sim.clone();
    assert_eq!(cancelled.cancel(), Ok(Verdict::Accepted));
    assert_eq!(cancelled.status(), ExecutionStatus::Cancelled);
    let mut late = sim.clone();
    late.advance(Millis::from_minutes(10));
    late.fire_timers();
    assert_eq!(late.status(), ExecutionStatus::Failed);
    sim.pause().unwrap();
    let lease = sim
        .clone()
        .lease(sim.state().commands().next().unwrap().0, "w1");
    let report = sim.work(&lease).unwrap();
    sim.report(report).unwrap();
    assert_eq!(sim.status(), ExecutionStatus::Paused);
    sim.resume().unwrap();
    assert_eq!(sim.status(), ExecutionStatus::Failed);
    sim.decide_again();
}

/// What waits to be entered after a failure is given up, and the final step may lead on.
#[test]
fn a_final_step_may_lead_on() {
    let sim = Sim::of(
        r"
executor: { spec: { final_step: last } }
workflow:
  - step: start
    tool: { kind: noop }
    next: { spec: { mode: inclusive }, arcs: [{ step: a }, { step: b }] }
  - { step: a, tool: { kind: noop }, next: { arcs: [{ step: merge }] } }
  - { step: b, tool: { kind: shell, command: x }, next: { arcs: [{ step: merge }] } }
  - { step: merge, tool: { kind: noop } }
  - { step: last, tool: { kind: noop }, next: { arcs: [{ step: tell }] } }
  - { step: tell, tool: { kind: noop } }
",
    )
    .with_tools(|call| {
        if call.step == "b" {
            Play::fail(TaskErrorKind::Transform, "boom")
        } else {
            Play::AsWritten
        }
    })
    .run();
    assert_eq!(entered(&sim), ["start", "a", "b", "last", "tell"]);
    assert_eq!(sim.status(), ExecutionStatus::Failed);
    sim.decide_again();
}

/// The number of runs, dead ends and the final step.
#[test]
fn limits_hold_with_a_final_step() {
    let sim = Sim::of(
        r#"
executor: { spec: { final_step: last, no_next_is_error: true, policy: { limits: { max_step_runs: 3 } } } }
workflow:
  - { step: turn, tool: { kind: noop }, next: { arcs: [{ step: turn }] } }
  - { step: last, tool: { kind: noop }, next: { arcs: [{ step: tell, when: "{{ false }}" }] } }
  - { step: tell, tool: { kind: noop } }
"#,
    )
    .run();
    let Some(EventKind::PlaybookFailed(failed)) = sim.log().last().map(|last| &last.kind) else {
        panic!("{}", sim.table());
    };
    assert_eq!(failed.error.kind, TaskErrorKind::Limit);
    let names: Vec<_> = failed.failed_steps.iter().map(StepName::as_str).collect();
    assert_eq!(names, ["turn", "last"]);
}

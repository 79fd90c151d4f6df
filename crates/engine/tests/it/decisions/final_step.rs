//! The final step runs once after success or failure, and never after a cancel or timeout.

use noetl_engine::{EventKind, InputVerdict};
use noetl_testkit::sim::{SimulatedCall, Simulation, ToolBehavior};
use noetl_types::{ExecutionStatus, Json, Millis, StepName, TaskErrorKind, Text};

use crate::decisions::parse_json;

const FINAL_STEP_PLAYBOOK: &str = r#"
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

/// A run in which the named steps fail.
fn failing_sim(failing: &'static [&'static str], payload: &str) -> Simulation {
    let tools = move |call: &SimulatedCall<'_>| {
        if failing.contains(&call.step) {
            return ToolBehavior::failure(TaskErrorKind::Transform, "boom");
        }
        match call.config.get("command") {
            Some(command) => ToolBehavior::Ok(command.clone()),
            None => ToolBehavior::Configured,
        }
    };
    Simulation::from_body(FINAL_STEP_PLAYBOOK).with_tools(tools).with_payload(parse_json(payload))
}

fn entered_steps(sim: &Simulation) -> Vec<String> {
    let entered = sim.log().iter().filter_map(|event| match &event.kind {
        EventKind::StepEntered(entered) => Some(entered.step.to_string()),
        _ => None,
    });
    entered.collect()
}

#[test]
fn final_step_runs_after_success() {
    let sim = failing_sim(&[], "{}").run();
    insta::assert_snapshot!(sim.format_log());
    assert_eq!(sim.status(), ExecutionStatus::Completed);
    let Some(EventKind::PlaybookCompleted { result }) = sim.log().last().map(|last| &last.kind)
    else {
        panic!("{}", sim.format_log());
    };
    // The result of the final step is the result of the run.
    assert_eq!(result, &Some(Json::from("clean COMPLETED").into()));
    sim.repeat_decisions();
}

#[test]
fn final_step_runs_after_failure() {
    let sim = failing_sim(&["work"], "{}").run();
    insta::assert_snapshot!(sim.format_log());
    assert_eq!(sim.status(), ExecutionStatus::Failed);
    assert_eq!(entered_steps(&sim), ["work", "cleanup"]);
    assert_eq!(sim.state().ctx(), &parse_json(r#"{"cleaned":true}"#));
    sim.repeat_decisions();
}

#[test]
fn final_step_runs_after_caught_failure() {
    let sim = failing_sim(&["work"], r#"{"caught":true}"#).run();
    assert_eq!(sim.status(), ExecutionStatus::Completed);
    assert_eq!(entered_steps(&sim), ["work", "rescue", "cleanup"]);
}

#[test]
fn failed_final_step_fails_execution() {
    let sim = failing_sim(&["cleanup"], "{}").run();
    assert_eq!(sim.status(), ExecutionStatus::Failed);
    let Some(EventKind::PlaybookFailed(failed)) = sim.log().last().map(|last| &last.kind) else {
        panic!("{}", sim.format_log());
    };
    let names: Vec<_> = failed.failed_steps.iter().map(StepName::as_str).collect();
    assert_eq!(names, ["cleanup"]);
}

#[test]
fn error_is_that_of_first_failure() {
    let sim = failing_sim(&["work", "cleanup"], "{}").run();
    let Some(EventKind::PlaybookFailed(failed)) = sim.log().last().map(|last| &last.kind) else {
        panic!("{}", sim.format_log());
    };
    let names: Vec<_> = failed.failed_steps.iter().map(StepName::as_str).collect();
    assert_eq!(names, ["work", "cleanup"]);
    assert_eq!(failed.error.task.as_ref().map(Text::as_str), Some("work"));
}

#[test]
fn guard_can_skip_final_step() {
    let sim = failing_sim(&[], r#"{"skip":true}"#).run();
    assert_eq!(sim.status(), ExecutionStatus::Completed);
    assert_eq!(entered_steps(&sim), ["work", "more"]);
    assert!(sim.format_log().contains("guard"), "{}", sim.format_log());
    let failed = failing_sim(&["work"], r#"{"skip":true}"#).run();
    assert_eq!(failed.status(), ExecutionStatus::Failed);
}

#[test]
fn cancel_skips_final_step() {
    let mut sim = failing_sim(&[], "{}");
    sim.start().unwrap();
    assert_eq!(sim.cancel_execution(), Ok(InputVerdict::Accepted));
    assert_eq!(entered_steps(&sim), ["work"]);
}

#[test]
fn execution_timeout_skips_final_step() {
    let mut sim = failing_sim(&[], "{}");
    sim.start().unwrap();
    sim.advance_clock(Millis::from_hours(1));
    sim.fire_timers();
    assert_eq!(sim.status(), ExecutionStatus::Failed);
    assert_eq!(entered_steps(&sim), ["work"]);
}

/// The final step can be cancelled, paused and timed out.
#[test]
fn final_step_can_be_cancelled_and_paused() {
    let mut sim = failing_sim(&["work"], "{}");
    sim.start().unwrap();
    sim.advance_once();
    assert_eq!(entered_steps(&sim), ["work", "cleanup"]);
    let mut cancelled = sim.clone();
    assert_eq!(cancelled.cancel_execution(), Ok(InputVerdict::Accepted));
    assert_eq!(cancelled.status(), ExecutionStatus::Cancelled);
    let mut late = sim.clone();
    late.advance_clock(Millis::from_minutes(10));
    late.fire_timers();
    assert_eq!(late.status(), ExecutionStatus::Failed);
    sim.pause_execution().unwrap();
    let lease = sim.clone().lease_command(sim.state().commands().next().unwrap().0, "w1");
    let report = sim.execute_lease(&lease).unwrap();
    sim.submit_report(report).unwrap();
    assert_eq!(sim.status(), ExecutionStatus::Paused);
    sim.resume_execution().unwrap();
    assert_eq!(sim.status(), ExecutionStatus::Failed);
    sim.repeat_decisions();
}

/// After a failure no waiting step is entered, but the arcs of the final step are followed.
#[test]
fn arcs_of_final_step_are_followed() {
    let sim = Simulation::from_body(
        r"
executor: { spec: { final_step: last } }
workflow:
  - step: start
    tool: { kind: noop }
    next: { spec: { mode: inclusive }, arcs: [{ step: a }, { step: b }] }
  - { step: a, tool: { kind: noop }, next: { arcs: [{ step: merge }] } }
  - { step: b, tool: { kind: shell, command: x }, next: { arcs: [{ step: merge }] } }
  - { step: merge, tool: { kind: noop } }
  - { step: last, tool: { kind: noop }, next: { arcs: [{ step: notify }] } }
  - { step: notify, tool: { kind: noop } }
",
    )
    .with_tools(|call| {
        if call.step == "b" {
            ToolBehavior::failure(TaskErrorKind::Transform, "boom")
        } else {
            ToolBehavior::Configured
        }
    })
    .run();
    assert_eq!(entered_steps(&sim), ["start", "a", "b", "last", "notify"]);
    assert_eq!(sim.status(), ExecutionStatus::Failed);
    sim.repeat_decisions();
}

/// The pass limit and the dead-end check apply together with a final step.
#[test]
fn limits_apply_with_final_step() {
    let sim = Simulation::from_body(
        r#"
executor: { spec: { final_step: last, no_next_is_error: true, policy: { limits: { max_step_runs: 3 } } } }
workflow:
  - { step: turn, tool: { kind: noop }, next: { arcs: [{ step: turn }] } }
  - { step: last, tool: { kind: noop }, next: { arcs: [{ step: notify, when: "{{ false }}" }] } }
  - { step: notify, tool: { kind: noop } }
"#,
    )
    .run();
    let Some(EventKind::PlaybookFailed(failed)) = sim.log().last().map(|last| &last.kind) else {
        panic!("{}", sim.format_log());
    };
    assert_eq!(failed.error.kind, TaskErrorKind::Limit);
    let names: Vec<_> = failed.failed_steps.iter().map(StepName::as_str).collect();
    assert_eq!(names, ["turn", "last"]);
}

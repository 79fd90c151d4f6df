//! The final step runs once, however the execution ends.

use noetl_engine::event::ControlInfo;
use noetl_engine::{EngineInput, EventData, EventKind, FinalizeInput, InputVerdict};
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

/// The tasks of its final step record what they read of the event.
const ALERT_PLAYBOOK: &str = r#"
executor: { spec: { final_step: alert, timeout: 1h } }
workflow:
  - step: work
    tool: { kind: shell, command: work }
    next: { arcs: [{ step: alert_no_more, when: "{{ error }}" }] }
  - { step: alert_no_more, tool: { kind: noop } }
  - step: alert
    tool: { kind: shell, command: "{{ event.name }} {{ event.payload.status }}: {{ event.payload.error.kind }}, {{ event.payload.error.message }}, {{ event.payload.failed_steps }} {{ event.payload.cancelled_steps }}" }
"#;

fn alert_sim() -> Simulation {
    let tools =
        |call: &SimulatedCall<'_>| ToolBehavior::Ok(call.config.get("command").unwrap().clone());
    let mut sim = Simulation::from_body(ALERT_PLAYBOOK).with_tools(tools);
    sim.start().unwrap();
    sim
}

fn output_of(sim: &Simulation, step: &str) -> Option<Json> {
    let step = sim.plan().find_step(step).unwrap();
    match &sim.state().step_state(step)?.output.as_ref()?.data {
        EventData::Inline(data) => Some(data.clone()),
        EventData::External(_) => None,
    }
}

#[test]
fn cancel_runs_final_step() {
    let mut sim = alert_sim();
    assert_eq!(sim.cancel_execution(), Ok(InputVerdict::Accepted));
    assert_eq!(sim.status(), ExecutionStatus::Running);
    assert_eq!(sim.state().ending_status(), Some(ExecutionStatus::Cancelled));
    // A cancel that is delivered twice does not end the final step.
    assert_eq!(sim.cancel_execution(), Ok(InputVerdict::Duplicate));
    sim.run_to_end();
    insta::assert_snapshot!(sim.format_log());
    assert_eq!(sim.status(), ExecutionStatus::Cancelled);
    let expected = "run.ending CANCELLED: cancelled, the execution was cancelled, [] [\"work\"]";
    assert_eq!(output_of(&sim, "alert"), Some(expected.into()));
    sim.repeat_decisions();
}

#[test]
fn execution_timeout_runs_final_step() {
    let mut sim = alert_sim();
    sim.advance_clock(Millis::from_hours(1));
    sim.fire_timers();
    assert_eq!(sim.status(), ExecutionStatus::Running);
    sim.run_to_end();
    insta::assert_snapshot!(sim.format_log());
    assert_eq!(sim.status(), ExecutionStatus::Failed);
    let expected = "run.ending FAILED: timeout, the execution timed out, [] [\"work\"]";
    assert_eq!(output_of(&sim, "alert"), Some(expected.into()));
    sim.repeat_decisions();
}

#[test]
fn forced_cancel_ends_final_step() {
    let mut sim = alert_sim();
    sim.cancel_execution().unwrap();
    assert_eq!(sim.force_cancel(), Ok(InputVerdict::Accepted));
    assert_eq!(sim.status(), ExecutionStatus::Cancelled);
    assert_eq!(entered_steps(&sim), ["work", "alert"]);
    let mut skipped = alert_sim();
    assert_eq!(skipped.force_cancel(), Ok(InputVerdict::Accepted));
    assert_eq!(entered_steps(&skipped), ["work"]);
    sim.repeat_decisions();
    skipped.repeat_decisions();
}

#[test]
fn finalizing_during_final_step_keeps_cancel() {
    let mut sim = alert_sim();
    sim.cancel_execution().unwrap();
    let finalize = FinalizeInput { error: None, control: ControlInfo::default() };
    let verdict = sim.decide(EngineInput::Finalize(Box::new(finalize)));
    assert_eq!(verdict, Ok(InputVerdict::Accepted));
    assert_eq!(sim.status(), ExecutionStatus::Cancelled);
    sim.repeat_decisions();
}

/// The final step has five minutes after a cancel or a timeout, or the time that the playbook
/// specifies. Its end does not change the status of the run.
#[test]
fn final_step_has_time_of_its_own() {
    let mut cancelled = alert_sim();
    cancelled.advance_clock(Millis::from_minutes(59));
    cancelled.cancel_execution().unwrap();
    cancelled.advance_clock(Millis::from_minutes(4));
    cancelled.fire_timers();
    assert_eq!(cancelled.status(), ExecutionStatus::Running);
    cancelled.advance_clock(Millis::from_minutes(1));
    cancelled.fire_timers();
    assert_eq!(cancelled.status(), ExecutionStatus::Cancelled);
    cancelled.repeat_decisions();

    let mut timed_out = alert_sim();
    timed_out.advance_clock(Millis::from_hours(1));
    timed_out.fire_timers();
    timed_out.advance_clock(Millis::from_minutes(5));
    timed_out.fire_timers();
    assert_eq!(timed_out.status(), ExecutionStatus::Failed);
    timed_out.repeat_decisions();

    let body = ALERT_PLAYBOOK.replace("final_step:", "final_step_timeout: 10s, final_step:");
    let mut completed = Simulation::from_body(&body);
    completed.start().unwrap();
    completed.advance_once();
    completed.advance_clock(Millis::from_secs(10));
    completed.fire_timers();
    assert_eq!(completed.status(), ExecutionStatus::Failed);
    completed.repeat_decisions();
}

/// A timeout that passes while the final step of a completed run runs leaves it its own time.
#[test]
fn final_step_of_completed_run_outlives_timeout() {
    let mut sim = alert_sim();
    sim.advance_clock(Millis::from_minutes(59));
    sim.advance_once();
    sim.advance_clock(Millis::from_minutes(4));
    sim.fire_timers();
    sim.run_to_end();
    assert_eq!(sim.status(), ExecutionStatus::Completed);
}

#[test]
fn failed_final_step_of_cancelled_run_leaves_it_cancelled() {
    let mut sim = failing_sim(&["cleanup"], "{}");
    sim.start().unwrap();
    sim.cancel_execution().unwrap();
    sim.run_to_end();
    assert_eq!(sim.status(), ExecutionStatus::Cancelled);
}

/// A run that entered no step has nothing to clean up.
#[test]
fn cancel_before_first_step_skips_final_step() {
    let body = ALERT_PLAYBOOK.replace("executor:", "concurrency: { key: k }\nexecutor:");
    let mut sim = Simulation::from_body(&body);
    sim.start().unwrap();
    assert_eq!(entered_steps(&sim), [""; 0]);
    sim.cancel_execution().unwrap();
    assert_eq!(sim.status(), ExecutionStatus::Cancelled);
    assert_eq!(entered_steps(&sim), [""; 0]);
    sim.repeat_decisions();
}

#[test]
fn cancel_of_paused_run_runs_final_step() {
    let mut sim = alert_sim();
    sim.pause_execution().unwrap();
    sim.cancel_execution().unwrap();
    sim.run_to_end();
    assert_eq!(entered_steps(&sim), ["work", "alert"]);
    assert_eq!(sim.status(), ExecutionStatus::Cancelled);
    sim.repeat_decisions();
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

//! Pause, resume, cancel, finalize and timeouts at edge cases.

use noetl_engine::event::{ControlInfo, TimerId};
use noetl_engine::{DecisionError, EngineInput, EventExtras, FinalizeInput, InputVerdict};
use noetl_testkit::sim::{Simulation, ToolBehavior};
use noetl_types::{ExecutionStatus, Json, JsonMap, Millis, TaskError, TaskErrorKind};

const LOOP_PLAYBOOK: &str = r#"
workflow:
  - step: each
    loop: { in: 5, iterator: i, spec: { mode: parallel, max_in_flight: 3 } }
    tool: { kind: noop, result: "{{ i }}", set: { ctx.last: "{{ i }}" } }
"#;

/// At resume each ended iteration is processed in turn, and the loop ends with the last.
#[test]
fn iterations_ending_during_pause_continue_at_resume() {
    let mut sim = Simulation::from_body(LOOP_PLAYBOOK);
    sim.start().unwrap();
    let leases: Vec<_> =
        sim.available_commands().iter().map(|id| sim.clone().lease_command(*id, "w1")).collect();
    sim.pause_execution().unwrap();
    for lease in [&leases[2], &leases[0], &leases[1]] {
        let report = sim.execute_lease(lease).unwrap();
        sim.submit_report(report).unwrap();
    }
    sim.resume_execution().unwrap();
    sim.run_to_end();
    insta::assert_snapshot!(sim.format_log());
    assert_eq!(sim.status(), ExecutionStatus::Completed);
}

#[test]
fn loop_ending_during_pause_completes_at_resume() {
    let mut sim = Simulation::from_body(&LOOP_PLAYBOOK.replace("in: 5", "in: 3"));
    sim.start().unwrap();
    let leases: Vec<_> =
        sim.available_commands().iter().map(|id| sim.clone().lease_command(*id, "w1")).collect();
    sim.pause_execution().unwrap();
    for lease in &leases {
        let report = sim.execute_lease(lease).unwrap();
        sim.submit_report(report).unwrap();
    }
    assert_eq!(sim.status(), ExecutionStatus::Paused);
    sim.resume_execution().unwrap();
    assert_eq!(sim.status(), ExecutionStatus::Completed);
}

#[test]
fn paused_execution_can_be_cancelled() {
    let mut sim = Simulation::from_body(LOOP_PLAYBOOK);
    sim.start().unwrap();
    let lease = sim.lease_command(sim.available_commands()[0], "w1");
    sim.pause_execution().unwrap();
    let report = sim.execute_lease(&lease).unwrap();
    sim.submit_report(report).unwrap();
    assert_eq!(sim.cancel_execution(), Ok(InputVerdict::Accepted));
    assert_eq!(sim.status(), ExecutionStatus::Cancelled);
    let ended = DecisionError::AlreadyEnded(ExecutionStatus::Cancelled);
    assert_eq!(sim.resume_execution(), Err(ended.clone()));
    assert_eq!(sim.pause_execution(), Err(ended.clone()));
    assert_eq!(sim.decide(EngineInput::TimerFired(TimerId::Execution)), Err(ended));
}

#[test]
fn failing_execution_can_be_paused() {
    let mut sim = Simulation::from_body(
        r"
workflow:
  - step: start
    tool: { kind: noop }
    next: [bad, good]
  - { step: bad, tool: { kind: shell, command: x } }
  - { step: good, tool: { kind: noop } }
",
    )
    .with_tools(|call| match call.step {
        "bad" => ToolBehavior::failure(TaskErrorKind::Transform, "boom"),
        _ => ToolBehavior::Configured,
    });
    sim.start().unwrap();
    sim.advance_once();
    sim.advance_once();
    assert!(sim.state().is_failing());
    let lease = sim.lease_command(sim.available_commands()[0], "w1");
    sim.pause_execution().unwrap();
    let report = sim.execute_lease(&lease).unwrap();
    sim.submit_report(report).unwrap();
    assert_eq!(sim.status(), ExecutionStatus::Paused);
    sim.resume_execution().unwrap();
    assert_eq!(sim.status(), ExecutionStatus::Failed);
}

/// The deadline of a step starts at its first arrival, the timeout at its entry.
#[test]
fn step_deadline_starts_at_first_arrival() {
    let mut sim = Simulation::from_body(
        r"
workflow:
  - step: start
    tool: { kind: noop }
    next: [slow, join]
  - { step: slow, tool: { kind: noop }, next: [join] }
  - step: join
    spec: { timeout: 60s, policy: { lifecycle: { deadline_s: 30 } } }
    tool: { kind: noop }
",
    );
    sim.start().unwrap();
    sim.advance_once();
    let arrived = sim.now();
    sim.advance_clock(Millis::from_secs(20));
    sim.advance_once();
    let join = TimerId::Step { step: "join".parse().unwrap(), run: 1 };
    assert_eq!(sim.open_timers(), std::slice::from_ref(&join));
    assert_eq!(sim.next_timer_at(), Some(arrived.saturating_add(Millis::from_secs(30))));
    sim.advance_clock(Millis::from_secs(10));
    assert_eq!(sim.decide(EngineInput::TimerFired(join.clone())), Ok(InputVerdict::Accepted));
    assert_eq!(sim.status(), ExecutionStatus::Failed);
    let ended = Err(DecisionError::AlreadyEnded(ExecutionStatus::Failed));
    assert_eq!(sim.decide(EngineInput::TimerFired(join)), ended);
}

#[test]
fn rejects_timer_of_earlier_pass() {
    let mut sim = Simulation::from_body(
        "workflow: [{ step: a, spec: { timeout: 5s }, tool: { kind: noop }, next: { arcs: [{ step: a }] } }]",
    );
    sim.start().unwrap();
    sim.advance_once();
    let first = TimerId::Step { step: "a".parse().unwrap(), run: 1 };
    sim.advance_clock(Millis::from_secs(9));
    assert_eq!(
        sim.decide(EngineInput::TimerFired(first.clone())),
        Err(DecisionError::UnknownTimer(first))
    );
    let second = TimerId::Step { step: "a".parse().unwrap(), run: 2 };
    assert_eq!(sim.open_timers(), [second]);
    let none = TimerId::Execution;
    assert_eq!(
        sim.decide(EngineInput::TimerFired(none.clone())),
        Err(DecisionError::UnknownTimer(none))
    );
}

fn finalize_input(error: Option<&str>) -> EngineInput {
    EngineInput::Finalize(Box::new(FinalizeInput {
        error: error.map(|text| TaskError::new(TaskErrorKind::Unknown, text)),
        control: ControlInfo { actor: Some("ann".into()), reason: Some("by hand".into()) },
    }))
}

fn event_names(sim: &Simulation) -> Vec<String> {
    let names = sim.log().iter().map(|event| event.kind.name());
    names.map(|name| name.to_string()).collect()
}

/// Finalizing cancels open commands, then ends the run with the given status, actor and reason.
#[test]
fn finalize_cancels_commands_and_ends_execution() {
    for (error, end_event, status) in [
        (None, "playbook.completed", ExecutionStatus::Completed),
        (Some("gone"), "playbook.failed", ExecutionStatus::Failed),
    ] {
        let mut sim = Simulation::from_body(LOOP_PLAYBOOK);
        sim.start().unwrap();
        let decision = sim.draft_decision(&finalize_input(error)).unwrap();
        let end = decision.events.last().unwrap().event_id;
        let expected_meta = JsonMap::from([
            ("actor".into(), Json::from("ann")),
            ("reason".into(), Json::from("by hand")),
        ]);
        assert_eq!(decision.extras.get(&end), Some(&EventExtras::Meta(expected_meta)));
        assert_eq!(sim.decide(finalize_input(error)), Ok(InputVerdict::Accepted));
        assert_eq!(sim.status(), status);
        let mut names = event_names(&sim);
        names.retain(|end_event| end_event != "step.exit");
        let mut expected = vec!["command.cancelled"; 3];
        expected.push(end_event);
        assert_eq!(names[names.len() - 4..], expected);
        let again = sim.decide(finalize_input(None));
        assert_eq!(again, Err(DecisionError::AlreadyEnded(status)));
    }
}

#[test]
fn paused_execution_can_be_finalized() {
    let mut sim = Simulation::from_body(LOOP_PLAYBOOK);
    sim.start().unwrap();
    sim.pause_execution().unwrap();
    assert_eq!(sim.decide(finalize_input(None)), Ok(InputVerdict::Accepted));
    assert_eq!(sim.status(), ExecutionStatus::Completed);
}

#[test]
fn finalizing_keeps_failed_status() {
    let mut sim = Simulation::from_body(
        r"
workflow:
  - step: start
    tool: { kind: noop }
    next: [bad, good]
  - { step: bad, tool: { kind: shell, command: x } }
  - { step: good, tool: { kind: noop } }
",
    )
    .with_tools(|call| match call.step {
        "bad" => ToolBehavior::failure(TaskErrorKind::Transform, "boom"),
        _ => ToolBehavior::Configured,
    });
    sim.start().unwrap();
    sim.advance_once();
    sim.advance_once();
    assert!(sim.state().is_failing());
    assert_eq!(sim.decide(finalize_input(None)), Ok(InputVerdict::Accepted));
    assert_eq!(sim.status(), ExecutionStatus::Failed);
}

/// No step is entered before the scheduled start. The timeouts of the run and of its first step are
/// measured from the scheduled start.
#[test]
fn scheduled_execution_waits_for_its_start() {
    let body = r"
executor: { spec: { timeout: 10s } }
workflow:
  - { step: start, spec: { policy: { lifecycle: { deadline_s: 5 } } }, tool: { kind: noop } }
";
    let mut sim = Simulation::from_body(body);
    let hour = Millis::from_secs(3600);
    let start_at = sim.now().saturating_add(hour);
    sim.start_at(start_at).unwrap();
    assert_eq!(sim.status(), ExecutionStatus::Pending);
    assert_eq!(sim.log().len(), 1);
    assert_eq!(sim.open_timers(), [TimerId::Start]);
    let early = sim.decide(EngineInput::TimerFired(TimerId::Start));
    assert_eq!(early, Err(DecisionError::NotDue { fire_at: start_at }));
    // A pause defers the start like any timer.
    sim.pause_execution().unwrap();
    sim.advance_clock(hour.saturating_add(Millis::from_secs(7)));
    let paused = sim.decide(EngineInput::TimerFired(TimerId::Start));
    assert_eq!(paused, Err(DecisionError::Paused));
    sim.resume_execution().unwrap();
    assert_eq!(sim.open_timers(), [TimerId::Start]);
    sim.fire_timers();
    assert_eq!(sim.available_commands().len(), 1);
    let due: Vec<Millis> = sim
        .state()
        .pending_timers(sim.plan())
        .map(|timer| timer.fire_at.duration_since(sim.now()))
        .collect();
    assert_eq!(due, [Millis::from_secs(10), Millis::from_secs(5)]);
    let again = sim.decide(EngineInput::TimerFired(TimerId::Start));
    assert_eq!(again, Err(DecisionError::UnknownTimer(TimerId::Start)));
    sim.run_to_end();
    assert_eq!(sim.status(), ExecutionStatus::Completed);
    sim.repeat_decisions();
}

#[test]
fn scheduled_execution_can_be_cancelled() {
    let mut sim = Simulation::from_body("workflow:\n  - { step: start, tool: { kind: noop } }\n");
    let start_at = sim.now().saturating_add(Millis::from_secs(3600));
    sim.start_at(start_at).unwrap();
    sim.cancel_execution().unwrap();
    assert_eq!(sim.status(), ExecutionStatus::Cancelled);
    assert_eq!(sim.open_timers(), []);
}

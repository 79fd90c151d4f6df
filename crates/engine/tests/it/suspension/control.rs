//! Pause, resume and timeouts of suspended tasks.

use noetl_engine::event::{CommandTimer, TimerId};
use noetl_engine::{
    ApprovalChoice, ChildOutcome, DecisionError, EngineInput, EventData, InputVerdict,
};
use noetl_testkit::sim::{Simulation, ToolBehavior};
use noetl_types::{CommandId, ExecutionStatus, Json, Millis};

use super::{event_names_since, parse_json, started_sim};

const FOUR_SUSPENSIONS: &str = r"
workflow:
  - step: start
    tool: { kind: noop }
    next: { spec: { mode: inclusive }, arcs: [{ step: nap }, { step: w }, { step: ask }, { step: sub }] }
  - { step: nap, tool: { kind: sleep, for: 10s } }
  - { step: w, tool: { kind: wait, signal: go } }
  - { step: ask, tool: { kind: approval } }
  - { step: sub, tool: { kind: playbook, path: x, return_result: true } }
";

#[test]
fn paused_execution_rejects_input_and_defers_timers() {
    let mut sim = started_sim(FOUR_SUSPENSIONS);
    sim.run_to_end();
    let child = sim.awaited_children()[0];
    sim.pause_execution().unwrap();
    let before = sim.log().len();
    let ended = || ChildOutcome::Completed { result: EventData::Inline(Json::from(1)) };
    assert_eq!(sim.send_signal("go", None, Json::Null), Err(DecisionError::Paused));
    assert_eq!(
        sim.send_decision("ask", "ann", ApprovalChoice::Approve),
        Err(DecisionError::Paused)
    );
    assert_eq!(sim.report_child_end(child, ended()), Err(DecisionError::Paused));
    sim.advance_clock(Millis::from_secs(60));
    sim.fire_timers();
    assert_eq!(event_names_since(&sim, before), Vec::<String>::new());
    sim.resume_execution().unwrap();
    sim.fire_timers();
    let after = event_names_since(&sim, before);
    assert_eq!(
        after,
        ["playbook.resumed", "timer.fired", "call.done", "command.completed", "step.exit"]
    );
    assert_eq!(sim.send_signal("go", None, Json::Null), Ok(InputVerdict::Accepted));
    assert_eq!(
        sim.send_decision("ask", "ann", ApprovalChoice::Approve),
        Ok(InputVerdict::Accepted)
    );
    assert_eq!(sim.report_child_end(child, ended()), Ok(InputVerdict::Accepted));
    assert_eq!(sim.status(), ExecutionStatus::Completed);
    sim.repeat_decisions();
}

/// The next segment is issued at resume.
#[test]
fn segment_ending_during_pause_continues_at_resume() {
    let mut sim = started_sim(
        "workflow: [{ step: s, tool: [{ name: a, kind: noop, result: 1 }, { name: nap, kind: sleep, for: 1s }, { name: b, kind: noop, result: \"{{ a }}\" }] }]",
    );
    let lease = sim.lease_command(sim.available_commands()[0], "w1");
    sim.pause_execution().unwrap();
    let report = sim.execute_lease(&lease).unwrap();
    assert_eq!(sim.submit_report(report), Ok(InputVerdict::Accepted));
    let before = sim.log().len();
    sim.resume_execution().unwrap();
    let after = event_names_since(&sim, before);
    assert_eq!(after, ["playbook.resumed", "command.issued", "timer.started"]);
    assert!(sim.advance_to_next_event());
    sim.run_to_end();
    assert_eq!(sim.status(), ExecutionStatus::Completed);
}

/// A callback may arrive at any time, including during a pause.
#[test]
fn callback_during_pause_is_deferred() {
    let mut sim = Simulation::from_body(
        "workflow: [{ step: job, tool: { kind: container, image: i, callback: true }, next: { arcs: [{ step: after }] } }, { step: after, tool: { kind: noop } }]",
    )
    .with_tools(|_| ToolBehavior::Ok(parse_json("{}")));
    sim.start().unwrap();
    let lease = sim.lease_command(sim.available_commands()[0], "w1");
    sim.pause_execution().unwrap();
    let report = sim.execute_lease(&lease).unwrap();
    assert_eq!(sim.submit_report(report.clone()), Ok(InputVerdict::Accepted));
    let command = lease.command;
    assert!(matches!(sim.submit_report(report), Ok(InputVerdict::Ignored(_))));
    let callback = |data: &str| {
        EngineInput::Callback(Box::new(noetl_engine::CallbackResult {
            command,
            data: parse_json(data),
            error: None,
        }))
    };
    assert_eq!(sim.decide(callback(r#"{"exit_code":0}"#)), Ok(InputVerdict::Accepted));
    assert_eq!(sim.decide(callback("{}")), Err(DecisionError::UnknownCommand(command)));
    let before = sim.log().len();
    sim.resume_execution().unwrap();
    assert_eq!(event_names_since(&sim, before)[..2], ["playbook.resumed", "step.exit"]);
    sim.run_to_end();
    assert_eq!(sim.status(), ExecutionStatus::Completed);
}

#[test]
fn suspended_container_has_no_lease_to_expire() {
    let mut sim = Simulation::from_body("workflow: [{ step: job, tool: { kind: container, image: i, callback: true, timeout: 1h } }]")
        .with_tools(|_| ToolBehavior::Ok(parse_json("{}")));
    sim.start().unwrap();
    let lease = sim.lease_command(sim.available_commands()[0], "w1");
    let report = sim.execute_lease(&lease).unwrap();
    sim.submit_report(report).unwrap();
    let before = sim.log().len();
    assert_eq!(sim.expire_lease(&lease), Ok(InputVerdict::Duplicate));
    assert_eq!(sim.log().len(), before);
    assert!(sim.advance_to_next_event());
    assert_eq!(sim.status(), ExecutionStatus::Failed);
}

#[test]
fn command_timers_fire_once_when_due() {
    let mut sim = started_sim(FOUR_SUSPENSIONS);
    sim.run_to_end();
    let nap = sim.state().suspended_tasks().next().unwrap().0;
    let timer = |timer, command| TimerId::Command { command, timer };
    let sleep = timer(CommandTimer::Sleep, nap);
    assert!(sim.open_timers().contains(&sleep));
    let early = sim.decide(EngineInput::TimerFired(sleep.clone()));
    assert!(matches!(early, Err(DecisionError::NotDue { .. })));
    for unknown in
        [timer(CommandTimer::Retry, nap), timer(CommandTimer::Sleep, CommandId::new(1).unwrap())]
    {
        let result = sim.decide(EngineInput::TimerFired(unknown.clone()));
        assert_eq!(result, Err(DecisionError::UnknownTimer(unknown)));
    }
    sim.advance_clock(Millis::from_secs(10));
    assert_eq!(sim.decide(EngineInput::TimerFired(sleep.clone())), Ok(InputVerdict::Accepted));
    let again = sim.decide(EngineInput::TimerFired(sleep.clone()));
    assert_eq!(again, Err(DecisionError::UnknownTimer(sleep)));
}

#[test]
fn sleep_longer_than_its_timeout_fails() {
    let mut sim =
        started_sim("workflow: [{ step: nap, tool: { kind: sleep, for: 1h, timeout: 1m } }]");
    assert!(sim.advance_to_next_event());
    assert_eq!(sim.status(), ExecutionStatus::Failed);
    assert!(sim.format_log().contains("\"kind\":\"timeout\""), "{}", sim.format_log());
}

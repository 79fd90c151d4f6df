//! Pause, resume and timeouts over tasks that wait.

use noetl_engine::event::{CommandTimer, TimerId};
use noetl_engine::{ChildEnd, Data, Decided, Input, Refused, Verdict};
use noetl_testkit::sim::{Play, Sim};
use noetl_types::{CommandId, ExecutionStatus, Json, Millis};

use super::{begun, json, names_since};

const FOUR: &str = r"
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
fn nothing_reaches_a_paused_run_and_timers_fire_at_resume() {
    let mut sim = begun(FOUR);
    sim.finish();
    let child = sim.children()[0];
    sim.pause().unwrap();
    let before = sim.log().len();
    let ended = || ChildEnd::Completed {
        result: Data::Inline(Json::from(1)),
    };
    assert_eq!(sim.signal("go", None, Json::Null), Err(Refused::Paused));
    assert_eq!(
        sim.approve("ask", "ann", Decided::Approve),
        Err(Refused::Paused)
    );
    assert_eq!(sim.child_ended(child, ended()), Err(Refused::Paused));
    sim.advance(Millis::from_secs(60));
    sim.fire_timers();
    assert_eq!(names_since(&sim, before), Vec::<String>::new());
    sim.resume().unwrap();
    sim.fire_timers();
    let after = names_since(&sim, before);
    assert_eq!(
        after,
        [
            "playbook.resumed",
            "timer.fired",
            "call.done",
            "command.completed",
            "step.exit"
        ]
    );
    assert_eq!(sim.signal("go", None, Json::Null), Ok(Verdict::Accepted));
    assert_eq!(
        sim.approve("ask", "ann", Decided::Approve),
        Ok(Verdict::Accepted)
    );
    assert_eq!(sim.child_ended(child, ended()), Ok(Verdict::Accepted));
    assert_eq!(sim.status(), ExecutionStatus::Completed);
    sim.decide_again();
}

/// A segment that ends during a pause is followed by the next one at resume.
#[test]
fn a_segment_that_ends_during_a_pause() {
    let mut sim = begun(
        "workflow: [{ step: s, tool: [{ name: a, kind: noop, result: 1 }, { name: nap, kind: sleep, for: 1s }, { name: b, kind: noop, result: \"{{ a }}\" }] }]",
    );
    let lease = sim.lease(sim.available()[0], "w1");
    sim.pause().unwrap();
    let report = sim.work(&lease).unwrap();
    assert_eq!(sim.report(report), Ok(Verdict::Accepted));
    let before = sim.log().len();
    sim.resume().unwrap();
    let after = names_since(&sim, before);
    assert_eq!(
        after,
        ["playbook.resumed", "command.issued", "timer.started"]
    );
    assert!(sim.let_time_pass());
    sim.finish();
    assert_eq!(sim.status(), ExecutionStatus::Completed);
}

/// What a worker started may tell its end at any time.
#[test]
fn a_callback_during_a_pause_is_held_back() {
    let mut sim = Sim::of(
        "workflow: [{ step: job, tool: { kind: container, image: i, callback: true }, next: { arcs: [{ step: after }] } }, { step: after, tool: { kind: noop } }]",
    )
    .with_tools(|_| Play::Ok(json("{}")));
    sim.start().unwrap();
    let lease = sim.lease(sim.available()[0], "w1");
    sim.pause().unwrap();
    let report = sim.work(&lease).unwrap();
    assert_eq!(sim.report(report.clone()), Ok(Verdict::Accepted));
    let command = lease.command;
    assert!(matches!(sim.report(report), Ok(Verdict::Ignored(_))));
    let called = |data: &str| {
        Input::Callback(Box::new(noetl_engine::Called {
            command,
            data: json(data),
            error: None,
        }))
    };
    assert_eq!(
        sim.decide(called(r#"{"exit_code":0}"#)),
        Ok(Verdict::Accepted)
    );
    assert_eq!(
        sim.decide(called("{}")),
        Err(Refused::UnknownCommand(command))
    );
    let before = sim.log().len();
    sim.resume().unwrap();
    assert_eq!(
        names_since(&sim, before)[..2],
        ["playbook.resumed", "step.exit"]
    );
    sim.finish();
    assert_eq!(sim.status(), ExecutionStatus::Completed);
}

#[test]
fn a_parked_container_has_no_lease_that_runs_out() {
    let mut sim = Sim::of("workflow: [{ step: job, tool: { kind: container, image: i, callback: true, timeout: 1h } }]")
        .with_tools(|_| Play::Ok(json("{}")));
    sim.start().unwrap();
    let lease = sim.lease(sim.available()[0], "w1");
    let report = sim.work(&lease).unwrap();
    sim.report(report).unwrap();
    let before = sim.log().len();
    assert_eq!(sim.expire(&lease), Ok(Verdict::Duplicate));
    assert_eq!(sim.log().len(), before);
    assert!(sim.let_time_pass());
    assert_eq!(sim.status(), ExecutionStatus::Failed);
}

#[test]
fn timers_are_known_by_their_command_and_fire_when_due() {
    let mut sim = begun(FOUR);
    sim.finish();
    let nap = sim.state().parked().next().unwrap().0;
    let timer = |timer, command| TimerId::Command { command, timer };
    let sleep = timer(CommandTimer::Sleep, nap);
    assert!(sim.timers().contains(&sleep));
    let early = sim.decide(Input::TimerFired(sleep.clone()));
    assert!(matches!(early, Err(Refused::NotDue { .. })));
    for unknown in [
        timer(CommandTimer::Retry, nap),
        timer(CommandTimer::Sleep, CommandId::new(1).unwrap()),
    ] {
        let refused = sim.decide(Input::TimerFired(unknown.clone()));
        assert_eq!(refused, Err(Refused::UnknownTimer(unknown)));
    }
    sim.advance(Millis::from_secs(10));
    assert_eq!(
        sim.decide(Input::TimerFired(sleep.clone())),
        Ok(Verdict::Accepted)
    );
    let again = sim.decide(Input::TimerFired(sleep.clone()));
    assert_eq!(again, Err(Refused::UnknownTimer(sleep)));
}

/// The task's own time is up before its sleep is over.
#[test]
fn a_sleep_longer_than_its_timeout() {
    let mut sim = begun("workflow: [{ step: nap, tool: { kind: sleep, for: 1h, timeout: 1m } }]");
    assert!(sim.let_time_pass());
    assert_eq!(sim.status(), ExecutionStatus::Failed);
    assert!(
        sim.table().contains("\"kind\":\"timeout\""),
        "{}",
        sim.table()
    );
}

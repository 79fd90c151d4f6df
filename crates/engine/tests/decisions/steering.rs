//! Pause, resume, cancel and timeouts at awkward moments.

use noetl_engine::event::{Steering, TimerId};
use noetl_engine::{Beside, Finalize, Input, Refused, Verdict};
use noetl_testkit::sim::{Play, Sim};
use noetl_types::{ExecutionStatus, Json, JsonMap, Millis, TaskError, TaskErrorKind};

const LOOP: &str = r#"
workflow:
  - step: each
    loop: { in: 5, iterator: i, spec: { mode: parallel, max_in_flight: 3 } }
    tool: { kind: noop, result: "{{ i }}", set: { ctx.last: "{{ i }}" } }
"#;

/// Several iterations of one loop end while the run is paused: each of them is followed up in its
/// turn, and the loop ends with the last.
#[test]
fn iterations_that_end_during_a_pause() {
    let mut sim = Sim::of(LOOP);
    sim.start().unwrap();
    let leases: Vec<_> = sim
        .available()
        .iter()
        .map(|id| sim.clone().lease(*id, "w1"))
        .collect();
    sim.pause().unwrap();
    for lease in [&leases[2], &leases[0], &leases[1]] {
        let report = sim.work(lease).unwrap();
        sim.report(report).unwrap();
    }
    sim.resume().unwrap();
    sim.finish();
    insta::assert_snapshot!(sim.table());
    assert_eq!(sim.status(), ExecutionStatus::Completed);
}

#[test]
fn all_iterations_end_during_a_pause() {
    let mut sim = Sim::of(&LOOP.replace("in: 5", "in: 3"));
    sim.start().unwrap();
    let leases: Vec<_> = sim
        .available()
        .iter()
        .map(|id| sim.clone().lease(*id, "w1"))
        .collect();
    sim.pause().unwrap();
    for lease in &leases {
        let report = sim.work(lease).unwrap();
        sim.report(report).unwrap();
    }
    assert_eq!(sim.status(), ExecutionStatus::Paused);
    sim.resume().unwrap();
    assert_eq!(sim.status(), ExecutionStatus::Completed);
}

#[test]
fn a_paused_run_can_be_cancelled() {
    let mut sim = Sim::of(LOOP);
    sim.start().unwrap();
    let lease = sim.lease(sim.available()[0], "w1");
    sim.pause().unwrap();
    let report = sim.work(&lease).unwrap();
    sim.report(report).unwrap();
    assert_eq!(sim.cancel(), Ok(Verdict::Accepted));
    assert_eq!(sim.status(), ExecutionStatus::Cancelled);
    let ended = Refused::AlreadyEnded(ExecutionStatus::Cancelled);
    assert_eq!(sim.resume(), Err(ended.clone()));
    assert_eq!(sim.pause(), Err(ended.clone()));
    assert_eq!(
        sim.decide(Input::TimerFired(TimerId::Execution)),
        Err(ended)
    );
}

#[test]
fn a_run_that_is_failing_can_be_paused() {
    let mut sim = Sim::of(
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
        "bad" => Play::fail(TaskErrorKind::Transform, "boom"),
        _ => Play::AsWritten,
    });
    sim.start().unwrap();
    sim.step();
    sim.step();
    assert!(sim.state().is_failing());
    let lease = sim.lease(sim.available()[0], "w1");
    sim.pause().unwrap();
    let report = sim.work(&lease).unwrap();
    sim.report(report).unwrap();
    assert_eq!(sim.status(), ExecutionStatus::Paused);
    sim.resume().unwrap();
    assert_eq!(sim.status(), ExecutionStatus::Failed);
}

/// The deadline of a step counts from its first arrival, the timeout from its entering.
#[test]
fn deadline_and_timeout() {
    let mut sim = Sim::of(
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
    sim.step();
    let arrived = sim.now();
    sim.advance(Millis::from_secs(20));
    sim.step();
    let join = TimerId::Step {
        step: "join".parse().unwrap(),
        run: 1,
    };
    assert_eq!(sim.timers(), std::slice::from_ref(&join));
    assert_eq!(
        sim.next_timer(),
        Some(arrived.saturating_add(Millis::from_secs(30)))
    );
    sim.advance(Millis::from_secs(10));
    assert_eq!(
        sim.decide(Input::TimerFired(join.clone())),
        Ok(Verdict::Accepted)
    );
    assert_eq!(sim.status(), ExecutionStatus::Failed);
    let ended = Err(Refused::AlreadyEnded(ExecutionStatus::Failed));
    assert_eq!(sim.decide(Input::TimerFired(join)), ended);
}

#[test]
fn a_timer_of_an_earlier_run_is_no_timer() {
    let mut sim = Sim::of(
        "workflow: [{ step: a, spec: { timeout: 5s }, tool: { kind: noop }, next: { arcs: [{ step: a }] } }]",
    );
    sim.start().unwrap();
    sim.step();
    let first = TimerId::Step {
        step: "a".parse().unwrap(),
        run: 1,
    };
    sim.advance(Millis::from_secs(9));
    assert_eq!(
        sim.decide(Input::TimerFired(first.clone())),
        Err(Refused::UnknownTimer(first))
    );
    let second = TimerId::Step {
        step: "a".parse().unwrap(),
        run: 2,
    };
    assert_eq!(sim.timers(), [second]);
    let none = TimerId::Execution;
    assert_eq!(
        sim.decide(Input::TimerFired(none.clone())),
        Err(Refused::UnknownTimer(none))
    );
}

fn finalize(error: Option<&str>) -> Input {
    Input::Finalize(Box::new(Finalize {
        error: error.map(|text| TaskError::new(TaskErrorKind::Unknown, text)),
        steering: Steering {
            actor: Some("ann".into()),
            reason: Some("by hand".into()),
        },
    }))
}

fn words(sim: &Sim) -> Vec<String> {
    let names = sim.log().iter().map(|event| event.kind.name());
    names.map(|name| name.to_string()).collect()
}

/// What is open is withdrawn first, then the run ends as it is told, with who said so and why.
#[test]
fn a_run_may_be_finalized() {
    for (error, word, status) in [
        (None, "playbook.completed", ExecutionStatus::Completed),
        (Some("gone"), "playbook.failed", ExecutionStatus::Failed),
    ] {
        let mut sim = Sim::of(LOOP);
        sim.start().unwrap();
        let decision = sim.draft(&finalize(error)).unwrap();
        let end = decision.events.last().unwrap().event_id;
        let said = JsonMap::from([
            ("actor".into(), Json::from("ann")),
            ("reason".into(), Json::from("by hand")),
        ]);
        assert_eq!(decision.beside.get(&end), Some(&Beside::Meta(said)));
        assert_eq!(sim.decide(finalize(error)), Ok(Verdict::Accepted));
        assert_eq!(sim.status(), status);
        let mut words = words(&sim);
        words.retain(|word| word != "step.exit");
        let mut expected = vec!["command.cancelled"; 3];
        expected.push(word);
        assert_eq!(words[words.len() - 4..], expected);
        let again = sim.decide(finalize(None));
        assert_eq!(again, Err(Refused::AlreadyEnded(status)));
    }
}

#[test]
fn a_paused_run_may_be_finalized() {
    let mut sim = Sim::of(LOOP);
    sim.start().unwrap();
    sim.pause().unwrap();
    assert_eq!(sim.decide(finalize(None)), Ok(Verdict::Accepted));
    assert_eq!(sim.status(), ExecutionStatus::Completed);
}

#[test]
fn a_failure_is_not_undone_by_finalizing() {
    let mut sim = Sim::of(
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
        "bad" => Play::fail(TaskErrorKind::Transform, "boom"),
        _ => Play::AsWritten,
    });
    sim.start().unwrap();
    sim.step();
    sim.step();
    assert!(sim.state().is_failing());
    assert_eq!(sim.decide(finalize(None)), Ok(Verdict::Accepted));
    assert_eq!(sim.status(), ExecutionStatus::Failed);
}

/// Nothing is entered before the time of a run, and all that is counted from its beginning is counted
/// from then: its own bound and that of its first step.
#[test]
fn a_run_that_begins_later_waits_for_its_time() {
    let body = r"
executor: { spec: { timeout: 10s } }
workflow:
  - { step: start, spec: { policy: { lifecycle: { deadline_s: 5 } } }, tool: { kind: noop } }
";
    let mut sim = Sim::of(body);
    let hour = Millis::from_secs(3600);
    let start_at = sim.now().saturating_add(hour);
    sim.start_at(start_at).unwrap();
    assert_eq!(sim.status(), ExecutionStatus::Pending);
    assert_eq!(sim.log().len(), 1);
    assert_eq!(sim.timers(), [TimerId::Start]);
    let early = sim.decide(Input::TimerFired(TimerId::Start));
    assert_eq!(early, Err(Refused::NotDue { fire_at: start_at }));
    // A pause holds it back, like any timer.
    sim.pause().unwrap();
    sim.advance(hour.saturating_add(Millis::from_secs(7)));
    let paused = sim.decide(Input::TimerFired(TimerId::Start));
    assert_eq!(paused, Err(Refused::Paused));
    sim.resume().unwrap();
    assert_eq!(sim.timers(), [TimerId::Start]);
    sim.fire_timers();
    assert_eq!(sim.available().len(), 1);
    let due: Vec<Millis> = sim
        .state()
        .timers(sim.plan())
        .map(|timer| timer.fire_at.since(sim.now()))
        .collect();
    assert_eq!(due, [Millis::from_secs(10), Millis::from_secs(5)]);
    let again = sim.decide(Input::TimerFired(TimerId::Start));
    assert_eq!(again, Err(Refused::UnknownTimer(TimerId::Start)));
    sim.finish();
    assert_eq!(sim.status(), ExecutionStatus::Completed);
    sim.decide_again();
}

#[test]
fn a_run_that_is_yet_to_begin_can_be_cancelled() {
    let mut sim = Sim::of("workflow:\n  - { step: start, tool: { kind: noop } }\n");
    let start_at = sim.now().saturating_add(Millis::from_secs(3600));
    sim.start_at(start_at).unwrap();
    sim.cancel().unwrap();
    assert_eq!(sim.status(), ExecutionStatus::Cancelled);
    assert_eq!(sim.timers(), []);
}

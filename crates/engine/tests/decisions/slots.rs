//! Slots: steps and whole runs that wait for one.

use noetl_engine::{EventKind, Refused, SlotChange, SlotGrant, SlotHolder, Verdict};
use noetl_testkit::sim::{Play, Sim};
use noetl_types::{ErrorCode, ExecutionStatus, Millis, StepName, TaskErrorKind};

use crate::json;

const BODY: &str = r#"
workload: { db: main }
workflow:
  - step: start
    tool: { kind: noop }
    next: { spec: { mode: inclusive }, arcs: [{ step: a }, { step: b }] }
  - step: a
    concurrency: { key: "db-{{ workload.db }}", limit: 1 }
    priority: 7
    tool: { kind: noop }
    next: { arcs: [{ step: merge }] }
  - { step: b, tool: { kind: noop }, next: { arcs: [{ step: merge }] } }
  - { step: merge, tool: { kind: noop } }
"#;

fn of_step(step: &str, run: u32, key: &str) -> SlotGrant {
    SlotGrant {
        holder: SlotHolder::Step {
            step: StepName::new(step).unwrap(),
            run,
        },
        key: key.into(),
    }
}

fn entered(sim: &Sim) -> Vec<String> {
    let entered = sim.log().iter().filter_map(|event| match &event.kind {
        EventKind::StepEntered(entered) => Some(entered.step.to_string()),
        _ => None,
    });
    entered.collect()
}

/// Works off all commands, and grants nothing.
fn work_off(sim: &mut Sim) {
    while let Some(command) = sim.available().first().copied() {
        let lease = sim.lease(command, "w1");
        let report = sim.work(&lease).unwrap();
        assert_eq!(sim.report(report), Ok(Verdict::Accepted));
    }
}

#[test]
fn a_step_waits_for_its_slot_and_a_join_for_the_step() {
    let mut sim = Sim::of(BODY);
    sim.start().unwrap();
    work_off(&mut sim);
    assert_eq!(entered(&sim), ["start", "b"]);
    assert_eq!(sim.status(), ExecutionStatus::Running);
    let wants = sim.wants();
    assert_eq!(wants.len(), 1);
    assert_eq!(
        (wants[0].slot.key.as_str(), wants[0].slot.limit),
        ("db-main", 1)
    );
    assert_eq!(wants[0].priority, 7);
    assert_eq!(sim.grant(of_step("a", 1, "db-main")), Ok(Verdict::Accepted));
    assert_eq!(entered(&sim), ["start", "b", "a"]);
    // Told twice, it is still one.
    assert_eq!(
        sim.grant(of_step("a", 1, "db-main")),
        Ok(Verdict::Duplicate)
    );
    assert_eq!(
        sim.state().held_slots(sim.plan()),
        [of_step("a", 1, "db-main")]
    );
    work_off(&mut sim);
    assert_eq!(sim.status(), ExecutionStatus::Completed);
    assert!(sim.state().held_slots(sim.plan()).is_empty());
    insta::assert_snapshot!(sim.table());
    sim.decide_again();
}

#[test]
fn a_slot_is_free_when_its_step_is_left() {
    let mut sim = Sim::of(BODY);
    sim.start().unwrap();
    work_off(&mut sim);
    sim.grant(of_step("a", 1, "db-main")).unwrap();
    let lease = sim.lease(sim.available()[0], "w1");
    let report = sim.work(&lease).unwrap();
    let input = noetl_engine::Input::Report(Box::new(report));
    let decision = sim.draft(&input).unwrap();
    assert_eq!(
        decision.slots,
        [SlotChange::Free(of_step("a", 1, "db-main"))]
    );
}

#[test]
fn what_nothing_waits_for_is_refused() {
    let mut sim = Sim::of(BODY);
    sim.start().unwrap();
    let refused = |grant: SlotGrant| Err(Refused::NoSlotWanted(grant));
    let early = of_step("a", 1, "db-main");
    assert_eq!(sim.grant(early.clone()), refused(early));
    work_off(&mut sim);
    let other_run = of_step("a", 2, "db-main");
    assert_eq!(sim.grant(other_run.clone()), refused(other_run));
    let other_step = of_step("b", 2, "db-main");
    assert_eq!(sim.grant(other_step.clone()), refused(other_step));
    let of_run = SlotGrant {
        holder: SlotHolder::Run,
        key: "db-main".into(),
    };
    assert_eq!(sim.grant(of_run.clone()), refused(of_run));
    // Another key: that slot is given back, and the right one is wanted again.
    let other_key = sim.grant(of_step("a", 1, "db-other"));
    assert_eq!(
        other_key,
        Ok(Verdict::Ignored(ErrorCode::IllegalTransition))
    );
    assert_eq!(sim.wants().len(), 1);
    sim.finish();
    assert_eq!(sim.status(), ExecutionStatus::Completed);
    let late = sim.grant(of_step("a", 1, "db-main"));
    assert_eq!(late, Err(Refused::AlreadyEnded(ExecutionStatus::Completed)));
}

#[test]
fn a_run_that_waits_for_a_slot_can_be_cancelled() {
    let mut sim = Sim::of(BODY);
    sim.start().unwrap();
    work_off(&mut sim);
    let by = noetl_engine::event::Steering::default();
    let decision = sim.draft(&noetl_engine::Input::Cancel(by)).unwrap();
    let wish = SlotChange::Free(of_step("a", 1, "db-main"));
    assert_eq!(decision.slots, [SlotChange::Clear, wish]);
    assert_eq!(sim.cancel(), Ok(Verdict::Accepted));
    assert!(sim.wants().is_empty());
}

/// A slot that comes during a pause is given back, and asked for again at resume.
#[test]
fn pausing_gives_a_slot_back() {
    let mut sim = Sim::of(BODY);
    sim.start().unwrap();
    work_off(&mut sim);
    sim.pause().unwrap();
    assert_eq!(sim.grant(of_step("a", 1, "db-main")), Err(Refused::Paused));
    assert!(sim.wants().is_empty());
    sim.resume().unwrap();
    assert_eq!(sim.wants().len(), 1);
    sim.finish();
    assert_eq!(sim.status(), ExecutionStatus::Completed);
}

/// A failure elsewhere: what waits for a slot is never entered.
#[test]
fn a_failure_elsewhere_gives_the_wish_up() {
    let mut sim = Sim::of(BODY).with_tools(|call| {
        if call.step == "b" {
            Play::fail(TaskErrorKind::Transform, "boom")
        } else {
            Play::AsWritten
        }
    });
    sim.start().unwrap();
    work_off(&mut sim);
    assert_eq!(sim.status(), ExecutionStatus::Failed);
    assert_eq!(entered(&sim), ["start", "b"]);
    assert!(sim.wants().is_empty());
}

/// The guard is asked when the step is about to start: so again when the slot is there.
#[test]
fn a_guard_is_asked_again() {
    let text = BODY.replace(
        "concurrency: { key: \"db-{{ workload.db }}\"",
        "when: \"{{ not ctx.stop }}\"\n    concurrency: { key: \"db-{{ workload.db }}\"",
    );
    let text = text.replace(
        "{ step: b, tool: { kind: noop }",
        "{ step: b, tool: { kind: noop }, set: { ctx.stop: true }",
    );
    let mut sim = Sim::of(&text);
    sim.start().unwrap();
    work_off(&mut sim);
    assert_eq!(sim.status(), ExecutionStatus::Completed);
    assert_eq!(entered(&sim), ["start", "b", "merge"]);
}

#[test]
fn steps_of_one_run_share_a_slot() {
    let sim = Sim::of(
        r"
workflow:
  - step: start
    tool: { kind: noop }
    next: { spec: { mode: inclusive }, arcs: [{ step: a }, { step: b }, { step: c }] }
  - { step: a, concurrency: { key: k, limit: 2 }, tool: { kind: noop } }
  - { step: b, concurrency: { key: k, limit: 2 }, tool: { kind: noop } }
  - { step: c, concurrency: { key: k, limit: 2 }, tool: { kind: noop } }
",
    )
    .run();
    assert_eq!(sim.status(), ExecutionStatus::Completed);
    assert_eq!(entered(&sim), ["start", "a", "b", "c"]);
    sim.decide_again();
}

#[test]
fn keys_are_texts() {
    for (key, message) in [
        ("{{ none }}", "concurrency.key"),
        ("{{ [1] }}", "concurrency.key"),
        ("{{ 'x' * 2000 }}", "190 bytes"),
    ] {
        let sim = Sim::of(&BODY.replace("db-{{ workload.db }}", key)).run();
        assert_eq!(sim.status(), ExecutionStatus::Failed, "{key}");
        assert!(sim.table().contains(message), "{key}\n{}", sim.table());
    }
}

const QUEUED: &str = r#"
concurrency: { key: "tenant-{{ workload.n }}", limit: 2, overlap: cancel_previous }
priority: "{{ workload.n + 1 }}"
workload: { n: 4 }
executor: { spec: { timeout: 1h } }
workflow:
  - { step: start, concurrency: { key: own }, tool: { kind: noop } }
"#;

#[test]
fn a_run_waits_for_its_own_slot_first() {
    let mut sim = Sim::of(QUEUED);
    sim.start().unwrap();
    assert_eq!(sim.log().len(), 1);
    assert_eq!(sim.status(), ExecutionStatus::Pending);
    assert_eq!(sim.state().wanted_slot().unwrap().slot.limit, 2);
    let wants = sim.wants();
    assert_eq!(wants.len(), 1);
    assert_eq!(wants[0].holder, SlotHolder::Run);
    assert_eq!(wants[0].overlap.as_str(), "cancel_previous");
    assert_eq!(wants[0].priority, 5);
    let of_run = SlotGrant {
        holder: SlotHolder::Run,
        key: "tenant-4".into(),
    };
    // Its first step shares a slot too: the run has its own, and waits on.
    assert_eq!(sim.grant(of_run.clone()), Ok(Verdict::Accepted));
    assert_eq!(sim.wants()[0].slot.key.as_str(), "own");
    assert_eq!(sim.grant(of_run), Ok(Verdict::Accepted));
    assert_eq!(sim.grant(of_step("start", 1, "own")), Ok(Verdict::Accepted));
    work_off(&mut sim);
    assert_eq!(sim.status(), ExecutionStatus::Completed);
    insta::assert_snapshot!(sim.table());
    sim.decide_again();
}

#[test]
fn a_run_that_waits_can_be_cancelled_and_be_out_of_time() {
    let mut sim = Sim::of(QUEUED);
    sim.start().unwrap();
    let mut late = sim.clone();
    late.advance(Millis::from_hours(1));
    late.fire_timers();
    assert_eq!(late.status(), ExecutionStatus::Failed);
    assert!(late.wants().is_empty());
    assert_eq!(sim.cancel(), Ok(Verdict::Accepted));
    assert_eq!(sim.status(), ExecutionStatus::Cancelled);
    assert!(sim.wants().is_empty());
}

#[test]
fn a_key_of_a_run_that_cannot_be_rendered_fails_the_run() {
    let sim = Sim::of(QUEUED).with_payload(json(r#"{"n":"x"}"#)).run();
    assert_eq!(sim.status(), ExecutionStatus::Failed);
    assert_eq!(sim.log().len(), 2);
}

/// A run that shares asks for its own slot first. Nothing tells that it has it while its entry waits
/// for another one, so it asks again for what it has, and is told again.
#[test]
fn an_entry_asks_for_its_slot_once_the_run_has_its_own() {
    let mut sim = Sim::of(
        r"
concurrency: { key: all }
workflow:
  - { step: start, concurrency: { key: few }, tool: { kind: noop } }
",
    );
    sim.start().unwrap();
    let wanted = |sim: &Sim| -> Vec<SlotGrant> {
        let wants = sim.wants();
        wants.iter().map(noetl_engine::SlotWant::granted).collect()
    };
    let of_run = SlotGrant {
        holder: SlotHolder::Run,
        key: "all".into(),
    };
    let of_entry = of_step("start", 1, "few");
    assert_eq!(wanted(&sim), std::slice::from_ref(&of_run));
    let at = sim.log().len();
    assert_eq!(sim.grant(of_run.clone()), Ok(Verdict::Accepted));
    assert_eq!(sim.log().len(), at, "the log has nothing to tell");
    assert_eq!(wanted(&sim), std::slice::from_ref(&of_entry));
    sim.pause().unwrap();
    assert_eq!(sim.grant(of_entry.clone()), Err(Refused::Paused));
    sim.resume().unwrap();
    assert_eq!(wanted(&sim), std::slice::from_ref(&of_run));
    assert_eq!(sim.grant(of_run.clone()), Ok(Verdict::Accepted));
    assert_eq!(wanted(&sim), std::slice::from_ref(&of_entry));
    assert_eq!(sim.grant(of_entry.clone()), Ok(Verdict::Accepted));
    assert_eq!(entered(&sim), ["start"]);
    assert_eq!(sim.state().held_slots(sim.plan()), [of_run, of_entry]);
    work_off(&mut sim);
    assert_eq!(sim.status(), ExecutionStatus::Completed);
    sim.decide_again();
}

#[test]
fn a_wish_is_withdrawn_once_nobody_has_it() {
    let mut sim = Sim::of(
        r#"
workflow:
  - step: start
    tool: { kind: noop }
    next: { spec: { mode: inclusive }, arcs: [{ step: a }, { step: b }, { step: c }] }
  - { step: a, when: "{{ ctx.stop is undefined }}", concurrency: { key: one }, tool: { kind: noop } }
  - { step: b, concurrency: { key: "two-{{ ctx.stop }}" }, tool: { kind: noop } }
  - { step: c, tool: { kind: noop }, set: { ctx.stop: now } }
"#,
    );
    sim.start().unwrap();
    let lease = sim.lease(sim.available()[0], "w1");
    let report = sim.work(&lease).unwrap();
    sim.report(report).unwrap();
    assert_eq!(sim.wants().len(), 2);
    let lease = sim.lease(sim.available()[0], "w1");
    let report = sim.work(&lease).unwrap();
    let input = noetl_engine::Input::Report(Box::new(report.clone()));
    let changes = sim.draft(&input).unwrap().slots;
    let freed = |grant| SlotChange::Free(grant);
    // One is passed over, and the other shares something else now.
    assert!(
        changes.contains(&freed(of_step("a", 1, "one"))),
        "{changes:?}"
    );
    assert!(
        changes.contains(&freed(of_step("b", 1, "two-"))),
        "{changes:?}"
    );
    assert_eq!(changes.len(), 3, "{changes:?}");
    sim.report(report).unwrap();
    let wants = sim.wants();
    assert_eq!(wants.len(), 1);
    assert_eq!(wants[0].granted(), of_step("b", 1, "two-now"));
    sim.finish();
    assert_eq!(sim.status(), ExecutionStatus::Completed);
}

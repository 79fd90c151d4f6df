//! Concurrency slots of steps and of whole runs.

use noetl_engine::{DecisionError, EventKind, InputVerdict, SlotChange, SlotGrant, SlotHolder};
use noetl_testkit::sim::{Simulation, ToolBehavior};
use noetl_types::{ErrorCode, ExecutionStatus, Millis, StepName, TaskErrorKind};

use crate::decisions::parse_json;

const STEP_SLOT: &str = r#"
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

fn step_grant(step: &str, run: u32, key: &str) -> SlotGrant {
    SlotGrant {
        holder: SlotHolder::Step { step: StepName::new(step).unwrap(), run },
        key: key.into(),
    }
}

fn entered_steps(sim: &Simulation) -> Vec<String> {
    let entered = sim.log().iter().filter_map(|event| match &event.kind {
        EventKind::StepEntered(entered) => Some(entered.step.to_string()),
        _ => None,
    });
    entered.collect()
}

/// Completes all available commands without granting slots.
fn complete_commands(sim: &mut Simulation) {
    while let Some(command) = sim.available_commands().first().copied() {
        let lease = sim.lease_command(command, "w1");
        let report = sim.execute_lease(&lease).unwrap();
        assert_eq!(sim.submit_report(report), Ok(InputVerdict::Accepted));
    }
}

#[test]
fn step_waits_for_slot_and_join_for_step() {
    let mut sim = Simulation::from_body(STEP_SLOT);
    sim.start().unwrap();
    complete_commands(&mut sim);
    assert_eq!(entered_steps(&sim), ["start", "b"]);
    assert_eq!(sim.status(), ExecutionStatus::Running);
    let requests = sim.requested_slots();
    assert_eq!(requests.len(), 1);
    assert_eq!((requests[0].slot.key.as_str(), requests[0].slot.limit), ("db-main", 1));
    assert_eq!(requests[0].priority, 7);
    assert_eq!(sim.grant_slot(step_grant("a", 1, "db-main")), Ok(InputVerdict::Accepted));
    assert_eq!(entered_steps(&sim), ["start", "b", "a"]);
    // A repeated grant is a duplicate.
    assert_eq!(sim.grant_slot(step_grant("a", 1, "db-main")), Ok(InputVerdict::Duplicate));
    assert_eq!(sim.state().held_slots(sim.plan()), [step_grant("a", 1, "db-main")]);
    complete_commands(&mut sim);
    assert_eq!(sim.status(), ExecutionStatus::Completed);
    assert!(sim.state().held_slots(sim.plan()).is_empty());
    insta::assert_snapshot!(sim.format_log());
    sim.repeat_decisions();
}

#[test]
fn step_exit_releases_slot() {
    let mut sim = Simulation::from_body(STEP_SLOT);
    sim.start().unwrap();
    complete_commands(&mut sim);
    sim.grant_slot(step_grant("a", 1, "db-main")).unwrap();
    let lease = sim.lease_command(sim.available_commands()[0], "w1");
    let report = sim.execute_lease(&lease).unwrap();
    let input = noetl_engine::EngineInput::Report(Box::new(report));
    let decision = sim.draft_decision(&input).unwrap();
    assert_eq!(decision.slots, [SlotChange::Release(step_grant("a", 1, "db-main"))]);
}

#[test]
fn rejects_unrequested_grant() {
    let mut sim = Simulation::from_body(STEP_SLOT);
    sim.start().unwrap();
    let not_requested = |grant: SlotGrant| Err(DecisionError::SlotNotRequested(grant));
    let early = step_grant("a", 1, "db-main");
    assert_eq!(sim.grant_slot(early.clone()), not_requested(early));
    complete_commands(&mut sim);
    let other_pass = step_grant("a", 2, "db-main");
    assert_eq!(sim.grant_slot(other_pass.clone()), not_requested(other_pass));
    let other_step = step_grant("b", 2, "db-main");
    assert_eq!(sim.grant_slot(other_step.clone()), not_requested(other_step));
    let execution_grant = SlotGrant { holder: SlotHolder::Execution, key: "db-main".into() };
    assert_eq!(sim.grant_slot(execution_grant.clone()), not_requested(execution_grant));
    // A grant for another key is released, and the slot is requested again.
    let other_key = sim.grant_slot(step_grant("a", 1, "db-other"));
    assert_eq!(other_key, Ok(InputVerdict::Ignored(ErrorCode::IllegalTransition)));
    assert_eq!(sim.requested_slots().len(), 1);
    sim.run_to_end();
    assert_eq!(sim.status(), ExecutionStatus::Completed);
    let late = sim.grant_slot(step_grant("a", 1, "db-main"));
    assert_eq!(late, Err(DecisionError::AlreadyEnded(ExecutionStatus::Completed)));
}

#[test]
fn cancel_withdraws_slot_requests() {
    let mut sim = Simulation::from_body(STEP_SLOT);
    sim.start().unwrap();
    complete_commands(&mut sim);
    let control = noetl_engine::event::ControlInfo::default();
    let decision = sim.draft_decision(&noetl_engine::EngineInput::Cancel(control.into())).unwrap();
    let release = SlotChange::Release(step_grant("a", 1, "db-main"));
    assert_eq!(decision.slots, [SlotChange::ReleaseAll, release]);
    assert_eq!(sim.cancel_execution(), Ok(InputVerdict::Accepted));
    assert!(sim.requested_slots().is_empty());
}

/// A slot granted during a pause is released and requested again at resume.
#[test]
fn slot_granted_during_pause_is_released() {
    let mut sim = Simulation::from_body(STEP_SLOT);
    sim.start().unwrap();
    complete_commands(&mut sim);
    sim.pause_execution().unwrap();
    assert_eq!(sim.grant_slot(step_grant("a", 1, "db-main")), Err(DecisionError::Paused));
    assert!(sim.requested_slots().is_empty());
    sim.resume_execution().unwrap();
    assert_eq!(sim.requested_slots().len(), 1);
    sim.run_to_end();
    assert_eq!(sim.status(), ExecutionStatus::Completed);
}

/// A step that waits for a slot is never entered after another step fails the run.
#[test]
fn failure_of_other_step_drops_slot_request() {
    let mut sim = Simulation::from_body(STEP_SLOT).with_tools(|call| {
        if call.step == "b" {
            ToolBehavior::failure(TaskErrorKind::Transform, "boom")
        } else {
            ToolBehavior::Configured
        }
    });
    sim.start().unwrap();
    complete_commands(&mut sim);
    assert_eq!(sim.status(), ExecutionStatus::Failed);
    assert_eq!(entered_steps(&sim), ["start", "b"]);
    assert!(sim.requested_slots().is_empty());
}

/// The guard is evaluated at entry, so it is evaluated again when the slot is granted.
#[test]
fn guard_is_evaluated_again_on_grant() {
    let text = STEP_SLOT.replace(
        "concurrency: { key: \"db-{{ workload.db }}\"",
        "when: \"{{ not ctx.stop }}\"\n    concurrency: { key: \"db-{{ workload.db }}\"",
    );
    let text = text.replace(
        "{ step: b, tool: { kind: noop }",
        "{ step: b, tool: { kind: noop }, set: { ctx.stop: true }",
    );
    let mut sim = Simulation::from_body(&text);
    sim.start().unwrap();
    complete_commands(&mut sim);
    assert_eq!(sim.status(), ExecutionStatus::Completed);
    assert_eq!(entered_steps(&sim), ["start", "b", "merge"]);
}

#[test]
fn steps_of_one_execution_share_a_slot() {
    let sim = Simulation::from_body(
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
    assert_eq!(entered_steps(&sim), ["start", "a", "b", "c"]);
    sim.repeat_decisions();
}

#[test]
fn slot_key_must_be_short_text() {
    for (key, message) in [
        ("{{ none }}", "concurrency.key"),
        ("{{ [1] }}", "concurrency.key"),
        ("{{ 'x' * 2000 }}", "190 bytes"),
    ] {
        let sim = Simulation::from_body(&STEP_SLOT.replace("db-{{ workload.db }}", key)).run();
        assert_eq!(sim.status(), ExecutionStatus::Failed, "{key}");
        assert!(sim.format_log().contains(message), "{key}\n{}", sim.format_log());
    }
}

const EXECUTION_SLOT: &str = r#"
concurrency: { key: "tenant-{{ workload.n }}", limit: 2, overlap: cancel_previous }
priority: "{{ workload.n + 1 }}"
workload: { n: 4 }
executor: { spec: { timeout: 1h } }
workflow:
  - { step: start, concurrency: { key: own }, tool: { kind: noop } }
"#;

#[test]
fn execution_waits_for_its_own_slot_first() {
    let mut sim = Simulation::from_body(EXECUTION_SLOT);
    sim.start().unwrap();
    assert_eq!(sim.log().len(), 1);
    assert_eq!(sim.status(), ExecutionStatus::Pending);
    assert_eq!(sim.state().awaited_execution_slot().unwrap().slot.limit, 2);
    let requests = sim.requested_slots();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].holder, SlotHolder::Execution);
    assert_eq!(requests[0].overlap.as_str(), "cancel_previous");
    assert_eq!(requests[0].priority, 5);
    let execution_grant = SlotGrant { holder: SlotHolder::Execution, key: "tenant-4".into() };
    // The first step needs a slot too, so the run keeps waiting with its own slot.
    assert_eq!(sim.grant_slot(execution_grant.clone()), Ok(InputVerdict::Accepted));
    assert_eq!(sim.requested_slots()[0].slot.key.as_str(), "own");
    assert_eq!(sim.grant_slot(execution_grant), Ok(InputVerdict::Accepted));
    assert_eq!(sim.grant_slot(step_grant("start", 1, "own")), Ok(InputVerdict::Accepted));
    complete_commands(&mut sim);
    assert_eq!(sim.status(), ExecutionStatus::Completed);
    insta::assert_snapshot!(sim.format_log());
    sim.repeat_decisions();
}

#[test]
fn waiting_execution_can_be_cancelled_or_time_out() {
    let mut sim = Simulation::from_body(EXECUTION_SLOT);
    sim.start().unwrap();
    let mut late = sim.clone();
    late.advance_clock(Millis::from_hours(1));
    late.fire_timers();
    assert_eq!(late.status(), ExecutionStatus::Failed);
    assert!(late.requested_slots().is_empty());
    assert_eq!(sim.cancel_execution(), Ok(InputVerdict::Accepted));
    assert_eq!(sim.status(), ExecutionStatus::Cancelled);
    assert!(sim.requested_slots().is_empty());
}

#[test]
fn invalid_execution_slot_key_fails_execution() {
    let sim = Simulation::from_body(EXECUTION_SLOT).with_payload(parse_json(r#"{"n":"x"}"#)).run();
    assert_eq!(sim.status(), ExecutionStatus::Failed);
    assert_eq!(sim.log().len(), 2);
}

/// A run requests its own slot first. The log does not record that grant while the entry step waits
/// for its slot, so after a pause the run requests its own slot again.
#[test]
fn entry_step_requests_slot_after_execution() {
    let mut sim = Simulation::from_body(
        r"
concurrency: { key: all }
workflow:
  - { step: start, concurrency: { key: few }, tool: { kind: noop } }
",
    );
    sim.start().unwrap();
    let requested = |sim: &Simulation| -> Vec<SlotGrant> {
        let requests = sim.requested_slots();
        requests.iter().map(noetl_engine::SlotRequest::to_grant).collect()
    };
    let execution_grant = SlotGrant { holder: SlotHolder::Execution, key: "all".into() };
    let entry_grant = step_grant("start", 1, "few");
    assert_eq!(requested(&sim), std::slice::from_ref(&execution_grant));
    let event_count = sim.log().len();
    assert_eq!(sim.grant_slot(execution_grant.clone()), Ok(InputVerdict::Accepted));
    assert_eq!(sim.log().len(), event_count, "the grant adds no event");
    assert_eq!(requested(&sim), std::slice::from_ref(&entry_grant));
    sim.pause_execution().unwrap();
    assert_eq!(sim.grant_slot(entry_grant.clone()), Err(DecisionError::Paused));
    sim.resume_execution().unwrap();
    assert_eq!(requested(&sim), std::slice::from_ref(&execution_grant));
    assert_eq!(sim.grant_slot(execution_grant.clone()), Ok(InputVerdict::Accepted));
    assert_eq!(requested(&sim), std::slice::from_ref(&entry_grant));
    assert_eq!(sim.grant_slot(entry_grant.clone()), Ok(InputVerdict::Accepted));
    assert_eq!(entered_steps(&sim), ["start"]);
    assert_eq!(sim.state().held_slots(sim.plan()), [execution_grant, entry_grant]);
    complete_commands(&mut sim);
    assert_eq!(sim.status(), ExecutionStatus::Completed);
    sim.repeat_decisions();
}

#[test]
fn obsolete_slot_request_is_withdrawn() {
    let mut sim = Simulation::from_body(
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
    let lease = sim.lease_command(sim.available_commands()[0], "w1");
    let report = sim.execute_lease(&lease).unwrap();
    sim.submit_report(report).unwrap();
    assert_eq!(sim.requested_slots().len(), 2);
    let lease = sim.lease_command(sim.available_commands()[0], "w1");
    let report = sim.execute_lease(&lease).unwrap();
    let input = noetl_engine::EngineInput::Report(Box::new(report.clone()));
    let changes = sim.draft_decision(&input).unwrap().slots;
    let released = |grant| SlotChange::Release(grant);
    // One step is skipped, and the other has a different key now.
    assert!(changes.contains(&released(step_grant("a", 1, "one"))), "{changes:?}");
    assert!(changes.contains(&released(step_grant("b", 1, "two-"))), "{changes:?}");
    assert_eq!(changes.len(), 3, "{changes:?}");
    sim.submit_report(report).unwrap();
    let requests = sim.requested_slots();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].to_grant(), step_grant("b", 1, "two-now"));
    sim.run_to_end();
    assert_eq!(sim.status(), ExecutionStatus::Completed);
}

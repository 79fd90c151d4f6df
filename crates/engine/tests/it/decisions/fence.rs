//! Fencing of worker reports by attempt and lease holder.

use noetl_engine::event::ExpiryReason;
use noetl_engine::{
    CommandClaim, DecisionError, EngineInput, EventData, IgnoredResult, InputVerdict, LeaseExpired,
    ReportOutcome, TaskResult, WorkerReport,
};
use noetl_testkit::sim::Simulation;
use noetl_types::{CommandId, Digest, ErrorCode, Json, Millis, TaskError, TaskErrorKind, WorkerId};

const ONE_STEP: &str = "workflow: [{ step: a, tool: { kind: noop, result: 1 } }]";

fn started_sim(body: &str) -> (Simulation, CommandId) {
    let mut sim = Simulation::from_body(body);
    sim.start().unwrap();
    let command = sim.available_commands()[0];
    (sim, command)
}

fn worker_id(name: &str) -> WorkerId {
    WorkerId::new(name).unwrap()
}

fn claim_input(command: CommandId, attempt: u32, worker: &str) -> EngineInput {
    EngineInput::Claim(CommandClaim {
        command,
        attempt,
        worker: worker_id(worker),
        lease_until: None,
    })
}

fn new_report(
    command: CommandId,
    attempt: u32,
    worker: &str,
    outcome: ReportOutcome,
) -> WorkerReport {
    WorkerReport {
        command,
        attempt,
        worker: worker_id(worker),
        lease_until: None,
        claimed_at: None,
        started_at: None,
        retries: Vec::new(),
        retries_before: 0,
        outcome,
    }
}

fn completed_outcome(value: i64) -> ReportOutcome {
    ReportOutcome::Completed(TaskResult::from(EventData::Inline(Json::from(value))))
}

fn lease_expired(command: CommandId, attempt: u32, worker: &str) -> EngineInput {
    EngineInput::LeaseExpired(LeaseExpired {
        command,
        attempt,
        worker: worker_id(worker),
        lease_until: None,
        reason: ExpiryReason::Lease,
    })
}

#[test]
fn claim_is_recorded_once() {
    let (mut sim, command) = started_sim(ONE_STEP);
    assert_eq!(sim.decide(claim_input(command, 1, "w1")), Ok(InputVerdict::Accepted));
    assert_eq!(sim.decide(claim_input(command, 1, "w1")), Ok(InputVerdict::Duplicate));
    let held_by_other = DecisionError::HeldByOther { command, holder: worker_id("w1") };
    assert_eq!(sim.decide(claim_input(command, 1, "w2")), Err(held_by_other));
    // The report of the holder does not record the claim again.
    assert_eq!(
        sim.submit_report(new_report(command, 1, "w1", completed_outcome(1))),
        Ok(InputVerdict::Accepted)
    );
    let claims = sim.log().iter().filter(|event| event.kind.name().as_str() == "command.claimed");
    assert_eq!(claims.count(), 1);
}

#[test]
fn claim_of_lost_command_waits_for_backoff() {
    let (mut sim, command) = started_sim(ONE_STEP);
    sim.decide(lease_expired(command, 1, "w1")).unwrap();
    let early = sim.decide(claim_input(command, 2, "w2"));
    assert!(matches!(early, Err(DecisionError::NotBefore { .. })), "{early:?}");
    sim.advance_clock(Millis::from_ms(500));
    assert_eq!(sim.decide(claim_input(command, 2, "w2")), Ok(InputVerdict::Accepted));
    sim.pause_execution().unwrap();
    assert_eq!(sim.decide(claim_input(command, 2, "w2")), Err(DecisionError::Paused));
}

#[test]
fn report_is_fenced_by_holder_and_attempt() {
    let (mut sim, command) = started_sim(ONE_STEP);
    let ungranted =
        |current, found| Err(DecisionError::UngrantedAttempt { command, current, found });
    assert_eq!(
        sim.submit_report(new_report(command, 0, "w1", completed_outcome(1))),
        ungranted(1, 0)
    );
    assert_eq!(
        sim.submit_report(new_report(command, 2, "w1", completed_outcome(1))),
        ungranted(1, 2)
    );
    sim.decide(claim_input(command, 1, "w1")).unwrap();
    let not_holder = Ok(InputVerdict::Ignored(ErrorCode::NotLeaseHolder));
    assert_eq!(sim.submit_report(new_report(command, 1, "w2", completed_outcome(1))), not_holder);
    sim.decide(lease_expired(command, 1, "w1")).unwrap();
    // The same expiry from another replica is a duplicate.
    assert_eq!(sim.decide(lease_expired(command, 1, "w1")), Ok(InputVerdict::Duplicate));
    let stale = Ok(InputVerdict::Ignored(ErrorCode::StaleAttempt));
    assert_eq!(sim.submit_report(new_report(command, 1, "w1", completed_outcome(1))), stale);
    assert_eq!(
        sim.submit_report(new_report(command, 2, "w3", completed_outcome(1))),
        Ok(InputVerdict::Accepted)
    );
    insta::assert_snapshot!(sim.format_log());
}

#[test]
fn accepted_result_is_never_overwritten() {
    let (mut sim, _) = started_sim(
        "workflow: [{ step: each, loop: { in: 3, iterator: i, spec: { mode: parallel } }, tool: { kind: noop } }]",
    );
    let commands = sim.available_commands();
    assert_eq!(
        sim.submit_report(new_report(commands[0], 1, "w1", completed_outcome(7))),
        Ok(InputVerdict::Accepted)
    );
    let before = sim.log().len();
    assert_eq!(
        sim.submit_report(new_report(commands[0], 1, "w1", completed_outcome(7))),
        Ok(InputVerdict::Duplicate)
    );
    assert_eq!(sim.log().len(), before);
    let stale = Ok(InputVerdict::Ignored(ErrorCode::StaleAttempt));
    assert_eq!(sim.submit_report(new_report(commands[0], 1, "w1", completed_outcome(8))), stale);
    let failed = ReportOutcome::Failed {
        error: TaskError::new(TaskErrorKind::Transform, "no"),
        result: TaskResult::from(EventData::default()),
    };
    assert_eq!(sim.submit_report(new_report(commands[0], 1, "w1", failed)), stale);
    for command in &commands[1..] {
        sim.submit_report(new_report(*command, 1, "w1", completed_outcome(0))).unwrap();
    }
    // After the end of a loop the state no longer stores its iterations.
    let late = Ok(InputVerdict::Ignored(ErrorCode::AlreadyTerminal));
    assert_eq!(sim.submit_report(new_report(commands[2], 1, "w1", completed_outcome(0))), late);
    let results = sim.to_records()[sim.log().len() - 3].event.result.clone().unwrap();
    assert!(results.to_string().contains("[7,0,0]"), "{results}");
}

#[test]
fn repeated_final_report_is_duplicate() {
    let (mut sim, command) = started_sim(ONE_STEP);
    sim.submit_report(new_report(command, 1, "w1", completed_outcome(1))).unwrap();
    assert!(sim.state().is_ended());
    assert_eq!(
        sim.submit_report(new_report(command, 1, "w1", completed_outcome(1))),
        Ok(InputVerdict::Duplicate)
    );
    let late = Ok(InputVerdict::Ignored(ErrorCode::AlreadyTerminal));
    assert_eq!(sim.submit_report(new_report(command, 1, "w1", completed_outcome(2))), late);
}

#[test]
fn rejects_report_of_unknown_command() {
    let (mut sim, command) = started_sim(
        "workflow: [{ step: a, tool: { kind: noop }, next: b }, { step: b, tool: { kind: noop }, next: c }, { step: c, tool: { kind: noop } }]",
    );
    let unknown = CommandId::new(4711).unwrap();
    let rejection = Err(DecisionError::UnknownCommand(unknown));
    assert_eq!(sim.submit_report(new_report(unknown, 1, "w1", completed_outcome(1))), rejection);
    assert_eq!(sim.decide(lease_expired(unknown, 1, "w1")), rejection);
    let ignored = IgnoredResult {
        command: unknown,
        attempt: 1,
        worker: worker_id("w1"),
        sha256: Digest::from_bytes([7; 32]),
        bytes: 12,
        code: ErrorCode::StaleAttempt,
    };
    let verdict = sim.decide(EngineInput::IgnoredResult(Box::new(ignored)));
    assert_eq!(verdict, Ok(InputVerdict::Ignored(ErrorCode::StaleAttempt)));
    assert_eq!(
        sim.submit_report(new_report(command, 1, "w1", completed_outcome(1))),
        Ok(InputVerdict::Accepted)
    );
}

#[test]
fn progress_report_changes_no_state() {
    let (mut sim, command) = started_sim(ONE_STEP);
    let progress = ReportOutcome::Running { progress: Some(Json::from(50)) };
    assert_eq!(
        sim.submit_report(new_report(command, 1, "w1", progress)),
        Ok(InputVerdict::Accepted)
    );
    let silent = ReportOutcome::Running { progress: None };
    assert_eq!(sim.submit_report(new_report(command, 1, "w1", silent)), Ok(InputVerdict::Accepted));
    assert_eq!(
        sim.submit_report(new_report(command, 1, "w1", completed_outcome(1))),
        Ok(InputVerdict::Accepted)
    );
    insta::assert_snapshot!(sim.format_log());
}

//! Which word of a worker counts.

use noetl_engine::event::ExpiryReason;
use noetl_engine::{
    Claim, Data, IgnoredResult, Input, LeaseExpired, Refused, Report, ReportOutcome, TaskResult,
    Verdict,
};
use noetl_testkit::sim::Sim;
use noetl_types::{CommandId, Digest, ErrorCode, Json, Millis, TaskError, TaskErrorKind, WorkerId};

const ONE: &str = "workflow: [{ step: a, tool: { kind: noop, result: 1 } }]";

fn begun(body: &str) -> (Sim, CommandId) {
    let mut sim = Sim::of(body);
    sim.start().unwrap();
    let command = sim.available()[0];
    (sim, command)
}

fn worker(name: &str) -> WorkerId {
    WorkerId::new(name).unwrap()
}

fn claim(command: CommandId, attempt: u32, by: &str) -> Input {
    Input::Claim(Claim {
        command,
        attempt,
        worker: worker(by),
        lease_until: None,
    })
}

fn report(command: CommandId, attempt: u32, by: &str, outcome: ReportOutcome) -> Report {
    Report {
        command,
        attempt,
        worker: worker(by),
        lease_until: None,
        claimed_at: None,
        started_at: None,
        retries: Vec::new(),
        retries_before: 0,
        outcome,
    }
}

fn done(value: i64) -> ReportOutcome {
    ReportOutcome::Completed(TaskResult::from(Data::Inline(Json::from(value))))
}

fn expired(command: CommandId, attempt: u32, by: &str) -> Input {
    Input::LeaseExpired(LeaseExpired {
        command,
        attempt,
        worker: worker(by),
        lease_until: None,
        reason: ExpiryReason::Lease,
    })
}

#[test]
fn a_claim_is_recorded_once() {
    let (mut sim, command) = begun(ONE);
    assert_eq!(sim.decide(claim(command, 1, "w1")), Ok(Verdict::Accepted));
    assert_eq!(sim.decide(claim(command, 1, "w1")), Ok(Verdict::Duplicate));
    let held = Refused::HeldByOther {
        command,
        holder: worker("w1"),
    };
    assert_eq!(sim.decide(claim(command, 1, "w2")), Err(held));
    // The report of the holder does not record the claim again.
    assert_eq!(
        sim.report(report(command, 1, "w1", done(1))),
        Ok(Verdict::Accepted)
    );
    let claims = sim
        .log()
        .iter()
        .filter(|event| event.kind.name().as_str() == "command.claimed");
    assert_eq!(claims.count(), 1);
}

#[test]
fn a_claim_waits_until_a_lost_command_may_be_handed_out() {
    let (mut sim, command) = begun(ONE);
    sim.decide(expired(command, 1, "w1")).unwrap();
    let early = sim.decide(claim(command, 2, "w2"));
    assert!(matches!(early, Err(Refused::NotBefore { .. })), "{early:?}");
    sim.advance(Millis::from_ms(500));
    assert_eq!(sim.decide(claim(command, 2, "w2")), Ok(Verdict::Accepted));
    sim.pause().unwrap();
    assert_eq!(sim.decide(claim(command, 2, "w2")), Err(Refused::Paused));
}

#[test]
fn only_the_holder_of_the_current_attempt_is_heard() {
    let (mut sim, command) = begun(ONE);
    let impossible = |current, found| {
        Err(Refused::ImpossibleAttempt {
            command,
            current,
            found,
        })
    };
    assert_eq!(
        sim.report(report(command, 0, "w1", done(1))),
        impossible(1, 0)
    );
    assert_eq!(
        sim.report(report(command, 2, "w1", done(1))),
        impossible(1, 2)
    );
    sim.decide(claim(command, 1, "w1")).unwrap();
    let not_holder = Ok(Verdict::Ignored(ErrorCode::NotLeaseHolder));
    assert_eq!(sim.report(report(command, 1, "w2", done(1))), not_holder);
    sim.decide(expired(command, 1, "w1")).unwrap();
    // The same expiry again, from another replica, is nothing new.
    assert_eq!(
        sim.decide(expired(command, 1, "w1")),
        Ok(Verdict::Duplicate)
    );
    let stale = Ok(Verdict::Ignored(ErrorCode::StaleAttempt));
    assert_eq!(sim.report(report(command, 1, "w1", done(1))), stale);
    assert_eq!(
        sim.report(report(command, 2, "w3", done(1))),
        Ok(Verdict::Accepted)
    );
    insta::assert_snapshot!(sim.table());
}

#[test]
fn a_result_that_was_accepted_is_never_overwritten() {
    let (mut sim, _) = begun(
        "workflow: [{ step: each, loop: { in: 3, iterator: i, spec: { mode: parallel } }, tool: { kind: noop } }]",
    );
    let commands = sim.available();
    assert_eq!(
        sim.report(report(commands[0], 1, "w1", done(7))),
        Ok(Verdict::Accepted)
    );
    let before = sim.log().len();
    assert_eq!(
        sim.report(report(commands[0], 1, "w1", done(7))),
        Ok(Verdict::Duplicate)
    );
    assert_eq!(sim.log().len(), before);
    let stale = Ok(Verdict::Ignored(ErrorCode::StaleAttempt));
    assert_eq!(sim.report(report(commands[0], 1, "w1", done(8))), stale);
    let failed = ReportOutcome::Failed {
        error: TaskError::new(TaskErrorKind::Transform, "no"),
        result: TaskResult::from(Data::default()),
    };
    assert_eq!(sim.report(report(commands[0], 1, "w1", failed)), stale);
    for command in &commands[1..] {
        sim.report(report(*command, 1, "w1", done(0))).unwrap();
    }
    // After the end of a loop only the log knows its iterations.
    let late = Ok(Verdict::Ignored(ErrorCode::AlreadyTerminal));
    assert_eq!(sim.report(report(commands[2], 1, "w1", done(0))), late);
    let results = sim.records()[sim.log().len() - 3]
        .event
        .result
        .clone()
        .unwrap();
    assert!(results.to_string().contains("[7,0,0]"), "{results}");
}

#[test]
fn a_repeated_last_report_is_recognised_after_the_end() {
    let (mut sim, command) = begun(ONE);
    sim.report(report(command, 1, "w1", done(1))).unwrap();
    assert!(sim.state().is_ended());
    assert_eq!(
        sim.report(report(command, 1, "w1", done(1))),
        Ok(Verdict::Duplicate)
    );
    let late = Ok(Verdict::Ignored(ErrorCode::AlreadyTerminal));
    assert_eq!(sim.report(report(command, 1, "w1", done(2))), late);
}

#[test]
fn what_nobody_knows_is_refused_and_can_be_noted() {
    let (mut sim, command) = begun(
        "workflow: [{ step: a, tool: { kind: noop }, next: b }, { step: b, tool: { kind: noop }, next: c }, { step: c, tool: { kind: noop } }]",
    );
    let unknown = CommandId::new(4711).unwrap();
    let refused = Err(Refused::UnknownCommand(unknown));
    assert_eq!(sim.report(report(unknown, 1, "w1", done(1))), refused);
    assert_eq!(sim.decide(expired(unknown, 1, "w1")), refused);
    let ignored = IgnoredResult {
        command: unknown,
        attempt: 1,
        worker: worker("w1"),
        sha256: Digest::from_bytes([7; 32]),
        bytes: 12,
        code: ErrorCode::StaleAttempt,
    };
    let noted = sim.decide(Input::Ignored(Box::new(ignored)));
    assert_eq!(noted, Ok(Verdict::Ignored(ErrorCode::StaleAttempt)));
    assert_eq!(
        sim.report(report(command, 1, "w1", done(1))),
        Ok(Verdict::Accepted)
    );
}

#[test]
fn progress_is_recorded_and_changes_nothing() {
    let (mut sim, command) = begun(ONE);
    let progress = ReportOutcome::Running {
        progress: Some(Json::from(50)),
    };
    assert_eq!(
        sim.report(report(command, 1, "w1", progress)),
        Ok(Verdict::Accepted)
    );
    let silent = ReportOutcome::Running { progress: None };
    assert_eq!(
        sim.report(report(command, 1, "w1", silent)),
        Ok(Verdict::Accepted)
    );
    assert_eq!(
        sim.report(report(command, 1, "w1", done(1))),
        Ok(Verdict::Accepted)
    );
    insta::assert_snapshot!(sim.table());
}

//! What a worker says of a command while it is at work.

use noetl_engine::event::{EventKind, ExpiryReason};
use noetl_engine::{
    Data, Input, LeaseExpired, Report, ReportOutcome, Retries, State, TaskResult, Verdict,
};
use noetl_playbook::shift::RetriedCall;
use noetl_testkit::sim::Sim;
use noetl_types::{CommandId, Json, Millis, TaskError, TaskErrorKind, WorkerId};

const TWO: &str = "workflow:
  - { step: a, tool: { kind: noop }, next: { arcs: [{ step: b }] } }
  - { step: b, tool: { kind: noop } }
";

/// Attempts that are told, and how many there were before.
type Told = (Vec<RetriedCall>, u32);

fn begun() -> (Sim, CommandId) {
    let mut sim = Sim::of(TWO);
    sim.start().unwrap();
    let command = sim.available()[0];
    (sim, command)
}

fn retries(attempts: std::ops::RangeInclusive<u32>) -> Vec<RetriedCall> {
    let retried = |attempt| RetriedCall {
        error: TaskError::new(TaskErrorKind::Connection, format!("no line {attempt}")),
        attempt,
        retry_in: Millis::from_secs(60),
        at: None,
    };
    attempts.map(retried).collect()
}

fn says(sim: &Sim, command: CommandId, retries: Vec<RetriedCall>, before: u32) -> Report {
    Report {
        command,
        attempt: 1,
        worker: WorkerId::new("w1").unwrap(),
        lease_until: None,
        claimed_at: None,
        started_at: Some(sim.now()),
        retries,
        retries_before: before,
        outcome: ReportOutcome::Running { progress: None },
    }
}

fn ends(sim: &Sim, command: CommandId, retries: Vec<RetriedCall>, before: u32) -> Report {
    Report {
        outcome: ReportOutcome::Completed(TaskResult::from(Data::Inline(Json::from(7)))),
        ..says(sim, command, retries, before)
    }
}

/// The events of a run but for their places and times.
fn kinds(sim: &Sim) -> Vec<String> {
    let kinds = sim.log().iter().map(|event| match &event.kind {
        EventKind::CallError(failed) => format!("call.error {}", failed.outcome.attempt),
        kind => kind.name().to_string(),
    });
    kinds.collect()
}

fn known(sim: &Sim, command: CommandId) -> Option<Retries> {
    sim.state().command(command).unwrap().retries().copied()
}

/// However often and in whatever pieces it is told what was tried, and whoever heard of it: the log
/// says the same as that of a worker that tells all of it in the end.
#[test]
fn what_is_told_on_the_way_and_what_is_told_in_the_end_come_to_the_same() {
    let (mut alone, command) = begun();
    let report = ends(&alone, command, retries(1..=3), 0);
    assert_eq!(alone.report(report), Ok(Verdict::Accepted));

    let ways: [(Vec<Told>, Told); 5] = [
        // It only says that it is at work.
        (vec![(vec![], 0)], (retries(1..=3), 0)),
        // Everything was heard.
        (vec![(retries(1..=1), 0), (retries(2..=3), 1)], (vec![], 3)),
        // No answer came, so all of it is told again, each time.
        (
            vec![(retries(1..=1), 0), (retries(1..=2), 0)],
            (retries(1..=3), 0),
        ),
        // The first word comes behind the second one.
        (
            vec![(retries(1..=2), 0), (retries(1..=1), 0)],
            (retries(2..=3), 1),
        ),
        (vec![(retries(1..=3), 0); 4], (retries(3..=3), 2)),
    ];
    for (said, (last, before)) in ways {
        let (mut sim, command) = begun();
        for (retries, before) in said {
            let report = says(&sim, command, retries, before);
            assert_eq!(sim.report(report), Ok(Verdict::Accepted));
        }
        let report = ends(&sim, command, last, before);
        assert_eq!(sim.report(report), Ok(Verdict::Accepted));
        assert_eq!(kinds(&sim), kinds(&alone));
        let data = |sim: &Sim| {
            let step = sim.plan().find("a").unwrap();
            sim.state().step(step).unwrap().output.clone()
        };
        assert_eq!(data(&sim), data(&alone));
        let late = says(&sim, command, retries(1..=3), 0);
        assert_eq!(sim.report(late), Ok(Verdict::Duplicate));
        assert_eq!(kinds(&sim), kinds(&alone));
    }
}

#[test]
fn it_is_known_which_attempt_comes_next_and_when() {
    let (mut sim, command) = begun();
    let report = says(&sim, command, Vec::new(), 0);
    sim.report(report).unwrap();
    assert_eq!(known(&sim, command), None);
    let report = says(&sim, command, retries(1..=2), 0);
    sim.report(report).unwrap();
    let wanted = Retries {
        told: 2,
        failed_at: sim.now(),
        next: 3,
        next_at: sim.now().saturating_add(Millis::from_secs(60)),
    };
    assert_eq!(known(&sim, command), Some(wanted));
    let snapshot = sim.state().to_snapshot().unwrap();
    let restored = State::from_snapshot(sim.plan(), &snapshot).unwrap();
    assert_eq!(&restored, sim.state());
}

/// Another worker begins anew, and so does what it tells.
#[test]
fn the_attempts_of_a_lost_worker_are_kept_and_not_counted_for_the_next() {
    let (mut sim, command) = begun();
    let report = says(&sim, command, retries(1..=2), 0);
    sim.report(report).unwrap();
    let lost = LeaseExpired {
        command,
        attempt: 1,
        worker: WorkerId::new("w1").unwrap(),
        lease_until: None,
        reason: ExpiryReason::Lease,
    };
    sim.decide(Input::LeaseExpired(lost)).unwrap();
    let report = Report {
        attempt: 2,
        worker: WorkerId::new("w2").unwrap(),
        ..ends(&sim, command, retries(1..=1), 0)
    };
    assert_eq!(sim.report(report), Ok(Verdict::Accepted));
    let tried: Vec<_> = kinds(&sim);
    let tried: Vec<_> = tried
        .iter()
        .filter(|kind| kind.starts_with("call.error"))
        .collect();
    assert_eq!(tried, ["call.error 1", "call.error 2", "call.error 1"]);
}

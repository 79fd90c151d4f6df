//! Progress reports of a running command.

use noetl_engine::event::{EventKind, ExpiryReason};
use noetl_engine::{
    EngineInput, EventData, ExecutionState, InputVerdict, LeaseExpired, ReportOutcome,
    ReportedRetries, TaskResult, WorkerReport,
};
use noetl_testkit::sim::Simulation;
use noetl_types::report::RetriedTask;
use noetl_types::{CommandId, Json, Millis, TaskError, TaskErrorKind, WorkerId};

const TWO_STEPS: &str = "workflow:
  - { step: a, tool: { kind: noop }, next: { arcs: [{ step: b }] } }
  - { step: b, tool: { kind: noop } }
";

/// Reported retries and the number of retries before them.
type RetryReport = (Vec<RetriedTask>, u32);

fn started_sim() -> (Simulation, CommandId) {
    let mut sim = Simulation::from_body(TWO_STEPS);
    sim.start().unwrap();
    let command = sim.available_commands()[0];
    (sim, command)
}

fn retried_calls(attempts: std::ops::RangeInclusive<u32>) -> Vec<RetriedTask> {
    let retried = |attempt| RetriedTask {
        error: TaskError::new(TaskErrorKind::Connection, format!("connection {attempt} failed")),
        attempt,
        retry_in_ms: Millis::from_secs(60),
        at: None,
    };
    attempts.map(retried).collect()
}

fn running_report(
    sim: &Simulation,
    command: CommandId,
    retries: Vec<RetriedTask>,
    before: u32,
) -> WorkerReport {
    WorkerReport {
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

fn completed_report(
    sim: &Simulation,
    command: CommandId,
    retries: Vec<RetriedTask>,
    before: u32,
) -> WorkerReport {
    WorkerReport {
        outcome: ReportOutcome::Completed(TaskResult::from(EventData::Inline(Json::from(7)))),
        ..running_report(sim, command, retries, before)
    }
}

/// Event names of a run, without seqs and times.
fn event_names(sim: &Simulation) -> Vec<String> {
    let kinds = sim.log().iter().map(|event| match &event.kind {
        EventKind::CallError(failed) => format!("call.error {}", failed.outcome.attempt),
        kind => kind.name().to_string(),
    });
    kinds.collect()
}

fn reported_retries(sim: &Simulation, command: CommandId) -> Option<ReportedRetries> {
    sim.state().command(command).unwrap().reported_retries().copied()
}

/// Reporting retries in any pieces, with repetitions and lost responses, produces the same log as
/// reporting all of them with the result.
#[test]
fn retries_reported_early_or_late_give_same_log() {
    let (mut reference, command) = started_sim();
    let report = completed_report(&reference, command, retried_calls(1..=3), 0);
    assert_eq!(reference.submit_report(report), Ok(InputVerdict::Accepted));

    let cases: [(Vec<RetryReport>, RetryReport); 5] = [
        // Only a progress report without retries.
        (vec![(vec![], 0)], (retried_calls(1..=3), 0)),
        // Every report was acknowledged.
        (vec![(retried_calls(1..=1), 0), (retried_calls(2..=3), 1)], (vec![], 3)),
        // No response arrived, so every report repeats all retries.
        (vec![(retried_calls(1..=1), 0), (retried_calls(1..=2), 0)], (retried_calls(1..=3), 0)),
        // The first report arrives after the second.
        (vec![(retried_calls(1..=2), 0), (retried_calls(1..=1), 0)], (retried_calls(2..=3), 1)),
        (vec![(retried_calls(1..=3), 0); 4], (retried_calls(3..=3), 2)),
    ];
    for (reports, (last, before)) in cases {
        let (mut sim, command) = started_sim();
        for (retries, before) in reports {
            let report = running_report(&sim, command, retries, before);
            assert_eq!(sim.submit_report(report), Ok(InputVerdict::Accepted));
        }
        let report = completed_report(&sim, command, last, before);
        assert_eq!(sim.submit_report(report), Ok(InputVerdict::Accepted));
        assert_eq!(event_names(&sim), event_names(&reference));
        let data = |sim: &Simulation| {
            let step = sim.plan().find_step("a").unwrap();
            sim.state().step_state(step).unwrap().output.clone()
        };
        assert_eq!(data(&sim), data(&reference));
        let late = running_report(&sim, command, retried_calls(1..=3), 0);
        assert_eq!(sim.submit_report(late), Ok(InputVerdict::Duplicate));
        assert_eq!(event_names(&sim), event_names(&reference));
    }
}

#[test]
fn state_has_next_retry_and_its_time() {
    let (mut sim, command) = started_sim();
    let report = running_report(&sim, command, Vec::new(), 0);
    sim.submit_report(report).unwrap();
    assert_eq!(reported_retries(&sim, command), None);
    let report = running_report(&sim, command, retried_calls(1..=2), 0);
    sim.submit_report(report).unwrap();
    let expected = ReportedRetries {
        count: 2,
        failed_at: sim.now(),
        next: 3,
        next_at: sim.now().saturating_add(Millis::from_secs(60)),
    };
    assert_eq!(reported_retries(&sim, command), Some(expected));
    let snapshot = sim.state().to_snapshot().unwrap();
    let restored = ExecutionState::from_snapshot(sim.plan(), &snapshot).unwrap();
    assert_eq!(&restored, sim.state());
}

/// The retries of another worker start at one again.
#[test]
fn retries_of_lost_worker_do_not_count_for_next() {
    let (mut sim, command) = started_sim();
    let report = running_report(&sim, command, retried_calls(1..=2), 0);
    sim.submit_report(report).unwrap();
    let lost = LeaseExpired {
        command,
        attempt: 1,
        worker: WorkerId::new("w1").unwrap(),
        lease_until: None,
        reason: ExpiryReason::Lease,
    };
    sim.decide(EngineInput::LeaseExpired(lost)).unwrap();
    let report = WorkerReport {
        attempt: 2,
        worker: WorkerId::new("w2").unwrap(),
        ..completed_report(&sim, command, retried_calls(1..=1), 0)
    };
    assert_eq!(sim.submit_report(report), Ok(InputVerdict::Accepted));
    let errors: Vec<_> = event_names(&sim);
    let errors: Vec<_> = errors.iter().filter(|kind| kind.starts_with("call.error")).collect();
    assert_eq!(errors, ["call.error 1", "call.error 2", "call.error 1"]);
}

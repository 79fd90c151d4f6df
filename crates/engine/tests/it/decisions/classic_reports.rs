//! Reports of classic workers.

use noetl_engine::event::ExpiryReason;
use noetl_engine::{
    AuditOnlyEvent, ClassicReport, DecisionError, EngineInput, EventData, EventExtras, EventKind,
    InputVerdict, LeaseExpired, ReportOutcome, StaleReason, TaskResult, WorkerReport,
};
use noetl_testkit::sim::Simulation;
use noetl_types::{
    CommandId, ErrorCode, EventId, EventName, EventType, ExecutionStatus, Json, JsonMap, Millis,
    NewEvent, TaskError, TaskErrorKind, WorkerId,
};

const ONE_STEP: &str = "workflow: [{ step: a, tool: { kind: noop, result: 1 } }]";

fn started_sim() -> (Simulation, CommandId) {
    let mut sim = Simulation::from_body(ONE_STEP);
    sim.start().unwrap();
    let command = sim.available_commands()[0];
    (sim, command)
}

fn classic_report(command: CommandId, attempt: u32, outcome: ReportOutcome) -> ClassicReport {
    ClassicReport {
        report: WorkerReport {
            command,
            attempt,
            worker: WorkerId::new("w1").unwrap(),
            lease_until: None,
            claimed_at: None,
            started_at: None,
            retries: Vec::new(),
            retries_before: 0,
            outcome,
        },
        retry: None,
        stale: None,
        event_id: EventId::new(41).unwrap(),
        event_type: EventType::CallDone,
        meta: JsonMap::from([("event_type_as_sent".into(), Json::from("step.exit"))]),
    }
}

fn completed_outcome() -> ReportOutcome {
    ReportOutcome::Completed(TaskResult::from(EventData::Inline(Json::from(1))))
}

fn retry_report(command: CommandId, attempt: u32, event_id: i64) -> EngineInput {
    let error = TaskError::new(TaskErrorKind::Timeout, "slow");
    EngineInput::ClassicReport(Box::new(ClassicReport {
        retry: Some((error, Millis::from_secs(2))),
        event_id: EventId::new(event_id).unwrap(),
        event_type: EventType::CallError,
        ..classic_report(command, attempt, ReportOutcome::Running { progress: None })
    }))
}

fn lease_expired(command: CommandId, attempt: u32) -> EngineInput {
    EngineInput::LeaseExpired(LeaseExpired {
        command,
        attempt,
        worker: WorkerId::new("w1").unwrap(),
        lease_until: None,
        reason: ExpiryReason::Lease,
    })
}

/// The event keeps the id and the extra metadata of its sender.
#[test]
fn event_keeps_sender_id() {
    let (mut sim, command) = started_sim();
    let input =
        EngineInput::ClassicReport(Box::new(classic_report(command, 1, completed_outcome())));
    let decision = sim.draft_decision(&input).unwrap();
    let event_id = EventId::new(41).unwrap();
    let mut events = decision.events.iter();
    let event = events.find(|event| event.event_id == event_id).unwrap();
    assert!(matches!(event.kind, EventKind::CallDone(_)));
    let Some(EventExtras::Meta(meta)) = decision.extras.get(&event_id) else {
        panic!("no extras");
    };
    assert_eq!(meta.get("commands_generated"), Some(&Json::from(0)));
    assert!(meta.contains_key("event_type_as_sent"));
    assert_eq!(sim.decide(input), Ok(InputVerdict::Accepted));
    assert_eq!(sim.status(), ExecutionStatus::Completed);
}

/// A report that the caller marks as stale is recorded under the id of its sender, even if the
/// command is still open in the state or no longer stored.
#[test]
fn stale_report_keeps_sender_id() {
    let (mut sim, command) = started_sim();
    let forgotten = CommandId::new(7).unwrap();
    for (reason, command, code) in [
        (StaleReason::Superseded(ErrorCode::NotLeaseHolder), command, ErrorCode::NotLeaseHolder),
        (StaleReason::Superseded(ErrorCode::StaleAttempt), forgotten, ErrorCode::StaleAttempt),
        (StaleReason::Closed, forgotten, ErrorCode::StaleAttempt),
    ] {
        let input = EngineInput::ClassicReport(Box::new(ClassicReport {
            stale: Some(reason),
            ..classic_report(command, 1, completed_outcome())
        }));
        let decision = sim.draft_decision(&input).unwrap();
        assert_eq!(decision.verdict, InputVerdict::Ignored(code));
        let [event] = &*decision.events else {
            panic!("{:?}", decision.events);
        };
        assert_eq!(event.event_id, EventId::new(41).unwrap());
        assert!(matches!(event.kind, EventKind::ResultIgnored(_)));
        assert!(decision.extras.contains_key(&event.event_id));
    }
    // Without the mark, an unknown command is an error.
    let unknown =
        EngineInput::ClassicReport(Box::new(classic_report(forgotten, 1, completed_outcome())));
    assert_eq!(sim.draft_decision(&unknown).unwrap_err(), DecisionError::UnknownCommand(forgotten));
    assert_eq!(sim.status(), ExecutionStatus::Running);
}

/// A retry keeps the command open and does not count as a lost worker.
#[test]
fn retry_keeps_command_open() {
    let (mut sim, command) = started_sim();
    for attempt in 1..=5 {
        let input = retry_report(command, attempt, 100 + i64::from(attempt));
        assert_eq!(sim.decide(input), Ok(InputVerdict::Accepted));
        let early = EngineInput::Claim(noetl_engine::CommandClaim {
            command,
            attempt: attempt + 1,
            worker: WorkerId::new("w1").unwrap(),
            lease_until: None,
        });
        let early = sim.decide(early);
        assert!(matches!(early, Err(DecisionError::NotBefore { .. })), "{early:?}");
        sim.advance_clock(Millis::from_secs(2));
    }
    let count_events = |event_type: &str| {
        let names = sim.log().iter().map(|event| event.kind.name());
        names.filter(|name| name.as_str() == event_type).count()
    };
    assert_eq!((count_events("call.error"), count_events("command.expired")), (5, 5));
    for attempt in 6..=7 {
        sim.decide(lease_expired(command, attempt)).unwrap();
        assert_eq!(sim.status(), ExecutionStatus::Running);
        sim.advance_clock(Millis::from_secs(3));
    }
    sim.decide(lease_expired(command, 8)).unwrap();
    assert_eq!(sim.status(), ExecutionStatus::Failed);
}

/// An audit-only event is stored unchanged and does not affect the state.
#[test]
fn audit_only_event_is_stored_unchanged() {
    let (mut sim, command) = started_sim();
    let name = EventName::parse("order.created").unwrap();
    let execution_id = sim.state().execution_id().unwrap();
    let audit_event = |id| {
        let record = NewEvent {
            context: Some(Json::from("body")),
            ..NewEvent::new(execution_id, EventId::new(id).unwrap(), name.clone(), sim.now())
        };
        EngineInput::AuditOnly(Box::new(AuditOnlyEvent(record)))
    };
    let (first, late) = (audit_event(51), audit_event(52));
    let decision = sim.draft_decision(&first).unwrap();
    let id = EventId::new(51).unwrap();
    assert!(matches!(decision.extras.get(&id), Some(EventExtras::Record(_))));
    assert_eq!(sim.decide(first), Ok(InputVerdict::Accepted));
    assert_eq!(sim.available_commands(), [command]);
    sim.cancel_execution().unwrap();
    let ended = DecisionError::AlreadyEnded(ExecutionStatus::Cancelled);
    assert_eq!(sim.decide(late), Err(ended));
}

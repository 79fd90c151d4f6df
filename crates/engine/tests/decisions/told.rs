//! What classic workers tell, and what the server makes of it.

use noetl_engine::event::ExpiryReason;
use noetl_engine::{
    Beside, Data, EventKind, Input, Late, LeaseExpired, Refused, Remark, Report, ReportOutcome,
    TaskResult, Told, Verdict,
};
use noetl_testkit::sim::Sim;
use noetl_types::{
    CommandId, ErrorCode, EventId, EventName, EventType, ExecutionStatus, Json, JsonMap, Millis,
    NewEvent, TaskError, TaskErrorKind, WorkerId,
};

const ONE: &str = "workflow: [{ step: a, tool: { kind: noop, result: 1 } }]";

fn begun() -> (Sim, CommandId) {
    let mut sim = Sim::of(ONE);
    sim.start().unwrap();
    let command = sim.available()[0];
    (sim, command)
}

fn told(command: CommandId, attempt: u32, outcome: ReportOutcome) -> Told {
    Told {
        report: Report {
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
        again: None,
        late: None,
        event_id: EventId::new(41).unwrap(),
        event_type: EventType::CallDone,
        meta: JsonMap::from([("event_type_as_sent".into(), Json::from("step.exit"))]),
    }
}

fn done() -> ReportOutcome {
    ReportOutcome::Completed(TaskResult::from(Data::Inline(Json::from(1))))
}

fn again(command: CommandId, attempt: u32, event_id: i64) -> Input {
    let error = TaskError::new(TaskErrorKind::Timeout, "slow");
    Input::Told(Box::new(Told {
        again: Some((error, Millis::from_secs(2))),
        event_id: EventId::new(event_id).unwrap(),
        event_type: EventType::CallError,
        ..told(command, attempt, ReportOutcome::Running { progress: None })
    }))
}

fn lost(command: CommandId, attempt: u32) -> Input {
    Input::LeaseExpired(LeaseExpired {
        command,
        attempt,
        worker: WorkerId::new("w1").unwrap(),
        lease_until: None,
        reason: ExpiryReason::Lease,
    })
}

/// The event has the id that its sender gave it, and what was said of it beside.
#[test]
fn an_event_keeps_the_id_of_its_sender() {
    let (mut sim, command) = begun();
    let input = Input::Told(Box::new(told(command, 1, done())));
    let decision = sim.draft(&input).unwrap();
    let named = EventId::new(41).unwrap();
    let mut events = decision.events.iter();
    let event = events.find(|event| event.event_id == named).unwrap();
    assert!(matches!(event.kind, EventKind::CallDone(_)));
    let Some(Beside::Meta(meta)) = decision.beside.get(&named) else {
        panic!("nothing beside");
    };
    assert_eq!(meta.get("commands_generated"), Some(&Json::from(0)));
    assert!(meta.contains_key("event_type_as_sent"));
    assert_eq!(sim.decide(input), Ok(Verdict::Accepted));
    assert_eq!(sim.status(), ExecutionStatus::Completed);
}

/// What comes too late is noted under the id that its sender gave it, once the caller knows so: the
/// state may still hold the command open, or have forgotten it.
#[test]
fn what_comes_too_late_keeps_its_id() {
    let (mut sim, command) = begun();
    let forgotten = CommandId::new(7).unwrap();
    for (late, command, code) in [
        (
            Late::Superseded(ErrorCode::NotLeaseHolder),
            command,
            ErrorCode::NotLeaseHolder,
        ),
        (
            Late::Superseded(ErrorCode::StaleAttempt),
            forgotten,
            ErrorCode::StaleAttempt,
        ),
        (Late::Closed, forgotten, ErrorCode::StaleAttempt),
    ] {
        let input = Input::Told(Box::new(Told {
            late: Some(late),
            ..told(command, 1, done())
        }));
        let decision = sim.draft(&input).unwrap();
        assert_eq!(decision.verdict, Verdict::Ignored(code));
        let [event] = &*decision.events else {
            panic!("{:?}", decision.events);
        };
        assert_eq!(event.event_id, EventId::new(41).unwrap());
        assert!(matches!(event.kind, EventKind::ResultIgnored(_)));
        assert!(decision.beside.contains_key(&event.event_id));
    }
    // Nobody else is told of a command that the run does not know.
    let unknown = Input::Told(Box::new(told(forgotten, 1, done())));
    assert_eq!(
        sim.draft(&unknown).unwrap_err(),
        Refused::UnknownCommand(forgotten)
    );
    assert_eq!(sim.status(), ExecutionStatus::Running);
}

/// A task that is made again leaves its command open; such attempts are not lost workers.
#[test]
fn a_task_is_made_again_by_the_same_command() {
    let (mut sim, command) = begun();
    for attempt in 1..=5 {
        let input = again(command, attempt, 100 + i64::from(attempt));
        assert_eq!(sim.decide(input), Ok(Verdict::Accepted));
        let early = Input::Claim(noetl_engine::Claim {
            command,
            attempt: attempt + 1,
            worker: WorkerId::new("w1").unwrap(),
            lease_until: None,
        });
        let early = sim.decide(early);
        assert!(matches!(early, Err(Refused::NotBefore { .. })), "{early:?}");
        sim.advance(Millis::from_secs(2));
    }
    let words = |word: &str| {
        let names = sim.log().iter().map(|event| event.kind.name());
        names.filter(|name| name.as_str() == word).count()
    };
    assert_eq!((words("call.error"), words("command.expired")), (5, 5));
    for attempt in 6..=7 {
        sim.decide(lost(command, attempt)).unwrap();
        assert_eq!(sim.status(), ExecutionStatus::Running);
        sim.advance(Millis::from_secs(3));
    }
    sim.decide(lost(command, 8)).unwrap();
    assert_eq!(sim.status(), ExecutionStatus::Failed);
}

/// A remark takes its place in the log, whole, and shapes nothing.
#[test]
fn a_remark_is_kept_as_it_came() {
    let (mut sim, command) = begun();
    let name = EventName::read("order.created").unwrap();
    let execution_id = sim.state().execution_id().unwrap();
    let remark = |id| {
        let record = NewEvent {
            context: Some(Json::from("body")),
            ..NewEvent::new(
                execution_id,
                EventId::new(id).unwrap(),
                name.clone(),
                sim.now(),
            )
        };
        Input::Remark(Box::new(Remark(record)))
    };
    let (first, late) = (remark(51), remark(52));
    let decision = sim.draft(&first).unwrap();
    let id = EventId::new(51).unwrap();
    assert!(matches!(decision.beside.get(&id), Some(Beside::Record(_))));
    assert_eq!(sim.decide(first), Ok(Verdict::Accepted));
    assert_eq!(sim.available(), [command]);
    sim.cancel().unwrap();
    let ended = Refused::AlreadyEnded(ExecutionStatus::Cancelled);
    assert_eq!(sim.decide(late), Err(ended));
}

//! Appends: outcomes, races, atomicity.

use std::sync::Arc;

use noetl_types::record::verify_chain;
use noetl_types::{EventType, ExecutionStatus, ExecutionVersion};
use tokio::task::JoinSet;

use super::StoreFixture;
use super::fixture::{TestExecution, append_one, execution_facts, test_time};
use crate::{
    AppendError, AppendRequest, CommandChange, InvalidAppend, LogHead, LogPageLimit, Store,
    TimerChange,
};

fn to_version(number: i64) -> ExecutionVersion {
    ExecutionVersion::new(number).unwrap()
}

async fn read_log(store: &dyn Store, run: &TestExecution) -> Vec<noetl_types::StoredEvent> {
    store.read_events(run.id, ExecutionVersion::EMPTY, LogPageLimit::MAX).await.unwrap()
}

pub(crate) async fn appended_events_are_read_back(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut run = TestExecution::create_started(store, 1).await;
    let append = run.step_request();
    let mut expected = vec![append.events[0].clone()];
    let second = run.append_to(store, append).await.unwrap();
    let append = run.end_request();
    expected.push(append.events[0].clone());
    let third = run.append_to(store, append).await.unwrap();
    assert!(second.feed < third.feed);

    let events = read_log(store, &run).await;
    assert_eq!(verify_chain(&events), Ok(run.head.chain));
    let seqs: Vec<_> = events.iter().map(|event| event.record.seq.get()).collect();
    assert_eq!(seqs, [1, 2, 3]);
    let read: Vec<_> = events[1..].iter().map(|it| it.record.event.clone()).collect();
    assert_eq!(read, expected);
    assert_eq!(LogHead::after_event(&events[2]), run.head);
    assert_eq!(events[2].feed, third.feed);

    let execution = store.find_execution(run.id).await.unwrap().unwrap();
    assert_eq!(execution.head, run.head);
    assert_eq!(execution.facts, execution_facts());
    assert_eq!(execution.view.status, ExecutionStatus::Completed);
    assert_eq!(execution.view.ended_at, Some(test_time("12:30:00")));
    assert_eq!(execution.last_event_id, expected[1].event_id);
    assert_eq!(execution.last_event_type, EventType::PlaybookCompleted);
}

pub(crate) async fn refuses_stale_duplicate_and_unknown_appends(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut run = TestExecution::create_started(store, 1).await;
    assert_eq!(
        append_one(store, TestExecution::new(1).start_request()).await,
        Err(AppendError::AlreadyExists)
    );
    let mut stale = run.clone();
    let append = run.step_request();
    run.append_to(store, append).await.unwrap();
    assert_eq!(
        append_one(store, stale.step_request()).await,
        Err(AppendError::Conflict { actual: to_version(2) })
    );
    // The version matches, but the chain of the log differs.
    let mut other = run.clone();
    other.head.chain = noetl_types::ChainHash::from_bytes([7; 32]);
    assert_eq!(
        append_one(store, other.step_request()).await,
        Err(AppendError::Conflict { actual: to_version(2) })
    );
    let mut unknown = run.clone();
    unknown.id = TestExecution::new(2).id;
    assert_eq!(append_one(store, unknown.step_request()).await, Err(AppendError::NotFound));
    assert_eq!(read_log(store, &run).await.len(), 2);
    assert_eq!(store.find_execution(unknown.id).await.unwrap(), None);
}

pub(crate) async fn invalid_appends_are_refused(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut run = TestExecution::create_started(store, 1).await;
    let rejection = |append: AppendRequest| async move {
        match append_one(store, append).await {
            Err(AppendError::Invalid(invalid)) => invalid,
            other => panic!("{other:?}"),
        }
    };
    let empty = run.append_request(vec![]);
    assert_eq!(rejection(empty).await, InvalidAppend::NoEvents);
    let foreign = TestExecution::new(2).next_event(EventType::StepEnter);
    assert_eq!(rejection(run.append_request(vec![foreign])).await, InvalidAppend::ForeignEvent);
    let restart = AppendRequest { start: Some(execution_facts()), ..run.step_request() };
    assert_eq!(rejection(restart).await, InvalidAppend::Start);
    let (_, command) = run.new_command();
    let without_event = AppendRequest {
        commands: vec![CommandChange::Issue(Box::new(command.clone()))],
        ..run.step_request()
    };
    assert_eq!(rejection(without_event).await, InvalidAppend::NoIssuedEvent);
    let hold = CommandChange::Hold { command_id: command.command_id, held: true };
    let twice = AppendRequest { commands: vec![hold.clone(), hold], ..run.step_request() };
    assert_eq!(rejection(twice).await, InvalidAppend::CommandTwice);
    let disarm = TimerChange::Disarm { timer_id: "t".into() };
    let twice = AppendRequest { timers: vec![disarm.clone(), disarm], ..run.step_request() };
    assert_eq!(rejection(twice).await, InvalidAppend::TimerTwice);
    assert_eq!(read_log(store, &run).await.len(), 1);
}

pub(crate) async fn one_of_racing_appends_wins(fixture: &StoreFixture) {
    let mut run = TestExecution::create_started(&*fixture.store, 1).await;
    for round in 0..8_i64 {
        let mut tasks = JoinSet::new();
        for _ in 0..16 {
            let store = Arc::clone(&fixture.store);
            let append = run.step_request();
            tasks.spawn(async move { append_one(&*store, append).await });
        }
        let results = tasks.join_all().await;
        let mut winners = results.iter().filter_map(|result| result.as_ref().ok());
        run.head = winners.next().unwrap().head;
        assert_eq!(winners.next(), None);
        assert_eq!(run.head.version, to_version(round + 2));
        for error in results.iter().filter_map(|result| result.as_ref().err()) {
            assert!(matches!(error, AppendError::Conflict { .. }), "{error:?}");
        }
    }
    let events = read_log(&*fixture.store, &run).await;
    assert_eq!(verify_chain(&events), Ok(run.head.chain));
    assert_eq!(events.len(), 9);
}

/// Each task reloads the head after a conflict, as a driver does, until all events are appended.
pub(crate) async fn racing_appends_leave_contiguous_log(fixture: &StoreFixture) {
    let run = TestExecution::create_started(&*fixture.store, 1).await;
    let mut tasks = JoinSet::new();
    for task in 0..8 {
        let store = Arc::clone(&fixture.store);
        let mut run = run.clone();
        tasks.spawn(async move {
            for step in 0..5 {
                let mut event = run.next_event(EventType::StepEnter);
                let id = run.id.get() + 1_000 * (task + 1) + step;
                event.event_id = noetl_types::EventId::new(id).unwrap();
                loop {
                    match append_one(&*store, run.append_request(vec![event.clone()])).await {
                        Ok(appended) => {
                            run.head = appended.head;
                            break;
                        }
                        Err(AppendError::Conflict { .. }) => {
                            let execution = store.find_execution(run.id).await.unwrap();
                            run.head = execution.unwrap().head;
                        }
                        Err(other) => panic!("{other:?}"),
                    }
                }
            }
        });
    }
    tasks.join_all().await;
    let events = read_log(&*fixture.store, &run).await;
    assert_eq!(events.len(), 41);
    verify_chain(&events).unwrap();
}

pub(crate) async fn appends_of_one_call_are_independent(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut first = TestExecution::create_started(store, 1).await;
    let mut stale = first.clone();
    let append = first.step_request();
    first.append_to(store, append).await.unwrap();
    let mut third = TestExecution::create_started(store, 3).await;
    let missing = {
        let mut run = third.clone();
        run.id = TestExecution::new(9).id;
        run.step_request()
    };
    let results = store
        .append_events(vec![
            TestExecution::new(4).start_request(),
            stale.step_request(),
            third.step_request(),
            missing,
            TestExecution::new(2).start_request(),
            third.append_request(vec![]),
        ])
        .await;
    let names: Vec<_> = results
        .iter()
        .map(|result| match result {
            Ok(receipt) => format!("version {}", receipt.head.version),
            Err(error) => format!("{error:?}"),
        })
        .collect();
    assert_eq!(
        names,
        [
            "version 1",
            "Conflict { actual: ExecutionVersion(2) }",
            "version 2",
            "NotFound",
            "version 1",
            "Invalid(NoEvents)",
        ]
    );
}

pub(crate) async fn later_appends_of_call_see_earlier_ones(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let run = TestExecution::new(1);
    let start = run.start_request();
    // The head after the start follows from the start alone, so later appends can be built before
    // it is sent.
    let model = crate::SqliteStore::in_memory().unwrap();
    let mut pipelined = run.clone();
    pipelined.append_to(&model, start.clone()).await.unwrap();
    let results =
        store.append_events(vec![start, pipelined.step_request(), pipelined.step_request()]).await;
    assert_eq!(results[0].as_ref().unwrap().head.version, to_version(1));
    assert_eq!(results[1].as_ref().unwrap().head.version, to_version(2));
    assert_eq!(results[2], Err(AppendError::Conflict { actual: to_version(2) }));
}

pub(crate) async fn event_ids_are_unique_per_execution(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut run = TestExecution::create_started(store, 1).await;
    let append = run.step_request();
    let used = append.events[0].clone();
    run.append_to(store, append).await.unwrap();
    let mut second = TestExecution::create_started(store, 2).await;
    let results = store
        .append_events(vec![run.append_request(vec![used.clone()]), second.step_request()])
        .await;
    assert_eq!(results[0], Err(AppendError::IdTaken));
    assert!(results[1].is_ok(), "the other append succeeds: {:?}", results[1]);
    let event = run.next_event(EventType::StepEnter);
    let twice = run.append_request(vec![event.clone(), event]);
    assert_eq!(append_one(store, twice).await, Err(AppendError::IdTaken));
    assert_eq!(read_log(store, &run).await.len(), 2);
    // Another execution may have an event of the same id.
    let mut other = TestExecution::create_started(store, 3).await;
    let mut event = used;
    event.execution_id = other.id;
    let append = other.append_request(vec![event]);
    other.append_to(store, append).await.unwrap();
}

pub(crate) async fn ended_execution_accepts_only_audit_events(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut run = TestExecution::create_started(store, 1).await;
    let append = run.end_request();
    run.append_to(store, append).await.unwrap();
    let append = run.step_request();
    assert_eq!(run.append_to(store, append).await, Err(AppendError::Terminal));
    let audit = run.next_event(EventType::CommandResultIgnored);
    assert!(audit.event_type.is_audit());
    let mut append = run.append_request(vec![audit]);
    append.view.status = ExecutionStatus::Completed;
    run.append_to(store, append).await.unwrap();
    let mixed =
        vec![run.next_event(EventType::CommandResultIgnored), run.next_event(EventType::StepEnter)];
    assert_eq!(append_one(store, run.append_request(mixed)).await, Err(AppendError::Terminal));
}

pub(crate) async fn dropped_range_refuses_appends(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let old = TestExecution::create_started(store, 1).await;
    let cutoff = TestExecution::new(5_000_000);
    let mut recent = TestExecution::create_started(store, 6_000_000).await;
    (fixture.mark_dropped_before)(cutoff.id.time()).await;
    assert!(store.is_dropped(old.id).await.unwrap());
    assert!(!store.is_dropped(recent.id).await.unwrap());
    assert_eq!(append_one(store, old.clone().step_request()).await, Err(AppendError::Dropped));
    assert_eq!(
        append_one(store, TestExecution::new(2).start_request()).await,
        Err(AppendError::Dropped)
    );
    let append = recent.step_request();
    recent.append_to(store, append).await.unwrap();
}

pub(crate) async fn ingest_time_never_decreases(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut run = TestExecution::create_started(store, 1).await;
    for (now, expected) in [
        ("12:10:00.000001", "12:10:00.000001"),
        ("11:00:00", "12:10:00.000001"),
        ("12:20:00", "12:20:00"),
    ] {
        let mut append = run.step_request();
        append.now = test_time(now);
        let appended = run.append_to(store, append).await.unwrap();
        assert_eq!(appended.head.ingest_time, test_time(expected));
    }
    let events = read_log(store, &run).await;
    let times: Vec<_> = events.iter().map(|event| event.record.ingest_time).collect();
    assert!(times.is_sorted());
    assert_eq!(times[2], test_time("12:10:00.000001"));
}

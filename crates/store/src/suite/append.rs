//! Appending: verdicts, races, atomicity.

use std::sync::Arc;

use noetl_types::record::verify_chain;
use noetl_types::{EventType, ExecutionStatus, Version};
use tokio::task::JoinSet;

use super::Bench;
use super::fixture::{Run, at, facts, one};
use crate::{
    Append, AppendRefused, CommandChange, Head, InvalidAppend, LogPage, Store, TimerChange,
};

fn version(number: i64) -> Version {
    Version::new(number).unwrap()
}

async fn log(store: &dyn Store, run: &Run) -> Vec<noetl_types::StoredEvent> {
    store
        .events(run.id, Version::EMPTY, LogPage::MAX)
        .await
        .unwrap()
}

pub(crate) async fn a_run_is_written_and_read_back(bench: &Bench) {
    let store = &*bench.store;
    let mut run = Run::started(store, 1).await;
    let append = run.step();
    let mut sent = vec![append.events[0].clone()];
    let second = run.write(store, append).await.unwrap();
    let append = run.end();
    sent.push(append.events[0].clone());
    let third = run.write(store, append).await.unwrap();
    assert!(second.feed < third.feed);

    let events = log(store, &run).await;
    assert_eq!(verify_chain(&events), Ok(run.head.chain));
    let seqs: Vec<_> = events.iter().map(|event| event.record.seq.get()).collect();
    assert_eq!(seqs, [1, 2, 3]);
    let read: Vec<_> = events[1..]
        .iter()
        .map(|it| it.record.event.clone())
        .collect();
    assert_eq!(read, sent);
    assert_eq!(Head::after(&events[2]), run.head);
    assert_eq!(events[2].feed, third.feed);

    let execution = store.execution(run.id).await.unwrap().unwrap();
    assert_eq!(execution.head, run.head);
    assert_eq!(execution.facts, facts());
    assert_eq!(execution.view.status, ExecutionStatus::Completed);
    assert_eq!(execution.view.ended_at, Some(at("12:30:00")));
    assert_eq!(execution.last_event_id, sent[1].event_id);
    assert_eq!(execution.last_event_type, EventType::PlaybookCompleted);
}

pub(crate) async fn verdicts(bench: &Bench) {
    let store = &*bench.store;
    let mut run = Run::started(store, 1).await;
    assert_eq!(
        one(store, Run::new(1).start()).await,
        Err(AppendRefused::AlreadyExists)
    );
    let mut stale = run.clone();
    let append = run.step();
    run.write(store, append).await.unwrap();
    assert_eq!(
        one(store, stale.step()).await,
        Err(AppendRefused::Conflict { actual: version(2) })
    );
    // The version fits, but the log behind it is another one.
    let mut other = run.clone();
    other.head.chain = noetl_types::Chain::from_bytes([7; 32]);
    assert_eq!(
        one(store, other.step()).await,
        Err(AppendRefused::Conflict { actual: version(2) })
    );
    let mut unknown = run.clone();
    unknown.id = Run::new(2).id;
    assert_eq!(
        one(store, unknown.step()).await,
        Err(AppendRefused::NotFound)
    );
    assert_eq!(log(store, &run).await.len(), 2);
    assert_eq!(store.execution(unknown.id).await.unwrap(), None);
}

pub(crate) async fn contradictions_are_refused(bench: &Bench) {
    let store = &*bench.store;
    let mut run = Run::started(store, 1).await;
    let refused = |append: Append| async move {
        match one(store, append).await {
            Err(AppendRefused::Invalid(invalid)) => invalid,
            other => panic!("{other:?}"),
        }
    };
    let empty = run.append(vec![]);
    assert_eq!(refused(empty).await, InvalidAppend::NoEvents);
    let foreign = Run::new(2).event(EventType::StepEnter);
    assert_eq!(
        refused(run.append(vec![foreign])).await,
        InvalidAppend::ForeignEvent
    );
    let restart = Append {
        start: Some(facts()),
        ..run.step()
    };
    assert_eq!(refused(restart).await, InvalidAppend::Start);
    let (_, command) = run.new_command();
    let without_event = Append {
        commands: vec![CommandChange::Issue(Box::new(command.clone()))],
        ..run.step()
    };
    assert_eq!(refused(without_event).await, InvalidAppend::NoIssuedEvent);
    let hold = CommandChange::Hold {
        command_id: command.command_id,
        held: true,
    };
    let twice = Append {
        commands: vec![hold.clone(), hold],
        ..run.step()
    };
    assert_eq!(refused(twice).await, InvalidAppend::CommandTwice);
    let disarm = TimerChange::Disarm {
        timer_id: "t".into(),
    };
    let twice = Append {
        timers: vec![disarm.clone(), disarm],
        ..run.step()
    };
    assert_eq!(refused(twice).await, InvalidAppend::TimerTwice);
    assert_eq!(log(store, &run).await.len(), 1);
}

pub(crate) async fn one_of_sixteen_racers_wins(bench: &Bench) {
    let mut run = Run::started(&*bench.store, 1).await;
    for round in 0..8_i64 {
        let mut racers = JoinSet::new();
        for _ in 0..16 {
            let store = Arc::clone(&bench.store);
            let append = run.step();
            racers.spawn(async move { one(&*store, append).await });
        }
        let results = racers.join_all().await;
        let mut winners = results.iter().filter_map(|result| result.as_ref().ok());
        run.head = winners.next().unwrap().head;
        assert_eq!(winners.next(), None);
        assert_eq!(run.head.version, version(round + 2));
        for loser in results.iter().filter_map(|result| result.as_ref().err()) {
            assert!(matches!(loser, AppendRefused::Conflict { .. }), "{loser:?}");
        }
    }
    let events = log(&*bench.store, &run).await;
    assert_eq!(verify_chain(&events), Ok(run.head.chain));
    assert_eq!(events.len(), 9);
}

/// Each racer loads the head again after a conflict, as a driver does, until all are in.
/// Hole Y7.
pub(crate) async fn racers_on_one_run_leave_a_contiguous_log(bench: &Bench) {
    let run = Run::started(&*bench.store, 1).await;
    let mut racers = JoinSet::new();
    for racer in 0..8 {
        let store = Arc::clone(&bench.store);
        let mut run = run.clone();
        racers.spawn(async move {
            for step in 0..5 {
                let mut event = run.event(EventType::StepEnter);
                let id = run.id.get() + 1_000 * (racer + 1) + step;
                event.event_id = noetl_types::EventId::new(id).unwrap();
                loop {
                    match one(&*store, run.append(vec![event.clone()])).await {
                        Ok(appended) => {
                            run.head = appended.head;
                            break;
                        }
                        Err(AppendRefused::Conflict { .. }) => {
                            let execution = store.execution(run.id).await.unwrap();
                            run.head = execution.unwrap().head;
                        }
                        Err(other) => panic!("{other:?}"),
                    }
                }
            }
        });
    }
    racers.join_all().await;
    let events = log(&*bench.store, &run).await;
    assert_eq!(events.len(), 41);
    verify_chain(&events).unwrap();
}

pub(crate) async fn items_of_a_call_are_independent(bench: &Bench) {
    let store = &*bench.store;
    let mut first = Run::started(store, 1).await;
    let mut stale = first.clone();
    let append = first.step();
    first.write(store, append).await.unwrap();
    let mut third = Run::started(store, 3).await;
    let missing = {
        let mut run = third.clone();
        run.id = Run::new(9).id;
        run.step()
    };
    let results = store
        .append(vec![
            Run::new(4).start(),
            stale.step(),
            third.step(),
            missing,
            Run::new(2).start(),
            third.append(vec![]),
        ])
        .await;
    let names: Vec<_> = results
        .iter()
        .map(|result| match result {
            Ok(appended) => format!("version {}", appended.head.version),
            Err(refused) => format!("{refused:?}"),
        })
        .collect();
    assert_eq!(
        names,
        [
            "version 1",
            "Conflict { actual: Version(2) }",
            "version 2",
            "NotFound",
            "version 1",
            "Invalid(NoEvents)",
        ]
    );
}

pub(crate) async fn later_items_of_a_call_see_earlier_ones(bench: &Bench) {
    let store = &*bench.store;
    let run = Run::new(1);
    let start = run.start();
    // The head after the start follows from the start alone, so a pipeline can be built ahead.
    let scratch = crate::MemoryStore::new();
    let mut ahead = run.clone();
    ahead.write(&scratch, start.clone()).await.unwrap();
    let results = store.append(vec![start, ahead.step(), ahead.step()]).await;
    assert_eq!(results[0].as_ref().unwrap().head.version, version(1));
    assert_eq!(results[1].as_ref().unwrap().head.version, version(2));
    assert_eq!(
        results[2],
        Err(AppendRefused::Conflict { actual: version(2) })
    );
}

pub(crate) async fn ids_are_not_used_twice(bench: &Bench) {
    let store = &*bench.store;
    let mut run = Run::started(store, 1).await;
    let append = run.step();
    let used = append.events[0].clone();
    run.write(store, append).await.unwrap();
    let mut neighbour = Run::started(store, 2).await;
    let results = store
        .append(vec![run.append(vec![used.clone()]), neighbour.step()])
        .await;
    assert_eq!(results[0], Err(AppendRefused::IdTaken));
    assert!(
        results[1].is_ok(),
        "a neighbour is not failed: {:?}",
        results[1]
    );
    let event = run.event(EventType::StepEnter);
    let twice = run.append(vec![event.clone(), event]);
    assert_eq!(one(store, twice).await, Err(AppendRefused::IdTaken));
    assert_eq!(log(store, &run).await.len(), 2);
    // Another execution may have an event of the same id.
    let mut other = Run::started(store, 3).await;
    let mut event = used;
    event.execution_id = other.id;
    let append = other.append(vec![event]);
    other.write(store, append).await.unwrap();
}

pub(crate) async fn an_ended_run_takes_audit_events_only(bench: &Bench) {
    let store = &*bench.store;
    let mut run = Run::started(store, 1).await;
    let append = run.end();
    run.write(store, append).await.unwrap();
    let append = run.step();
    assert_eq!(run.write(store, append).await, Err(AppendRefused::Terminal));
    let audit = run.event(EventType::CommandResultIgnored);
    assert!(audit.event_type.is_audit());
    let mut append = run.append(vec![audit]);
    append.view.status = ExecutionStatus::Completed;
    run.write(store, append).await.unwrap();
    let mixed = vec![
        run.event(EventType::CommandResultIgnored),
        run.event(EventType::StepEnter),
    ];
    assert_eq!(
        one(store, run.append(mixed)).await,
        Err(AppendRefused::Terminal)
    );
}

pub(crate) async fn a_dropped_range_is_gone(bench: &Bench) {
    let store = &*bench.store;
    let old = Run::started(store, 1).await;
    let cut = Run::new(5_000_000);
    let mut young = Run::started(store, 6_000_000).await;
    (bench.drop_before)(cut.id.time()).await;
    assert!(store.is_gone(old.id).await.unwrap());
    assert!(!store.is_gone(young.id).await.unwrap());
    assert_eq!(
        one(store, old.clone().step()).await,
        Err(AppendRefused::Gone)
    );
    assert_eq!(
        one(store, Run::new(2).start()).await,
        Err(AppendRefused::Gone)
    );
    let append = young.step();
    young.write(store, append).await.unwrap();
}

pub(crate) async fn ingest_time_never_decreases(bench: &Bench) {
    let store = &*bench.store;
    let mut run = Run::started(store, 1).await;
    for (now, expected) in [
        ("12:10:00.000001", "12:10:00.000001"),
        ("11:00:00", "12:10:00.000001"),
        ("12:20:00", "12:20:00"),
    ] {
        let mut append = run.step();
        append.now = at(now);
        let appended = run.write(store, append).await.unwrap();
        assert_eq!(appended.head.ingest_time, at(expected));
    }
    let events = log(store, &run).await;
    let times: Vec<_> = events
        .iter()
        .map(|event| event.record.ingest_time)
        .collect();
    assert!(times.is_sorted());
    assert_eq!(times[2], at("12:10:00.000001"));
}

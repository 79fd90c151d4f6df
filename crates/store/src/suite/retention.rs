//! Retention: only what may go goes, and what went never comes back as something else.

use std::sync::Arc;

use noetl_types::limits::PageLimit;
use noetl_types::{ExecutionStatus, Millis, Month, Text, Timestamp};
use tokio::task::JoinSet;

use super::Bench;
use super::fixture::{Run, at, one};
use super::outbox::{claim, mark, out};
use super::stream::{NAME, owner, take, taken};
use crate::{
    AppendRefused, EnabledOutlets, ErrandChange, LogPart, NewRuntime, OldPart, Pinned, Purge,
    Purged, RuntimeKind, Store, StreamMove, purge, verify_log, verify_logs,
};

/// A run of a month, as it was when it began.
pub(super) fn run_of(month: u8, number: i64) -> Run {
    let first = LogPart::of(Month::new(2026, month).unwrap()).lo;
    Run::with_id(first + 1_000_000 * (number + 1))
}

pub(super) async fn ended(store: &dyn Store, mut run: Run) -> Run {
    run.write(store, run.start()).await.unwrap();
    let end = run.end();
    run.write(store, end).await.unwrap();
    run
}

/// Everything of before November goes.
pub(super) async fn before_november(store: &dyn Store) -> Purge {
    Purge {
        commands_before: None,
        runtimes_before: None,
        events_before: Some(Timestamp::parse("2026-11-01T00:00:00Z").unwrap()),
        outbox_before: None,
        outlets: EnabledOutlets::default(),
        now: now(store).await,
        dry_run: false,
    }
}

/// What time it is, as far as the database has a clock of its own.
async fn now(store: &dyn Store) -> Timestamp {
    let clock = store.clock().await.unwrap();
    clock.unwrap_or_else(|| at("12:00:00"))
}

pub(super) fn names(parts: &[OldPart]) -> Vec<&str> {
    parts.iter().map(|old| old.part.name.as_str()).collect()
}

pub(super) async fn purged(store: &dyn Store, asked: &Purge) -> Purged {
    purge(store, asked).await.unwrap()
}

pub(crate) async fn r1_only_months_that_are_over_go(bench: &Bench) {
    let store = &*bench.store;
    let august = ended(store, run_of(8, 1)).await;
    let mut live = run_of(9, 1);
    live.write(store, live.start()).await.unwrap();
    let beside = ended(store, run_of(9, 2)).await;
    let present = ended(store, Run::new(1)).await;

    let dry = purged(
        store,
        &Purge {
            dry_run: true,
            ..before_november(store).await
        },
    )
    .await;
    assert_eq!(names(&dry.dropped), ["event_y2026m08"]);
    assert_eq!(names(&dry.skipped), ["event_y2026m09"]);
    assert!(store.execution(august.id).await.unwrap().is_some());

    let last_place = async |run: &Run| {
        let page = crate::LogPage::MAX;
        let events = store
            .events(run.id, noetl_types::Version::EMPTY, page)
            .await;
        events.unwrap().last().unwrap().feed.position
    };
    assert_eq!(store.last_dropped().await.unwrap(), 0);
    let last = last_place(&august).await;
    let done = purged(store, &before_november(store).await).await;
    assert_eq!((&done.dropped, &done.skipped), (&dry.dropped, &dry.skipped));
    assert_eq!(store.last_dropped().await.unwrap(), last);
    assert_eq!(done.skipped[0].pinned, Some(Pinned::Live(live.id)));
    assert!(store.is_gone(august.id).await.unwrap());
    assert_eq!(store.execution(august.id).await.unwrap(), None);
    let log = |run: &Run| {
        let id = run.id;
        async move {
            let page = crate::LogPage::MAX;
            let events = store.events(id, noetl_types::Version::EMPTY, page).await;
            events.unwrap().len()
        }
    };
    assert_eq!(log(&august).await, 0);
    for kept in [&live, &beside, &present] {
        assert!(!store.is_gone(kept.id).await.unwrap());
    }
    // The live one goes on with its whole past, and then its month goes too.
    let end = live.end();
    live.write(store, end).await.unwrap();
    assert_eq!(log(&live).await, 2);
    let last = last_place(&live).await;
    let done = purged(store, &before_november(store).await).await;
    assert_eq!(names(&done.dropped), ["event_y2026m09"]);
    assert_eq!(store.last_dropped().await.unwrap(), last);
    assert_eq!(
        purged(store, &before_november(store).await).await,
        Purged::default()
    );
    assert_eq!(log(&present).await, 2);
}

pub(crate) async fn a_month_goes_from_its_very_end_on(bench: &Bench) {
    let store = &*bench.store;
    ended(store, run_of(8, 1)).await;
    let end = Month::new(2026, 9).unwrap().first_instant();
    let just_before = end.saturating_sub(Millis::from_ms(1));
    for (before, expected) in [(just_before, &[][..]), (end, &["event_y2026m08"])] {
        let asked = Purge {
            events_before: Some(before),
            ..before_november(store).await
        };
        assert_eq!(names(&purged(store, &asked).await.dropped), expected);
    }
}

/// Promise 22: no fresh partial history.
pub(crate) async fn r1_a_late_event_of_a_dropped_execution_is_gone(bench: &Bench) {
    let store = &*bench.store;
    let mut run = ended(store, run_of(8, 1)).await;
    purged(store, &before_november(store).await).await;
    let late = run.step();
    assert_eq!(one(store, late).await, Err(AppendRefused::Gone));
    let again = run_of(8, 1).start();
    assert_eq!(one(store, again).await, Err(AppendRefused::Gone));
    // Nor another one of that month.
    assert_eq!(
        one(store, run_of(8, 7).start()).await,
        Err(AppendRefused::Gone)
    );
    assert_eq!(store.execution(run.id).await.unwrap(), None);
}

pub(crate) async fn r1_unpublished_events_keep_their_month(bench: &Bench) {
    let store = &*bench.store;
    let mut run = run_of(8, 1);
    run.write(store, out(run.start())).await.unwrap();
    let end = out(run.end());
    run.write(store, end).await.unwrap();
    let both = EnabledOutlets {
        outbox: true,
        streams: vec![Text::from(NAME)],
    };
    let asked = Purge {
        outlets: both,
        ..before_november(store).await
    };
    let pinned = |purged: Purged| {
        assert_eq!(purged.dropped, []);
        purged.skipped[0].pinned.clone().unwrap()
    };
    let found = pinned(purged(store, &asked).await);
    assert_eq!(found, Pinned::Outbox(run.id));
    let rows = store
        .claim_outbox(claim("p", 10, at("12:00:00")))
        .await
        .unwrap()
        .rows;
    let marks = rows.iter().map(mark).collect();
    store.mark_published(marks, at("12:00:00")).await.unwrap();
    // The stream has not even begun.
    let stream = Pinned::Stream(Text::from(NAME));
    assert_eq!(pinned(purged(store, &asked).await), stream);
    let cursor = taken(store, take(NAME, "a", at("12:00:00"))).await;
    assert_eq!(pinned(purged(store, &asked).await), stream);
    let batch = loop {
        let all = crate::FeedLimit::MAX;
        let batch = store.feed(cursor.position, all).await.unwrap();
        if batch.events.len() == 2 {
            break batch;
        }
        tokio::task::yield_now().await;
    };
    let first = StreamMove::Forward {
        from: cursor.position,
        to: batch.events[0].feed,
    };
    assert!(store.move_stream(owner(&cursor), first).await.unwrap());
    assert_eq!(pinned(purged(store, &asked).await), stream);
    let second = StreamMove::Forward {
        from: batch.events[0].feed,
        to: batch.next,
    };
    assert!(store.move_stream(owner(&cursor), second).await.unwrap());
    assert_eq!(purged(store, &asked).await.dropped.len(), 1);
    assert!(store.is_gone(run.id).await.unwrap());
    // What is published went with its execution.
    assert_eq!(store.outbox(super::outbox::all()).await.unwrap(), []);
}

/// With no outlet on, nothing blocks; a row that was given up counts as published.
pub(crate) async fn what_is_given_up_or_not_wanted_keeps_nothing(bench: &Bench) {
    let store = &*bench.store;
    for month in [7, 8] {
        let mut run = run_of(month, 1);
        run.write(store, out(run.start())).await.unwrap();
        let end = out(run.end());
        run.write(store, end).await.unwrap();
    }
    let rows = store
        .claim_outbox(claim("p", 2, at("12:00:00")))
        .await
        .unwrap()
        .rows;
    for row in rows {
        let failed = crate::OutboxFailure {
            max_attempts: 1,
            ..super::outbox::failure(row.outbox_id, Some(1), at("12:00:00"))
        };
        store.mark_failed(failed).await.unwrap();
        let given_up = store.discard_outbox(vec![row.outbox_id], at("12:00:00"));
        assert_eq!(given_up.await.unwrap(), 1);
    }
    let with_outbox = Purge {
        outlets: EnabledOutlets {
            outbox: true,
            streams: Vec::new(),
        },
        ..before_november(store).await
    };
    let done = purged(store, &with_outbox).await;
    assert_eq!(names(&done.dropped), ["event_y2026m07"]);
    let done = purged(store, &before_november(store).await).await;
    assert_eq!(names(&done.dropped), ["event_y2026m08"]);
}

pub(crate) async fn what_is_owed_keeps_its_month(bench: &Bench) {
    let store = &*bench.store;
    let mut run = run_of(8, 1);
    let mut start = run.start();
    start.errands = vec![ErrandChange::Add {
        errand_id: Text::from("tell"),
        body: noetl_types::Json::Null,
        due_at: at("12:00:00"),
    }];
    run.write(store, start).await.unwrap();
    let end = run.end();
    run.write(store, end).await.unwrap();
    let done = purged(store, &before_november(store).await).await;
    assert_eq!(done.skipped[0].pinned, Some(Pinned::Owed(run.id)));
    let settled = crate::ErrandOutcome::Done;
    store
        .settle_errand(run.id, &"tell".into(), settled)
        .await
        .unwrap();
    assert_eq!(
        purged(store, &before_november(store).await)
            .await
            .dropped
            .len(),
        1
    );
}

pub(crate) async fn everything_of_an_execution_goes_with_it(bench: &Bench) {
    let store = &*bench.store;
    let mut run = run_of(8, 1);
    run.write(store, run.start()).await.unwrap();
    let command_id = run.issue(store).await;
    let mut append = run.step();
    append.results = vec![super::result::result(5, b"[1]")];
    append.timers = vec![crate::TimerChange::Arm {
        timer_id: Text::from("t"),
        fire_at: at("12:00:00"),
    }];
    run.write(store, append).await.unwrap();
    store
        .set_vars(
            run.id,
            vec![super::keep::var("x", noetl_types::Json::from(1))],
        )
        .await
        .unwrap();
    let end = run.end();
    run.write(store, end).await.unwrap();
    let done = purged(store, &before_november(store).await).await;
    assert_eq!(done.dropped.len(), 1);
    assert_eq!(store.command(command_id).await.unwrap(), None);
    let result_id = noetl_types::ResultId::new(5).unwrap();
    assert_eq!(store.result(run.id, result_id).await.unwrap(), None);
    let due = store
        .due(at("23:00:00"), None, PageLimit::MAX)
        .await
        .unwrap();
    assert_eq!(due, []);
    assert_eq!(store.vars(run.id, None).await.unwrap(), []);
    let facts = store.facts().await.unwrap();
    assert!(facts.rows.values().all(|rows| *rows == 0), "{facts:?}");
    assert_eq!(
        store
            .clean_dropped(now(store).await, PageLimit::MAX)
            .await
            .unwrap(),
        0
    );
}

pub(crate) async fn old_commands_and_silent_pools_go(bench: &Bench) {
    let store = &*bench.store;
    let mut run = Run::started(store, 1).await;
    let (open, done) = (run.issue(store).await, run.issue(store).await);
    let mut append = run.step();
    append.commands = vec![crate::CommandChange::Close {
        command_id: done,
        end: crate::CommandEnd::Completed,
        at: at("12:00:00"),
        error: None,
    }];
    run.write(store, append).await.unwrap();
    for (kind, name, time) in [
        (RuntimeKind::WorkerPool, "silent", "10:00:00"),
        (RuntimeKind::WorkerPool, "alive", "12:00:00"),
        (RuntimeKind::ServerApi, "a-server", "10:00:00"),
    ] {
        let number = i64::try_from(name.len()).unwrap();
        let runtime = NewRuntime {
            runtime_id: noetl_types::RuntimeId::new(number).unwrap(),
            kind,
            name: Text::from(name),
            uri: None,
            detail: None,
            now: at(time),
        };
        store.register_runtime(runtime).await.unwrap();
    }
    let base = before_november(store).await;
    let asked = |time: &str| Purge {
        commands_before: Some(at(time)),
        runtimes_before: Some(at("11:00:00")),
        events_before: None,
        ..base.clone()
    };
    let exactly = purged(store, &asked("12:00:00")).await;
    assert_eq!((exactly.commands, exactly.runtimes), (0, 1));
    let dry = Purge {
        dry_run: true,
        ..asked("12:00:01")
    };
    assert_eq!(purged(store, &dry).await.commands, 1);
    assert_eq!(purged(store, &asked("12:00:01")).await.commands, 1);
    assert_eq!(purged(store, &asked("12:00:01")).await, Purged::default());
    assert!(store.command(open).await.unwrap().is_some());
    assert_eq!(store.command(done).await.unwrap(), None);
    let pools = store.runtimes(RuntimeKind::WorkerPool).await.unwrap();
    assert_eq!(pools.len(), 1);
    assert_eq!(
        store.runtimes(RuntimeKind::ServerApi).await.unwrap().len(),
        1
    );
    // One that comes back has to introduce itself anew.
    let silent = Text::from("silent");
    let heard = store.heartbeat(RuntimeKind::WorkerPool, &silent, at("12:00:00"));
    assert!(!heard.await.unwrap());
}

/// A late result of a command that is purged finds nothing to be accepted by.
pub(crate) async fn r7_a_purged_command_takes_no_result(bench: &Bench) {
    let store = &*bench.store;
    let mut run = Run::started(store, 1).await;
    let command_id = run.issue(store).await;
    let fence = crate::Fence {
        command_id,
        attempt: 1,
        holder: crate::Holder::Worker(super::fixture::worker("w")),
    };
    store
        .lease(super::fixture::lease_of("w", 1, 1))
        .await
        .unwrap();
    let mut append = run.step();
    append.commands = vec![crate::CommandChange::Close {
        command_id,
        end: crate::CommandEnd::Completed,
        at: at("12:00:00"),
        error: None,
    }];
    run.write(store, append).await.unwrap();
    let purged = store.purge_commands(at("13:00:00"), PageLimit::MAX).await;
    assert_eq!(purged.unwrap(), 1);
    let mut late = run.step();
    late.fences = vec![fence];
    let refused = one(store, late).await;
    assert_eq!(refused, Err(AppendRefused::Fenced { command_id }));
}

/// Runs that begin and end while a month is dropped: each is there as a whole, or gone as a whole.
pub(crate) async fn r1_whoever_writes_while_a_month_goes_is_there_or_gone(bench: &Bench) {
    for number in 0..20 {
        ended(&*bench.store, run_of(8, number)).await;
    }
    let mut racers = JoinSet::new();
    for number in 100..108 {
        let store = Arc::clone(&bench.store);
        racers.spawn(async move {
            let mut run = run_of(8, number);
            let begun = run.write(&*store, run.start()).await;
            if let Err(refused) = begun {
                assert_eq!(refused, AppendRefused::Gone);
                return run;
            }
            // Whoever has begun also ends: a live run keeps its month.
            loop {
                let end = run.end();
                match run.write(&*store, end).await {
                    Ok(_) => return run,
                    Err(AppendRefused::Conflict { .. }) => tokio::task::yield_now().await,
                    Err(refused) => panic!("{refused:?}"),
                }
            }
        });
        let store = Arc::clone(&bench.store);
        racers.spawn(async move {
            let asked = before_november(&*store).await;
            purge(&*store, &asked).await.unwrap();
            run_of(8, number)
        });
    }
    let runs = racers.join_all().await;
    let store = &*bench.store;
    // Nothing lives in that month any more, so one more purge takes what is left.
    let last = purged(store, &before_november(store).await).await;
    assert!(last.skipped.is_empty(), "{last:?}");
    for run in runs {
        assert!(store.is_gone(run.id).await.unwrap());
        assert_eq!(store.execution(run.id).await.unwrap(), None);
        let page = crate::LogPage::MAX;
        let log = store
            .events(run.id, noetl_types::Version::EMPTY, page)
            .await;
        assert_eq!(log.unwrap(), []);
    }
}

pub(crate) async fn logs_are_verified(bench: &Bench) {
    let store = &*bench.store;
    let mut run = Run::started(store, 1).await;
    for _ in 0..3 {
        let append = run.step();
        run.write(store, append).await.unwrap();
    }
    let other = Run::started(store, 2).await;
    assert_eq!(verify_log(store, run.id).await.unwrap(), None);
    let page = verify_logs(store, None, PageLimit::MAX).await.unwrap();
    assert_eq!(page, (Vec::new(), Some(other.id)));
    let last = verify_logs(store, Some(other.id), PageLimit::MAX).await;
    assert_eq!(last.unwrap(), (Vec::new(), None));
    assert_eq!(store.integrity().await.unwrap(), Vec::<String>::new());
    let facts = store.facts().await.unwrap();
    assert_eq!(facts.rows.get("event"), Some(&5));
    assert_eq!(facts.rows.get("execution"), Some(&2));
    let status = store.execution(run.id).await.unwrap().unwrap().view.status;
    assert_eq!(status, ExecutionStatus::Running);
}

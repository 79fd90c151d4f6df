//! Retention: only finished months are dropped, and a dropped execution cannot be created again.

use std::sync::Arc;

use noetl_types::limits::PageLimit;
use noetl_types::{ExecutionStatus, Millis, Month, Text, Timestamp};
use tokio::task::JoinSet;

use super::StoreFixture;
use super::fixture::{TestExecution, append_one, test_time};
use super::outbox::{claim_rows, outbox_mark, with_outbox_rows};
use super::stream::{STREAM_NAME, lease_test_stream, move_cursor};
use crate::{
    AppendError, CursorMove, EnabledPublishers, FollowUpChange, LogPartition, OldPartition,
    PinReason, PurgePlan, PurgeReport, RuntimeKind, RuntimeRegistration, Store, purge_old_data,
    verify_log,
};

/// Returns an execution with an id of a month of 2026.
pub(super) fn run_in_month(month: u8, number: i64) -> TestExecution {
    let first = LogPartition::for_month(Month::new(2026, month).unwrap()).first_id;
    TestExecution::with_id(first + 1_000_000 * (number + 1))
}

pub(super) async fn write_ended_run(store: &dyn Store, mut run: TestExecution) -> TestExecution {
    run.append_to(store, run.start_request()).await.unwrap();
    let end = run.end_request();
    run.append_to(store, end).await.unwrap();
    run
}

/// Returns a plan that drops all months before November.
pub(super) async fn purge_before_november(store: &dyn Store) -> PurgePlan {
    let now = database_now(store).await;
    PurgePlan {
        commands_before: None,
        runtimes_before: None,
        events_before: Some(Timestamp::parse("2026-11-01T00:00:00Z").unwrap()),
        outbox_before: None,
        publishers: EnabledPublishers::default(),
        now,
        server_time: now,
        dry_run: false,
    }
}

/// Returns the time of the database, or a fixed time if it has no clock.
async fn database_now(store: &dyn Store) -> Timestamp {
    let clock = store.database_clock().await.unwrap();
    clock.unwrap_or_else(|| test_time("12:00:00"))
}

pub(super) fn partition_names(partitions: &[OldPartition]) -> Vec<&str> {
    partitions.iter().map(|old| old.partition.name.as_str()).collect()
}

pub(super) async fn run_purge(store: &dyn Store, plan: &PurgePlan) -> PurgeReport {
    purge_old_data(store, plan, &()).await.unwrap()
}

pub(crate) async fn only_finished_months_are_dropped(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let august = write_ended_run(store, run_in_month(8, 1)).await;
    let mut live_run = run_in_month(9, 1);
    live_run.append_to(store, live_run.start_request()).await.unwrap();
    let ended_run = write_ended_run(store, run_in_month(9, 2)).await;
    let current = write_ended_run(store, TestExecution::new(1)).await;

    let dry_report =
        run_purge(store, &PurgePlan { dry_run: true, ..purge_before_november(store).await }).await;
    assert_eq!(partition_names(&dry_report.dropped), ["event_y2026m08"]);
    assert_eq!(partition_names(&dry_report.skipped), ["event_y2026m09"]);
    assert!(store.find_execution(august.id).await.unwrap().is_some());

    let last_position = async |run: &TestExecution| {
        let page = crate::LogPageLimit::MAX;
        let events = store.read_events(run.id, noetl_types::ExecutionVersion::EMPTY, page).await;
        events.unwrap().last().unwrap().feed.position
    };
    assert_eq!(store.last_dropped_position().await.unwrap(), 0);
    let last = last_position(&august).await;
    let report = run_purge(store, &purge_before_november(store).await).await;
    assert_eq!((&report.dropped, &report.skipped), (&dry_report.dropped, &dry_report.skipped));
    assert_eq!(store.last_dropped_position().await.unwrap(), last);
    assert_eq!(report.skipped[0].pin_reason, Some(PinReason::NotEnded(live_run.id)));
    assert!(store.is_dropped(august.id).await.unwrap());
    assert_eq!(store.find_execution(august.id).await.unwrap(), None);
    let log = |run: &TestExecution| {
        let id = run.id;
        async move {
            let page = crate::LogPageLimit::MAX;
            let events = store.read_events(id, noetl_types::ExecutionVersion::EMPTY, page).await;
            events.unwrap().len()
        }
    };
    assert_eq!(log(&august).await, 0);
    for run in [&live_run, &ended_run, &current] {
        assert!(!store.is_dropped(run.id).await.unwrap());
    }
    // The live execution continues with its full log. When it has ended, its month is dropped too.
    let end = live_run.end_request();
    live_run.append_to(store, end).await.unwrap();
    assert_eq!(log(&live_run).await, 2);
    let last = last_position(&live_run).await;
    let report = run_purge(store, &purge_before_november(store).await).await;
    assert_eq!(partition_names(&report.dropped), ["event_y2026m09"]);
    assert_eq!(store.last_dropped_position().await.unwrap(), last);
    assert_eq!(run_purge(store, &purge_before_november(store).await).await, PurgeReport::default());
    assert_eq!(log(&current).await, 2);
}

pub(crate) async fn month_is_dropped_only_after_its_end(fixture: &StoreFixture) {
    let store = &*fixture.store;
    write_ended_run(store, run_in_month(8, 1)).await;
    let end = Month::new(2026, 9).unwrap().first_instant();
    let just_before = end.saturating_sub(Millis::from_ms(1));
    for (before, expected) in [(just_before, &[][..]), (end, &["event_y2026m08"])] {
        let plan = PurgePlan { events_before: Some(before), ..purge_before_november(store).await };
        assert_eq!(partition_names(&run_purge(store, &plan).await.dropped), expected);
    }
}

/// No partial history may start after a drop.
pub(crate) async fn late_event_of_dropped_execution_is_refused(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut run = write_ended_run(store, run_in_month(8, 1)).await;
    run_purge(store, &purge_before_november(store).await).await;
    let late = run.step_request();
    assert_eq!(append_one(store, late).await, Err(AppendError::Dropped));
    let restart = run_in_month(8, 1).start_request();
    assert_eq!(append_one(store, restart).await, Err(AppendError::Dropped));
    // Nor can another execution of that month be started.
    assert_eq!(
        append_one(store, run_in_month(8, 7).start_request()).await,
        Err(AppendError::Dropped)
    );
    assert_eq!(store.find_execution(run.id).await.unwrap(), None);
}

pub(crate) async fn unpublished_events_pin_their_month(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut run = run_in_month(8, 1);
    run.append_to(store, with_outbox_rows(run.start_request())).await.unwrap();
    let end = with_outbox_rows(run.end_request());
    run.append_to(store, end).await.unwrap();
    let publishers = EnabledPublishers { outbox: true, streams: vec![Text::from(STREAM_NAME)] };
    let plan = PurgePlan { publishers, ..purge_before_november(store).await };
    let pin_reason = |report: PurgeReport| {
        assert_eq!(report.dropped, []);
        report.skipped[0].pin_reason.clone().unwrap()
    };
    let reason = pin_reason(run_purge(store, &plan).await);
    assert_eq!(reason, PinReason::Outbox(run.id));
    let rows = claim_rows(store, "p", 10, test_time("12:00:00")).await;
    let marks = rows.iter().map(outbox_mark).collect();
    store.mark_published(marks, test_time("12:00:00")).await.unwrap();
    // The stream has no cursor yet.
    let stream = PinReason::Stream(Text::from(STREAM_NAME));
    assert_eq!(pin_reason(run_purge(store, &plan).await), stream);
    let cursor = lease_test_stream(store, "a", "12:00:00").await;
    assert_eq!(pin_reason(run_purge(store, &plan).await), stream);
    let batch = loop {
        let limit = crate::FeedLimit::MAX;
        let batch = store.read_feed(cursor.position, limit).await.unwrap();
        if batch.events.len() == 2 {
            break batch;
        }
        tokio::task::yield_now().await;
    };
    let first = CursorMove::Forward { from: cursor.position, to: batch.events[0].feed };
    assert!(move_cursor(store, &cursor, first).await);
    assert_eq!(pin_reason(run_purge(store, &plan).await), stream);
    let second = CursorMove::Forward { from: batch.events[0].feed, to: batch.next };
    assert!(move_cursor(store, &cursor, second).await);
    assert_eq!(run_purge(store, &plan).await.dropped.len(), 1);
    assert!(store.is_dropped(run.id).await.unwrap());
    // Published rows were deleted with their execution.
    assert_eq!(store.list_outbox_rows(super::outbox::all_outbox_rows()).await.unwrap(), []);
}

/// Without enabled publishers, no row pins a month. A discarded row counts as published.
pub(crate) async fn discarded_rows_do_not_pin_month(fixture: &StoreFixture) {
    let store = &*fixture.store;
    for month in [7, 8] {
        let mut run = run_in_month(month, 1);
        run.append_to(store, with_outbox_rows(run.start_request())).await.unwrap();
        let end = with_outbox_rows(run.end_request());
        run.append_to(store, end).await.unwrap();
    }
    let rows = claim_rows(store, "p", 2, test_time("12:00:00")).await;
    for row in rows {
        let failure = crate::OutboxFailure {
            max_attempts: 1,
            ..super::outbox::outbox_failure(row.outbox_id, Some(1), test_time("12:00:00"))
        };
        store.mark_failed(failure).await.unwrap();
        let discarded = store.discard_outbox_rows(vec![row.outbox_id], test_time("12:00:00"));
        assert_eq!(discarded.await.unwrap(), 1);
    }
    let with_outbox = PurgePlan {
        publishers: EnabledPublishers { outbox: true, streams: Vec::new() },
        ..purge_before_november(store).await
    };
    let report = run_purge(store, &with_outbox).await;
    assert_eq!(partition_names(&report.dropped), ["event_y2026m07"]);
    let report = run_purge(store, &purge_before_november(store).await).await;
    assert_eq!(partition_names(&report.dropped), ["event_y2026m08"]);
}

pub(crate) async fn pending_follow_up_pins_its_month(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut run = run_in_month(8, 1);
    let mut start = run.start_request();
    start.follow_ups = vec![FollowUpChange::Add {
        errand_id: Text::from("notify"),
        body: noetl_types::Json::Null,
        due_at: test_time("12:00:00"),
    }];
    run.append_to(store, start).await.unwrap();
    let end = run.end_request();
    run.append_to(store, end).await.unwrap();
    let report = run_purge(store, &purge_before_november(store).await).await;
    assert_eq!(report.skipped[0].pin_reason, Some(PinReason::PendingFollowUp(run.id)));
    let outcome = crate::FollowUpOutcome::Done;
    store.complete_follow_up(run.id, &"notify".into(), outcome).await.unwrap();
    assert_eq!(run_purge(store, &purge_before_november(store).await).await.dropped.len(), 1);
}

pub(crate) async fn drop_deletes_all_rows_of_execution(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut run = run_in_month(8, 1);
    run.append_to(store, run.start_request()).await.unwrap();
    let command_id = run.issue_command(store).await;
    store.lease_commands(super::fixture::lease_request("w", 7, 1)).await.unwrap();
    let chunk = super::task_output::new_chunk(0, "x");
    let output = super::task_output::new_output(run.id, command_id, vec![chunk]);
    assert_eq!(store.append_output(output).await.unwrap(), crate::TaskOutputOutcome::Stored);
    let mut append = run.step_request();
    append.results = vec![super::result::new_result(5, b"[1]")];
    append.timers =
        vec![crate::TimerChange::Arm { timer_id: Text::from("t"), fire_at: test_time("12:00:00") }];
    run.append_to(store, append).await.unwrap();
    store
        .set_vars(run.id, vec![super::cache_and_vars::test_var("x", noetl_types::Json::from(1))])
        .await
        .unwrap();
    let end = run.end_request();
    run.append_to(store, end).await.unwrap();
    let report = run_purge(store, &purge_before_november(store).await).await;
    assert_eq!(report.dropped.len(), 1);
    assert_eq!(store.find_command(command_id).await.unwrap(), None);
    let result_id = noetl_types::ResultId::new(5).unwrap();
    assert_eq!(store.find_result(run.id, result_id).await.unwrap(), None);
    let due = store.list_due_timers(test_time("23:00:00"), None, PageLimit::MAX).await.unwrap();
    assert_eq!(due, []);
    assert_eq!(store.list_vars(run.id, None).await.unwrap(), []);
    let stats = store.store_stats().await.unwrap();
    assert!(stats.rows.values().all(|rows| *rows == 0), "{stats:?}");
    assert_eq!(
        store.purge_dropped_executions(database_now(store).await, PageLimit::MAX).await.unwrap(),
        0
    );
}

pub(crate) async fn old_commands_and_silent_pools_are_purged(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut run = TestExecution::create_started(store, 1).await;
    let (open, closed) = (run.issue_command(store).await, run.issue_command(store).await);
    let mut append = run.step_request();
    append.commands = vec![crate::CommandChange::Close {
        command_id: closed,
        end: crate::CommandEnd::Completed,
        at: test_time("12:00:00"),
        error: None,
    }];
    run.append_to(store, append).await.unwrap();
    for (kind, name, time) in [
        (RuntimeKind::WorkerPool, "silent", "10:00:00"),
        (RuntimeKind::WorkerPool, "alive", "12:00:00"),
        (RuntimeKind::ServerApi, "a-server", "10:00:00"),
    ] {
        let number = i64::try_from(name.len()).unwrap();
        let runtime = RuntimeRegistration {
            runtime_id: noetl_types::RuntimeId::new(number).unwrap(),
            kind,
            name: Text::from(name),
            uri: None,
            detail: None,
            now: test_time(time),
        };
        store.register_runtime(runtime).await.unwrap();
    }
    let base = purge_before_november(store).await;
    let plan = |time: &str| PurgePlan {
        commands_before: Some(test_time(time)),
        runtimes_before: Some(test_time("11:00:00")),
        events_before: None,
        ..base.clone()
    };
    let at_bound = run_purge(store, &plan("12:00:00")).await;
    assert_eq!((at_bound.commands, at_bound.runtimes), (0, 1));
    let dry = PurgePlan { dry_run: true, ..plan("12:00:01") };
    assert_eq!(run_purge(store, &dry).await.commands, 1);
    assert_eq!(run_purge(store, &plan("12:00:01")).await.commands, 1);
    assert_eq!(run_purge(store, &plan("12:00:01")).await, PurgeReport::default());
    assert!(store.find_command(open).await.unwrap().is_some());
    assert_eq!(store.find_command(closed).await.unwrap(), None);
    let pools = store.list_runtimes(RuntimeKind::WorkerPool).await.unwrap();
    assert_eq!(pools.len(), 1);
    assert_eq!(store.list_runtimes(RuntimeKind::ServerApi).await.unwrap().len(), 1);
    // A purged pool has to register again.
    let silent = Text::from("silent");
    let heartbeat = store.record_heartbeat(RuntimeKind::WorkerPool, &silent, test_time("12:00:00"));
    assert!(!heartbeat.await.unwrap());
}

/// A late result of a purged command is fenced.
pub(crate) async fn purged_command_accepts_no_result(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut run = TestExecution::create_started(store, 1).await;
    let command_id = run.issue_command(store).await;
    let fence = crate::Fence {
        command_id,
        attempt: 1,
        condition: crate::LeaseCondition::Worker(super::fixture::worker_id("w")),
    };
    store.lease_commands(super::fixture::lease_request("w", 1, 1)).await.unwrap();
    let mut append = run.step_request();
    append.commands = vec![crate::CommandChange::Close {
        command_id,
        end: crate::CommandEnd::Completed,
        at: test_time("12:00:00"),
        error: None,
    }];
    run.append_to(store, append).await.unwrap();
    let purged = store.purge_commands(test_time("13:00:00"), PageLimit::MAX).await;
    assert_eq!(purged.unwrap(), 1);
    let mut late = run.step_request();
    late.fences = vec![fence];
    let result = append_one(store, late).await;
    assert_eq!(result, Err(AppendError::Fenced { command_id }));
}

/// Executions that start and end during a drop are either kept or dropped as a whole.
pub(crate) async fn runs_racing_a_drop_are_kept_or_dropped_whole(fixture: &StoreFixture) {
    for number in 0..20 {
        write_ended_run(&*fixture.store, run_in_month(8, number)).await;
    }
    let mut tasks = JoinSet::new();
    for number in 100..108 {
        let store = Arc::clone(&fixture.store);
        tasks.spawn(async move {
            let mut run = run_in_month(8, number);
            let started = run.append_to(&*store, run.start_request()).await;
            if let Err(error) = started {
                assert_eq!(error, AppendError::Dropped);
                return run;
            }
            // A started execution also ends, because a live one pins its month.
            loop {
                let end = run.end_request();
                match run.append_to(&*store, end).await {
                    Ok(_) => return run,
                    Err(AppendError::Conflict { .. }) => tokio::task::yield_now().await,
                    Err(error) => panic!("{error:?}"),
                }
            }
        });
        let store = Arc::clone(&fixture.store);
        tasks.spawn(async move {
            let plan = purge_before_november(&*store).await;
            purge_old_data(&*store, &plan, &()).await.unwrap();
            run_in_month(8, number)
        });
    }
    let runs = tasks.join_all().await;
    let store = &*fixture.store;
    // All executions of that month have ended, so one more purge drops the rest.
    let last = run_purge(store, &purge_before_november(store).await).await;
    assert!(last.skipped.is_empty(), "{last:?}");
    for run in runs {
        assert!(store.is_dropped(run.id).await.unwrap());
        assert_eq!(store.find_execution(run.id).await.unwrap(), None);
        let page = crate::LogPageLimit::MAX;
        let log = store.read_events(run.id, noetl_types::ExecutionVersion::EMPTY, page).await;
        assert_eq!(log.unwrap(), []);
    }
}

pub(crate) async fn intact_logs_pass_verification(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut run = TestExecution::create_started(store, 1).await;
    for _ in 0..3 {
        let append = run.step_request();
        run.append_to(store, append).await.unwrap();
    }
    let other = TestExecution::create_started(store, 2).await;
    assert_eq!(verify_log(store, run.id).await.unwrap(), None);
    assert_eq!(verify_log(store, other.id).await.unwrap(), None);
    let logged = store.list_logged_executions(None, PageLimit::MAX).await.unwrap();
    assert_eq!(logged, [run.id, other.id]);
    let logged = store.list_logged_executions(Some(run.id), PageLimit::MAX).await.unwrap();
    assert_eq!(logged, [other.id]);
    assert_eq!(store.check_integrity().await.unwrap(), Vec::<String>::new());
    let stats = store.store_stats().await.unwrap();
    assert_eq!(stats.rows.get("event"), Some(&5));
    assert_eq!(stats.rows.get("execution"), Some(&2));
    let status = store.find_execution(run.id).await.unwrap().unwrap().view.status;
    assert_eq!(status, ExecutionStatus::Running);
}

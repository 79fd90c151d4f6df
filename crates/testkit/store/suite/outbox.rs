//! The outbox: rows are appended with their events, one publisher holds each claim, and no row is
//! lost.

use std::collections::BTreeSet;
use std::sync::Arc;

use noetl_types::limits::{OutboxClaimLimit, PageLimit};
use noetl_types::{EventRecord, Json, Millis, OutboxId, Text, Timestamp, json};
use tokio::task::JoinSet;

use super::StoreFixture;
use super::fixture::{TestExecution, append_one, payload_bytes, test_time};
use crate::{
    AppendRequest, ClaimedBatch, ClaimedMessage, EnabledPublishers, FailureOutcome, LogPageLimit,
    MAX_CLAIM_BYTES, OutboxClaim, OutboxFailure, OutboxFilter, OutboxMark, OutboxRow, OutboxStatus,
    PurgePlan, Store, encode_event_body, purge_old_data,
};

/// Returns a claim with a lease of one minute.
pub(crate) fn outbox_claim(owner: &str, limit: i64, now: Timestamp) -> OutboxClaim {
    OutboxClaim {
        limit: OutboxClaimLimit::clamped(limit),
        owner: Text::from(owner),
        now,
        lease_until: now.saturating_add(Millis::from_secs(60)),
        max_attempts: 20,
    }
}

pub(crate) fn outbox_mark(row: &ClaimedMessage) -> OutboxMark {
    OutboxMark { outbox_id: row.outbox_id, attempts: Some(row.attempts) }
}

pub(crate) fn outbox_failure(
    outbox_id: OutboxId,
    attempts: Option<u32>,
    now: Timestamp,
) -> OutboxFailure {
    OutboxFailure {
        outbox_id,
        error: Text::from("no route"),
        attempts,
        max_delay: Millis::from_secs(300),
        max_attempts: 20,
        now,
    }
}

pub(crate) fn all_outbox_rows() -> OutboxFilter {
    OutboxFilter { status: None, after: None, limit: PageLimit::MAX }
}

/// Claims rows and returns those that are not dead.
pub(crate) async fn claim_rows(
    store: &dyn Store,
    owner: &str,
    limit: i64,
    now: Timestamp,
) -> Vec<ClaimedMessage> {
    let batch = store.claim_outbox(outbox_claim(owner, limit, now)).await;
    batch.unwrap().rows
}

/// Enables outbox rows for an append.
pub(crate) fn with_outbox_rows(append: AppendRequest) -> AppendRequest {
    AppendRequest { use_outbox: true, ..append }
}

/// Writes an execution with a number of events, each with an outbox row.
pub(crate) async fn create_run_with_outbox(
    store: &dyn Store,
    number: i64,
    events: usize,
) -> TestExecution {
    let mut run = TestExecution::new(number);
    run.append_to(store, with_outbox_rows(run.start_request())).await.unwrap();
    for _ in 1..events {
        let append = with_outbox_rows(run.step_request());
        run.append_to(store, append).await.unwrap();
    }
    run
}

pub(crate) async fn find_outbox_row(store: &dyn Store, outbox_id: OutboxId) -> OutboxRow {
    let rows = store.list_outbox_rows(all_outbox_rows()).await.unwrap();
    let mut found = rows.into_iter().filter(|row| row.outbox_id == outbox_id);
    found.next().unwrap()
}

pub(crate) async fn outbox_rows_are_appended_with_events(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut without_outbox = TestExecution::create_started(store, 1).await;
    let append = without_outbox.step_request();
    without_outbox.append_to(store, append).await.unwrap();
    assert_eq!(store.list_outbox_rows(all_outbox_rows()).await.unwrap(), []);

    let mut run = create_run_with_outbox(store, 2, 3).await;
    // A refused append writes no row.
    let mut stale = with_outbox_rows(run.step_request());
    stale.expected_head = crate::LogHead::START;
    append_one(store, stale).await.unwrap_err();
    let rows = store.list_outbox_rows(all_outbox_rows()).await.unwrap();
    let ids: Vec<_> = rows.iter().map(|row| row.message_id.to_string()).collect();
    let expected: Vec<_> = (1..=3).map(|seq| format!("1:{}:{seq}", run.id)).collect();
    assert_eq!(ids, expected);
    assert!(rows.is_sorted_by(|a, b| a.outbox_id < b.outbox_id));
    let first = &rows[0];
    assert_eq!(first.subject.as_deref(), Some("noetl.events.playbook.started"));
    assert_eq!(first.execution_id, Some(run.id));
    assert_eq!(first.payload_codec, "json");
    assert_eq!((first.status, first.attempts), (OutboxStatus::Pending, 0));
    assert_eq!(first.available_at, test_time("12:00:00"));

    let claimed = claim_rows(store, "a", 100, test_time("12:00:00")).await;
    let log = store
        .read_events(run.id, noetl_types::ExecutionVersion::EMPTY, LogPageLimit::MAX)
        .await
        .unwrap();
    assert_eq!(claimed.len(), 3);
    for (row, event) in claimed.iter().zip(log) {
        assert_eq!(row.event_id, event.record.event.event_id);
        // The payload equals the body in the stream.
        let payload = payload_bytes(row.payload.clone());
        assert_eq!(payload, encode_event_body(&event.record));
        let payload = json::parse(&payload).unwrap();
        assert_eq!(EventRecord::from_json(&payload).unwrap(), event.record);
        assert!(payload.get("position").is_none());
        assert!(matches!(payload.get("execution_id"), Some(Json::Int(_))));
    }
}

pub(crate) async fn outbox_claims_are_ordered_by_time_and_id(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let run = create_run_with_outbox(store, 1, 4).await;
    let now = test_time("12:00:00");
    assert_eq!(store.count_claimable_outbox_rows(test_time("11:59:59")).await.unwrap(), 0);
    assert_eq!(store.count_claimable_outbox_rows(now).await.unwrap(), 4);
    let early = outbox_claim("a", 10, test_time("11:59:59"));
    assert_eq!(store.claim_outbox(early).await.unwrap().rows, []);
    let first = claim_rows(store, "a", 2, now).await;
    let second = claim_rows(store, "b", 10, now).await;
    let message_ids = |rows: &[ClaimedMessage]| {
        let ids = rows.iter().map(|row| row.message_id.to_string());
        ids.collect::<Vec<_>>()
    };
    let id = |seq| format!("1:{}:{seq}", run.id);
    assert_eq!(message_ids(&first), [id(1), id(2)]);
    assert_eq!(message_ids(&second), [id(3), id(4)]);
    assert!(first.iter().chain(&second).all(|row| row.attempts == 1));
    assert_eq!(store.count_claimable_outbox_rows(now).await.unwrap(), 0);

    // Both fail for a second, then one of them again for two: the time takes precedence over the
    // id.
    for row in &first {
        let failure = outbox_failure(row.outbox_id, Some(0), now);
        let outcome = store.mark_failed(failure).await.unwrap();
        let delay = Millis::from_secs(1);
        assert_eq!(outcome, Some(FailureOutcome::Retry { delay }));
    }
    let later = now.saturating_add(Millis::from_secs(1));
    let reclaimed = claim_rows(store, "c", 1, later).await;
    assert_eq!(message_ids(&reclaimed), [id(1)]);
    let delay =
        store.mark_failed(outbox_failure(reclaimed[0].outbox_id, Some(2), later)).await.unwrap();
    assert_eq!(delay, Some(FailureOutcome::Retry { delay: Millis::from_secs(2) }));
    let last = now.saturating_add(Millis::from_secs(30));
    let reclaimed = claim_rows(store, "c", 10, last).await;
    assert_eq!(message_ids(&reclaimed), [id(2), id(1)]);
    assert_eq!((reclaimed[0].attempts, reclaimed[1].attempts), (2, 3));
}

/// Rows of a dead publisher are pending again when their lease expires, and another publisher
/// claims them.
pub(crate) async fn rows_of_dead_publisher_are_reclaimed(fixture: &StoreFixture) {
    let store = &*fixture.store;
    create_run_with_outbox(store, 1, 2).await;
    let now = test_time("12:00:00");
    let first = claim_rows(store, "dead", 10, now).await;
    assert_eq!(first.len(), 2);
    let just_before = test_time("12:00:59.999");
    assert_eq!(store.count_claimable_outbox_rows(just_before).await.unwrap(), 0);
    let early = store.claim_outbox(outbox_claim("b", 10, just_before)).await;
    assert_eq!(early.unwrap().rows, []);
    let expiry = test_time("12:01:00");
    assert_eq!(store.count_claimable_outbox_rows(expiry).await.unwrap(), 2);
    let second = claim_rows(store, "b", 10, expiry).await;
    let ids = |rows: &[ClaimedMessage]| rows.iter().map(|it| it.outbox_id).collect::<Vec<_>>();
    assert_eq!(ids(&second), ids(&first));
    assert!(second.iter().all(|row| row.attempts == 2));
    // The dead publisher returns, and its marks are fenced.
    let marks: Vec<_> = first.iter().map(outbox_mark).collect();
    assert_eq!(store.mark_published(marks, expiry).await.unwrap(), 0);
    let marks: Vec<_> = second.iter().map(outbox_mark).collect();
    assert_eq!(store.mark_published(marks, expiry).await.unwrap(), 2);
    assert_eq!(store.count_claimable_outbox_rows(test_time("23:00:00")).await.unwrap(), 0);
}

/// Only a claimed row can be marked, and only once.
pub(crate) async fn only_claimed_rows_can_be_marked(fixture: &StoreFixture) {
    let store = &*fixture.store;
    create_run_with_outbox(store, 1, 1).await;
    let now = test_time("12:00:00");
    let id = store.list_outbox_rows(all_outbox_rows()).await.unwrap()[0].outbox_id;
    let unfenced = || vec![OutboxMark { outbox_id: id, attempts: None }];
    assert_eq!(store.mark_published(unfenced(), now).await.unwrap(), 0);
    assert_eq!(store.mark_failed(outbox_failure(id, None, now)).await.unwrap(), None);
    store.claim_outbox(outbox_claim("a", 1, now)).await.unwrap();
    assert_eq!(store.mark_published(unfenced(), now).await.unwrap(), 1);
    let published = find_outbox_row(store, id).await;
    assert_eq!(published.published_at, Some(now));
    assert_eq!(store.mark_published(unfenced(), test_time("13:00:00")).await.unwrap(), 0);
    assert_eq!(find_outbox_row(store, id).await, published);
    // No marks, and a mark of an unknown row.
    assert_eq!(store.mark_published(Vec::new(), now).await.unwrap(), 0);
    let missing = OutboxId::new(1_000_000).unwrap();
    assert_eq!(store.mark_failed(outbox_failure(missing, None, now)).await.unwrap(), None);
}

/// A late mark of a publisher that lost the row changes nothing, whether it reports success or
/// failure.
pub(crate) async fn late_mark_is_fenced_by_attempt(fixture: &StoreFixture) {
    let store = &*fixture.store;
    create_run_with_outbox(store, 1, 1).await;
    let now = test_time("12:00:00");
    let a = claim_rows(store, "a", 1, now).await.remove(0);
    let expiry = test_time("12:01:00");
    let b = claim_rows(store, "b", 1, expiry).await.remove(0);
    assert_eq!((a.attempts, b.attempts), (1, 2));
    let late = outbox_failure(a.outbox_id, Some(1), expiry);
    assert_eq!(store.mark_failed(late.clone()).await.unwrap(), None);
    assert_eq!(store.mark_published(vec![outbox_mark(&a)], expiry).await.unwrap(), 0);
    assert_eq!(store.mark_published(vec![outbox_mark(&b)], expiry).await.unwrap(), 1);
    // A published row is never reopened, fenced or not.
    let published = find_outbox_row(store, a.outbox_id).await;
    for attempts in [Some(1), Some(2), Some(0), None] {
        let late_failure = outbox_failure(a.outbox_id, attempts, test_time("12:05:00"));
        assert_eq!(store.mark_failed(late_failure).await.unwrap(), None);
    }
    assert_eq!(find_outbox_row(store, a.outbox_id).await, published);
}

/// A row that cannot be published does not block others, becomes dead, and is left to an operator.
pub(crate) async fn poison_row_becomes_dead_until_requeued(fixture: &StoreFixture) {
    let store = &*fixture.store;
    create_run_with_outbox(store, 1, 2).await;
    let mut now = test_time("12:00:00");
    let ids: Vec<_> = store.list_outbox_rows(all_outbox_rows()).await.unwrap();
    let ids: Vec<_> = ids.iter().map(|row| row.outbox_id).collect();
    for attempt in 1..=3 {
        let rows = claim_rows(store, "a", 10, now).await;
        assert_eq!(rows.len(), 2);
        for row in rows {
            let failure = OutboxFailure {
                max_attempts: 3,
                ..outbox_failure(row.outbox_id, Some(row.attempts), now)
            };
            let outcome = store.mark_failed(failure).await.unwrap().unwrap();
            assert_eq!(outcome == FailureOutcome::Dead, attempt == 3);
        }
        now = now.saturating_add(Millis::from_secs(10));
    }
    let later = test_time("23:00:00");
    assert_eq!(store.count_claimable_outbox_rows(later).await.unwrap(), 0);
    assert_eq!(claim_rows(store, "a", 10, later).await, []);
    let dead = OutboxFilter { status: Some(OutboxStatus::Dead), ..all_outbox_rows() };
    let listed = store.list_outbox_rows(dead).await.unwrap();
    assert_eq!(listed.len(), 2);
    assert_eq!(listed[0].last_error.as_deref(), Some("no route"));
    let next_page = OutboxFilter { after: Some(ids[0]), ..dead };
    assert_eq!(store.list_outbox_rows(next_page).await.unwrap().len(), 1);

    assert!(store.outbox_stats().await.unwrap().has_dead);
    let newest = find_outbox_row(store, ids[1]).await.created_at;
    assert_eq!(store.newest_outbox_row_at().await.unwrap(), Some(newest));

    // One row is discarded, one is requeued. Fences used before stay used.
    assert_eq!(store.discard_outbox_rows(vec![ids[0]], now).await.unwrap(), 1);
    assert_eq!(store.discard_outbox_rows(vec![ids[0]], now).await.unwrap(), 0);
    assert_eq!(store.requeue_outbox_rows(ids.clone(), now).await.unwrap(), 1);
    let row = find_outbox_row(store, ids[0]).await;
    assert!(row.status == OutboxStatus::Published || row.discarded_at.is_some());
    let stats = store.outbox_stats().await.unwrap();
    assert!(!stats.has_dead, "{stats:?}");
    assert_eq!(stats.rows.get(&OutboxStatus::Dead), Some(&1));
    assert_eq!(stats.rows.get(&OutboxStatus::Pending), Some(&1));
    assert_eq!(stats.oldest_unpublished, Some(test_time("12:00:00")));
    let reclaimed = claim_rows(store, "a", 10, now).await;
    assert_eq!(reclaimed.len(), 1);
    assert_eq!((reclaimed[0].outbox_id, reclaimed[0].attempts), (ids[1], 4));
    let failure = OutboxFailure { max_attempts: 3, ..outbox_failure(ids[1], Some(4), now) };
    let outcome = store.mark_failed(failure).await.unwrap();
    assert_eq!(outcome, Some(FailureOutcome::Retry { delay: Millis::from_secs(8) }));
}

/// A row that crashes its publishers is never marked. It becomes dead as well.
pub(crate) async fn row_that_kills_publishers_becomes_dead(fixture: &StoreFixture) {
    let store = &*fixture.store;
    create_run_with_outbox(store, 1, 1).await;
    let mut now = test_time("12:00:00");
    for _ in 0..3 {
        let request = OutboxClaim { max_attempts: 3, ..outbox_claim("a", 1, now) };
        assert_eq!(store.claim_outbox(request).await.unwrap().rows.len(), 1);
        now = now.saturating_add(Millis::from_secs(60));
    }
    let request = OutboxClaim { max_attempts: 3, ..outbox_claim("a", 1, now) };
    let batch = store.claim_outbox(request.clone()).await.unwrap();
    let rows = store.list_outbox_rows(all_outbox_rows()).await.unwrap();
    assert_eq!(rows[0].status, OutboxStatus::Dead);
    assert_eq!(rows[0].dead_at, Some(now));
    // The claim reports the dead row once.
    let expected = ClaimedBatch { rows: vec![], dead: vec![rows[0].outbox_id] };
    assert_eq!(batch, expected);
    assert_eq!(store.claim_outbox(request).await.unwrap(), ClaimedBatch::default());
}

pub(crate) async fn published_rows_are_purged_in_batches(fixture: &StoreFixture) {
    let store = &*fixture.store;
    create_run_with_outbox(store, 1, 5).await;
    let now = test_time("12:00:00");
    let rows = claim_rows(store, "a", 4, now).await;
    for (row, time) in rows.iter().zip(["12:00:01", "12:00:02", "12:00:03", "12:00:04"]) {
        let marked = store.mark_published(vec![outbox_mark(row)], test_time(time)).await.unwrap();
        assert_eq!(marked, 1);
    }
    let limit = PageLimit::clamped(2);
    let before = test_time("12:00:04");
    // A dry run reports the number of rows.
    let plan = PurgePlan {
        commands_before: None,
        runtimes_before: None,
        events_before: None,
        outbox_before: Some(before),
        publishers: EnabledPublishers::default(),
        now: before,
        server_time: before,
        dry_run: true,
    };
    assert_eq!(purge_old_data(store, &plan, &()).await.unwrap().outbox, 3);
    assert_eq!(store.purge_outbox_rows(before, limit).await.unwrap(), 2);
    assert_eq!(store.purge_outbox_rows(before, limit).await.unwrap(), 1);
    assert_eq!(store.purge_outbox_rows(before, limit).await.unwrap(), 0);
    let remaining = store.list_outbox_rows(all_outbox_rows()).await.unwrap();
    let remaining: Vec<_> = remaining.iter().map(|row| row.status).collect();
    assert_eq!(remaining, [OutboxStatus::Published, OutboxStatus::Pending]);
}

/// Rows that an operator discarded are purged like published ones.
pub(crate) async fn discarded_rows_are_purged(fixture: &StoreFixture) {
    let store = &*fixture.store;
    create_run_with_outbox(store, 1, 4).await;
    let now = test_time("12:00:00");
    let rows = claim_rows(store, "a", 4, now).await;
    for row in &rows[..3] {
        let failure =
            OutboxFailure { max_attempts: 1, ..outbox_failure(row.outbox_id, Some(1), now) };
        assert_eq!(store.mark_failed(failure).await.unwrap(), Some(FailureOutcome::Dead));
    }
    store.mark_published(vec![outbox_mark(&rows[3])], now).await.unwrap();
    let id = |index: usize| vec![rows[index].outbox_id];
    store.discard_outbox_rows(id(1), test_time("12:00:01")).await.unwrap();
    store.discard_outbox_rows(id(0), test_time("12:00:02")).await.unwrap();
    let limit = PageLimit::MIN;
    let remaining = async || {
        let remaining = store.list_outbox_rows(all_outbox_rows()).await.unwrap();
        remaining.iter().map(|row| row.outbox_id).collect::<Vec<_>>()
    };
    let before = test_time("12:00:02");
    assert_eq!(store.purge_outbox_rows(before, limit).await.unwrap(), 1);
    assert_eq!(remaining().await, [id(0), id(1), id(2)].concat());
    assert_eq!(store.purge_outbox_rows(before, limit).await.unwrap(), 1);
    assert_eq!(remaining().await, [id(0), id(2)].concat());
    // One row is not old enough, the other is dead and not discarded.
    assert_eq!(store.purge_outbox_rows(before, limit).await.unwrap(), 0);
    assert!(store.outbox_stats().await.unwrap().has_dead);
}

pub(crate) async fn claim_payloads_are_bounded(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut run = TestExecution::new(1);
    run.append_to(store, with_outbox_rows(run.start_request())).await.unwrap();
    let text = "x".repeat(MAX_CLAIM_BYTES / 3);
    for _ in 0..4 {
        let mut append = with_outbox_rows(run.step_request());
        append.events[0].context = Some(Json::from(text.as_str()));
        run.append_to(store, append).await.unwrap();
    }
    let mut claimed = 0;
    let mut calls = 0;
    while claimed < 5 {
        let now = test_time("12:00:00");
        let rows = claim_rows(store, "a", 10, now).await;
        let bytes: usize = rows.iter().map(|it| payload_bytes(it.payload.clone()).len()).sum();
        assert!(!rows.is_empty() && bytes <= MAX_CLAIM_BYTES, "{bytes}");
        claimed += rows.len();
        calls += 1;
        let marks = rows.iter().map(outbox_mark).collect();
        store.mark_published(marks, now).await.unwrap();
    }
    assert!(calls > 1);
}

/// Sixteen publishers, some of which stall: every row is published, and none is marked twice.
pub(crate) async fn racing_publishers_share_no_row(fixture: &StoreFixture) {
    const ROWS: usize = 192;
    for number in 0..8 {
        create_run_with_outbox(&*fixture.store, number, ROWS / 8).await;
    }
    let mut publishers = JoinSet::new();
    for number in 0..16 {
        let store = Arc::clone(&fixture.store);
        publishers.spawn(async move {
            let owner = format!("p{number}");
            let mut marked = Vec::new();
            // Time advances with each round, so the rows of stalled publishers can be claimed
            // again.
            for round in 0..40_u64 {
                let now = test_time("12:00:00").saturating_add(Millis::from_secs(round * 61));
                let request =
                    OutboxClaim { max_attempts: u32::MAX, ..outbox_claim(&owner, 7, now) };
                let rows = store.claim_outbox(request).await.unwrap().rows;
                if (round + number) % 3 == 0 {
                    continue;
                }
                for row in rows {
                    let changed = store.mark_published(vec![outbox_mark(&row)], now).await.unwrap();
                    if changed == 1 {
                        marked.push(row.outbox_id);
                    }
                }
            }
            marked
        });
    }
    let mut marked: Vec<_> = publishers.join_all().await.into_iter().flatten().collect();
    // Publishes the remaining rows of stalled publishers.
    let end = test_time("23:59:59");
    let store = &*fixture.store;
    loop {
        let request = OutboxClaim { max_attempts: u32::MAX, ..outbox_claim("last", 1000, end) };
        let rows = store.claim_outbox(request).await.unwrap().rows;
        if rows.is_empty() {
            break;
        }
        let marks: Vec<_> = rows.iter().map(outbox_mark).collect();
        let changed = store.mark_published(marks, end).await.unwrap();
        assert_eq!(usize::try_from(changed).unwrap(), rows.len());
        marked.extend(rows.iter().map(|row| row.outbox_id));
    }
    assert_eq!(marked.len(), ROWS);
    assert_eq!(marked.iter().collect::<BTreeSet<_>>().len(), ROWS);
    let stats = store.outbox_stats().await.unwrap();
    let published = u64::try_from(ROWS).unwrap();
    assert_eq!(stats.rows.get(&OutboxStatus::Published), Some(&published));
    assert_eq!(stats.oldest_unpublished, None);
}

/// Concurrent marks of the same rows in different orders do not deadlock, and each row is marked
/// once.
pub(crate) async fn concurrent_marks_do_not_deadlock(fixture: &StoreFixture) {
    const ROUNDS: i64 = 10;
    for round in 1..=ROUNDS {
        create_run_with_outbox(&*fixture.store, round, 40).await;
        let request = outbox_claim("p", 1000, test_time("12:00:00"));
        let rows = fixture.store.claim_outbox(request).await.unwrap().rows;
        let mut marks: Vec<_> = rows.iter().map(outbox_mark).collect();
        let mut tasks = JoinSet::new();
        for _ in 0..4 {
            marks.rotate_left(7);
            marks.reverse();
            let (store, marks) = (Arc::clone(&fixture.store), marks.clone());
            tasks.spawn(async move { store.mark_published(marks, test_time("12:00:01")).await });
        }
        let marked = tasks.join_all().await;
        let marked: u64 = marked.into_iter().map(Result::unwrap).sum();
        assert_eq!(usize::try_from(marked).unwrap(), rows.len());
    }
}

/// Publishers of earlier releases set no lease. Their rows are counted and claimed again.
pub(crate) async fn row_in_flight_without_lease_is_claimable(
    store: &dyn Store,
    run: impl Fn(&str),
    schema: &str,
) {
    let now = test_time("12:00:00");
    assert_eq!(claim_rows(store, "a", 10, now).await.len(), 3);
    assert_eq!(store.count_claimable_outbox_rows(now).await.unwrap(), 0);
    run(&format!("UPDATE {schema}outbox SET lease_until = NULL WHERE event_id % 2 = 0"));
    let count = store.count_claimable_outbox_rows(now).await.unwrap();
    assert!(count > 0);
    assert_eq!(claim_rows(store, "b", 10, now).await.len() as u64, count);
    assert_eq!(store.count_claimable_outbox_rows(now).await.unwrap(), 0);
}

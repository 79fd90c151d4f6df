//! The outbox: rows come with their events, one publisher has each in hand, nothing is lost.

use std::collections::BTreeSet;
use std::sync::Arc;

use noetl_types::limits::{OutboxClaimLimit, PageLimit};
use noetl_types::{EventRecord, Json, Millis, OutboxId, Text, Timestamp, json};
use tokio::task::JoinSet;

use super::Bench;
use super::fixture::{Run, at, one};
use crate::{
    Append, Claimed, ClaimedMessage, EnabledOutlets, Failed, LogPage, MAX_CLAIM_BYTES, OutboxClaim,
    OutboxFailure, OutboxFilter, OutboxMark, OutboxRow, OutboxStatus, Purge, Store, body, purge,
};

/// A publisher asks for rows, to have them for a minute.
pub(crate) fn claim(owner: &str, limit: i64, now: Timestamp) -> OutboxClaim {
    OutboxClaim {
        limit: OutboxClaimLimit::clamped(limit),
        owner: Text::from(owner),
        now,
        lease_until: now.saturating_add(Millis::from_secs(60)),
        max_attempts: 20,
    }
}

pub(crate) fn mark(row: &ClaimedMessage) -> OutboxMark {
    OutboxMark {
        outbox_id: row.outbox_id,
        attempts: Some(row.attempts),
    }
}

pub(crate) fn failure(outbox_id: OutboxId, attempts: Option<u32>, now: Timestamp) -> OutboxFailure {
    OutboxFailure {
        outbox_id,
        error: Text::from("no route"),
        attempts,
        max_delay: Millis::from_secs(300),
        max_attempts: 20,
        now,
    }
}

pub(crate) fn all() -> OutboxFilter {
    OutboxFilter {
        status: None,
        after: None,
        limit: PageLimit::MAX,
    }
}

/// An append that asks for rows.
pub(crate) fn out(append: Append) -> Append {
    Append {
        outbox: true,
        ..append
    }
}

/// A run of some events, each with its row.
pub(crate) async fn published_run(store: &dyn Store, number: i64, events: usize) -> Run {
    let mut run = Run::new(number);
    run.write(store, out(run.start())).await.unwrap();
    for _ in 1..events {
        let append = out(run.step());
        run.write(store, append).await.unwrap();
    }
    run
}

pub(crate) async fn row(store: &dyn Store, outbox_id: OutboxId) -> OutboxRow {
    let rows = store.outbox(all()).await.unwrap();
    let mut found = rows.into_iter().filter(|row| row.outbox_id == outbox_id);
    found.next().unwrap()
}

pub(crate) async fn rows_come_with_their_events(bench: &Bench) {
    let store = &*bench.store;
    let mut quiet = Run::started(store, 1).await;
    let append = quiet.step();
    quiet.write(store, append).await.unwrap();
    assert_eq!(store.outbox(all()).await.unwrap(), []);

    let mut run = published_run(store, 2, 3).await;
    // A refused append leaves no row.
    let mut stale = out(run.step());
    stale.expected = crate::Head::START;
    one(store, stale).await.unwrap_err();
    let rows = store.outbox(all()).await.unwrap();
    let ids: Vec<_> = rows.iter().map(|row| row.message_id.to_string()).collect();
    let expected: Vec<_> = (1..=3).map(|seq| format!("1:{}:{seq}", run.id)).collect();
    assert_eq!(ids, expected);
    assert!(rows.is_sorted_by(|a, b| a.outbox_id < b.outbox_id));
    let first = &rows[0];
    assert_eq!(
        first.subject.as_deref(),
        Some("noetl.events.playbook.started")
    );
    assert_eq!(first.execution_id, Some(run.id));
    assert_eq!(first.payload_codec, "json");
    assert_eq!((first.status, first.attempts), (OutboxStatus::Pending, 0));
    assert_eq!(first.available_at, at("12:00:00"));

    let claimed = store
        .claim_outbox(claim("a", 100, at("12:00:00")))
        .await
        .unwrap()
        .rows;
    let log = store
        .events(run.id, noetl_types::Version::EMPTY, LogPage::MAX)
        .await
        .unwrap();
    assert_eq!(claimed.len(), 3);
    for (row, event) in claimed.iter().zip(log) {
        assert_eq!(row.event_id, event.record.event.event_id);
        // The very body that the stream carries.
        let payload = row.payload.clone().into_canonical();
        assert_eq!(payload, body(&event.record));
        let payload = json::parse(&payload).unwrap();
        assert_eq!(EventRecord::from_json(&payload).unwrap(), event.record);
        assert!(payload.get("position").is_none());
        assert!(matches!(payload.get("execution_id"), Some(Json::Int(_))));
    }
}

/// Hole O6.
pub(crate) async fn claims_go_by_time_and_number(bench: &Bench) {
    let store = &*bench.store;
    let run = published_run(store, 1, 4).await;
    let now = at("12:00:00");
    assert_eq!(store.outbox_pending(at("11:59:59")).await.unwrap(), 0);
    assert_eq!(store.outbox_pending(now).await.unwrap(), 4);
    let early = claim("a", 10, at("11:59:59"));
    assert_eq!(store.claim_outbox(early).await.unwrap().rows, []);
    let first = store.claim_outbox(claim("a", 2, now)).await.unwrap().rows;
    let second = store.claim_outbox(claim("b", 10, now)).await.unwrap().rows;
    let seqs = |rows: &[ClaimedMessage]| {
        let ids = rows.iter().map(|row| row.message_id.to_string());
        ids.collect::<Vec<_>>()
    };
    let id = |seq| format!("1:{}:{seq}", run.id);
    assert_eq!(seqs(&first), [id(1), id(2)]);
    assert_eq!(seqs(&second), [id(3), id(4)]);
    assert!(first.iter().chain(&second).all(|row| row.attempts == 1));
    assert_eq!(store.outbox_pending(now).await.unwrap(), 0);

    // Both fail for a second; one of them then again, for two: time goes before number.
    for row in &first {
        let failed = failure(row.outbox_id, Some(0), now);
        let outcome = store.mark_failed(failed).await.unwrap();
        let delay = Millis::from_secs(1);
        assert_eq!(outcome, Some(Failed::Retry { delay }));
    }
    let later = now.saturating_add(Millis::from_secs(1));
    let again = store.claim_outbox(claim("c", 1, later)).await.unwrap().rows;
    assert_eq!(seqs(&again), [id(1)]);
    let delay = store
        .mark_failed(failure(again[0].outbox_id, Some(2), later))
        .await
        .unwrap();
    assert_eq!(
        delay,
        Some(Failed::Retry {
            delay: Millis::from_secs(2)
        })
    );
    let last = now.saturating_add(Millis::from_secs(30));
    let again = store.claim_outbox(claim("c", 10, last)).await.unwrap().rows;
    assert_eq!(seqs(&again), [id(2), id(1)]);
    assert_eq!((again[0].attempts, again[1].attempts), (2, 3));
}

/// A publisher that died has its rows taken over, and is counted meanwhile.
pub(crate) async fn o1_o2_rows_of_a_dead_publisher_come_back(bench: &Bench) {
    let store = &*bench.store;
    published_run(store, 1, 2).await;
    let now = at("12:00:00");
    let lost = store
        .claim_outbox(claim("dead", 10, now))
        .await
        .unwrap()
        .rows;
    assert_eq!(lost.len(), 2);
    let just_before = at("12:00:59.999");
    assert_eq!(store.outbox_pending(just_before).await.unwrap(), 0);
    let none = store.claim_outbox(claim("b", 10, just_before)).await;
    assert_eq!(none.unwrap().rows, []);
    let over = at("12:01:00");
    assert_eq!(store.outbox_pending(over).await.unwrap(), 2);
    let found = store.claim_outbox(claim("b", 10, over)).await.unwrap().rows;
    let ids = |rows: &[ClaimedMessage]| rows.iter().map(|it| it.outbox_id).collect::<Vec<_>>();
    assert_eq!(ids(&found), ids(&lost));
    assert!(found.iter().all(|row| row.attempts == 2));
    // The dead one wakes up: its fence has lost.
    let marks: Vec<_> = lost.iter().map(mark).collect();
    assert_eq!(store.mark_published(marks, over).await.unwrap(), 0);
    let marks: Vec<_> = found.iter().map(mark).collect();
    assert_eq!(store.mark_published(marks, over).await.unwrap(), 2);
    assert_eq!(store.outbox_pending(at("23:00:00")).await.unwrap(), 0);
}

/// Only a row in hand can be marked, and only once.
pub(crate) async fn o3_o5_only_a_row_in_hand_is_marked(bench: &Bench) {
    let store = &*bench.store;
    published_run(store, 1, 1).await;
    let now = at("12:00:00");
    let id = store.outbox(all()).await.unwrap()[0].outbox_id;
    let unfenced = || {
        vec![OutboxMark {
            outbox_id: id,
            attempts: None,
        }]
    };
    assert_eq!(store.mark_published(unfenced(), now).await.unwrap(), 0);
    assert_eq!(
        store.mark_failed(failure(id, None, now)).await.unwrap(),
        None
    );
    store.claim_outbox(claim("a", 1, now)).await.unwrap();
    assert_eq!(store.mark_published(unfenced(), now).await.unwrap(), 1);
    let done = row(store, id).await;
    assert_eq!(done.published_at, Some(now));
    assert_eq!(
        store
            .mark_published(unfenced(), at("13:00:00"))
            .await
            .unwrap(),
        0
    );
    assert_eq!(row(store, id).await, done);
    // Of nothing, and of a row that is not there.
    assert_eq!(store.mark_published(Vec::new(), now).await.unwrap(), 0);
    let missing = OutboxId::new(1_000_000).unwrap();
    assert_eq!(
        store
            .mark_failed(failure(missing, None, now))
            .await
            .unwrap(),
        None
    );
}

/// A late word of a publisher that lost the row changes nothing, whichever it is.
pub(crate) async fn o4_a_late_word_changes_nothing(bench: &Bench) {
    let store = &*bench.store;
    published_run(store, 1, 1).await;
    let now = at("12:00:00");
    let a = store
        .claim_outbox(claim("a", 1, now))
        .await
        .unwrap()
        .rows
        .remove(0);
    let over = at("12:01:00");
    let b = store
        .claim_outbox(claim("b", 1, over))
        .await
        .unwrap()
        .rows
        .remove(0);
    assert_eq!((a.attempts, b.attempts), (1, 2));
    let late = failure(a.outbox_id, Some(1), over);
    assert_eq!(store.mark_failed(late.clone()).await.unwrap(), None);
    assert_eq!(store.mark_published(vec![mark(&a)], over).await.unwrap(), 0);
    assert_eq!(store.mark_published(vec![mark(&b)], over).await.unwrap(), 1);
    // Nobody re-opens what is published, fenced or not.
    let published = row(store, a.outbox_id).await;
    for attempts in [Some(1), Some(2), Some(0), None] {
        let word = failure(a.outbox_id, attempts, at("12:05:00"));
        assert_eq!(store.mark_failed(word).await.unwrap(), None);
    }
    assert_eq!(row(store, a.outbox_id).await, published);
}

/// A row that cannot be published makes way for others, dies, and is an operator's business.
pub(crate) async fn o7_a_poison_row_dies_and_is_settled_by_hand(bench: &Bench) {
    let store = &*bench.store;
    published_run(store, 1, 2).await;
    let mut now = at("12:00:00");
    let ids: Vec<_> = store.outbox(all()).await.unwrap();
    let ids: Vec<_> = ids.iter().map(|row| row.outbox_id).collect();
    for attempt in 1..=3 {
        let rows = store.claim_outbox(claim("a", 10, now)).await.unwrap().rows;
        assert_eq!(rows.len(), 2);
        for row in rows {
            let failed = OutboxFailure {
                max_attempts: 3,
                ..failure(row.outbox_id, Some(row.attempts), now)
            };
            let outcome = store.mark_failed(failed).await.unwrap().unwrap();
            assert_eq!(outcome == Failed::Dead, attempt == 3);
        }
        now = now.saturating_add(Millis::from_secs(10));
    }
    let far = at("23:00:00");
    assert_eq!(store.outbox_pending(far).await.unwrap(), 0);
    assert_eq!(
        store.claim_outbox(claim("a", 10, far)).await.unwrap().rows,
        []
    );
    let dead = OutboxFilter {
        status: Some(OutboxStatus::Dead),
        ..all()
    };
    let listed = store.outbox(dead).await.unwrap();
    assert_eq!(listed.len(), 2);
    assert_eq!(listed[0].last_error.as_deref(), Some("no route"));
    let behind = OutboxFilter {
        after: Some(ids[0]),
        ..dead
    };
    assert_eq!(store.outbox(behind).await.unwrap().len(), 1);

    assert!(store.outbox_facts().await.unwrap().has_dead);
    let newest = row(store, ids[1]).await.created_at;
    assert_eq!(store.newest_outbox().await.unwrap(), Some(newest));

    // One is given up, one is sent out again; its old fences stay used.
    assert_eq!(store.discard_outbox(vec![ids[0]], now).await.unwrap(), 1);
    assert_eq!(store.discard_outbox(vec![ids[0]], now).await.unwrap(), 0);
    assert_eq!(store.replay_outbox(ids.clone(), now).await.unwrap(), 1);
    assert!(!row(store, ids[0]).await.is_unpublished());
    let facts = store.outbox_facts().await.unwrap();
    assert!(!facts.has_dead, "{facts:?}");
    assert_eq!(facts.rows.get(&OutboxStatus::Dead), Some(&1));
    assert_eq!(facts.rows.get(&OutboxStatus::Pending), Some(&1));
    assert_eq!(facts.oldest_unpublished, Some(at("12:00:00")));
    let again = store.claim_outbox(claim("a", 10, now)).await.unwrap().rows;
    assert_eq!(again.len(), 1);
    assert_eq!((again[0].outbox_id, again[0].attempts), (ids[1], 4));
    let failed = OutboxFailure {
        max_attempts: 3,
        ..failure(ids[1], Some(4), now)
    };
    let outcome = store.mark_failed(failed).await.unwrap();
    assert_eq!(
        outcome,
        Some(Failed::Retry {
            delay: Millis::from_secs(8)
        })
    );
}

/// A row that kills whoever has it in hand is never marked; it dies all the same.
pub(crate) async fn o7_a_row_that_nobody_survives_dies(bench: &Bench) {
    let store = &*bench.store;
    published_run(store, 1, 1).await;
    let mut now = at("12:00:00");
    for _ in 0..3 {
        let asked = OutboxClaim {
            max_attempts: 3,
            ..claim("a", 1, now)
        };
        assert_eq!(store.claim_outbox(asked).await.unwrap().rows.len(), 1);
        now = now.saturating_add(Millis::from_secs(60));
    }
    let asked = OutboxClaim {
        max_attempts: 3,
        ..claim("a", 1, now)
    };
    let given = store.claim_outbox(asked.clone()).await.unwrap();
    let rows = store.outbox(all()).await.unwrap();
    assert_eq!(rows[0].status, OutboxStatus::Dead);
    assert_eq!(rows[0].dead_at, Some(now));
    // Whoever claimed is told of it, once.
    let told = Claimed {
        rows: vec![],
        dead: vec![rows[0].outbox_id],
    };
    assert_eq!(given, told);
    assert_eq!(store.claim_outbox(asked).await.unwrap(), Claimed::default());
}

pub(crate) async fn o9_published_rows_are_purged_in_batches(bench: &Bench) {
    let store = &*bench.store;
    published_run(store, 1, 5).await;
    let now = at("12:00:00");
    let rows = store.claim_outbox(claim("a", 4, now)).await.unwrap().rows;
    for (row, time) in rows
        .iter()
        .zip(["12:00:01", "12:00:02", "12:00:03", "12:00:04"])
    {
        let marked = store
            .mark_published(vec![mark(row)], at(time))
            .await
            .unwrap();
        assert_eq!(marked, 1);
    }
    let limit = PageLimit::clamped(2);
    let before = at("12:00:04");
    // Who only asks is told how many would go.
    let asked = Purge {
        commands_before: None,
        runtimes_before: None,
        events_before: None,
        outbox_before: Some(before),
        outlets: EnabledOutlets::default(),
        now: before,
        dry_run: true,
    };
    assert_eq!(purge(store, &asked).await.unwrap().outbox, 3);
    assert_eq!(store.purge_outbox(before, limit).await.unwrap(), 2);
    assert_eq!(store.purge_outbox(before, limit).await.unwrap(), 1);
    assert_eq!(store.purge_outbox(before, limit).await.unwrap(), 0);
    let left = store.outbox(all()).await.unwrap();
    let left: Vec<_> = left.iter().map(|row| row.status).collect();
    assert_eq!(left, [OutboxStatus::Published, OutboxStatus::Pending]);
}

/// Rows that an operator gave up are as good as published, also for who clears up.
pub(crate) async fn rows_that_were_given_up_are_purged(bench: &Bench) {
    let store = &*bench.store;
    published_run(store, 1, 4).await;
    let now = at("12:00:00");
    let rows = store.claim_outbox(claim("a", 4, now)).await.unwrap().rows;
    for row in &rows[..3] {
        let failed = OutboxFailure {
            max_attempts: 1,
            ..failure(row.outbox_id, Some(1), now)
        };
        assert_eq!(store.mark_failed(failed).await.unwrap(), Some(Failed::Dead));
    }
    store
        .mark_published(vec![mark(&rows[3])], now)
        .await
        .unwrap();
    let id = |place: usize| vec![rows[place].outbox_id];
    store.discard_outbox(id(1), at("12:00:01")).await.unwrap();
    store.discard_outbox(id(0), at("12:00:02")).await.unwrap();
    let one = PageLimit::MIN;
    let left = async || {
        let left = store.outbox(all()).await.unwrap();
        left.iter().map(|row| row.outbox_id).collect::<Vec<_>>()
    };
    let before = at("12:00:02");
    assert_eq!(store.purge_outbox(before, one).await.unwrap(), 1);
    assert_eq!(left().await, [id(0), id(1), id(2)].concat());
    assert_eq!(store.purge_outbox(before, one).await.unwrap(), 1);
    assert_eq!(left().await, [id(0), id(2)].concat());
    // One is not old yet, of the other nobody has decided.
    assert_eq!(store.purge_outbox(before, one).await.unwrap(), 0);
    assert!(store.outbox_facts().await.unwrap().has_dead);
}

pub(crate) async fn payloads_of_a_claim_are_bounded(bench: &Bench) {
    let store = &*bench.store;
    let mut run = Run::new(1);
    run.write(store, out(run.start())).await.unwrap();
    let text = "x".repeat(MAX_CLAIM_BYTES / 3);
    for _ in 0..4 {
        let mut append = out(run.step());
        append.events[0].context = Some(Json::from(text.as_str()));
        run.write(store, append).await.unwrap();
    }
    let mut seen = 0;
    let mut calls = 0;
    while seen < 5 {
        let now = at("12:00:00");
        let rows = store.claim_outbox(claim("a", 10, now)).await.unwrap().rows;
        let bytes: usize = rows
            .iter()
            .map(|it| it.payload.clone().into_canonical().len())
            .sum();
        assert!(!rows.is_empty() && bytes <= MAX_CLAIM_BYTES, "{bytes}");
        seen += rows.len();
        calls += 1;
        let marks = rows.iter().map(mark).collect();
        store.mark_published(marks, now).await.unwrap();
    }
    assert!(calls > 1);
}

/// Sixteen publishers, some of which stall: every row is published, and none is marked by two.
pub(crate) async fn o4_racing_publishers_share_no_row(bench: &Bench) {
    const ROWS: usize = 192;
    for number in 0..8 {
        published_run(&*bench.store, number, ROWS / 8).await;
    }
    let mut publishers = JoinSet::new();
    for number in 0..16 {
        let store = Arc::clone(&bench.store);
        publishers.spawn(async move {
            let owner = format!("p{number}");
            let mut marked = Vec::new();
            // Time goes on with each round, so the rows of those that stall come back.
            for round in 0..40_u64 {
                let now = at("12:00:00").saturating_add(Millis::from_secs(round * 61));
                let asked = OutboxClaim {
                    max_attempts: u32::MAX,
                    ..claim(&owner, 7, now)
                };
                let rows = store.claim_outbox(asked).await.unwrap().rows;
                if (round + number) % 3 == 0 {
                    continue;
                }
                for row in rows {
                    let changed = store.mark_published(vec![mark(&row)], now).await.unwrap();
                    if changed == 1 {
                        marked.push(row.outbox_id);
                    }
                }
            }
            marked
        });
    }
    let mut marked: Vec<_> = publishers.join_all().await.into_iter().flatten().collect();
    // Whatever stalled last is published now.
    let end = at("23:59:59");
    let store = &*bench.store;
    loop {
        let asked = OutboxClaim {
            max_attempts: u32::MAX,
            ..claim("last", 1000, end)
        };
        let rows = store.claim_outbox(asked).await.unwrap().rows;
        if rows.is_empty() {
            break;
        }
        let marks: Vec<_> = rows.iter().map(mark).collect();
        let changed = store.mark_published(marks, end).await.unwrap();
        assert_eq!(usize::try_from(changed).unwrap(), rows.len());
        marked.extend(rows.iter().map(|row| row.outbox_id));
    }
    assert_eq!(marked.len(), ROWS);
    assert_eq!(marked.iter().collect::<BTreeSet<_>>().len(), ROWS);
    let facts = store.outbox_facts().await.unwrap();
    let published = u64::try_from(ROWS).unwrap();
    assert_eq!(facts.rows.get(&OutboxStatus::Published), Some(&published));
    assert_eq!(facts.oldest_unpublished, None);
}

/// Marks of the same rows at the same time, each in another order: nobody waits for somebody who
/// waits for him, and each row is marked once.
pub(crate) async fn marks_of_the_same_rows_wait_in_no_circle(bench: &Bench) {
    const ROUNDS: i64 = 10;
    for round in 1..=ROUNDS {
        published_run(&*bench.store, round, 40).await;
        let asked = claim("p", 1000, at("12:00:00"));
        let rows = bench.store.claim_outbox(asked).await.unwrap().rows;
        let mut marks: Vec<_> = rows.iter().map(mark).collect();
        let mut markers = JoinSet::new();
        for _ in 0..4 {
            marks.rotate_left(7);
            marks.reverse();
            let (store, marks) = (Arc::clone(&bench.store), marks.clone());
            markers.spawn(async move { store.mark_published(marks, at("12:00:01")).await });
        }
        let marked = markers.join_all().await;
        let marked: u64 = marked.into_iter().map(Result::unwrap).sum();
        assert_eq!(usize::try_from(marked).unwrap(), rows.len());
    }
}

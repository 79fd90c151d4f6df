//! Log pages, snapshots and timers.

use noetl_types::limits::PageLimit;
use noetl_types::{ExecutionId, ExecutionVersion, Text, Timestamp, sha256};

use super::StoreFixture;
use super::fixture::{TestExecution, test_time};
use crate::{AppendRequest, DueTimer, LogPageLimit, Snapshot, SnapshotKey, Store, TimerChange};

fn snapshot_key(fold_version: u32) -> SnapshotKey {
    SnapshotKey { kind: Text::from("engine_state"), fold_version }
}

pub(crate) async fn pages_through_log(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut run = TestExecution::create_started(store, 1).await;
    for _ in 0..9 {
        let append = run.step_request();
        run.append_to(store, append).await.unwrap();
    }
    let mut after = ExecutionVersion::EMPTY;
    let mut pages = Vec::new();
    loop {
        let page = store.read_events(run.id, after, LogPageLimit::clamped(4)).await.unwrap();
        let Some(last) = page.last() else { break };
        after = last.record.seq.into();
        pages.push(page.len());
    }
    assert_eq!(pages, [4, 4, 2]);
    assert_eq!(after, run.head.version);
    let unknown = TestExecution::new(9).id;
    let page = store.read_events(unknown, ExecutionVersion::EMPTY, LogPageLimit::MAX).await;
    assert_eq!(page.unwrap(), []);
}

pub(crate) async fn loads_snapshot_and_tail(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut run = TestExecution::create_started(store, 1).await;
    let mut heads = vec![run.head];
    for _ in 0..6 {
        let append = run.step_request();
        run.append_to(store, append).await.unwrap();
        heads.push(run.head);
    }
    let page = LogPageLimit::clamped(3);
    assert_eq!(
        store.load_execution(TestExecution::new(9).id, &snapshot_key(1), page).await.unwrap(),
        None
    );
    let load = async |fold_version| {
        let loaded = store.load_execution(run.id, &snapshot_key(fold_version), page).await;
        loaded.unwrap().unwrap()
    };
    let cold = load(1).await;
    assert_eq!((cold.snapshot, cold.tail.len()), (None, 3));
    assert!(cold.has_more);

    let snapshot = |index: usize, text: &str| Snapshot {
        execution_id: run.id,
        key: snapshot_key(1),
        head: heads[index],
        state: text.as_bytes().to_vec(),
        checksum: sha256(text),
    };
    let newest = snapshot(4, r#"{"n":4}"#);
    store.write_snapshot(snapshot(2, "two")).await.unwrap();
    store.write_snapshot(newest.clone()).await.unwrap();
    // A snapshot of a version is written once.
    store.write_snapshot(snapshot(4, "another")).await.unwrap();

    let loaded = load(1).await;
    assert_eq!(loaded.snapshot, Some(newest));
    let seqs: Vec<_> = loaded.tail.iter().map(|it| it.record.seq.get()).collect();
    assert_eq!(seqs, [6, 7]);
    assert!(!loaded.has_more);
    assert_eq!(loaded.execution.head, run.head);
    // Snapshots of another fold version are not used.
    let other = load(2).await;
    assert_eq!(other.snapshot, None);

    // Deleting a snapshot makes the previous one current, and allows a new one of the same version.
    let last = heads[4].version;
    for (deleted_key, version) in [
        (snapshot_key(2), last),
        (snapshot_key(1), heads[3].version),
        (snapshot_key(1), last),
        (snapshot_key(1), last),
    ] {
        store.delete_snapshot(run.id, &deleted_key, version).await.unwrap();
    }
    let find_last = async || {
        let found = store.find_snapshot(run.id, &snapshot_key(1), last).await;
        found.unwrap()
    };
    assert_eq!(find_last().await, Some(snapshot(2, "two")));
    let another = snapshot(4, "another");
    store.write_snapshot(another.clone()).await.unwrap();
    assert_eq!(find_last().await, Some(another));
}

async fn due_timers(store: &dyn Store, now: Timestamp) -> Vec<(ExecutionId, String)> {
    let limit = PageLimit::new(2).unwrap();
    let due = store.list_due_timers(now, None, limit).await.unwrap();
    assert!(due.iter().all(|timer| timer.fire_at <= now));
    due.into_iter().map(|timer| (timer.execution_id, timer.timer_id.to_string())).collect()
}

pub(crate) async fn timers_are_listed_when_due(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let arm = |name: &str, time: &str| TimerChange::Arm {
        timer_id: name.into(),
        fire_at: test_time(time),
    };
    let mut first = TestExecution::create_started(store, 1).await;
    let mut second = TestExecution::create_started(store, 2).await;
    let append = AppendRequest {
        timers: vec![arm("late", "12:03:00"), arm("soon", "12:01:00")],
        ..first.step_request()
    };
    first.append_to(store, append).await.unwrap();
    let append = AppendRequest { timers: vec![arm("soon", "12:02:00")], ..second.step_request() };
    second.append_to(store, append).await.unwrap();

    let soon = "soon".to_owned();
    assert_eq!(due_timers(store, test_time("12:00:59")).await, []);
    assert_eq!(due_timers(store, test_time("12:01:00")).await, [(first.id, soon.clone())]);
    assert_eq!(
        due_timers(store, test_time("12:10:00")).await,
        [(first.id, soon.clone()), (second.id, soon.clone())]
    );
    // One timer is disarmed, one gets another time, and disarming an unknown one has no effect.
    let append = AppendRequest {
        timers: vec![
            TimerChange::Disarm { timer_id: "soon".into() },
            TimerChange::Disarm { timer_id: "unknown".into() },
            arm("late", "12:01:30"),
        ],
        ..first.step_request()
    };
    first.append_to(store, append).await.unwrap();
    assert_eq!(
        due_timers(store, test_time("12:10:00")).await,
        [(first.id, "late".to_owned()), (second.id, soon)]
    );
}

pub(crate) async fn timers_of_paused_runs_do_not_block_others(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let timers = |names: &[&str], time: &str| {
        let arm = |name: &&str| TimerChange::Arm {
            timer_id: Text::from(*name),
            fire_at: test_time(time),
        };
        names.iter().map(arm).collect()
    };
    let mut paused = TestExecution::create_started(store, 1).await;
    let mut append =
        AppendRequest { timers: timers(&["a", "b", "c"], "12:01:00"), ..paused.step_request() };
    append.view.paused = true;
    paused.append_to(store, append).await.unwrap();
    let mut other = TestExecution::create_started(store, 2).await;
    let append =
        AppendRequest { timers: timers(&["d", "e", "f"], "12:02:00"), ..other.step_request() };
    other.append_to(store, append).await.unwrap();

    let names = |due: &[DueTimer]| -> Vec<_> {
        let name = |it: &DueTimer| it.timer_id.to_string();
        due.iter().map(name).collect()
    };
    let limit = PageLimit::new(2).unwrap();
    let now = test_time("12:10:00");
    let first = store.list_due_timers(now, None, limit).await.unwrap();
    assert_eq!(names(&first), ["d", "e"]);
    // A due timer that has not fired does not block the next page.
    let next = store.list_due_timers(now, first.last(), limit).await.unwrap();
    assert_eq!(names(&next), ["f"]);
    assert_eq!(store.list_due_timers(now, next.last(), limit).await.unwrap(), []);
    // A resumed run has its timers again.
    let append = paused.step_request();
    paused.append_to(store, append).await.unwrap();
    let first = store.list_due_timers(now, None, limit).await.unwrap();
    assert_eq!(names(&first), ["a", "b"]);
    let next = store.list_due_timers(now, first.last(), limit).await.unwrap();
    assert_eq!(names(&next), ["c", "d"]);
}

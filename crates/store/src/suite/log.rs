//! Reading a log back; snapshots; timers.

use noetl_types::limits::PageLimit;
use noetl_types::{ExecutionId, Text, Timestamp, Version, sha256};

use super::Bench;
use super::fixture::{Run, at};
use crate::{Append, DueTimer, LogPage, Snapshot, SnapshotKey, Store, TimerChange};

fn key(fold_version: u32) -> SnapshotKey {
    SnapshotKey {
        kind: Text::from("engine_state"),
        fold_version,
    }
}

pub(crate) async fn pages_of_a_log(bench: &Bench) {
    let store = &*bench.store;
    let mut run = Run::started(store, 1).await;
    for _ in 0..9 {
        let append = run.step();
        run.write(store, append).await.unwrap();
    }
    let mut after = Version::EMPTY;
    let mut pages = Vec::new();
    loop {
        let page = store
            .events(run.id, after, LogPage::clamped(4))
            .await
            .unwrap();
        let Some(last) = page.last() else { break };
        after = last.record.seq.into();
        pages.push(page.len());
    }
    assert_eq!(pages, [4, 4, 2]);
    assert_eq!(after, run.head.version);
    let unknown = Run::new(9).id;
    let page = store.events(unknown, Version::EMPTY, LogPage::MAX).await;
    assert_eq!(page.unwrap(), []);
}

pub(crate) async fn snapshot_and_tail(bench: &Bench) {
    let store = &*bench.store;
    let mut run = Run::started(store, 1).await;
    let mut heads = vec![run.head];
    for _ in 0..6 {
        let append = run.step();
        run.write(store, append).await.unwrap();
        heads.push(run.head);
    }
    let page = LogPage::clamped(3);
    assert_eq!(
        store.load(Run::new(9).id, &key(1), page).await.unwrap(),
        None
    );
    let cold = store.load(run.id, &key(1), page).await.unwrap().unwrap();
    assert_eq!((cold.snapshot, cold.tail.len()), (None, 3));
    assert!(cold.has_more);

    let snapshot = |place: usize, text: &str| Snapshot {
        execution_id: run.id,
        key: key(1),
        head: heads[place],
        state: text.as_bytes().to_vec(),
        checksum: sha256(text),
    };
    let newest = snapshot(4, r#"{"n":4}"#);
    store.write_snapshot(snapshot(2, "two")).await.unwrap();
    store.write_snapshot(newest.clone()).await.unwrap();
    // A version is written once.
    store.write_snapshot(snapshot(4, "another")).await.unwrap();

    let loaded = store.load(run.id, &key(1), page).await.unwrap().unwrap();
    assert_eq!(loaded.snapshot, Some(newest));
    let seqs: Vec<_> = loaded.tail.iter().map(|it| it.record.seq.get()).collect();
    assert_eq!(seqs, [6, 7]);
    assert!(!loaded.has_more);
    assert_eq!(loaded.execution.head, run.head);
    // What another fold made is of no use.
    let other = store.load(run.id, &key(2), page).await.unwrap().unwrap();
    assert_eq!(other.snapshot, None);

    // One that is dropped makes way for the one before it, and for another one of its version.
    let last = heads[4].version;
    for (of, version) in [
        (key(2), last),
        (key(1), heads[3].version),
        (key(1), last),
        (key(1), last),
    ] {
        store.drop_snapshot(run.id, &of, version).await.unwrap();
    }
    let found = store.snapshot(run.id, &key(1), last).await.unwrap();
    assert_eq!(found, Some(snapshot(2, "two")));
    let another = snapshot(4, "another");
    store.write_snapshot(another.clone()).await.unwrap();
    let found = store.snapshot(run.id, &key(1), last).await.unwrap();
    assert_eq!(found, Some(another));
}

async fn due(store: &dyn Store, now: Timestamp) -> Vec<(ExecutionId, String)> {
    let limit = PageLimit::new(2).unwrap();
    let due = store.due(now, None, limit).await.unwrap();
    assert!(due.iter().all(|timer| timer.fire_at <= now));
    due.into_iter()
        .map(|timer| (timer.execution_id, timer.timer_id.to_string()))
        .collect()
}

pub(crate) async fn timers_come_due(bench: &Bench) {
    let store = &*bench.store;
    let arm = |name: &str, time: &str| TimerChange::Arm {
        timer_id: name.into(),
        fire_at: at(time),
    };
    let mut first = Run::started(store, 1).await;
    let mut second = Run::started(store, 2).await;
    let append = Append {
        timers: vec![arm("late", "12:03:00"), arm("soon", "12:01:00")],
        ..first.step()
    };
    first.write(store, append).await.unwrap();
    let append = Append {
        timers: vec![arm("soon", "12:02:00")],
        ..second.step()
    };
    second.write(store, append).await.unwrap();

    let soon = "soon".to_owned();
    assert_eq!(due(store, at("12:00:59")).await, []);
    assert_eq!(due(store, at("12:01:00")).await, [(first.id, soon.clone())]);
    assert_eq!(
        due(store, at("12:10:00")).await,
        [(first.id, soon.clone()), (second.id, soon.clone())]
    );
    // One closes, one gets another time, and what is not there cannot close.
    let append = Append {
        timers: vec![
            TimerChange::Disarm {
                timer_id: "soon".into(),
            },
            TimerChange::Disarm {
                timer_id: "unknown".into(),
            },
            arm("late", "12:01:30"),
        ],
        ..first.step()
    };
    first.write(store, append).await.unwrap();
    assert_eq!(
        due(store, at("12:10:00")).await,
        [(first.id, "late".to_owned()), (second.id, soon)]
    );
}

pub(crate) async fn timers_of_paused_runs_keep_none_waiting(bench: &Bench) {
    let store = &*bench.store;
    let timers = |names: &[&str], time: &str| {
        let arm = |name: &&str| TimerChange::Arm {
            timer_id: Text::from(*name),
            fire_at: at(time),
        };
        names.iter().map(arm).collect()
    };
    let mut paused = Run::started(store, 1).await;
    let mut append = Append {
        timers: timers(&["a", "b", "c"], "12:01:00"),
        ..paused.step()
    };
    append.view.paused = true;
    paused.write(store, append).await.unwrap();
    let mut other = Run::started(store, 2).await;
    let append = Append {
        timers: timers(&["d", "e", "f"], "12:02:00"),
        ..other.step()
    };
    other.write(store, append).await.unwrap();

    let names = |due: &[DueTimer]| -> Vec<_> {
        let name = |it: &DueTimer| it.timer_id.to_string();
        due.iter().map(name).collect()
    };
    let two = PageLimit::new(2).unwrap();
    let now = at("12:10:00");
    let first = store.due(now, None, two).await.unwrap();
    assert_eq!(names(&first), ["d", "e"]);
    // One that does not fire stands in nobody's way either.
    let next = store.due(now, first.last(), two).await.unwrap();
    assert_eq!(names(&next), ["f"]);
    assert_eq!(store.due(now, next.last(), two).await.unwrap(), []);
    // Who goes on has its timers back.
    let append = paused.step();
    paused.write(store, append).await.unwrap();
    let first = store.due(now, None, two).await.unwrap();
    assert_eq!(names(&first), ["a", "b"]);
    let next = store.due(now, first.last(), two).await.unwrap();
    assert_eq!(names(&next), ["c", "d"]);
}

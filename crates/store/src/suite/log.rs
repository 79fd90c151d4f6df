//! Reading a log back; snapshots; timers.

use noetl_types::limits::PageLimit;
use noetl_types::{ExecutionId, Text, Timestamp, Version, sha256};

use super::Bench;
use super::fixture::{Run, at};
use crate::{Append, LogPage, Snapshot, SnapshotKey, Store, TimerChange};

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
}

async fn due(store: &dyn Store, now: Timestamp) -> Vec<(ExecutionId, String)> {
    let due = store.due(now, PageLimit::new(2).unwrap()).await.unwrap();
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

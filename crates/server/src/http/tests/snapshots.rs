//! Snapshots beside a log that are not what they were: nobody is stopped by one, and a good one takes its
//! place.

use std::time::Duration;

use noetl_engine::FOLD_VERSION;
use noetl_engine::replay::REPLAY_FOLD_VERSION;
use noetl_store::{Head, Snapshot, SnapshotKey, Store};
use noetl_types::{Digest, ExecutionId, Version, sha256};
use serde_json::json;

use super::House;
use super::backends::{Shelter, on_every_store};
use crate::http::settings::HttpSettings;

/// A server that leaves a snapshot wherever it may.
async fn open(shelter: &Shelter) -> House {
    let http = HttpSettings::default();
    shelter
        .house(http, |settings| settings.snapshot_every = 1)
        .await
}

fn engine_state() -> SnapshotKey {
    SnapshotKey {
        kind: "engine_state".into(),
        fold_version: FOLD_VERSION,
    }
}

fn replay_state() -> SnapshotKey {
    SnapshotKey {
        kind: "replay_state".into(),
        fold_version: REPLAY_FOLD_VERSION,
    }
}

fn version(number: i64) -> Version {
    Version::new(number).unwrap()
}

/// The newest snapshot up to a version.
async fn newest(
    store: &dyn Store,
    id: ExecutionId,
    key: &SnapshotKey,
    up_to: i64,
) -> Option<Snapshot> {
    store.snapshot(id, key, version(up_to)).await.unwrap()
}

/// Puts something in the place of the snapshot of a version.
async fn replace(
    store: &dyn Store,
    id: ExecutionId,
    key: &SnapshotKey,
    (at, state, checksum): (i64, Vec<u8>, Digest),
) {
    store.drop_snapshot(id, key, version(at)).await.unwrap();
    let head = Head {
        version: version(at),
        ..Head::START
    };
    let snapshot = Snapshot {
        execution_id: id,
        key: key.clone(),
        head,
        state,
        checksum,
    };
    store.write_snapshot(snapshot).await.unwrap();
}

async fn rejected(house: &House) -> u64 {
    let text = house.runtime.metrics_text().await.unwrap();
    let mut lines = text.lines();
    let count = lines.find_map(|line| line.strip_prefix("noetl_snapshot_rejected_total "));
    count.unwrap().parse().unwrap()
}

/// What is begun in the background is done after this.
async fn close(house: &House) {
    house.runtime.close(Duration::from_mins(1)).await;
}

#[tokio::test]
async fn a_run_goes_on_beside_a_snapshot_that_cannot_be_used() {
    on_every_store(async |shelter| {
        let house = open(shelter).await;
        let id = house.started().await.parse().unwrap();
        close(&house).await;
        let (store, key) = (&*shelter.store, engine_state());
        let end = store.execution(id).await.unwrap().unwrap().head.version;
        let good = newest(store, id, &key, end.get()).await.unwrap();
        assert!(good.head.version > version(1), "{good:?}");
        let bad = [
            (good.state.clone(), sha256("something else")),
            (b"{}".to_vec(), sha256("{}")),
            (b"no JSON".to_vec(), sha256("no JSON")),
            // Of another version than it says: what follows would not fit.
            (good.state.clone(), good.checksum),
        ];
        for (state, checksum) in bad {
            replace(store, id, &key, (1, state, checksum)).await;
            let at = good.head.version;
            store.drop_snapshot(id, &key, at).await.unwrap();
            let server = open(shelter).await;
            let run = server.runtime.state_of(id).await.unwrap();
            assert_eq!(run.unwrap().1.version(), end);
            assert_eq!(rejected(&server).await, 1);
            assert_eq!(newest(store, id, &key, 1).await, None);
            close(&server).await;
        }
        let broken = (1, good.state.clone(), sha256("something else"));
        replace(store, id, &key, broken).await;
        // Whoever works for the run notices nothing, and leaves a good one.
        let server = open(shelter).await;
        let command = server.leased().await;
        let reported = server.finish(&command, json!({ "ok": true })).await;
        assert_eq!(reported.text_at("/results/0/status"), "accepted");
        close(&server).await;
        let new = newest(store, id, &key, i64::MAX).await.unwrap();
        assert!(new.head.version > end, "{new:?}");
        assert_eq!(sha256(&new.state), new.checksum);
        let server = open(shelter).await;
        let command = server.leased().await;
        server.finish(&command, json!({ "ok": true })).await;
        let run = store.execution(id).await.unwrap().unwrap();
        assert_eq!(run.view.status.as_str(), "COMPLETED");
        assert_eq!(rejected(&server).await, 0);
    })
    .await;
}

#[tokio::test]
async fn a_replay_goes_on_from_the_one_before_and_drops_what_it_cannot_use() {
    on_every_store(async |shelter| {
        let house = open(shelter).await;
        let run = house.finished().await;
        let id: ExecutionId = run.parse().unwrap();
        let (store, key) = (&*shelter.store, replay_state());
        let path = format!("/api/replay/state?execution_id={run}");
        let early = house.get(&format!("{path}&as_of_position=4")).await;
        assert_eq!(early.status, 200, "{}", early.text);
        let whole = house.get(&path).await;
        close(&house).await;
        let end = store.execution(id).await.unwrap().unwrap().head.version;
        for (at, state) in [(end.get(), "no state"), (end.get() - 1, "{}")] {
            let broken = (at, state.as_bytes().to_vec(), sha256(state));
            replace(store, id, &key, broken).await;
        }
        let server = open(shelter).await;
        let again = server.get(&path).await;
        assert_eq!(again.at("/replay_snapshot/version"), 4, "{}", again.text);
        assert_eq!(again.at("/checksum"), whole.at("/checksum"));
        close(&server).await;
        assert_eq!(rejected(&server).await, 2);
        let healed = newest(store, id, &key, end.get()).await.unwrap();
        assert_eq!(healed.head.version, end);
        assert_eq!(sha256(&healed.state), healed.checksum);
        let before = newest(store, id, &key, end.get() - 1).await.unwrap();
        assert_eq!(before.head.version, version(4));
        let server = open(shelter).await;
        let healed = server.get(&path).await;
        assert_eq!(healed.at("/replay_snapshot/version"), end.get());
        assert_eq!(rejected(&server).await, 0);
    })
    .await;
}

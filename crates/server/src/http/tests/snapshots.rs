//! Unusable snapshots do not stop a run or a replay, and are replaced by valid ones.

use std::time::Duration;

use noetl_engine::FOLD_VERSION;
use noetl_engine::replay::REPLAY_FOLD_VERSION;
use noetl_store::{LogHead, Snapshot, SnapshotKey, Store};
use noetl_types::{Digest, ExecutionId, ExecutionVersion, sha256};
use serde_json::json;

use super::TestServer;
use super::backends::{StoreFixture, on_every_store};
use crate::access::CallContext;
use crate::http::settings::HttpSettings;

/// Starts a server that writes a snapshot whenever possible.
async fn start_snapshotting_server(fixture: &StoreFixture) -> TestServer {
    let http = HttpSettings::default();
    fixture.start_server(http, |settings| settings.snapshot_min_events = 1).await
}

fn engine_snapshot_key() -> SnapshotKey {
    SnapshotKey { kind: "engine_state".into(), fold_version: FOLD_VERSION }
}

fn replay_snapshot_key() -> SnapshotKey {
    SnapshotKey { kind: "replay_state".into(), fold_version: REPLAY_FOLD_VERSION }
}

fn version(number: i64) -> ExecutionVersion {
    ExecutionVersion::new(number).unwrap()
}

async fn newest_snapshot(
    store: &dyn Store,
    id: ExecutionId,
    key: &SnapshotKey,
    up_to: i64,
) -> Option<Snapshot> {
    store.find_snapshot(id, key, version(up_to)).await.unwrap()
}

/// Content of a snapshot, which may be invalid.
struct SnapshotContent {
    version: i64,
    state: Vec<u8>,
    checksum: Digest,
}

/// Replaces the snapshot of a version.
async fn replace_snapshot(
    store: &dyn Store,
    id: ExecutionId,
    key: &SnapshotKey,
    content: SnapshotContent,
) {
    let version = version(content.version);
    store.delete_snapshot(id, key, version).await.unwrap();
    let head = LogHead { version, ..LogHead::START };
    let snapshot = Snapshot {
        execution_id: id,
        key: key.clone(),
        head,
        state: content.state,
        checksum: content.checksum,
    };
    store.write_snapshot(snapshot).await.unwrap();
}

async fn rejected_snapshot_count(server: &TestServer) -> u64 {
    let text = server.services.system_status.render_metrics(CallContext::server()).await.unwrap();
    let mut lines = text.lines();
    let count = lines.find_map(|line| line.strip_prefix("noetl_snapshot_rejected_total "));
    count.unwrap().parse().unwrap()
}

/// Waits for all background work.
async fn close_server(server: &TestServer) {
    server.services.close(Duration::from_mins(1)).await;
}

#[tokio::test]
async fn run_continues_despite_unusable_snapshot() {
    on_every_store(async |fixture| {
        let server = start_snapshotting_server(fixture).await;
        let id = server.start_two_steps().await.parse().unwrap();
        close_server(&server).await;
        let (store, key) = (&*fixture.store, engine_snapshot_key());
        let end = store.find_execution(id).await.unwrap().unwrap().head.version;
        let good = newest_snapshot(store, id, &key, end.get()).await.unwrap();
        assert!(good.head.version > version(1), "{good:?}");
        let bad = [
            (good.state.clone(), sha256("something else")),
            (b"{}".to_vec(), sha256("{}")),
            (b"no JSON".to_vec(), sha256("no JSON")),
            // A snapshot with a wrong version: later events would not apply to it.
            (good.state.clone(), good.checksum),
        ];
        for (state, checksum) in bad {
            let content = SnapshotContent { version: 1, state, checksum };
            replace_snapshot(store, id, &key, content).await;
            let at = good.head.version;
            store.delete_snapshot(id, &key, at).await.unwrap();
            let server = start_snapshotting_server(fixture).await;
            let run = server.services.driver.load_state(id).await.unwrap();
            assert_eq!(run.unwrap().1.version(), end);
            assert_eq!(rejected_snapshot_count(&server).await, 1);
            assert_eq!(newest_snapshot(store, id, &key, 1).await, None);
            close_server(&server).await;
        }
        let broken = SnapshotContent {
            version: 1,
            state: good.state.clone(),
            checksum: sha256("something else"),
        };
        replace_snapshot(store, id, &key, broken).await;
        // Workers do not notice, and a valid snapshot is written.
        let server = start_snapshotting_server(fixture).await;
        let command = server.lease_command().await;
        let reported = server.complete_command(&command, json!({ "ok": true })).await;
        assert_eq!(reported.text_at("/results/0/status"), "accepted");
        close_server(&server).await;
        let new = newest_snapshot(store, id, &key, i64::MAX).await.unwrap();
        assert!(new.head.version > end, "{new:?}");
        assert_eq!(sha256(&new.state), new.checksum);
        let server = start_snapshotting_server(fixture).await;
        let command = server.lease_command().await;
        server.complete_command(&command, json!({ "ok": true })).await;
        let run = store.find_execution(id).await.unwrap().unwrap();
        assert_eq!(run.view.status.as_str(), "COMPLETED");
        assert_eq!(rejected_snapshot_count(&server).await, 0);
    })
    .await;
}

#[tokio::test]
async fn replay_falls_back_to_earlier_snapshot() {
    on_every_store(async |fixture| {
        let server = start_snapshotting_server(fixture).await;
        let run = server.run_two_steps().await;
        let id: ExecutionId = run.parse().unwrap();
        let (store, key) = (&*fixture.store, replay_snapshot_key());
        let path = format!("/api/replay/state?execution_id={run}");
        let early = server.get(&format!("{path}&as_of_position=4")).await;
        assert_eq!(early.status, 200, "{}", early.text);
        let whole = server.get(&path).await;
        close_server(&server).await;
        let end = store.find_execution(id).await.unwrap().unwrap().head.version;
        for (version, state) in [(end.get(), "no state"), (end.get() - 1, "{}")] {
            let broken = SnapshotContent {
                version,
                state: state.as_bytes().to_vec(),
                checksum: sha256(state),
            };
            replace_snapshot(store, id, &key, broken).await;
        }
        let server = start_snapshotting_server(fixture).await;
        let again = server.get(&path).await;
        assert_eq!(again.json_at("/replay_snapshot/version"), 4, "{}", again.text);
        assert_eq!(again.json_at("/checksum"), whole.json_at("/checksum"));
        close_server(&server).await;
        assert_eq!(rejected_snapshot_count(&server).await, 2);
        let healed = newest_snapshot(store, id, &key, end.get()).await.unwrap();
        assert_eq!(healed.head.version, end);
        assert_eq!(sha256(&healed.state), healed.checksum);
        let before = newest_snapshot(store, id, &key, end.get() - 1).await.unwrap();
        assert_eq!(before.head.version, version(4));
        let server = start_snapshotting_server(fixture).await;
        let healed = server.get(&path).await;
        assert_eq!(healed.json_at("/replay_snapshot/version"), end.get());
        assert_eq!(rejected_snapshot_count(&server).await, 0);
    })
    .await;
}

//! Allocations per event of a batch are constant, independent of the batch size.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use allocation_counter::AllocationInfo;
use noetl_api::classic::ClassicEventBatch;
use noetl_api::command::{LeaseRequest, LeasedCommand};
use noetl_api::execute::ExecuteRequest;
use noetl_server::{CallContext, ControlPlane, Settings, SystemClock};
use noetl_store::{NewCatalogEntry, SqliteStore, Store};
use noetl_types::limits::{LeaseBatchSize, MAX_EVENT_BATCH};
use noetl_types::{
    CatalogId, ExecutionId, PlaybookPath, PoolName, TenantId, Timestamp, WorkerId, sha256,
};

/// A playbook that issues as many commands at once as a batch may report.
fn wide_playbook() -> String {
    format!(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: wide }}\nworkflow:\n  - step: each\n    loop: {{ in: {MAX_EVENT_BATCH}, iterator: i, spec: {{ mode: parallel, max_in_flight: {MAX_EVENT_BATCH} }} }}\n    tool: {{ kind: noop }}\n"
    )
}

/// Starts a run and leases all its commands to one worker.
async fn start_run_with_leases() -> (ControlPlane, ExecutionId, Vec<LeasedCommand>) {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory().unwrap());
    let (path, content) = (PlaybookPath::new("wide").unwrap(), wide_playbook());
    let entry = NewCatalogEntry {
        catalog_id: CatalogId::new(1).unwrap(),
        tenant_id: TenantId::default(),
        path: path.clone(),
        kind: "playbook".into(),
        content: content.as_str().into(),
        sha256: sha256(&content),
        meta: None,
        now: Timestamp::from_unix_ms(0).unwrap(),
    };
    store.register_definition(entry).await.unwrap();
    let services = ControlPlane::open(store, Arc::new(SystemClock), Settings::default());
    let services = services.await.unwrap();
    let request = ExecuteRequest { path: Some(path), ..ExecuteRequest::default() };
    let execution_id = services
        .executions
        .start(CallContext::server(), request)
        .await
        .unwrap()
        .answer
        .execution_id;
    let mut commands = Vec::new();
    while commands.len() < MAX_EVENT_BATCH {
        let request = LeaseRequest {
            worker_id: WorkerId::new("w1").unwrap(),
            pool: PoolName::shared(),
            max: LeaseBatchSize::MAX,
            wait_ms: 0,
            kinds: None,
            lease_ms: None,
        };
        commands.extend(
            services.leases.lease_commands(CallContext::server(), request).await.unwrap().commands,
        );
    }
    (services, execution_id, commands)
}

/// Measures the allocations of a batch that reports the end of `count` commands.
fn measure_batch(count: usize) -> AllocationInfo {
    let mut tokio = tokio::runtime::Builder::new_current_thread();
    let tokio = tokio.enable_all().build().unwrap();
    let (services, execution_id, commands) = tokio.block_on(start_run_with_leases());
    let events = commands[..count].iter().map(|command| {
        let payload = serde_json::json!({ "command_id": command.command_id, "result": 1 });
        serde_json::json!({ "step": "each", "event_type": "call.done", "payload": payload })
    });
    let events: Vec<_> = events.collect();
    let batch =
        serde_json::json!({ "execution_id": execution_id, "worker_id": "w1", "events": events });
    let batch: ClassicEventBatch = serde_json::from_value(batch).unwrap();
    allocation_counter::measure(|| {
        let response =
            tokio.block_on(services.classic.ingest_events(CallContext::server(), batch)).unwrap();
        assert_eq!(response.event_ids.len(), count);
    })
}

#[test]
fn allocations_per_event_are_constant() {
    let (few, many) = (MAX_EVENT_BATCH / 10, MAX_EVENT_BATCH);
    let (short, long) = (measure_batch(few), measure_batch(many));
    let ratio = (many / few) as u64;
    let figures = format!("{few} events {short:?}, {many} events {long:?}");
    assert!(2 * long.count_total < 3 * ratio * short.count_total, "{figures}");
    assert!(2 * long.bytes_max < 3 * ratio * short.bytes_max, "{figures}");
}

use std::sync::Arc;

use noetl_api::result::ResultPutRequest;
use noetl_engine::replay::summarize_reference;
use noetl_store::SqliteStore;
use noetl_types::replay::PayloadRef;
use noetl_types::{ExecutionId, OrganizationId, TenantId};

use super::*;
use crate::clock::SystemClock;
use crate::services::ControlPlane;
use crate::settings::Settings;

#[tokio::test]
async fn resolution_stops_at_byte_limit() {
    let (store, settings) = (Arc::new(SqliteStore::in_memory().unwrap()), Settings::default());
    let services = ControlPlane::open(store, Arc::new(SystemClock), settings);
    let services = services.await.unwrap();
    let event = Json::object([
        ("execution_id", Json::from(7)),
        ("event_id", Json::from(8)),
        ("event_type", Json::from("step.enter")),
    ]);
    let events = vec![event];
    services.projection.project_test_events(events).await;
    let mut found = BTreeMap::new();
    for number in 0..5 {
        let request = ResultPutRequest {
            name: format!("part{number}").into(),
            data: Json::list((0..100).map(Json::from)),
            scope: "execution".into(),
            source_step: None,
            store: None,
            ttl: None,
            correlation: None,
            compress: None,
        };
        let put_result = services.results.put_result(
            CallContext::server(),
            ExecutionId::new(7).unwrap(),
            request,
            None,
        );
        let reference = put_result.await.unwrap().reference;
        found.insert(reference, unresolved_reference(None, "not yet"));
    }
    // Each has nearly 300 bytes.
    let deadline = Instant::now() + RESOLVE_TIMEOUT;
    let mut unread = found.clone();
    services.queries.read_references(CallContext::server(), &mut found, 400, deadline).await;
    let resolved: Vec<_> = found.values().map(|resolution| resolution.resolved).collect();
    assert_eq!(resolved, [true, true, false, false, false]);
    let first = found.values().next().unwrap();
    assert_eq!(first.row_count, Some(100));
    assert_eq!(first.value_type.as_deref(), Some("array"));
    // After the deadline nothing is read.
    let before = unread.clone();
    services
        .queries
        .read_references(CallContext::server(), &mut unread, MAX_READ_BYTES, Instant::now())
        .await;
    assert_eq!(unread, before);
}

#[tokio::test]
async fn resolution_lists_at_most_max_refs() {
    let (store, settings) = (Arc::new(SqliteStore::in_memory().unwrap()), Settings::default());
    let services = ControlPlane::open(store, Arc::new(SystemClock), settings);
    let services = services.await.unwrap();
    let id = ExecutionId::new(7).unwrap();
    let mut state = ReplayedState::new(TenantId::default(), OrganizationId::default(), id);
    for number in 0..=MAX_LISTED_REFS {
        let address = format!("noetl://execution/7/result/part/{number}");
        let reference = Json::object([("ref", Json::from(address))]);
        state.execution.payload_refs.push(PayloadRef {
            event_id: number.to_string().into(),
            summary: summarize_reference(&reference),
            reference,
        });
    }
    let (list, summary) = services.queries.resolve_payloads(CallContext::server(), &state).await;
    assert_eq!(list.len(), MAX_LISTED_REFS);
    let limit = u64::try_from(MAX_LISTED_REFS).unwrap();
    assert_eq!((summary.unique_refs, summary.total), (limit, limit + 1));
    assert!(!summary.all_resolved);
}

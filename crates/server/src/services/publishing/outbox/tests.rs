use std::sync::Arc;

use noetl_api::internal::ProjectRequest;
use noetl_store::{ProjectionScope, SqliteStore};
use noetl_types::{ExecutionId, Json, Seq, json, sha256};

use super::*;
use crate::access::CallContext;
use crate::clock::SystemClock;
use crate::services::ControlPlane;
use crate::settings::{OutboxSetting, Settings};

#[tokio::test]
async fn oversized_event_is_sent_by_reference() {
    let settings = Settings { outbox: OutboxSetting::Enabled, ..Settings::default() };
    let store = Arc::new(SqliteStore::in_memory().unwrap());
    let services = ControlPlane::open(store, Arc::new(SystemClock), settings).await.unwrap();
    let event = |number: i64, bytes: usize| {
        Json::object([
            ("execution_id", Json::from(7)),
            ("event_id", Json::from(number)),
            ("event_type", Json::from("step.enter")),
            ("context", Json::from("x".repeat(bytes))),
        ])
    };
    let events = vec![
        event(8, DEFAULT_MAX_MESSAGE_BYTES - 8 * MESSAGE_HEADER_BYTES),
        event(9, DEFAULT_MAX_MESSAGE_BYTES),
    ];
    let projected = services.projection.project_test_events(events).await;
    assert_eq!(projected.projected, 2, "{projected:?}");
    let claimed = services.publishing.claim_outbox(OutboxClaimRequest::default());
    let rows = claimed.await.unwrap().rows;
    let parse_payload = |row: &OutboxMessage| json::parse_str(row.payload.as_str()).unwrap();
    let full = parse_payload(&rows[0]);
    let full = full.get("context").and_then(Json::as_str);
    assert!(full.is_some_and(|text| text.len() > DEFAULT_MAX_MESSAGE_BYTES / 2));

    let reference = parse_payload(&rows[1]);
    let (execution_id, seq) = (ExecutionId::new(7).unwrap(), Seq::new(2).unwrap());
    let address = format!("/api/stream/events/{execution_id}/{seq}");
    assert_eq!(reference.get("ref").and_then(Json::as_str), Some(&*address));
    let fetched =
        services.publishing.streamed_event(CallContext::server(), execution_id, seq).await.unwrap();
    let digest = sha256(&fetched).to_string();
    assert_eq!(reference.get("sha256").and_then(Json::as_str), Some(&*digest));
    let bytes = reference.get("bytes").and_then(Json::as_u64);
    assert_eq!(bytes, Some(fetched.len() as u64));
    assert!(rows[1].payload.as_str().len() < MESSAGE_HEADER_BYTES);
    let name = reference.get("event_type").and_then(Json::as_str);
    assert_eq!(name, Some("step.enter"));
}

/// No publisher marked the row, so only the next claim detects that it is dead.
#[tokio::test]
async fn row_that_dies_on_claim_is_counted() {
    let settings = Settings {
        outbox: OutboxSetting::Enabled,
        outbox_max_attempts: 1,
        outbox_lease: Millis::ZERO,
        ..Settings::default()
    };
    let store = Arc::new(SqliteStore::in_memory().unwrap());
    let services = ControlPlane::open(store, Arc::new(SystemClock), settings).await.unwrap();
    let event = Json::object([("execution_id", Json::from(7)), ("event_id", Json::from(8))]);
    let events = vec![event];
    let projected = services.projection.project_events(
        CallContext::server(),
        ProjectRequest::new(events),
        ProjectionScope::ExecutionOwner,
    );
    assert_eq!(projected.await.unwrap().projected, 1);
    for (claimed, dead) in [(1, 0), (0, 1)] {
        let answer = services.publishing.claim_outbox(OutboxClaimRequest::default()).await;
        assert_eq!(answer.unwrap().claimed, claimed);
        let text = services.system_status.render_metrics(CallContext::server()).await.unwrap();
        let expected = format!("noetl_outbox_dead_total {dead}\n");
        assert!(text.contains(&expected), "{text}");
    }
}

/// The database records the use of the outbox. A server that differs changes it only if it is alone.
#[tokio::test]
async fn servers_of_one_store_agree_on_outbox() {
    let store: Arc<dyn noetl_store::Store> = Arc::new(SqliteStore::in_memory().unwrap());
    let open = async |outbox| {
        let settings = Settings { outbox, ..Settings::default() };
        ControlPlane::open(Arc::clone(&store), Arc::new(SystemClock), settings).await
    };
    let unused = open(OutboxSetting::AsInstalled).await.unwrap();
    assert!(!unused.infra.outbox);
    unused.close(std::time::Duration::from_mins(1)).await;
    let first = open(OutboxSetting::Enabled).await.unwrap();
    let differing = open(OutboxSetting::Disabled).await.err().unwrap();
    let message = differing.into_problem().detail;
    assert!(message.contains("NOETL_OUTBOX_ENABLED=true"), "{message}");
    let follower = open(OutboxSetting::AsInstalled).await.unwrap();
    assert!(first.infra.outbox && follower.infra.outbox);
    for server in [first, follower] {
        server.close(std::time::Duration::from_mins(1)).await;
    }
    let changed = open(OutboxSetting::Disabled).await;
    assert!(!changed.unwrap().infra.outbox);
}

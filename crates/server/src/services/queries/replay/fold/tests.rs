use std::sync::Arc;

use noetl_api::internal::{ProjectRequest, PurgeRequest};
use noetl_store::{ProjectionScope, SqliteStore};
use noetl_types::ErrorCode;
use noetl_types::{ExecutionId, Timestamp};

use super::*;
use crate::access::CallContext;
use crate::clock::SystemClock;
use crate::services::ControlPlane;
use crate::settings::Settings;

/// The partition is deleted between the read of the execution and the read of its log.
#[tokio::test]
async fn log_dropped_during_replay_is_not_reported_as_damaged() {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory().unwrap());
    let clock = Arc::new(SystemClock);
    let services = ControlPlane::open(Arc::clone(&store), clock, Settings::default());
    let services = services.await.unwrap();
    let created_at = Timestamp::parse("2025-03-10T00:00:00Z").unwrap();
    let id = (created_at.as_unix_ms() - 1_704_067_200_000) << 22;
    let event = |number: i64, name: &str| {
        Json::object([
            ("execution_id", Json::from(id)),
            ("event_id", Json::from(id + number)),
            ("event_type", Json::from(name)),
        ])
    };
    let events = vec![event(1, "step.enter"), event(2, "playbook.completed")];
    let projected = services.projection.project_events(
        CallContext::server(),
        ProjectRequest::new(events),
        ProjectionScope::ExecutionOwner,
    );
    assert_eq!(projected.await.unwrap().projected, 2);
    let query = ReplayQuery::new(ExecutionId::new(id).unwrap());
    let row = find_owned_execution(&*store, &query).await.unwrap();
    let read_log = || read_page(&*store, &row, ExecutionVersion::EMPTY, row.head.version);
    assert_eq!(read_log().await.unwrap().len(), 2);
    let request = PurgeRequest { event_retention_days: Some(30), ..PurgeRequest::default() };
    let purged = services.maintenance.purge_expired_data(request).await.unwrap();
    assert_eq!(purged.events_purged, 1, "{purged:?}");
    let code = read_log().await.err().and_then(|error| error.code());
    assert_eq!(code, Some(ErrorCode::RetentionDropped));
}

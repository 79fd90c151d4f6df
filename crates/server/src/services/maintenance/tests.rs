use std::sync::Arc;

use noetl_api::internal::{MarkFailedRequest, OutboxClaimRequest, OutboxIds};
use noetl_store::SqliteStore;
use noetl_store_testing::{Fault, FaultyStore, StoreMethod};
use noetl_types::Json;

use super::*;
use crate::access::CallContext;
use crate::clock::SystemClock;
use crate::services::ControlPlane;
use crate::settings::{OutboxSetting, Settings};

#[test]
fn low_headroom_degrades_and_none_fails() {
    let health = |headroom: Millis| headroom_warning(headroom).map(|warning| warning.health);
    assert_eq!(health(Millis::from_days(14)), None);
    let almost = Millis::from_ms(Millis::from_days(14).as_ms() - 1);
    assert_eq!(health(almost), Some(HealthStatus::Degraded));
    assert_eq!(health(Millis::ZERO), Some(HealthStatus::Failed));
    let warning = headroom_warning(almost).unwrap();
    assert_eq!(warning.reason, "the log has partitions for 13 more days");
}

#[tokio::test]
async fn unreadable_outbox_is_degraded() {
    let plan = |method| match method {
        StoreMethod::OutboxStats => Fault::FailBefore,
        _ => Fault::None,
    };
    let store = FaultyStore::new(SqliteStore::in_memory().unwrap(), Box::new(plan));
    let settings = Settings { outbox: OutboxSetting::Enabled, ..Settings::default() };
    let services =
        ControlPlane::open(Arc::new(store), Arc::new(SystemClock), settings).await.unwrap();
    let reported = services.maintenance.outbox_warning(services.infra.now()).await.unwrap();
    assert_eq!((reported.check_name, reported.health), ("outbox", HealthStatus::Degraded));
    // The other metrics are still rendered.
    let text = services.system_status.render_metrics(CallContext::server()).await.unwrap();
    assert!(text.contains("noetl_event_stream_lag_events 0\n"), "{text}");
    assert!(!text.contains("noetl_outbox_rows{"), "{text}");
}

#[tokio::test]
async fn dead_rows_degrade_until_discarded() {
    let settings =
        Settings { outbox: OutboxSetting::Enabled, outbox_max_attempts: 1, ..Settings::default() };
    let store = Arc::new(SqliteStore::in_memory().unwrap());
    let services = ControlPlane::open(store, Arc::new(SystemClock), settings).await.unwrap();
    let event = Json::object([
        ("execution_id", Json::from(7)),
        ("event_id", Json::from(8)),
        ("event_type", Json::from("step.enter")),
    ]);
    let events = vec![event];
    let projected = services.projection.project_test_events(events).await;
    assert_eq!(projected.projected, 1, "{projected:?}");
    let warning = async || services.maintenance.outbox_warning(services.infra.now()).await;
    assert!(warning().await.is_none());
    let claimed = services.publishing.claim_outbox(OutboxClaimRequest::default());
    let row = claimed.await.unwrap().rows.remove(0);
    let failed = MarkFailedRequest {
        outbox_id: row.outbox_id.0,
        error: "no route".into(),
        attempts: None,
        max_delay_seconds: None,
    };
    assert!(services.publishing.mark_outbox_failed(failed).await.unwrap().marked);
    let reported = warning().await.unwrap();
    assert_eq!((reported.check_name, reported.health), ("outbox", HealthStatus::Degraded));
    assert!(reported.reason.contains("noetl outbox dead"), "{reported:?}");
    let outbox_ids = vec![row.outbox_id.0];
    services.publishing.discard_outbox(OutboxIds { outbox_ids }).await.unwrap();
    assert!(warning().await.is_none());
}

use noetl_api::catalog::RegisterRequest;
use noetl_api::execute::ExecuteRequest;
use noetl_api::execution::CancelRequest;
use noetl_store::prelude::*;
use noetl_store::{QuarantinedItem, RequestKey, RequestReservation, SqliteStore};
use noetl_types::{EventId, QuarantineId, TenantId, Timestamp, sha256};

use super::*;
use crate::access::CallContext;
use crate::clock::{Clock as _, SystemClock};
use crate::services::ControlPlane;
use crate::settings::Settings;

/// Garbage collection deletes more than one page per run.
#[tokio::test]
async fn garbage_collection_deletes_all_pages() {
    let store = Arc::new(SqliteStore::in_memory().unwrap());
    let (now, page) = (SystemClock.now(), i64::from(PageLimit::MAX.get()));
    for number in 1..=2 * page + 1 {
        let reservation = RequestReservation {
            key: RequestKey {
                tenant_id: TenantId::default(),
                route: "route".into(),
                key_sha256: sha256(number.to_string()),
            },
            body_sha256: sha256(""),
            work_id: EventId::new(number).unwrap(),
            now: Timestamp::UNIX_EPOCH,
            until: Timestamp::UNIX_EPOCH,
            expires_at: Timestamp::UNIX_EPOCH,
        };
        store.reserve_request(reservation).await.unwrap();
    }
    let item = QuarantinedItem {
        quarantine_id: QuarantineId::new(1).unwrap(),
        source: "projector".into(),
        raw: "{}".into(),
        code: "bad_value".into(),
        message: "no".into(),
        created_at: Timestamp::UNIX_EPOCH,
    };
    store.quarantine_items(vec![item]).await.unwrap();
    let settings = Settings::default();
    let services = ControlPlane::open(Arc::clone(&store) as _, Arc::new(SystemClock), settings);
    services.await.unwrap().maintenance.collect_garbage().await;
    let remaining = store.delete_expired(GcTarget::Idempotency, now, PageLimit::MAX);
    assert_eq!(remaining.await.unwrap(), 0);
    let remaining = store.purge_quarantined_items(now, PageLimit::MAX);
    assert_eq!(remaining.await.unwrap(), 0);
}

/// Clock that is ahead by a number of days.
struct LaterClock(Millis);

impl crate::clock::Clock for LaterClock {
    fn now(&self) -> Timestamp {
        SystemClock.now().saturating_add(self.0)
    }
}

const NOOP_PLAYBOOK: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: noop }
workflow:
  - step: start
    tool: { kind: noop }
";

/// Commands that ended are deleted without a request. The log is kept.
#[tokio::test]
async fn ended_commands_are_deleted_after_their_retention() {
    let store = Arc::new(SqliteStore::in_memory().unwrap());
    let open = async |clock: Arc<dyn crate::clock::Clock>| {
        let settings = Settings { command_retention_days: 7, ..Settings::default() };
        ControlPlane::open(Arc::clone(&store) as _, clock, settings).await.unwrap()
    };
    let services = open(Arc::new(SystemClock)).await;
    let ctx = CallContext::server();
    let request =
        RegisterRequest { content: NOOP_PLAYBOOK.to_owned(), resource_type: None, dry_run: false };
    let registered = services.catalog.register_definition_as_admin(ctx, request).await.unwrap();
    let request = ExecuteRequest { catalog_id: registered.catalog_id, ..ExecuteRequest::default() };
    let id = services.executions.start(ctx, request).await.unwrap().answer.execution_id;
    let cancel = CancelRequest { reason: None, cascade: None, force: false };
    services.executions.cancel_execution(ctx, id, None, cancel).await.unwrap();
    services.close(Duration::from_secs(10)).await;
    for (days, remaining) in [(6, 1), (8, 0)] {
        let later = open(Arc::new(LaterClock(Millis::from_days(days)))).await;
        later.maintenance.purge_ended_commands().await;
        let plan = PurgeRequest {
            command_retention_days: Some(1),
            dry_run: true,
            ..PurgeRequest::default()
        };
        let plan = later.maintenance.purge_expired_data(plan).await.unwrap();
        assert_eq!(plan.commands_purged, remaining, "after {days} days");
        assert!(later.queries.execution_status(ctx, id).await.is_ok());
        later.close(Duration::from_secs(10)).await;
    }
}

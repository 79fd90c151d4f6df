use noetl_store::prelude::*;
use noetl_store::{QuarantinedItem, RequestKey, RequestReservation, SqliteStore};
use noetl_types::{EventId, QuarantineId, TenantId, Timestamp, sha256};

use super::*;
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

use noetl_store::SqliteStore;
use noetl_types::EventId;

use super::*;

fn time_at(seconds: i64) -> Timestamp {
    let noon = Timestamp::parse("2026-11-16T12:00:00Z").unwrap();
    noon.saturating_add(Millis::from_secs(u64::try_from(seconds).unwrap()))
}

async fn acquire_ids(store: &Arc<dyn Store>, owner: &str, now: Timestamp) -> IdAllocator {
    let leased = IdAllocator::acquire_lease(Arc::clone(store), owner.into(), None, now);
    leased.await.unwrap()
}

/// A server is suspended for longer than its lease while another one starts.
#[tokio::test]
async fn lost_machine_id_is_replaced() {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory().unwrap());
    let suspended = acquire_ids(&store, "suspended", time_at(0)).await;
    let before: EventId = suspended.mint_id(time_at(1)).unwrap();
    let machine_id = Some(suspended.lock_lease().machine_id);
    let leased =
        IdAllocator::acquire_lease(Arc::clone(&store), "other".into(), machine_id, time_at(40));
    let other = leased.await.unwrap();
    let other_id: EventId = other.mint_id(time_at(41)).unwrap();
    assert_eq!(suspended.mint_id::<EventId>(time_at(41)), Err(IdAllocationError::LeaseExpired));
    suspended.renew_lease(time_at(41)).await.unwrap();
    assert_ne!(other.lock_lease().machine_id, suspended.lock_lease().machine_id);
    let after: EventId = suspended.mint_id(time_at(41)).unwrap();
    assert!(before < after && after != other_id);
    // Both servers keep their machine ids.
    suspended.renew_lease(time_at(51)).await.unwrap();
    other.renew_lease(time_at(51)).await.unwrap();
    assert_ne!(other.lock_lease().machine_id, suspended.lock_lease().machine_id);
}

/// A server that requires one machine id waits for it.
#[tokio::test]
async fn required_machine_id_is_awaited() {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory().unwrap());
    let required_id = Some(MachineId::MIN);
    let leased =
        IdAllocator::acquire_lease(Arc::clone(&store), "suspended".into(), required_id, time_at(0));
    let suspended = leased.await.unwrap();
    let leased =
        IdAllocator::acquire_lease(Arc::clone(&store), "other".into(), required_id, time_at(40));
    let other = leased.await.unwrap();
    let refused = suspended.renew_lease(time_at(41)).await;
    assert!(matches!(refused, Err(MachineLeaseError::Taken { .. })), "{refused:?}");
    assert_eq!(suspended.mint_id::<EventId>(time_at(41)), Err(IdAllocationError::LeaseExpired));
    other.release_lease(time_at(42)).await;
    suspended.renew_lease(time_at(43)).await.unwrap();
    suspended.mint_id::<EventId>(time_at(43)).unwrap();
}

/// The clock steps ahead by 90 s and back.
#[tokio::test]
async fn clock_set_back_leads_to_fresh_machine_id() {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory().unwrap());
    let ids = acquire_ids(&store, "stepped", time_at(0)).await;
    let before: EventId = ids.mint_id(time_at(0)).unwrap();
    ids.renew_lease(time_at(90)).await.unwrap();
    let ahead: EventId = ids.mint_id(time_at(90)).unwrap();
    // Within the bound, ids are borrowed.
    let borrowed: EventId = ids.mint_id(time_at(86)).unwrap();
    assert!(before < ahead && ahead < borrowed);
    let reason = ids.check_usable(time_at(1)).unwrap_err();
    assert!(matches!(reason, IdAllocationError::Clock(ClockError::Behind { .. })), "{reason}");
    ids.renew_lease(time_at(1)).await.unwrap();
    ids.check_usable(time_at(1)).unwrap();
    let after: EventId = ids.mint_id(time_at(1)).unwrap();
    assert!(before < after && after < ahead);
    // Another server does not get the abandoned machine id while there are others.
    let other = acquire_ids(&store, "other", time_at(2)).await;
    other.check_usable(time_at(2)).unwrap();
}

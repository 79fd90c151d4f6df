use std::sync::atomic::{AtomicBool, Ordering};

use noetl_store::SqliteStore;
use noetl_store_testing::{Fault, FaultyStore, StoreMethod};
use noetl_types::WorkerId;

use super::*;
use crate::clock::SystemClock;
use crate::services::ControlPlane;
use crate::settings::Settings;

async fn lease_from_pool(services: ControlPlane, pool: &str) -> LeaseResponse {
    let request = LeaseRequest {
        worker_id: WorkerId::new("w").unwrap(),
        pool: PoolName::new(pool).unwrap(),
        max: LeaseBatchSize::clamped(8),
        wait_ms: 0,
        kinds: None,
        lease_ms: None,
    };
    services.leases.lease_commands(CallContext::server(), request).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn slow_lease_query_delays_only_its_own_pool() {
    let is_slow_query_running = Arc::new(AtomicBool::new(false));
    let has_begun = Arc::clone(&is_slow_query_running);
    let plan = move |method| match method {
        StoreMethod::LeaseCommands if !has_begun.swap(true, Ordering::SeqCst) => Fault::Hang,
        _ => Fault::None,
    };
    let store = FaultyStore::new(SqliteStore::in_memory().unwrap(), Box::new(plan));
    let opened = ControlPlane::open(Arc::new(store), Arc::new(SystemClock), Settings::default());
    let services = opened.await.unwrap();
    let slow = tokio::spawn(lease_from_pool(services.clone(), "slow"));
    while !is_slow_query_running.load(Ordering::SeqCst) {
        tokio::task::yield_now().await;
    }
    let timeout = Duration::from_secs(5);
    let same_pool = tokio::time::timeout(timeout, lease_from_pool(services.clone(), "slow"));
    assert!(same_pool.await.is_err());
    let other_pool = tokio::time::timeout(timeout, lease_from_pool(services, "shared"));
    assert_eq!(other_pool.await.unwrap().commands, []);
    slow.abort();
}

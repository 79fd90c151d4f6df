use std::sync::atomic::{AtomicUsize, Ordering};

use noetl_api::catalog::RegisterRequest;
use noetl_api::execute::ExecuteRequest;
use noetl_store::{SqliteStore, Store};
use noetl_store_testing::{Fault, FaultyStore, StoreMethod};

use super::*;
use crate::access::CallContext;
use crate::clock::SystemClock;
use crate::services::ControlPlane;
use crate::settings::Settings;

const WAITING_PLAYBOOK: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: waits, path: waits }
workflow:
  - step: wait
    tool: { kind: noop }
";

async fn open_server_with_limit(store: Arc<dyn Store>, limit: u32) -> ControlPlane {
    let settings = Settings { max_live_executions: limit, ..Settings::default() };
    let opened = ControlPlane::open(store, Arc::new(SystemClock), settings).await;
    let services = opened.unwrap();
    let request = RegisterRequest {
        content: WAITING_PLAYBOOK.to_owned(),
        resource_type: None,
        dry_run: false,
    };
    services.catalog.register_definition(CallContext::server(), request).await.unwrap();
    services
}

async fn start_execution(services: &ControlPlane) -> Result<(), Option<ErrorCode>> {
    let request =
        ExecuteRequest { path: Some("waits".parse().unwrap()), ..ExecuteRequest::default() };
    let started = services.executions.start(CallContext::server(), request).await;
    started.map(drop).map_err(|error| error.code())
}

const QUOTA_REFUSED: Result<(), Option<ErrorCode>> = Err(Some(ErrorCode::QuotaExceeded));

/// Memory store with a counter of its count queries.
fn counting_store() -> (Arc<SqliteStore>, Arc<dyn Store>, Arc<AtomicUsize>) {
    let (memory, counts) =
        (Arc::new(SqliteStore::in_memory().unwrap()), Arc::new(AtomicUsize::new(0)));
    let counter = Arc::clone(&counts);
    let fault_plan = move |method| {
        counter
            .fetch_add(usize::from(method == StoreMethod::CountLiveExecutions), Ordering::SeqCst);
        Fault::None
    };
    let store = FaultyStore::with_shared_store(Arc::clone(&memory), Box::new(fault_plan));
    (memory, Arc::new(store), counts)
}

#[tokio::test(start_paused = true)]
async fn starts_below_limit_share_one_count() {
    let (_, store, counts) = counting_store();
    let services = open_server_with_limit(store, 1000).await;
    for _ in 0..100 {
        assert_eq!(start_execution(&services).await, Ok(()));
    }
    assert_eq!(counts.load(Ordering::SeqCst), 1);
}

/// Starts of another server become visible after one second, ends immediately.
#[tokio::test(start_paused = true)]
async fn starts_of_other_servers_count_after_one_second() {
    let (memory, store, counts) = counting_store();
    let server = open_server_with_limit(store, 3).await;
    let other_server = open_server_with_limit(memory, 1000).await;
    assert_eq!(start_execution(&server).await, Ok(()));
    for _ in 0..2 {
        assert_eq!(start_execution(&other_server).await, Ok(()));
    }
    tokio::time::advance(MAX_COUNT_AGE).await;
    // This start is admitted and triggers a count.
    assert_eq!(start_execution(&server).await, Ok(()));
    while counts.load(Ordering::SeqCst) < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(start_execution(&server).await, QUOTA_REFUSED);
}

/// Concurrent starts never exceed the limit.
#[tokio::test]
async fn racing_starts_stay_below_the_limit() {
    let services = open_server_with_limit(Arc::new(SqliteStore::in_memory().unwrap()), 10).await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let services = services.clone();
        tasks.spawn(async move { start_execution(&services).await });
    }
    let results = tasks.join_all().await;
    let count = |expected| results.iter().filter(|result| **result == expected).count();
    assert_eq!((count(Ok(())), count(QUOTA_REFUSED)), (10, 90));
}

use std::sync::Arc;

use noetl_api::execution::CancelRequest;
use noetl_store::{LogPageLimit, SqliteStore, Store};
use noetl_types::{ExecutionVersion, StoredEvent};

use super::*;
use crate::clock::Clock;
use crate::services::ControlPlane;
use crate::settings::Settings;

/// Clock that always returns the same time.
struct FixedClock(Timestamp);

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        self.0
    }
}

async fn open_server_at(store: &Arc<dyn Store>, now: &str) -> ControlPlane {
    let clock = Arc::new(FixedClock(Timestamp::parse(now).unwrap()));
    let opened = ControlPlane::open(Arc::clone(store), clock, Settings::default());
    opened.await.unwrap()
}

/// Servers on one store, with the system playbooks registered.
async fn open_servers(count: usize, now: &str) -> (Arc<dyn Store>, Vec<ControlPlane>) {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory().unwrap());
    let mut servers = Vec::new();
    for _ in 0..count {
        servers.push(open_server_at(&store, now).await);
    }
    servers[0].system_playbooks.register_system_playbooks().await.unwrap();
    (store, servers)
}

async fn list_runs(services: &ControlPlane, path: &str) -> Vec<Execution> {
    let filter = ExecutionFilter {
        tenant_id: TenantId::default(),
        status: None,
        path: Some(parse_system_path(path).unwrap()),
        parent_execution_id: None,
        after: None,
        limit: PageLimit::MAX,
    };
    services.infra.store().list_executions(filter).await.unwrap().executions
}

async fn cancel_run(services: &ControlPlane, execution: &Execution) {
    let request = CancelRequest::default();
    let cancelled = services.executions.cancel_execution(
        CallContext::server(),
        execution.execution_id,
        None,
        request,
    );
    cancelled.await.unwrap();
}

/// Checks a playbook as a server without state from earlier checks.
async fn launch_without_state(services: &ControlPlane, path: &'static str) -> Result<()> {
    services.system_playbooks.launch_successor(path, &mut PlatformCheckState::default()).await
}

#[tokio::test]
async fn successors_start_despite_clock_skew() {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory().unwrap());
    let ahead = open_server_at(&store, "2026-11-05T12:10:00Z").await;
    let behind = open_server_at(&store, "2026-11-05T12:00:00Z").await;
    ahead.system_playbooks.register_system_playbooks().await.unwrap();
    launch_without_state(&ahead, PUBLISHER_PATH).await.unwrap();
    let mut state = PlatformCheckState::default();
    // Each run appears older than the first one, but still gets a successor.
    for round in 1..=MAX_SUCCESSORS + 3 {
        let found = list_runs(&behind, PUBLISHER_PATH).await;
        assert_eq!(found.len(), round);
        let mut open = found.iter().filter(|run| !run.view.status.is_terminal());
        let open = open.next().unwrap();
        cancel_run(&behind, open).await;
        // A check is not a duplicate message, so no log records one.
        let log = store.read_events(open.execution_id, ExecutionVersion::EMPTY, LogPageLimit::MAX);
        let log = log.await.unwrap();
        let is_duplicate_event = |event: &StoredEvent| {
            let name = &event.record.event.event_type;
            name.as_str().contains("deduplicated")
        };
        assert!(!log.iter().any(is_duplicate_event));
        behind.system_playbooks.launch_successor(PUBLISHER_PATH, &mut state).await.unwrap();
        // A check while a run is open changes nothing.
        launch_without_state(&ahead, PUBLISHER_PATH).await.unwrap();
    }
    // A server without state reaches the end of the chain after several checks.
    let open = |runs: Vec<Execution>| {
        let open = runs.into_iter().find(|run| !run.view.status.is_terminal());
        open.unwrap()
    };
    cancel_run(&behind, &open(list_runs(&behind, PUBLISHER_PATH).await)).await;
    let mut new_state = PlatformCheckState::default();
    for _ in 0..2 {
        ahead.system_playbooks.launch_successor(PUBLISHER_PATH, &mut new_state).await.unwrap();
    }
    assert!(ahead.system_playbooks.has_open_execution(PUBLISHER_PATH).await.unwrap());
}

#[tokio::test]
async fn concurrent_servers_start_one_run() {
    let (_store, servers) = open_servers(3, "2026-11-05T12:00:00Z").await;
    for round in 1..=3 {
        let (first, second, third) = tokio::join!(
            launch_without_state(&servers[0], PROJECTOR_PATH),
            launch_without_state(&servers[1], PROJECTOR_PATH),
            launch_without_state(&servers[2], PROJECTOR_PATH),
        );
        first.and(second).and(third).unwrap();
        // A late server starts nothing either.
        launch_without_state(&servers[2], PROJECTOR_PATH).await.unwrap();
        let runs = list_runs(&servers[0], PROJECTOR_PATH).await;
        assert_eq!(runs.len(), round);
        assert!(servers[0].system_playbooks.has_open_execution(PROJECTOR_PATH).await.unwrap());
        // The next run follows it.
        cancel_run(&servers[0], &runs[0]).await;
        assert!(!servers[1].system_playbooks.has_open_execution(PROJECTOR_PATH).await.unwrap());
    }
}

#[tokio::test]
async fn cleanup_runs_once_per_day_across_servers() {
    let (_store, servers) = open_servers(3, "2026-11-05T03:17:30Z").await;
    let (mut one, mut two) = (PlatformCheckState::default(), PlatformCheckState::default());
    let (first, second) = tokio::join!(
        servers[0].system_playbooks.start_due_playbooks(&mut one),
        servers[1].system_playbooks.start_due_playbooks(&mut two),
    );
    first.and(second).unwrap();
    let found = list_runs(&servers[0], CLEANUP_PATH).await;
    assert_eq!(found.len(), 1);
    // The run has ended when the last server checks, and when the first one restarts.
    cancel_run(&servers[0], &found[0]).await;
    for server in [&servers[2], &servers[0]] {
        let mut state = PlatformCheckState::default();
        server.system_playbooks.start_due_playbooks(&mut state).await.unwrap();
    }
    assert_eq!(list_runs(&servers[0], CLEANUP_PATH).await.len(), 1);
}

#[test]
fn cleanup_is_due_daily_at_fixed_time() {
    let due = |text: &str| {
        let due = due_cleanup_ms(Timestamp::parse(text).unwrap())?;
        Some(Timestamp::from_unix_ms(due).unwrap().to_string())
    };
    assert_eq!(due("2026-11-05T03:16:59Z"), None);
    let first = due("2026-11-05T03:17:00Z");
    assert_eq!(first.as_deref(), Some("2026-11-05T03:17:00Z"));
    assert_eq!(due("2026-11-05T03:32:00Z"), first);
    assert_eq!(due("2026-11-05T03:32:01Z"), None);
    assert_eq!(due("2026-11-05T23:59:59Z"), None);
    let next = due("2026-11-06T03:20:00Z");
    assert_eq!(next.as_deref(), Some("2026-11-06T03:17:00Z"));
}

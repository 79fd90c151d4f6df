//! Shipped system playbooks, which run on workers of pool `system`.
//!
//! Every server checks them independently. Before a server starts a run it looks for an open one.
//! The start has a dedup key that names the preceding run, or the daily firing, so that concurrent
//! servers start only one run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use noetl_api::catalog::RegisterRequest;
use noetl_api::execute::{DedupKey, ExecuteRequest, ExecuteResponse};
use noetl_messaging::nats::ConsumerSpec;
use noetl_store::{Execution, ExecutionFilter};
use noetl_types::limits::PageLimit;
use noetl_types::{
    ErrorCode, ExecutionId, ExecutionStatus, Json, PlaybookPath, TenantId, Timestamp,
};

use crate::access::CallContext;
use crate::error::{Result, RuntimeError};
use crate::services::executions::StartRequest;
use crate::services::executions::start::STATUS_DUPLICATE;
use crate::services::publishing::event_stream::STREAM;
use crate::services::{Catalog, Executions, Infrastructure, Publishing};

/// Publishes the outbox.
pub(crate) const PUBLISHER_PATH: &str = "system/outbox_publisher";
/// Advances read models along the stream.
const PROJECTOR_PATH: &str = "system/projector";
/// Purges old data.
const CLEANUP_PATH: &str = "system/scheduled_cleanup";

/// Playbooks that ship with the platform.
const SYSTEM_PLAYBOOKS: [&str; 3] = [
    include_str!("../../../../playbooks/system/outbox_publisher.yaml"),
    include_str!("../../../../playbooks/system/projector.yaml"),
    include_str!("../../../../playbooks/system/scheduled_cleanup.yaml"),
];

/// Interval between checks for due playbooks.
const PLATFORM_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Delay after a failure.
const PLATFORM_RETRY_DELAY: Duration = Duration::from_secs(5);

/// Stream consumer of the projector. A failed message is redelivered for some minutes and then
/// dropped: the server has logged each failure, and messages of an execution that is permanently
/// gone would otherwise be redelivered forever.
const PROJECTOR_CONSUMER: ConsumerSpec =
    ConsumerSpec { name: "noetl_projector", ack_wait: Duration::from_mins(1), max_deliver: 20 };

/// Dedup window in which a run has at most one successor across all servers.
const SUCCESSOR_DEDUP_SECS: i64 = 3600;

/// Maximum successors followed per check. The next check continues from there.
const MAX_SUCCESSORS: usize = 64;

/// Time of the daily cleanup: 03:17 UTC, in milliseconds of the day.
const CLEANUP_AT_MS: i64 = (3 * 60 + 17) * 60_000;
/// A firing that is late by more than this is skipped.
const CLEANUP_GRACE_MS: i64 = 15 * 60_000;
const DAY_MS: i64 = 86_400_000;

/// State that a server keeps between checks.
#[derive(Debug, Default)]
struct PlatformCheckState {
    /// The last cleanup firing that was handled.
    last_cleanup_ms: Option<i64>,
    /// Last known successor of the apparently newest run, per playbook.
    successors: BTreeMap<&'static str, KnownSuccessor>,
}

#[derive(Debug)]
struct KnownSuccessor {
    newest_id: Option<ExecutionId>,
    execution_id: ExecutionId,
}

/// Registers and starts the playbooks that ship with the platform.
pub struct SystemPlaybooks {
    pub(crate) infra: Arc<Infrastructure>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) executions: Arc<Executions>,
    pub(crate) publishing: Arc<Publishing>,
}

impl SystemPlaybooks {
    /// Registers the shipped playbooks and starts them when they are due, until shutdown.
    pub(crate) async fn start_loop(self: Arc<Self>) {
        while let Err(error) = self.register_system_playbooks().await {
            tracing::warn!(%error, "the system playbooks could not be registered; trying again");
            if !self.infra.sleep_unless_shutdown(PLATFORM_RETRY_DELAY).await {
                return;
            }
        }
        let mut state = PlatformCheckState::default();
        loop {
            let outcome = self.start_due_playbooks(&mut state).await;
            let pause =
                if outcome.is_ok() { PLATFORM_CHECK_INTERVAL } else { PLATFORM_RETRY_DELAY };
            if let Err(error) = outcome {
                tracing::warn!(%error, "a system playbook could not be started; trying again");
            }
            if !self.infra.sleep_unless_shutdown(pause).await {
                return;
            }
        }
    }

    /// Registers the shipped playbooks. Repeated registration is allowed.
    pub async fn register_system_playbooks(&self) -> Result<()> {
        for content in SYSTEM_PLAYBOOKS {
            let request = RegisterRequest {
                content: content.to_owned(),
                resource_type: None,
                dry_run: false,
            };
            self.catalog.register_definition_as_admin(CallContext::server(), request).await?;
        }
        Ok(())
    }

    async fn start_due_playbooks(&self, state: &mut PlatformCheckState) -> Result<()> {
        if self.infra.settings.outbox
            // Counting takes longer the more rows are pending, so it is the last condition.
            && !self.has_open_execution(PUBLISHER_PATH).await?
            && self.infra.store().count_claimable_outbox_rows(self.infra.now()).await? > 0
        {
            self.launch_successor(PUBLISHER_PATH, state).await?;
        }
        // A run waits for messages for some minutes, so there is always one.
        if self.publishing.is_stream_connected()
            && !self.has_open_execution(PROJECTOR_PATH).await?
            && self.ensure_projector_consumer().await?
        {
            self.launch_successor(PROJECTOR_PATH, state).await?;
        }
        self.start_due_cleanup(&mut state.last_cleanup_ms).await
    }

    async fn start_due_cleanup(&self, last_cleanup: &mut Option<i64>) -> Result<()> {
        let Some(due) = due_cleanup_ms(self.infra.now()).filter(|due| *last_cleanup != Some(*due))
        else {
            return Ok(());
        };
        if !self.has_open_execution(CLEANUP_PATH).await? {
            let days = Json::from(self.infra.settings.auto_purge_days);
            let payload = Json::object([("event_retention_days", days)]);
            let key = DedupKey {
                key: format!("{CLEANUP_PATH}:{due}").into(),
                window_secs: Some(DAY_MS / 1000),
            };
            self.launch_system_playbook(CLEANUP_PATH, Some(payload), Some(key)).await?;
        }
        *last_cleanup = Some(due);
        Ok(())
    }

    /// Creates the projector's consumer if it is missing. Returns true if the stream exists.
    async fn ensure_projector_consumer(&self) -> Result<bool> {
        let Some(messaging) = &self.publishing.messaging else {
            return Ok(false);
        };
        let ensured = messaging.link().ensure_consumer(STREAM, &PROJECTOR_CONSUMER).await;
        ensured.map_err(|error| RuntimeError::refused(ErrorCode::UpstreamFailed, error.to_string()))
    }

    async fn has_open_execution(&self, path: &str) -> Result<bool> {
        for status in [ExecutionStatus::Running, ExecutionStatus::Pending] {
            if self.newest_execution(path, Some(status)).await?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the newest execution of a shipped playbook.
    async fn newest_execution(
        &self,
        path: &str,
        status: Option<ExecutionStatus>,
    ) -> Result<Option<Execution>> {
        let filter = ExecutionFilter {
            tenant_id: TenantId::default(),
            status,
            path: Some(parse_system_path(path)?),
            parent_execution_id: None,
            after: None,
            limit: PageLimit::MIN,
        };
        let page = self.infra.store().list_executions(filter).await?;
        Ok(page.executions.into_iter().next())
    }

    /// Starts the successor of the last run. Concurrent servers use the same predecessor in the
    /// dedup key, so only one of them starts it.
    ///
    /// Each server dates its runs by its own clock, so the apparently newest run may already have
    /// successors. The new run then follows the last of them.
    async fn launch_successor(
        &self,
        path: &'static str,
        state: &mut PlatformCheckState,
    ) -> Result<()> {
        let newest = self.newest_execution(path, None).await?;
        let newest_id = newest.as_ref().map(|newest| newest.execution_id);
        let mut previous = match state.successors.get(path) {
            Some(successor) if successor.newest_id == newest_id => {
                self.infra.store().find_execution(successor.execution_id).await?
            }
            Some(_) | None => newest,
        };
        for _ in 0..MAX_SUCCESSORS {
            if previous.as_ref().is_some_and(|previous| !self.allows_successor(previous)) {
                return Ok(());
            }
            let previous_id = previous.map_or(0, |previous| previous.execution_id.get());
            let key = DedupKey {
                key: format!("{path}:{previous_id}").into(),
                window_secs: Some(SUCCESSOR_DEDUP_SECS),
            };
            let started = self.launch_system_playbook(path, None, Some(key)).await?;
            if started.status != STATUS_DUPLICATE {
                return Ok(());
            }
            let successor_id = started.execution_id;
            state.successors.insert(path, KnownSuccessor { newest_id, execution_id: successor_id });
            previous = self.infra.store().find_execution(successor_id).await?;
        }
        Ok(())
    }

    /// True if the run has ended and, if it failed, the retry delay has passed.
    fn allows_successor(&self, execution: &Execution) -> bool {
        let failed_at = match execution.view.status {
            ExecutionStatus::Failed => execution.view.ended_at,
            status => return status.is_terminal(),
        };
        failed_at.is_none_or(|at| {
            Duration::from(self.infra.now().duration_since(at)) >= PLATFORM_RETRY_DELAY
        })
    }

    async fn launch_system_playbook(
        &self,
        path: &str,
        payload: Option<Json>,
        dedup: Option<DedupKey>,
    ) -> Result<ExecuteResponse> {
        let request = ExecuteRequest {
            path: Some(parse_system_path(path)?),
            payload,
            dedup,
            ..ExecuteRequest::default()
        };
        let start = StartRequest {
            // Losing the race against another server is not a duplicate message, so it is not
            // logged as one.
            suppress_duplicate_event: true,
            ..StartRequest::from(request)
        };
        let started = self.executions.start(CallContext::server(), start).await?.answer;
        let (execution_id, status) = (started.execution_id, &started.status);
        tracing::debug!(%execution_id, path, %status, "requested a run of a system playbook");
        Ok(started)
    }
}

fn parse_system_path(path: &str) -> Result<PlaybookPath> {
    PlaybookPath::new(path).map_err(|error| RuntimeError::internal(error.to_string()))
}

/// Returns the time of the cleanup firing that is due now, or `None` if the last one is too long
/// ago.
fn due_cleanup_ms(now: Timestamp) -> Option<i64> {
    let now = now.as_unix_ms();
    let due = (now - CLEANUP_AT_MS).div_euclid(DAY_MS) * DAY_MS + CLEANUP_AT_MS;
    (now - due <= CLEANUP_GRACE_MS).then_some(due)
}

#[cfg(test)]
mod tests {
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
            let log =
                store.read_events(open.execution_id, ExecutionVersion::EMPTY, LogPageLimit::MAX);
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
}

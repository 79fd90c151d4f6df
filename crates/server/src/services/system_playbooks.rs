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
        if self.infra.outbox
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
mod tests;

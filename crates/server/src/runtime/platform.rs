//! What the platform runs for itself: playbooks that ship with it, on workers of pool `system`.
//!
//! Every server looks, and none relies on another: who starts a run looks for an open one first, and a
//! firing of the daily cleanup has a key under which there is no second run.

use std::time::Duration;

use noetl_api::catalog::RegisterRequest;
use noetl_api::execute::{Dedup, ExecuteRequest};
use noetl_store::ExecutionFilter;
use noetl_types::limits::PageLimit;
use noetl_types::{ErrorCode, ExecutionStatus, Json, PlaybookPath, TenantId, Timestamp};

use super::Runtime;
use super::error::RuntimeError;

/// Publishes the outbox.
pub(super) const PUBLISHER: &str = "system/outbox_publisher";
/// Drops what is old.
const CLEANUP: &str = "system/scheduled_cleanup";

/// The playbooks that ship with the platform.
const SHIPPED: [&str; 3] = [
    include_str!("../../../../playbooks/system/outbox_publisher.yaml"),
    include_str!("../../../../playbooks/system/projector.yaml"),
    include_str!("../../../../playbooks/system/scheduled_cleanup.yaml"),
];

/// How often it is looked whether there is something to do.
const LOOK: Duration = Duration::from_secs(1);
/// How long to wait after something went wrong.
const BREATH: Duration = Duration::from_secs(5);

/// When the daily cleanup is due: 03:17 UTC, in milliseconds of the day.
const CLEANUP_AT_MS: i64 = (3 * 60 + 17) * 60_000;
/// A firing that is missed by more than this is left out.
const CLEANUP_GRACE_MS: i64 = 15 * 60_000;
const DAY_MS: i64 = 86_400_000;

impl Runtime {
    /// Registers what ships with the platform, and starts it whenever there is something to do.
    pub(super) fn run_platform(&self) {
        let runtime = self.clone();
        self.core.tasks.spawn(async move {
            while let Err(error) = runtime.register_shipped().await {
                tracing::warn!(%error, "the platform's own playbooks are not registered yet");
                if !runtime.core.pause(BREATH).await {
                    return;
                }
            }
            let mut fired = None;
            loop {
                let worked = runtime.look_after_platform(&mut fired).await;
                let pause = if worked.is_ok() { LOOK } else { BREATH };
                if let Err(error) = worked {
                    tracing::warn!(%error, "the platform's own playbooks do not start");
                }
                if !runtime.core.pause(pause).await {
                    return;
                }
            }
        });
    }

    /// Registers what ships with the platform; the same again is fine.
    pub async fn register_shipped(&self) -> Result<(), RuntimeError> {
        for content in SHIPPED {
            let request = RegisterRequest {
                content: content.to_owned(),
                resource_type: None,
                dry_run: false,
            };
            self.register_any_definition(request).await?;
        }
        Ok(())
    }

    async fn look_after_platform(&self, fired: &mut Option<i64>) -> Result<(), RuntimeError> {
        if self.settings().outbox
            // A count takes longer the more there is to publish, so it goes last.
            && !self.is_running(PUBLISHER).await?
            && self.store().outbox_pending(self.now()).await? > 0
        {
            self.launch_shipped(PUBLISHER, None, None).await?;
        }
        let Some(due) = cleanup_due(self.now()).filter(|due| *fired != Some(*due)) else {
            return Ok(());
        };
        if !self.is_running(CLEANUP).await? {
            let days = Json::from(self.settings().auto_purge_days);
            let payload = Json::object([("event_retention_days", days)]);
            let key = Dedup {
                key: format!("{CLEANUP}:{due}").into(),
                window_secs: Some(DAY_MS / 1000),
            };
            self.launch_shipped(CLEANUP, Some(payload), Some(key))
                .await?;
        }
        *fired = Some(due);
        Ok(())
    }

    async fn is_running(&self, path: &str) -> Result<bool, RuntimeError> {
        for status in [ExecutionStatus::Pending, ExecutionStatus::Running] {
            let filter = ExecutionFilter {
                tenant_id: TenantId::default(),
                status: Some(status),
                path: Some(shipped(path)?),
                parent_execution_id: None,
                after: None,
                limit: PageLimit::MIN,
            };
            if !self.store().executions(filter).await?.executions.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn launch_shipped(
        &self,
        path: &str,
        payload: Option<Json>,
        dedup: Option<Dedup>,
    ) -> Result<(), RuntimeError> {
        let request = ExecuteRequest {
            path: Some(shipped(path)?),
            payload,
            dedup,
            ..ExecuteRequest::default()
        };
        let begun = self.execute(request).await?;
        tracing::debug!(execution_id = %begun.execution_id, path, "started");
        Ok(())
    }
}

fn shipped(path: &str) -> Result<PlaybookPath, RuntimeError> {
    PlaybookPath::new(path)
        .map_err(|error| RuntimeError::refused(ErrorCode::Internal, error.to_string()))
}

/// The firing of the cleanup that is due now, as its time; none where the last one is long over.
fn cleanup_due(now: Timestamp) -> Option<i64> {
    let now = now.as_unix_ms();
    let due = (now - CLEANUP_AT_MS).div_euclid(DAY_MS) * DAY_MS + CLEANUP_AT_MS;
    (now - due <= CLEANUP_GRACE_MS).then_some(due)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cleanup_is_due_once_a_day_at_the_same_time() {
        let due = |text: &str| {
            let due = cleanup_due(Timestamp::parse(text).unwrap())?;
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

//! Periodic maintenance of the store, and warnings about its state.

mod gc;
mod purge;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use noetl_api::health::HealthStatus;
use noetl_types::{Millis, Text, Timestamp};

use crate::error::error_chain;
use crate::services::anchors::Anchors;
use crate::services::verification::VerifyStatus;
use crate::services::{AuditLog, Infrastructure};

/// Interval of the maintenance loop.
const MAINTENANCE_INTERVAL: Duration = Duration::from_mins(1);

/// Time to the end of the last log partition below which a warning is raised.
const MIN_PARTITION_HEADROOM: Millis = Millis::from_days(14);

/// Age of an unpublished event above which a warning is raised.
const MAX_PUBLISH_DELAY: Millis = Millis::from_minutes(10);

/// Health warnings of the last maintenance pass, so that health requests do not query the store.
#[derive(Debug, Default)]
pub(crate) struct HealthWarnings(Mutex<Vec<HealthWarning>>);

/// A degraded or failed health check.
#[derive(Debug, Clone)]
pub(crate) struct HealthWarning {
    pub(crate) check_name: &'static str,
    pub(crate) health: HealthStatus,
    pub(crate) reason: Text,
}

impl HealthWarnings {
    /// Returns the current warnings.
    pub(crate) fn current_warnings(&self) -> Vec<HealthWarning> {
        let warnings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        warnings.clone()
    }

    fn replace_warnings(&self, warnings: Vec<HealthWarning>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = warnings;
    }
}

/// Keeps the store in order.
pub struct Maintenance {
    pub(crate) infra: Arc<Infrastructure>,
    pub(crate) audit: Arc<AuditLog>,
    pub(crate) anchors: Arc<Anchors>,
    verify_status: Arc<VerifyStatus>,
    pub(crate) warnings: HealthWarnings,
}

impl Maintenance {
    pub(crate) fn new(
        infra: &Arc<Infrastructure>,
        audit: &Arc<AuditLog>,
        anchors: &Arc<Anchors>,
        verify_status: &Arc<VerifyStatus>,
    ) -> Self {
        Self {
            infra: Arc::clone(infra),
            audit: Arc::clone(audit),
            anchors: Arc::clone(anchors),
            verify_status: Arc::clone(verify_status),
            warnings: HealthWarnings::default(),
        }
    }

    /// Creates log partitions in advance and checks for publishing delays.
    pub(crate) async fn maintenance_loop(self: Arc<Self>) {
        loop {
            let now = self.infra.now();
            let partitions_ahead = self.infra.settings.partitions_ahead;
            if let Err(error) = self.infra.store.ensure_log_partitions(now, partitions_ahead).await
            {
                tracing::error!(error = %error_chain(&error), "log partitions could not be created");
            }
            let warnings = [
                self.partition_warning(now).await,
                self.outbox_warning(now).await,
                self.anchor_warning(),
                self.verify_status.warning(),
            ];
            self.warnings.replace_warnings(warnings.into_iter().flatten().collect());
            if !self.infra.sleep_unless_shutdown(MAINTENANCE_INTERVAL).await {
                return;
            }
        }
    }

    async fn partition_warning(&self, now: Timestamp) -> Option<HealthWarning> {
        let until = self.infra.store.log_partitions_until().await.ok()??;
        headroom_warning(until.duration_since(now))
    }

    fn anchor_warning(&self) -> Option<HealthWarning> {
        let reason = self.anchors.failure()?;
        Some(HealthWarning { check_name: "anchors", health: HealthStatus::Degraded, reason })
    }

    async fn outbox_warning(&self, now: Timestamp) -> Option<HealthWarning> {
        if !self.infra.outbox {
            return None;
        }
        let degraded = |reason: Text| HealthWarning {
            check_name: "outbox",
            health: HealthStatus::Degraded,
            reason,
        };
        let stats = match self.infra.store.outbox_stats().await {
            Ok(stats) => stats,
            // An unknown state is reported as degraded, not as healthy.
            Err(error) => {
                tracing::warn!(error = %error_chain(&error), "the state of the outbox could not be read");
                return Some(degraded("its state could not be read".into()));
            }
        };
        if stats.has_dead {
            let reason =
                "rows failed too often and require an operator; list them with: noetl outbox dead";
            return Some(degraded(reason.into()));
        }
        let delay = now.duration_since(stats.oldest_unpublished?);
        (delay > MAX_PUBLISH_DELAY).then(|| {
            let secs = delay.as_ms() / 1000;
            degraded(format!("an event has waited {secs} s to be published").into())
        })
    }
}

fn headroom_warning(headroom: Millis) -> Option<HealthWarning> {
    if headroom >= MIN_PARTITION_HEADROOM {
        return None;
    }
    let days = headroom.as_ms() / Millis::from_days(1).as_ms();
    Some(HealthWarning {
        check_name: "partitions",
        health: if headroom == Millis::ZERO {
            HealthStatus::Failed
        } else {
            HealthStatus::Degraded
        },
        reason: format!("the log has partitions for {days} more days").into(),
    })
}

#[cfg(test)]
mod tests;

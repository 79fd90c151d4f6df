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
        if !self.infra.settings.outbox {
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
mod tests {
    use std::sync::Arc;

    use noetl_api::internal::{MarkFailedRequest, OutboxClaimRequest, OutboxIds};
    use noetl_store::SqliteStore;
    use noetl_store_testing::{Fault, FaultyStore, StoreMethod};
    use noetl_types::Json;

    use super::*;
    use crate::access::CallContext;
    use crate::clock::SystemClock;
    use crate::services::ControlPlane;
    use crate::settings::Settings;

    #[test]
    fn low_headroom_degrades_and_none_fails() {
        let health = |headroom: Millis| headroom_warning(headroom).map(|warning| warning.health);
        assert_eq!(health(Millis::from_days(14)), None);
        let almost = Millis::from_ms(Millis::from_days(14).as_ms() - 1);
        assert_eq!(health(almost), Some(HealthStatus::Degraded));
        assert_eq!(health(Millis::ZERO), Some(HealthStatus::Failed));
        let warning = headroom_warning(almost).unwrap();
        assert_eq!(warning.reason, "the log has partitions for 13 more days");
    }

    #[tokio::test]
    async fn unreadable_outbox_is_degraded() {
        let plan = |method| match method {
            StoreMethod::OutboxStats => Fault::FailBefore,
            _ => Fault::None,
        };
        let store = FaultyStore::new(SqliteStore::in_memory().unwrap(), Box::new(plan));
        let settings = Settings { outbox: true, ..Settings::default() };
        let services =
            ControlPlane::open(Arc::new(store), Arc::new(SystemClock), settings).await.unwrap();
        let reported = services.maintenance.outbox_warning(services.infra.now()).await.unwrap();
        assert_eq!((reported.check_name, reported.health), ("outbox", HealthStatus::Degraded));
        // The other metrics are still rendered.
        let text = services.system_status.render_metrics(CallContext::server()).await.unwrap();
        assert!(text.contains("noetl_event_stream_lag_events 0\n"), "{text}");
        assert!(!text.contains("noetl_outbox_rows{"), "{text}");
    }

    #[tokio::test]
    async fn dead_rows_degrade_until_discarded() {
        let settings = Settings { outbox: true, outbox_max_attempts: 1, ..Settings::default() };
        let store = Arc::new(SqliteStore::in_memory().unwrap());
        let services = ControlPlane::open(store, Arc::new(SystemClock), settings).await.unwrap();
        let event = Json::object([
            ("execution_id", Json::from(7)),
            ("event_id", Json::from(8)),
            ("event_type", Json::from("step.enter")),
        ]);
        let events = vec![event];
        let projected = services.projection.project_test_events(events).await;
        assert_eq!(projected.projected, 1, "{projected:?}");
        let warning = async || services.maintenance.outbox_warning(services.infra.now()).await;
        assert!(warning().await.is_none());
        let claimed = services.publishing.claim_outbox(OutboxClaimRequest::default());
        let row = claimed.await.unwrap().rows.remove(0);
        let failed = MarkFailedRequest {
            outbox_id: row.outbox_id.0,
            error: "no route".into(),
            attempts: None,
            max_delay_seconds: None,
        };
        assert!(services.publishing.mark_outbox_failed(failed).await.unwrap().marked);
        let reported = warning().await.unwrap();
        assert_eq!((reported.check_name, reported.health), ("outbox", HealthStatus::Degraded));
        assert!(reported.reason.contains("noetl outbox dead"), "{reported:?}");
        let outbox_ids = vec![row.outbox_id.0];
        services.publishing.discard_outbox(OutboxIds { outbox_ids }).await.unwrap();
        assert!(warning().await.is_none());
    }
}

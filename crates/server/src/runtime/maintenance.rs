//! Periodic maintenance of the store, and warnings about its state.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use noetl_api::health::HealthStatus;
use noetl_types::{Millis, Text, Timestamp};

use super::Core;
use super::error::error_chain;

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

impl Core {
    /// Creates log partitions in advance and checks for publishing delays.
    pub(super) async fn maintenance_loop(self: std::sync::Arc<Self>) {
        loop {
            let now = self.clock.now();
            let partitions_ahead = self.settings.partitions_ahead;
            if let Err(error) = self.store.ensure_log_partitions(now, partitions_ahead).await {
                tracing::error!(error = %error_chain(&error), "log partitions could not be created");
            }
            let warnings = [self.partition_warning(now).await, self.outbox_warning(now).await];
            self.health_warnings.replace_warnings(warnings.into_iter().flatten().collect());
            if !self.sleep_unless_shutdown(MAINTENANCE_INTERVAL).await {
                return;
            }
        }
    }

    async fn partition_warning(&self, now: Timestamp) -> Option<HealthWarning> {
        let until = self.store.log_partitions_until().await.ok()??;
        headroom_warning(until.duration_since(now))
    }

    async fn outbox_warning(&self, now: Timestamp) -> Option<HealthWarning> {
        if !self.settings.outbox {
            return None;
        }
        let degraded = |reason: Text| HealthWarning {
            check_name: "outbox",
            health: HealthStatus::Degraded,
            reason,
        };
        let stats = match self.store.outbox_stats().await {
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

    use noetl_api::internal::{MarkFailedRequest, OutboxClaimRequest, OutboxIds, ProjectRequest};
    use noetl_store::faulty::{Fault, FaultyStore, StoreMethod};
    use noetl_store::{ProjectionScope, SqliteStore};
    use noetl_types::Json;

    use super::*;
    use crate::clock::SystemClock;
    use crate::runtime::{Runtime, Settings};

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
        let runtime =
            Runtime::open(Arc::new(store), Arc::new(SystemClock), settings).await.unwrap();
        let reported = runtime.core.outbox_warning(runtime.now()).await.unwrap();
        assert_eq!((reported.check_name, reported.health), ("outbox", HealthStatus::Degraded));
        // The other metrics are still rendered.
        let text = runtime.render_metrics().await.unwrap();
        assert!(text.contains("noetl_event_stream_lag_events 0\n"), "{text}");
        assert!(!text.contains("noetl_outbox_rows{"), "{text}");
    }

    #[tokio::test]
    async fn dead_rows_degrade_until_discarded() {
        let settings = Settings { outbox: true, outbox_max_attempts: 1, ..Settings::default() };
        let store = Arc::new(SqliteStore::in_memory().unwrap());
        let runtime = Runtime::open(store, Arc::new(SystemClock), settings).await.unwrap();
        let event = Json::object([
            ("execution_id", Json::from(7)),
            ("event_id", Json::from(8)),
            ("event_type", Json::from("step.enter")),
        ]);
        let events = vec![event];
        let projected = runtime
            .project_events(ProjectRequest { events }, ProjectionScope::ExecutionOwner)
            .await
            .unwrap();
        assert_eq!(projected.projected, 1, "{projected:?}");
        let warning = async || runtime.core.outbox_warning(runtime.now()).await;
        assert!(warning().await.is_none());
        let claimed = runtime.claim_outbox(OutboxClaimRequest::default());
        let row = claimed.await.unwrap().rows.remove(0);
        let failed = MarkFailedRequest {
            outbox_id: row.outbox_id,
            error: "no route".into(),
            attempts: None,
            max_delay_seconds: None,
        };
        assert!(runtime.mark_outbox_failed(failed).await.unwrap().marked);
        let reported = warning().await.unwrap();
        assert_eq!((reported.check_name, reported.health), ("outbox", HealthStatus::Degraded));
        assert!(reported.reason.contains("noetl outbox dead"), "{reported:?}");
        let outbox_ids = vec![row.outbox_id];
        runtime.discard_outbox(OutboxIds { outbox_ids }).await.unwrap();
        assert!(warning().await.is_none());
    }
}

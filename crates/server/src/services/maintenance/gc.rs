//! Periodic deletion of expired rows, and the loop of the clock and the machine id.

use std::sync::Arc;
use std::time::Duration;

use noetl_api::internal::PurgeRequest;
use noetl_store::{GcTarget, StoreError};
use noetl_types::Millis;
use noetl_types::limits::PageLimit;

use crate::error::error_chain;
use crate::services::Maintenance;
use crate::services::store_clock::CLOCK_SYNC_INTERVAL;

/// Interval of garbage collection.
const GC_INTERVAL: Duration = Duration::from_mins(1);

/// Runs of garbage collection per purge of ended commands.
const GC_RUNS_PER_PURGE: u64 = 60;

/// Maximum pages deleted per kind of row and run. Enough to keep up with 50,000 rows per second, in
/// pages small enough to let other writes through.
const MAX_GC_PAGES: u32 = 6000;

/// Extra retention, which covers the clock difference between two servers.
const GC_RETENTION_SLACK: Millis = Millis::from_secs(60);

/// Time for which tokens that were revoked or have expired are still listed.
const ENDED_TOKEN_RETENTION: Millis = Millis::from_days(30);

impl Maintenance {
    /// Deletes expired rows at intervals.
    pub(crate) async fn gc_loop(self: Arc<Self>) {
        let mut runs = 0_u64;
        while self.infra.sleep_unless_shutdown(GC_INTERVAL).await {
            self.audit.flush_refusals(false).await;
            self.collect_garbage().await;
            if runs.is_multiple_of(GC_RUNS_PER_PURGE) {
                self.purge_ended_commands().await;
            }
            runs += 1;
        }
    }

    /// Deletes commands that ended long ago, and workers without a heartbeat. Keeps all logs.
    async fn purge_ended_commands(&self) {
        let days = self.infra.settings.command_retention_days;
        if days == 0 {
            return;
        }
        let request = PurgeRequest {
            command_retention_days: Some(days.into()),
            event_retention_days: Some(0),
            ..PurgeRequest::default()
        };
        if let Err(error) = self.purge_expired_data(request).await {
            tracing::warn!(error = %error_chain(&error), "deleting ended commands failed");
        }
    }

    async fn collect_garbage(&self) {
        let now = self.infra.now();
        // A caller with a slow clock must still find the rows until their promised expiry.
        let expired_before = now.saturating_sub(GC_RETENTION_SLACK);
        for target in GcTarget::ALL {
            let before = match target {
                GcTarget::Tokens => expired_before.saturating_sub(ENDED_TOKEN_RETENTION),
                _ => expired_before,
            };
            self.delete_in_pages("expired", || {
                self.infra.store.delete_expired(*target, before, PageLimit::MAX)
            })
            .await;
        }
        let before = now.saturating_sub(self.infra.settings.outbox_retention);
        let purged = self
            .delete_in_pages("outbox", || {
                self.infra.store.purge_outbox_rows(before, PageLimit::MAX)
            })
            .await;
        self.infra.metrics.platform.count_purged("outbox", purged);
        // Quarantined rows are kept for the operator for as long as published outbox rows.
        self.delete_in_pages("quarantine", || {
            self.infra.store.purge_quarantined_items(before, PageLimit::MAX)
        })
        .await;
    }

    /// Deletes old rows page by page until a page is not full. Returns the number of rows.
    async fn delete_in_pages<F>(&self, kind: &'static str, page: impl Fn() -> F) -> u64
    where
        F: Future<Output = Result<u64, StoreError>>,
    {
        let mut deleted = 0;
        for _ in 0..MAX_GC_PAGES {
            if self.infra.shutdown.is_cancelled() {
                break;
            }
            match page().await {
                Ok(count) => {
                    deleted += count;
                    if count < u64::from(PageLimit::MAX.get()) {
                        break;
                    }
                }
                Err(error) => {
                    tracing::warn!(error = %error_chain(&error), kind, "deleting old rows failed");
                    break;
                }
            }
        }
        deleted
    }

    /// Follows the clock of the store, and renews the machine id by it.
    pub(crate) async fn clock_loop(self: Arc<Self>) {
        let mut is_due = true;
        while self.infra.sleep_unless_shutdown(CLOCK_SYNC_INTERVAL).await {
            let measured = self.infra.clock.synchronize(self.infra.store());
            let is_step = match tokio::time::timeout(CLOCK_SYNC_INTERVAL, measured).await {
                Ok(Ok(is_step)) => is_step,
                Ok(Err(error)) => {
                    tracing::warn!(error = %error_chain(&error), "reading the clock of the store failed");
                    false
                }
                Err(_) => {
                    tracing::warn!("reading the clock of the store took too long");
                    false
                }
            };
            // The machine id is renewed every second time, and again after a failure or a step.
            let is_usable = self.infra.ids.check_usable(self.infra.now()).is_ok();
            if !is_due && !is_step && is_usable {
                is_due = true;
                continue;
            }
            let renewed = self.infra.ids.renew_lease(self.infra.now()).await;
            is_due = renewed.is_err();
            if let Err(error) = renewed {
                tracing::error!(error = %error_chain(&error), "renewing the lease of the machine id failed");
            }
        }
    }
}

#[cfg(test)]
mod tests;

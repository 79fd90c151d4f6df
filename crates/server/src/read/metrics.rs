//! What a server counts.

use std::time::Duration;

use noetl_types::{ErrorCode, TenantId};

use crate::runtime::{Runtime, RuntimeError, causes};

/// How long a scrape waits for the store. Whoever scrapes gives up after ten seconds, as a rule.
const PATIENCE: Duration = Duration::from_secs(5);

impl Runtime {
    /// Everything that is counted, as a scrape gets it.
    pub(crate) async fn metrics_text(&self) -> Result<String, RuntimeError> {
        // A process counts for everybody that it serves, so only its operator may see it.
        if *self.tenant() != TenantId::default() {
            let text = "what a server counts is for the tenant that operates it";
            return Err(RuntimeError::refused(ErrorCode::Forbidden, text));
        }
        if !self.settings().metrics {
            let text = "what the server counts is not told: an operator has turned that off";
            return Err(RuntimeError::refused(ErrorCode::NotFound, text));
        }
        // What is counted here matters most while the store does not work.
        let looked = tokio::time::timeout(PATIENCE, self.look_at_store()).await;
        if looked.is_err() {
            tracing::warn!("the store does not say in time how it stands");
            let gauges = self.metrics().gauges();
            gauges.no_count();
            gauges.no_pools();
            self.metrics().platform().no_outbox();
        }
        if let Some(is_reached) = self.reaches_nats() {
            self.metrics().stream().reaches_nats(is_reached);
        }
        self.metrics().text().map_err(|error| {
            tracing::error!(%error, "what is counted cannot be written");
            RuntimeError::refused(ErrorCode::Internal, "nothing can be told")
        })
    }

    /// Takes over what the store knows. What it does not tell is left out.
    async fn look_at_store(&self) {
        let (gauges, platform) = (self.metrics().gauges(), self.metrics().platform());
        let (store, now) = (self.store(), self.now());
        match told("executions", store.executions_by_status().await) {
            Some(counts) => gauges.count(&counts),
            None => gauges.no_count(),
        }
        match told("pools", store.pool_counts().await) {
            Some(pools) => gauges.count_pools(&pools),
            None => gauges.no_pools(),
        }
        match told("outbox", store.outbox_facts().await) {
            Some(facts) => platform.outbox(&facts, now),
            None => platform.no_outbox(),
        }
        if let Some(Some(until)) = told("partitions", store.months_until().await) {
            platform.room(until.since(now));
        }
        if let Some(status) = told("stream", self.stream_status().await) {
            self.metrics().stream().stands(&status);
        }
    }
}

/// What the store tells of something; nothing where it does not.
fn told<T, E: std::error::Error>(what: &str, found: Result<T, E>) -> Option<T> {
    if let Err(error) = &found {
        tracing::warn!(what, error = %causes(error), "nobody knows how this stands");
    }
    found.ok()
}

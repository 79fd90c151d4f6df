//! Rendering of the server's metrics.

use std::error::Error;
use std::time::Duration;

use crate::access::CallContext;
use crate::error::{Result, RuntimeError, error_chain};
use crate::services::system_status::SystemStatus;

/// Timeout of each store query of a scrape. Scrapers usually time out after ten seconds.
const STORE_QUERY_TIMEOUT: Duration = Duration::from_secs(5);

impl SystemStatus {
    /// Renders all metrics for a scrape.
    pub(crate) async fn render_metrics(&self, ctx: &CallContext) -> Result<String> {
        // The metrics of a process cover all tenants, so only the operator's tenant may read them.
        ctx.auth.check_operator()?;
        if !self.infra.settings.metrics {
            return Err(RuntimeError::not_found("metrics are disabled on this server"));
        }
        self.refresh_store_gauges().await;
        // The metrics of this process matter most while the store is unavailable.
        self.infra.metrics.stream.set_counters(&self.publishing.local_stream_status());
        if let Some(is_connected) = self.publishing.is_nats_connected() {
            self.infra.metrics.stream.set_nats_connected(is_connected);
        }
        self.infra.metrics.encode_text().map_err(|error| {
            tracing::error!(%error, "the metrics cannot be rendered");
            RuntimeError::internal("the metrics cannot be rendered")
        })
    }

    /// Updates the gauges from the store. The queries run concurrently, and a failed one only omits
    /// its own metrics.
    async fn refresh_store_gauges(&self) {
        let (store, now) = (self.infra.store(), self.infra.now());
        let (executions, pools, outbox, partitions_until, stream) = tokio::join!(
            query_or_none("executions", store.count_executions_by_status()),
            query_or_none("pools", store.pool_counts()),
            query_or_none("outbox", store.outbox_stats()),
            query_or_none("partitions", store.log_partitions_until()),
            query_or_none("stream", self.publishing.stream_status()),
        );
        let (gauges, platform) = (&self.infra.metrics.store_gauges, &self.infra.metrics.platform);
        gauges.set_execution_counts(executions.as_ref());
        gauges.set_pool_counts(pools.as_deref());
        platform.set_outbox(outbox.as_ref(), now);
        platform.set_partition_headroom(
            partitions_until.flatten().map(|until| until.duration_since(now)),
        );
        self.infra.metrics.stream.set_gauges(stream.as_ref());
    }
}

/// Returns the result of a store query, or `None` if it fails or times out.
async fn query_or_none<T, E: Error>(
    what: &str,
    query: impl Future<Output = Result<T, E>>,
) -> Option<T> {
    let result = tokio::time::timeout(STORE_QUERY_TIMEOUT, query).await;
    let reason = match result {
        Ok(Ok(result)) => return Some(result),
        Ok(Err(error)) => error_chain(&error),
        Err(_) => "the store query timed out".into(),
    };
    tracing::warn!(what, error = %reason, "a store query for metrics failed");
    None
}

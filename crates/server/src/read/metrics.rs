//! What a server counts.

use noetl_types::{ErrorCode, TenantId};

use crate::runtime::{Runtime, RuntimeError, causes};

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
        let gauges = self.metrics().gauges();
        gauges.count(&self.store().counts(self.tenant()).await?);
        gauges.count_pools(&self.store().pool_counts().await?);
        let (platform, now) = (self.metrics().platform(), self.now());
        match self.store().outbox_facts().await {
            Ok(facts) => platform.outbox(&facts, now),
            // What else is counted matters most while something does not work.
            Err(error) => {
                tracing::warn!(error = %causes(&error), "nobody knows how the outbox stands");
                platform.no_outbox();
            }
        }
        if let Some(until) = self.store().months_until().await? {
            platform.room(until.since(now));
        }
        let stream = self.metrics().stream();
        stream.stands(&self.stream_status().await?);
        if let Some(is_reached) = self.reaches_nats() {
            stream.reaches_nats(is_reached);
        }
        self.metrics().text().map_err(|error| {
            tracing::error!(%error, "what is counted cannot be written");
            RuntimeError::refused(ErrorCode::Internal, "nothing can be told")
        })
    }
}

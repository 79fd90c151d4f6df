//! What a server counts.

use std::error::Error;
use std::time::Duration;

use noetl_types::{ErrorCode, TenantId};

use crate::runtime::{Runtime, RuntimeError, causes};

/// How long a scrape waits for what the store tells of one thing. Whoever scrapes gives up after ten
/// seconds, as a rule.
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
        self.look_at_store().await;
        // What this process knows matters most while the store does not work.
        self.metrics().stream().counted(&self.stream_here());
        if let Some(is_reached) = self.reaches_nats() {
            self.metrics().stream().reaches_nats(is_reached);
        }
        self.metrics().text().map_err(|error| {
            tracing::error!(%error, "what is counted cannot be written");
            RuntimeError::refused(ErrorCode::Internal, "nothing can be told")
        })
    }

    /// Takes over what the store knows. What it does not tell is left out, and that alone: each is asked
    /// for by itself, and all at once.
    async fn look_at_store(&self) {
        let (store, now) = (self.store(), self.now());
        let (runs, pools, outbox, room, stream) = tokio::join!(
            told("executions", store.executions_by_status()),
            told("pools", store.pool_counts()),
            told("outbox", store.outbox_facts()),
            told("partitions", store.months_until()),
            told("stream", self.stream_status()),
        );
        let (gauges, platform) = (self.metrics().gauges(), self.metrics().platform());
        gauges.count(runs.as_ref());
        gauges.count_pools(pools.as_deref());
        platform.outbox(outbox.as_ref(), now);
        platform.room(room.flatten().map(|until| until.since(now)));
        self.metrics().stream().stands(stream.as_ref());
    }
}

/// What the store tells of something; nothing where it does not, or not in time.
async fn told<T, E: Error>(what: &str, asked: impl Future<Output = Result<T, E>>) -> Option<T> {
    let found = tokio::time::timeout(PATIENCE, asked).await;
    let reason = match found {
        Ok(Ok(found)) => return Some(found),
        Ok(Err(error)) => causes(&error),
        Err(_) => "the store does not say it in time".into(),
    };
    tracing::warn!(what, error = %reason, "nobody knows how this stands");
    None
}

//! Follows the log of an execution as it grows.

use std::time::Duration;

use noetl_api::execution::EventView;
use noetl_types::{EventName, ExecutionId, Version};

use super::events::view;
use crate::runtime::{Runtime, RuntimeError};

/// Events that are told at once.
const CHUNK: i64 = 200;
/// How long to wait for word from this server before the log is looked at, since another server may
/// have written to it.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Tells every event of an execution once, in order, until its end.
#[derive(Clone)]
pub(crate) struct Follower {
    runtime: Runtime,
    execution_id: ExecutionId,
    after: Version,
    has_ended: bool,
}

impl Runtime {
    /// Follows an execution from behind a place of its log.
    pub(crate) async fn follow(
        &self,
        execution_id: ExecutionId,
        after: Version,
    ) -> Result<Follower, RuntimeError> {
        let row = self.execution_row(execution_id).await?;
        Ok(Follower {
            runtime: self.clone(),
            execution_id,
            after,
            // Who has seen the end already is told nothing but what was noted since.
            has_ended: row.view.status.is_terminal(),
        })
    }
}

impl Follower {
    /// The events that come next: none where nothing happens for so long, nothing at all once the
    /// execution has ended and everything is told.
    pub(crate) async fn next(
        &mut self,
        patience: Duration,
    ) -> Result<Option<Vec<EventView>>, RuntimeError> {
        let deadline = tokio::time::Instant::now() + patience;
        loop {
            // Before the log is looked at, so that nothing is missed in between.
            let mut following = self.runtime.following(self.execution_id);
            let events = self
                .runtime
                .log_chunk(self.execution_id, self.after.get(), CHUNK)
                .await?;
            if let Some(last) = events.last() {
                self.after = last.record.seq.into();
                let ends = |event: &noetl_types::StoredEvent| matches!(&event.record.event.event_type, EventName::Known(known) if known.is_terminal());
                self.has_ended |= events.iter().any(ends);
                return Ok(Some(events.into_iter().map(view).collect()));
            }
            if self.has_ended {
                return Ok(None);
            }
            let left = deadline.saturating_duration_since(tokio::time::Instant::now());
            if left.is_zero() {
                return Ok(Some(Vec::new()));
            }
            let told = following.past(self.after);
            drop(tokio::time::timeout(left.min(LOOK_EVERY), told).await);
        }
    }
}

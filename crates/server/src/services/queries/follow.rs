//! Followers of the growing log, of one execution or of all.

use std::sync::Arc;
use std::time::Duration;

use noetl_api::execution::EventView;
use noetl_store::{FeedLimit, LogEpoch};
use noetl_types::{
    EventName, ExecutionId, ExecutionVersion, FeedPosition, PlaybookPath, StoredEvent, TenantId,
};

use crate::access::{CallContext, ExecutionVisibility};
use crate::error::Result;
use crate::services::Queries;
use crate::services::queries::events::to_event_view;

/// Events per read.
const CHUNK_EVENTS: i64 = 200;

/// Returns every event of an execution once, in order, until its end.
#[derive(Clone)]
pub(crate) struct LogFollower {
    queries: Arc<Queries>,
    execution_id: ExecutionId,
    after: ExecutionVersion,
    has_ended: bool,
}

impl Queries {
    /// Follows an execution from a position in its log.
    pub(crate) async fn follow_log(
        self: &Arc<Self>,
        ctx: &CallContext,
        execution_id: ExecutionId,
        after: ExecutionVersion,
    ) -> Result<LogFollower> {
        let row = ctx.visible_execution(self.infra.store(), execution_id).await?;
        Ok(LogFollower {
            queries: Arc::clone(self),
            execution_id,
            after,
            // A follower that starts after the end only gets the events recorded since then.
            has_ended: row.view.status.is_terminal(),
        })
    }

    /// Follows all events from a position, or from now on. A position without a log epoch is in the
    /// current one. If the position is in another log epoch, the feed restarts from its beginning.
    pub(crate) async fn follow_feed(
        self: &Arc<Self>,
        ctx: &CallContext,
        filter: FeedFilter,
        after: Option<(Option<LogEpoch>, FeedPosition)>,
    ) -> Result<FeedFollower> {
        let log_epoch = self.infra.store().log_epoch().await?;
        let (at, has_gap) = match after {
            None => (self.publishing.feed_end().await?, false),
            Some((Some(epoch), _)) if epoch != log_epoch => (FeedPosition::default(), true),
            Some((_, at)) => (at, self.has_dropped_after(at).await?),
        };
        Ok(FeedFollower {
            queries: Arc::clone(self),
            visibility: ExecutionVisibility::new(&self.infra, ctx).with_path(filter.path.clone()),
            filter,
            after: LogPosition { log_epoch, at },
            has_gap,
        })
    }

    /// True if events after a position were deleted. From the very beginning there is no gap.
    async fn has_dropped_after(&self, at: FeedPosition) -> Result<bool> {
        let dropped = self.infra.store().last_dropped_position().await?;
        Ok(at != FeedPosition::default() && at.position < dropped)
    }
}

impl LogFollower {
    /// Returns the next events, an empty list after a timeout, or `None` once the execution has
    /// ended and all events were returned.
    pub(crate) async fn next(&mut self, max_wait: Duration) -> Result<Option<Vec<EventView>>> {
        let deadline = tokio::time::Instant::now() + max_wait;
        loop {
            // Subscribes before the log is read, so that no append is missed in between.
            let mut following =
                self.queries.driver.waiters.followers.follow_execution(self.execution_id);
            let events = self
                .queries
                .read_log_chunk(self.execution_id, self.after.get(), CHUNK_EVENTS)
                .await?;
            if let Some(last) = events.last() {
                self.after = last.record.seq.into();
                let is_terminal = |event: &StoredEvent| matches!(&event.record.event.event_type, EventName::Known(known) if known.is_terminal());
                self.has_ended |= events.iter().any(is_terminal);
                return Ok(Some(events.into_iter().map(to_event_view).collect()));
            }
            if self.has_ended {
                return Ok(None);
            }
            let remaining = deadline.saturating_duration_since(tokio::time::Instant::now());
            if remaining.is_zero() {
                return Ok(Some(Vec::new()));
            }
            let appended = following.wait_past(self.after);
            // Another server may have appended to the log without a notification reaching this one.
            let poll_interval =
                Duration::from_millis(self.queries.infra.settings.sweep_interval.as_ms());
            drop(tokio::time::timeout(remaining.min(poll_interval), appended).await);
        }
    }
}

/// Filter of the events of all executions.
#[derive(Debug, Clone)]
pub(crate) struct FeedFilter {
    pub(crate) tenant_id: TenantId,
    pub(crate) event_type: Option<EventName>,
    pub(crate) execution_id: Option<ExecutionId>,
    /// Restricts the events to executions of this playbook.
    pub(crate) path: Option<PlaybookPath>,
}

/// Position in the feed of all events, within one log epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogPosition {
    pub(crate) log_epoch: LogEpoch,
    pub(crate) at: FeedPosition,
}

/// An update of the feed of all events.
pub(crate) enum FeedUpdate {
    /// An event and its position.
    Event(LogPosition, Box<EventView>),
    /// Events between the last one and the next one are not available: they were deleted, or belong
    /// to another log epoch.
    Gap {
        /// Position after which the feed continues.
        after: LogPosition,
        /// Position of the first event there.
        first: Option<LogPosition>,
    },
}

/// Returns every event once, in commit order.
pub(crate) struct FeedFollower {
    queries: Arc<Queries>,
    filter: FeedFilter,
    after: LogPosition,
    /// True if events are missing before the next one.
    has_gap: bool,
    /// Visibility of the executions.
    visibility: ExecutionVisibility,
}

impl FeedFollower {
    /// Returns the next updates, each with the position to resume from. Returns an empty list after
    /// a timeout without matching events.
    pub(crate) async fn next(&mut self, max_wait: Duration) -> Result<Vec<FeedUpdate>> {
        let deadline = tokio::time::Instant::now() + max_wait;
        let limit = FeedLimit::clamped(u32::try_from(CHUNK_EVENTS).unwrap_or(u32::MAX));
        loop {
            let remaining = deadline.saturating_duration_since(tokio::time::Instant::now());
            if self.has_gap {
                return Ok(vec![self.read_gap().await?]);
            }
            let batch = self.queries.publishing.wait_for_feed(self.after.at, limit, remaining);
            let batch = batch.await?;
            // Events that were read before the epoch changed belong to the previous epoch.
            let log_epoch = self.queries.infra.store().log_epoch().await?;
            if log_epoch != self.after.log_epoch {
                let at = FeedPosition::default();
                self.after = LogPosition { log_epoch, at };
                self.has_gap = true;
                continue;
            }
            let mut updates = Vec::new();
            for event in batch.events {
                if self.matches_filter(&event).await? {
                    let at = event.feed;
                    let position = LogPosition { log_epoch, at };
                    updates.push(FeedUpdate::Event(position, Box::new(to_event_view(event))));
                }
            }
            self.after.at = batch.next;
            if !updates.is_empty() || remaining.is_zero() {
                return Ok(updates);
            }
        }
    }

    async fn read_gap(&mut self) -> Result<FeedUpdate> {
        let LogPosition { log_epoch, at } = self.after;
        let first = self.queries.publishing.next_feed_position(at).await?;
        self.has_gap = false;
        Ok(FeedUpdate::Gap {
            after: self.after,
            first: first.map(|at| LogPosition { log_epoch, at }),
        })
    }

    async fn matches_filter(&mut self, stored: &StoredEvent) -> Result<bool> {
        let (filter, event) = (&self.filter, &stored.record.event);
        let execution_id = event.execution_id;
        if event.tenant_id != filter.tenant_id
            || filter.execution_id.is_some_and(|expected| expected != execution_id)
            || filter.event_type.as_ref().is_some_and(|expected| *expected != event.event_type)
        {
            return Ok(false);
        }
        self.visibility.is_visible(execution_id).await
    }
}

//! Follows the log as it grows: that of one execution, or all of them.

use std::time::Duration;

use noetl_api::execution::EventView;
use noetl_store::{FeedLimit, LogEpoch};
use noetl_types::{
    EventName, ExecutionId, FeedPosition, PlaybookPath, StoredEvent, TenantId, Version,
};

use super::events::view;
use super::sight::Sight;
use crate::runtime::{Runtime, RuntimeError};

/// Events that are told at once.
const CHUNK: i64 = 200;

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
                let ends = |event: &StoredEvent| matches!(&event.record.event.event_type, EventName::Known(known) if known.is_terminal());
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
            // Another server may have written to the log, of which nobody here is told.
            let look = Duration::from_millis(self.runtime.settings().sweep.as_ms());
            drop(tokio::time::timeout(left.min(look), told).await);
        }
    }
}

/// Which events of all are wanted.
#[derive(Debug, Clone)]
pub(crate) struct FeedWish {
    /// Whose they are.
    pub(crate) tenant_id: TenantId,
    pub(crate) event_type: Option<EventName>,
    pub(crate) execution_id: Option<ExecutionId>,
    /// Only those of executions of this playbook.
    pub(crate) path: Option<PlaybookPath>,
}

/// A place among all events of a life of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogPlace {
    pub(crate) log_epoch: LogEpoch,
    pub(crate) at: FeedPosition,
}

/// What is told of all events.
pub(crate) enum Told {
    /// An event, and its place.
    Event(LogPlace, Box<EventView>),
    /// What was between the last event and the next is not there any more: it was dropped, or it was in
    /// another life of the log.
    Gap {
        /// Where it goes on behind.
        after: LogPlace,
        /// The first event there.
        first: Option<LogPlace>,
    },
}

/// Tells every event once, in the order in which they were committed.
pub(crate) struct FeedFollower {
    runtime: Runtime,
    wish: FeedWish,
    after: LogPlace,
    /// Whether something is missing before what comes next.
    has_gap: bool,
    /// Which executions are wanted.
    sight: Sight,
}

impl Runtime {
    /// Follows all events from behind a place, or from now on. A place that names no life of the log is
    /// one of the present life; of another life all there is comes again.
    pub(crate) async fn follow_all(
        &self,
        wish: FeedWish,
        after: Option<(Option<LogEpoch>, FeedPosition)>,
    ) -> Result<FeedFollower, RuntimeError> {
        let log_epoch = self.store().log_epoch().await?;
        let (at, has_gap) = match after {
            None => (self.end_of_feed().await?, false),
            Some((Some(epoch), _)) if epoch != log_epoch => (FeedPosition::default(), true),
            Some((_, at)) => (at, self.has_dropped_behind(at).await?),
        };
        Ok(FeedFollower {
            runtime: self.clone(),
            sight: self.sight_of(wish.path.clone()),
            wish,
            after: LogPlace { log_epoch, at },
            has_gap,
        })
    }

    /// Whether events behind a place were dropped. From the very beginning on nobody has missed any.
    async fn has_dropped_behind(&self, at: FeedPosition) -> Result<bool, RuntimeError> {
        let dropped = self.store().last_dropped().await?;
        Ok(at != FeedPosition::default() && at.position < dropped)
    }
}

impl FeedFollower {
    /// What comes next, each with the place to resume from; nothing where nothing that is wanted
    /// happens for so long.
    pub(crate) async fn next(&mut self, patience: Duration) -> Result<Vec<Told>, RuntimeError> {
        let deadline = tokio::time::Instant::now() + patience;
        let limit = FeedLimit::clamped(u32::try_from(CHUNK).unwrap_or(u32::MAX));
        loop {
            let left = deadline.saturating_duration_since(tokio::time::Instant::now());
            if self.has_gap {
                return Ok(vec![self.gap().await?]);
            }
            let batch = self.runtime.wait_for_feed(self.after.at, limit, left);
            let batch = batch.await?;
            // What was read before a new life began is of the one before it.
            let log_epoch = self.runtime.store().log_epoch().await?;
            if log_epoch != self.after.log_epoch {
                let at = FeedPosition::default();
                self.after = LogPlace { log_epoch, at };
                self.has_gap = true;
                continue;
            }
            let mut told = Vec::new();
            for event in batch.events {
                if self.is_wanted(&event).await? {
                    let at = event.feed;
                    let place = LogPlace { log_epoch, at };
                    told.push(Told::Event(place, Box::new(view(event))));
                }
            }
            self.after.at = batch.next;
            if !told.is_empty() || left.is_zero() {
                return Ok(told);
            }
        }
    }

    async fn gap(&mut self) -> Result<Told, RuntimeError> {
        let LogPlace { log_epoch, at } = self.after;
        let first = self.runtime.place_behind(at).await?;
        self.has_gap = false;
        Ok(Told::Gap {
            after: self.after,
            first: first.map(|at| LogPlace { log_epoch, at }),
        })
    }

    async fn is_wanted(&mut self, stored: &StoredEvent) -> Result<bool, RuntimeError> {
        let (wish, event) = (&self.wish, &stored.record.event);
        let id = event.execution_id;
        if event.tenant_id != wish.tenant_id
            || wish.execution_id.is_some_and(|wanted| wanted != id)
            || wish
                .event_type
                .as_ref()
                .is_some_and(|wanted| *wanted != event.event_type)
        {
            return Ok(false);
        }
        self.sight.has(id).await
    }
}

//! The stream as people, readiness and other programs see it.

use std::time::Duration;

use noetl_api::stream::{FeedAnswer, StreamStatus};
use noetl_store::{
    FeedBatch, FeedLimit, LogPage, StreamBegin, StreamMove, StreamOwner, StreamTake, StreamTaken,
    body,
};
use noetl_types::{ErrorCode, ExecutionId, FeedPosition, Millis, Seq, Text, Version, json};

use super::CURSOR;
use super::facts::{Phase, Seen};
use crate::runtime::{Core, Runtime, RuntimeError};

/// How far behind the stream, or the horizon of the log, may be before somebody should know.
const LATE: Millis = Millis::from_secs(10);

/// How often an order to make the stream anew is tried while its publisher changes.
const TRIES: usize = 10;

impl Runtime {
    /// What is wrong with the stream; nothing to say where there is none.
    pub(crate) fn stream_health(&self) -> Option<Result<(), Text>> {
        let seen = self.core.streaming()?.facts.seen();
        Some(match seen.phase {
            Phase::Troubled(trouble) => Err(trouble),
            Phase::Starting => Err("it has not begun yet".into()),
            Phase::Standby { .. } => Ok(()),
            Phase::Publishing => lateness(&seen).and(seen.unlike.map_or(Ok(()), Err)),
        })
    }

    /// Where the stream stands.
    pub async fn stream_status(&self) -> Result<StreamStatus, RuntimeError> {
        let store = &self.core.store;
        let now = self.now();
        let cursor = store.stream_cursor(&Text::from(CURSOR)).await?;
        let lag = match &cursor {
            Some(cursor) => Some(store.feed_lag(cursor.position).await?),
            None => None,
        };
        Ok(StreamStatus {
            owner: cursor.as_ref().and_then(|cursor| cursor.owner.clone()),
            epoch: cursor.as_ref().map(|cursor| cursor.epoch),
            position: cursor.as_ref().map(|cursor| cursor.position),
            log_epoch: store.log_epoch().await?.get(),
            stream_created_at: cursor.and_then(|cursor| cursor.stream_created_at),
            lag_events: lag.map_or(0, |lag| lag.events),
            lag_ms: lag
                .and_then(|lag| lag.oldest)
                .map_or(0, |oldest| now.since(oldest).as_ms()),
            horizon_age_ms: lag.map_or(0, |lag| lag.horizon_age(now).as_ms()),
            ..self.stream_here()
        })
    }

    /// What this process does about the stream, as it knows without the store. What the store knows is
    /// left empty.
    pub(crate) fn stream_here(&self) -> StreamStatus {
        let streaming = self.core.streaming();
        let seen = streaming.map(|streaming| streaming.facts.seen());
        let (state, trouble) = match seen.as_ref().map(|seen| &seen.phase) {
            None => ("off", None),
            Some(Phase::Starting) => ("starting", None),
            Some(Phase::Standby { .. }) => ("standby", None),
            Some(Phase::Publishing) => {
                let unlike = seen.as_ref().and_then(|seen| seen.unlike.clone());
                ("publishing", unlike)
            }
            Some(Phase::Troubled(trouble)) => ("troubled", Some(trouble.clone())),
        };
        let seen = seen.unwrap_or_default();
        let link = self.core.messaging.as_ref().map(|m| m.link().facts());
        StreamStatus {
            enabled: streaming.is_some(),
            state: state.into(),
            trouble,
            owner: None,
            epoch: None,
            position: None,
            log_epoch: 0,
            stream_created_at: None,
            lag_events: 0,
            lag_ms: 0,
            horizon_age_ms: 0,
            published: seen.published,
            duplicates: seen.duplicates,
            by_reference: seen.by_reference,
            parked: seen.parked,
            restored: seen.restored,
            rebuilds: seen.rebuilds,
            nats_connected: link.as_ref().is_some_and(|link| link.is_connected),
            nats_version: link.and_then(|link| link.version),
        }
    }

    /// Has the whole log published again. Whoever publishes begins anew within seconds.
    pub async fn rebuild_stream(&self) -> Result<StreamStatus, RuntimeError> {
        let store = &self.core.store;
        for _ in 0..TRIES {
            let Some(cursor) = store.stream_cursor(&Text::from(CURSOR)).await? else {
                return Err(RuntimeError::refused(
                    ErrorCode::NotFound,
                    "there is no stream yet; switch it on with NOETL_EVENT_STREAM_ENABLED",
                ));
            };
            let now = self.now();
            let restart = StreamMove::Restart {
                to: FeedPosition::default(),
                stream_created_at: cursor.stream_created_at,
            };
            // In the name of its publisher, who finds the cursor elsewhere and looks again.
            let mut epoch = cursor.epoch;
            if cursor.owner.is_none() || cursor.lease_until.is_none_or(|until| until <= now) {
                let take = StreamTake {
                    name: CURSOR.into(),
                    owner: self.core.instance.clone(),
                    now,
                    lease_until: now,
                    begin: StreamBegin::Beginning,
                };
                match store.take_stream(take).await? {
                    StreamTaken::Taken(taken) => epoch = taken.epoch,
                    StreamTaken::Held { .. } => continue,
                }
            }
            let owner = StreamOwner {
                name: CURSOR.into(),
                epoch,
                now,
            };
            if store.move_stream(owner, restart).await? {
                return self.stream_status().await;
            }
        }
        let text = "the stream changes hands all the time; try again later";
        Err(RuntimeError::refused(ErrorCode::StoreUnavailable, text))
    }

    /// An event as the stream would carry it, whatever its size.
    pub async fn streamed_event(
        &self,
        execution_id: ExecutionId,
        seq: Seq,
    ) -> Result<Vec<u8>, RuntimeError> {
        self.execution_row(execution_id).await?;
        let after = Version::new(seq.get() - 1).unwrap_or_default();
        let one = LogPage::clamped(1);
        let events = self.store().events(execution_id, after, one).await?;
        let event = events.iter().find(|event| event.record.seq == seq);
        let event = event
            .ok_or_else(|| RuntimeError::refused(ErrorCode::NotFound, "there is no such event"))?;
        Ok(body(&event.record))
    }

    /// The place behind all events that can be read now.
    pub async fn end_of_feed(&self) -> Result<FeedPosition, RuntimeError> {
        // Behind everything there is nothing to count.
        let everything = FeedPosition {
            tx: u64::MAX,
            position: i64::MAX,
        };
        Ok(self.store().feed_lag(everything).await?.end)
    }

    /// The place of the first event behind another, whether or not it can be read.
    pub(crate) async fn place_behind(
        &self,
        after: FeedPosition,
    ) -> Result<Option<FeedPosition>, RuntimeError> {
        let one = FeedLimit::clamped(1);
        let next = self.store().messages(after, one).await?.next;
        Ok((next != after).then_some(next))
    }

    /// Some of all events behind a place. Where there is nothing yet, it waits for a while.
    pub(crate) async fn wait_for_feed(
        &self,
        after: FeedPosition,
        limit: FeedLimit,
        patience: Duration,
    ) -> Result<FeedBatch, RuntimeError> {
        self.core.wait_for_feed(after, limit, patience).await
    }

    /// The feed of all events behind a place, which a caller resumes from where the last answer says.
    /// Where there is nothing yet, it waits for a while.
    pub async fn feed(
        &self,
        after: FeedPosition,
        limit: FeedLimit,
        patience: Duration,
    ) -> Result<FeedAnswer, RuntimeError> {
        let batch = self.core.wait_for_feed(after, limit, patience).await?;
        let (mut sight, mut events) = (self.sight(), Vec::new());
        for event in batch.events {
            let of = &event.record.event;
            if of.tenant_id == *self.tenant() && sight.has(of.execution_id).await? {
                // What the store has is JSON; were it not, the log itself would not fold.
                events.extend(json::parse(&body(&event.record)).ok());
            }
        }
        Ok(FeedAnswer {
            events,
            next: batch.next,
            is_full: batch.is_full,
        })
    }
}

/// How far behind the publisher is, where that is too far.
fn lateness(seen: &Seen) -> Result<(), Text> {
    let Some((lag, at)) = seen.lag else {
        return Ok(());
    };
    let behind = lag.oldest.map_or(Millis::ZERO, |oldest| at.since(oldest));
    if behind > LATE {
        let events = lag.events;
        return Err(format!("it is {behind} and {events} events behind").into());
    }
    let age = lag.horizon_age(at);
    if age > LATE {
        return Err(format!("a transaction holds the log back since {age}").into());
    }
    Ok(())
}

impl Core {
    async fn wait_for_feed(
        &self,
        after: FeedPosition,
        limit: FeedLimit,
        patience: Duration,
    ) -> Result<FeedBatch, RuntimeError> {
        // What another server has written may not be told here.
        let poll = Duration::from_millis(self.settings.sweep.as_ms() / 2);
        let deadline = tokio::time::Instant::now() + patience;
        let mut grown = self.appended.subscribe();
        loop {
            grown.mark_unchanged();
            let batch = self.store.feed(after, limit).await?;
            let left = deadline.saturating_duration_since(tokio::time::Instant::now());
            if batch.next != after || left.is_zero() || self.shutdown.is_cancelled() {
                return Ok(batch);
            }
            // Told or not, it is looked at again.
            drop(tokio::time::timeout(left.min(poll), grown.changed()).await);
        }
    }
}

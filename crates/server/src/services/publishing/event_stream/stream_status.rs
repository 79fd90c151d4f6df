//! Status of the event stream, and the feed for API clients.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use noetl_api::stream::{FeedResponse, StreamStatus};
use noetl_store::{
    CursorMove, FeedBatch, FeedLag, FeedLimit, LogPageLimit, StreamLeaseOutcome,
    StreamLeaseRequest, StreamOwner, StreamStart, encode_event_body,
};
use noetl_types::{
    ErrorCode, ExecutionId, ExecutionVersion, FeedPosition, Millis, Seq, Text, Timestamp, json,
};

use crate::access::{CallContext, ExecutionVisibility};
use crate::error::{Result, RuntimeError};
use crate::services::Publishing;
use crate::services::publishing::event_stream::CURSOR_NAME;

/// Lag of the stream, or age of the commit horizon, above which health is degraded.
const MAX_HEALTHY_LAG: Millis = Millis::from_secs(10);

/// Attempts at a rebuild request while the publisher changes.
const MAX_REBUILD_ATTEMPTS: usize = 10;

impl Publishing {
    /// Health of the event stream; `None` if it is disabled.
    pub(crate) fn stream_health(&self) -> Option<Result<(), Text>> {
        let current = self.event_stream()?.state.current_state();
        Some(match current.phase {
            PublisherPhase::Failed(error) => Err(error),
            PublisherPhase::Starting => Err("publishing has not started yet".into()),
            PublisherPhase::Standby { .. } => Ok(()),
            PublisherPhase::Publishing => {
                check_lag(&current).and(current.differences.map_or(Ok(()), Err))
            }
        })
    }

    /// Status of the event stream.
    pub async fn stream_status(&self) -> Result<StreamStatus> {
        let store = &self.infra.store;
        let now = self.infra.now();
        let cursor = store.find_stream_cursor(&Text::from(CURSOR_NAME)).await?;
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
                .map_or(0, |oldest| now.duration_since(oldest).as_ms()),
            horizon_age_ms: lag.map_or(0, |lag| lag.horizon_age(now).as_ms()),
            ..self.local_stream_status()
        })
    }

    /// Status of the event stream as this process knows it. Fields that need the store are left
    /// empty.
    pub(crate) fn local_stream_status(&self) -> StreamStatus {
        let streaming = self.event_stream();
        let current = streaming.map(|streaming| streaming.state.current_state());
        let (state, problem) = match current.as_ref().map(|current| &current.phase) {
            None => ("off", None),
            Some(PublisherPhase::Starting) => ("starting", None),
            Some(PublisherPhase::Standby { .. }) => ("standby", None),
            Some(PublisherPhase::Publishing) => {
                let differences = current.as_ref().and_then(|current| current.differences.clone());
                ("publishing", differences)
            }
            Some(PublisherPhase::Failed(problem)) => ("failing", Some(problem.clone())),
        };
        let current = current.unwrap_or_default();
        let connection =
            self.messaging.as_ref().map(|messaging| messaging.link().connection_info());
        StreamStatus {
            enabled: streaming.is_some(),
            state: state.into(),
            problem,
            owner: None,
            epoch: None,
            position: None,
            log_epoch: 0,
            stream_created_at: None,
            lag_events: 0,
            lag_ms: 0,
            horizon_age_ms: 0,
            published: current.published,
            duplicates: current.duplicates,
            by_reference: current.by_reference,
            undeliverable: current.unpublishable,
            restored: current.restored,
            rebuilds: current.rebuilds,
            nats_connected: connection.as_ref().is_some_and(|connection| connection.is_connected),
            nats_version: connection.and_then(|connection| connection.version),
        }
    }

    /// Requests that the whole log is published again. The publisher restarts within seconds.
    pub async fn request_stream_rebuild(&self) -> Result<StreamStatus> {
        let store = &self.infra.store;
        for _ in 0..MAX_REBUILD_ATTEMPTS {
            let Some(cursor) = store.find_stream_cursor(&Text::from(CURSOR_NAME)).await? else {
                return Err(RuntimeError::not_found(
                    "there is no event stream; enable it with NOETL_EVENT_STREAM_ENABLED",
                ));
            };
            let now = self.infra.now();
            let restart = CursorMove::Restart {
                to: FeedPosition::default(),
                stream_created_at: cursor.stream_created_at,
            };
            // Moves the cursor with the publisher's epoch. The publisher finds it at another
            // position and starts a new turn.
            let mut epoch = cursor.epoch;
            if cursor.owner.is_none() || cursor.lease_until.is_none_or(|until| until <= now) {
                let request = StreamLeaseRequest {
                    name: CURSOR_NAME.into(),
                    owner: self.infra.instance().clone(),
                    now,
                    lease_until: now,
                    begin: StreamStart::Beginning,
                };
                match store.lease_stream(request).await? {
                    StreamLeaseOutcome::Granted(granted) => epoch = granted.epoch,
                    StreamLeaseOutcome::Held { .. } => continue,
                }
            }
            let owner = StreamOwner { name: CURSOR_NAME.into(), epoch, now };
            if store.move_stream_cursor(owner, restart).await? {
                return self.stream_status().await;
            }
        }
        let text = "the publisher of the stream keeps changing; try again later";
        Err(RuntimeError::refused(ErrorCode::StoreUnavailable, text))
    }

    /// Returns an event in the form of the stream, regardless of its size.
    pub async fn streamed_event(
        &self,
        ctx: &CallContext,
        execution_id: ExecutionId,
        seq: Seq,
    ) -> Result<Vec<u8>> {
        ctx.visible_execution(self.infra.store(), execution_id).await?;
        let after = ExecutionVersion::new(seq.get() - 1).unwrap_or_default();
        let limit = LogPageLimit::clamped(1);
        let events = self.infra.store().read_events(execution_id, after, limit).await?;
        let event = events.iter().find(|event| event.record.seq == seq);
        let event = event.ok_or_else(|| RuntimeError::not_found("there is no such event"))?;
        Ok(encode_event_body(&event.record))
    }

    /// Position after all events that can be read now.
    pub async fn feed_end(&self) -> Result<FeedPosition> {
        // There is nothing to count after the last position.
        let last_position = FeedPosition { tx: u64::MAX, position: i64::MAX };
        Ok(self.infra.store().feed_lag(last_position).await?.end)
    }

    /// Position of the first event after another, even if it cannot be read.
    pub(crate) async fn next_feed_position(
        &self,
        after: FeedPosition,
    ) -> Result<Option<FeedPosition>> {
        let limit = FeedLimit::clamped(1);
        let next = self.infra.store().read_feed_messages(after, limit).await?.next;
        Ok((next != after).then_some(next))
    }

    /// Reads the events that the caller can see after a position. The caller resumes from the
    /// position in the answer. Waits for a while if there are none.
    pub async fn read_feed(
        &self,
        ctx: &CallContext,
        after: FeedPosition,
        limit: FeedLimit,
        timeout: Duration,
    ) -> Result<FeedResponse> {
        let batch = self.wait_for_feed(after, limit, timeout).await?;
        let (mut visibility, mut events) = (ExecutionVisibility::new(&self.infra, ctx), Vec::new());
        for event in batch.events {
            let stored = &event.record.event;
            if stored.tenant_id == *ctx.tenant()
                && visibility.is_visible(stored.execution_id).await?
            {
                // Stored events are valid JSON, or the log could not be replayed.
                events.extend(json::parse(&encode_event_body(&event.record)).ok());
            }
        }
        Ok(FeedResponse { events, next: batch.next, is_full: batch.is_full })
    }

    pub(crate) async fn wait_for_feed(
        &self,
        after: FeedPosition,
        limit: FeedLimit,
        timeout: Duration,
    ) -> Result<FeedBatch> {
        // An append of another server may not be notified here.
        let poll_interval = Duration::from_millis(self.infra.settings.sweep_interval.as_ms() / 2);
        let deadline = tokio::time::Instant::now() + timeout;
        let mut append_count = self.waiters.subscribe_log_growth();
        loop {
            append_count.mark_unchanged();
            let batch = self.infra.store.read_feed(after, limit).await?;
            let remaining = deadline.saturating_duration_since(tokio::time::Instant::now());
            if batch.next != after || remaining.is_zero() || self.infra.shutdown.is_cancelled() {
                return Ok(batch);
            }
            // The feed is read again in either case.
            drop(tokio::time::timeout(remaining.min(poll_interval), append_count.changed()).await);
        }
    }
}

/// Fails if the publisher is too far behind.
fn check_lag(current: &StreamState) -> Result<(), Text> {
    let Some((lag, measured_at)) = current.lag else {
        return Ok(());
    };
    let delay = lag.oldest.map_or(Millis::ZERO, |oldest| measured_at.duration_since(oldest));
    if delay > MAX_HEALTHY_LAG {
        let events = lag.events;
        return Err(format!("it is {delay} and {events} events behind the log").into());
    }
    let age = lag.horizon_age(measured_at);
    if age > MAX_HEALTHY_LAG {
        return Err(format!("a transaction open for {age} blocks the log").into());
    }
    Ok(())
}

/// Phase of the publisher in this process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum PublisherPhase {
    /// The first turn has not started.
    #[default]
    Starting,
    /// Another server publishes.
    Standby { owner: Text },
    /// This server publishes.
    Publishing,
    /// Publishing failed and is retried.
    Failed(Text),
}

/// Phase and counters since the process started, and the last measured lag.
#[derive(Debug, Clone, Default)]
pub(crate) struct StreamState {
    pub(crate) phase: PublisherPhase,
    /// Acknowledged messages.
    pub(crate) published: u64,
    /// Acknowledged messages that the broker already had.
    pub(crate) duplicates: u64,
    /// Messages that only refer to an event that is too large.
    pub(crate) by_reference: u64,
    /// Events that cannot be published, which were quarantined.
    pub(crate) unpublishable: u64,
    /// Messages that the broker had lost and that were published again.
    pub(crate) restored: u64,
    /// Number of rebuilds of the stream.
    pub(crate) rebuilds: u64,
    /// Differences between the stream at the broker and the settings.
    pub(crate) differences: Option<Text>,
    /// Last measured lag, and the time of the measurement.
    pub(crate) lag: Option<(FeedLag, Timestamp)>,
}

/// The stream state behind a lock.
#[derive(Debug, Default)]
pub(crate) struct SharedStreamState(Mutex<StreamState>);

impl SharedStreamState {
    fn lock_state(&self) -> MutexGuard<'_, StreamState> {
        // The state is consistent between any two changes.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn current_state(&self) -> StreamState {
        self.lock_state().clone()
    }

    pub(crate) fn update_state(&self, change: impl FnOnce(&mut StreamState)) {
        change(&mut self.lock_state());
    }

    pub(crate) fn enter_phase(&self, phase: PublisherPhase) {
        self.lock_state().phase = phase;
    }

    /// Records how the stream differs from the settings, and logs each new difference once.
    pub(crate) fn record_differences(&self, differences: Option<Text>) {
        let mut state = self.lock_state();
        if let Some(differences) = differences.as_ref().filter(|_| state.differences != differences)
        {
            tracing::warn!(%differences, "the event stream at the broker differs from the settings; change the stream or the settings");
        }
        state.differences = differences;
    }

    /// Records a failure. Returns true if it is a new one.
    pub(crate) fn record_failure(&self, error: Text) -> bool {
        let mut state = self.lock_state();
        let phase = PublisherPhase::Failed(error);
        let is_new = state.phase != phase;
        state.phase = phase;
        is_new
    }
}

//! The publisher of the event stream: leases the cursor, publishes events after it, moves it.

use std::sync::Arc;
use std::time::Duration;

use noetl_messaging::nats::{MessageRetention, NatsConnection};
use noetl_store::{
    CursorMove, FeedLimit, LogEpoch, MAX_FEED_BATCH_BYTES, StreamCursor, StreamLeaseOutcome,
    StreamOwner,
};
use noetl_types::{FeedPosition, Millis, Text, Timestamp};

use super::{CURSOR_LEASE_DURATION, CURSOR_LEASE_RENEW_INTERVAL, PublishError, TurnEnd};
use crate::services::Publishing;
use crate::services::publishing::event_stream::feed_reader::{FeedReadPlan, FeedReader};
use crate::services::publishing::event_stream::publish_session::PublishSession;
use crate::services::publishing::event_stream::reconcile::is_log_restored;
use crate::services::publishing::event_stream::stream_status::PublisherPhase;
use crate::services::publishing::event_stream::{CURSOR_NAME, EventStream, STREAM};

/// Maximum clock difference between broker and server, plus the time until an acknowledgement
/// arrives.
const MAX_CLOCK_DIFFERENCE: Millis = Millis::from_secs(60);

/// Publishes the stream while this server holds the lease of the cursor.
pub(crate) struct StreamPublisher<'p> {
    pub(crate) publishing: &'p Publishing,
    pub(crate) link: &'p NatsConnection,
    pub(crate) streaming: &'p EventStream,
    epoch: u64,
    pub(crate) log_epoch: LogEpoch,
    /// Position up to which everything is published.
    pub(crate) position: FeedPosition,
    /// Creation time of the stream at the broker, which identifies it.
    pub(crate) created_at: Timestamp,
    /// First message that the broker had when the turn began. It has lost those before.
    pub(crate) first_sequence: u64,
    /// Retention of messages at the broker.
    retention: Millis,
    /// Connection count when the stream was last checked.
    connection_count: u64,
    renew_at: Timestamp,
}

impl<'p> StreamPublisher<'p> {
    /// Publishes while this server holds the lease of the cursor.
    pub(crate) async fn run_turn(
        publishing: &'p Publishing,
        link: &'p NatsConnection,
        streaming: &'p EventStream,
    ) -> Result<TurnEnd, PublishError> {
        if !link.is_connected() {
            return Err(PublishError::NoConnection);
        }
        let request = publishing.cursor_request(streaming, CURSOR_LEASE_DURATION);
        let cursor = match publishing.infra.store.lease_stream(request).await? {
            StreamLeaseOutcome::Granted(cursor) => cursor,
            StreamLeaseOutcome::Held { owner, .. } => {
                streaming.state.enter_phase(PublisherPhase::Standby { owner });
                return Ok(TurnEnd::Standby);
            }
        };
        let epoch = cursor.epoch;
        let turn = Self::publish_with_cursor(publishing, link, streaming, cursor).await;
        let owner = StreamOwner { name: CURSOR_NAME.into(), epoch, now: publishing.infra.now() };
        // If this fails, the lease expires.
        drop(publishing.infra.store.release_stream_lease(owner).await);
        turn
    }

    async fn publish_with_cursor(
        publishing: &'p Publishing,
        link: &'p NatsConnection,
        streaming: &'p EventStream,
        cursor: StreamCursor,
    ) -> Result<TurnEnd, PublishError> {
        let connection_count = link.connect_count();
        let stream = link.ensure_stream(&streaming.settings.stream_spec()).await?;
        streaming.state.record_differences(streaming.settings.describe_differences(&stream));
        let store = &publishing.infra.store;
        let mut log_epoch = store.log_epoch().await?;
        let is_same_log = cursor.log_epoch == log_epoch;
        let is_restored = is_log_restored(&**store, link, &stream, log_epoch).await?;
        if is_restored {
            tracing::warn!(
                "the log does not have the newest event of the stream: it was restored from a \
                 backup, and a new log epoch starts"
            );
            log_epoch = store.start_log_epoch().await?;
        }
        let mut publisher = StreamPublisher {
            publishing,
            link,
            streaming,
            epoch: cursor.epoch,
            log_epoch,
            position: cursor.position,
            created_at: stream.created_at,
            first_sequence: stream.first_sequence,
            retention: if stream.max_age.is_zero() {
                streaming.settings.retention
            } else {
                Millis::from(stream.max_age)
            },
            connection_count,
            renew_at: publishing.infra.now().saturating_add(CURSOR_LEASE_RENEW_INTERVAL),
        };
        let holds_cursor = match cursor.stream_created_at {
            Some(created_at) if is_same_log && !is_restored && created_at == stream.created_at => {
                publisher.republish_lost(&stream).await?
            }
            // Nothing was published yet, so nothing can be lost.
            None if is_same_log => publisher.restart_at(cursor.position).await?,
            Some(_) | None => publisher.rebuild_stream().await?,
        };
        if !holds_cursor {
            return Ok(TurnEnd::Changed);
        }
        streaming.state.enter_phase(PublisherPhase::Publishing);
        publisher.run_session().await
    }

    /// Restarts the stream from the first event of the log.
    pub(crate) async fn rebuild_stream(&mut self) -> Result<bool, PublishError> {
        tracing::warn!("rebuilding the event stream from the log");
        self.streaming.state.update_state(|state| state.rebuilds += 1);
        self.restart_at(FeedPosition::default()).await
    }

    async fn restart_at(&mut self, to: FeedPosition) -> Result<bool, PublishError> {
        let restart = CursorMove::Restart { to, stream_created_at: Some(self.created_at) };
        self.position = to;
        Ok(self.publishing.infra.store.move_stream_cursor(self.cursor_owner(), restart).await?)
    }

    pub(crate) fn cursor_owner(&self) -> StreamOwner {
        StreamOwner {
            name: CURSOR_NAME.into(),
            epoch: self.epoch,
            now: self.publishing.infra.now(),
        }
    }

    async fn run_session(&mut self) -> Result<TurnEnd, PublishError> {
        let mut session = PublishSession::open_session(self.link).await?;
        let turn = self.publish_feed(&mut session).await;
        if !matches!(turn, Ok(TurnEnd::Changed)) {
            // Acknowledged events need not be published again, however the turn ended.
            drop(self.advance_cursor(&mut session).await);
        }
        turn
    }

    /// Sends the events of the feed, and moves the cursor over the acknowledged prefix.
    async fn publish_feed(
        &mut self,
        session: &mut PublishSession,
    ) -> Result<TurnEnd, PublishError> {
        let settings = &self.streaming.settings;
        let plan = FeedReadPlan {
            after: self.position,
            limit: FeedLimit::clamped(settings.batch),
            poll_interval: Duration::from_millis(settings.poll_interval.as_ms()),
        };
        let (store, append_count) = (
            Arc::clone(&self.publishing.infra.store),
            self.publishing.waiters.subscribe_log_growth(),
        );
        let mut pages = FeedReader::spawn_reader(store, append_count, plan);
        let mut link = self.link.clone();
        let mut unsent = Vec::new().into_iter();
        loop {
            if self.publishing.infra.shutdown.is_cancelled() {
                return Ok(TurnEnd::Shutdown);
            }
            if !self.is_unchanged(session).await? {
                return Ok(TurnEnd::Changed);
            }
            self.fill_window(session, &mut unsent).await?;
            let is_all_sent = unsent.len() == 0;
            if self.should_advance(session, is_all_sent) && !self.advance_cursor(session).await? {
                return Ok(TurnEnd::Changed);
            }
            tokio::select! {
                biased;
                () = self.publishing.infra.shutdown.cancelled() => {}
                () = link.wait_for_change() => {}
                ack = session.next_ack() => self.handle_acks(session, ack?).await?,
                page = pages.next_page(), if is_all_sent => match page {
                    Some(page) => unsent = page?.into_iter(),
                    None if self.publishing.infra.shutdown.is_cancelled() => return Ok(TurnEnd::Shutdown),
                    None => return Err(PublishError::ReaderPanicked),
                },
                () = tokio::time::sleep(Duration::from_millis(CURSOR_LEASE_RENEW_INTERVAL.as_ms())) => {}
            }
        }
    }

    /// True if moving the cursor is worth a write: after each batch, and when nothing is left to
    /// send.
    fn should_advance(&self, session: &PublishSession, is_all_sent: bool) -> bool {
        let batch = usize::try_from(self.streaming.settings.batch).unwrap_or(usize::MAX);
        let Some(prefix) = session.window.acked_prefix() else {
            return false;
        };
        let is_idle = is_all_sent && session.window.is_empty();
        is_idle || prefix.events >= batch || prefix.bytes >= MAX_FEED_BATCH_BYTES
    }

    /// Moves the cursor over the acknowledged prefix. Returns false if this server no longer holds
    /// it, or if it is at another position.
    async fn advance_cursor(&mut self, session: &mut PublishSession) -> Result<bool, PublishError> {
        let Some(prefix) = session.window.acked_prefix() else {
            return Ok(true);
        };
        self.verify_duplicates(session).await?;
        let forward = CursorMove::Forward { from: self.position, to: prefix.to };
        if !self.publishing.infra.store.move_stream_cursor(self.cursor_owner(), forward).await? {
            return Ok(false);
        }
        session.window.reset_acked_prefix();
        self.position = prefix.to;
        Ok(true)
    }

    /// Renews the lease when it is time. Returns false if this server no longer holds it, or if the
    /// process is shutting down.
    pub(crate) async fn renew_lease_if_due(&mut self) -> Result<bool, PublishError> {
        if self.publishing.infra.shutdown.is_cancelled() {
            return Ok(false);
        }
        let now = self.publishing.infra.now();
        if now < self.renew_at {
            return Ok(true);
        }
        self.renew_at = now.saturating_add(CURSOR_LEASE_RENEW_INTERVAL);
        let until = now.saturating_add(CURSOR_LEASE_DURATION);
        Ok(self.publishing.infra.store.renew_stream_lease(self.cursor_owner(), until).await?)
    }

    /// True if the cursor and the stream are unchanged. Checked at intervals, which also renews the
    /// lease.
    async fn is_unchanged(&mut self, session: &mut PublishSession) -> Result<bool, PublishError> {
        if !self.link.is_connected() {
            return Err(PublishError::NoConnection);
        }
        // A broker that was disconnected may have lost messages.
        if self.link.connect_count() != self.connection_count {
            return Ok(false);
        }
        let now = self.publishing.infra.now();
        if now < self.renew_at {
            return Ok(true);
        }
        if !self.renew_lease_if_due().await? {
            return Ok(false);
        }
        let store = &self.publishing.infra.store;
        let cursor = store.find_stream_cursor(&Text::from(CURSOR_NAME)).await?;
        if cursor.is_none_or(|cursor| cursor.position != self.position) {
            return Ok(false);
        }
        let lag = store.feed_lag(self.position).await?;
        self.streaming.state.update_state(|state| state.lag = Some((lag, now)));
        let stream = self.link.stream_info(STREAM).await?;
        let Some(stream) = stream.filter(|stream| stream.created_at == self.created_at) else {
            return Ok(false);
        };
        // Messages before this one are gone. Only their age should have removed them.
        let first = match stream.retention {
            MessageRetention::AgeOnly | MessageRetention::Limits if stream.messages == 0 => {
                u64::MAX
            }
            MessageRetention::AgeOnly => stream.first_sequence,
            MessageRetention::Limits | MessageRetention::Consumption => 0,
        };
        if session.broker_check.is_missing_message(first, self.certainly_kept_since()) {
            // An unexpired message is gone: the stream was purged.
            self.rebuild_stream().await?;
            return Ok(false);
        }
        Ok(true)
    }

    /// True if the broker still keeps messages of that time.
    pub(crate) fn is_within_retention(&self, time: Timestamp) -> bool {
        let age = self.publishing.infra.now().duration_since(time);
        age < self.retention
    }

    /// Returns a time such that the broker keeps everything stored later, for any allowed clock
    /// difference. A message is acknowledged later than it is stored, so one that is about to
    /// expire may be gone already.
    pub(crate) fn certainly_kept_since(&self) -> Timestamp {
        let half = Millis::from_ms(self.retention.as_ms() / 2);
        let certain_age = self.retention.saturating_sub(half.min(MAX_CLOCK_DIFFERENCE));
        self.publishing.infra.now().saturating_sub(certain_age)
    }
}

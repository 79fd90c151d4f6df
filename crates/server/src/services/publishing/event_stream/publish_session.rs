//! A publishing session: sends events to the broker in order, and handles the acknowledgement of
//! each.

use std::ops::RangeInclusive;
use std::time::Duration;
use std::vec::IntoIter;

use bytes::Bytes;
use noetl_messaging::nats::{
    NatsConnection, NumberedAck, OutgoingMessage, PublishFailure, PublishPipeline,
};
use noetl_store::{FeedItem, FeedMessage, QuarantinedItem, UnreadableEvent};
use noetl_types::json::to_canonical;
use noetl_types::{QuarantineId, Text};
use tokio::time::{Instant, timeout_at};

use super::PublishError;
use crate::services::publishing::event_stream::STREAM;
use crate::services::publishing::event_stream::in_flight::BrokerCheck;
use crate::services::publishing::event_stream::in_flight::{InFlightEvent, InFlightWindow};
use crate::services::publishing::event_stream::publisher::StreamPublisher;

/// Timeout for the acknowledgement of the first message in flight.
const ACK_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes that the broker counts besides the body: the headers, with a reserve.
const HEADER_RESERVE_BYTES: usize = 512;

/// Messages in flight on one connection.
pub(crate) struct PublishSession {
    pub(crate) window: InFlightWindow,
    pub(crate) broker_check: BrokerCheck,
    pipe: PublishPipeline,
    /// Stream sequences of messages that the broker reported as duplicates, until they were
    /// verified.
    duplicates: Vec<u64>,
    /// True once the broker has stored a message of this session. Until then one message is in
    /// flight: a broker whose stream was purged rejects all of them for a while.
    is_accepting: bool,
}

impl PublishSession {
    pub(crate) async fn open_session(link: &NatsConnection) -> Result<Self, PublishError> {
        Ok(Self {
            window: InFlightWindow::new(),
            broker_check: BrokerCheck::default(),
            pipe: link.open_pipeline(STREAM).await?,
            duplicates: Vec::new(),
            is_accepting: false,
        })
    }

    /// True if another event may be sent.
    fn has_room(&self) -> bool {
        self.window.has_room() && (self.is_accepting || self.window.is_empty())
    }

    /// Waits for the next acknowledgement. Cancel-safe.
    pub(crate) async fn next_ack(&mut self) -> Result<NumberedAck, PublishError> {
        let Some(since) = self.window.waiting_since() else {
            return std::future::pending().await;
        };
        let ack = timeout_at(since + ACK_TIMEOUT, self.pipe.next_ack()).await;
        ack.map_err(|_| PublishError::NoAcknowledgement)?.ok_or(PublishError::NoConnection)
    }
}

impl StreamPublisher<'_> {
    /// Sends events while the window has capacity.
    pub(crate) async fn fill_window(
        &self,
        session: &mut PublishSession,
        unsent: &mut IntoIter<FeedItem>,
    ) -> Result<(), PublishError> {
        let now = Instant::now();
        while session.has_room()
            && let Some(item) = unsent.next()
        {
            let message = match item {
                Ok(message) => message,
                Err(unreadable) => {
                    self.quarantine_unreadable(session, &unreadable).await?;
                    continue;
                }
            };
            let is_large =
                message.body.bytes.len() + HEADER_RESERVE_BYTES > self.link.max_payload();
            let number = session.window.add_event(message, is_large, now);
            self.send_event(session, number).await?;
        }
        Ok(())
    }

    /// Handles an acknowledgement, and all others that have arrived.
    pub(crate) async fn handle_acks(
        &self,
        session: &mut PublishSession,
        first: NumberedAck,
    ) -> Result<(), PublishError> {
        let (mut next, mut counts) = (Some(first), AckCounts::default());
        let mut outcome = Ok(());
        while let Some(ack) = next.take() {
            outcome = self.handle_ack(session, ack, &mut counts).await;
            if outcome.is_ok() {
                next = session.pipe.try_next_ack();
            }
        }
        if let Some(sequence) = counts.last {
            session.broker_check.record_stored(sequence, self.publishing.infra.now());
        }
        self.streaming.state.update_state(|state| {
            state.published += counts.messages;
            state.duplicates += counts.duplicates;
            state.by_reference += counts.by_reference;
        });
        outcome
    }

    async fn handle_ack(
        &self,
        session: &mut PublishSession,
        (number, outcome): NumberedAck,
        counts: &mut AckCounts,
    ) -> Result<(), PublishError> {
        let Some(event) = session.window.get(number) else {
            return Ok(());
        };
        match outcome {
            Ok(ack) => {
                counts.messages += 1;
                counts.by_reference += u64::from(event.by_reference);
                if ack.is_duplicate {
                    counts.duplicates += 1;
                    session.duplicates.push(ack.sequence);
                    if ack.sequence < self.first_sequence {
                        return Err(PublishError::LostDuplicate);
                    }
                } else {
                    counts.last = Some(ack.sequence);
                }
                session.is_accepting = true;
                session.window.acknowledge(number, Instant::now());
                Ok(())
            }
            Err(failure) => {
                if self.can_resend_as_reference(session, number, &failure).await? {
                    self.send_event(session, number).await?;
                }
                Ok(())
            }
        }
    }

    async fn send_event(
        &self,
        session: &mut PublishSession,
        number: u64,
    ) -> Result<(), PublishError> {
        while let Some(event) = session.window.get(number) {
            let sent = session.pipe.send_message(number, self.build_message(event)).await;
            let Err(failure) = sent else {
                return Ok(());
            };
            if !self.can_resend_as_reference(session, number, &failure).await? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Builds the message of an event: the event, or a reference to it.
    fn build_message(&self, event: &InFlightEvent) -> OutgoingMessage {
        let InFlightEvent { message, by_reference, .. } = event;
        OutgoingMessage {
            subject: message.subject.to_string(),
            message_id: message.message_id(self.log_epoch).to_string(),
            body: if *by_reference {
                Bytes::from(to_canonical(&message.body.to_reference_json()))
            } else {
                message.body.bytes.clone()
            },
        }
    }

    /// Returns true if a message that the broker rejected can be sent as a reference. One that can
    /// never be published is quarantined, so that it does not block others.
    async fn can_resend_as_reference(
        &self,
        session: &mut PublishSession,
        number: u64,
        failure: &PublishFailure,
    ) -> Result<bool, PublishError> {
        match failure {
            PublishFailure::Unconfirmed(error) => return Err(error.clone().into()),
            PublishFailure::NoStream => return Err(PublishError::NoStream),
            PublishFailure::TooLarge
                if session.window.resend_as_reference(number, Instant::now()) =>
            {
                return Ok(true);
            }
            PublishFailure::TooLarge | PublishFailure::Impossible(_) => {}
        }
        if let Some(event) = session.window.get(number) {
            let message_id = event.message.message_id(self.log_epoch);
            let reason = failure.to_string();
            tracing::error!(%message_id, reason, "an event cannot be published and is quarantined");
            self.quarantine_event(message_id, "unpublishable", reason.into()).await?;
        }
        session.window.acknowledge(number, Instant::now());
        Ok(false)
    }

    /// Quarantines an event that cannot be read.
    async fn quarantine_unreadable(
        &self,
        session: &mut PublishSession,
        event: &UnreadableEvent,
    ) -> Result<(), PublishError> {
        let UnreadableEvent { feed, reason } = event;
        let row = format!("position {} of log {}", feed.position, self.log_epoch.get());
        tracing::error!(row, %reason, "an event cannot be read and is quarantined");
        self.quarantine_event(row.into(), "unreadable", reason.clone()).await?;
        session.window.skip_event(*feed);
        Ok(())
    }

    async fn quarantine_event(
        &self,
        raw: Text,
        code: &str,
        message: Text,
    ) -> Result<(), PublishError> {
        let now = self.publishing.infra.now();
        let quarantine_id = self.publishing.infra.ids.mint_id::<QuarantineId>(now);
        let item = QuarantinedItem {
            quarantine_id: quarantine_id.map_err(|_| PublishError::NoIds)?,
            source: "stream".into(),
            raw,
            code: code.into(),
            message,
            created_at: now,
        };
        self.publishing.infra.store.quarantine_items(vec![item]).await?;
        self.streaming.state.update_state(|state| state.unpublishable += 1);
        Ok(())
    }

    /// Verifies that the broker still has the messages that it reported as duplicates: it remembers
    /// an id for a while even if the message is gone.
    pub(crate) async fn verify_duplicates(
        &self,
        session: &mut PublishSession,
    ) -> Result<(), PublishError> {
        let Some(oldest) = session.duplicates.iter().min() else {
            return Ok(());
        };
        let stream = self.link.stream_info(STREAM).await?;
        if stream.is_none_or(|stream| stream.first_sequence > *oldest) {
            return Err(PublishError::LostDuplicate);
        }
        session.duplicates.clear();
        Ok(())
    }

    /// Publishes events that a part of the stream lacks, in order. Afterwards all of them are at
    /// the broker, or quarantined. Returns the number that the broker already had in other parts of
    /// the stream.
    pub(crate) async fn publish_missing(
        &self,
        messages: Vec<FeedMessage>,
        missing_range: &RangeInclusive<u64>,
    ) -> Result<usize, PublishError> {
        let mut session = PublishSession::open_session(self.link).await?;
        let mut unsent = messages.into_iter().map(Ok).collect::<Vec<_>>().into_iter();
        loop {
            self.fill_window(&mut session, &mut unsent).await?;
            if session.window.is_empty() && unsent.len() == 0 {
                break;
            }
            let ack = session.next_ack().await?;
            self.handle_acks(&mut session, ack).await?;
        }
        let duplicates = session.duplicates.len();
        if session.duplicates.iter().any(|number| missing_range.contains(number)) {
            // It was missing a moment ago: the broker only remembers its id.
            return Err(PublishError::LostDuplicate);
        }
        self.verify_duplicates(&mut session).await?;
        Ok(duplicates)
    }
}

/// Counts of acknowledgements.
#[derive(Debug, Default)]
struct AckCounts {
    messages: u64,
    duplicates: u64,
    by_reference: u64,
    /// Sequence of the last message that was not a duplicate.
    last: Option<u64>,
}

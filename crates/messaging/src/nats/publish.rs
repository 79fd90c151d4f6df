//! Publishing of messages with a result for each.

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::{PublishAckFuture, PublishError, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use bytes::Bytes;

use super::connection::NatsConnection;
use super::error::NatsError;

/// Maximum messages in flight.
const MAX_IN_FLIGHT_MESSAGES: usize = 1_000;

/// Error code of a message that is larger than its stream allows.
pub(super) const MESSAGE_TOO_LARGE: u64 = 10_054;

/// A message to publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutgoingMessage {
    /// Subject of the message.
    pub subject: String,
    /// Message id for deduplication: the server drops a second message with the same id within the
    /// duplicate window.
    pub message_id: String,
    /// Body of the message.
    pub body: Bytes,
}

/// Acknowledgement that a stream has stored a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublishReceipt {
    /// Sequence number in the stream.
    pub sequence: u64,
    /// True if the stream already had the message.
    pub is_duplicate: bool,
}

/// Reason why a message is not confirmed as stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PublishFailure {
    /// Permanent: the message is larger than the server allows.
    #[error("the message is too large")]
    TooLarge,
    /// Permanent: the message cannot be sent.
    #[error("{0}")]
    Impossible(NatsError),
    /// The stream does not exist, or another stream has its subject.
    #[error("the stream does not exist, or another stream has its subject")]
    NoStream,
    /// The message may or may not be stored. Retry.
    #[error("{0}")]
    Unconfirmed(NatsError),
}

impl NatsConnection {
    /// Publishes messages in order to a stream, and waits for all acknowledgements. They are in
    /// flight together: a failed message does not stop the following ones.
    pub async fn publish_batch(
        &self,
        stream: &str,
        messages: Vec<OutgoingMessage>,
    ) -> Vec<Result<PublishReceipt, PublishFailure>> {
        let mut outcomes = Vec::with_capacity(messages.len());
        let mut messages = messages.into_iter().peekable();
        while messages.peek().is_some() {
            let mut acks = Vec::new();
            for message in messages.by_ref().take(MAX_IN_FLIGHT_MESSAGES) {
                acks.push(self.send_one(stream, message).await);
            }
            for ack in acks {
                outcomes.push(match ack {
                    Ok(ack_future) => ack_future.await.map_or_else(
                        |error| Err(to_publish_failure(&error)),
                        |ack| {
                            Ok(PublishReceipt {
                                sequence: ack.sequence,
                                is_duplicate: ack.duplicate,
                            })
                        },
                    ),
                    Err(failure) => Err(failure),
                });
            }
        }
        outcomes
    }

    async fn send_one(
        &self,
        stream: &str,
        message: OutgoingMessage,
    ) -> Result<PublishAckFuture, PublishFailure> {
        self.check_sendable(&message)?;
        let publish = PublishMessage::build()
            .payload(message.body)
            .message_id(message.message_id)
            .expected_stream(stream);
        let ack = self.jetstream.send_publish(message.subject, publish).await;
        ack.map_err(|error| to_publish_failure(&error))
    }

    /// Checks that a message can be sent now.
    pub(super) fn check_sendable(&self, message: &OutgoingMessage) -> Result<(), PublishFailure> {
        if !is_publishable_subject(&message.subject) {
            let text = format!("'{}' is not a valid subject", message.subject);
            return Err(PublishFailure::Impossible(NatsError::from_text(text)));
        }
        if !self.is_connected() {
            // A message that is not sent needs no acknowledgement timeout.
            let text = "not connected";
            return Err(PublishFailure::Unconfirmed(NatsError::from_text(text)));
        }
        Ok(())
    }
}

/// True if messages can be published to a subject.
fn is_publishable_subject(subject: &str) -> bool {
    async_nats::Subject::from(subject).is_valid() && !subject.contains(['*', '>'])
}

fn to_publish_failure(error: &PublishError) -> PublishFailure {
    match error.kind() {
        PublishErrorKind::MaxPayloadExceeded => PublishFailure::TooLarge,
        PublishErrorKind::StreamNotFound => PublishFailure::NoStream,
        PublishErrorKind::Other if is_too_large_error(error) => PublishFailure::TooLarge,
        PublishErrorKind::Other
        | PublishErrorKind::WrongLastMessageId
        | PublishErrorKind::WrongLastSequence
        | PublishErrorKind::TimedOut
        | PublishErrorKind::BrokenPipe
        | PublishErrorKind::MaxAckPending => {
            PublishFailure::Unconfirmed(NatsError::from_error(error))
        }
    }
}

/// True if a stream rejected a message because of its size.
fn is_too_large_error(error: &PublishError) -> bool {
    let rejection = std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<async_nats::jetstream::Error>());
    rejection.is_some_and(|rejection| rejection.error_code() == ErrorCode(MESSAGE_TOO_LARGE))
}

//! Messages go out, and it is known of each what became of it.

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::{PublishAckFuture, PublishError, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use bytes::Bytes;

use super::fault::NatsError;
use super::link::Link;

/// Messages that are on their way at once.
const WINDOW: usize = 1_000;

/// The error of a message that is larger than its stream takes.
pub(super) const MESSAGE_TOO_LARGE: u64 = 10_054;

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// Where it goes.
    pub subject: String,
    /// What it is known by: the server drops a second one within the duplicate window.
    pub message_id: String,
    /// What it says.
    pub body: Bytes,
}

/// A message that a stream has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// Its number in the stream.
    pub sequence: u64,
    /// Whether it was there before.
    pub is_duplicate: bool,
}

/// Why it is not known that a stream has a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PublishFailed {
    /// It never will: the message is larger than the server takes.
    #[error("the message is too large")]
    TooLarge,
    /// It never will: the message cannot be sent.
    #[error("{0}")]
    Impossible(NatsError),
    /// The stream is not there, or another one has its subject.
    #[error("the stream is not there, or another one has its subject")]
    NoStream,
    /// It may or may not; try again.
    #[error("{0}")]
    Unsure(NatsError),
}

impl Link {
    /// Publishes messages in their order to a stream, and waits for every answer. They are on their
    /// way together: a failed one does not stop those behind it.
    pub async fn publish(
        &self,
        stream: &str,
        messages: Vec<Outgoing>,
    ) -> Vec<Result<Stored, PublishFailed>> {
        let mut outcomes = Vec::with_capacity(messages.len());
        let mut messages = messages.into_iter().peekable();
        while messages.peek().is_some() {
            let mut sent = Vec::new();
            for message in messages.by_ref().take(WINDOW) {
                sent.push(self.send(stream, message).await);
            }
            for sent in sent {
                outcomes.push(match sent {
                    Ok(acknowledged) => acknowledged.await.map_or_else(
                        |error| Err(failure(&error)),
                        |ack| {
                            Ok(Stored {
                                sequence: ack.sequence,
                                is_duplicate: ack.duplicate,
                            })
                        },
                    ),
                    Err(failed) => Err(failed),
                });
            }
        }
        outcomes
    }

    async fn send(
        &self,
        stream: &str,
        message: Outgoing,
    ) -> Result<PublishAckFuture, PublishFailed> {
        self.can_send(&message)?;
        let publish = PublishMessage::build()
            .payload(message.body)
            .message_id(message.message_id)
            .expected_stream(stream);
        let sent = self.jetstream.send_publish(message.subject, publish).await;
        sent.map_err(|error| failure(&error))
    }

    /// Whether a message can go out now at all.
    pub(super) fn can_send(&self, message: &Outgoing) -> Result<(), PublishFailed> {
        if !is_subject(&message.subject) {
            let text = format!("'{}' is no subject", message.subject);
            return Err(PublishFailed::Impossible(NatsError::told(text)));
        }
        if !self.is_connected() {
            // What is not sent need not be waited for.
            let text = "there is no connection";
            return Err(PublishFailed::Unsure(NatsError::told(text)));
        }
        Ok(())
    }
}

/// Whether something can be published to a subject.
fn is_subject(subject: &str) -> bool {
    async_nats::Subject::from(subject).is_valid() && !subject.contains(['*', '>'])
}

fn failure(error: &PublishError) -> PublishFailed {
    match error.kind() {
        PublishErrorKind::MaxPayloadExceeded => PublishFailed::TooLarge,
        PublishErrorKind::StreamNotFound => PublishFailed::NoStream,
        PublishErrorKind::Other if is_too_large(error) => PublishFailed::TooLarge,
        PublishErrorKind::Other
        | PublishErrorKind::WrongLastMessageId
        | PublishErrorKind::WrongLastSequence
        | PublishErrorKind::TimedOut
        | PublishErrorKind::BrokenPipe
        | PublishErrorKind::MaxAckPending => PublishFailed::Unsure(NatsError::of(error)),
    }
}

/// Whether a stream refuses a message for its size.
fn is_too_large(error: &PublishError) -> bool {
    let refused = std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<async_nats::jetstream::Error>());
    refused.is_some_and(|refused| refused.error_code() == ErrorCode(MESSAGE_TOO_LARGE))
}

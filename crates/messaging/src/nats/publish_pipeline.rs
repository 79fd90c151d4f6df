//! Publishing of a sequence of messages, with acknowledgements received concurrently.
//!
//! All acknowledgements arrive at one inbox. A message is identified by the number that its sender
//! assigns. Nothing here waits for acknowledgements or counts missing ones. The sender does both.

use async_nats::client::PublishErrorKind;
use async_nats::header::{NATS_EXPECTED_STREAM, NATS_MESSAGE_ID};
use async_nats::jetstream::{self, ErrorCode};
use async_nats::{HeaderMap, StatusCode, Subscriber};
use futures_util::{FutureExt as _, StreamExt as _};
use serde::Deserialize;

use super::connection::NatsConnection;
use super::error::NatsError;
use super::publish::{MESSAGE_TOO_LARGE, OutgoingMessage, PublishFailure, PublishReceipt};

/// Pipeline that publishes to one stream.
#[derive(Debug)]
pub struct PublishPipeline {
    connection: NatsConnection,
    stream: String,
    /// Headers of every message, which name the expected stream. If another stream has the subject
    /// now, it rejects the message instead of storing it where no reader expects it.
    headers: HeaderMap,
    /// Prefix of the reply subjects, followed by the number of the message.
    reply_prefix: String,
    acks: Subscriber,
}

/// Result of the message with a number.
pub type NumberedAck = (u64, Result<PublishReceipt, PublishFailure>);

/// An acknowledgement as sent by the server.
#[derive(Deserialize)]
struct AckPayload<'t> {
    stream: Option<&'t str>,
    #[serde(default)]
    seq: u64,
    #[serde(default)]
    duplicate: bool,
    error: Option<jetstream::Error>,
}

impl NatsConnection {
    /// Opens a pipeline to a stream.
    pub async fn open_pipeline(&self, stream: &str) -> Result<PublishPipeline, NatsError> {
        let reply_prefix = format!("{}.", self.client.new_inbox());
        let acks = self.client.subscribe(format!("{reply_prefix}*")).await;
        let mut headers = HeaderMap::new();
        headers.insert(NATS_EXPECTED_STREAM, stream);
        Ok(PublishPipeline {
            connection: self.clone(),
            stream: stream.to_owned(),
            headers,
            reply_prefix,
            acks: acks.map_err(|error| NatsError::from_error(&error))?,
        })
    }
}

impl PublishPipeline {
    /// Sends a message. Its acknowledgement arrives with the given number.
    pub async fn send_message(
        &self,
        number: u64,
        message: OutgoingMessage,
    ) -> Result<(), PublishFailure> {
        self.connection.check_sendable(&message)?;
        let mut headers = self.headers.clone();
        headers.insert(NATS_MESSAGE_ID, message.message_id);
        let reply_subject = format!("{}{number}", self.reply_prefix);
        let publish = self
            .connection
            .client
            .publish_with_reply_and_headers(message.subject, reply_subject, headers, message.body);
        publish.await.map_err(|error| match error.kind() {
            PublishErrorKind::MaxPayloadExceeded => PublishFailure::TooLarge,
            PublishErrorKind::InvalidSubject => {
                PublishFailure::Impossible(NatsError::from_error(&error))
            }
            PublishErrorKind::Send => PublishFailure::Unconfirmed(NatsError::from_error(&error)),
        })
    }

    /// Returns the next acknowledgement, in the order of the server; `None` after the connection is
    /// closed permanently. Cancel safe: no acknowledgement is lost.
    pub async fn next_ack(&mut self) -> Option<NumberedAck> {
        loop {
            let message = self.acks.next().await?;
            if let Some(ack) = self.parse_ack(&message) {
                return Some(ack);
            }
        }
    }

    /// Returns an acknowledgement that has already arrived, without waiting.
    pub fn try_next_ack(&mut self) -> Option<NumberedAck> {
        self.next_ack().now_or_never().flatten()
    }

    fn parse_ack(&self, message: &async_nats::Message) -> Option<NumberedAck> {
        let number = message.subject.strip_prefix(&*self.reply_prefix)?;
        let number = number.parse().ok()?;
        if message.status == Some(StatusCode::NO_RESPONDERS) {
            return Some((number, Err(PublishFailure::NoStream)));
        }
        let outcome = match serde_json::from_slice::<AckPayload<'_>>(&message.payload) {
            Ok(payload) => self.ack_outcome(&payload),
            Err(error) => Err(PublishFailure::Unconfirmed(NatsError::from_error(&error))),
        };
        Some((number, outcome))
    }

    fn ack_outcome(&self, payload: &AckPayload<'_>) -> Result<PublishReceipt, PublishFailure> {
        match (&payload.error, payload.stream) {
            (Some(error), _) if error.error_code() == ErrorCode(MESSAGE_TOO_LARGE) => {
                Err(PublishFailure::TooLarge)
            }
            // Another stream has the subject now.
            (Some(error), _) if error.error_code() == ErrorCode::STREAM_NOT_MATCH => {
                Err(PublishFailure::NoStream)
            }
            (Some(error), _) => Err(PublishFailure::Unconfirmed(NatsError::from_error(error))),
            (None, Some(stream)) if stream == self.stream => {
                Ok(PublishReceipt { sequence: payload.seq, is_duplicate: payload.duplicate })
            }
            // Another stream stored it, or none.
            (None, Some(_) | None) => Err(PublishFailure::NoStream),
        }
    }
}

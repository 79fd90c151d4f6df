//! Messages that go out one behind the other, while what became of those before them comes in.
//!
//! All answers come to one address: a message is told apart by the number that its sender gives it.
//! Nothing here waits for an answer or counts those that are missing; its sender does both.

use async_nats::client::PublishErrorKind;
use async_nats::header::{NATS_EXPECTED_STREAM, NATS_MESSAGE_ID};
use async_nats::jetstream::{self, ErrorCode};
use async_nats::{HeaderMap, StatusCode, Subscriber};
use futures_util::{FutureExt as _, StreamExt as _};
use serde::Deserialize;

use super::fault::NatsError;
use super::link::Link;
use super::publish::{MESSAGE_TOO_LARGE, Outgoing, PublishFailed, Stored};

/// A way to a stream.
#[derive(Debug)]
pub struct Pipe {
    link: Link,
    stream: String,
    /// What every message says: that it is for this stream. Another one that has its subject by now
    /// refuses it, rather than keeping what nobody looks for there.
    headers: HeaderMap,
    /// Where answers come to, but for the number at the end.
    address: String,
    answers: Subscriber,
}

/// What became of the message of a number.
pub type Answer = (u64, Result<Stored, PublishFailed>);

/// An answer as the server writes it.
#[derive(Deserialize)]
struct Told<'t> {
    stream: Option<&'t str>,
    #[serde(default)]
    seq: u64,
    #[serde(default)]
    duplicate: bool,
    error: Option<jetstream::Error>,
}

impl Link {
    /// Opens a way to a stream.
    pub async fn pipe(&self, stream: &str) -> Result<Pipe, NatsError> {
        let address = format!("{}.", self.client.new_inbox());
        let answers = self.client.subscribe(format!("{address}*")).await;
        let mut headers = HeaderMap::new();
        headers.insert(NATS_EXPECTED_STREAM, stream);
        Ok(Pipe {
            link: self.clone(),
            stream: stream.to_owned(),
            headers,
            address,
            answers: answers.map_err(|error| NatsError::of(&error))?,
        })
    }
}

impl Pipe {
    /// Sends a message, whose answer comes under a number.
    pub async fn send(&self, number: u64, message: Outgoing) -> Result<(), PublishFailed> {
        self.link.can_send(&message)?;
        let mut headers = self.headers.clone();
        headers.insert(NATS_MESSAGE_ID, message.message_id);
        let address = format!("{}{number}", self.address);
        let sent = self.link.client.publish_with_reply_and_headers(
            message.subject,
            address,
            headers,
            message.body,
        );
        sent.await.map_err(|error| match error.kind() {
            PublishErrorKind::MaxPayloadExceeded => PublishFailed::TooLarge,
            PublishErrorKind::InvalidSubject => PublishFailed::Impossible(NatsError::of(&error)),
            PublishErrorKind::Send => PublishFailed::Unsure(NatsError::of(&error)),
        })
    }

    /// The next answer, in the order in which the server gives them; nothing once the connection is
    /// given up for good. Whoever stops waiting loses none.
    pub async fn answer(&mut self) -> Option<Answer> {
        loop {
            let message = self.answers.next().await?;
            if let Some(answer) = self.read(&message) {
                return Some(answer);
            }
        }
    }

    /// An answer that is there already.
    pub fn answered(&mut self) -> Option<Answer> {
        self.answer().now_or_never().flatten()
    }

    fn read(&self, message: &async_nats::Message) -> Option<Answer> {
        let number = message.subject.strip_prefix(&*self.address)?;
        let number = number.parse().ok()?;
        if message.status == Some(StatusCode::NO_RESPONDERS) {
            return Some((number, Err(PublishFailed::NoStream)));
        }
        let outcome = match serde_json::from_slice::<Told<'_>>(&message.payload) {
            Ok(told) => self.outcome(&told),
            Err(error) => Err(PublishFailed::Unsure(NatsError::of(&error))),
        };
        Some((number, outcome))
    }

    fn outcome(&self, told: &Told<'_>) -> Result<Stored, PublishFailed> {
        match (&told.error, told.stream) {
            (Some(error), _) if error.error_code() == ErrorCode(MESSAGE_TOO_LARGE) => {
                Err(PublishFailed::TooLarge)
            }
            // Another one has the subject by now.
            (Some(error), _) if error.error_code() == ErrorCode::STREAM_NOT_MATCH => {
                Err(PublishFailed::NoStream)
            }
            (Some(error), _) => Err(PublishFailed::Unsure(NatsError::of(error))),
            (None, Some(stream)) if stream == self.stream => Ok(Stored {
                sequence: told.seq,
                is_duplicate: told.duplicate,
            }),
            // Whatever took it, it is not in this one.
            (None, Some(_) | None) => Err(PublishFailed::NoStream),
        }
    }
}

//! What others say.

use bytes::Bytes;
use futures_util::StreamExt as _;

use super::fault::NatsError;
use super::link::Link;

/// A subscription. What is said while the connection is gone is not heard.
#[derive(Debug)]
pub struct Listening(async_nats::Subscriber);

impl Link {
    /// Hears what other processes say on subjects.
    pub async fn listen(&self, subject: &str) -> Result<Listening, NatsError> {
        let subscriber = self.client.subscribe(subject.to_owned()).await;
        subscriber
            .map(Listening)
            .map_err(|error| NatsError::of(&error))
    }
}

impl Listening {
    /// The next message; nothing once the connection is given up for good.
    pub async fn next(&mut self) -> Option<Bytes> {
        Some(self.0.next().await?.payload)
    }
}

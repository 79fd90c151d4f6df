//! Subscriptions to subjects.

use bytes::Bytes;
use futures_util::StreamExt as _;

use super::connection::NatsConnection;
use super::error::NatsError;

/// A subscription. Messages sent while the connection is down are lost.
#[derive(Debug)]
pub struct NatsSubscription(async_nats::Subscriber);

impl NatsConnection {
    /// Subscribes to messages of other processes.
    pub async fn subscribe(&self, subject: &str) -> Result<NatsSubscription, NatsError> {
        let subscriber = self.client.subscribe(subject.to_owned()).await;
        subscriber.map(NatsSubscription).map_err(|error| NatsError::from_error(&error))
    }
}

impl NatsSubscription {
    /// Returns the next message; `None` after the connection is closed permanently.
    pub async fn next(&mut self) -> Option<Bytes> {
        Some(self.0.next().await?.payload)
    }
}

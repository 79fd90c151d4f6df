//! NATS connection.
//!
//! Owns the connection, the streams of the platform, publishing with acknowledgements, and
//! subscriptions. Anything lost here is found in the store: callers retry.
//!
//! Must not depend on the content of events or commands.

mod connection;
mod error;
mod publish;
mod publish_pipeline;
mod stream;
mod subscription;
#[cfg(test)]
mod tests;

pub use connection::{ConnectionInfo, NatsAddressError, NatsConnection, NatsConnectionSettings};
pub use error::NatsError;
pub use publish::{OutgoingMessage, PublishFailure, PublishReceipt};
pub use publish_pipeline::{NumberedAck, PublishPipeline};
pub use stream::{ConsumerSpec, MessageRetention, StreamInfo, StreamSpec, StreamedMessage};
pub use subscription::NatsSubscription;

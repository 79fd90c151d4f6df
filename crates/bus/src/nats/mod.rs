//! The way to a NATS server.
//!
//! Owns the connection, the streams that the house uses, publishing with acknowledgements, and
//! listening. Whatever is lost here is found again in the store: callers repeat.
//!
//! Must not: know what an event or a command is.

mod fault;
mod link;
mod listen;
mod pipe;
mod publish;
mod stream;
#[cfg(test)]
mod tests;

pub use fault::NatsError;
pub use link::{Link, LinkFacts, LinkRefused, LinkSettings};
pub use listen::Listening;
pub use pipe::{Answer, Pipe};
pub use publish::{Outgoing, PublishFailed, Stored};
pub use stream::{ConsumerPlan, LetsGo, StreamFacts, StreamPlan};

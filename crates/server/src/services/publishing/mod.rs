//! Publishing of the log: as rows of the outbox, as a stream of NATS messages, and as a feed.

pub(crate) mod event_stream;
mod outbox;

use std::sync::Arc;

use crate::services::Infrastructure;
use crate::services::notifications::NatsMessaging;
use crate::services::waiters::Waiters;

/// Publishes the log: as rows of the outbox, as a stream of NATS messages, and as a feed.
pub struct Publishing {
    pub(crate) infra: Arc<Infrastructure>,
    /// NATS connection, if configured.
    pub(crate) messaging: Option<Arc<NatsMessaging>>,
    pub(crate) waiters: Arc<Waiters>,
}

//! Publishes the log as a stream of NATS messages.
//!
//! Every server runs the task, and the one that holds the lease of the cursor publishes. It reads
//! the feed of the store, which no late commit can change, and keeps a window of messages in flight
//! ahead of their acknowledgements. It moves the cursor over the acknowledged prefix. A crash
//! therefore repeats messages and skips none, and messages that the broker loses are published
//! again from the log.

mod feed_reader;
mod in_flight;
mod publish_session;
mod publisher;
mod reconcile;
mod stream_status;

use std::sync::Arc;
use std::time::Duration;

use noetl_messaging::nats::{NatsError, StreamInfo, StreamSpec};
use noetl_store::{StoreError, StreamLeaseOutcome, StreamLeaseRequest, StreamOwner, StreamStart};
use noetl_types::{Millis, Text};

use crate::error::error_chain;
use crate::rng;
use crate::services::Publishing;
use publisher::StreamPublisher;
use stream_status::SharedStreamState;

pub(crate) const CURSOR_NAME: &str = "event_stream_tailer";

/// Name of the JetStream stream.
pub(crate) const STREAM: &str = "noetl_events";

/// Lease of the publisher. It is renewed after a third of it.
const CURSOR_LEASE_DURATION: Millis = Millis::from_secs(15);
const CURSOR_LEASE_RENEW_INTERVAL: Millis = Millis::from_secs(5);

/// Delay before a new turn after the cursor or the stream has changed.
const NEW_TURN_DELAY: Duration = Duration::from_millis(50);

/// Retries within a duplicate window that the broker needs to forget lost messages.
const LOST_DUPLICATE_RETRIES: u32 = 16;

/// Settings of the event stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamSettings {
    /// Events per read, and between two moves of the cursor.
    pub batch: u32,
    /// Poll interval of the log without notifications.
    pub poll_interval: Millis,
    /// Starts a new stream with the first event of the log instead of the next one.
    pub backfill: bool,
    /// Window in which the broker deduplicates messages by id.
    pub duplicate_window: Millis,
    /// Retention of messages at the broker.
    pub retention: Millis,
}

impl Default for StreamSettings {
    fn default() -> Self {
        Self {
            batch: 500,
            poll_interval: Millis::from_ms(500),
            backfill: false,
            duplicate_window: Millis::from_secs(120),
            retention: Millis::from_days(1),
        }
    }
}

impl StreamSettings {
    fn stream_spec(&self) -> StreamSpec {
        StreamSpec {
            name: STREAM,
            // Events of other tenants have separate subjects, so that an account can be limited to
            // one tenant.
            subjects: &["noetl.events.>", "noetl.t.*.events.>"],
            max_age: Duration::from_millis(self.retention.as_ms()),
            duplicate_window: Duration::from_millis(self.duplicate_window.as_ms()),
        }
    }

    /// Describes how an existing stream differs from the settings.
    fn describe_differences(&self, stream: &StreamInfo) -> Option<Text> {
        let [max_age, window] = [stream.max_age, stream.duplicate_window].map(Millis::from);
        let mut differences = Vec::new();
        if !stream.is_on_disk {
            differences.push("it is stored in memory and lost when the broker stops".to_owned());
        }
        if max_age != self.retention {
            let actual =
                if max_age == Millis::ZERO { "unlimited".to_owned() } else { max_age.to_string() };
            let expected = self.retention;
            differences.push(format!("its max age is {actual} instead of {expected}"));
        }
        if window != self.duplicate_window {
            let (actual, expected) = (window, self.duplicate_window);
            differences.push(format!("its duplicate window is {actual} instead of {expected}"));
        }
        (!differences.is_empty()).then(|| differences.join("; ").into())
    }
}

/// The event stream of this server.
pub(crate) struct EventStream {
    pub(crate) settings: StreamSettings,
    pub(crate) state: SharedStreamState,
}

impl EventStream {
    pub(crate) fn new(settings: StreamSettings) -> Self {
        Self { settings, state: SharedStreamState::default() }
    }
}

/// Reason why publishing stops. All of them are retried.
#[derive(Debug, thiserror::Error)]
enum PublishError {
    #[error("the store: {}", error_chain(.0))]
    Store(#[from] StoreError),
    #[error(transparent)]
    Nats(#[from] NatsError),
    #[error("the NATS server cannot be reached")]
    NoConnection,
    #[error("the NATS server does not acknowledge messages")]
    NoAcknowledgement,
    #[error(
        "the NATS server has no stream {STREAM}: it was deleted, or another stream has its subjects"
    )]
    NoStream,
    #[error("the task that reads the log panicked and is restarted")]
    ReaderPanicked,
    #[error(
        "the broker rejects a lost message as a duplicate until its duplicate window has passed"
    )]
    LostDuplicate,
    #[error("no ids can be allocated now")]
    NoIds,
}

/// End of a turn at publishing.
enum TurnEnd {
    /// Another server publishes.
    Standby,
    /// The cursor or the stream has changed: start a new turn.
    Changed,
    /// The process ends.
    Shutdown,
}

impl Publishing {
    /// Creates the cursor at startup, even if the broker is down, so that everything written from
    /// now on is published.
    pub(crate) async fn create_stream_cursor(&self) -> Result<(), StoreError> {
        let Some(streaming) = self.event_stream() else {
            return Ok(());
        };
        let name = Text::from(CURSOR_NAME);
        if self.infra.store.find_stream_cursor(&name).await?.is_some() {
            return Ok(());
        }
        let request = self.cursor_request(streaming, Millis::ZERO);
        let now = request.now;
        if let StreamLeaseOutcome::Granted(cursor) = self.infra.store.lease_stream(request).await? {
            let epoch = cursor.epoch;
            let owner = StreamOwner { name, epoch, now };
            self.infra.store.release_stream_lease(owner).await?;
        }
        Ok(())
    }

    /// Builds the request for the lease of the cursor.
    fn cursor_request(&self, streaming: &EventStream, lease: Millis) -> StreamLeaseRequest {
        let now = self.infra.now();
        StreamLeaseRequest {
            name: CURSOR_NAME.into(),
            owner: self.infra.instance().clone(),
            now,
            lease_until: now.saturating_add(lease),
            begin: if streaming.settings.backfill {
                StreamStart::Beginning
            } else {
                StreamStart::Now
            },
        }
    }

    /// Publishes the log until shutdown. Every failure, even a panic, is logged and retried.
    pub(crate) async fn stream_loop(self: Arc<Self>) {
        loop {
            let this = Arc::clone(&self);
            match tokio::spawn(async move { this.publish_turn_loop().await }).await {
                Ok(()) => return,
                Err(error) => {
                    tracing::error!(%error, "the event stream task panicked");
                    if let Some(streaming) = self.event_stream() {
                        streaming.state.record_failure("its task panicked and is restarted".into());
                    }
                }
            }
            if !self.infra.sleep_unless_shutdown(Duration::from_secs(1)).await {
                return;
            }
        }
    }

    /// True if NATS is connected; `None` if it is not configured.
    pub(crate) fn is_nats_connected(&self) -> Option<bool> {
        self.messaging.as_ref().map(|messaging| messaging.is_connected())
    }

    /// Health of the NATS connection; `None` if it is not configured.
    pub(crate) fn messaging_health(&self) -> Option<Result<(), Text>> {
        let messaging = self.messaging.as_ref()?;
        Some(messaging.connection_problem().map_or(Ok(()), Err))
    }

    /// True if the event stream is enabled and the broker is connected.
    pub(crate) fn is_stream_connected(&self) -> bool {
        self.event_stream().is_some() && self.is_nats_connected() == Some(true)
    }

    fn event_stream(&self) -> Option<&EventStream> {
        self.messaging.as_ref()?.event_stream.as_ref()
    }

    async fn publish_turn_loop(&self) {
        let (Some(messaging), Some(streaming)) = (&self.messaging, self.event_stream()) else {
            return;
        };
        let mut link = messaging.link().clone();
        let mut failures = 0;
        loop {
            let turn = StreamPublisher::run_turn(self, messaging.link(), streaming).await;
            let wait = match turn {
                Ok(TurnEnd::Shutdown) => return,
                Ok(TurnEnd::Changed) => {
                    failures = 0;
                    NEW_TURN_DELAY
                }
                Ok(TurnEnd::Standby) => {
                    failures = 0;
                    Duration::from_millis(CURSOR_LEASE_RENEW_INTERVAL.as_ms())
                }
                Err(error) => {
                    if streaming.state.record_failure(error.to_string().into()) {
                        tracing::warn!(%error, "publishing the event stream failed; retrying");
                    }
                    failures += 1;
                    let delay = rng::backoff_delay(&*self.infra.rng, failures);
                    match error {
                        PublishError::LostDuplicate => {
                            let window = Duration::from(streaming.settings.duplicate_window);
                            delay.max(window / LOST_DUPLICATE_RETRIES)
                        }
                        _ => delay,
                    }
                }
            };
            tokio::select! {
                biased;
                () = self.infra.shutdown.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
                // Retries at once when the connection comes back.
                () = link.wait_for_change() => {}
            }
        }
    }
}

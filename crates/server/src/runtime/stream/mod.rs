//! The log goes out as a stream of messages.
//!
//! Every server has the task, and one at a time publishes: whoever holds the lease of the cursor. It
//! reads the feed of the store, which no late commit can change, and sends what is there, always some
//! messages ahead of their acknowledgements; behind those that have nothing open before them it moves
//! the cursor. So a crash repeats messages and skips none, and whatever the broker loses is published
//! again from the log.

mod facts;
mod flight;
mod pages;
mod publisher;
mod reconcile;
mod sending;
mod status;
mod witness;

use std::sync::Arc;
use std::time::Duration;

use noetl_bus::nats::{NatsError, StreamFacts, StreamPlan};
use noetl_store::{StoreError, StreamBegin, StreamOwner, StreamTake, StreamTaken};
use noetl_types::{Millis, Text};

pub(super) use facts::Facts;

use super::error::causes;
use super::{Core, entropy};
use publisher::Publisher;

/// The name of the cursor.
pub(super) const CURSOR: &str = "event_stream_tailer";

/// The stream at the broker.
pub(super) const STREAM: &str = "noetl_events";

/// For how long one server is the publisher unless it says that it lives; a third of it passes
/// between two such signs.
const LEASE: Millis = Millis::from_secs(15);
const RENEW: Millis = Millis::from_secs(5);

/// How long a publisher waits before it looks at what has changed.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// How the log is streamed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamSettings {
    /// Events that are read together, and between two moves of the cursor.
    pub batch: u32,
    /// How often the log is looked at when nobody says that it has grown.
    pub poll: Millis,
    /// Whether a new stream begins with the first event rather than with the next one.
    pub backfill: bool,
    /// For how long the broker knows a message that it has already.
    pub duplicate_window: Millis,
    /// How long the broker keeps a message.
    pub retention: Millis,
}

impl Default for StreamSettings {
    fn default() -> Self {
        Self {
            batch: 500,
            poll: Millis::from_ms(500),
            backfill: false,
            duplicate_window: Millis::from_secs(120),
            retention: Millis::from_days(1),
        }
    }
}

impl StreamSettings {
    fn plan(&self) -> StreamPlan {
        StreamPlan {
            name: STREAM,
            // Those of other tenants have their own place, which an account of theirs may be let into.
            subjects: &["noetl.events.>", "noetl.t.*.events.>"],
            max_age: Duration::from_millis(self.retention.as_ms()),
            duplicate_window: Duration::from_millis(self.duplicate_window.as_ms()),
        }
    }
}

impl StreamSettings {
    /// What a stream that was there has otherwise than it is set.
    fn unlike(&self, stream: &StreamFacts) -> Option<Text> {
        let [max_age, window] = [stream.max_age, stream.duplicate_window].map(Millis::from);
        let mut unlike = Vec::new();
        if !stream.is_on_disk {
            unlike.push("it is kept in memory, and is gone with the broker".to_owned());
        }
        if max_age != self.retention {
            let is = if max_age == Millis::ZERO {
                "ever".to_owned()
            } else {
                max_age.to_string()
            };
            let set = self.retention;
            unlike.push(format!("it keeps a message for {is}, and {set} is set"));
        }
        if window != self.duplicate_window {
            let (is, set) = (window, self.duplicate_window);
            unlike.push(format!("it knows a message for {is}, and {set} is set"));
        }
        (!unlike.is_empty()).then(|| unlike.join("; ").into())
    }
}

/// The stream of a server.
pub(super) struct Streaming {
    pub(super) settings: StreamSettings,
    pub(super) facts: Facts,
}

impl Streaming {
    pub(super) fn new(settings: StreamSettings) -> Self {
        Self {
            settings,
            facts: Facts::default(),
        }
    }
}

/// Why publishing stops for now. All of it is tried again.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("the store: {}", causes(.0))]
    Store(#[from] StoreError),
    #[error(transparent)]
    Nats(#[from] NatsError),
    #[error("the NATS server cannot be reached")]
    NoConnection,
    #[error("the NATS server does not acknowledge what it is sent")]
    Silence,
    #[error(
        "the NATS server has no stream {STREAM} for the events: it was deleted, or another stream has its subjects"
    )]
    NoStream,
    #[error("the reading of the log broke off by a mistake in the code, and begins again")]
    Reading,
    #[error("the broker takes a message for one that it no longer has, until it forgets its id")]
    Remembered,
    #[error("no ids can be made now")]
    NoIds,
}

/// How a turn at publishing ended.
enum Turn {
    /// Somebody else publishes.
    Held,
    /// The cursor or the stream is not what it was: look again.
    Changed,
    /// The process ends.
    Over,
}

impl Core {
    /// Notes where the stream begins, whether or not its broker is there: whatever is written from now
    /// on is published.
    pub(super) async fn begin_stream(&self) -> Result<(), StoreError> {
        let Some(streaming) = self.streaming() else {
            return Ok(());
        };
        let name = Text::from(CURSOR);
        if self.store.stream_cursor(&name).await?.is_some() {
            return Ok(());
        }
        let take = self.take_of(streaming, Millis::ZERO);
        let now = take.now;
        if let StreamTaken::Taken(cursor) = self.store.take_stream(take).await? {
            let epoch = cursor.epoch;
            let owner = StreamOwner { name, epoch, now };
            self.store.release_stream(owner).await?;
        }
        Ok(())
    }

    /// How this server asks for the stream.
    fn take_of(&self, streaming: &Streaming, lease: Millis) -> StreamTake {
        let now = self.clock.now();
        StreamTake {
            name: CURSOR.into(),
            owner: self.instance.clone(),
            now,
            lease_until: now.saturating_add(lease),
            begin: if streaming.settings.backfill {
                StreamBegin::Beginning
            } else {
                StreamBegin::Now
            },
        }
    }

    /// Publishes the log, for as long as the process lives. Whatever goes wrong, even a mistake in the
    /// code, is told and tried again.
    pub(super) async fn stream_for_ever(self: Arc<Self>) {
        loop {
            let core = Arc::clone(&self);
            match tokio::spawn(async move { core.take_turns_at_streaming().await }).await {
                Ok(()) => return,
                Err(error) => {
                    tracing::error!(%error, "the stream of events broke off");
                    if let Some(streaming) = self.streaming() {
                        streaming
                            .facts
                            .troubled("it broke off and begins again".into());
                    }
                }
            }
            if !self.pause(Duration::from_secs(1)).await {
                return;
            }
        }
    }

    /// Whether the log goes out as a stream, and its broker is there now.
    pub(super) fn has_stream(&self) -> bool {
        self.streaming().is_some()
            && self
                .messaging
                .as_ref()
                .is_some_and(|messaging| messaging.link().facts().is_connected)
    }

    fn streaming(&self) -> Option<&Streaming> {
        self.messaging.as_ref()?.streaming.as_ref()
    }

    async fn take_turns_at_streaming(&self) {
        let (Some(messaging), Some(streaming)) = (&self.messaging, self.streaming()) else {
            return;
        };
        let mut link = messaging.link().clone();
        let mut tries = 0;
        loop {
            let turn = Publisher::take_turn(self, messaging.link(), streaming).await;
            let wait = match turn {
                Ok(Turn::Over) => return,
                Ok(Turn::Changed) => {
                    tries = 0;
                    LOOK_AGAIN
                }
                Ok(Turn::Held) => {
                    tries = 0;
                    Duration::from_millis(RENEW.as_ms())
                }
                Err(trouble) => {
                    if streaming.facts.troubled(trouble.to_string().into()) {
                        tracing::warn!(%trouble, "the stream of events falls behind");
                    }
                    tries += 1;
                    entropy::backoff(&*self.chance, tries)
                }
            };
            tokio::select! {
                biased;
                () = self.shutdown.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
                // A connection that comes back need not be waited for.
                () = link.changed() => {}
            }
        }
    }
}

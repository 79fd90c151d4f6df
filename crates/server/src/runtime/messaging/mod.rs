//! What goes to other processes by NATS, and what comes from them.
//!
//! Commands that nobody in this process took are told to workers, and servers whose workers wait are
//! woken. All of it is a hint: whoever misses one finds the command in the store a little later.

mod hear;
mod notify;

use std::time::Duration;

use noetl_bus::nats::{Link, LinkFacts, LinkSettings, StreamPlan};
use noetl_types::{ErrorCode, Text};
use tokio::sync::mpsc;

pub(super) use hear::SUBJECTS as HEARD;
pub(super) use notify::Notice;

use super::error::RuntimeError;
use super::stream::{StreamSettings, Streaming};

/// The stream of wake-ups. What is an hour old wakes nobody: the store has it.
pub(super) const COMMANDS: StreamPlan = StreamPlan {
    name: "noetl_commands",
    // Those of other tenants have their own place, as their events have.
    subjects: &["noetl.commands", "noetl.commands.>", "noetl.t.*.commands.>"],
    max_age: Duration::from_hours(1),
    duplicate_window: Duration::from_mins(2),
};

/// Notices that wait to be sent. More are dropped, and found again by the sweep.
const MOST_NOTICES: usize = 10_000;

/// How NATS is used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NatsSettings {
    /// Where the server is.
    pub link: LinkSettings,
    /// Whether the commands of the pool `shared` are also told on the bare subject, for workers that
    /// listen nowhere else.
    pub bare_subject: bool,
    /// How the log is streamed; not at all where absent.
    pub stream: Option<StreamSettings>,
}

/// The way to others.
pub(super) struct Messaging {
    link: Link,
    bare_subject: bool,
    notices: mpsc::Sender<Notice>,
    /// The stream of the log, where it is on.
    pub(super) streaming: Option<Streaming>,
}

impl Messaging {
    /// Begins to connect. The server may come later.
    pub(super) async fn open(
        settings: &NatsSettings,
    ) -> Result<(Self, mpsc::Receiver<Notice>), RuntimeError> {
        let link = Link::open(settings.link.clone())
            .await
            .map_err(|refused| RuntimeError::refused(ErrorCode::Validation, refused.to_string()))?;
        let (notices, waiting) = mpsc::channel(MOST_NOTICES);
        let messaging = Self {
            link,
            bare_subject: settings.bare_subject,
            notices,
            streaming: settings.stream.clone().map(Streaming::new),
        };
        Ok((messaging, waiting))
    }

    /// The connection.
    pub(super) fn link(&self) -> &Link {
        &self.link
    }

    /// Tells workers of commands, soon. Nobody waits for it, and nothing comes of it where too many
    /// wait already.
    pub(super) fn tell(&self, notices: Vec<Notice>) {
        for notice in notices {
            if self.notices.try_send(notice).is_err() {
                return;
            }
        }
    }

    /// What is wrong with the connection, if anything.
    pub(super) fn trouble(&self) -> Option<Text> {
        let LinkFacts {
            is_connected,
            version,
            is_weak,
            ..
        } = self.link.facts();
        if !is_connected {
            return Some("the NATS server cannot be reached".into());
        }
        let version = version.filter(|_| is_weak)?;
        let text = format!(
            "NATS {version} may lose what it has acknowledged when its machine fails; use 2.10.23 \
             or newer with sync_interval: always"
        );
        Some(text.into())
    }
}

//! Messages to and from other processes over NATS.
//!
//! Commands that no local worker took are announced to workers, and servers with waiting workers
//! are woken. All messages are hints: a process that misses one finds the command in the store a
//! little later.

mod command_notifier;

use std::time::Duration;

use noetl_messaging::nats::{ConnectionInfo, NatsConnection, NatsConnectionSettings, StreamSpec};
use noetl_types::Text;
use tokio::sync::mpsc;

use crate::error::{Result, RuntimeError};
use crate::services::publishing::event_stream::{EventStream, StreamSettings};
pub(crate) use command_notifier::{CommandNotification, CommandNotifier, NOTIFICATION_SUBJECTS};

/// Stream of command notifications. They expire after an hour, since the store has the commands.
pub(crate) const COMMAND_STREAM: StreamSpec = StreamSpec {
    name: "noetl_commands",
    // Commands of other tenants have separate subjects, as their events have.
    subjects: &["noetl.commands", "noetl.commands.>", "noetl.t.*.commands.>"],
    max_age: Duration::from_hours(1),
    duplicate_window: Duration::from_mins(2),
};

/// Maximum queued notifications. Further ones are dropped, and sent later by the sweep.
const MAX_QUEUED_NOTIFICATIONS: usize = 10_000;

/// NATS settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NatsSettings {
    /// Connection to the NATS server.
    pub link: NatsConnectionSettings,
    /// Also announces commands of the pool `shared` on the bare subject, for workers that subscribe
    /// to no other.
    pub bare_subject: bool,
    /// Sends no command tokens to a NATS server that accepts clients without credentials, because
    /// any of them could read the tokens.
    pub requires_auth: bool,
    /// Settings of the event stream. If absent, the log is not streamed.
    pub stream: Option<StreamSettings>,
}

/// The NATS connection of the server.
pub(crate) struct NatsMessaging {
    link: NatsConnection,
    bare_subject: bool,
    requires_auth: bool,
    notifications: mpsc::Sender<CommandNotification>,
    /// Event stream, if enabled.
    pub(crate) event_stream: Option<EventStream>,
}

impl NatsMessaging {
    /// Starts to connect. The NATS server may become available later.
    pub(crate) async fn open(
        settings: &NatsSettings,
    ) -> Result<(Self, mpsc::Receiver<CommandNotification>)> {
        let link = NatsConnection::connect(settings.link.clone())
            .await
            .map_err(|error| RuntimeError::invalid(error.to_string()))?;
        let (notifications, receiver) = mpsc::channel(MAX_QUEUED_NOTIFICATIONS);
        let messaging = Self {
            link,
            bare_subject: settings.bare_subject,
            requires_auth: settings.requires_auth,
            notifications,
            event_stream: settings.stream.clone().map(EventStream::new),
        };
        Ok((messaging, receiver))
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.link.connection_info().is_connected
    }

    /// True if command tokens may be sent over the connection as it is now.
    pub(crate) fn may_carry_tokens(&self) -> bool {
        !(self.requires_auth && self.link.connection_info().is_open)
    }

    pub(crate) fn link(&self) -> &NatsConnection {
        &self.link
    }

    /// Queues notifications of commands without waiting. Drops them if the queue is full.
    pub(crate) fn queue_notifications(&self, notifications: Vec<CommandNotification>) {
        for notification in notifications {
            if self.notifications.try_send(notification).is_err() {
                return;
            }
        }
    }

    /// Describes a problem of the connection, if any.
    pub(crate) fn connection_problem(&self) -> Option<Text> {
        let ConnectionInfo { is_connected, version, is_outdated, is_open, .. } =
            self.link.connection_info();
        if !is_connected {
            return Some("the NATS server cannot be reached".into());
        }
        if is_open && self.requires_auth {
            return Some(
                "the NATS server requires no credentials, so notifications contain no command \
                 tokens and workers of earlier releases cannot claim commands; configure its \
                 accounts, or set NOETL_NATS_COMMAND_TOKENS=off"
                    .into(),
            );
        }
        let version = version.filter(|_| is_outdated)?;
        let text = format!(
            "NATS {version} may lose acknowledged messages when its machine fails; use 2.10.23 or \
             newer with sync_interval: always"
        );
        Some(text.into())
    }
}

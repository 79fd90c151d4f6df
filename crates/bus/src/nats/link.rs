//! One connection to a server, kept for ever.

use std::fmt;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::Context;
use async_nats::jetstream::context::ContextBuilder;
use async_nats::{Client, ConnectOptions, Event};
use noetl_types::Text;
use tokio::sync::watch;

/// How long a server may take to answer or to acknowledge.
const PATIENCE: Duration = Duration::from_secs(5);

/// The oldest server that keeps what it acknowledges when it is told to sync always. Older ones
/// have no such setting, or lose messages in spite of it.
const SOUND: (u64, u64, u64) = (2, 10, 23);

/// Where the server is, and who we are there.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct LinkSettings {
    /// `nats://` or `tls://`, several separated by commas.
    pub url: String,
    /// A user with a password.
    pub user: Option<(String, String)>,
    /// A token.
    pub token: Option<String>,
    /// What the server shows of this connection.
    pub name: String,
}

/// An address may hold a password, so nothing of it is shown.
impl fmt::Debug for LinkSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkSettings")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Why there will never be a connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the address of the NATS server cannot be used: {0}")]
pub struct LinkRefused(Text);

/// A connection. It is there from the start, whether the server is or not, and comes back by itself.
/// A clone is another handle of the same.
#[derive(Clone)]
pub struct Link {
    pub(super) client: Client,
    pub(super) jetstream: Context,
    changes: watch::Receiver<u64>,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("facts", &self.facts())
            .finish_non_exhaustive()
    }
}

/// What is known of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkFacts {
    /// Whether it is there now.
    pub is_connected: bool,
    /// How often it has been made. It grows whenever a server was gone.
    pub connects: u64,
    /// The version of the server, once it has told it.
    pub version: Option<Text>,
    /// Whether the server is older than those that keep what they acknowledge.
    pub is_weak: bool,
    /// The largest message that the server takes, headers and all.
    pub max_payload: usize,
}

impl Link {
    /// Begins to connect. A server that is not there yet is waited for in the background.
    pub async fn open(settings: LinkSettings) -> Result<Self, LinkRefused> {
        let (told, changes) = watch::channel(0);
        let mut options = ConnectOptions::new()
            .name(&settings.name)
            .retry_on_initial_connect()
            .max_reconnects(None)
            // What this process publishes it knows already.
            .no_echo()
            .event_callback(move |event| {
                if !matches!(event, Event::ClientError(_)) {
                    tracing::info!(%event, "NATS");
                }
                told.send_modify(|count| *count += 1);
                std::future::ready(())
            });
        if let Some((user, password)) = settings.user {
            options = options.user_and_password(user, password);
        }
        if let Some(token) = settings.token {
            options = options.token(token);
        }
        let addresses: Vec<&str> = settings.url.split(',').map(str::trim).collect();
        let client = options
            .connect(&*addresses)
            .await
            .map_err(|error| LinkRefused(error.kind().to_string().into()))?;
        let jetstream = ContextBuilder::new()
            .timeout(PATIENCE)
            .backpressure_on_inflight(true)
            .build(client.clone());
        Ok(Self {
            client,
            jetstream,
            changes,
        })
    }

    /// What is known now.
    pub fn facts(&self) -> LinkFacts {
        let info = self.client.try_server_info();
        let version = info.map(|info| Text::from(info.version));
        LinkFacts {
            is_connected: self.is_connected(),
            connects: self.connects(),
            is_weak: version.as_ref().is_some_and(|version| is_weak(version)),
            version,
            max_payload: self.max_payload(),
        }
    }

    /// How often the connection has been made.
    pub fn connects(&self) -> u64 {
        let connects = &self.client.statistics().connects;
        connects.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Whether there is a connection now.
    pub fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// The largest message that the server takes, which it told when it was last connected to.
    pub fn max_payload(&self) -> usize {
        self.client.max_payload()
    }

    /// Waits until the connection comes or goes.
    pub async fn changed(&mut self) {
        if self.changes.changed().await.is_err() {
            // The client is gone, and with it all that could change.
            std::future::pending::<()>().await;
        }
    }
}

/// Whether a server is older than [`SOUND`]. One whose version cannot be read is.
fn is_weak(version: &str) -> bool {
    let release = version.split(['-', '+']).next().unwrap_or(version);
    let mut parts = release.split('.').map(|part| part.parse::<u64>().ok());
    let mut next = || parts.next().flatten();
    match (next(), next(), next()) {
        (Some(major), Some(minor), Some(patch)) => (major, minor, patch) < SOUND,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_servers_are_weak() {
        for weak in ["2.9.10", "2.10.22", "1.99.99", "dev", "2.10"] {
            assert!(is_weak(weak), "{weak}");
        }
        for sound in ["2.10.23", "2.11.0", "2.12.0-beta.1", "3.0.0"] {
            assert!(!is_weak(sound), "{sound}");
        }
    }

    #[test]
    fn settings_show_no_secrets() {
        let settings = LinkSettings {
            url: "nats://u:hidden@h".into(),
            user: Some(("u".into(), "hidden".into())),
            token: Some("hidden".into()),
            name: "x".into(),
        };
        assert!(!format!("{settings:?}").contains("hidden"));
    }
}

//! A permanent connection to a server.

use std::fmt;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::Context;
use async_nats::jetstream::context::ContextBuilder;
use async_nats::{Client, ConnectOptions, Event};
use noetl_types::Text;
use tokio::sync::watch;

/// Maximum time for a response or an acknowledgement.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Oldest server version that reliably stores acknowledged messages with `sync_interval: always`.
/// Older versions lack the setting, or lose messages in spite of it.
const MIN_DURABLE_VERSION: (u64, u64, u64) = (2, 10, 23);

/// Address and credentials of the server.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct NatsConnectionSettings {
    /// `nats://` or `tls://` URLs, separated by commas.
    pub url: String,
    /// User name and password.
    pub user: Option<(String, String)>,
    /// Token.
    pub token: Option<String>,
    /// Name of the connection, as shown by the server.
    pub name: String,
}

impl NatsConnectionSettings {
    /// True if the connection presents credentials, in any of the ways.
    pub fn has_credentials(&self) -> bool {
        let mut urls = self.url.split(',');
        self.user.is_some() || self.token.is_some() || urls.all(|url| url.contains('@'))
    }
}

/// A URL may contain a password, so it is not printed.
impl fmt::Debug for NatsConnectionSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsConnectionSettings").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Error for an address that can never be connected to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid NATS server address: {0}")]
pub struct NatsAddressError(Text);

/// A connection. It exists even while the server is unreachable, and reconnects automatically. A
/// clone is another handle of the same connection.
#[derive(Clone)]
pub struct NatsConnection {
    pub(super) client: Client,
    pub(super) jetstream: Context,
    changes: watch::Receiver<u64>,
}

impl fmt::Debug for NatsConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsConnection")
            .field("info", &self.connection_info())
            .finish_non_exhaustive()
    }
}

/// State of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionInfo {
    /// True if it is connected now.
    pub is_connected: bool,
    /// Number of times the connection was established. Increases after each outage of a server.
    pub connect_count: u64,
    /// Version of the server, once known.
    pub version: Option<Text>,
    /// True if the server version may lose acknowledged messages.
    pub is_outdated: bool,
    /// True if the server accepts clients without credentials, or if this is not known yet.
    pub is_open: bool,
    /// Maximum message size of the server, including headers.
    pub max_payload: usize,
}

impl NatsConnection {
    /// Starts to connect. A server that is unreachable is retried in the background.
    pub async fn connect(settings: NatsConnectionSettings) -> Result<Self, NatsAddressError> {
        let (change_sender, changes) = watch::channel(0);
        let mut options = ConnectOptions::new()
            .name(&settings.name)
            .retry_on_initial_connect()
            .max_reconnects(None)
            // This process already knows the messages that it publishes.
            .no_echo()
            .event_callback(move |event| {
                if !matches!(event, Event::ClientError(_)) {
                    tracing::info!(%event, "NATS connection event");
                }
                change_sender.send_modify(|count| *count += 1);
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
            .map_err(|error| NatsAddressError(error.kind().to_string().into()))?;
        let jetstream = ContextBuilder::new()
            .timeout(REQUEST_TIMEOUT)
            .backpressure_on_inflight(true)
            .build(client.clone());
        Ok(Self { client, jetstream, changes })
    }

    /// Returns the current state.
    pub fn connection_info(&self) -> ConnectionInfo {
        let info = self.client.try_server_info();
        let is_open = info.as_ref().is_none_or(|info| !info.auth_required);
        let version = info.map(|info| Text::from(info.version));
        ConnectionInfo {
            is_open,
            is_connected: self.is_connected(),
            connect_count: self.connect_count(),
            is_outdated: version.as_ref().is_some_and(|version| is_outdated_version(version)),
            version,
            max_payload: self.max_payload(),
        }
    }

    /// Returns the number of times the connection was established.
    pub fn connect_count(&self) -> u64 {
        let connects = &self.client.statistics().connects;
        connects.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// True if it is connected now.
    pub fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// Returns the maximum message size of the server, as of the last connect.
    pub fn max_payload(&self) -> usize {
        self.client.max_payload()
    }

    /// Waits until the connection is established or lost.
    pub async fn wait_for_change(&mut self) {
        if self.changes.changed().await.is_err() {
            // The client is dropped, so nothing can change any more.
            std::future::pending::<()>().await;
        }
    }
}

/// True if a server is older than [`MIN_DURABLE_VERSION`], or if its version cannot be parsed.
fn is_outdated_version(version: &str) -> bool {
    let release = version.split(['-', '+']).next().unwrap_or(version);
    let mut parts = release.split('.').map(|part| part.parse::<u64>().ok());
    let mut next = || parts.next().flatten();
    match (next(), next(), next()) {
        (Some(major), Some(minor), Some(patch)) => (major, minor, patch) < MIN_DURABLE_VERSION,
        _ => true,
    }
}

#[cfg(test)]
mod tests;

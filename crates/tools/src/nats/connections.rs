//! Cache of connections for later calls.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::Context;
use async_nats::jetstream::context::ContextBuilder;
use async_nats::{ConnectErrorKind, ConnectOptions, ServerAddr};
use noetl_tls::client_config_for_host;
use noetl_types::{Digest, TaskError, TaskErrorKind};

use super::error::{NatsResult as _, nats_error};
use super::target::NatsTarget;
use crate::egress::EgressPolicy;
use crate::settings::Settings;
use crate::tls::tls_error;

/// Maximum number of cached connections. Above it, the least recently used one is dropped.
const MAX_CONNECTIONS: usize = 16;

/// Timeout of connects and requests.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Reconnect attempts before a broken connection is abandoned. The next call opens a new one.
const MAX_RECONNECTS: usize = 5;

/// Cached connections, the most recently used last.
#[derive(Default)]
pub(crate) struct Connections(Mutex<Vec<(Digest, Context)>>);

impl Connections {
    fn lock_cache(&self) -> MutexGuard<'_, Vec<(Digest, Context)>> {
        // The list is consistent between any two calls, so a poisoned lock is usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a connection to a server that the egress policy allows.
    pub(crate) async fn open(
        &self,
        target: &NatsTarget,
        settings: &Settings,
    ) -> Result<Context, TaskError> {
        if let Some(cached) = self.find_cached(target) {
            return Ok(cached);
        }
        let addresses = resolve_server(target, settings).await?;
        let jetstream = connect_server(target, &addresses).await?;
        let mut cached = self.lock_cache();
        cached.push((target.identity, jetstream.clone()));
        let extra = cached.len().saturating_sub(MAX_CONNECTIONS);
        cached.drain(..extra);
        Ok(jetstream)
    }

    fn find_cached(&self, target: &NatsTarget) -> Option<Context> {
        let mut cached = self.lock_cache();
        let index = cached.iter().position(|entry| entry.0 == target.identity)?;
        let entry = cached.remove(index);
        if entry.1.client().connection_state() != State::Connected {
            return None;
        }
        let jetstream = entry.1.clone();
        cached.push(entry);
        Some(jetstream)
    }

    /// Drops all connections.
    pub(crate) fn close(&self) {
        self.lock_cache().clear();
    }
}

/// Resolves the addresses of a server and checks them against the egress policy.
async fn resolve_server(
    target: &NatsTarget,
    settings: &Settings,
) -> Result<Vec<SocketAddr>, TaskError> {
    let policy = if target.is_operator_server { &EgressPolicy::Anywhere } else { &settings.egress };
    let addresses = policy.resolve_host(&target.host, target.port).await;
    addresses.map_err(|error| error.to_task_error(TaskErrorKind::Connection))
}

async fn connect_server(
    target: &NatsTarget,
    addresses: &[SocketAddr],
) -> Result<Context, TaskError> {
    let mut options = ConnectOptions::new()
        .name("noetl worker")
        .max_reconnects(MAX_RECONNECTS)
        .request_timeout(Some(REQUEST_TIMEOUT))
        // The addresses of other servers of a cluster have not been checked.
        .ignore_discovered_servers()
        .require_tls(target.is_encrypted)
        .tls_client_config(
            client_config_for_host(&target.host).map_err(|error| tls_error(&error))?,
        );
    if let Some((user, password)) = &target.user {
        options = options.user_and_password(user.clone(), password.clone());
    }
    if let Some(token) = &target.token {
        options = options.token(token.clone());
    }
    let servers: Result<Vec<ServerAddr>, _> =
        addresses.iter().map(|address| format!("nats://{address}").parse()).collect();
    let servers = servers.or_fail(&target.display_name())?;
    let client = options.connect(servers).await.map_err(|error| {
        let kind = match error.kind() {
            ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
                TaskErrorKind::Auth
            }
            _ => TaskErrorKind::Connection,
        };
        let summary = format!("{} cannot be used", target.display_name());
        TaskError::new(kind, nats_error(&summary, &error).message)
    })?;
    Ok(ContextBuilder::new().timeout(REQUEST_TIMEOUT).build(client))
}

//! Connections, kept for the next call.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::Context;
use async_nats::jetstream::context::ContextBuilder;
use async_nats::{ConnectErrorKind, ConnectOptions, ServerAddr};
use noetl_tls::named;
use noetl_types::{Digest, TaskError, TaskErrorKind};

use super::fault::failed;
use super::target::Target;
use crate::egress::EgressError;
use crate::settings::Settings;
use crate::tls::tls_fault;

/// Connections that are kept at most; beyond that the one goes that nobody used for longest.
const MOST: usize = 16;

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often a connection that broke is tried again before it is given up. The next call makes a
/// new one.
const TRIES: usize = 5;

/// Connections, the last used at the end.
#[derive(Default)]
pub(crate) struct Lines(Mutex<Vec<(Digest, Context)>>);

impl Lines {
    fn lock(&self) -> MutexGuard<'_, Vec<(Digest, Context)>> {
        // A list of handles is whole between any two calls.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection to a server that the operator lets tools reach.
    pub(crate) async fn open(
        &self,
        target: &Target,
        settings: &Settings,
    ) -> Result<Context, TaskError> {
        if let Some(known) = self.known(target) {
            return Ok(known);
        }
        let addresses = checked(target, settings).await?;
        let jetstream = connect(target, &addresses).await?;
        let mut lines = self.lock();
        lines.push((target.identity, jetstream.clone()));
        let extra = lines.len().saturating_sub(MOST);
        lines.drain(..extra);
        Ok(jetstream)
    }

    fn known(&self, target: &Target) -> Option<Context> {
        let mut lines = self.lock();
        let at = lines.iter().position(|line| line.0 == target.identity)?;
        let line = lines.remove(at);
        if line.1.client().connection_state() != State::Connected {
            return None;
        }
        let jetstream = line.1.clone();
        lines.push(line);
        Some(jetstream)
    }

    /// Lets go of all connections.
    pub(crate) fn close(&self) {
        self.lock().clear();
    }
}

/// The addresses of a server, once the operator's rule has let them through.
async fn checked(target: &Target, settings: &Settings) -> Result<Vec<SocketAddr>, TaskError> {
    let policy = if target.is_of_operator {
        &crate::egress::EgressPolicy::Anywhere
    } else {
        &settings.egress
    };
    policy
        .resolve(&target.host, target.port)
        .await
        .map_err(|error| {
            let kind = match error {
                EgressError::Denied(_) => TaskErrorKind::Auth,
                EgressError::Unresolved { .. } => TaskErrorKind::Connection,
            };
            TaskError::new(kind, error.to_string())
        })
}

async fn connect(target: &Target, addresses: &[SocketAddr]) -> Result<Context, TaskError> {
    let mut options = ConnectOptions::new()
        .name("noetl worker")
        .max_reconnects(TRIES)
        .request_timeout(Some(PATIENCE))
        // Other servers of a cluster have addresses that nobody has checked.
        .ignore_discovered_servers()
        .require_tls(target.is_encrypted)
        .tls_client_config(named(&target.host).map_err(|error| tls_fault(&error))?);
    if let Some((user, password)) = &target.user {
        options = options.user_and_password(user.clone(), password.clone());
    }
    if let Some(token) = &target.token {
        options = options.token(token.clone());
    }
    let servers: Result<Vec<ServerAddr>, _> = addresses
        .iter()
        .map(|address| format!("nats://{address}").parse())
        .collect();
    let servers = servers.map_err(|error| failed(&target.shown(), &error))?;
    let client = options.connect(servers).await.map_err(|error| {
        let failed = failed(&format!("{} cannot be used", target.shown()), &error);
        match error.kind() {
            ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
                TaskError::new(TaskErrorKind::Auth, failed.message)
            }
            _ => TaskError::new(TaskErrorKind::Connection, failed.message),
        }
    })?;
    Ok(ContextBuilder::new().timeout(PATIENCE).build(client))
}

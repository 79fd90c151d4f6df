//! NATS server and identity of a task, and the cache of connections for later calls.

use std::net::SocketAddr;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::Context;
use async_nats::jetstream::context::ContextBuilder;
use async_nats::{ConnectErrorKind, ConnectOptions, ServerAddr};
use noetl_tls::client_config_for_host;
use noetl_types::{Digest, JsonMap, TaskError, TaskErrorKind, sha256};
use percent_encoding::percent_decode_str;
use quick_cache::sync::Cache;
use reqwest::Url;

use super::{NatsResult as _, nats_error};
use crate::config::{Config, missing_key, schema_error};
use crate::egress::{EgressPolicy, bare_host};
use crate::settings::{NatsSettings, Settings};
use crate::sql::read_credential;
use crate::tls::tls_error;

/// Maximum number of cached connections. Above it, one that was not used lately is dropped.
const MAX_CONNECTIONS: usize = 16;

/// Timeout of connects and requests.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Reconnect attempts before a broken connection is abandoned. The next call opens a new one.
const MAX_RECONNECTS: usize = 5;

/// Cached connections, by the identity of their target.
pub(crate) struct Connections(Cache<Digest, Context>);

impl Default for Connections {
    fn default() -> Self {
        Self(Cache::new(MAX_CONNECTIONS))
    }
}

impl Connections {
    /// Returns a connection to a server that the egress policy allows.
    pub(crate) async fn open(
        &self,
        target: &NatsTarget,
        settings: &Settings,
    ) -> Result<Context, TaskError> {
        let is_connected =
            |cached: &Context| cached.client().connection_state() == State::Connected;
        if let Some(cached) = self.0.get(&target.identity).filter(is_connected) {
            return Ok(cached);
        }
        let addresses = resolve_server(target, settings).await?;
        let jetstream = connect_server(target, &addresses).await?;
        self.0.insert(target.identity, jetstream.clone());
        Ok(jetstream)
    }

    pub(crate) fn close(&self) {
        self.0.clear();
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
        if target.is_operator_server {
            // The accounts of the platform let a user read only its own inbox.
            options = options.custom_inbox_prefix(format!("_INBOX.{user}"));
        }
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

const DEFAULT_PORT: u16 = 4222;

/// Connection parameters. They contain secrets, so the type has no `Debug`.
pub(crate) struct NatsTarget {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) is_encrypted: bool,
    pub(super) user: Option<(String, String)>,
    pub(super) token: Option<String>,
    /// True for the operator's server, to which the egress policy does not apply.
    pub(super) is_operator_server: bool,
    /// Digest that distinguishes targets without revealing their contents.
    pub(super) identity: Digest,
}

impl NatsTarget {
    /// Reads the config of a task. Its own address overrides that of its credential, which
    /// overrides the operator's server for tasks that specify none.
    pub(crate) fn from_config(config: Config<'_>, settings: &Settings) -> Result<Self, TaskError> {
        let empty = JsonMap::new();
        let auth = Config(read_credential(config, "nats")?.unwrap_or(&empty));
        let first_text = |keys: &[&str]| -> Result<Option<&str>, TaskError> {
            for key in keys {
                if let Some(text) = auth.text(key)?.filter(|text| !text.is_empty()) {
                    return Ok(Some(text));
                }
            }
            Ok(None)
        };
        let address = match config.text("url")? {
            Some(url) => Some(url),
            None => first_text(&["url", "nats_url", "server", "servers"])?,
        };
        let Some(address) = address else {
            let operator = settings.nats.as_ref();
            return Self::from_operator(operator.ok_or_else(|| missing_key("'url' or 'auth'"))?);
        };
        let url = parse_nats_url(address)?;
        let user = first_text(&["user", "username", "nats_user"])?;
        let password = first_text(&["password", "nats_password"])?;
        let user = user.map(|user| {
            let password = password.unwrap_or_default();
            (user.to_owned(), password.to_owned())
        });
        let token = first_text(&["token", "nats_token"])?.map(str::to_owned);
        Ok(Self::from_url(&url, user, token))
    }

    /// Target for the operator's server. Credentials of the task are ignored there, since the task
    /// must not choose the identity.
    fn from_operator(operator: &NatsSettings) -> Result<Self, TaskError> {
        let first = operator.url.split(',').next().unwrap_or_default().trim();
        let target =
            Self::from_url(&parse_nats_url(first)?, operator.user.clone(), operator.token.clone());
        Ok(Self { is_operator_server: true, ..target })
    }

    /// Target for an address. A user in the address applies if no other is given.
    fn from_url(url: &Url, user: Option<(String, String)>, token: Option<String>) -> Self {
        let url_user = (!url.username().is_empty()).then(|| {
            let password = url.password().unwrap_or_default();
            (percent_decode(url.username()), percent_decode(password))
        });
        let user = user.or(url_user);
        let host = bare_host(url.host_str().unwrap_or_default());
        let port = url.port().unwrap_or(DEFAULT_PORT);
        let is_encrypted = url.scheme() == "tls";
        let identity = format!("{host:?}{port}{is_encrypted}{user:?}{token:?}");
        Self {
            host: host.to_owned(),
            port,
            is_encrypted,
            user,
            token,
            is_operator_server: false,
            identity: sha256(identity),
        }
    }

    /// Description of the server without secrets.
    pub(super) fn display_name(&self) -> String {
        format!("the NATS server at {}:{}", self.host, self.port)
    }
}

fn parse_nats_url(text: &str) -> Result<Url, TaskError> {
    let invalid = |problem: &str| {
        // The address may contain a password, so it is not repeated.
        schema_error(format!("'url' {problem}"))
    };
    let full_url = if text.contains("://") { text.to_owned() } else { format!("nats://{text}") };
    let url = Url::parse(&full_url).map_err(|_| invalid("is not a valid NATS server address"))?;
    if !["nats", "tls"].contains(&url.scheme()) {
        return Err(invalid("must begin with nats:// or tls://"));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(invalid("has no host"));
    }
    Ok(url)
}

fn percent_decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests;

//! Database of a task: from a connection string, a credential and separate fields.

use std::fmt;
use std::time::Duration;

use noetl_tls::{PostgresDsn, TlsVerification};
use noetl_types::{Digest, Json, JsonMap, TaskError, TaskErrorKind, sha256};
use tokio_postgres::Config as PostgresConfig;
use tokio_postgres::config::Host;

use crate::config::{Config, scalar_text, wrong_type};
use crate::egress::bare_host;
use crate::sql::read_credential;
use crate::tls::tls_error;

const DEFAULT_PORT: u16 = 5432;

/// Connection parameters. They contain a password, so the type has no `Debug`.
#[derive(Clone)]
pub(super) struct PostgresTarget {
    pub(super) endpoints: Vec<ServerEndpoint>,
    /// User, password, database and options.
    pub(super) login: PostgresConfig,
    /// Required verification of the server's certificate.
    pub(super) verification: TlsVerification,
    /// PEM certificates of the trusted authorities: a file, or the text itself.
    pub(super) root_certificates: Option<String>,
    pub(super) connect_timeout: Option<Duration>,
    /// Digest that distinguishes targets without revealing their contents.
    pub(super) identity: Digest,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ServerEndpoint {
    /// A host and a port. The certificate must be valid for `name`.
    Tcp {
        name: String,
        address: String,
        port: u16,
    },
    Unix {
        folder: String,
        port: u16,
    },
}

impl fmt::Display for ServerEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { name, port, .. } => write!(f, "{name}:{port}"),
            Self::Unix { folder, .. } => write!(f, "{folder}"),
        }
    }
}

/// Keys of the connection fields, in a task and in a credential.
const HOST_KEYS: &[&str] = &["db_host", "host"];
const PORT_KEYS: &[&str] = &["db_port", "port"];
const USER_KEYS: &[&str] = &["db_user", "user", "username"];
const PASSWORD_KEYS: &[&str] = &["db_password", "password"];
const DATABASE_KEYS: &[&str] = &["db_name", "database", "dbname"];

impl PostgresTarget {
    /// Reads the config of a task. Its own fields override those of its credential, and any field
    /// overrides the connection string.
    pub(super) fn from_config(config: Config<'_>) -> Result<Self, TaskError> {
        let empty = JsonMap::new();
        let auth = Config(read_credential(config, "postgres")?.unwrap_or(&empty));
        // The value is that of the first key that is present.
        let field = |keys: &[&str]| -> Result<Option<String>, TaskError> {
            let mut keys =
                [config, auth].into_iter().flat_map(|map| keys.iter().map(move |key| (map, *key)));
            let Some((key, value)) = keys.find_map(|(map, key)| Some((key, map.get(key)?))) else {
                return Ok(None);
            };
            let text = scalar_text(value).ok_or_else(|| wrong_type(key, "a text", value))?;
            Ok(Some(text).filter(|text| !text.is_empty()))
        };
        let dsn_text = config.text("connection_string")?;
        let dsn_text = dsn_text.or(auth.first_text(&["connection_string", "dsn"])?);
        let (host, database) = (field(HOST_KEYS)?, field(DATABASE_KEYS)?);
        if dsn_text.is_none() && host.is_none() && database.is_none() {
            return Err(TaskError::new(
                TaskErrorKind::Auth,
                "the task names no database; set 'auth', 'connection_string' or 'db_host' and \
                 'db_name'",
            ));
        }
        let dsn = PostgresDsn::parse(dsn_text.unwrap_or("")).map_err(|error| tls_error(&error))?;
        let mut login = without_hosts(&dsn.login);
        if let Some(user) = field(USER_KEYS)? {
            login.user(user);
        }
        if let Some(password) = field(PASSWORD_KEYS)? {
            login.password(password);
        }
        if let Some(database) = database {
            login.dbname(database);
        }
        let mode = field(&["sslmode"])?.or(dsn.ssl_mode);
        let verification =
            mode.as_deref().map_or(Ok(TlsVerification::Prefer), TlsVerification::parse_sslmode);
        let verification = verification.map_err(|error| tls_error(&error))?;
        login.ssl_mode(verification.to_ssl_mode());
        let port = field(PORT_KEYS)?.map(|port| parse_port(&port)).transpose()?;
        let endpoints = match host {
            Some(host) => vec![endpoint_for_host(host, port.unwrap_or(DEFAULT_PORT))],
            None => endpoints_from_dsn(&dsn.login, port),
        };
        let root_certificates = field(&["sslrootcert"])?.or(dsn.root_cert);
        let connect_timeout = dsn.login.get_connect_timeout().copied();
        let identity =
            target_identity(&login, &endpoints, verification, root_certificates.as_deref());
        Ok(Self { endpoints, login, verification, root_certificates, connect_timeout, identity })
    }
}

/// Returns the login settings of a connection string. Its hosts are left out: each connection goes
/// to an address that was checked.
fn without_hosts(dsn: &PostgresConfig) -> PostgresConfig {
    let mut login = PostgresConfig::new();
    login.application_name(dsn.get_application_name().unwrap_or("noetl"));
    login.ssl_negotiation(dsn.get_ssl_negotiation());
    login.channel_binding(dsn.get_channel_binding());
    if let Some(user) = dsn.get_user() {
        login.user(user);
    }
    if let Some(password) = dsn.get_password() {
        login.password(password);
    }
    if let Some(database) = dsn.get_dbname() {
        login.dbname(database);
    }
    if let Some(options) = dsn.get_options() {
        login.options(options);
    }
    login
}

fn parse_port(text: &str) -> Result<u16, TaskError> {
    text.parse().map_err(|_| wrong_type("db_port", "a port", &Json::from(text)))
}

fn endpoint_for_host(host: String, port: u16) -> ServerEndpoint {
    if host.starts_with('/') {
        return ServerEndpoint::Unix { folder: host, port };
    }
    // An IPv6 address may be in brackets, as in a URL.
    let bare = bare_host(&host).to_owned();
    ServerEndpoint::Tcp { address: bare.clone(), name: bare, port }
}

/// Endpoints of a connection string, which may name several.
fn endpoints_from_dsn(dsn: &PostgresConfig, port: Option<u16>) -> Vec<ServerEndpoint> {
    let ports = dsn.get_ports();
    let port = |index: usize| {
        let dsn_port = ports.get(index).or(ports.first()).copied();
        port.or(dsn_port).unwrap_or(DEFAULT_PORT)
    };
    let addresses = dsn.get_hostaddrs();
    let mut endpoints: Vec<ServerEndpoint> = dsn
        .get_hosts()
        .iter()
        .enumerate()
        .map(|(index, host)| match host {
            Host::Tcp(name) => {
                let address = addresses.get(index).map(ToString::to_string);
                ServerEndpoint::Tcp {
                    address: address.unwrap_or_else(|| name.clone()),
                    name: name.clone(),
                    port: port(index),
                }
            }
            Host::Unix(folder) => {
                ServerEndpoint::Unix { folder: folder.display().to_string(), port: port(index) }
            }
        })
        .collect();
    if endpoints.is_empty() {
        let bare = addresses.iter().map(ToString::to_string);
        endpoints
            .extend(bare.enumerate().map(|(index, host)| endpoint_for_host(host, port(index))));
    }
    if endpoints.is_empty() {
        endpoints.push(endpoint_for_host("localhost".to_owned(), port(0)));
    }
    endpoints
}

fn target_identity(
    login: &PostgresConfig,
    endpoints: &[ServerEndpoint],
    verification: TlsVerification,
    root_certificates: Option<&str>,
) -> Digest {
    let endpoints = format!("{endpoints:?} {verification:?}");
    let length_prefixed = |text: Option<&str>| {
        let text = text.unwrap_or_default();
        format!("{}:{text}", text.len())
    };
    let texts = [
        length_prefixed(Some(&endpoints)),
        length_prefixed(login.get_user()),
        length_prefixed(login.get_dbname()),
        length_prefixed(login.get_options()),
        length_prefixed(login.get_application_name()),
        length_prefixed(root_certificates),
    ];
    let mut bytes = texts.concat().into_bytes();
    bytes.extend(login.get_password().unwrap_or_default());
    sha256(bytes)
}

#[cfg(test)]
mod tests;

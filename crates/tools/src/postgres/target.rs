//! Database of a task: from a connection string, a credential and separate fields.

use std::time::Duration;

use noetl_tls::{PostgresDsn, TlsVerification};
use noetl_types::{Digest, Json, JsonMap, TaskError, TaskErrorKind, sha256};
use tokio_postgres::Config as PostgresConfig;
use tokio_postgres::config::Host;

use crate::config::{Config, scalar_text, wrong_type};
use crate::sql::read_credential;
use crate::tls::tls_error;

/// Port if none is given.
const DEFAULT_PORT: u16 = 5432;

/// Connection parameters. They contain a password, so the type has no `Debug`.
#[derive(Clone)]
pub(super) struct PostgresTarget {
    /// Endpoints to try, in order.
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

/// Address at which a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ServerEndpoint {
    /// A host and a port. The certificate must be valid for `name`.
    Tcp { name: String, address: String, port: u16 },
    /// A socket in a directory.
    Unix { folder: String, port: u16 },
}

/// A connection field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectionField {
    Host,
    Port,
    User,
    Password,
    Database,
    Mode,
    Root,
}

impl ConnectionField {
    /// Keys of the field, in a task and in a credential.
    fn key_names(self) -> &'static [&'static str] {
        match self {
            Self::Host => &["db_host", "host"],
            Self::Port => &["db_port", "port"],
            Self::User => &["db_user", "user", "username"],
            Self::Password => &["db_password", "password"],
            Self::Database => &["db_name", "database", "dbname"],
            Self::Mode => &["sslmode"],
            Self::Root => &["sslrootcert"],
        }
    }

    /// Value from the first map that has one.
    fn find_value(self, maps: [Config<'_>; 2]) -> Result<Option<String>, TaskError> {
        for map in maps {
            for name in self.key_names() {
                if let Some(value) = map.get(name) {
                    let text =
                        scalar_text(value).ok_or_else(|| wrong_type(name, "a text", value))?;
                    return Ok(Some(text).filter(|text| !text.is_empty()));
                }
            }
        }
        Ok(None)
    }
}

impl PostgresTarget {
    /// Reads the config of a task. Its own fields override those of its credential, and any field
    /// overrides the connection string.
    pub(super) fn from_config(config: Config<'_>) -> Result<Self, TaskError> {
        let empty = JsonMap::new();
        let auth = Config(read_credential(config, "postgres")?.unwrap_or(&empty));
        let field = |field: ConnectionField| field.find_value([config, auth]);
        let dsn_text = config.text("connection_string")?;
        let dsn_text = dsn_text.or(auth.text("connection_string")?).or(auth.text("dsn")?);
        if dsn_text.is_none()
            && field(ConnectionField::Host)?.is_none()
            && field(ConnectionField::Database)?.is_none()
        {
            return Err(TaskError::new(
                TaskErrorKind::Auth,
                "the task names no database; set 'auth', 'connection_string' or 'db_host' and \
                 'db_name'",
            ));
        }
        let dsn = PostgresDsn::parse(dsn_text.unwrap_or("")).map_err(|error| tls_error(&error))?;
        let mut login = dsn.login;
        if let Some(user) = field(ConnectionField::User)? {
            login.user(user);
        }
        if let Some(password) = field(ConnectionField::Password)? {
            login.password(password);
        }
        if let Some(database) = field(ConnectionField::Database)? {
            login.dbname(database);
        }
        if login.get_application_name().is_none() {
            login.application_name("noetl");
        }
        let mode = field(ConnectionField::Mode)?.or(dsn.ssl_mode);
        let verification =
            mode.as_deref().map_or(Ok(TlsVerification::Prefer), TlsVerification::parse_sslmode);
        let verification = verification.map_err(|error| tls_error(&error))?;
        login.ssl_mode(verification.to_ssl_mode());
        let port = field(ConnectionField::Port)?.map(|port| parse_port(&port)).transpose()?;
        let endpoints = match field(ConnectionField::Host)? {
            Some(host) => vec![endpoint_for_host(host, port.unwrap_or(DEFAULT_PORT))],
            None => endpoints_from_login(&login, port),
        };
        let root_certificates = field(ConnectionField::Root)?.or(dsn.root_cert);
        let connect_timeout = login.get_connect_timeout().copied();
        let identity =
            target_identity(&login, &endpoints, verification, root_certificates.as_deref());
        Ok(Self { endpoints, login, verification, root_certificates, connect_timeout, identity })
    }
}

fn parse_port(text: &str) -> Result<u16, TaskError> {
    text.parse().map_err(|_| wrong_type("db_port", "a port", &Json::from(text)))
}

fn endpoint_for_host(host: String, port: u16) -> ServerEndpoint {
    if host.starts_with('/') {
        return ServerEndpoint::Unix { folder: host, port };
    }
    // An IPv6 address may be in brackets, as in a URL.
    let bare = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    ServerEndpoint::Tcp { address: bare.clone(), name: bare, port }
}

/// Endpoints of a connection string, which may name several.
fn endpoints_from_login(login: &PostgresConfig, port: Option<u16>) -> Vec<ServerEndpoint> {
    let ports = login.get_ports();
    let port = |index: usize| {
        let dsn_port = ports.get(index).or(ports.first()).copied();
        port.or(dsn_port).unwrap_or(DEFAULT_PORT)
    };
    let addresses = login.get_hostaddrs();
    let mut endpoints: Vec<ServerEndpoint> = login
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
mod tests {
    use super::*;
    use noetl_types::json::parse;

    fn read_target(config: &str) -> Result<PostgresTarget, TaskError> {
        let config = parse(config.as_bytes()).unwrap();
        PostgresTarget::from_config(Config(config.as_map().unwrap()))
    }

    fn tcp_address(name: &str, port: u16) -> ServerEndpoint {
        endpoint_for_host(name.to_owned(), port)
    }

    #[test]
    fn fields_override_credentials_and_connection_string() {
        let target = read_target(
            r#"{"connection_string": "host=a port=1 user=u dbname=d", "db_name": "mine",
                "auth": {"type": "postgres", "db_host": "b", "db_port": "2", "db_name": "theirs"}}"#,
        )
        .unwrap();
        assert_eq!(target.endpoints, [tcp_address("b", 2)]);
        assert_eq!(target.login.get_user(), Some("u"));
        assert_eq!(target.login.get_dbname(), Some("mine"));
        assert_eq!(target.verification, TlsVerification::Prefer);
    }

    #[test]
    fn parses_both_connection_string_forms() {
        let url = read_target(
            r#"{"connection_string": "postgres://u:p%40x@h1,h2:6000/d?sslmode=verify-full"}"#,
        )
        .unwrap();
        assert_eq!(url.verification, TlsVerification::VerifyFull);
        assert_eq!(url.login.get_password(), Some(&b"p@x"[..]));
        assert_eq!(url.endpoints.len(), 2);
        let pairs =
            read_target(r#"{"connection_string": "host=/run/pg sslmode='disable' dbname=d"}"#);
        let pairs = pairs.unwrap();
        assert_eq!(pairs.verification, TlsVerification::Disable);
        let folder = "/run/pg".to_owned();
        assert_eq!(pairs.endpoints, [ServerEndpoint::Unix { folder, port: 5432 }]);
    }

    #[test]
    fn rejects_invalid_target() {
        let kind = |config: &str| read_target(config).err().unwrap().kind;
        assert_eq!(kind("{}"), TaskErrorKind::Auth);
        assert_eq!(kind(r#"{"auth": "pg_main"}"#), TaskErrorKind::Auth);
        assert_eq!(kind(r#"{"auth": {"type": "bearer"}}"#), TaskErrorKind::Auth);
        let source = r#"{"auth": {"source": "credential", "key": "pg_main"}}"#;
        assert_eq!(kind(source), TaskErrorKind::Auth);
        let mode = r#"{"db_host": "h", "sslmode": "maybe"}"#;
        assert_eq!(kind(mode), TaskErrorKind::Schema);
        let port = r#"{"db_host": "h", "db_port": "many"}"#;
        assert_eq!(kind(port), TaskErrorKind::Schema);
    }

    #[test]
    fn different_password_is_different_target() {
        let identity_with = |password: &str| {
            let config = format!(r#"{{"db_host": "h", "db_password": "{password}"}}"#);
            read_target(&config).unwrap().identity
        };
        assert_ne!(identity_with("a"), identity_with("b"));
        assert_eq!(identity_with("a"), identity_with("a"));
    }
}

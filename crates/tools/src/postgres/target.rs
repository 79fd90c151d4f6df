//! Which database a task means: from a connection string, a credential and fields of its own.

use std::time::Duration;

use noetl_tls::{Dsn, Trust};
use noetl_types::{Digest, Json, JsonMap, TaskError, TaskErrorKind, sha256};
use tokio_postgres::Config as Login;
use tokio_postgres::config::Host;

use crate::config::{Config, printed, wrong};
use crate::sql::credential;
use crate::tls::tls_fault;

/// The port of a server that names none.
const DEFAULT_PORT: u16 = 5432;

/// What a connection is made with. It holds a password, so it is never shown.
#[derive(Clone)]
pub(super) struct Target {
    /// Where to try, in order.
    pub(super) places: Vec<Place>,
    /// User, password, database and options.
    pub(super) login: Login,
    /// What is asked of the other side's certificate.
    pub(super) trust: Trust,
    /// Certificates of authorities in PEM: a file, or the text itself.
    pub(super) root: Option<String>,
    pub(super) connect_timeout: Option<Duration>,
    /// Tells targets apart without telling what is in them.
    pub(super) identity: Digest,
}

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// A host and a port; a certificate has to be for `name`.
    Tcp {
        name: String,
        address: String,
        port: u16,
    },
    /// A socket in a folder.
    Unix { folder: String, port: u16 },
}

/// A field of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Host,
    Port,
    User,
    Password,
    Database,
    Mode,
    Root,
}

impl Field {
    /// The names that it goes by, in a task and in a credential.
    fn names(self) -> &'static [&'static str] {
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

    /// Its value in the first of some maps that has one.
    fn of(self, maps: [Config<'_>; 2]) -> Result<Option<String>, TaskError> {
        for map in maps {
            for name in self.names() {
                if let Some(value) = map.get(name) {
                    let text = printed(value).ok_or_else(|| wrong(name, "a text", value))?;
                    return Ok(Some(text).filter(|text| !text.is_empty()));
                }
            }
        }
        Ok(None)
    }
}

impl Target {
    /// Reads the config of a task. Its own fields win over those of its credential, and any field
    /// wins over the connection string.
    pub(super) fn read(config: Config<'_>) -> Result<Self, TaskError> {
        let empty = JsonMap::new();
        let auth = Config(credential(config, "postgres")?.unwrap_or(&empty));
        let field = |field: Field| field.of([config, auth]);
        let string = config.text("connection_string")?;
        let string = string
            .or(auth.text("connection_string")?)
            .or(auth.text("dsn")?);
        if string.is_none() && field(Field::Host)?.is_none() && field(Field::Database)?.is_none() {
            return Err(TaskError::new(
                TaskErrorKind::Auth,
                "the task names no database: give 'auth', 'connection_string' or 'db_host' and \
                 'db_name'",
            ));
        }
        let read = Dsn::read(string.unwrap_or("")).map_err(|error| tls_fault(&error))?;
        let mut login = read.login;
        if let Some(user) = field(Field::User)? {
            login.user(user);
        }
        if let Some(password) = field(Field::Password)? {
            login.password(password);
        }
        if let Some(database) = field(Field::Database)? {
            login.dbname(database);
        }
        if login.get_application_name().is_none() {
            login.application_name("noetl");
        }
        let mode = field(Field::Mode)?.or(read.mode);
        let trust = mode.as_deref().map_or(Ok(Trust::Prefer), Trust::read);
        let trust = trust.map_err(|error| tls_fault(&error))?;
        login.ssl_mode(trust.mode());
        let port = field(Field::Port)?.map(|port| port_of(&port)).transpose()?;
        let places = match field(Field::Host)? {
            Some(host) => vec![place(host, port.unwrap_or(DEFAULT_PORT))],
            None => places(&login, port),
        };
        let root = field(Field::Root)?.or(read.root);
        let connect_timeout = login.get_connect_timeout().copied();
        let identity = identity(&login, &places, trust, root.as_deref());
        Ok(Self {
            places,
            login,
            trust,
            root,
            connect_timeout,
            identity,
        })
    }
}

fn port_of(text: &str) -> Result<u16, TaskError> {
    text.parse()
        .map_err(|_| wrong("db_port", "a port", &Json::from(text)))
}

fn place(host: String, port: u16) -> Place {
    if host.starts_with('/') {
        return Place::Unix { folder: host, port };
    }
    // An address of the newer kind may stand in brackets, as it does in a URL.
    let bare = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .to_owned();
    Place::Tcp {
        address: bare.clone(),
        name: bare,
        port,
    }
}

/// The places of a connection string, which may name several.
fn places(login: &Login, port: Option<u16>) -> Vec<Place> {
    let ports = login.get_ports();
    let port = |index: usize| {
        let own = ports.get(index).or(ports.first()).copied();
        port.or(own).unwrap_or(DEFAULT_PORT)
    };
    let addresses = login.get_hostaddrs();
    let mut places: Vec<Place> = login
        .get_hosts()
        .iter()
        .enumerate()
        .map(|(index, host)| match host {
            Host::Tcp(name) => {
                let address = addresses.get(index).map(ToString::to_string);
                Place::Tcp {
                    address: address.unwrap_or_else(|| name.clone()),
                    name: name.clone(),
                    port: port(index),
                }
            }
            Host::Unix(folder) => Place::Unix {
                folder: folder.display().to_string(),
                port: port(index),
            },
        })
        .collect();
    if places.is_empty() {
        let bare = addresses.iter().map(ToString::to_string);
        places.extend(
            bare.enumerate()
                .map(|(index, host)| place(host, port(index))),
        );
    }
    if places.is_empty() {
        places.push(place("localhost".to_owned(), port(0)));
    }
    places
}

fn identity(login: &Login, places: &[Place], trust: Trust, root: Option<&str>) -> Digest {
    let places = format!("{places:?} {trust:?}");
    let part = |part: Option<&str>| {
        let part = part.unwrap_or_default();
        format!("{}:{part}", part.len())
    };
    let texts = [
        part(Some(&places)),
        part(login.get_user()),
        part(login.get_dbname()),
        part(login.get_options()),
        part(login.get_application_name()),
        part(root),
    ];
    let mut bytes = texts.concat().into_bytes();
    bytes.extend(login.get_password().unwrap_or_default());
    sha256(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use noetl_types::json::parse;

    fn read(config: &str) -> Result<Target, TaskError> {
        let config = parse(config.as_bytes()).unwrap();
        Target::read(Config(config.as_map().unwrap()))
    }

    fn tcp(name: &str, port: u16) -> Place {
        place(name.to_owned(), port)
    }

    #[test]
    fn fields_win_over_credentials_and_those_over_strings() {
        let target = read(
            r#"{"connection_string": "host=a port=1 user=u dbname=d", "db_name": "mine",
                "auth": {"type": "postgres", "db_host": "b", "db_port": "2", "db_name": "theirs"}}"#,
        )
        .unwrap();
        assert_eq!(target.places, [tcp("b", 2)]);
        assert_eq!(target.login.get_user(), Some("u"));
        assert_eq!(target.login.get_dbname(), Some("mine"));
        assert_eq!(target.trust, Trust::Prefer);
    }

    #[test]
    fn strings_of_both_forms() {
        let url =
            read(r#"{"connection_string": "postgres://u:p%40x@h1,h2:6000/d?sslmode=verify-full"}"#)
                .unwrap();
        assert_eq!(url.trust, Trust::Full);
        assert_eq!(url.login.get_password(), Some(&b"p@x"[..]));
        assert_eq!(url.places.len(), 2);
        let pairs = read(r#"{"connection_string": "host=/run/pg sslmode='disable' dbname=d"}"#);
        let pairs = pairs.unwrap();
        assert_eq!(pairs.trust, Trust::Plain);
        let folder = "/run/pg".to_owned();
        assert_eq!(pairs.places, [Place::Unix { folder, port: 5432 }]);
    }

    #[test]
    fn what_cannot_be_a_database_is_refused() {
        let kind = |config: &str| read(config).err().unwrap().kind;
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
    fn another_password_is_another_target() {
        let with = |password: &str| {
            let config = format!(r#"{{"db_host": "h", "db_password": "{password}"}}"#);
            read(&config).unwrap().identity
        };
        assert_ne!(with("a"), with("b"));
        assert_eq!(with("a"), with("a"));
    }
}

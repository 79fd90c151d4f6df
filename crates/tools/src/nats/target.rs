//! Which server a task means, and who it is there.

use noetl_types::{Digest, JsonMap, TaskError, TaskErrorKind, sha256};
use reqwest::Url;

use crate::config::{Config, missing};
use crate::settings::{NatsSettings, Settings};
use crate::sql::credential;

/// The port of a server that names none.
const DEFAULT_PORT: u16 = 4222;

/// What a connection is made with. It holds secrets, so it is never shown.
pub(crate) struct Target {
    pub(super) host: String,
    pub(super) port: u16,
    /// Whether nothing but TLS will do.
    pub(super) is_encrypted: bool,
    pub(super) user: Option<(String, String)>,
    pub(super) token: Option<String>,
    /// Whether the operator chose it, so that no guard stands in the way.
    pub(super) is_of_operator: bool,
    /// Tells targets apart without telling what is in them.
    pub(super) identity: Digest,
}

impl Target {
    /// Reads the config of a task: its own address wins over that of its credential, and that over
    /// the server that the operator gives to tasks that name none.
    pub(crate) fn read(config: Config<'_>, settings: &Settings) -> Result<Self, TaskError> {
        let empty = JsonMap::new();
        let auth = Config(credential(config, "nats")?.unwrap_or(&empty));
        let first = |keys: &[&str]| -> Result<Option<&str>, TaskError> {
            for key in keys {
                if let Some(text) = auth.text(key)?.filter(|text| !text.is_empty()) {
                    return Ok(Some(text));
                }
            }
            Ok(None)
        };
        let named = match config.text("url")? {
            Some(url) => Some(url),
            None => first(&["url", "nats_url", "server", "servers"])?,
        };
        let Some(named) = named else {
            let own = settings.nats.as_ref();
            return Self::of_operator(own.ok_or_else(|| missing("'url' or 'auth'"))?);
        };
        let url = parsed(named)?;
        let user = first(&["user", "username", "nats_user"])?;
        let password = first(&["password", "nats_password"])?;
        let user = user.map(|user| {
            let password = password.unwrap_or_default();
            (user.to_owned(), password.to_owned())
        });
        let token = first(&["token", "nats_token"])?.map(str::to_owned);
        Ok(Self::of(&url, user, token))
    }

    /// The operator's own server. What a task says about itself does not count there: its words are
    /// not those of the operator.
    fn of_operator(own: &NatsSettings) -> Result<Self, TaskError> {
        let first = own.url.split(',').next().unwrap_or_default().trim();
        let target = Self::of(&parsed(first)?, own.user.clone(), own.token.clone());
        Ok(Self {
            is_of_operator: true,
            ..target
        })
    }

    /// A server at an address; a user of the address is one where no other is given.
    fn of(url: &Url, user: Option<(String, String)>, token: Option<String>) -> Self {
        let of_url = (!url.username().is_empty()).then(|| {
            let password = url.password().unwrap_or_default();
            (decoded(url.username()), decoded(password))
        });
        let user = user.or(of_url);
        let host = url.host_str().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = url.port().unwrap_or(DEFAULT_PORT);
        let is_encrypted = url.scheme() == "tls";
        let told = format!("{host:?}{port}{is_encrypted}{user:?}{token:?}");
        Self {
            host: host.to_owned(),
            port,
            is_encrypted,
            user,
            token,
            is_of_operator: false,
            identity: sha256(told),
        }
    }

    /// The server as it may be shown.
    pub(super) fn shown(&self) -> String {
        format!("the NATS server at {}:{}", self.host, self.port)
    }
}

fn parsed(text: &str) -> Result<Url, TaskError> {
    let refused = |why: &str| {
        // The address may hold a password, so it is not repeated.
        TaskError::new(TaskErrorKind::Schema, format!("'url' {why}"))
    };
    let whole = if text.contains("://") {
        text.to_owned()
    } else {
        format!("nats://{text}")
    };
    let url = Url::parse(&whole).map_err(|_| refused("is no address of a NATS server"))?;
    if !["nats", "tls"].contains(&url.scheme()) {
        return Err(refused("has to begin with nats:// or tls://"));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(refused("names no host"));
    }
    Ok(url)
}

/// A part of an address without its percent signs.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..2).filter(|_| *first == b'%');
        let code = code.and_then(|code| std::str::from_utf8(code).ok());
        let byte = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use noetl_types::json::parse;

    use super::*;

    fn read(config: &str) -> Result<Target, TaskError> {
        let config = parse(config.as_bytes()).unwrap();
        Target::read(Config(config.as_map().unwrap()), &Settings::default())
    }

    #[test]
    fn where_a_server_is() {
        let target = read(r#"{"url": "nats://u:p%40x@h:5000"}"#).unwrap();
        assert_eq!((target.host.as_str(), target.port), ("h", 5000));
        assert_eq!(target.user, Some(("u".into(), "p@x".into())));
        assert!(!target.is_encrypted);
        let bare = read(r#"{"url": "h", "auth": {"type": "nats", "token": "t"}}"#).unwrap();
        assert_eq!((bare.port, bare.token.as_deref()), (4222, Some("t")));
        let auth = r#"{"auth": {"url": "tls://[::1]:1", "user": "u", "password": "p"}}"#;
        let auth = read(auth).unwrap();
        assert_eq!((auth.host.as_str(), auth.is_encrypted), ("::1", true));
    }

    #[test]
    fn a_task_that_names_no_server_is_the_operator_at_the_operators() {
        let settings = Settings {
            nats: Some(NatsSettings {
                url: "nats://a:1, nats://b:2".into(),
                user: Some(("house".into(), "hunter22".into())),
                token: None,
            }),
            ..Settings::default()
        };
        let read = |config: &str| {
            let config = parse(config.as_bytes()).unwrap();
            Target::read(Config(config.as_map().unwrap()), &settings).unwrap()
        };
        let own = read(r#"{"auth": {"type": "nats", "user": "somebody"}}"#);
        assert_eq!((own.host.as_str(), own.port), ("a", 1));
        assert_eq!(own.user, Some(("house".into(), "hunter22".into())));
        assert!(own.is_of_operator);
        // A server that the task names is told nothing of the operator, even if it is the same one.
        let named = read(r#"{"url": "nats://a:1"}"#);
        assert_eq!((named.user, named.token), (None, None));
        assert!(!named.is_of_operator);
        assert!(!format!("{settings:?}").contains("hunter22"));
    }

    #[test]
    fn what_is_no_server() {
        let message = |config: &str| read(config).err().unwrap().message.to_string();
        assert_eq!(message("{}"), "'url' or 'auth' is missing");
        let scheme = message(r#"{"url": "http://u:secret@h"}"#);
        assert_eq!(scheme, "'url' has to begin with nats:// or tls://");
        assert!(message(r#"{"auth": {"type": "bearer"}}"#).contains("must be of type nats"));
    }

    #[test]
    fn another_secret_is_another_target() {
        let with = |token: &str| {
            let config = format!(r#"{{"url": "h", "auth": {{"token": "{token}"}}}}"#);
            read(&config).unwrap().identity
        };
        assert_ne!(with("a"), with("b"));
        assert_eq!(with("a"), with("a"));
    }
}

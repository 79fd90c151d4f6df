//! Settings of the client.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use noetl_types::{ByteSize, Millis, Text};
use reqwest::Url;

/// Settings of a client.
#[derive(Debug, Clone)]
pub struct ClientSettings {
    /// Token of the caller; unauthenticated if absent.
    pub token: Option<BearerToken>,
    /// CA certificates to trust, in PEM; those of the system if absent.
    pub authority: Option<Vec<u8>>,
    /// Client certificate for TLS connections.
    pub certificate: Option<ClientCertificate>,
    /// Unix socket of the server. The base URL then only names the server in messages.
    pub unix_socket: Option<PathBuf>,
    /// Maximum duration of connecting.
    pub connect_timeout: Millis,
    /// Maximum duration of a call, not counting the requested server wait and the transfer of large
    /// bodies.
    pub timeout: Millis,
    /// Maximum size of a response.
    pub max_response_size: ByteSize,
}

impl Default for ClientSettings {
    fn default() -> Self {
        Self {
            token: None,
            authority: None,
            certificate: None,
            unix_socket: None,
            connect_timeout: Millis::from_secs(5),
            timeout: Millis::from_secs(30),
            max_response_size: ByteSize::from_mib(128),
        }
    }
}

/// The certificate of a client.
#[derive(Clone)]
pub struct ClientCertificate {
    /// Certificate chain, in PEM.
    pub chain: Vec<u8>,
    /// Private key, in PEM.
    pub key: Vec<u8>,
}

/// Contains a private key, so nothing is printed.
impl fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientCertificate(..)")
    }
}

/// A bearer token.
#[derive(Clone)]
pub struct BearerToken(Text);

impl BearerToken {
    /// Wraps a token.
    pub fn new(token: impl Into<Text>) -> Self {
        Self(token.into())
    }

    pub(super) fn reveal(&self) -> &str {
        &self.0
    }
}

/// A token is a secret, so it is not printed.
impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BearerToken(..)")
    }
}

/// Error for settings from which no client can be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientBuildError {
    /// The URL is invalid.
    #[error("`{url}` is not a valid server URL: {reason}")]
    BadUrl {
        /// The URL.
        url: Text,
        /// Reason of the error.
        reason: Text,
    },
    /// The token cannot be sent in a header.
    #[error("the token contains characters that are not allowed in a header")]
    InvalidToken,
    /// The client could not be built, for example because certificates are missing.
    #[error("cannot create the client: {0}")]
    Build(Text),
}

impl ClientBuildError {
    pub(super) fn bad_url(url: &str, reason: impl fmt::Display) -> Self {
        Self::BadUrl { url: url.into(), reason: reason.to_string().into() }
    }
}

/// Parses the base URL of a server.
pub(super) fn parse_base_url(base_url: &str) -> Result<Url, ClientBuildError> {
    let url = Url::parse(base_url).map_err(|error| ClientBuildError::bad_url(base_url, error))?;
    if !matches!(url.scheme(), "http" | "https") {
        let reason = "it must begin with `http://` or `https://`";
        return Err(ClientBuildError::bad_url(base_url, reason));
    }
    if !url.username().is_empty() || url.password().is_some() {
        // The URL is printed and logged, so it must not contain a secret.
        let mut redacted = url.clone();
        let _ = redacted.set_password(None);
        let _ = redacted.set_username("");
        let reason = "it must not contain a user name or password; pass a token instead";
        return Err(ClientBuildError::bad_url(redacted.as_str(), reason));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(ClientBuildError::bad_url(base_url, "it must not contain `?` or `#`"));
    }
    Ok(url)
}

/// True if the URL refers to this machine.
pub(super) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    }
}

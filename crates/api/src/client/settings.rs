//! What a client is made of.

use std::fmt;
use std::net::IpAddr;

use noetl_types::{ByteSize, Millis, Text};
use reqwest::Url;

/// What a client may be told.
#[derive(Debug, Clone)]
pub struct ClientSettings {
    /// Who it acts for; nobody in particular where absent.
    pub token: Option<BearerToken>,
    /// Certificates, in PEM, of the authorities that it trusts; those of the machine where absent.
    pub authority: Option<Vec<u8>>,
    /// What it shows of itself on encrypted connections.
    pub certificate: Option<ClientCertificate>,
    /// How long a connection may take to come about.
    pub connect_timeout: Millis,
    /// How long a call may take, besides the time that it asks the server to wait and what large
    /// bodies take.
    pub timeout: Millis,
    /// The largest answer that it reads.
    pub max_answer: ByteSize,
}

impl Default for ClientSettings {
    fn default() -> Self {
        Self {
            token: None,
            authority: None,
            certificate: None,
            connect_timeout: Millis::from_secs(5),
            timeout: Millis::from_secs(30),
            max_answer: ByteSize::from_mib(128),
        }
    }
}

/// The certificate of a client.
#[derive(Clone)]
pub struct ClientCertificate {
    /// Its chain, in PEM.
    pub chain: Vec<u8>,
    /// Its key, in PEM.
    pub key: Vec<u8>,
}

/// It holds a key, so it shows nothing of itself.
impl fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientCertificate(..)")
    }
}

/// What proves who a caller is.
#[derive(Clone)]
pub struct BearerToken(Text);

impl BearerToken {
    /// A token.
    pub fn new(token: impl Into<Text>) -> Self {
        Self(token.into())
    }

    pub(super) fn reveal(&self) -> &str {
        &self.0
    }
}

/// A token is a secret, so it shows nothing of itself.
impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BearerToken(..)")
    }
}

/// Why there is no client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientRefused {
    /// The address is none.
    #[error("`{url}` is not the address of a server: {reason}")]
    BadUrl {
        /// The address.
        url: Text,
        /// Why.
        reason: Text,
    },
    /// The token cannot be sent.
    #[error("the token has characters that no header can hold")]
    Token,
    /// The machine lacks something, such as certificates.
    #[error("no client can be made: {0}")]
    Build(Text),
}

impl ClientRefused {
    pub(super) fn bad_url(url: &str, reason: impl fmt::Display) -> Self {
        Self::BadUrl {
            url: url.into(),
            reason: reason.to_string().into(),
        }
    }
}

/// The address of a server.
pub(super) fn base_of(base_url: &str) -> Result<Url, ClientRefused> {
    let url = Url::parse(base_url).map_err(|error| ClientRefused::bad_url(base_url, error))?;
    if !matches!(url.scheme(), "http" | "https") {
        let reason = "it begins with neither `http://` nor `https://`";
        return Err(ClientRefused::bad_url(base_url, reason));
    }
    if !url.username().is_empty() || url.password().is_some() {
        // The address is printed and logged, so it must not hold a secret.
        let mut shown = url.clone();
        let _ = shown.set_password(None);
        let _ = shown.set_username("");
        let reason = "a token does not belong into the address";
        return Err(ClientRefused::bad_url(shown.as_str(), reason));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(ClientRefused::bad_url(base_url, "it has a `?` or a `#`"));
    }
    Ok(url)
}

/// Whether an address is one of this machine.
pub(super) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    }
}

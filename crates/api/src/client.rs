//! The HTTP client.
//!
//! Owns how an API call is made: one connection pool, a body that is serialized once, a response
//! that is read up to a maximum size. Does not retry, because only the caller knows if a retry is
//! safe.

mod call;
mod collector;
mod event_stream;
mod internal;
mod settings;
mod sse;
#[cfg(test)]
mod tests;
mod user;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use noetl_types::{ByteSize, Millis};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::{Url, redirect};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

pub use event_stream::{LiveEventStream, StreamUpdate};
pub use settings::{BearerToken, ClientBuildError, ClientCertificate, ClientSettings};

/// A client of one server. A clone is another handle of the same client.
#[derive(Debug, Clone)]
pub struct Client {
    inner: Arc<ClientInner>,
}

#[derive(Debug)]
struct ClientInner {
    http: reqwest::Client,
    /// Base URL of the server, without a trailing slash.
    base: String,
    timeout: Millis,
    /// Maximum time to wait for a process that serves the Unix socket; zero without a socket.
    socket_wait: Duration,
    max_response_size: ByteSize,
}

/// Idle connections are closed before the server closes them. Otherwise a call could use a
/// connection that the server is closing.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(8);
/// Maximum idle connections.
const MAX_IDLE_CONNECTIONS: usize = 64;
/// Interval of TCP keepalive probes.
const TCP_KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);

impl Client {
    /// Creates a client of the server at a URL such as `http://localhost:8082`.
    pub fn new(base_url: &str, settings: ClientSettings) -> Result<Self, ClientBuildError> {
        let ClientSettings {
            token,
            authority,
            certificate,
            unix_socket,
            connect_timeout,
            timeout,
            max_response_size,
        } = settings;
        let base = settings::parse_base_url(base_url)?;
        let mut headers = HeaderMap::new();
        if let Some(token) = token {
            headers.insert(AUTHORIZATION, bearer_header(&token)?);
        }
        let builder = reqwest::Client::builder()
            .default_headers(headers)
            .user_agent(concat!("noetl/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .no_gzip()
            .no_deflate()
            .tcp_nodelay(true)
            .tcp_keepalive(TCP_KEEPALIVE_INTERVAL)
            .pool_idle_timeout(POOL_IDLE_TIMEOUT)
            .pool_max_idle_per_host(MAX_IDLE_CONNECTIONS)
            .connect_timeout(Duration::from_millis(connect_timeout.as_ms()));
        let socket_wait =
            if unix_socket.is_some() { Duration::from(connect_timeout) } else { Duration::ZERO };
        let builder = match unix_socket {
            Some(path) => builder.unix_socket(path),
            None => builder,
        };
        let builder = if settings::is_loopback(&base) {
            // A proxy from the environment could not reach this machine.
            builder.no_proxy()
        } else {
            builder
        };
        let http = with_tls(builder, &base, authority.as_deref(), certificate.as_ref())?
            .build()
            .map_err(|error| ClientBuildError::Build(call::error_chain(&error).into()))?;
        let base = base.as_str().trim_end_matches('/').to_owned();
        let inner = ClientInner { http, base, timeout, socket_wait, max_response_size };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Returns the base URL of the server.
    pub fn base_url(&self) -> &str {
        &self.inner.base
    }
}

fn bearer_header(token: &BearerToken) -> Result<HeaderValue, ClientBuildError> {
    let mut value = HeaderValue::try_from(format!("Bearer {}", token.reveal()))
        .map_err(|_| ClientBuildError::InvalidToken)?;
    value.set_sensitive(true);
    Ok(value)
}

/// Parses the root certificates of a PEM file.
fn parse_root_certificates(pem: &[u8]) -> Result<rustls::RootCertStore, ClientBuildError> {
    let invalid = |error: &dyn std::fmt::Display| {
        ClientBuildError::Build(format!("invalid CA certificates: {error}").into())
    };
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| invalid(&error))?;
        roots.add(certificate).map_err(|error| invalid(&error))?;
    }
    Ok(roots)
}

/// Configures TLS with a cryptography provider, without which the client cannot be built.
///
/// A plain URL never uses TLS, so it gets a configuration without trusted roots. If CA certificates
/// are given, only these are trusted. Otherwise the platform verifier is used, which needs the
/// process-wide provider. The binary installs one; if it has not, this function does.
fn with_tls(
    builder: reqwest::ClientBuilder,
    base: &Url,
    authority: Option<&[u8]>,
    certificate: Option<&ClientCertificate>,
) -> Result<reqwest::ClientBuilder, ClientBuildError> {
    if base.scheme() == "https" && authority.is_none() {
        // An error means that a provider is already installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        return match certificate {
            Some(certificate) => Ok(builder.identity(client_identity(certificate)?)),
            None => Ok(builder),
        };
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| ClientBuildError::Build(error.to_string().into()))?
        .with_root_certificates(parse_root_certificates(authority.unwrap_or_default())?);
    let config = match certificate {
        None => config.with_no_client_auth(),
        Some(certificate) => {
            let chain: Result<Vec<_>, _> =
                CertificateDer::pem_slice_iter(&certificate.chain).collect();
            let chain = chain.map_err(|error| certificate_error(&error))?;
            let key = PrivateKeyDer::from_pem_slice(&certificate.key);
            let key = key.map_err(|error| certificate_error(&error))?;
            let config = config.with_client_auth_cert(chain, key);
            config.map_err(|error| certificate_error(&error))?
        }
    };
    Ok(builder.tls_backend_preconfigured(config))
}

/// Builds the client identity for a client that uses the platform verifier.
fn client_identity(certificate: &ClientCertificate) -> Result<reqwest::Identity, ClientBuildError> {
    let pem = [&*certificate.key, b"\n", &*certificate.chain].concat();
    reqwest::Identity::from_pem(&pem).map_err(|error| certificate_error(&error))
}

fn certificate_error(error: &dyn std::fmt::Display) -> ClientBuildError {
    ClientBuildError::Build(format!("invalid client certificate: {error}").into())
}

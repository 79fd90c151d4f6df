//! The client over HTTP.
//!
//! Owns how a call of the API is made: one pool of connections, one body written once, an answer
//! that is read up to a bound. Does not repeat calls: whoever makes one knows whether that is safe.

mod call;
mod collector;
mod frames;
mod internal;
mod live;
mod settings;
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

use crate::paths;

pub use live::{LiveLog, News};
pub use settings::{BearerToken, ClientCertificate, ClientRefused, ClientSettings};

/// A client of one server. A clone is another handle of the same.
#[derive(Debug, Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    http: reqwest::Client,
    /// The address of the server, without a slash at its end.
    base: String,
    hot: HotRoutes,
    timeout: Millis,
    max_answer: ByteSize,
}

/// The addresses that a busy worker calls again and again, read once.
#[derive(Debug)]
struct HotRoutes {
    lease: Url,
    heartbeat: Url,
    report: Url,
}

/// An idle connection is given up before the server does so, lest a call meets its end.
const IDLE: Duration = Duration::from_secs(8);
/// Idle connections that are kept.
const MAX_IDLE: usize = 64;
/// How often a silent connection is probed.
const KEEPALIVE: Duration = Duration::from_secs(30);

impl Client {
    /// A client of the server at an address such as `http://localhost:8082`.
    pub fn new(base_url: &str, settings: ClientSettings) -> Result<Self, ClientRefused> {
        let ClientSettings {
            token,
            authority,
            certificate,
            connect_timeout,
            timeout,
            max_answer,
        } = settings;
        let base = settings::base_of(base_url)?;
        let mut headers = HeaderMap::new();
        if let Some(token) = token {
            headers.insert(AUTHORIZATION, bearer(&token)?);
        }
        let builder = reqwest::Client::builder()
            .default_headers(headers)
            .user_agent(concat!("noetl/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .no_gzip()
            .no_deflate()
            .tcp_nodelay(true)
            .tcp_keepalive(KEEPALIVE)
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(MAX_IDLE)
            .connect_timeout(Duration::from_millis(connect_timeout.as_ms()));
        let builder = if settings::is_loopback(&base) {
            // A proxy of the environment would be another machine.
            builder.no_proxy()
        } else {
            builder
        };
        let http = with_tls(builder, &base, authority.as_deref(), certificate.as_ref())?
            .build()
            .map_err(|error| ClientRefused::Build(call::causes(&error).into()))?;
        let base = base.as_str().trim_end_matches('/').to_owned();
        let hot = HotRoutes {
            lease: url(&base, paths::COMMANDS_LEASE)?,
            heartbeat: url(&base, paths::COMMANDS_HEARTBEAT)?,
            report: url(&base, paths::COMMANDS_REPORT)?,
        };
        Ok(Self {
            inner: Arc::new(Inner {
                http,
                base,
                hot,
                timeout,
                max_answer,
            }),
        })
    }

    /// The address of the server.
    pub fn base_url(&self) -> &str {
        &self.inner.base
    }
}

fn bearer(token: &BearerToken) -> Result<HeaderValue, ClientRefused> {
    let mut value = HeaderValue::try_from(format!("Bearer {}", token.reveal()))
        .map_err(|_| ClientRefused::Token)?;
    value.set_sensitive(true);
    Ok(value)
}

fn url(base: &str, path: &str) -> Result<Url, ClientRefused> {
    let text = format!("{base}{path}");
    Url::parse(&text).map_err(|error| ClientRefused::bad_url(&text, error))
}

/// The authorities in a file of certificates.
fn trusted(pem: &[u8]) -> Result<rustls::RootCertStore, ClientRefused> {
    let refused = |error: &dyn std::fmt::Display| {
        ClientRefused::Build(format!("the certificates of the authority: {error}").into())
    };
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| refused(&error))?;
        roots.add(certificate).map_err(|error| refused(&error))?;
    }
    Ok(roots)
}

/// Gives the builder a provider of cryptography, without which it cannot be built.
///
/// A plain address never speaks TLS, so it gets a configuration that trusts nobody; one for which
/// authorities are named trusts those. For others the
/// verifier of the platform is used, which takes the provider of the process: the binary installs
/// one, and where it has not, this does.
fn with_tls(
    builder: reqwest::ClientBuilder,
    base: &Url,
    authority: Option<&[u8]>,
    certificate: Option<&ClientCertificate>,
) -> Result<reqwest::ClientBuilder, ClientRefused> {
    if base.scheme() == "https" && authority.is_none() {
        // An error says that there is one already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        return match certificate {
            Some(own) => Ok(builder.identity(identity(own)?)),
            None => Ok(builder),
        };
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| ClientRefused::Build(error.to_string().into()))?
        .with_root_certificates(trusted(authority.unwrap_or_default())?);
    let config = match certificate {
        None => config.with_no_client_auth(),
        Some(own) => {
            let (chain, key) = (chain_of(own)?, key_of(own)?);
            let config = config.with_client_auth_cert(chain, key);
            config.map_err(|error| unfit(&error))?
        }
    };
    Ok(builder.tls_backend_preconfigured(config))
}

fn chain_of(own: &ClientCertificate) -> Result<Vec<CertificateDer<'static>>, ClientRefused> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&own.chain).collect();
    chain.map_err(|error| unfit(&error))
}

fn key_of(own: &ClientCertificate) -> Result<PrivateKeyDer<'static>, ClientRefused> {
    PrivateKeyDer::from_pem_slice(&own.key).map_err(|error| unfit(&error))
}

/// The same for a client that trusts what its machine trusts.
fn identity(own: &ClientCertificate) -> Result<reqwest::Identity, ClientRefused> {
    let both = [&*own.key, b"\n", &*own.chain].concat();
    reqwest::Identity::from_pem(&both).map_err(|error| unfit(&error))
}

fn unfit(error: &dyn std::fmt::Display) -> ClientRefused {
    ClientRefused::Build(format!("the certificate of this client: {error}").into())
}

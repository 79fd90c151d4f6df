//! TLS of the listener.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use tokio_rustls::TlsAcceptor;

/// What a listener shows to its clients, and whom it takes as clients.
#[derive(Clone)]
pub struct Tls(Arc<ServerConfig>);

/// It holds a key, so it shows nothing of itself.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls(..)")
    }
}

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsRefused {
    /// A file cannot be read as what it should be.
    #[error("{path} holds no {what} in PEM: {reason}")]
    Pem {
        /// The file.
        path: String,
        /// What it should hold.
        what: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The parts do not fit together.
    #[error("certificate and key cannot be used: {0}")]
    Unfit(String),
}

impl Tls {
    /// Reads a chain of certificates and its key. With `client_ca`, only clients with a certificate of
    /// that authority get through.
    pub fn read(
        certificates: &Path,
        key: &Path,
        client_ca: Option<&Path>,
    ) -> Result<Self, TlsRefused> {
        let chain = read_certificates(certificates)?;
        let key = PrivateKeyDer::from_pem_file(key).map_err(|error| pem(key, "key", &error))?;
        let unfit = |error: &dyn fmt::Display| TlsRefused::Unfit(error.to_string());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| unfit(&error))?;
        let builder = match client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let mut roots = rustls::RootCertStore::empty();
                for authority in read_certificates(path)? {
                    roots.add(authority).map_err(|error| unfit(&error))?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                        .build()
                        .map_err(|error| unfit(&error))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder
            .with_single_cert(chain, key)
            .map_err(|error| unfit(&error))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(Arc::new(config)))
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.0))
    }
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsRefused> {
    let refused = |error: &dyn fmt::Display| pem(path, "certificate", error);
    let read = CertificateDer::pem_file_iter(path).map_err(|error| refused(&error))?;
    let chain: Result<Vec<_>, _> = read.collect();
    let chain = chain.map_err(|error| refused(&error))?;
    if chain.is_empty() {
        return Err(refused(&"it is empty"));
    }
    Ok(chain)
}

fn pem(path: &Path, what: &'static str, reason: &dyn fmt::Display) -> TlsRefused {
    TlsRefused::Pem {
        path: path.display().to_string(),
        what,
        reason: reason.to_string(),
    }
}

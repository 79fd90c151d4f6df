//! TLS configuration of the listener.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use tokio_rustls::TlsAcceptor;

/// TLS configuration of a listener: its certificate, and the authority of client certificates.
#[derive(Clone)]
pub struct ListenerTls(Arc<ServerConfig>);

/// Omits the contents, which include the private key.
impl fmt::Debug for ListenerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ListenerTls(..)")
    }
}

/// Reason why TLS cannot be configured.
#[derive(Debug, thiserror::Error)]
pub enum ListenerTlsError {
    /// A PEM file cannot be read or parsed.
    #[error("cannot read a PEM {what} from {path}: {reason}")]
    Pem {
        path: String,
        /// Expected content: `certificate` or `key`.
        what: &'static str,
        reason: String,
    },
    /// rustls rejects the certificate or the key.
    #[error("certificate and key cannot be used: {0}")]
    Unusable(String),
}

impl ListenerTls {
    /// Reads a certificate chain and its private key. With `client_ca`, clients must present a
    /// certificate of that authority.
    pub fn from_pem_files(
        certificates: &Path,
        key: &Path,
        client_ca: Option<&Path>,
    ) -> Result<Self, ListenerTlsError> {
        let chain = read_certificates(certificates)?;
        let key =
            PrivateKeyDer::from_pem_file(key).map_err(|error| pem_error(key, "key", &error))?;
        let unusable = |error: &dyn fmt::Display| ListenerTlsError::Unusable(error.to_string());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable(&error))?;
        let builder = match client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let mut roots = rustls::RootCertStore::empty();
                for authority in read_certificates(path)? {
                    roots.add(authority).map_err(|error| unusable(&error))?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                        .build()
                        .map_err(|error| unusable(&error))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder.with_single_cert(chain, key).map_err(|error| unusable(&error))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(Arc::new(config)))
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.0))
    }
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ListenerTlsError> {
    let pem_failure = |error: &dyn fmt::Display| pem_error(path, "certificate", error);
    let certificates = CertificateDer::pem_file_iter(path).map_err(|error| pem_failure(&error))?;
    let chain: Result<Vec<_>, _> = certificates.collect();
    let chain = chain.map_err(|error| pem_failure(&error))?;
    if chain.is_empty() {
        return Err(pem_failure(&"the file contains no certificate"));
    }
    Ok(chain)
}

fn pem_error(path: &Path, what: &'static str, reason: &dyn fmt::Display) -> ListenerTlsError {
    ListenerTlsError::Pem { path: path.display().to_string(), what, reason: reason.to_string() }
}

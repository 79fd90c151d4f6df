//! Verification levels of TLS connections, and the verification of server certificates for each.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use rustls_platform_verifier::Verifier as PlatformVerifier;
use tokio_postgres::config::{Host, SslMode};

use crate::TlsError;

/// Verification level of a connection, with the `sslmode` values of PostgreSQL clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsVerification {
    /// No encryption.
    Disable,
    /// Encrypted if the server supports it; the certificate is not verified.
    Prefer,
    /// Encrypted; the certificate is not verified.
    Require,
    /// The certificate must be signed by a trusted CA.
    VerifyCa,
    /// The certificate must be signed by a trusted CA and match the host name.
    VerifyFull,
}

impl TlsVerification {
    pub fn parse_sslmode(mode: &str) -> Result<Self, TlsError> {
        match mode {
            "disable" => Ok(Self::Disable),
            "allow" | "prefer" => Ok(Self::Prefer),
            "require" => Ok(Self::Require),
            "verify-ca" => Ok(Self::VerifyCa),
            "verify-full" => Ok(Self::VerifyFull),
            other => Err(TlsError::Mode(other.to_owned())),
        }
    }

    /// Returns the `sslmode` for the driver.
    pub fn to_ssl_mode(self) -> SslMode {
        match self {
            Self::Disable => SslMode::Disable,
            Self::Prefer => SslMode::Prefer,
            Self::Require | Self::VerifyCa | Self::VerifyFull => SslMode::Require,
        }
    }

    /// Returns the default level: a local server may be unencrypted, any other server must have a
    /// valid certificate.
    pub fn default_for_hosts(hosts: &[Host]) -> Self {
        let is_local = |host: &Host| match host {
            Host::Tcp(name) => {
                let address = name.parse::<std::net::IpAddr>();
                name == "localhost" || address.is_ok_and(|address| address.is_loopback())
            }
            #[cfg(unix)]
            Host::Unix(_) => true,
        };
        if hosts.iter().all(is_local) { Self::Prefer } else { Self::VerifyFull }
    }
}

/// Returns a client configuration with this verification level.
pub(crate) fn client_config(
    verification: TlsVerification,
    roots: Option<&[u8]>,
) -> Result<ClientConfig, TlsError> {
    build_config(|provider| {
        Ok(match verification {
            TlsVerification::Disable | TlsVerification::Prefer | TlsVerification::Require => {
                VerificationRule::AcceptAny
            }
            TlsVerification::VerifyCa => {
                VerificationRule::AnyHost(authority_verifier(provider, roots)?)
            }
            TlsVerification::VerifyFull => {
                VerificationRule::Full(authority_verifier(provider, roots)?)
            }
        })
    })
}

/// Returns a client configuration that requires a certificate for `host`, independent of the
/// address that is dialed.
pub fn client_config_for_host(host: &str) -> Result<ClientConfig, TlsError> {
    let name = parse_server_name(host)?;
    build_config(|provider| Ok(VerificationRule::Named(authority_verifier(provider, None)?, name)))
}

pub(crate) fn parse_server_name(host: &str) -> Result<ServerName<'static>, TlsError> {
    ServerName::try_from(host.to_owned()).map_err(|_| TlsError::Host(host.to_owned()))
}

fn build_config(
    rule: impl FnOnce(&Arc<CryptoProvider>) -> Result<VerificationRule, TlsError>,
) -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let rule = rule(&provider)?;
    let verifier = CertificateVerifier { provider: Arc::clone(&provider), rule };
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| setup_error(&error))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth())
}

fn setup_error(error: &Error) -> TlsError {
    TlsError::SetUp(error.to_string())
}

/// Returns a verifier with the given CA certificates, or with those of the system.
fn authority_verifier(
    provider: &Arc<CryptoProvider>,
    roots: Option<&[u8]>,
) -> Result<Arc<dyn ServerCertVerifier>, TlsError> {
    let Some(pem) = roots else {
        let platform =
            PlatformVerifier::new(Arc::clone(provider)).map_err(|error| setup_error(&error))?;
        return Ok(Arc::new(platform));
    };
    let roots_error = |error: &dyn std::error::Error| TlsError::Roots(error.to_string());
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| roots_error(&error))?;
        store.add(certificate).map_err(|error| roots_error(&error))?;
    }
    let verifier =
        WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::clone(provider)).build();
    Ok(verifier.map_err(|error| roots_error(&error))?)
}

/// Requirements for a certificate.
#[derive(Debug)]
enum VerificationRule {
    /// Any certificate is accepted.
    AcceptAny,
    /// Signed by a trusted CA, for any host.
    AnyHost(Arc<dyn ServerCertVerifier>),
    /// Signed by a trusted CA, for the host of the connection.
    Full(Arc<dyn ServerCertVerifier>),
    /// Signed by a trusted CA, for this name. The connection is made to an IP address, so the name
    /// from the handshake is not used.
    Named(Arc<dyn ServerCertVerifier>, ServerName<'static>),
}

#[derive(Debug)]
struct CertificateVerifier {
    provider: Arc<CryptoProvider>,
    rule: VerificationRule,
}

impl ServerCertVerifier for CertificateVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let (authority, name) = match &self.rule {
            VerificationRule::AcceptAny => return Ok(ServerCertVerified::assertion()),
            VerificationRule::AnyHost(authority) | VerificationRule::Full(authority) => {
                (authority, server_name)
            }
            VerificationRule::Named(authority, name) => (authority, name),
        };
        match authority.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            // The name is checked last, after the signatures.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if matches!(self.rule, VerificationRule::AnyHost(_)) => {
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests;

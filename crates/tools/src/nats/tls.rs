//! TLS to an address that was checked, for the name that the task gave.

use std::sync::Arc;

use noetl_types::{TaskError, TaskErrorKind};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use rustls_platform_verifier::Verifier;

/// A configuration that wants a certificate for a host, whichever address is dialled.
pub(super) fn config(host: &str) -> Result<ClientConfig, TaskError> {
    let unusable = |error: &Error| {
        let message = format!("TLS cannot be set up: {error}");
        TaskError::new(TaskErrorKind::Unknown, message)
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let name = ServerName::try_from(host.to_owned()).map_err(|_| {
        let message = format!("'{host}' cannot be the host of a certificate");
        TaskError::new(TaskErrorKind::Schema, message)
    })?;
    let inner = Verifier::new(Arc::clone(&provider)).map_err(|error| unusable(&error))?;
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(&error))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Named { name, inner }))
        .with_no_client_auth())
}

/// Verifies as the machine does, for one name. The connection is made to an address, so the name
/// that the handshake would ask for is not the one that counts.
#[derive(Debug)]
struct Named {
    name: ServerName<'static>,
    inner: Verifier,
}

impl ServerCertVerifier for Named {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.inner
            .verify_server_cert(certificate, between, &self.name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

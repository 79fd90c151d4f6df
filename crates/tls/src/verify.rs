//! Certificates of servers.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use rustls_platform_verifier::Verifier as OfMachine;

use crate::{TlsError, Trust};

/// A configuration that trusts as much as it is told to; nothing where nothing is to be encrypted.
pub(crate) fn config(trust: Trust, roots: Option<&[u8]>) -> Result<Option<ClientConfig>, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let rule = match trust {
        Trust::Plain => return Ok(None),
        Trust::Prefer | Trust::Require => Rule::Anyone,
        Trust::Authority => Rule::AnyHost(authorities(&provider, roots)?),
        Trust::Full => Rule::Full(authorities(&provider, roots)?),
    };
    built(provider, rule).map(Some)
}

/// A configuration that wants a certificate for a host, whichever address is dialled.
pub fn named(host: &str) -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let name = name_of(host)?;
    let rule = Rule::Named(authorities(&provider, None)?, name);
    built(provider, rule)
}

/// The name of a host, as certificates have it.
pub(crate) fn name_of(host: &str) -> Result<ServerName<'static>, TlsError> {
    ServerName::try_from(host.to_owned()).map_err(|_| TlsError::Host(host.to_owned()))
}

fn built(provider: Arc<CryptoProvider>, rule: Rule) -> Result<ClientConfig, TlsError> {
    let verifier = Verifier {
        provider: Arc::clone(&provider),
        rule,
    };
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| set_up(&error))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth())
}

fn set_up(error: &Error) -> TlsError {
    TlsError::SetUp(error.to_string())
}

/// The authorities of the machine, or those that are named.
fn authorities(
    provider: &Arc<CryptoProvider>,
    roots: Option<&[u8]>,
) -> Result<Arc<dyn ServerCertVerifier>, TlsError> {
    let Some(pem) = roots else {
        let of_machine = OfMachine::new(Arc::clone(provider)).map_err(|error| set_up(&error))?;
        return Ok(Arc::new(of_machine));
    };
    let mut store = RootCertStore::empty();
    let unreadable = |why: String| TlsError::Roots(why);
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
        store
            .add(certificate)
            .map_err(|error| unreadable(error.to_string()))?;
    }
    let provider = Arc::clone(provider);
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider)
        .build()
        .map_err(|error| unreadable(error.to_string()))?;
    Ok(verifier)
}

/// What a certificate has to be.
#[derive(Debug)]
enum Rule {
    /// Anything: what is sent is encrypted, and the other side may be anyone.
    Anyone,
    /// Signed by an authority, for whichever host.
    AnyHost(Arc<dyn ServerCertVerifier>),
    /// Signed by an authority, for the host that is connected to.
    Full(Arc<dyn ServerCertVerifier>),
    /// Signed by an authority, for this name. The connection is made to an address, so the name that
    /// the handshake would ask for is not the one that counts.
    Named(Arc<dyn ServerCertVerifier>, ServerName<'static>),
}

#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    rule: Rule,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        asked: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let (authority, name) = match &self.rule {
            Rule::Anyone => return Ok(ServerCertVerified::assertion()),
            Rule::AnyHost(authority) | Rule::Full(authority) => (authority, asked),
            Rule::Named(authority, name) => (authority, name),
        };
        match authority.verify_server_cert(certificate, between, name, ocsp, now) {
            // The name is looked at last, after the signatures.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if matches!(self.rule, Rule::AnyHost(_)) => Ok(ServerCertVerified::assertion()),
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
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

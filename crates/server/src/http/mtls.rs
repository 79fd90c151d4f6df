//! Identities of clients that authenticate with a TLS certificate.
//!
//! The trusted authority guarantees the names in a certificate. The configuration maps these names
//! to identities. A certificate without a configured name gives no identity.

use std::sync::Arc;

use noetl_types::{PoolName, Scope, ScopeSet, TenantId, Text};
use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

use super::middleware::access::CallerIdentity;
use crate::access::AuthContext;

/// Identities by name in the client certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CertificateIdentities(Arc<[CertificateIdentity]>);

/// Identity of the clients with a certificate of this name.
#[derive(Debug, PartialEq, Eq)]
struct CertificateIdentity {
    name: CertificateName,
    scopes: ScopeSet,
    tenant_id: TenantId,
    pools: Option<Arc<[PoolName]>>,
}

/// A subject alternative name of a certificate.
#[derive(Debug, PartialEq, Eq)]
enum CertificateName {
    Dns(Text),
    Uri(Text),
}

impl CertificateIdentities {
    /// Parses `NAME=RIGHT+RIGHT;NAME=RIGHT`. A name is `dns:HOST` or a URI, a right is a scope,
    /// `pool:NAME` or `tenant:NAME`.
    pub fn parse_list(text: &str) -> Result<Self, String> {
        let entries = text.split(';').map(str::trim);
        let entries = entries.filter(|entry| !entry.is_empty());
        let mut identities: Vec<CertificateIdentity> = Vec::new();
        for entry in entries {
            let identity = CertificateIdentity::parse_entry(entry)
                .map_err(|reason| format!("'{entry}': {reason}"))?;
            if identities.iter().any(|other| other.name == identity.name) {
                return Err(format!("'{entry}': the name is listed twice"));
            }
            identities.push(identity);
        }
        Ok(Self(identities.into()))
    }

    /// Identity of a certificate: that of the first configured name that the certificate contains.
    pub(super) fn identity_of(&self, certificate: &CertificateDer<'_>) -> Option<CallerIdentity> {
        if self.0.is_empty() {
            return None;
        }
        let certificate = EndEntityCert::try_from(certificate).ok()?;
        let is_in_certificate = |configured: &&CertificateIdentity| match &configured.name {
            CertificateName::Dns(name) => certificate
                .valid_dns_names()
                .any(|certificate_name| certificate_name.eq_ignore_ascii_case(name)),
            CertificateName::Uri(name) => {
                certificate.valid_uri_names().any(|certificate_name| certificate_name == &**name)
            }
        };
        self.0.iter().find(is_in_certificate).map(CertificateIdentity::to_identity)
    }
}

impl CertificateIdentity {
    fn parse_entry(entry: &str) -> Result<Self, String> {
        // A URI may contain `=`, a right does not.
        let (name, rights) = entry
            .rsplit_once('=')
            .ok_or("expected NAME=SCOPE, for example dns:ops.example=admin")?;
        let mut identity = Self {
            name: CertificateName::parse_name(name.trim())?,
            scopes: ScopeSet::NONE,
            tenant_id: TenantId::default(),
            pools: None,
        };
        let mut pools = Vec::new();
        for right in rights.split('+').map(str::trim) {
            if let Some(pool) = right.strip_prefix("pool:") {
                pools.push(PoolName::new(pool).map_err(|error| error.to_string())?);
            } else if let Some(tenant) = right.strip_prefix("tenant:") {
                identity.tenant_id = TenantId::new(tenant).map_err(|error| error.to_string())?;
            } else {
                let scope = Scope::parse(right).map_err(|error| error.to_string())?;
                identity.scopes = identity.scopes.with_scope(scope);
            }
        }
        identity.pools = (!pools.is_empty()).then(|| pools.into());
        identity.validate_rights()
    }

    fn validate_rights(self) -> Result<Self, String> {
        if self.scopes.is_empty() {
            return Err("no scope is given".to_owned());
        }
        let is_internal = self.scopes.iter().any(Scope::is_internal);
        if is_internal && self.tenant_id != TenantId::default() {
            return Err("internal scopes require the tenant 'default'".to_owned());
        }
        Ok(self)
    }

    fn to_identity(&self) -> CallerIdentity {
        let (CertificateName::Dns(actor) | CertificateName::Uri(actor)) = &self.name;
        let context = AuthContext {
            tenant_id: self.tenant_id.clone(),
            pools: self.pools.clone(),
            scopes: Some(self.scopes),
            ..AuthContext::default()
        };
        CallerIdentity::from_certificate(actor.clone(), context)
    }
}

impl CertificateName {
    fn parse_name(name: &str) -> Result<Self, String> {
        if let Some(host) = name.strip_prefix("dns:") {
            let is_host_char =
                |character: char| character.is_ascii_alphanumeric() || "-._".contains(character);
            if host.is_empty() || !host.chars().all(is_host_char) {
                return Err("expected one host name after dns:".to_owned());
            }
            return Ok(Self::Dns(host.to_ascii_lowercase().into()));
        }
        let has_scheme = name.split_once(':').is_some_and(|(scheme, rest)| {
            let is_scheme_char =
                |character: char| character.is_ascii_alphanumeric() || "+-.".contains(character);
            !scheme.is_empty() && scheme.chars().all(is_scheme_char) && !rest.is_empty()
        });
        if !has_scheme || name.contains(char::is_whitespace) {
            return Err("expected dns:HOST or a URI such as spiffe://example/worker".to_owned());
        }
        Ok(Self::Uri(name.into()))
    }
}

#[cfg(test)]
mod tests;

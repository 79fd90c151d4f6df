//! Who a client is by its certificate.
//!
//! The authority that the server trusts says that a certificate is real; which of its names stands
//! for whom is said here. A certificate of another name stands for nobody.

use std::sync::Arc;

use noetl_types::{PoolName, Scope, Scopes, TenantId, Text};
use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

use super::access::Identity;
use crate::runtime::Behalf;

/// Names of certificates, and whom they stand for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CertifiedNames(Arc<[Certified]>);

/// One of them.
#[derive(Debug, PartialEq, Eq)]
struct Certified {
    name: Name,
    scopes: Scopes,
    tenant_id: TenantId,
    pools: Option<Arc<[PoolName]>>,
}

/// A name of a certificate, among its alternative names.
#[derive(Debug, PartialEq, Eq)]
enum Name {
    Dns(Text),
    Uri(Text),
}

impl CertifiedNames {
    /// Reads `NAME=RIGHT+RIGHT;NAME=RIGHT`. A name is `dns:HOST` or a URI; a right is a scope,
    /// `pool:NAME` or `tenant:NAME`.
    pub fn read(text: &str) -> Result<Self, String> {
        let entries = text.split(';').map(str::trim);
        let entries = entries.filter(|entry| !entry.is_empty());
        let mut names: Vec<Certified> = Vec::new();
        for entry in entries {
            let certified = Certified::read(entry).map_err(|why| format!("'{entry}': {why}"))?;
            if names.iter().any(|known| known.name == certified.name) {
                return Err(format!("'{entry}': the name is there twice"));
            }
            names.push(certified);
        }
        Ok(Self(names.into()))
    }

    /// Whom a certificate stands for: the first of these names that it has.
    pub(super) fn identity(&self, certificate: &CertificateDer<'_>) -> Option<Identity> {
        if self.0.is_empty() {
            return None;
        }
        let certificate = EndEntityCert::try_from(certificate).ok()?;
        let has = |known: &&Certified| match &known.name {
            Name::Dns(name) => certificate
                .valid_dns_names()
                .any(|own| own.eq_ignore_ascii_case(name)),
            Name::Uri(name) => certificate.valid_uri_names().any(|own| own == &**name),
        };
        self.0.iter().find(has).map(Certified::identity)
    }
}

impl Certified {
    fn read(entry: &str) -> Result<Self, String> {
        // A URI may hold the sign too, a right does not.
        let (name, rights) = entry
            .rsplit_once('=')
            .ok_or("it has to be such as dns:ops.example=admin")?;
        let mut certified = Self {
            name: Name::read(name.trim())?,
            scopes: Scopes::NONE,
            tenant_id: TenantId::default(),
            pools: None,
        };
        let mut pools = Vec::new();
        for right in rights.split('+').map(str::trim) {
            if let Some(pool) = right.strip_prefix("pool:") {
                pools.push(PoolName::new(pool).map_err(|error| error.to_string())?);
            } else if let Some(tenant) = right.strip_prefix("tenant:") {
                certified.tenant_id = TenantId::new(tenant).map_err(|error| error.to_string())?;
            } else {
                let scope = Scope::parse(right).map_err(|error| error.to_string())?;
                certified.scopes = certified.scopes.with(scope);
            }
        }
        certified.pools = (!pools.is_empty()).then(|| pools.into());
        certified.check()
    }

    fn check(self) -> Result<Self, String> {
        if self.scopes.is_empty() {
            return Err("it gives no scope".to_owned());
        }
        let is_internal = self.scopes.iter().any(Scope::is_internal);
        if is_internal && self.tenant_id != TenantId::default() {
            return Err("internal scopes are for the tenant that runs the installation".to_owned());
        }
        Ok(self)
    }

    fn identity(&self) -> Identity {
        let (Name::Dns(actor) | Name::Uri(actor)) = &self.name;
        let behalf = Behalf {
            tenant_id: self.tenant_id.clone(),
            pools: self.pools.clone(),
            scopes: Some(self.scopes),
            ..Behalf::default()
        };
        Identity::of_certificate(actor.clone(), behalf)
    }
}

impl Name {
    fn read(name: &str) -> Result<Self, String> {
        if let Some(host) = name.strip_prefix("dns:") {
            let is_host = |letter: char| letter.is_ascii_alphanumeric() || "-._".contains(letter);
            if host.is_empty() || !host.chars().all(is_host) {
                return Err("one host has to follow dns:".to_owned());
            }
            return Ok(Self::Dns(host.to_ascii_lowercase().into()));
        }
        let has_scheme = name.split_once(':').is_some_and(|(scheme, rest)| {
            let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "+-.".contains(letter);
            !scheme.is_empty() && scheme.chars().all(is_plain) && !rest.is_empty()
        });
        if !has_scheme || name.contains(char::is_whitespace) {
            return Err("a name is dns:HOST or a URI such as spiffe://example/worker".to_owned());
        }
        Ok(Self::Uri(name.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_for_rights() {
        let text =
            "spiffe://x/w?a=b=worker+pool:shared+pool:gpu+tenant:acme; dns:Ops.example = admin;";
        let names = CertifiedNames::read(text).unwrap();
        let [worker, ops] = &*names.0 else {
            panic!("{names:?}");
        };
        assert_eq!(worker.name, Name::Uri("spiffe://x/w?a=b".into()));
        assert_eq!(worker.scopes, Scopes::NONE.with(Scope::Worker));
        assert_eq!(worker.tenant_id, "acme");
        let pools = [PoolName::shared(), PoolName::new("gpu").unwrap()];
        assert_eq!(worker.pools.as_deref(), Some(&pools[..]));
        assert_eq!(ops.name, Name::Dns("ops.example".into()));
        assert_eq!(ops.scopes, Scopes::NONE.with(Scope::Admin));
        assert_eq!((ops.tenant_id.as_str(), &ops.pools), ("default", &None));
        assert_eq!(CertifiedNames::read("").unwrap(), CertifiedNames::default());
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for wrong in [
            "dns:a",
            "dns:a=",
            "dns:a=everything",
            "dns:=worker",
            "dns:*.a=worker",
            "a.example=worker",
            "=worker",
            "spiffe://a b=worker",
            "dns:a=pool:shared",
            "dns:a=worker+pool:",
            "dns:a=worker+tenant:",
            "dns:a=internal:outbox+tenant:acme",
            "dns:a=worker;dns:A=admin",
        ] {
            assert!(CertifiedNames::read(wrong).is_err(), "{wrong}");
        }
    }
}

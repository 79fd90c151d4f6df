//! Credentials as they are kept: named in the clear, sealed inside.

use noetl_types::{CredentialId, Json, TenantId, Text, Timestamp};

/// A credential.
#[derive(Debug, Clone, PartialEq)]
pub struct Credential {
    /// Its id.
    pub credential_id: CredentialId,
    /// Whose it is.
    pub tenant_id: TenantId,
    /// Its name, one of a kind in its tenant.
    pub name: Text,
    /// What it is for.
    pub kind: Text,
    /// How often its secret was written, from 1.
    pub version: i64,
    /// The secret, sealed; nothing here can open it.
    pub sealed: Json,
    /// The key that it is sealed under.
    pub kid: Text,
    /// What its owner notes about it.
    pub meta: Option<Json>,
    /// Words to find it by: a list of texts.
    pub tags: Json,
    /// What it is for, in words.
    pub description: Option<Text>,
    /// When it was first kept.
    pub created_at: Timestamp,
    /// When it was last written.
    pub updated_at: Timestamp,
}

/// A credential to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct CredentialPut {
    /// What it is to be.
    pub credential: Credential,
    /// The version that it replaces; `None` where there must be none of its name.
    pub replaces: Option<i64>,
}

/// Which credential is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CredentialKey {
    /// The one of this id.
    Id(CredentialId),
    /// The one of this name.
    Name(Text),
}

/// Which credentials are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialFilter {
    /// Whose they are; anybody's where absent, which is for whoever rotates keys.
    pub tenant_id: Option<TenantId>,
    /// Only those of this kind.
    pub kind: Option<Text>,
    /// Only those whose name holds this.
    pub text: Option<Text>,
    /// Only those that are sealed under another key than this.
    pub not_under: Option<Text>,
    /// Only those behind this one.
    pub after: Option<CredentialId>,
}

impl CredentialFilter {
    /// All of a tenant.
    pub const fn of(tenant_id: TenantId) -> Self {
        Self {
            tenant_id: Some(tenant_id),
            kind: None,
            text: None,
            not_under: None,
            after: None,
        }
    }

    pub(crate) fn takes(&self, credential: &Credential) -> bool {
        let is = |wanted: &Option<Text>, is: &dyn Fn(&Text) -> bool| wanted.as_ref().is_none_or(is);
        let tenant_id = self.tenant_id.as_ref();
        tenant_id.is_none_or(|tenant_id| *tenant_id == credential.tenant_id)
            && is(&self.kind, &|kind| *kind == credential.kind)
            && is(&self.text, &|text| credential.name.contains(text.as_str()))
            && is(&self.not_under, &|kid| *kid != credential.kid)
            && self
                .after
                .is_none_or(|after| credential.credential_id > after)
    }
}

//! Credentials, sealed.

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{CredentialId, TenantId};

use crate::error::StoreError;
use crate::model::{Credential, CredentialFilter, CredentialKey, CredentialPut};

/// The part of a [`crate::Store`] that keeps credentials. Their secrets are sealed before they come
/// here.
#[async_trait]
pub trait Credentials {
    /// Writes a credential; `false` where what it replaces is not what is there.
    async fn put_credential(&self, put: CredentialPut) -> Result<bool, StoreError>;

    /// A credential of a tenant.
    async fn credential(
        &self,
        tenant_id: &TenantId,
        key: &CredentialKey,
    ) -> Result<Option<Credential>, StoreError>;

    /// Credentials in the order of their ids.
    async fn credentials(
        &self,
        filter: CredentialFilter,
        limit: PageLimit,
    ) -> Result<Vec<Credential>, StoreError>;

    /// Forgets a credential of a tenant; `false` where there is none.
    async fn delete_credential(
        &self,
        tenant_id: &TenantId,
        credential_id: CredentialId,
    ) -> Result<bool, StoreError>;
}

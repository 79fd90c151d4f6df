//! Storage of sealed credentials.

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{CredentialId, TenantId};

use crate::error::StoreError;
use crate::model::{Credential, CredentialFilter, CredentialKey, CredentialPut};

/// The part of a [`crate::Store`] that stores credentials. Their secrets are sealed by the caller.
#[async_trait]
pub trait CredentialStore {
    /// Writes a credential. Returns `false` if the stored version is not the one to be replaced.
    async fn put_credential(&self, put: CredentialPut) -> Result<bool, StoreError>;

    /// Returns a credential of a tenant.
    async fn find_credential(
        &self,
        tenant_id: &TenantId,
        key: &CredentialKey,
    ) -> Result<Option<Credential>, StoreError>;

    /// Returns credentials, ordered by id.
    async fn list_credentials(
        &self,
        filter: CredentialFilter,
        limit: PageLimit,
    ) -> Result<Vec<Credential>, StoreError>;

    /// Deletes a credential of a tenant. Returns `false` if it does not exist.
    async fn delete_credential(
        &self,
        tenant_id: &TenantId,
        credential_id: CredentialId,
    ) -> Result<bool, StoreError>;
}

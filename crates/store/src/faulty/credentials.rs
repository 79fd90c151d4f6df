//! [`crate::CredentialStore`] with faults.

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{CredentialId, TenantId};

use super::{FaultyStore, StoreMethod};
use crate::credentials::CredentialStore;
use crate::error::StoreError;
use crate::model::{Credential, CredentialFilter, CredentialKey, CredentialPut};
use crate::store::Store;

#[async_trait]
impl<S: Store> CredentialStore for FaultyStore<S> {
    async fn put_credential(&self, put: CredentialPut) -> Result<bool, StoreError> {
        let mode = self.inject_fault(StoreMethod::PutCredential).await?;
        mode.apply_to(self.inner.put_credential(put).await)
    }

    async fn find_credential(
        &self,
        tenant_id: &TenantId,
        key: &CredentialKey,
    ) -> Result<Option<Credential>, StoreError> {
        let mode = self.inject_fault(StoreMethod::FindCredential).await?;
        mode.apply_to(self.inner.find_credential(tenant_id, key).await)
    }

    async fn list_credentials(
        &self,
        filter: CredentialFilter,
        limit: PageLimit,
    ) -> Result<Vec<Credential>, StoreError> {
        let mode = self.inject_fault(StoreMethod::ListCredentials).await?;
        mode.apply_to(self.inner.list_credentials(filter, limit).await)
    }

    async fn delete_credential(
        &self,
        tenant_id: &TenantId,
        credential_id: CredentialId,
    ) -> Result<bool, StoreError> {
        let mode = self.inject_fault(StoreMethod::DeleteCredential).await?;
        mode.apply_to(self.inner.delete_credential(tenant_id, credential_id).await)
    }
}

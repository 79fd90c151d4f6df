//! Credentials, with faults.

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{CredentialId, TenantId};

use super::{FaultyStore, Method};
use crate::credentials::Credentials;
use crate::error::StoreError;
use crate::model::{Credential, CredentialFilter, CredentialKey, CredentialPut};
use crate::store::Store;

#[async_trait]
impl<S: Store> Credentials for FaultyStore<S> {
    async fn put_credential(&self, put: CredentialPut) -> Result<bool, StoreError> {
        let answer = self.fault(Method::PutCredential).await?;
        answer.of(self.inner.put_credential(put).await)
    }

    async fn credential(
        &self,
        tenant_id: &TenantId,
        key: &CredentialKey,
    ) -> Result<Option<Credential>, StoreError> {
        let answer = self.fault(Method::Credential).await?;
        answer.of(self.inner.credential(tenant_id, key).await)
    }

    async fn credentials(
        &self,
        filter: CredentialFilter,
        limit: PageLimit,
    ) -> Result<Vec<Credential>, StoreError> {
        let answer = self.fault(Method::Credentials).await?;
        answer.of(self.inner.credentials(filter, limit).await)
    }

    async fn delete_credential(
        &self,
        tenant_id: &TenantId,
        credential_id: CredentialId,
    ) -> Result<bool, StoreError> {
        let answer = self.fault(Method::DeleteCredential).await?;
        answer.of(self.inner.delete_credential(tenant_id, credential_id).await)
    }
}

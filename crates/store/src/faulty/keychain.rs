//! [`crate::KeychainStore`] with faults.

use async_trait::async_trait;
use noetl_types::TenantId;
use noetl_types::limits::PageLimit;

use super::{FaultyStore, StoreMethod};
use crate::error::StoreError;
use crate::keychain::KeychainStore;
use crate::model::{KeyCounts, KeychainEntry, KeychainFilter, KeychainPut};
use crate::store::Store;

#[async_trait]
impl<S: Store> KeychainStore for FaultyStore<S> {
    async fn put_keychain_entry(&self, put: KeychainPut) -> Result<bool, StoreError> {
        let mode = self.inject_fault(StoreMethod::PutKeychainEntry).await?;
        mode.apply_to(self.inner.put_keychain_entry(put).await)
    }

    async fn find_keychain_entry(
        &self,
        tenant_id: &TenantId,
        cache_key: &str,
    ) -> Result<Option<KeychainEntry>, StoreError> {
        let mode = self.inject_fault(StoreMethod::FindKeychainEntry).await?;
        mode.apply_to(self.inner.find_keychain_entry(tenant_id, cache_key).await)
    }

    async fn list_keychain_entries(
        &self,
        filter: KeychainFilter,
        limit: PageLimit,
    ) -> Result<Vec<KeychainEntry>, StoreError> {
        let mode = self.inject_fault(StoreMethod::ListKeychainEntries).await?;
        mode.apply_to(self.inner.list_keychain_entries(filter, limit).await)
    }

    async fn delete_keychain_entry(
        &self,
        tenant_id: &TenantId,
        cache_key: &str,
    ) -> Result<bool, StoreError> {
        let mode = self.inject_fault(StoreMethod::DeleteKeychainEntry).await?;
        mode.apply_to(self.inner.delete_keychain_entry(tenant_id, cache_key).await)
    }

    async fn count_secrets_by_key(&self) -> Result<KeyCounts, StoreError> {
        let mode = self.inject_fault(StoreMethod::CountSecretsByKey).await?;
        mode.apply_to(self.inner.count_secrets_by_key().await)
    }
}

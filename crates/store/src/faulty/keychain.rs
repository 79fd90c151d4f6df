//! The cache of the keychain, with faults.

use async_trait::async_trait;
use noetl_types::TenantId;
use noetl_types::limits::PageLimit;

use super::{FaultyStore, Method};
use crate::error::StoreError;
use crate::keychain::Keychain;
use crate::model::{KeyCounts, KeychainEntry, KeychainFilter, KeychainPut};
use crate::store::Store;

#[async_trait]
impl<S: Store> Keychain for FaultyStore<S> {
    async fn put_keychain(&self, put: KeychainPut) -> Result<bool, StoreError> {
        let answer = self.fault(Method::PutKeychain).await?;
        answer.of(self.inner.put_keychain(put).await)
    }

    async fn keychain_entry(
        &self,
        tenant_id: &TenantId,
        cache_key: &str,
    ) -> Result<Option<KeychainEntry>, StoreError> {
        let answer = self.fault(Method::KeychainEntry).await?;
        answer.of(self.inner.keychain_entry(tenant_id, cache_key).await)
    }

    async fn keychain_entries(
        &self,
        filter: KeychainFilter,
        limit: PageLimit,
    ) -> Result<Vec<KeychainEntry>, StoreError> {
        let answer = self.fault(Method::KeychainEntries).await?;
        answer.of(self.inner.keychain_entries(filter, limit).await)
    }

    async fn delete_keychain(
        &self,
        tenant_id: &TenantId,
        cache_key: &str,
    ) -> Result<bool, StoreError> {
        let answer = self.fault(Method::DeleteKeychain).await?;
        answer.of(self.inner.delete_keychain(tenant_id, cache_key).await)
    }

    async fn key_counts(&self) -> Result<KeyCounts, StoreError> {
        let answer = self.fault(Method::KeyCounts).await?;
        answer.of(self.inner.key_counts().await)
    }
}

//! Storage of the sealed keychain cache.

use async_trait::async_trait;
use noetl_types::TenantId;
use noetl_types::limits::PageLimit;

use crate::error::StoreError;
use crate::model::{KeyCounts, KeychainEntry, KeychainFilter, KeychainPut};

/// The part of a [`crate::Store`] that caches secrets resolved by workers. They are sealed by the
/// caller. Expired entries are deleted as [`crate::GcTarget::Keychain`].
#[async_trait]
pub trait KeychainStore {
    /// Writes an entry. Returns `false` if the stored version is not the one to be replaced.
    async fn put_keychain_entry(&self, put: KeychainPut) -> Result<bool, StoreError>;

    /// Returns an entry of a tenant, even if it has expired.
    async fn find_keychain_entry(
        &self,
        tenant_id: &TenantId,
        cache_key: &str,
    ) -> Result<Option<KeychainEntry>, StoreError>;

    /// Returns entries, including expired ones, ordered by id.
    async fn list_keychain_entries(
        &self,
        filter: KeychainFilter,
        limit: PageLimit,
    ) -> Result<Vec<KeychainEntry>, StoreError>;

    /// Deletes an entry of a tenant. Returns `false` if it does not exist.
    async fn delete_keychain_entry(
        &self,
        tenant_id: &TenantId,
        cache_key: &str,
    ) -> Result<bool, StoreError>;

    /// Counts the secrets of all tenants by the key that wraps them.
    async fn count_secrets_by_key(&self) -> Result<KeyCounts, StoreError>;
}

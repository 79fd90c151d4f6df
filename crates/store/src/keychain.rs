//! The cache of the keychain, sealed.

use async_trait::async_trait;
use noetl_types::TenantId;
use noetl_types::limits::PageLimit;

use crate::error::StoreError;
use crate::model::{KeyCounts, KeychainEntry, KeychainFilter, KeychainPut};

/// The part of a [`crate::Store`] that keeps what workers resolved for a while. It is sealed before
/// it comes here. What is over is swept, as [`crate::Swept::Keychain`].
#[async_trait]
pub trait Keychain {
    /// Writes an entry; `false` where what it replaces is not what is there.
    async fn put_keychain(&self, put: KeychainPut) -> Result<bool, StoreError>;

    /// An entry of a tenant, over or not.
    async fn keychain_entry(
        &self,
        tenant_id: &TenantId,
        cache_key: &str,
    ) -> Result<Option<KeychainEntry>, StoreError>;

    /// Entries in the order of their ids, over or not.
    async fn keychain_entries(
        &self,
        filter: KeychainFilter,
        limit: PageLimit,
    ) -> Result<Vec<KeychainEntry>, StoreError>;

    /// Forgets an entry of a tenant; `false` where there is none.
    async fn delete_keychain(
        &self,
        tenant_id: &TenantId,
        cache_key: &str,
    ) -> Result<bool, StoreError>;

    /// How many secrets each key wraps, of all tenants.
    async fn key_counts(&self) -> Result<KeyCounts, StoreError>;
}

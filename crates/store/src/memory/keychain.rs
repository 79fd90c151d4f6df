//! The cache of the keychain, behind the lock.

use async_trait::async_trait;
use noetl_types::TenantId;
use noetl_types::limits::PageLimit;

use super::MemoryStore;
use crate::error::StoreError;
use crate::keychain::Keychain;
use crate::model::{KeyCounts, KeychainEntry, KeychainFilter, KeychainPut};

#[async_trait]
impl Keychain for MemoryStore {
    async fn put_keychain(&self, put: KeychainPut) -> Result<bool, StoreError> {
        let new = put.entry;
        let entries = &mut self.lock().keychain;
        let is_namesake = |kept: &KeychainEntry| {
            (&kept.tenant_id, &kept.cache_key) == (&new.tenant_id, &new.cache_key)
        };
        let fits = match (put.replaces, entries.get(&new.keychain_id)) {
            (None, kept) => kept.is_none() && !entries.values().any(is_namesake),
            (Some(version), Some(kept)) => is_namesake(kept) && kept.version == version,
            (Some(_), None) => false,
        };
        if fits {
            entries.insert(new.keychain_id, new);
        }
        Ok(fits)
    }

    async fn keychain_entry(
        &self,
        tenant_id: &TenantId,
        cache_key: &str,
    ) -> Result<Option<KeychainEntry>, StoreError> {
        let state = self.lock();
        let is_it = |kept: &&KeychainEntry| {
            kept.tenant_id == *tenant_id && kept.cache_key.as_str() == cache_key
        };
        Ok(state.keychain.values().find(is_it).cloned())
    }

    async fn keychain_entries(
        &self,
        filter: KeychainFilter,
        limit: PageLimit,
    ) -> Result<Vec<KeychainEntry>, StoreError> {
        let state = self.lock();
        let hits = state.keychain.values().filter(|kept| filter.takes(kept));
        let limit = usize::try_from(limit.get()).unwrap_or(usize::MAX);
        Ok(hits.take(limit).cloned().collect())
    }

    async fn delete_keychain(
        &self,
        tenant_id: &TenantId,
        cache_key: &str,
    ) -> Result<bool, StoreError> {
        let entries = &mut self.lock().keychain;
        let before = entries.len();
        entries
            .retain(|_, kept| kept.tenant_id != *tenant_id || kept.cache_key.as_str() != cache_key);
        Ok(entries.len() < before)
    }

    async fn key_counts(&self) -> Result<KeyCounts, StoreError> {
        let state = self.lock();
        let mut counts = KeyCounts::default();
        for kept in state.credentials.values() {
            *counts.credentials.entry(kept.kid.clone()).or_default() += 1;
        }
        for kept in state.keychain.values() {
            *counts.keychain.entry(kept.kid.clone()).or_default() += 1;
        }
        Ok(counts)
    }
}

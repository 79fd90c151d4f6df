//! The keychain cache in memory.

use async_trait::async_trait;
use noetl_types::TenantId;
use noetl_types::limits::PageLimit;

use super::MemoryStore;
use crate::error::StoreError;
use crate::keychain::KeychainStore;
use crate::model::{KeyCounts, KeychainEntry, KeychainFilter, KeychainPut};

#[async_trait]
impl KeychainStore for MemoryStore {
    async fn put_keychain_entry(&self, put: KeychainPut) -> Result<bool, StoreError> {
        let new = put.entry;
        let entries = &mut self.lock().keychain;
        let has_same_key = |existing: &KeychainEntry| {
            (&existing.tenant_id, &existing.cache_key) == (&new.tenant_id, &new.cache_key)
        };
        let is_accepted = match (put.replaces, entries.get(&new.keychain_id)) {
            (None, existing) => existing.is_none() && !entries.values().any(has_same_key),
            (Some(version), Some(existing)) => {
                has_same_key(existing) && existing.version == version
            }
            (Some(_), None) => false,
        };
        if is_accepted {
            entries.insert(new.keychain_id, new);
        }
        Ok(is_accepted)
    }

    async fn find_keychain_entry(
        &self,
        tenant_id: &TenantId,
        cache_key: &str,
    ) -> Result<Option<KeychainEntry>, StoreError> {
        let state = self.lock();
        let is_selected = |entry: &&KeychainEntry| {
            entry.tenant_id == *tenant_id && entry.cache_key.as_str() == cache_key
        };
        Ok(state.keychain.values().find(is_selected).cloned())
    }

    async fn list_keychain_entries(
        &self,
        filter: KeychainFilter,
        limit: PageLimit,
    ) -> Result<Vec<KeychainEntry>, StoreError> {
        let state = self.lock();
        let entries = state.keychain.values().filter(|entry| filter.matches_keychain_entry(entry));
        let limit = usize::try_from(limit.get()).unwrap_or(usize::MAX);
        Ok(entries.take(limit).cloned().collect())
    }

    async fn delete_keychain_entry(
        &self,
        tenant_id: &TenantId,
        cache_key: &str,
    ) -> Result<bool, StoreError> {
        let entries = &mut self.lock().keychain;
        let before = entries.len();
        entries.retain(|_, entry| {
            entry.tenant_id != *tenant_id || entry.cache_key.as_str() != cache_key
        });
        Ok(entries.len() < before)
    }

    async fn count_secrets_by_key(&self) -> Result<KeyCounts, StoreError> {
        let state = self.lock();
        let mut counts = KeyCounts::default();
        for credential in state.credentials.values() {
            *counts.credentials.entry(credential.kid.clone()).or_default() += 1;
        }
        for entry in state.keychain.values() {
            *counts.keychain.entry(entry.kid.clone()).or_default() += 1;
        }
        Ok(counts)
    }
}

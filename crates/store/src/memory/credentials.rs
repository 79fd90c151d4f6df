//! Credentials, behind the lock.

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{CredentialId, TenantId};

use super::MemoryStore;
use crate::credentials::Credentials;
use crate::error::StoreError;
use crate::model::{Credential, CredentialFilter, CredentialKey, CredentialPut};

#[async_trait]
impl Credentials for MemoryStore {
    async fn put_credential(&self, put: CredentialPut) -> Result<bool, StoreError> {
        let new = put.credential;
        let credentials = &mut self.lock().credentials;
        let is_namesake =
            |kept: &&Credential| (&kept.tenant_id, &kept.name) == (&new.tenant_id, &new.name);
        let fits = match (put.replaces, credentials.get(&new.credential_id)) {
            (None, kept) => kept.is_none() && !credentials.values().any(|kept| is_namesake(&kept)),
            (Some(version), Some(kept)) => is_namesake(&kept) && kept.version == version,
            (Some(_), None) => false,
        };
        if fits {
            credentials.insert(new.credential_id, new);
        }
        Ok(fits)
    }

    async fn credential(
        &self,
        tenant_id: &TenantId,
        key: &CredentialKey,
    ) -> Result<Option<Credential>, StoreError> {
        let state = self.lock();
        let is_it = |kept: &&Credential| {
            kept.tenant_id == *tenant_id
                && match key {
                    CredentialKey::Id(id) => kept.credential_id == *id,
                    CredentialKey::Name(name) => kept.name == *name,
                }
        };
        Ok(state.credentials.values().find(is_it).cloned())
    }

    async fn credentials(
        &self,
        filter: CredentialFilter,
        limit: PageLimit,
    ) -> Result<Vec<Credential>, StoreError> {
        let state = self.lock();
        let hits = state.credentials.values().filter(|kept| filter.takes(kept));
        let limit = usize::try_from(limit.get()).unwrap_or(usize::MAX);
        Ok(hits.take(limit).cloned().collect())
    }

    async fn delete_credential(
        &self,
        tenant_id: &TenantId,
        credential_id: CredentialId,
    ) -> Result<bool, StoreError> {
        let credentials = &mut self.lock().credentials;
        let is_theirs = credentials
            .get(&credential_id)
            .is_some_and(|kept| kept.tenant_id == *tenant_id);
        if is_theirs {
            credentials.remove(&credential_id);
        }
        Ok(is_theirs)
    }
}

//! Credentials in memory.

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{CredentialId, TenantId};

use super::MemoryStore;
use crate::credentials::CredentialStore;
use crate::error::StoreError;
use crate::model::{Credential, CredentialFilter, CredentialKey, CredentialPut};

#[async_trait]
impl CredentialStore for MemoryStore {
    async fn put_credential(&self, put: CredentialPut) -> Result<bool, StoreError> {
        let new = put.credential;
        let credentials = &mut self.lock().credentials;
        let has_same_name = |existing: &&Credential| {
            (&existing.tenant_id, &existing.name) == (&new.tenant_id, &new.name)
        };
        let is_accepted = match (put.replaces, credentials.get(&new.credential_id)) {
            (None, existing) => {
                existing.is_none() && !credentials.values().any(|existing| has_same_name(&existing))
            }
            (Some(version), Some(existing)) => {
                has_same_name(&existing) && existing.version == version
            }
            (Some(_), None) => false,
        };
        if is_accepted {
            credentials.insert(new.credential_id, new);
        }
        Ok(is_accepted)
    }

    async fn find_credential(
        &self,
        tenant_id: &TenantId,
        key: &CredentialKey,
    ) -> Result<Option<Credential>, StoreError> {
        let state = self.lock();
        let is_selected = |credential: &&Credential| {
            credential.tenant_id == *tenant_id
                && match key {
                    CredentialKey::Id(id) => credential.credential_id == *id,
                    CredentialKey::Name(name) => credential.name == *name,
                }
        };
        Ok(state.credentials.values().find(is_selected).cloned())
    }

    async fn list_credentials(
        &self,
        filter: CredentialFilter,
        limit: PageLimit,
    ) -> Result<Vec<Credential>, StoreError> {
        let state = self.lock();
        let credentials =
            state.credentials.values().filter(|credential| filter.matches_credential(credential));
        let limit = usize::try_from(limit.get()).unwrap_or(usize::MAX);
        Ok(credentials.take(limit).cloned().collect())
    }

    async fn delete_credential(
        &self,
        tenant_id: &TenantId,
        credential_id: CredentialId,
    ) -> Result<bool, StoreError> {
        let credentials = &mut self.lock().credentials;
        let exists = credentials
            .get(&credential_id)
            .is_some_and(|credential| credential.tenant_id == *tenant_id);
        if exists {
            credentials.remove(&credential_id);
        }
        Ok(exists)
    }
}

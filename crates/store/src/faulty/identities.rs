//! [`crate::IdentityStore`] with faults.

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{TenantId, Text, Timestamp, TokenId};

use super::{FaultyStore, StoreMethod};
use crate::error::StoreError;
use crate::identities::IdentityStore;
use crate::model::{ApiToken, AuditEntry, NewAuditEntry, SecretAuditFilter};
use crate::store::Store;

#[async_trait]
impl<S: Store> IdentityStore for FaultyStore<S> {
    async fn put_token(&self, token: ApiToken) -> Result<bool, StoreError> {
        let mode = self.inject_fault(StoreMethod::PutToken).await?;
        mode.apply_to(self.inner.put_token(token).await)
    }

    async fn put_first_token(&self, token: ApiToken) -> Result<bool, StoreError> {
        let mode = self.inject_fault(StoreMethod::PutFirstToken).await?;
        mode.apply_to(self.inner.put_first_token(token).await)
    }

    async fn find_token(&self, prefix: &Text) -> Result<Option<ApiToken>, StoreError> {
        let mode = self.inject_fault(StoreMethod::FindToken).await?;
        mode.apply_to(self.inner.find_token(prefix).await)
    }

    async fn list_tokens(
        &self,
        tenant_id: &TenantId,
        after: Option<TokenId>,
        limit: PageLimit,
    ) -> Result<Vec<ApiToken>, StoreError> {
        let mode = self.inject_fault(StoreMethod::ListTokens).await?;
        mode.apply_to(self.inner.list_tokens(tenant_id, after, limit).await)
    }

    async fn revoke_token(
        &self,
        tenant_id: &TenantId,
        token_id: TokenId,
        now: Timestamp,
    ) -> Result<Option<ApiToken>, StoreError> {
        let mode = self.inject_fault(StoreMethod::RevokeToken).await?;
        mode.apply_to(self.inner.revoke_token(tenant_id, token_id, now).await)
    }

    async fn record_token_use(&self, token_id: TokenId, now: Timestamp) -> Result<(), StoreError> {
        let mode = self.inject_fault(StoreMethod::RecordTokenUse).await?;
        mode.apply_to(self.inner.record_token_use(token_id, now).await)
    }

    async fn get_or_init_shared_secret(&self, fresh: Text) -> Result<Text, StoreError> {
        let mode = self.inject_fault(StoreMethod::GetOrInitSharedSecret).await?;
        mode.apply_to(self.inner.get_or_init_shared_secret(fresh).await)
    }

    async fn append_audit_log(&self, entries: Vec<NewAuditEntry>) -> Result<(), StoreError> {
        let mode = self.inject_fault(StoreMethod::AppendAuditLog).await?;
        mode.apply_to(self.inner.append_audit_log(entries).await)
    }

    async fn list_audit_entries(
        &self,
        tenant_id: &TenantId,
        before: Option<i64>,
        limit: PageLimit,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        let mode = self.inject_fault(StoreMethod::ListAuditEntries).await?;
        mode.apply_to(self.inner.list_audit_entries(tenant_id, before, limit).await)
    }
    async fn list_secret_audit_entries(
        &self,
        filter: SecretAuditFilter,
        limit: PageLimit,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        let mode = self.inject_fault(StoreMethod::ListSecretAuditEntries).await?;
        mode.apply_to(self.inner.list_secret_audit_entries(filter, limit).await)
    }
}

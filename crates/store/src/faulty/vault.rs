//! Identities and their trail, with faults.

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{TenantId, Text, Timestamp, TokenId};

use super::{FaultyStore, Method};
use crate::error::StoreError;
use crate::model::{ApiToken, AuditEntry, NewAudit, SecretActFilter};
use crate::store::Store;
use crate::vault::Vault;

#[async_trait]
impl<S: Store> Vault for FaultyStore<S> {
    async fn put_token(&self, token: ApiToken) -> Result<bool, StoreError> {
        let answer = self.fault(Method::PutToken).await?;
        answer.of(self.inner.put_token(token).await)
    }

    async fn put_first_token(&self, token: ApiToken) -> Result<bool, StoreError> {
        let answer = self.fault(Method::PutFirstToken).await?;
        answer.of(self.inner.put_first_token(token).await)
    }

    async fn token(&self, prefix: &Text) -> Result<Option<ApiToken>, StoreError> {
        let answer = self.fault(Method::Token).await?;
        answer.of(self.inner.token(prefix).await)
    }

    async fn tokens(
        &self,
        tenant_id: &TenantId,
        after: Option<TokenId>,
        limit: PageLimit,
    ) -> Result<Vec<ApiToken>, StoreError> {
        let answer = self.fault(Method::Tokens).await?;
        answer.of(self.inner.tokens(tenant_id, after, limit).await)
    }

    async fn revoke_token(
        &self,
        tenant_id: &TenantId,
        token_id: TokenId,
        now: Timestamp,
    ) -> Result<Option<ApiToken>, StoreError> {
        let answer = self.fault(Method::RevokeToken).await?;
        answer.of(self.inner.revoke_token(tenant_id, token_id, now).await)
    }

    async fn touch_token(&self, token_id: TokenId, now: Timestamp) -> Result<(), StoreError> {
        let answer = self.fault(Method::TouchToken).await?;
        answer.of(self.inner.touch_token(token_id, now).await)
    }

    async fn common_secret(&self, fresh: Text) -> Result<Text, StoreError> {
        let answer = self.fault(Method::CommonSecret).await?;
        answer.of(self.inner.common_secret(fresh).await)
    }

    async fn audit(&self, acts: Vec<NewAudit>) -> Result<(), StoreError> {
        let answer = self.fault(Method::Audit).await?;
        answer.of(self.inner.audit(acts).await)
    }

    async fn audits(
        &self,
        tenant_id: &TenantId,
        before: Option<i64>,
        limit: PageLimit,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        let answer = self.fault(Method::Audits).await?;
        answer.of(self.inner.audits(tenant_id, before, limit).await)
    }
    async fn secret_acts(
        &self,
        filter: SecretActFilter,
        limit: PageLimit,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        let answer = self.fault(Method::SecretActs).await?;
        answer.of(self.inner.secret_acts(filter, limit).await)
    }
}

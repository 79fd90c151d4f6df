//! Identities and their trail, behind the lock.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{TenantId, Text, Timestamp, TokenId};

use super::MemoryStore;
use super::state::many;
use crate::error::StoreError;
use crate::model::{ApiToken, AuditEntry, NewAudit, SecretActFilter, Trails};
use crate::vault::Vault;

#[derive(Debug, Default)]
pub(super) struct Kept {
    tokens: BTreeMap<TokenId, ApiToken>,
    trail: Vec<AuditEntry>,
    common_secret: Option<Text>,
}

impl Kept {
    fn put(&mut self, token: ApiToken) -> bool {
        let is_taken =
            |known: &ApiToken| known.token_id == token.token_id || known.prefix == token.prefix;
        if self.tokens.values().any(is_taken) {
            return false;
        }
        self.tokens.insert(token.token_id, token);
        true
    }

    fn add(&mut self, acts: Vec<NewAudit>) {
        let mut trails = Trails::default();
        for act in acts {
            if self.trail.iter().any(|it| it.act.audit_id == act.audit_id) {
                continue;
            }
            if !trails.knows(&act.tenant_id) {
                let mut trail = self.trail.iter().rev();
                let last = trail.find(|it| it.act.tenant_id == act.tenant_id);
                trails.ends(act.tenant_id.clone(), last);
            }
            self.trail.push(trails.link(act));
        }
    }
}

#[async_trait]
impl Vault for MemoryStore {
    async fn put_token(&self, token: ApiToken) -> Result<bool, StoreError> {
        Ok(self.lock().kept.put(token))
    }

    async fn put_first_token(&self, token: ApiToken) -> Result<bool, StoreError> {
        let mut state = self.lock();
        Ok(state.kept.tokens.is_empty() && state.kept.put(token))
    }

    async fn token(&self, prefix: &Text) -> Result<Option<ApiToken>, StoreError> {
        let state = self.lock();
        let mut tokens = state.kept.tokens.values();
        Ok(tokens.find(|token| token.prefix == *prefix).cloned())
    }

    async fn tokens(
        &self,
        tenant_id: &TenantId,
        after: Option<TokenId>,
        limit: PageLimit,
    ) -> Result<Vec<ApiToken>, StoreError> {
        let state = self.lock();
        let is_asked_for = |token: &&ApiToken| {
            token.tenant_id == *tenant_id && after.is_none_or(|after| token.token_id > after)
        };
        let tokens = state.kept.tokens.values().filter(is_asked_for);
        Ok(tokens.take(many(limit.get())).cloned().collect())
    }

    async fn revoke_token(
        &self,
        tenant_id: &TenantId,
        token_id: TokenId,
        now: Timestamp,
    ) -> Result<Option<ApiToken>, StoreError> {
        let mut state = self.lock();
        let token = state.kept.tokens.get_mut(&token_id);
        Ok(token
            .filter(|token| token.tenant_id == *tenant_id)
            .map(|token| {
                token.revoked_at.get_or_insert(now);
                token.clone()
            }))
    }

    async fn touch_token(&self, token_id: TokenId, now: Timestamp) -> Result<(), StoreError> {
        if let Some(token) = self.lock().kept.tokens.get_mut(&token_id) {
            token.last_used_at = token.last_used_at.max(Some(now));
        }
        Ok(())
    }

    async fn common_secret(&self, fresh: Text) -> Result<Text, StoreError> {
        let mut state = self.lock();
        Ok(state.kept.common_secret.get_or_insert(fresh).clone())
    }

    async fn audit(&self, acts: Vec<NewAudit>) -> Result<(), StoreError> {
        self.lock().kept.add(acts);
        Ok(())
    }

    async fn audits(
        &self,
        tenant_id: &TenantId,
        before: Option<i64>,
        limit: PageLimit,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        let state = self.lock();
        let is_asked_for = |entry: &&AuditEntry| {
            entry.act.tenant_id == *tenant_id && before.is_none_or(|before| entry.seq < before)
        };
        let trail = state.kept.trail.iter().rev().filter(is_asked_for);
        Ok(trail.take(many(limit.get())).cloned().collect())
    }
    async fn secret_acts(
        &self,
        filter: SecretActFilter,
        limit: PageLimit,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        let state = self.lock();
        let trail = state.kept.trail.iter();
        let mut found: Vec<&AuditEntry> = trail.filter(|it| filter.takes(&it.act)).collect();
        found.sort_by_key(|it| Reverse((it.act.occurred_at, it.act.audit_id)));
        Ok(found.into_iter().take(many(limit.get())).cloned().collect())
    }
}

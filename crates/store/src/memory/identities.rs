//! API tokens and the audit log in memory.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{TenantId, Text, Timestamp, TokenId};

use super::MemoryStore;
use super::state::to_usize;
use crate::error::StoreError;
use crate::identities::IdentityStore;
use crate::model::{ApiToken, AuditChains, AuditEntry, NewAuditEntry, SecretAuditFilter};

#[derive(Debug, Default)]
pub(super) struct IdentityState {
    tokens: BTreeMap<TokenId, ApiToken>,
    audit_log: Vec<AuditEntry>,
    shared_secret: Option<Text>,
}

impl IdentityState {
    fn put_token(&mut self, token: ApiToken) -> bool {
        let is_taken = |existing: &ApiToken| {
            existing.token_id == token.token_id || existing.prefix == token.prefix
        };
        if self.tokens.values().any(is_taken) {
            return false;
        }
        self.tokens.insert(token.token_id, token);
        true
    }

    fn append_audit_entries(&mut self, entries: Vec<NewAuditEntry>) {
        let mut chains = AuditChains::default();
        for entry in entries {
            if self.audit_log.iter().any(|it| it.content.audit_id == entry.audit_id) {
                continue;
            }
            if !chains.has_tenant(&entry.tenant_id) {
                let mut newest_first = self.audit_log.iter().rev();
                let last = newest_first.find(|it| it.content.tenant_id == entry.tenant_id);
                chains.set_last_entry(entry.tenant_id.clone(), last);
            }
            self.audit_log.push(chains.link_entry(entry));
        }
    }
}

#[async_trait]
impl IdentityStore for MemoryStore {
    async fn put_token(&self, token: ApiToken) -> Result<bool, StoreError> {
        Ok(self.lock().identities.put_token(token))
    }

    async fn put_first_token(&self, token: ApiToken) -> Result<bool, StoreError> {
        let mut state = self.lock();
        Ok(state.identities.tokens.is_empty() && state.identities.put_token(token))
    }

    async fn find_token(&self, prefix: &Text) -> Result<Option<ApiToken>, StoreError> {
        let state = self.lock();
        let mut tokens = state.identities.tokens.values();
        Ok(tokens.find(|token| token.prefix == *prefix).cloned())
    }

    async fn list_tokens(
        &self,
        tenant_id: &TenantId,
        after: Option<TokenId>,
        limit: PageLimit,
    ) -> Result<Vec<ApiToken>, StoreError> {
        let state = self.lock();
        let is_selected = |token: &&ApiToken| {
            token.tenant_id == *tenant_id && after.is_none_or(|after| token.token_id > after)
        };
        let tokens = state.identities.tokens.values().filter(is_selected);
        Ok(tokens.take(to_usize(limit.get())).cloned().collect())
    }

    async fn revoke_token(
        &self,
        tenant_id: &TenantId,
        token_id: TokenId,
        now: Timestamp,
    ) -> Result<Option<ApiToken>, StoreError> {
        let mut state = self.lock();
        let token = state.identities.tokens.get_mut(&token_id);
        Ok(token.filter(|token| token.tenant_id == *tenant_id).map(|token| {
            token.revoked_at.get_or_insert(now);
            token.clone()
        }))
    }

    async fn record_token_use(&self, token_id: TokenId, now: Timestamp) -> Result<(), StoreError> {
        if let Some(token) = self.lock().identities.tokens.get_mut(&token_id) {
            token.last_used_at = token.last_used_at.max(Some(now));
        }
        Ok(())
    }

    async fn get_or_init_shared_secret(&self, fresh: Text) -> Result<Text, StoreError> {
        let mut state = self.lock();
        Ok(state.identities.shared_secret.get_or_insert(fresh).clone())
    }

    async fn append_audit_log(&self, entries: Vec<NewAuditEntry>) -> Result<(), StoreError> {
        self.lock().identities.append_audit_entries(entries);
        Ok(())
    }

    async fn list_audit_entries(
        &self,
        tenant_id: &TenantId,
        before: Option<i64>,
        limit: PageLimit,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        let state = self.lock();
        let is_selected = |entry: &&AuditEntry| {
            entry.content.tenant_id == *tenant_id && before.is_none_or(|before| entry.seq < before)
        };
        let entries = state.identities.audit_log.iter().rev().filter(is_selected);
        Ok(entries.take(to_usize(limit.get())).cloned().collect())
    }
    async fn list_secret_audit_entries(
        &self,
        filter: SecretAuditFilter,
        limit: PageLimit,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        let state = self.lock();
        let entries = state.identities.audit_log.iter();
        let mut found: Vec<&AuditEntry> =
            entries.filter(|it| filter.matches_entry(&it.content)).collect();
        found.sort_by_key(|it| Reverse((it.content.occurred_at, it.content.audit_id)));
        Ok(found.into_iter().take(to_usize(limit.get())).cloned().collect())
    }
}

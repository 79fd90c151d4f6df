//! The audit log. Each entry is chained to the previous one by a digest.

use std::collections::BTreeMap;

use noetl_types::digest::sha256_of_parts;
use noetl_types::{
    AuditId, Digest, ExecutionId, Json, SecretOperation, TenantId, Text, Timestamp, WorkerId, json,
};

/// An operation that was performed or attempted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAuditEntry {
    pub audit_id: AuditId,
    pub tenant_id: TenantId,
    pub occurred_at: Timestamp,
    pub actor: Text,
    pub action: Text,
    /// Object of the operation.
    pub target: Option<Text>,
    /// Network address of the caller.
    pub address: Option<Text>,
    pub outcome: Text,
    /// Additional details.
    pub detail: Json,
    /// Details of an operation on a secret.
    pub secret: Option<SecretAuditDetails>,
}

/// Audit details of an operation on a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretAuditDetails {
    pub operation: SecretOperation,
    /// Name of the secret. `None` if the operation concerns many.
    pub credential: Option<Text>,
    /// Worker that receives the secret.
    pub worker_id: Option<WorkerId>,
    /// Execution that uses the secret.
    pub execution_id: Option<ExecutionId>,
    /// Parent of that execution.
    pub parent_execution_id: Option<ExecutionId>,
    /// Key that seals the secret.
    pub key_id: Option<Text>,
}

impl SecretAuditDetails {
    /// Creates details with only the operation set.
    pub const fn new(operation: SecretOperation) -> Self {
        Self {
            operation,
            credential: None,
            worker_id: None,
            execution_id: None,
            parent_execution_id: None,
            key_id: None,
        }
    }

    fn to_json(&self) -> Json {
        let text = |text: Option<&str>| text.map_or(Json::Null, Json::from);
        let number = |id: Option<ExecutionId>| id.map_or(Json::Null, |id| Json::from(id.get()));
        Json::object([
            ("operation", Json::from(self.operation.as_str())),
            ("credential", text(self.credential.as_deref())),
            ("worker_id", text(self.worker_id.as_ref().map(WorkerId::as_str))),
            ("execution_id", number(self.execution_id)),
            ("parent_execution_id", number(self.parent_execution_id)),
            ("key_id", text(self.key_id.as_deref())),
        ])
    }
}

/// Filter of audit entries about secrets, across all tenants.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SecretAuditFilter {
    /// Filter by secret name.
    pub credential: Option<Text>,
    /// Filter by execution.
    pub execution_id: Option<ExecutionId>,
    /// Earliest time, inclusive.
    pub from: Option<Timestamp>,
    /// Latest time, inclusive.
    pub to: Option<Timestamp>,
    /// Cursor: only entries before this one.
    pub before: Option<(Timestamp, AuditId)>,
}

impl SecretAuditFilter {
    pub(crate) fn start_time(&self) -> Timestamp {
        self.from.unwrap_or(Timestamp::MIN)
    }

    /// Returns the upper bound of the filter: the end of its time range or its cursor.
    pub(crate) fn upper_bound(&self) -> (Timestamp, i64) {
        let until = (self.to.unwrap_or(Timestamp::MAX), i64::MAX);
        let before = self.before.map(|(time, id)| (time, id.get()));
        before.map_or(until, |before| before.min(until))
    }
}

/// An entry of the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    pub content: NewAuditEntry,
    /// Sequence number within its tenant, from 1 without gaps.
    pub seq: i64,
    /// Digest over the previous entry's digest and all fields of this entry.
    pub chain: Digest,
}

/// Digest that precedes the first entry.
const CHAIN_START: Digest = Digest::from_bytes([0; Digest::LEN]);

impl AuditEntry {
    /// Creates the entry that follows `last`, or the first one.
    fn chain_after(last: Option<(i64, Digest)>, content: NewAuditEntry) -> Self {
        let (seq, chain) = last.unwrap_or((0, CHAIN_START));
        let seq = seq.saturating_add(1);
        let chain = chain_digest(chain, seq, &content);
        Self { content, seq, chain }
    }

    /// True if this entry directly follows `previous`, or is the first one if `previous` is `None`.
    pub fn is_next_after(&self, previous: Option<&Self>) -> bool {
        let last = previous.map(|it| (it.seq, it.chain));
        Self::chain_after(last, self.content.clone()) == *self
    }
}

fn chain_digest(previous: Digest, seq: i64, content: &NewAuditEntry) -> Digest {
    let optional = |text: &Option<Text>| text.clone().map_or(Json::Null, Json::from);
    let mut fields = vec![
        ("audit_id", Json::from(content.audit_id.get())),
        ("tenant_id", Json::from(content.tenant_id.as_str())),
        ("occurred_at", Json::from(content.occurred_at.as_micros())),
        ("actor", Json::from(content.actor.clone())),
        ("act", Json::from(content.action.clone())),
        ("target", optional(&content.target)),
        ("address", optional(&content.address)),
        ("outcome", Json::from(content.outcome.clone())),
        ("detail", content.detail.clone()),
    ];
    // Entries written before secret details existed must keep their digests.
    fields.extend(content.secret.as_ref().map(|secret| ("secret", secret.to_json())));
    sha256_of_parts(&[
        previous.as_bytes(),
        &seq.to_be_bytes(),
        &json::to_canonical(&Json::object(fields)),
    ])
}

/// The ends of audit chains during a write.
#[derive(Debug, Default)]
pub(crate) struct AuditChains(BTreeMap<TenantId, Option<(i64, Digest)>>);

impl AuditChains {
    /// Sets the end of a tenant's chain.
    pub(crate) fn set_last_entry(&mut self, tenant_id: TenantId, last: Option<&AuditEntry>) {
        self.0.insert(tenant_id, last.map(|it| (it.seq, it.chain)));
    }

    /// Creates the next entry of the tenant's chain.
    pub(crate) fn link_entry(&mut self, content: NewAuditEntry) -> AuditEntry {
        let end = self.0.entry(content.tenant_id.clone()).or_default();
        let entry = AuditEntry::chain_after(*end, content);
        *end = Some((entry.seq, entry.chain));
        entry
    }
}

#[cfg(test)]
mod tests;

//! The trail of acts, each linked to the one before.

use std::collections::BTreeMap;

use noetl_types::digest::sha256_of_parts;
use noetl_types::{
    AuditId, Digest, ExecutionId, Json, SecretOperation, TenantId, Text, Timestamp, WorkerId, json,
};

/// Something that was done, or tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAudit {
    /// The id.
    pub audit_id: AuditId,
    /// Whose trail it belongs to.
    pub tenant_id: TenantId,
    /// When it happened.
    pub occurred_at: Timestamp,
    /// Who did it.
    pub actor: Text,
    /// What was done.
    pub act: Text,
    /// What it was done to.
    pub target: Option<Text>,
    /// Where the caller was.
    pub address: Option<Text>,
    /// What came of it.
    pub outcome: Text,
    /// What else is worth knowing.
    pub detail: Json,
    /// What it did to a secret, where it did.
    pub secret: Option<SecretAct>,
}

/// What an act does to a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretAct {
    /// What is done.
    pub operation: SecretOperation,
    /// The name of the secret; absent where it is about many.
    pub credential: Option<Text>,
    /// The worker that it is for.
    pub worker_id: Option<WorkerId>,
    /// The run that it is for.
    pub execution_id: Option<ExecutionId>,
    /// The run that started that one.
    pub parent_execution_id: Option<ExecutionId>,
    /// The key that the secret is sealed under.
    pub key_id: Option<Text>,
}

impl SecretAct {
    /// An act of which nothing else is known yet.
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

    fn told(&self) -> Json {
        let text = |text: Option<&str>| text.map_or(Json::Null, Json::from);
        let number = |id: Option<ExecutionId>| id.map_or(Json::Null, |id| Json::from(id.get()));
        Json::object([
            ("operation", Json::from(self.operation.as_str())),
            ("credential", text(self.credential.as_deref())),
            (
                "worker_id",
                text(self.worker_id.as_ref().map(WorkerId::as_str)),
            ),
            ("execution_id", number(self.execution_id)),
            ("parent_execution_id", number(self.parent_execution_id)),
            ("key_id", text(self.key_id.as_deref())),
        ])
    }
}

/// Which acts on secrets are meant, of all tenants.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SecretActFilter {
    /// Only those on this secret.
    pub credential: Option<Text>,
    /// Only those for this run.
    pub execution_id: Option<ExecutionId>,
    /// Only those since then.
    pub from: Option<Timestamp>,
    /// Only those until then.
    pub to: Option<Timestamp>,
    /// Only those before this one.
    pub before: Option<(Timestamp, AuditId)>,
}

impl SecretActFilter {
    /// Where it begins.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn begin(&self) -> Timestamp {
        self.from.unwrap_or(Timestamp::MIN)
    }

    /// What lies before all that is behind its end.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn end(&self) -> (Timestamp, i64) {
        let until = (self.to.unwrap_or(Timestamp::MAX), i64::MAX);
        let before = self.before.map(|(time, id)| (time, id.get()));
        before.map_or(until, |before| before.min(until))
    }

    pub(crate) fn takes(&self, act: &NewAudit) -> bool {
        let Some(secret) = &act.secret else {
            return false;
        };
        let place = (act.occurred_at, act.audit_id);
        let credential = self.credential.as_ref();
        let run = self.execution_id;
        credential.is_none_or(|name| secret.credential.as_ref() == Some(name))
            && run.is_none_or(|run| secret.execution_id == Some(run))
            && self.from.is_none_or(|from| act.occurred_at >= from)
            && self.to.is_none_or(|to| act.occurred_at <= to)
            && self.before.is_none_or(|before| place < before)
    }
}

/// An entry of a trail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// What was done.
    pub act: NewAudit,
    /// Its number in the trail of its tenant, from 1 without gaps.
    pub seq: i64,
    /// Its link: a digest over the link before it and everything in the entry.
    pub chain: Digest,
}

/// Where a trail begins.
const START: Digest = Digest::from_bytes([0; Digest::LEN]);

impl AuditEntry {
    /// The entry that follows another one, or the first one.
    fn after(last: Option<(i64, Digest)>, act: NewAudit) -> Self {
        let (seq, chain) = last.unwrap_or((0, START));
        let seq = seq.saturating_add(1);
        let chain = link(chain, seq, &act);
        Self { act, seq, chain }
    }

    /// Whether this entry is the one that was written behind `previous`, or as the first one.
    pub fn follows(&self, previous: Option<&Self>) -> bool {
        let last = previous.map(|it| (it.seq, it.chain));
        Self::after(last, self.act.clone()) == *self
    }
}

fn link(before: Digest, seq: i64, act: &NewAudit) -> Digest {
    let optional = |text: &Option<Text>| text.clone().map_or(Json::Null, Json::from);
    let mut told = vec![
        ("audit_id", Json::from(act.audit_id.get())),
        ("tenant_id", Json::from(act.tenant_id.as_str())),
        ("occurred_at", Json::from(act.occurred_at.as_micros())),
        ("actor", Json::from(act.actor.clone())),
        ("act", Json::from(act.act.clone())),
        ("target", optional(&act.target)),
        ("address", optional(&act.address)),
        ("outcome", Json::from(act.outcome.clone())),
        ("detail", act.detail.clone()),
    ];
    // Entries from before there were such acts keep their links.
    told.extend(act.secret.as_ref().map(|secret| ("secret", secret.told())));
    sha256_of_parts(&[
        before.as_bytes(),
        &seq.to_be_bytes(),
        &json::to_canonical(&Json::object(told)),
    ])
}

/// Trails while they are written to.
#[derive(Debug, Default)]
pub(crate) struct Trails(BTreeMap<TenantId, Option<(i64, Digest)>>);

impl Trails {
    /// Whether the end of a trail is known.
    pub(crate) fn knows(&self, tenant_id: &TenantId) -> bool {
        self.0.contains_key(tenant_id)
    }

    /// Where a trail ends.
    pub(crate) fn ends(&mut self, tenant_id: TenantId, last: Option<&AuditEntry>) {
        self.0.insert(tenant_id, last.map(|it| (it.seq, it.chain)));
    }

    /// The entry that an act becomes.
    pub(crate) fn link(&mut self, act: NewAudit) -> AuditEntry {
        let end = self.0.entry(act.tenant_id.clone()).or_default();
        let entry = AuditEntry::after(*end, act);
        *end = Some((entry.seq, entry.chain));
        entry
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Trails outlive releases: what was linked once is linked so for ever.
    #[test]
    fn an_entry_that_is_about_no_secret_has_the_link_that_it_always_had() {
        let act = NewAudit {
            audit_id: AuditId::new(7).unwrap(),
            tenant_id: TenantId::default(),
            occurred_at: Timestamp::UNIX_EPOCH,
            actor: "ci".into(),
            act: "POST /api/tokens".into(),
            target: None,
            address: None,
            outcome: "ok".into(),
            detail: Json::Null,
            secret: None,
        };
        let entry = AuditEntry::after(None, act);
        let link = "f3994916a6298880de3ae3414605bafa7317388c08d28de0f18430301cf07665";
        assert_eq!(entry.chain.to_string(), link);
    }
}

//! The trail of acts, each linked to the one before.

use std::collections::BTreeMap;

use noetl_types::digest::sha256_of_parts;
use noetl_types::{AuditId, Digest, Json, TenantId, Text, Timestamp, json};

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
    let told = Json::object([
        ("audit_id", Json::from(act.audit_id.get())),
        ("tenant_id", Json::from(act.tenant_id.as_str())),
        ("occurred_at", Json::from(act.occurred_at.as_micros())),
        ("actor", Json::from(act.actor.clone())),
        ("act", Json::from(act.act.clone())),
        ("target", optional(&act.target)),
        ("address", optional(&act.address)),
        ("outcome", Json::from(act.outcome.clone())),
        ("detail", act.detail.clone()),
    ]);
    sha256_of_parts(&[
        before.as_bytes(),
        &seq.to_be_bytes(),
        &json::to_canonical(&told),
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

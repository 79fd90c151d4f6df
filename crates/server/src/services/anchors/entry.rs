//! Anchors: what they record, and how one follows another.

use noetl_store::{AnchorRow, AuditHead, DroppedRange, ExecutionFacts, LogEpoch};
use noetl_types::json::to_canonical;
use noetl_types::{
    CatalogId, ChainHash, Digest, ExecutionId, FeedPosition, Json, Seq, Text, Timestamp, sha256,
};
use serde::{Deserialize, Serialize};

use crate::crypto::HmacSigner;

/// Purpose that the key of the seals is derived for.
const SEAL_PURPOSE: &str = "anchor";

/// An entry of the installation's chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Anchor {
    /// Number, from 1.
    pub anchor_id: i64,
    pub time: Timestamp,
    /// Digest of the previous anchor.
    pub previous: Digest,
    /// Generation of the log, and the position in its feed up to which all events are anchored.
    pub epoch: i64,
    pub feed: FeedPosition,
    /// True if API tokens must have seals.
    pub sealed: bool,
    /// Executions that changed since the previous anchor.
    pub runs: Vec<AnchoredRun>,
    /// Audit logs that changed.
    pub audit: Vec<AuditHead>,
    /// Ranges of executions that retention is about to drop.
    pub dropped: Vec<DroppedRange>,
    /// Ranges that retention was about to drop and did not.
    pub kept: Vec<DroppedRange>,
}

/// The head of an execution's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnchoredRun {
    pub id: ExecutionId,
    pub seq: Seq,
    pub link: ChainHash,
    /// Digest of the fixed attributes of the execution.
    pub facts: Digest,
}

/// An anchor with the seal of a server. One line of an anchor file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SealedAnchor {
    pub anchor: Anchor,
    /// Seal of a server that has an encryption key.
    pub seal: Option<Digest>,
}

/// Number and digest of an anchor. As text: `12:<hex digest>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnchorHead {
    pub anchor_id: i64,
    pub digest: Digest,
}

impl AnchorHead {
    /// Head of a chain without anchors.
    pub const START: Self = Self { anchor_id: 0, digest: Digest::from_bytes([0; Digest::LEN]) };

    /// Parses the text form.
    pub fn parse(text: &str) -> Option<Self> {
        let (number, digest) = text.trim().split_once(':')?;
        let anchor_id = number.parse().ok().filter(|number| *number > 0)?;
        Some(Self { anchor_id, digest: digest.parse().ok()? })
    }
}

impl std::fmt::Display for AnchorHead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.anchor_id, self.digest)
    }
}

impl Anchor {
    pub fn head(&self) -> AnchorHead {
        // All fields can be represented as JSON.
        let bytes = serde_json::to_vec(self).unwrap_or_default();
        AnchorHead { anchor_id: self.anchor_id, digest: sha256(bytes) }
    }

    /// True if it is the next anchor after another.
    pub fn follows(&self, previous: AnchorHead) -> bool {
        self.anchor_id == previous.anchor_id + 1 && self.previous == previous.digest
    }

    /// True if it records nothing new.
    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
            && self.audit.is_empty()
            && self.dropped.is_empty()
            && self.kept.is_empty()
    }
}

impl SealedAnchor {
    /// Parses a line of an anchor file, or a stored row.
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    pub fn from_row(row: &AnchorRow) -> Option<Self> {
        Self::parse(&row.content).filter(|sealed| sealed.anchor.anchor_id == row.anchor_id)
    }

    pub(super) fn to_line(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    pub(super) fn to_row(&self) -> AnchorRow {
        AnchorRow { anchor_id: self.anchor.anchor_id, content: Text::from(self.to_line()) }
    }
}

/// Creates and verifies the seals of anchors, so that only a process with the server's key can append
/// to the chain.
pub(crate) struct AnchorSealer(HmacSigner);

impl AnchorSealer {
    pub(crate) fn from_keys(keys: &crate::crypto::KeyRing) -> Option<Self> {
        HmacSigner::from_key_ring(keys, SEAL_PURPOSE).ok().map(Self)
    }

    pub(crate) fn seal(&self, anchor: &Anchor) -> Digest {
        Digest::from_bytes(self.0.sign_bytes(anchor.head().digest.as_bytes()))
    }

    pub(crate) fn is_valid(&self, sealed: &SealedAnchor) -> bool {
        let digest = sealed.anchor.head().digest;
        let seal = sealed.seal.as_ref();
        seal.is_some_and(|seal| self.0.verify_signature(digest.as_bytes(), seal.as_bytes()))
    }
}

/// Returns the number of a log epoch.
pub(super) fn epoch_number(epoch: LogEpoch) -> i64 {
    i64::try_from(epoch.get()).unwrap_or(i64::MAX)
}

/// Returns the digest of the fixed attributes of an execution.
pub(crate) fn facts_digest(facts: &ExecutionFacts) -> Digest {
    let number = |number: Option<i64>| number.map_or(Json::Null, Json::from);
    let text = |text: Option<String>| text.map_or(Json::Null, Json::from);
    sha256(to_canonical(&Json::object([
        ("tenant_id", Json::from(facts.tenant_id.as_str())),
        ("organization_id", Json::from(facts.organization_id.as_str())),
        ("catalog_id", number(facts.catalog_id.map(CatalogId::get))),
        ("path", text(facts.path.as_ref().map(ToString::to_string))),
        ("playbook_version", number(facts.playbook_version.map(i64::from))),
        ("definition_sha256", text(facts.definition_sha256.map(|digest| digest.to_string()))),
        ("parent_execution_id", number(facts.parent_execution_id.map(ExecutionId::get))),
        ("root_execution_id", number(facts.root_execution_id.map(ExecutionId::get))),
        ("forked_from_id", number(facts.forked_from.map(|from| from.execution_id.get()))),
        ("forked_from_seq", number(facts.forked_from.map(|from| from.seq.get()))),
        ("origin", Json::from(facts.origin.as_str())),
        ("pool", Json::from(facts.pool.as_str())),
        ("priority", Json::from(i64::from(facts.priority.get()))),
        ("labels", facts.labels.clone().unwrap_or_default()),
        ("started_at", Json::from(facts.started_at.as_micros())),
    ])))
}

#[cfg(test)]
mod tests;

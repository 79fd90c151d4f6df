//! Signals to everybody: kept for a while, so that a wait may look back.

use noetl_types::limits::PageLimit;
use noetl_types::{Json, SignalId, TenantId, Text, Timestamp};

use super::key::MatchKey;
use super::wait::Awaited;

/// A signal that is addressed to no execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broadcast {
    /// The id.
    pub signal_id: SignalId,
    /// Whose.
    pub tenant_id: TenantId,
    /// Its name.
    pub name: Text,
    /// Its key.
    pub key: Option<Text>,
    /// What it carries.
    pub payload: Json,
    /// Who sent it.
    pub actor: Option<Text>,
    /// When it came.
    pub received_at: Timestamp,
    /// From when on nobody looks back at it.
    pub expires_at: Timestamp,
}

/// Which signals a wait looks back at: the oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BroadcastFilter {
    /// Whose.
    pub tenant_id: TenantId,
    /// What is awaited.
    pub awaited: Vec<Awaited>,
    /// Those that came then or later.
    pub since: Timestamp,
    /// How many at most.
    pub limit: PageLimit,
}

impl Broadcast {
    pub(crate) fn match_name(&self) -> MatchKey {
        MatchKey::of(&self.name)
    }

    pub(crate) fn match_key(&self) -> Option<MatchKey> {
        self.key.as_ref().map(MatchKey::of)
    }
}

/// What several names found, as one list: the oldest first, each once.
pub(crate) fn oldest(mut found: Vec<Broadcast>, limit: PageLimit) -> Vec<Broadcast> {
    found.sort_by_key(|signal| (signal.received_at, signal.signal_id));
    found.dedup_by_key(|signal| signal.signal_id);
    found.truncate(usize::try_from(limit.get()).unwrap_or(usize::MAX));
    found
}

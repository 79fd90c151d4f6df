//! Broadcast signals, stored for a limited time so that a later wait can consume them.

use noetl_types::limits::PageLimit;
use noetl_types::{Json, SignalId, TenantId, Text, Timestamp};

use super::match_key::MatchKey;
use super::wait::AwaitedName;

/// A signal that is not addressed to one execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BroadcastSignal {
    pub signal_id: SignalId,
    pub tenant_id: TenantId,
    pub name: Text,
    pub key: Option<Text>,
    pub payload: Json,
    /// Sender.
    pub actor: Option<Text>,
    pub received_at: Timestamp,
    /// Time from which waits no longer consume it.
    pub expires_at: Timestamp,
}

/// Filter of the signals that a wait may consume, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BroadcastFilter {
    pub tenant_id: TenantId,
    /// Awaited names.
    pub awaited: Vec<AwaitedName>,
    /// Only signals received at this time or later.
    pub since: Timestamp,
    pub limit: PageLimit,
}

impl BroadcastSignal {
    pub(crate) fn match_name(&self) -> MatchKey {
        MatchKey::from_text(&self.name)
    }

    pub(crate) fn match_key(&self) -> Option<MatchKey> {
        self.key.as_ref().map(MatchKey::from_text)
    }
}

/// Merges the results of several names into one list, oldest first, without duplicates.
pub(crate) fn merge_oldest_first(
    mut signals: Vec<BroadcastSignal>,
    limit: PageLimit,
) -> Vec<BroadcastSignal> {
    signals.sort_by_key(|signal| (signal.received_at, signal.signal_id));
    signals.dedup_by_key(|signal| signal.signal_id);
    signals.truncate(usize::try_from(limit.get()).unwrap_or(usize::MAX));
    signals
}

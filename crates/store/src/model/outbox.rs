//! The outbox: one row per event that a publisher has to publish.

use std::collections::BTreeMap;

use noetl_types::limits::{MAX_OUTBOX_ERROR_CHARS, OutboxClaimLimit, PageLimit};
use noetl_types::{EventId, ExecutionId, Json, Millis, OutboxId, Text, Timestamp};

use super::message::EventBody;

/// Maximum payload bytes per claim. The first row may exceed it.
pub const MAX_CLAIM_BYTES: usize = 16 * 1024 * 1024;

noetl_types::text_enum! {
    /// Publishing status of a row.
    pub enum OutboxStatus("a status of an outbox row") {
        /// Not attempted yet.
        Pending = "PENDING",
        /// Claimed by a publisher until its lease ends.
        InFlight = "IN_FLIGHT",
        Published = "PUBLISHED",
        /// Failed, and will be retried.
        Failed = "FAILED",
        /// Failed too often, and awaits an operator's decision.
        Dead = "DEAD",
    }
}

/// A publisher's request for rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxClaim {
    pub limit: OutboxClaimLimit,
    pub owner: Text,
    pub now: Timestamp,
    /// End of the claim.
    pub lease_until: Timestamp,
    /// Number of claims without a mark after which a row is dead, because its publishers presumably
    /// crash on it.
    pub max_attempts: u32,
}

/// A row claimed by a publisher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedMessage {
    pub outbox_id: OutboxId,
    pub event_id: EventId,
    /// `None` if an external writer left it out.
    pub execution_id: Option<ExecutionId>,
    /// `None` if an external writer left it out.
    pub subject: Option<Text>,
    /// Id by which consumers detect duplicates.
    pub message_id: Text,
    pub payload: OutboxPayload,
    /// Encoding of the payload.
    pub payload_codec: Text,
    /// Number of claims, including this one. It is the fence.
    pub attempts: u32,
}

/// Payload of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutboxPayload {
    /// The body of its event.
    Event(EventBody),
    /// A payload written by an external writer, or `null` if there is neither payload nor event. A
    /// payload that is not valid JSON is passed as a string.
    External(Json),
}

/// Result of a claim.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClaimedBatch {
    /// Claimed rows, ordered by the time at which they may be claimed.
    pub rows: Vec<ClaimedMessage>,
    /// Rows that became dead because they were claimed too often without a mark, or cannot be read.
    pub dead: Vec<OutboxId>,
}

/// Report that a row was published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutboxMark {
    pub outbox_id: OutboxId,
    /// The attempt of the claim, if the publisher sends it. Marks of other attempts are ignored.
    pub attempts: Option<u32>,
}

/// Report that a row could not be published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxFailure {
    pub outbox_id: OutboxId,
    /// Error message. Only its first 2000 characters are stored.
    pub error: Text,
    /// The attempt of the claim. It determines the retry delay. If it is above 0, reports of other
    /// attempts are ignored.
    pub attempts: Option<u32>,
    /// Maximum retry delay.
    pub max_delay: Millis,
    /// Attempts after which the row is dead.
    pub max_attempts: u32,
    pub now: Timestamp,
}

impl OutboxFailure {
    /// Returns the part of the error that is stored.
    pub(crate) fn truncated_error(&self) -> Text {
        match self.error.char_indices().nth(MAX_OUTBOX_ERROR_CHARS) {
            Some((cut, _)) => Text::from(self.error.get(..cut).unwrap_or_default()),
            None => self.error.clone(),
        }
    }

    /// Returns the attempt that the row must have, if any.
    pub(crate) fn required_attempt(&self) -> Option<u32> {
        self.attempts.filter(|attempts| *attempts > 0)
    }

    /// Returns the outcome for a row with this number of claims, of which `forgiven` came before an
    /// operator requeued it.
    pub(crate) fn to_outcome(&self, attempts: u32, forgiven: u32) -> FailureOutcome {
        if attempts.saturating_sub(forgiven) >= self.max_attempts {
            return FailureOutcome::Dead;
        }
        let delay = outbox_retry_delay(self.attempts.unwrap_or(attempts), self.max_delay);
        FailureOutcome::Retry { delay }
    }
}

/// Outcome of a failed row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureOutcome {
    Retry { delay: Millis },
    Dead,
}

/// Delay before the next attempt: one second, then doubling up to 256 seconds.
pub fn outbox_retry_delay(attempts: u32, max_delay: Millis) -> Millis {
    let doublings = attempts.saturating_sub(1).min(8);
    Millis::from_secs(1 << doublings).min(max_delay)
}

/// An outbox row as shown to operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxRow {
    pub outbox_id: OutboxId,
    pub event_id: EventId,
    pub execution_id: Option<ExecutionId>,
    pub subject: Option<Text>,
    /// Id by which consumers detect duplicates.
    pub message_id: Text,
    /// Encoding of the payload.
    pub payload_codec: Text,
    pub status: OutboxStatus,
    /// Number of claims.
    pub attempts: u32,
    /// Claims that do not count, because an operator requeued the row.
    pub forgiven: u32,
    pub available_at: Timestamp,
    /// Current or last publisher.
    pub claim_owner: Option<Text>,
    pub locked_at: Option<Timestamp>,
    pub lease_until: Option<Timestamp>,
    pub published_at: Option<Timestamp>,
    pub dead_at: Option<Timestamp>,
    /// Time at which an operator discarded it. It then counts as published.
    pub discarded_at: Option<Timestamp>,
    pub last_error: Option<Text>,
    pub created_at: Timestamp,
}

/// Filter and page of a list of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutboxFilter {
    /// Filter by status.
    pub status: Option<OutboxStatus>,
    /// Last row of the previous page.
    pub after: Option<OutboxId>,
    pub limit: PageLimit,
}

/// Number of published rows up to which they are counted exactly.
pub const MAX_EXACT_PUBLISHED_COUNT: u32 = 10_000;

/// Statistics of the outbox. They are read often, so their cost must not grow with the number of
/// published rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutboxStats {
    /// Row counts by status, without zeros. The count of published rows is approximate from
    /// [`MAX_EXACT_PUBLISHED_COUNT`] on.
    pub rows: BTreeMap<OutboxStatus, u64>,
    /// Creation time of the oldest unpublished row.
    pub oldest_unpublished: Option<Timestamp>,
    /// True if a dead row awaits an operator's decision.
    pub has_dead: bool,
}

impl OutboxStats {
    /// Creates statistics from exact counts by status, with published rows counted up to
    /// [`MAX_EXACT_PUBLISHED_COUNT`], and an estimate of the total.
    pub(crate) fn from_counts(
        counts: impl IntoIterator<Item = (OutboxStatus, u64)>,
        estimated_total: u64,
        oldest_unpublished: Option<Timestamp>,
        has_dead: bool,
    ) -> Self {
        let counts = counts.into_iter().filter(|(_, count)| *count > 0);
        let mut rows: BTreeMap<_, _> = counts.collect();
        let counted_total: u64 = rows.values().sum();
        if let Some(published) = rows.get_mut(&OutboxStatus::Published)
            && *published >= u64::from(MAX_EXACT_PUBLISHED_COUNT)
        {
            *published += estimated_total.saturating_sub(counted_total);
        }
        Self { rows, oldest_unpublished, has_dead }
    }
}

#[cfg(test)]
mod tests;

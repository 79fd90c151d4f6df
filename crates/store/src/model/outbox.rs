//! The outbox: a row for each event that somebody else publishes.

use std::collections::BTreeMap;

use noetl_types::limits::{MAX_OUTBOX_ERROR_CHARS, OutboxClaimLimit, PageLimit};
use noetl_types::{EventId, ExecutionId, Json, Millis, OutboxId, Text, Timestamp, json};

use super::message::EventBody;

/// Bytes of payloads that one claim hands out, but for its first row.
pub const MAX_CLAIM_BYTES: usize = 16 * 1024 * 1024;

/// The codec of the rows that the store writes.
pub const JSON_CODEC: &str = "json";

/// How far a row has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OutboxStatus {
    /// Nobody has tried yet.
    Pending,
    /// A publisher has it in hand until its lease ends.
    InFlight,
    /// It is published.
    Published,
    /// It failed, and is tried again.
    Failed,
    /// It failed too often, and waits for an operator.
    Dead,
}

/// A text that names no status of an outbox row.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a status of an outbox row")]
pub struct UnknownOutboxStatus(pub String);

impl OutboxStatus {
    /// Every status.
    pub const ALL: &'static [Self] = &[
        Self::Pending,
        Self::InFlight,
        Self::Published,
        Self::Failed,
        Self::Dead,
    ];

    /// The one spelling.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::InFlight => "IN_FLIGHT",
            Self::Published => "PUBLISHED",
            Self::Failed => "FAILED",
            Self::Dead => "DEAD",
        }
    }

    /// Reads the one spelling.
    pub fn parse(text: &str) -> Result<Self, UnknownOutboxStatus> {
        let all = Self::ALL.iter().copied();
        let mut found = all.filter(|status| status.as_str() == text);
        found
            .next()
            .ok_or_else(|| UnknownOutboxStatus(text.to_owned()))
    }
}

/// A publisher wants rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxClaim {
    /// How many at most.
    pub limit: OutboxClaimLimit,
    /// Who asks.
    pub owner: Text,
    /// The server's clock.
    pub now: Timestamp,
    /// Until when the rows are the publisher's.
    pub lease_until: Timestamp,
    /// A row that was claimed so often and never marked is dead: whoever has it in hand dies of it.
    pub max_attempts: u32,
}

/// A row that a publisher has in hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedMessage {
    /// The row.
    pub outbox_id: OutboxId,
    /// The event.
    pub event_id: EventId,
    /// Its execution, unless somebody else wrote the row and does not say.
    pub execution_id: Option<ExecutionId>,
    /// Where it is published, unless somebody else wrote the row and does not say.
    pub subject: Option<Text>,
    /// The id by which those who get it twice know.
    pub message_id: Text,
    /// What is to be published.
    pub payload: Payload,
    /// What the payload is written in.
    pub payload_codec: Text,
    /// How often the row was claimed, this time included: the fence.
    pub attempts: u32,
}

/// What a row has to publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload {
    /// Its event, as all outlets carry it.
    Event(EventBody),
    /// What somebody else wrote in its place; `null` where there is neither. What is no JSON of this
    /// system comes as a text.
    Given(Json),
}

impl Payload {
    /// The canonical text.
    pub fn into_canonical(self) -> Vec<u8> {
        match self {
            Self::Event(body) => body.bytes.into(),
            Self::Given(given) => json::to_canonical(&given),
        }
    }
}

/// What a claim gives.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claimed {
    /// The rows that the publisher has in hand, in the order in which they may be claimed.
    pub rows: Vec<ClaimedMessage>,
    /// Rows that were claimed often enough and never marked, or that nobody can read: they are dead from
    /// now on.
    pub dead: Vec<OutboxId>,
}

/// A publisher says that a row is out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutboxMark {
    /// The row.
    pub outbox_id: OutboxId,
    /// The attempt that it was claimed with, where the publisher says: no other one counts.
    pub attempts: Option<u32>,
}

/// A publisher says that a row could not be published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxFailure {
    /// The row.
    pub outbox_id: OutboxId,
    /// Why; only its first 2000 characters are kept.
    pub error: Text,
    /// The attempt that it was claimed with. The delay follows from it; above 0 no other one counts.
    pub attempts: Option<u32>,
    /// The longest delay.
    pub max_delay: Millis,
    /// After so many attempts the row is dead.
    pub max_attempts: u32,
    /// The server's clock.
    pub now: Timestamp,
}

impl OutboxFailure {
    /// What is kept of the error.
    pub(crate) fn kept_error(&self) -> Text {
        match self.error.char_indices().nth(MAX_OUTBOX_ERROR_CHARS) {
            Some((cut, _)) => Text::from(self.error.get(..cut).unwrap_or_default()),
            None => self.error.clone(),
        }
    }

    /// The attempt that the row must be of, if any.
    pub(crate) fn fence(&self) -> Option<u32> {
        self.attempts.filter(|attempts| *attempts > 0)
    }

    /// What becomes of a row that was claimed so often, some of the times before an operator sent it
    /// out again.
    pub(crate) fn outcome(&self, attempts: u32, forgiven: u32) -> Failed {
        if attempts.saturating_sub(forgiven) >= self.max_attempts {
            return Failed::Dead;
        }
        let delay = backoff(self.attempts.unwrap_or(attempts), self.max_delay);
        Failed::Retry { delay }
    }
}

/// What became of a row that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failed {
    /// It is tried again.
    Retry {
        /// After this time.
        delay: Millis,
    },
    /// It is dead.
    Dead,
}

/// How long a row waits after an attempt: one second, two, four and so on, up to 256.
pub fn backoff(attempts: u32, max_delay: Millis) -> Millis {
    let doublings = attempts.saturating_sub(1).min(8);
    Millis::from_secs(1 << doublings).min(max_delay)
}

/// A row as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxRow {
    /// The row.
    pub outbox_id: OutboxId,
    /// The event.
    pub event_id: EventId,
    /// Its execution.
    pub execution_id: Option<ExecutionId>,
    /// Where it is published.
    pub subject: Option<Text>,
    /// The id by which those who get it twice know.
    pub message_id: Text,
    /// What the payload is written in.
    pub payload_codec: Text,
    /// How far it has come.
    pub status: OutboxStatus,
    /// How often it was claimed.
    pub attempts: u32,
    /// How many of these do not count, since an operator sent it out again.
    pub forgiven: u32,
    /// When it may be claimed.
    pub available_at: Timestamp,
    /// Who has, or last had, it in hand.
    pub claim_owner: Option<Text>,
    /// When it was last claimed.
    pub locked_at: Option<Timestamp>,
    /// Until when it is in hand.
    pub lease_until: Option<Timestamp>,
    /// When it was published.
    pub published_at: Option<Timestamp>,
    /// When it died.
    pub dead_at: Option<Timestamp>,
    /// When an operator gave it up: it counts as published.
    pub discarded_at: Option<Timestamp>,
    /// Why it last failed.
    pub last_error: Option<Text>,
    /// When it was written.
    pub created_at: Timestamp,
}

impl OutboxRow {
    /// Whether it is still to be published.
    pub fn is_unpublished(&self) -> bool {
        self.status != OutboxStatus::Published && self.discarded_at.is_none()
    }
}

/// Which rows a list shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutboxFilter {
    /// Only those that have come so far.
    pub status: Option<OutboxStatus>,
    /// Behind the last one of the page before.
    pub after: Option<OutboxId>,
    /// How many at most.
    pub limit: PageLimit,
}

/// Published rows that are counted one by one.
pub const MAX_COUNTED: u32 = 10_000;

/// How the outbox stands. Whoever asks does so often, so it must not cost more the more is published.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutboxFacts {
    /// Rows by how far they have come; what has none is left out. From [`MAX_COUNTED`] on the number
    /// of published ones is about right.
    pub rows: BTreeMap<OutboxStatus, u64>,
    /// When the oldest row was written that is still to be published.
    pub oldest_unpublished: Option<Timestamp>,
    /// Whether a row failed too often that nobody has decided about.
    pub has_dead: bool,
}

impl OutboxFacts {
    /// From counts by status, those of published rows up to [`MAX_COUNTED`], and about how many rows
    /// there are.
    pub(crate) fn of(
        counts: impl IntoIterator<Item = (OutboxStatus, u64)>,
        about: u64,
        oldest_unpublished: Option<Timestamp>,
        has_dead: bool,
    ) -> Self {
        let counts = counts.into_iter().filter(|(_, count)| *count > 0);
        let mut rows: BTreeMap<_, _> = counts.collect();
        let all: u64 = rows.values().sum();
        if let Some(published) = rows.get_mut(&OutboxStatus::Published)
            && *published >= u64::from(MAX_COUNTED)
        {
            *published += about.saturating_sub(all);
        }
        Self {
            rows,
            oldest_unpublished,
            has_dead,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays() {
        let max = Millis::from_secs(300);
        for (attempts, seconds) in [(0, 1), (1, 1), (2, 2), (5, 16), (9, 256), (20, 256)] {
            assert_eq!(backoff(attempts, max), Millis::from_secs(seconds));
        }
        assert_eq!(backoff(5, Millis::from_secs(10)), Millis::from_secs(10));
        assert_eq!(backoff(u32::MAX, max), Millis::from_secs(256));
    }

    #[test]
    fn a_delay_follows_from_what_the_publisher_says_or_else_from_the_row() {
        let outcome = |attempts, max_delay| {
            let failure = OutboxFailure {
                outbox_id: OutboxId::new(1).unwrap(),
                error: Text::from("no"),
                attempts,
                max_delay: Millis::from_secs(max_delay),
                max_attempts: 20,
                now: Timestamp::UNIX_EPOCH,
            };
            failure.outcome(5, 0)
        };
        for (attempts, max_delay, seconds) in [
            (None, 300, 16),
            (None, 10, 10),
            (Some(0), 300, 1),
            (Some(5), 300, 16),
            (Some(2), 300, 2),
        ] {
            let delay = Millis::from_secs(seconds);
            let is = outcome(attempts, max_delay);
            assert_eq!(is, Failed::Retry { delay }, "{attempts:?}");
        }
    }

    #[test]
    fn many_published_rows_are_told_about() {
        let facts = |published, about| {
            let counts = [
                (OutboxStatus::Pending, 5),
                (OutboxStatus::Dead, 0),
                (OutboxStatus::Published, published),
            ];
            OutboxFacts::of(counts, about, None, false).rows
        };
        let rows = |published| {
            BTreeMap::from([
                (OutboxStatus::Pending, 5),
                (OutboxStatus::Published, published),
            ])
        };
        let most = u64::from(MAX_COUNTED);
        assert_eq!(facts(most - 1, 1_000_000), rows(most - 1));
        assert_eq!(facts(most, 1_000_000), rows(999_995));
        // What the database has never looked at is at least what was counted.
        assert_eq!(facts(most, 0), rows(most));
    }

    #[test]
    fn an_error_is_cut_between_characters() {
        let mut failure = OutboxFailure {
            outbox_id: OutboxId::new(1).unwrap(),
            error: Text::from("ü".repeat(2_001)),
            attempts: Some(0),
            max_delay: Millis::from_secs(300),
            max_attempts: 20,
            now: Timestamp::UNIX_EPOCH,
        };
        assert_eq!(failure.kept_error().chars().count(), 2_000);
        failure.error = Text::from("ü".repeat(2_000));
        assert_eq!(failure.kept_error(), failure.error);
        assert_eq!(failure.fence(), None);
    }

    #[test]
    fn spellings() {
        for status in OutboxStatus::ALL {
            assert_eq!(OutboxStatus::parse(status.as_str()), Ok(*status));
        }
        assert!(OutboxStatus::parse("pending").is_err());
    }
}

//! Retention: purging old data, and the reasons that prevent it.

use std::collections::BTreeMap;

use noetl_types::id::first_id_at;
use noetl_types::{ExecutionId, Millis, Month, Text, Timestamp};

use super::message::LogEpoch;

/// Maximum retention window. No id is older.
pub const MAX_RETENTION_DAYS: i64 = 36_500;

/// Maximum clock skew between server and store for events to be dropped.
pub const MAX_CLOCK_DIFFERENCE: Millis = Millis::from_hours(1);

/// Retention window above the maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} is more than {MAX_RETENTION_DAYS} days")]
pub struct WindowTooLong(pub i64);

/// Returns the time before which data is older than a number of days, or `None` if nothing is to be
/// purged.
pub fn retention_cutoff(now: Timestamp, days: i64) -> Result<Option<Timestamp>, WindowTooLong> {
    if days > MAX_RETENTION_DAYS {
        return Err(WindowTooLong(days));
    }
    // A window of zero or fewer days disables the purge.
    let days = u64::try_from(days).ok().filter(|days| *days > 0);
    Ok(days.map(|days| now.saturating_sub(Millis::from_days(days))))
}

/// The publishers that must have published an event before it may be dropped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EnabledPublishers {
    /// True if the outbox is enabled.
    pub outbox: bool,
    /// Enabled streams, by the names of their cursors.
    pub streams: Vec<Text>,
}

/// A partition of the log that is dropped as a whole: usually a month.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPartition {
    pub name: Text,
    /// Lowest execution id, inclusive.
    pub first_id: i64,
    /// Upper bound of execution ids, exclusive.
    pub end_id: i64,
    /// OID of its table, which distinguishes partitions of the same name and range. `None` if
    /// partitions are not tables.
    pub table_oid: Option<u32>,
}

impl LogPartition {
    /// Returns the partition of the executions of a month.
    pub fn for_month(month: Month) -> Self {
        let bound = |month: Month| first_id_at(month.first_instant().as_unix_ms());
        Self {
            name: Text::from(format!("event_y{:04}m{:02}", month.year(), month.month())),
            first_id: bound(month),
            end_id: bound(month.next()),
            table_oid: None,
        }
    }
}

/// Reason why a partition cannot be dropped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PinReason {
    #[error("execution {0} has not ended")]
    NotEnded(ExecutionId),
    /// A follow-up of an execution is not done.
    #[error("a follow-up of execution {0} is pending")]
    PendingFollowUp(ExecutionId),
    /// The outbox has not published an event.
    #[error("an event of execution {0} is still in the outbox")]
    Outbox(ExecutionId),
    /// A stream has not published an event.
    #[error("stream {0} has not published all of it")]
    Stream(Text),
    /// The database refuses to drop it now: it is in use, or has another owner.
    #[error("it cannot be dropped: {0}")]
    Refused(Text),
}

/// A partition whose executions were all started before a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OldPartition {
    pub partition: LogPartition,
    /// Reason that prevents the drop.
    pub pin_reason: Option<PinReason>,
}

/// Data to be purged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PurgePlan {
    pub commands_before: Option<Timestamp>,
    /// Worker pools whose last heartbeat is older.
    pub runtimes_before: Option<Timestamp>,
    /// Executions started earlier, by whole partitions.
    pub events_before: Option<Timestamp>,
    pub outbox_before: Option<Timestamp>,
    /// Enabled publishers.
    pub publishers: EnabledPublishers,
    /// Time of the store.
    pub now: Timestamp,
    /// Wall clock of the server. No event is dropped while it is far from the database's clock.
    pub server_time: Timestamp,
    /// Only reports, without deleting.
    pub dry_run: bool,
}

/// Data that was or would be purged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PurgeReport {
    pub commands: u64,
    pub runtimes: u64,
    pub outbox: u64,
    /// Dropped partitions.
    pub dropped: Vec<OldPartition>,
    /// Partitions that are old enough but pinned.
    pub skipped: Vec<OldPartition>,
    /// Clock skew, if it is too large for events to be dropped.
    pub clock_skew: Option<Millis>,
}

/// Statistics of a store for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreStats {
    /// `memory`, `sqlite` or `postgres`.
    pub backend: &'static str,
    pub schema_version: i64,
    pub log_epoch: LogEpoch,
    /// Approximate size.
    pub bytes: u64,
    /// Row counts by table.
    pub rows: BTreeMap<&'static str, u64>,
}

#[cfg(test)]
mod tests;

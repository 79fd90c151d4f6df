//! What may be forgotten, and what keeps it.

use std::collections::BTreeMap;

use noetl_types::id::first_id_at;
use noetl_types::{ExecutionId, Millis, Month, Text, Timestamp};

use super::message::LogEpoch;

/// The most days of a window: past them lies no id.
pub const MAX_RETENTION_DAYS: i64 = 36_500;

/// How far the clocks of server and store may be apart before events are dropped.
pub const MAX_CLOCK_DIFFERENCE: Millis = Millis::from_hours(1);

/// A window of more days than there can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} is more than {MAX_RETENTION_DAYS} days")]
pub struct WindowTooLong(pub i64);

/// The time before which something is older than a number of days; none where nothing is to go.
pub fn days_before(now: Timestamp, days: i64) -> Result<Option<Timestamp>, WindowTooLong> {
    if days > MAX_RETENTION_DAYS {
        return Err(WindowTooLong(days));
    }
    // Windows of no length skip what they are about.
    let days = u64::try_from(days).ok().filter(|days| *days > 0);
    Ok(days.map(|days| now.saturating_sub(Millis::from_days(days))))
}

/// The outlets that must have an event before it may go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EnabledOutlets {
    /// Whether the outbox is on.
    pub outbox: bool,
    /// The streams that are on, by the names of their cursors.
    pub streams: Vec<Text>,
}

/// A part of the log that goes as a whole: usually a month.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPart {
    /// Its name.
    pub name: Text,
    /// The least id of an execution in it.
    pub lo: i64,
    /// The least id behind it.
    pub hi: i64,
    /// The table that it is, as the database numbers them: another one of the same name and range is
    /// another part. None where parts are no tables.
    pub table: Option<u32>,
}

impl LogPart {
    /// The part that has the executions of a month.
    pub fn of(month: Month) -> Self {
        let bound = |month: Month| first_id_at(month.first_instant().as_unix_ms());
        Self {
            name: Text::from(format!("event_y{:04}m{:02}", month.year(), month.month())),
            lo: bound(month),
            hi: bound(month.next()),
            table: None,
        }
    }

    /// Whether it has an execution.
    pub fn contains(&self, execution_id: ExecutionId) -> bool {
        (self.lo..self.hi).contains(&execution_id.get())
    }
}

/// Why a part of the log stays.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Pinned {
    /// An execution has not ended.
    #[error("execution {0} has not ended")]
    Live(ExecutionId),
    /// Something is still owed because of an execution.
    #[error("something is still owed because of execution {0}")]
    Owed(ExecutionId),
    /// An event is still to be published by the outbox.
    #[error("an event of execution {0} is still in the outbox")]
    Outbox(ExecutionId),
    /// An event is still to be published by a stream.
    #[error("stream {0} has not published all of it")]
    Stream(Text),
    /// The database does not let it go now: others use it, or it is somebody else's.
    #[error("it cannot be dropped: {0}")]
    Refused(Text),
}

/// A part of the log whose executions were all started before a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OldPart {
    /// The part.
    pub part: LogPart,
    /// What keeps it, if anything.
    pub pinned: Option<Pinned>,
}

/// What is to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Purge {
    /// Commands that ended before.
    pub commands_before: Option<Timestamp>,
    /// Pools of workers that were last heard of before.
    pub runtimes_before: Option<Timestamp>,
    /// Executions that were started before, by whole parts of the log.
    pub events_before: Option<Timestamp>,
    /// Rows of the outbox that were published before.
    pub outbox_before: Option<Timestamp>,
    /// The outlets that are on.
    pub outlets: EnabledOutlets,
    /// The server's clock.
    pub now: Timestamp,
    /// Whether nothing is touched.
    pub dry_run: bool,
}

/// What went, or would go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Purged {
    /// Commands.
    pub commands: u64,
    /// Pools of workers.
    pub runtimes: u64,
    /// Rows of the outbox that were published.
    pub outbox: u64,
    /// Parts of the log.
    pub dropped: Vec<OldPart>,
    /// Parts of the log that are old enough and stay.
    pub skipped: Vec<OldPart>,
    /// How far the clocks are apart, where that is too far for events to be dropped.
    pub clocks_apart: Option<Millis>,
}

/// How a store stands, for an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreFacts {
    /// What keeps it: `memory`, `sqlite`, `postgres`.
    pub backend: &'static str,
    /// The version of its tables.
    pub schema_version: i64,
    /// The life of the log.
    pub log_epoch: LogEpoch,
    /// About how many bytes it takes.
    pub bytes: u64,
    /// How many rows its tables have.
    pub rows: BTreeMap<&'static str, u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r5_a_window_never_wraps() {
        let now = Timestamp::parse("2026-11-05T12:00:00Z").unwrap();
        for skipped in [0, -1, i64::MIN] {
            assert_eq!(days_before(now, skipped), Ok(None));
        }
        for wrong in [36_501, 4_294_967_295, i64::MAX] {
            assert_eq!(days_before(now, wrong), Err(WindowTooLong(wrong)));
        }
        let week = days_before(now, 7).unwrap().unwrap();
        assert_eq!(week.to_string(), "2026-10-29T12:00:00Z");
        assert!(days_before(now, MAX_RETENTION_DAYS).unwrap().unwrap() < now);
    }

    #[test]
    fn parts_are_months() {
        let november = LogPart::of(Month::new(2026, 11).unwrap());
        assert_eq!(november.name, "event_y2026m11");
        let october = LogPart::of(Month::new(2026, 10).unwrap());
        assert_eq!(october.hi, november.lo);
        assert_eq!(LogPart::of(Month::new(2024, 1).unwrap()).lo, 0);
    }
}

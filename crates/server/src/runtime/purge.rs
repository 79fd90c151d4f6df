//! What is old goes, as far as it may.

use noetl_api::internal::{PurgeAnswer, PurgeRequest, SkippedPart};
use noetl_store::{
    EnabledOutlets, MAX_RETENTION_DAYS, OldPart, Pinned, Purge, StreamCursor, days_before, purge,
};
use noetl_types::{ErrorCode, Millis, Text, Timestamp};

use super::Runtime;
use super::error::RuntimeError;
use super::stream::CURSOR;

/// Days that commands are kept which have ended, where the caller does not say.
const COMMAND_DAYS: i64 = 7;
/// Minutes that workers are kept which are silent, where the caller does not say.
const STALE_MINUTES: i64 = 60;
/// How long an outlet that nobody uses any more keeps the log: longer than a broker or a server is away
/// without anybody's having decided so.
const LEFT_FOR: Millis = Millis::from_days(30);
/// Minutes that a caller may say.
const MAX_MINUTES: i64 = MAX_RETENTION_DAYS * 24 * 60;

impl Runtime {
    /// Drops what is old, or tells what would go.
    pub async fn purge(&self, request: PurgeRequest) -> Result<PurgeAnswer, RuntimeError> {
        let now = self.now();
        let days = |name, days: i64| {
            days_before(now, days).map_err(|error| out_of_range(name, &error.to_string()))
        };
        let command_days = request.command_retention_days.unwrap_or(COMMAND_DAYS);
        let minutes = request.runtime_stale_minutes.unwrap_or(STALE_MINUTES);
        let event_days = request.event_retention_days.unwrap_or(0);
        let wanted = Purge {
            commands_before: days("command_retention_days", command_days)?,
            runtimes_before: minutes_before(now, minutes)?,
            events_before: days("event_retention_days", event_days)?,
            outbox_before: Some(now.saturating_sub(self.settings().outbox_keep)),
            outlets: EnabledOutlets {
                outbox: self.has_outbox(now).await?,
                streams: self.streams(now).await?,
            },
            now,
            dry_run: request.dry_run,
        };
        let purged = purge(self.store(), &wanted).await?;
        if !request.dry_run {
            let platform = self.metrics().platform();
            platform.purged("command", purged.commands);
            platform.purged("runtime", purged.runtimes);
            platform.purged("outbox", purged.outbox);
            platform.purged("event", purged.dropped.len() as u64);
        }
        let mut skipped: Vec<_> = purged.skipped.into_iter().map(skip).collect();
        skipped.extend(purged.clocks_apart.map(clocks_apart));
        let names = purged.dropped.into_iter().map(|old| old.part.name);
        let event_partitions_dropped: Vec<Text> = names.collect();
        Ok(PurgeAnswer {
            commands_purged: purged.commands,
            runtime_purged: purged.runtimes,
            events_purged: event_partitions_dropped.len() as u64,
            event_partitions_dropped,
            outbox_purged: purged.outbox,
            dry_run: request.dry_run,
            skipped,
        })
    }
}

impl Runtime {
    /// Whether the outbox must have an event before it may go. Another server may write rows that this one
    /// is not set to; so rows that were written lately count as well.
    async fn has_outbox(&self, now: Timestamp) -> Result<bool, RuntimeError> {
        if self.settings().outbox {
            return Ok(true);
        }
        let newest = self.store().newest_outbox().await?;
        Ok(newest.is_some_and(|newest| now.since(newest) < LEFT_FOR))
    }

    /// The streams that must have an event before it may go.
    ///
    /// Another server may publish what this one is not set to. It, or whoever did so before it, leaves a
    /// cursor that is touched while it is published, so one that was touched lately counts as well.
    async fn streams(&self, now: Timestamp) -> Result<Vec<Text>, RuntimeError> {
        let name = Text::from(CURSOR);
        let nats = self.settings().nats.as_ref();
        if nats.is_some_and(|nats| nats.stream.is_some()) {
            return Ok(vec![name]);
        }
        let cursor = self.store().stream_cursor(&name).await?;
        let is_used = |cursor: &StreamCursor| now.since(cursor.updated_at) < LEFT_FOR;
        Ok(cursor.filter(is_used).map(|_| name).into_iter().collect())
    }
}

fn minutes_before(now: Timestamp, minutes: i64) -> Result<Option<Timestamp>, RuntimeError> {
    if minutes > MAX_MINUTES {
        let text = format!("{minutes} is more than {MAX_MINUTES} minutes");
        return Err(out_of_range("runtime_stale_minutes", &text));
    }
    let minutes = u64::try_from(minutes).ok().filter(|minutes| *minutes > 0);
    Ok(minutes.map(|minutes| now.saturating_sub(Millis::from_secs(minutes * 60))))
}

fn out_of_range(name: &str, text: &str) -> RuntimeError {
    RuntimeError::refused(ErrorCode::OutOfRange, format!("{name}: {text}"))
}

fn skip(old: OldPart) -> SkippedPart {
    let part = old.part.name;
    let reason = match old.pinned {
        // Somebody has to see to it: it would stay for ever.
        Some(Pinned::Refused(why)) => {
            tracing::warn!(%part, %why, "a part of the log is old and cannot be dropped");
            Pinned::Refused(why).to_string()
        }
        Some(pinned) => {
            tracing::info!(%part, %pinned, "a part of the log is old and stays");
            pinned.to_string()
        }
        None => "it is still in use".to_owned(),
    };
    SkippedPart {
        partition: part,
        reason: reason.into(),
    }
}

/// No clock can be believed that another one contradicts.
fn clocks_apart(apart: Millis) -> SkippedPart {
    let minutes = apart.as_ms() / 60_000;
    tracing::warn!(
        minutes,
        "the clocks of server and store are apart: no part of the log goes"
    );
    SkippedPart {
        partition: "*".into(),
        reason: format!("the clocks of server and store are {minutes} minutes apart").into(),
    }
}

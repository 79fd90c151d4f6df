//! What is old goes, as far as it may.

use noetl_api::internal::{PurgeAnswer, PurgeRequest, SkippedPart};
use noetl_store::{EnabledOutlets, MAX_RETENTION_DAYS, OldPart, Purge, days_before, purge};
use noetl_types::{ErrorCode, Millis, Text, Timestamp};

use super::Runtime;
use super::error::RuntimeError;
use super::stream::CURSOR;

/// Days that commands are kept which have ended, where the caller does not say.
const COMMAND_DAYS: i64 = 7;
/// Minutes that workers are kept which are silent, where the caller does not say.
const STALE_MINUTES: i64 = 60;
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
                outbox: self.settings().outbox,
                streams: self.streams(),
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
        for part in &skipped {
            let (part, reason) = (&part.partition, &part.reason);
            tracing::info!(%part, %reason, "a part of the log is old and stays");
        }
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
    /// The streams that must have an event before it may go.
    fn streams(&self) -> Vec<Text> {
        let nats = self.settings().nats.as_ref();
        let stream = nats.and_then(|nats| nats.stream.as_ref());
        stream.map(|_| Text::from(CURSOR)).into_iter().collect()
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
    SkippedPart {
        partition: old.part.name,
        reason: old.pinned.map_or_else(
            || Text::from("it is still in use"),
            |pinned| Text::from(pinned.to_string()),
        ),
    }
}

/// No clock can be believed that another one contradicts.
fn clocks_apart(apart: Millis) -> SkippedPart {
    let minutes = apart.as_ms() / 60_000;
    SkippedPart {
        partition: "*".into(),
        reason: format!("the clocks of server and store are {minutes} minutes apart").into(),
    }
}

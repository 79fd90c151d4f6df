//! Deletion of data past its retention.

use noetl_api::internal::{PurgeRequest, PurgeResponse, SkippedPartition};
use noetl_store::{
    EnabledPublishers, MAX_RETENTION_DAYS, OldPartition, PinReason, PurgePlan, StreamCursor,
    purge_old_data, retention_cutoff,
};
use noetl_types::{Millis, Text, Timestamp};

use crate::error::{Result, RuntimeError};
use crate::services::Maintenance;
use crate::services::publishing::event_stream::CURSOR_NAME;

/// Retention of ended commands, in days, if the request does not set one.
const DEFAULT_COMMAND_RETENTION_DAYS: i64 = 7;
/// Retention of silent workers, in minutes, if the request does not set one.
const DEFAULT_STALE_MINUTES: i64 = 60;
/// Time after its last activity for which an unused publisher still holds back retention. It is
/// longer than an unplanned outage of a broker or a server.
const UNUSED_PUBLISHER_GRACE: Millis = Millis::from_days(30);
/// Maximum minutes that a request may set.
const MAX_STALE_MINUTES: i64 = MAX_RETENTION_DAYS * 24 * 60;

impl Maintenance {
    /// Deletes data past its retention. A dry run only reports it.
    pub async fn purge_expired_data(&self, request: PurgeRequest) -> Result<PurgeResponse> {
        let now = self.infra.now();
        let days = |name, days: i64| {
            retention_cutoff(now, days)
                .map_err(|error| purge_out_of_range(name, &error.to_string()))
        };
        let command_days = request.command_retention_days.unwrap_or(DEFAULT_COMMAND_RETENTION_DAYS);
        let minutes = request.runtime_stale_minutes.unwrap_or(DEFAULT_STALE_MINUTES);
        let event_days = request.event_retention_days.unwrap_or(0);
        let plan = PurgePlan {
            commands_before: days("command_retention_days", command_days)?,
            runtimes_before: minutes_before(now, minutes)?,
            events_before: days("event_retention_days", event_days)?,
            outbox_before: Some(now.saturating_sub(self.infra.settings.outbox_retention)),
            publishers: EnabledPublishers {
                outbox: self.is_outbox_in_use(now).await?,
                streams: self.streams_in_use(now).await?,
            },
            now,
            server_time: self.infra.clock.wall_time(),
            dry_run: request.dry_run,
        };
        let journal = &*self.anchors;
        let purged = purge_old_data(self.infra.store(), &plan, journal).await?;
        if !request.dry_run {
            let platform = &self.infra.metrics.platform;
            platform.count_purged("command", purged.commands);
            platform.count_purged("runtime", purged.runtimes);
            platform.count_purged("outbox", purged.outbox);
            platform.count_purged("event", purged.dropped.len() as u64);
        }
        let mut skipped: Vec<_> = purged.skipped.into_iter().map(skipped_partition).collect();
        skipped.extend(purged.clock_skew.map(clock_skew_skip));
        let names = purged.dropped.into_iter().map(|dropped| dropped.partition.name);
        let event_partitions_dropped: Vec<Text> = names.collect();
        Ok(PurgeResponse {
            commands_purged: purged.commands,
            runtime_purged: purged.runtimes,
            events_purged: event_partitions_dropped.len() as u64,
            event_partitions_dropped,
            outbox_purged: purged.outbox,
            dry_run: request.dry_run,
            skipped,
        })
    }

    /// True if events must be in the outbox before they may be deleted. Another server may write
    /// outbox rows even if this one does not, so recently written rows count too.
    async fn is_outbox_in_use(&self, now: Timestamp) -> Result<bool> {
        if self.infra.outbox {
            return Ok(true);
        }
        let newest = self.infra.store().newest_outbox_row_at().await?;
        Ok(newest.is_some_and(|newest| now.duration_since(newest) < UNUSED_PUBLISHER_GRACE))
    }

    /// Returns the streams that must contain an event before it may be deleted.
    ///
    /// Another server may publish a stream that is not configured here. The publisher updates a
    /// cursor while it publishes, so a recently updated cursor counts too.
    async fn streams_in_use(&self, now: Timestamp) -> Result<Vec<Text>> {
        let name = Text::from(CURSOR_NAME);
        let nats = self.infra.settings.nats.as_ref();
        if nats.is_some_and(|nats| nats.stream.is_some()) {
            return Ok(vec![name]);
        }
        let cursor = self.infra.store().find_stream_cursor(&name).await?;
        let is_used =
            |cursor: &StreamCursor| now.duration_since(cursor.updated_at) < UNUSED_PUBLISHER_GRACE;
        Ok(cursor.filter(is_used).map(|_| name).into_iter().collect())
    }
}

fn minutes_before(now: Timestamp, minutes: i64) -> Result<Option<Timestamp>> {
    if minutes > MAX_STALE_MINUTES {
        let text = format!("{minutes} is more than {MAX_STALE_MINUTES} minutes");
        return Err(purge_out_of_range("runtime_stale_minutes", &text));
    }
    let minutes = u64::try_from(minutes).ok().filter(|minutes| *minutes > 0);
    Ok(minutes.map(|minutes| now.saturating_sub(Millis::from_secs(minutes * 60))))
}

fn purge_out_of_range(name: &str, text: &str) -> RuntimeError {
    RuntimeError::out_of_range(format!("{name}: {text}"))
}

fn skipped_partition(old: OldPartition) -> SkippedPartition {
    let partition = old.partition.name;
    let reason = match old.pin_reason {
        // Without an operator's action the partition would stay forever.
        Some(PinReason::Refused(cause)) => {
            tracing::warn!(%partition, %cause, "an old log partition cannot be dropped");
            PinReason::Refused(cause).to_string()
        }
        Some(pin_reason) => {
            tracing::info!(%partition, %pin_reason, "an old log partition is kept");
            pin_reason.to_string()
        }
        None => "it is still in use".to_owned(),
    };
    SkippedPartition { partition, reason: reason.into() }
}

/// If two clocks disagree, neither can be trusted for deletion.
fn clock_skew_skip(difference: Millis) -> SkippedPartition {
    let minutes = difference.as_ms() / 60_000;
    tracing::warn!(minutes, "the clocks of server and store differ; no log partition is dropped");
    SkippedPartition {
        partition: "*".into(),
        reason: format!("the clocks of server and store differ by {minutes} minutes").into(),
    }
}

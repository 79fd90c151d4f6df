//! Outbox API: publishers claim rows under a lease and mark them as published or failed.
//!
//! An adapter over the messages of the event stream, for publishers outside of the server: a row
//! has the same subject, message id and body as the message of the stream. The platform's own
//! publisher is the playbook `playbooks/system/outbox_publisher.yaml`, which calls this API.

use noetl_api::internal::{
    MarkFailedRequest, MarkFailedResponse, MarkPublishedRequest, MarkPublishedResponse,
    OutboxChangeResponse, OutboxClaimRequest, OutboxClaimResponse, OutboxEntry, OutboxIds,
    OutboxList, OutboxMessage, PendingCount, QuarantineEntry, QuarantineList, RawJson,
};
use noetl_store::{
    ClaimedMessage, FailureOutcome, OutboxClaim, OutboxFailure, OutboxFilter, OutboxMark,
    OutboxPayload, OutboxRow, QuarantineFilter, QuarantinedItem,
};
use noetl_types::limits::OutboxClaimLimit;
use noetl_types::{Millis, OutboxId};

use crate::error::{Result, RuntimeError};
use crate::services::Publishing;

/// Maximum rows per request.
const MAX_REQUEST_ROWS: usize = 10_000;

/// Maximum message size if the broker has not announced one.
const DEFAULT_MAX_MESSAGE_BYTES: usize = 1 << 20;

/// Bytes reserved for message headers.
const MESSAGE_HEADER_BYTES: usize = 512;

/// Maximum retry delay, in seconds, if the publisher does not set one.
const DEFAULT_MAX_DELAY_SECS: i64 = 300;

/// Range that a publisher may set for the maximum retry delay, in seconds.
const MAX_DELAY_SECS_RANGE: std::ops::RangeInclusive<i64> = 1..=3600;

impl Publishing {
    /// Claims rows for a publisher.
    pub async fn claim_outbox(&self, request: OutboxClaimRequest) -> Result<OutboxClaimResponse> {
        let now = self.infra.now();
        let settings = &self.infra.settings;
        let claim = OutboxClaim {
            limit: request.limit.map_or_else(OutboxClaimLimit::default, OutboxClaimLimit::clamped),
            owner: settings.server_name.clone(),
            now,
            lease_until: now.saturating_add(settings.outbox_lease),
            max_attempts: settings.outbox_max_attempts,
        };
        let claimed = self.infra.store().claim_outbox(claim).await?;
        for outbox_id in claimed.dead {
            self.record_dead_row(outbox_id);
        }
        let max_body_bytes = self.max_message_body_bytes();
        let rows: Vec<_> =
            claimed.rows.into_iter().map(|row| to_outbox_message(row, max_body_bytes)).collect();
        Ok(OutboxClaimResponse { claimed: rows.len() as u64, rows })
    }

    /// Counts and logs a row that failed its last attempt.
    fn record_dead_row(&self, outbox_id: OutboxId) {
        self.infra.metrics.platform.dead_rows.inc();
        tracing::error!(%outbox_id, "an outbox row is dead: it failed too often or cannot be read");
    }

    /// Maximum body size that the broker accepts.
    fn max_message_body_bytes(&self) -> usize {
        let messaging = self.messaging.as_ref();
        let announced = messaging.map(|messaging| messaging.link().max_payload());
        let max_bytes = announced.filter(|max| *max > 0).unwrap_or(DEFAULT_MAX_MESSAGE_BYTES);
        max_bytes.saturating_sub(MESSAGE_HEADER_BYTES)
    }

    /// Marks rows as published.
    pub async fn mark_outbox_published(
        &self,
        request: MarkPublishedRequest,
    ) -> Result<MarkPublishedResponse> {
        check_row_count(&request.outbox_ids)?;
        let ids = request.outbox_ids.into_iter();
        let marks: Vec<OutboxMark> = match request.attempts {
            None => ids.map(|outbox_id| outbox_mark(outbox_id, None)).collect(),
            Some(attempts) if attempts.len() == ids.len() => ids
                .zip(attempts)
                .map(|(outbox_id, attempts)| {
                    outbox_mark(outbox_id, Some(to_attempt_number(attempts)))
                })
                .collect(),
            Some(_) => {
                return Err(RuntimeError::out_of_range("attempts must have one number per row"));
            }
        };
        let marked = self.infra.store().mark_published(marks, self.infra.now()).await?;
        Ok(MarkPublishedResponse { marked })
    }

    /// Marks a row as failed.
    pub async fn mark_outbox_failed(
        &self,
        request: MarkFailedRequest,
    ) -> Result<MarkFailedResponse> {
        let max_delay = request.max_delay_seconds.unwrap_or(DEFAULT_MAX_DELAY_SECS);
        let max_delay = u64::try_from(max_delay)
            .ok()
            .filter(|_| MAX_DELAY_SECS_RANGE.contains(&max_delay))
            .ok_or_else(|| RuntimeError::out_of_range("max_delay_seconds must be 1 to 3600"))?;
        let failure = OutboxFailure {
            outbox_id: request.outbox_id,
            error: request.error,
            attempts: request.attempts.map(to_attempt_number),
            max_delay: Millis::from_secs(max_delay),
            max_attempts: self.infra.settings.outbox_max_attempts,
            now: self.infra.now(),
        };
        let outbox_id = failure.outbox_id;
        let failed = self.infra.store().mark_failed(failure).await?;
        let available_at_in = match failed {
            Some(FailureOutcome::Retry { delay }) => delay.as_ms() / 1000,
            Some(FailureOutcome::Dead) => {
                self.record_dead_row(outbox_id);
                0
            }
            None => 0,
        };
        Ok(MarkFailedResponse { marked: failed.is_some(), available_at_in })
    }

    /// Returns the number of rows that can be claimed.
    pub async fn outbox_pending(&self) -> Result<PendingCount> {
        let pending = self.infra.store().count_claimable_outbox_rows(self.infra.now()).await?;
        Ok(PendingCount { pending })
    }

    /// Returns a page of outbox rows.
    pub async fn list_outbox(&self, filter: OutboxFilter) -> Result<OutboxList> {
        let limit = usize::try_from(filter.limit.get()).unwrap_or(usize::MAX);
        let rows = self.infra.store().list_outbox_rows(filter).await?;
        let next_after =
            rows.last().filter(|_| rows.len() >= limit).map(|row| row.outbox_id.into());
        Ok(OutboxList { rows: rows.into_iter().map(to_outbox_entry).collect(), next_after })
    }

    /// Returns a page of rejected events. A rejected event does not stop the others.
    pub async fn list_quarantine(&self, filter: QuarantineFilter) -> Result<QuarantineList> {
        let limit = usize::try_from(filter.limit.get()).unwrap_or(usize::MAX);
        let rows = self.infra.store().list_quarantined_items(filter).await?;
        let next_after =
            rows.last().filter(|_| rows.len() >= limit).map(|row| row.quarantine_id.into());
        Ok(QuarantineList { rows: rows.into_iter().map(to_quarantine_entry).collect(), next_after })
    }

    /// Sends dead rows again.
    pub async fn replay_outbox(&self, request: OutboxIds) -> Result<OutboxChangeResponse> {
        check_row_count(&request.outbox_ids)?;
        let changed = self.infra.store().requeue_outbox_rows(request.outbox_ids, self.infra.now());
        Ok(OutboxChangeResponse { changed: changed.await? })
    }

    /// Marks dead rows as published without sending them.
    pub async fn discard_outbox(&self, request: OutboxIds) -> Result<OutboxChangeResponse> {
        check_row_count(&request.outbox_ids)?;
        let changed = self.infra.store().discard_outbox_rows(request.outbox_ids, self.infra.now());
        Ok(OutboxChangeResponse { changed: changed.await? })
    }
}

fn check_row_count(rows: &[OutboxId]) -> Result<()> {
    if rows.is_empty() || rows.len() > MAX_REQUEST_ROWS {
        let text = format!("outbox_ids must have 1 to {MAX_REQUEST_ROWS} rows");
        return Err(RuntimeError::out_of_range(text));
    }
    Ok(())
}

/// Converts an attempt number from a publisher. Negative numbers become 0, which is no attempt.
fn to_attempt_number(number: i64) -> u32 {
    u32::try_from(number.max(0)).unwrap_or(u32::MAX)
}

fn outbox_mark(outbox_id: OutboxId, attempts: Option<u32>) -> OutboxMark {
    OutboxMark { outbox_id, attempts }
}

/// Converts a claimed row for its publisher. An event that exceeds the broker's limit is sent by
/// reference, as in the stream, because it would otherwise fail until it is dead.
fn to_outbox_message(row: ClaimedMessage, max_body_bytes: usize) -> OutboxMessage {
    let payload = match row.payload {
        OutboxPayload::Event(body) if body.bytes.len() > max_body_bytes => {
            RawJson::from(&body.to_reference_json())
        }
        // Bodies are always JSON. Anything else would be sent as an empty body.
        OutboxPayload::Event(body) => RawJson::from_bytes(body.bytes.into()).unwrap_or_default(),
        OutboxPayload::External(payload) => RawJson::from(&payload),
    };
    OutboxMessage {
        outbox_id: row.outbox_id.into(),
        event_id: row.event_id.into(),
        execution_id: row.execution_id.map(Into::into),
        subject: row.subject,
        message_id: row.message_id,
        payload,
        payload_codec: row.payload_codec,
        attempts: row.attempts,
    }
}

fn to_outbox_entry(row: OutboxRow) -> OutboxEntry {
    OutboxEntry {
        outbox_id: row.outbox_id.into(),
        event_id: row.event_id.into(),
        execution_id: row.execution_id.map(Into::into),
        subject: row.subject,
        message_id: row.message_id,
        status: row.status.as_str().into(),
        attempts: row.attempts,
        available_at: row.available_at,
        lease_until: row.lease_until,
        published_at: row.published_at,
        discarded_at: row.discarded_at,
        last_error: row.last_error,
        created_at: row.created_at,
    }
}

fn to_quarantine_entry(row: QuarantinedItem) -> QuarantineEntry {
    QuarantineEntry {
        quarantine_id: row.quarantine_id.into(),
        source: row.source,
        code: row.code,
        message: row.message,
        raw: row.raw,
        created_at: row.created_at,
    }
}

#[cfg(test)]
mod tests;

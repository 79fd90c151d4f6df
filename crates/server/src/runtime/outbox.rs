//! The outbox: rows go to publishers for a while, and come back marked.

use noetl_api::internal::{
    MarkFailedAnswer, MarkFailedRequest, MarkPublishedAnswer, MarkPublishedRequest, OutboxChanged,
    OutboxClaimAnswer, OutboxClaimRequest, OutboxIds, OutboxLine, OutboxList, OutboxMessage,
    PendingCount,
};
use noetl_store::{
    ClaimedMessage, Failed, OutboxClaim, OutboxFailure, OutboxFilter, OutboxMark, OutboxRow,
};
use noetl_types::limits::OutboxClaimLimit;
use noetl_types::{ErrorCode, Millis, OutboxId};

use super::Runtime;
use super::error::RuntimeError;

/// Rows that one request may speak of.
const MAX_ROWS: usize = 10_000;

/// Seconds of the longest delay where the publisher does not say.
const MAX_DELAY: i64 = 300;

/// Seconds that a publisher may say.
const DELAYS: std::ops::RangeInclusive<i64> = 1..=3600;

impl Runtime {
    /// Hands rows to a publisher.
    pub async fn claim_outbox(
        &self,
        request: OutboxClaimRequest,
    ) -> Result<OutboxClaimAnswer, RuntimeError> {
        let now = self.now();
        let settings = self.settings();
        let claim = OutboxClaim {
            limit: request
                .limit
                .map_or_else(OutboxClaimLimit::default, OutboxClaimLimit::clamped),
            owner: settings.server_name.clone(),
            now,
            lease_until: now.saturating_add(settings.outbox_lease),
            max_attempts: settings.outbox_max_attempts,
        };
        let rows = self.store().claim_outbox(claim).await?;
        let rows: Vec<_> = rows.into_iter().map(message).collect();
        Ok(OutboxClaimAnswer {
            claimed: rows.len() as u64,
            rows,
        })
    }

    /// Notes that rows are out.
    pub async fn mark_outbox_published(
        &self,
        request: MarkPublishedRequest,
    ) -> Result<MarkPublishedAnswer, RuntimeError> {
        some(&request.outbox_ids)?;
        let ids = request.outbox_ids.into_iter();
        let marks: Vec<OutboxMark> = match request.attempts {
            None => ids.map(|outbox_id| mark(outbox_id, None)).collect(),
            Some(attempts) if attempts.len() == ids.len() => ids
                .zip(attempts)
                .map(|(outbox_id, attempts)| mark(outbox_id, Some(attempt(attempts))))
                .collect(),
            Some(_) => return Err(out_of_range("attempts has to have one number for each row")),
        };
        let marked = self.store().mark_published(marks, self.now()).await?;
        Ok(MarkPublishedAnswer { marked })
    }

    /// Notes that a row could not be published.
    pub async fn mark_outbox_failed(
        &self,
        request: MarkFailedRequest,
    ) -> Result<MarkFailedAnswer, RuntimeError> {
        let max_delay = request.max_delay_seconds.unwrap_or(MAX_DELAY);
        let max_delay = u64::try_from(max_delay)
            .ok()
            .filter(|_| DELAYS.contains(&max_delay))
            .ok_or_else(|| out_of_range("max_delay_seconds has to be from 1 to 3600"))?;
        let failure = OutboxFailure {
            outbox_id: request.outbox_id,
            error: request.error,
            attempts: request.attempts.map(attempt),
            max_delay: Millis::from_secs(max_delay),
            max_attempts: self.settings().outbox_max_attempts,
            now: self.now(),
        };
        let outbox_id = failure.outbox_id;
        let failed = self.store().mark_failed(failure).await?;
        let available_at_in = match failed {
            Some(Failed::Retry { delay }) => delay.as_ms() / 1000,
            Some(Failed::Dead) => {
                self.metrics().platform().died();
                tracing::error!(%outbox_id, "a row of the outbox failed too often and is dead");
                0
            }
            None => 0,
        };
        Ok(MarkFailedAnswer {
            marked: failed.is_some(),
            available_at_in,
        })
    }

    /// How many rows could be claimed.
    pub async fn outbox_pending(&self) -> Result<PendingCount, RuntimeError> {
        let pending = self.store().outbox_pending(self.now()).await?;
        Ok(PendingCount { pending })
    }

    /// A page of rows.
    pub async fn outbox(&self, filter: OutboxFilter) -> Result<OutboxList, RuntimeError> {
        let most = usize::try_from(filter.limit.get()).unwrap_or(usize::MAX);
        let rows = self.store().outbox(filter).await?;
        let next_after = rows
            .last()
            .filter(|_| rows.len() >= most)
            .map(|row| row.outbox_id);
        Ok(OutboxList {
            rows: rows.into_iter().map(line).collect(),
            next_after,
        })
    }

    /// Sends dead rows out again.
    pub async fn replay_outbox(&self, request: OutboxIds) -> Result<OutboxChanged, RuntimeError> {
        some(&request.outbox_ids)?;
        let changed = self.store().replay_outbox(request.outbox_ids, self.now());
        Ok(OutboxChanged {
            changed: changed.await?,
        })
    }

    /// Gives dead rows up: they count as published.
    pub async fn discard_outbox(&self, request: OutboxIds) -> Result<OutboxChanged, RuntimeError> {
        some(&request.outbox_ids)?;
        let changed = self.store().discard_outbox(request.outbox_ids, self.now());
        Ok(OutboxChanged {
            changed: changed.await?,
        })
    }
}

fn some(rows: &[OutboxId]) -> Result<(), RuntimeError> {
    if rows.is_empty() || rows.len() > MAX_ROWS {
        let text = format!("outbox_ids has to have 1 to {MAX_ROWS} rows");
        return Err(RuntimeError::refused(ErrorCode::OutOfRange, text));
    }
    Ok(())
}

fn out_of_range(text: &str) -> RuntimeError {
    RuntimeError::refused(ErrorCode::OutOfRange, text)
}

/// An attempt as a publisher says it. What is no number of an attempt is that of none.
fn attempt(said: i64) -> u32 {
    u32::try_from(said.max(0)).unwrap_or(u32::MAX)
}

fn mark(outbox_id: OutboxId, attempts: Option<u32>) -> OutboxMark {
    OutboxMark {
        outbox_id,
        attempts,
    }
}

fn message(row: ClaimedMessage) -> OutboxMessage {
    OutboxMessage {
        outbox_id: row.outbox_id,
        event_id: row.event_id,
        execution_id: row.execution_id,
        subject: row.subject,
        message_id: row.message_id,
        payload: row.payload,
        payload_codec: row.payload_codec,
        attempts: row.attempts,
    }
}

fn line(row: OutboxRow) -> OutboxLine {
    OutboxLine {
        outbox_id: row.outbox_id,
        event_id: row.event_id,
        execution_id: row.execution_id,
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

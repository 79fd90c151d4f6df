//! The outbox: rows go to publishers for a while, and come back marked.

use noetl_api::internal::{
    MarkFailedAnswer, MarkFailedRequest, MarkPublishedAnswer, MarkPublishedRequest, OutboxChanged,
    OutboxClaimAnswer, OutboxClaimRequest, OutboxIds, OutboxLine, OutboxList, OutboxMessage,
    PendingCount, QuarantineLine, QuarantineList, RawJson,
};
use noetl_store::{
    ClaimedMessage, Failed, OutboxClaim, OutboxFailure, OutboxFilter, OutboxMark, OutboxRow,
    Payload, QuarantineFilter, Quarantined,
};
use noetl_types::limits::OutboxClaimLimit;
use noetl_types::{ErrorCode, Millis, OutboxId};

use super::Runtime;
use super::error::RuntimeError;

/// Rows that one request may speak of.
const MAX_ROWS: usize = 10_000;

/// The longest message of a broker that has not told its own.
const MAX_MESSAGE: usize = 1 << 20;

/// Room for what a message has besides its body.
const HEADERS: usize = 512;

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
        let claimed = self.store().claim_outbox(claim).await?;
        for outbox_id in claimed.dead {
            self.died(outbox_id);
        }
        let most = self.max_message();
        let rows: Vec<_> = claimed
            .rows
            .into_iter()
            .map(|row| message(row, most))
            .collect();
        Ok(OutboxClaimAnswer {
            claimed: rows.len() as u64,
            rows,
        })
    }

    /// Tells that a row was tried in vain for the last time.
    fn died(&self, outbox_id: OutboxId) {
        self.metrics().platform().died();
        tracing::error!(%outbox_id, "a row of the outbox is dead: it failed too often, or cannot be read");
    }

    /// The longest body of a message that a broker takes, as far as one has told.
    fn max_message(&self) -> usize {
        let messaging = self.core.messaging.as_ref();
        let told = messaging.map(|messaging| messaging.link().max_payload());
        let most = told.filter(|most| *most > 0).unwrap_or(MAX_MESSAGE);
        most.saturating_sub(HEADERS)
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
                self.died(outbox_id);
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

    /// A page of what was refused while its neighbours went on.
    pub async fn quarantine(
        &self,
        filter: QuarantineFilter,
    ) -> Result<QuarantineList, RuntimeError> {
        let most = usize::try_from(filter.limit.get()).unwrap_or(usize::MAX);
        let rows = self.store().quarantined(filter).await?;
        let next_after = rows
            .last()
            .filter(|_| rows.len() >= most)
            .map(|row| row.quarantine_id);
        Ok(QuarantineList {
            rows: rows.into_iter().map(refused).collect(),
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

/// A row as its publisher gets it. An event that no broker would take goes out by reference, as it does
/// in the stream: else it would fail until it is dead.
fn message(row: ClaimedMessage, most: usize) -> OutboxMessage {
    let payload = match row.payload {
        Payload::Event(body) if body.bytes.len() > most => RawJson::from(&body.reference()),
        // Bodies are JSON; what were none would be handed on as nothing.
        Payload::Event(body) => RawJson::read(body.bytes.into()).unwrap_or_default(),
        Payload::Given(given) => RawJson::from(&given),
    };
    OutboxMessage {
        outbox_id: row.outbox_id,
        event_id: row.event_id,
        execution_id: row.execution_id,
        subject: row.subject,
        message_id: row.message_id,
        payload,
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

fn refused(row: Quarantined) -> QuarantineLine {
    QuarantineLine {
        quarantine_id: row.quarantine_id,
        source: row.source,
        code: row.code,
        message: row.message,
        raw: row.raw,
        created_at: row.created_at,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use noetl_api::internal::ProjectRequest;
    use noetl_store::{CopyScope, MemoryStore};
    use noetl_types::{ExecutionId, Json, Seq, json, sha256};

    use super::*;
    use crate::clock::SystemClock;
    use crate::runtime::Settings;

    #[tokio::test]
    async fn an_event_that_no_broker_takes_goes_out_by_reference() {
        let settings = Settings {
            outbox: true,
            ..Settings::default()
        };
        let store = Arc::new(MemoryStore::new());
        let runtime = Runtime::open(store, Arc::new(SystemClock), settings)
            .await
            .unwrap();
        let event = |number: i64, bytes: usize| {
            Json::object([
                ("execution_id", Json::from(7)),
                ("event_id", Json::from(number)),
                ("event_type", Json::from("step.enter")),
                ("context", Json::from("x".repeat(bytes))),
            ])
        };
        let events = vec![event(8, MAX_MESSAGE - 8 * HEADERS), event(9, MAX_MESSAGE)];
        let copied = runtime
            .project(ProjectRequest { events }, CopyScope::OfExecution)
            .await
            .unwrap();
        assert_eq!(copied.projected, 2, "{copied:?}");
        let claimed = runtime.claim_outbox(OutboxClaimRequest::default());
        let rows = claimed.await.unwrap().rows;
        let read = |row: &OutboxMessage| json::parse_text(row.payload.as_str()).unwrap();
        let whole = read(&rows[0]);
        let whole = whole.get("context").and_then(Json::as_str);
        assert!(whole.is_some_and(|text| text.len() > MAX_MESSAGE / 2));

        let told = read(&rows[1]);
        let (execution_id, seq) = (ExecutionId::new(7).unwrap(), Seq::new(2).unwrap());
        let address = format!("/api/stream/events/{execution_id}/{seq}");
        assert_eq!(told.get("ref").and_then(Json::as_str), Some(&*address));
        let fetched = runtime.streamed_event(execution_id, seq).await.unwrap();
        let digest = sha256(&fetched).to_string();
        assert_eq!(told.get("sha256").and_then(Json::as_str), Some(&*digest));
        let bytes = told.get("bytes").and_then(Json::as_u64);
        assert_eq!(bytes, Some(fetched.len() as u64));
        assert!(rows[1].payload.as_str().len() < HEADERS);
        let name = told.get("event_type").and_then(Json::as_str);
        assert_eq!(name, Some("step.enter"));
    }

    /// Nobody marked it, so only a claim finds out.
    #[tokio::test]
    async fn a_row_that_dies_of_a_claim_is_counted() {
        let settings = Settings {
            outbox: true,
            outbox_max_attempts: 1,
            outbox_lease: Millis::ZERO,
            ..Settings::default()
        };
        let store = Arc::new(MemoryStore::new());
        let runtime = Runtime::open(store, Arc::new(SystemClock), settings)
            .await
            .unwrap();
        let event = Json::object([("execution_id", Json::from(7)), ("event_id", Json::from(8))]);
        let events = vec![event];
        let copied = runtime.project(ProjectRequest { events }, CopyScope::OfExecution);
        assert_eq!(copied.await.unwrap().projected, 1);
        for (claimed, dead) in [(1, 0), (0, 1)] {
            let answer = runtime.claim_outbox(OutboxClaimRequest::default()).await;
            assert_eq!(answer.unwrap().claimed, claimed);
            let text = runtime.metrics_text().await.unwrap();
            let counted = format!("noetl_outbox_dead_total {dead}\n");
            assert!(text.contains(&counted), "{text}");
        }
    }
}

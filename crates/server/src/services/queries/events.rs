//! Listing of an execution's log.

use noetl_api::execution::{EventPage, EventView};
use noetl_api::query::{EventOrder, EventsQuery};
use noetl_store::LogPageLimit;
use noetl_types::record::ElapsedTime;
use noetl_types::{ErrorCode, EventName, ExecutionId, ExecutionVersion, Seq, StoredEvent, Text};

use crate::access::CallContext;
use crate::error::{Result, RuntimeError};
use crate::services::Queries;

/// Maximum events that one page scans if a filter skips most of them. The cursor continues after
/// them.
const MAX_SCANNED_EVENTS: i64 = 20_000;
/// Events per read.
const CHUNK_EVENTS: i64 = 1_000;

impl Queries {
    /// Returns a page of an execution's log.
    pub async fn list_events(
        &self,
        ctx: &CallContext,
        execution_id: ExecutionId,
        query: EventsQuery,
    ) -> Result<EventPage> {
        let row = ctx.visible_execution(self.infra.store(), execution_id).await?;
        let mut range = SeqRange::from_query(&query, row.head.version.get())?;
        let limit = usize::try_from(query.limit.get()).unwrap_or(usize::MAX);
        let has_filter = query.event_type.is_some() || query.step.is_some();
        let chunk = if has_filter { CHUNK_EVENTS } else { i64::from(query.limit.get()) };
        let mut events = Vec::new();
        let mut scanned = 0;
        while !range.is_empty() && events.len() < limit && scanned < MAX_SCANNED_EVENTS {
            let (after, count) = range.next_chunk(query.order, chunk);
            let chunk = self.read_log_chunk(execution_id, after, count).await?;
            scanned += count;
            for event in order_events(chunk, query.order) {
                if events.len() == limit {
                    break;
                }
                range.advance_past(query.order, event.record.seq);
                if event_matches(&event, &query) {
                    events.push(to_event_view(event));
                }
            }
        }
        let next_cursor = (!range.is_empty()).then(|| range.to_cursor(query.order));
        Ok(EventPage { events, next_cursor })
    }

    /// Returns up to `count` events after a position.
    pub(crate) async fn read_log_chunk(
        &self,
        execution_id: ExecutionId,
        after: i64,
        count: i64,
    ) -> Result<Vec<StoredEvent>> {
        let page = LogPageLimit::clamped(u32::try_from(count).unwrap_or(u32::MAX));
        let after = ExecutionVersion::new(after).unwrap_or(ExecutionVersion::EMPTY);
        let mut events = self.infra.store().read_events(execution_id, after, page).await?;
        events.truncate(usize::try_from(count).unwrap_or(usize::MAX));
        Ok(events)
    }
}

/// The part of a log that is still to be read, both bounds exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SeqRange {
    after: i64,
    before: i64,
}

impl SeqRange {
    fn from_query(query: &EventsQuery, version: i64) -> Result<Self> {
        let mut range = Self {
            after: query.after_seq.map_or(0, Seq::get),
            before: query.before_seq.map_or(i64::MAX, Seq::get),
        };
        if let Some(cursor) = &query.cursor {
            let seq: i64 = cursor.parse().map_err(|_| {
                RuntimeError::refused(ErrorCode::BadQuery, "the cursor is not valid for this log")
            })?;
            match query.order {
                EventOrder::Asc => range.after = range.after.max(seq),
                EventOrder::Desc => range.before = range.before.min(seq),
            }
        }
        range.before = range.before.min(version.saturating_add(1));
        Ok(range)
    }

    fn is_empty(self) -> bool {
        self.after.saturating_add(1) >= self.before
    }

    /// Returns the position to read after, and the number of events to read.
    fn next_chunk(self, order: EventOrder, max_events: i64) -> (i64, i64) {
        let count = max_events.min(self.before - self.after - 1);
        match order {
            EventOrder::Asc => (self.after, count),
            EventOrder::Desc => (self.before - 1 - count, count),
        }
    }

    fn advance_past(&mut self, order: EventOrder, seq: Seq) {
        match order {
            EventOrder::Asc => self.after = seq.get(),
            EventOrder::Desc => self.before = seq.get(),
        }
    }

    fn to_cursor(self, order: EventOrder) -> Text {
        let seq = match order {
            EventOrder::Asc => self.after,
            EventOrder::Desc => self.before,
        };
        seq.to_string().into()
    }
}

fn order_events(mut events: Vec<StoredEvent>, order: EventOrder) -> Vec<StoredEvent> {
    if order == EventOrder::Desc {
        events.reverse();
    }
    events
}

fn event_matches(event: &StoredEvent, query: &EventsQuery) -> bool {
    let event = &event.record.event;
    let has_type = |event_type: &EventName| event.event_type == *event_type;
    let has_step = |step: &Text| event.node_name.as_ref() == Some(step);
    query.event_type.as_ref().is_none_or(has_type) && query.step.as_ref().is_none_or(has_step)
}

/// Converts an event for the API.
pub(crate) fn to_event_view(stored: StoredEvent) -> EventView {
    let record = stored.record;
    let event = record.event;
    EventView {
        event_id: event.event_id,
        seq: record.seq,
        execution_id: event.execution_id,
        event_type: event.event_type,
        node_id: event.node_id,
        node_name: event.node_name,
        status: event.status.as_str().into(),
        created_at: event.created_at,
        timestamp: event.created_at,
        duration: event.duration.map(ElapsedTime::as_ms),
        context: event.context,
        result: event.result,
        error: event.error,
        catalog_id: event.catalog_id,
        parent_event_id: event.parent_event_id,
        worker_id: event.worker_id,
        meta: event.meta,
    }
}

#[cfg(test)]
mod tests;

//! The log of an execution, page by page.

use noetl_api::execution::{EventPage, EventView};
use noetl_api::query::{EventsQuery, Order};
use noetl_store::LogPage;
use noetl_types::record::Elapsed;
use noetl_types::{ErrorCode, EventName, ExecutionId, Seq, StoredEvent, Text, Version};

use crate::runtime::{Runtime, RuntimeError};

/// Events that one page looks at, where a filter passes most of them over. The cursor goes on
/// behind them.
const MAX_SCANNED: i64 = 20_000;
/// Events that are read at once.
const CHUNK: i64 = 1_000;

impl Runtime {
    /// A page of the log of an execution.
    pub async fn events(
        &self,
        execution_id: ExecutionId,
        query: EventsQuery,
    ) -> Result<EventPage, RuntimeError> {
        let row = self.execution_row(execution_id).await?;
        let mut range = Range::of(&query, row.head.version.get())?;
        let wanted = usize::try_from(query.limit.get()).unwrap_or(usize::MAX);
        let has_filter = query.event_type.is_some() || query.step.is_some();
        let chunk = if has_filter {
            CHUNK
        } else {
            i64::from(query.limit.get())
        };
        let mut events = Vec::new();
        let mut scanned = 0;
        while !range.is_empty() && events.len() < wanted && scanned < MAX_SCANNED {
            let (after, count) = range.next_chunk(query.order, chunk);
            let chunk = self.log_chunk(execution_id, after, count).await?;
            scanned += count;
            for event in in_order(chunk, query.order) {
                if events.len() == wanted {
                    break;
                }
                range.pass(query.order, event.record.seq);
                if is_hit(&event, &query) {
                    events.push(view(event));
                }
            }
        }
        let next_cursor = (!range.is_empty()).then(|| range.cursor(query.order));
        Ok(EventPage {
            events,
            next_cursor,
        })
    }

    /// So many events behind a place, as far as there are so many.
    pub(super) async fn log_chunk(
        &self,
        execution_id: ExecutionId,
        after: i64,
        count: i64,
    ) -> Result<Vec<StoredEvent>, RuntimeError> {
        let page = LogPage::clamped(u32::try_from(count).unwrap_or(u32::MAX));
        let after = Version::new(after).unwrap_or(Version::EMPTY);
        let mut events = self.store().events(execution_id, after, page).await?;
        events.truncate(usize::try_from(count).unwrap_or(usize::MAX));
        Ok(events)
    }
}

/// The part of a log that is still to be looked at: what lies behind one place and before another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    after: i64,
    before: i64,
}

impl Range {
    fn of(query: &EventsQuery, version: i64) -> Result<Self, RuntimeError> {
        let mut range = Self {
            after: query.after_seq.map_or(0, Seq::get),
            before: query.before_seq.map_or(i64::MAX, Seq::get),
        };
        if let Some(cursor) = &query.cursor {
            let seq: i64 = cursor.parse().map_err(|_| {
                RuntimeError::refused(
                    ErrorCode::BadQuery,
                    "the cursor is not one that this log gave",
                )
            })?;
            match query.order {
                Order::Asc => range.after = range.after.max(seq),
                Order::Desc => range.before = range.before.min(seq),
            }
        }
        range.before = range.before.min(version.saturating_add(1));
        Ok(range)
    }

    fn is_empty(self) -> bool {
        self.after.saturating_add(1) >= self.before
    }

    /// The place behind which the next events lie, and how many of them to read.
    fn next_chunk(self, order: Order, most: i64) -> (i64, i64) {
        let count = most.min(self.before - self.after - 1);
        match order {
            Order::Asc => (self.after, count),
            Order::Desc => (self.before - 1 - count, count),
        }
    }

    fn pass(&mut self, order: Order, seq: Seq) {
        match order {
            Order::Asc => self.after = seq.get(),
            Order::Desc => self.before = seq.get(),
        }
    }

    fn cursor(self, order: Order) -> Text {
        let seq = match order {
            Order::Asc => self.after,
            Order::Desc => self.before,
        };
        seq.to_string().into()
    }
}

fn in_order(mut events: Vec<StoredEvent>, order: Order) -> Vec<StoredEvent> {
    if order == Order::Desc {
        events.reverse();
    }
    events
}

fn is_hit(event: &StoredEvent, query: &EventsQuery) -> bool {
    let event = &event.record.event;
    let is_of_type = |wanted: &EventName| event.event_type == *wanted;
    let is_of_step = |step: &Text| event.node_name.as_ref() == Some(step);
    query.event_type.as_ref().is_none_or(is_of_type) && query.step.as_ref().is_none_or(is_of_step)
}

/// An event as readers see it.
pub(super) fn view(stored: StoredEvent) -> EventView {
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
        duration: event.duration.map(Elapsed::as_ms),
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
mod tests {
    use super::*;

    fn query(order: Order) -> EventsQuery {
        EventsQuery {
            order,
            ..EventsQuery::default()
        }
    }

    fn seq(number: i64) -> Seq {
        Seq::new(number).unwrap()
    }

    #[test]
    fn a_range_is_walked_from_either_end() {
        let mut up = Range::of(&query(Order::Asc), 10).unwrap();
        assert_eq!(up.next_chunk(Order::Asc, 4), (0, 4));
        up.pass(Order::Asc, seq(4));
        assert_eq!(
            (up.next_chunk(Order::Asc, 100), &*up.cursor(Order::Asc)),
            ((4, 6), "4")
        );
        up.pass(Order::Asc, seq(10));
        assert!(up.is_empty());

        let mut down = Range::of(&query(Order::Desc), 10).unwrap();
        assert_eq!(down.next_chunk(Order::Desc, 4), (6, 4));
        down.pass(Order::Desc, seq(7));
        assert_eq!(
            (down.next_chunk(Order::Desc, 4), &*down.cursor(Order::Desc)),
            ((2, 4), "7")
        );
        down.pass(Order::Desc, seq(1));
        assert!(down.is_empty());
    }

    #[test]
    fn bounds_and_cursor_narrow_a_range() {
        let narrow = EventsQuery {
            after_seq: Some(seq(3)),
            before_seq: Some(seq(8)),
            cursor: Some("5".into()),
            ..query(Order::Asc)
        };
        let range = Range::of(&narrow, 100).unwrap();
        assert_eq!(
            range,
            Range {
                after: 5,
                before: 8
            }
        );
        let beyond = EventsQuery {
            after_seq: Some(seq(i64::MAX)),
            ..query(Order::Asc)
        };
        assert!(Range::of(&beyond, 100).unwrap().is_empty());
        let wrong = EventsQuery {
            cursor: Some("x".into()),
            ..query(Order::Asc)
        };
        assert!(Range::of(&wrong, 100).is_err());
    }
}

//! Explanation of an execution together with a sample of its events.

use std::ops::RangeInclusive;

use noetl_api::execution::{AnalyzeRequest, EventView, ExecutionAnalysis};
use noetl_api::explain::ExplainQuery;
use noetl_api::query::{EventOrder, EventsQuery};
use noetl_types::limits::PageLimit;
use noetl_types::{EventStatus, ExecutionId};

use crate::access::CallContext;
use crate::error::{Result, RuntimeError};
use crate::services::Queries;

/// Range of the number of events that a request may examine.
const MAX_EVENTS_RANGE: RangeInclusive<u32> = 1..=20_000;
/// Range of the number of events that a request may return.
const SAMPLE_SIZE_RANGE: RangeInclusive<u32> = 1..=500;

impl Queries {
    /// Explains an execution and returns a sample of its last events: failed events first, then the
    /// newest.
    pub async fn analyze_execution(
        &self,
        ctx: &CallContext,
        execution_id: ExecutionId,
        request: AnalyzeRequest,
    ) -> Result<ExecutionAnalysis> {
        let mut remaining = check_in_range("max_events", request.max_events, &MAX_EVENTS_RANGE)?;
        let mut sample = EventSample {
            max_events: check_in_range(
                "event_sample_size", request.event_sample_size, &SAMPLE_SIZE_RANGE,
            )?,
            ..EventSample::default()
        };
        let explanation =
            self.explain_execution(ctx, execution_id, ExplainQuery::default()).await?;
        let mut query = EventsQuery {
            order: EventOrder::Desc,
            limit: PageLimit::MAX,
            ..EventsQuery::default()
        };
        loop {
            let page = self.list_events(ctx, execution_id, query.clone()).await?;
            let events = page.events.into_iter().take(remaining);
            remaining -= events.len();
            events.for_each(|event| sample.add_event(event));
            query.cursor = page.next_cursor;
            if remaining == 0 || query.cursor.is_none() {
                break;
            }
        }
        Ok(ExecutionAnalysis { explanation, events: sample.into_ordered_events() })
    }
}

fn check_in_range(name: &str, number: u32, bounds: &RangeInclusive<u32>) -> Result<usize> {
    let (min, max) = (bounds.start(), bounds.end());
    let text = || format!("{name} = {number} is out of range {min}..{max}");
    let number = usize::try_from(number).ok().filter(|_| bounds.contains(&number));
    number.ok_or_else(|| RuntimeError::out_of_range(text()))
}

/// Sample of a sequence of events that starts with the newest.
#[derive(Default)]
struct EventSample {
    max_events: usize,
    failed: Vec<EventView>,
    others: Vec<EventView>,
}

impl EventSample {
    fn add_event(&mut self, event: EventView) {
        let is_failed = event.status == EventStatus::Failed.as_str();
        let group = if is_failed { &mut self.failed } else { &mut self.others };
        if group.len() < self.max_events {
            group.push(event);
        }
    }

    fn into_ordered_events(self) -> Vec<EventView> {
        let mut events = self.failed;
        events.extend(self.others);
        events.truncate(self.max_events);
        events.sort_unstable_by_key(|event| event.seq);
        events
    }
}

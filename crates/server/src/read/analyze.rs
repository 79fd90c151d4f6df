//! An execution in one answer: why it stands where it stands, and some of its events.

use std::ops::RangeInclusive;

use noetl_api::execution::{Analysis, AnalyzeRequest, EventView};
use noetl_api::explain::ExplainQuery;
use noetl_api::query::{EventsQuery, Order};
use noetl_types::limits::PageLimit;
use noetl_types::{ErrorCode, EventStatus, ExecutionId};

use crate::runtime::{Runtime, RuntimeError};

/// Events that may be looked at.
const LOOKED_AT: RangeInclusive<u32> = 1..=20_000;
/// Those that may be shown.
const SHOWN: RangeInclusive<u32> = 1..=500;

impl Runtime {
    /// Explains an execution, and shows some of its last events: those that tell of a failure first,
    /// then the newest.
    pub async fn analyze(
        &self,
        execution_id: ExecutionId,
        request: AnalyzeRequest,
    ) -> Result<Analysis, RuntimeError> {
        let mut left = within("max_events", request.max_events, &LOOKED_AT)?;
        let mut sample = Sample {
            most: within("event_sample_size", request.event_sample_size, &SHOWN)?,
            ..Sample::default()
        };
        let explanation = self.explain(execution_id, ExplainQuery::default()).await?;
        let mut query = EventsQuery {
            order: Order::Desc,
            limit: PageLimit::MAX,
            ..EventsQuery::default()
        };
        loop {
            let page = self.events(execution_id, query.clone()).await?;
            let wanted = page.events.into_iter().take(left);
            left -= wanted.len();
            wanted.for_each(|event| sample.take(event));
            query.cursor = page.next_cursor;
            if left == 0 || query.cursor.is_none() {
                break;
            }
        }
        Ok(Analysis {
            explanation,
            events: sample.in_order(),
        })
    }
}

fn within(name: &str, number: u32, bounds: &RangeInclusive<u32>) -> Result<usize, RuntimeError> {
    let (min, max) = (bounds.start(), bounds.end());
    let text = || format!("{name} = {number} is out of range {min}..{max}");
    let number = usize::try_from(number)
        .ok()
        .filter(|_| bounds.contains(&number));
    number.ok_or_else(|| RuntimeError::refused(ErrorCode::OutOfRange, text()))
}

/// Some of the events that go by, the newest first.
#[derive(Default)]
struct Sample {
    most: usize,
    failed: Vec<EventView>,
    others: Vec<EventView>,
}

impl Sample {
    fn take(&mut self, event: EventView) {
        let is_failed = event.status == EventStatus::Failed.as_str();
        let part = if is_failed {
            &mut self.failed
        } else {
            &mut self.others
        };
        if part.len() < self.most {
            part.push(event);
        }
    }

    fn in_order(self) -> Vec<EventView> {
        let mut shown = self.failed;
        shown.extend(self.others);
        shown.truncate(self.most);
        shown.sort_unstable_by_key(|event| event.seq);
        shown
    }
}

//! Execution detail with a page of its log.

use noetl_api::execution::{EventView, ExecutionDetail, PageInfo};
use noetl_api::query::ExecutionDetailQuery;
use noetl_store::Execution;
use noetl_types::{EventName, ExecutionId, Json, StoredEvent};

use super::events::to_event_view;
use super::execution::to_execution_summary;
use super::status::StepTally;
use crate::runtime::{Runtime, RuntimeError};

/// Events per read.
const CHUNK_EVENTS: i64 = 1_000;
/// Maximum events that a filter scans. Later events are not counted.
const MAX_SCANNED_EVENTS: i64 = 200_000;

impl Runtime {
    /// Returns an execution with a page of its log.
    pub async fn execution_detail(
        &self,
        execution_id: ExecutionId,
        query: ExecutionDetailQuery,
    ) -> Result<ExecutionDetail, RuntimeError> {
        let row = self.visible_execution(execution_id).await?;
        let mut summary = to_execution_summary(&row, self.now());
        if !row.view.status.is_terminal()
            && let Some((definition, state)) = self.execution_state(execution_id).await?
        {
            summary.progress = StepTally::count_steps(&definition, &state).progress_percent();
        }
        let (events, pagination) = self.detail_page(&row, &query).await?;
        Ok(ExecutionDetail {
            summary,
            workload: self.execution_workload(execution_id).await?,
            result: self.final_result(&row).await?,
            events,
            pagination,
        })
    }

    /// Returns the workload of an execution, which is in its first event.
    pub(crate) async fn execution_workload(
        &self,
        execution_id: ExecutionId,
    ) -> Result<Json, RuntimeError> {
        let first = self.read_log_chunk(execution_id, 0, 1).await?;
        let Some(first) = first.first() else {
            return Ok(Json::empty_map());
        };
        let event = &first.record.event;
        if let Some(value) = self.resolve_reference(event.result.as_ref()).await? {
            return Ok(value);
        }
        let workload = event.context.as_ref().and_then(|map| map.get("workload"));
        Ok(workload.cloned().unwrap_or_else(Json::empty_map))
    }

    async fn detail_page(
        &self,
        row: &Execution,
        query: &ExecutionDetailQuery,
    ) -> Result<(Vec<EventView>, PageInfo), RuntimeError> {
        let mut page = DetailPage::new(query);
        let version = row.head.version.get();
        if query.event_type.is_none() && query.since_event_id.is_none() {
            page.total = version;
            let events = self.read_log_chunk(row.execution_id, page.skipped_events, page.size);
            page.events = events.await?.into_iter().map(to_event_view).collect();
        } else {
            let mut after = 0;
            let mut is_after_start = query.since_event_id.is_none();
            while after < version.min(MAX_SCANNED_EVENTS) {
                let chunk = self.read_log_chunk(row.execution_id, after, CHUNK_EVENTS).await?;
                if chunk.is_empty() {
                    break;
                }
                after += CHUNK_EVENTS;
                for event in chunk {
                    if is_after_start {
                        page.add_matching_event(event, query);
                    } else {
                        is_after_start = query.since_event_id == Some(event.record.event.event_id);
                    }
                }
            }
        }
        Ok(page.into_page())
    }
}

/// A page that is being filled.
struct DetailPage {
    number: u32,
    size: i64,
    /// Number of matching events before the page.
    skipped_events: i64,
    /// Number of matching events.
    total: i64,
    events: Vec<EventView>,
}

impl DetailPage {
    fn new(query: &ExecutionDetailQuery) -> Self {
        let (number, size) = (query.page.max(1), i64::from(query.page_size.get()));
        Self {
            number,
            size,
            skipped_events: i64::from(number - 1).saturating_mul(size),
            total: 0,
            events: Vec::new(),
        }
    }

    fn add_matching_event(&mut self, event: StoredEvent, query: &ExecutionDetailQuery) {
        let has_type = |event_type: &EventName| event.record.event.event_type == *event_type;
        if !query.event_type.as_ref().is_none_or(has_type) {
            return;
        }
        if (self.skipped_events..self.skipped_events.saturating_add(self.size))
            .contains(&self.total)
        {
            self.events.push(to_event_view(event));
        }
        self.total += 1;
    }

    fn into_page(self) -> (Vec<EventView>, PageInfo) {
        let total_pages = self.total.div_euclid(self.size) + i64::from(self.total % self.size > 0);
        let pagination = PageInfo {
            page: self.number,
            page_size: u32::try_from(self.size).unwrap_or(u32::MAX),
            total_events: self.total,
            total_pages,
            has_next: i64::from(self.number) < total_pages,
            has_prev: self.number > 1,
        };
        (self.events, pagination)
    }
}

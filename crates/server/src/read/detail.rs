//! An execution with a page of its log.

use noetl_api::execution::{EventView, ExecutionDetail, Pagination};
use noetl_api::query::DetailQuery;
use noetl_store::Execution;
use noetl_types::{EventName, ExecutionId, Json, StoredEvent};

use super::events::view;
use super::execution::line;
use super::status::Tally;
use crate::runtime::{Runtime, RuntimeError};

/// Events that are read at once.
const CHUNK: i64 = 1_000;
/// Events that a filter looks at; what lies behind them is not counted.
const MAX_SCANNED: i64 = 200_000;

impl Runtime {
    /// An execution with a page of its log.
    pub async fn execution_detail(
        &self,
        execution_id: ExecutionId,
        query: DetailQuery,
    ) -> Result<ExecutionDetail, RuntimeError> {
        let row = self.execution_row(execution_id).await?;
        let mut line = line(&row, self.now());
        if !row.view.status.is_terminal()
            && let Some((definition, state)) = self.state_of(execution_id).await?
        {
            line.progress = Tally::of(&definition, &state).percent();
        }
        let (events, pagination) = self.detail_page(&row, &query).await?;
        Ok(ExecutionDetail {
            line,
            workload: self.workload_of(execution_id).await?,
            result: self.final_result(&row).await?,
            events,
            pagination,
        })
    }

    /// What an execution began with: its first event tells.
    pub(crate) async fn workload_of(
        &self,
        execution_id: ExecutionId,
    ) -> Result<Json, RuntimeError> {
        let first = self.log_chunk(execution_id, 0, 1).await?;
        let Some(first) = first.first() else {
            return Ok(Json::empty_map());
        };
        let event = &first.record.event;
        if let Some(value) = self.by_reference(event.result.as_ref()).await? {
            return Ok(value);
        }
        let workload = event.context.as_ref().and_then(|map| map.get("workload"));
        Ok(workload.cloned().unwrap_or_else(Json::empty_map))
    }

    async fn detail_page(
        &self,
        row: &Execution,
        query: &DetailQuery,
    ) -> Result<(Vec<EventView>, Pagination), RuntimeError> {
        let mut page = Page::new(query);
        let version = row.head.version.get();
        if query.event_type.is_none() && query.since_event_id.is_none() {
            page.total = version;
            let events = self.log_chunk(row.execution_id, page.first, page.size);
            page.events = events.await?.into_iter().map(view).collect();
        } else {
            let mut after = 0;
            let mut is_behind = query.since_event_id.is_none();
            while after < version.min(MAX_SCANNED) {
                let chunk = self.log_chunk(row.execution_id, after, CHUNK).await?;
                if chunk.is_empty() {
                    break;
                }
                after += CHUNK;
                for event in chunk {
                    if is_behind {
                        page.offer(event, query);
                    } else {
                        is_behind = query.since_event_id == Some(event.record.event.event_id);
                    }
                }
            }
        }
        Ok(page.finish())
    }
}

/// A page that is being filled.
struct Page {
    number: u32,
    size: i64,
    /// How many events come before it.
    first: i64,
    /// How many events there are.
    total: i64,
    events: Vec<EventView>,
}

impl Page {
    fn new(query: &DetailQuery) -> Self {
        let (number, size) = (query.page.max(1), i64::from(query.page_size.get()));
        Self {
            number,
            size,
            first: i64::from(number - 1).saturating_mul(size),
            total: 0,
            events: Vec::new(),
        }
    }

    fn offer(&mut self, event: StoredEvent, query: &DetailQuery) {
        let is_wanted = |wanted: &EventName| event.record.event.event_type == *wanted;
        if !query.event_type.as_ref().is_none_or(is_wanted) {
            return;
        }
        if (self.first..self.first.saturating_add(self.size)).contains(&self.total) {
            self.events.push(view(event));
        }
        self.total += 1;
    }

    fn finish(self) -> (Vec<EventView>, Pagination) {
        let total_pages = self.total.div_euclid(self.size) + i64::from(self.total % self.size > 0);
        let pagination = Pagination {
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

//! Detail and status of an execution.

use std::sync::Arc;

use noetl_api::execution::{
    EventView, ExecutionDetail, ExecutionStatusView, PageInfo, StepProgress,
};
use noetl_api::query::{ExecutionDetailQuery, ExecutionsQuery};
use noetl_engine::{ExecutionState, StepStatus};
use noetl_store::{Execution, ExecutionOrigin};
use noetl_types::limits::PageLimit;
use noetl_types::{EventName, ExecutionId, ExecutionStatus, Json, StoredEvent, Text, Timestamp};

use crate::access::CallContext;
use crate::error::{Result, RuntimeError};
use crate::services::Queries;
use crate::services::catalog::Definition;
use crate::services::queries::events::to_event_view;
use crate::services::queries::execution::{ExecutionDuration, to_execution_summary};

/// Maximum child executions in the detail of their parent.
const MAX_LISTED_CHILDREN: i64 = 100;
/// Events per read.
const CHUNK_EVENTS: i64 = 1_000;
/// Maximum events that a filter scans. Later events are not counted.
const MAX_SCANNED_EVENTS: i64 = 200_000;

/// Maximum bytes of a result that is inlined in answers about an execution. Larger ones are
/// returned as references.
const MAX_INLINE_BYTES: u64 = 1 << 20;
/// Events per read when searching for the terminal event from the end of the log.
const TAIL_EVENTS: i64 = 50;
/// Maximum reads. Only audit events can follow a terminal event.
const MAX_TAIL_READS: i64 = 20;

impl Queries {
    /// Returns an execution with a page of its log.
    pub async fn execution_detail(
        &self,
        ctx: &CallContext,
        execution_id: ExecutionId,
        query: ExecutionDetailQuery,
    ) -> Result<ExecutionDetail> {
        let row = ctx.visible_execution(self.infra.store(), execution_id).await?;
        let mut summary = to_execution_summary(&row, self.infra.now());
        if !row.view.status.is_terminal()
            && let Some((definition, state)) = self.load_driven_state(&row).await?
        {
            summary.progress = StepTally::count_steps(&definition, &state).progress_percent();
        }
        let (events, pagination) = self.detail_page(&row, &query).await?;
        let children = ExecutionsQuery {
            parent: Some(execution_id),
            limit: PageLimit::clamped(MAX_LISTED_CHILDREN),
            ..ExecutionsQuery::default()
        };
        Ok(ExecutionDetail {
            summary,
            workload: self.execution_workload(ctx, execution_id).await?,
            result: self.final_result(ctx, &row).await?,
            events,
            pagination,
            children: self.list_executions(ctx, children).await?.executions,
        })
    }

    /// Returns the workload of an execution, which is in its first event.
    pub(crate) async fn execution_workload(
        &self,
        ctx: &CallContext,
        execution_id: ExecutionId,
    ) -> Result<Json> {
        let first = self.read_log_chunk(execution_id, 0, 1).await?;
        let Some(first) = first.first() else {
            return Ok(Json::empty_map());
        };
        let event = &first.record.event;
        if let Some(value) = self.resolve_reference(ctx, event.result.as_ref()).await? {
            return Ok(value);
        }
        let workload = event.context.as_ref().and_then(|map| map.get("workload"));
        Ok(workload.cloned().unwrap_or_else(Json::empty_map))
    }

    async fn detail_page(
        &self,
        row: &Execution,
        query: &ExecutionDetailQuery,
    ) -> Result<(Vec<EventView>, PageInfo)> {
        let version = row.head.version.get();
        let mut page = if *query == ExecutionDetailQuery::default() {
            DetailPage::newest(version)
        } else {
            DetailPage::new(query)
        };
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

    /// Returns the result of an ended execution.
    pub(crate) async fn final_result(
        &self,
        ctx: &CallContext,
        row: &Execution,
    ) -> Result<Option<Json>> {
        if !row.view.status.is_terminal() {
            return Ok(None);
        }
        let mut before = row.head.version.get();
        for _ in 0..MAX_TAIL_READS {
            let after = (before - TAIL_EVENTS).max(0);
            let tail = self.read_log_chunk(row.execution_id, after, before - after);
            let tail = tail.await?;
            let is_terminal = |event: &&StoredEvent| {
                let kind = event.record.event.event_type.known_type();
                kind.is_some_and(|kind| kind.terminal_status().is_some())
            };
            if let Some(event) = tail.iter().rev().find(is_terminal) {
                let result = event.record.event.result.as_ref();
                if let Some(value) = self.resolve_reference(ctx, result).await? {
                    return Ok(Some(value));
                }
                let context = result.and_then(|result| result.get("context"));
                return Ok(context.and_then(|context| context.get("result")).cloned());
            }
            if after == 0 {
                break;
            }
            before = after;
        }
        Ok(None)
    }

    /// Returns the value that the `result` of an event refers to, or the reference itself if the
    /// value is large or no longer available.
    pub(crate) async fn resolve_reference(
        &self,
        ctx: &CallContext,
        result: Option<&Json>,
    ) -> Result<Option<Json>> {
        let reference = result.and_then(|result| result.get("reference"));
        let Some(reference) = reference.filter(|reference| !reference.is_null()) else {
            return Ok(None);
        };
        let address = reference.get("ref").and_then(Json::as_str);
        let bytes = reference.get("bytes").and_then(Json::as_u64);
        if let (Some(address), Some(..=MAX_INLINE_BYTES)) = (address, bytes) {
            match self.results.resolve_result(ctx, address).await {
                Ok(value) => return Ok(Some(value)),
                Err(error @ (RuntimeError::Store(_) | RuntimeError::Machine(_))) => {
                    return Err(error);
                }
                Err(RuntimeError::Refused(_)) => {}
            }
        }
        Ok(Some(reference.clone()))
    }

    /// Loads the definition and the state of an execution. `None` if it is driven elsewhere: its log
    /// here is a copy, and its row has all that is known of it.
    pub(crate) async fn load_driven_state(
        &self,
        row: &Execution,
    ) -> Result<Option<(Arc<Definition>, ExecutionState)>> {
        match row.facts.origin {
            ExecutionOrigin::Driven => self.driver.load_state(row.execution_id).await,
            ExecutionOrigin::Projected | ExecutionOrigin::Imported => Ok(None),
        }
    }

    /// Returns the status of an execution.
    pub async fn execution_status(
        &self,
        ctx: &CallContext,
        execution_id: ExecutionId,
    ) -> Result<ExecutionStatusView> {
        let row = ctx.visible_execution(self.infra.store(), execution_id).await?;
        let folded = self.load_driven_state(&row).await?;
        let (tally, variables) = match &folded {
            Some((definition, state)) => {
                (StepTally::count_steps(definition, state), state.ctx().clone())
            }
            None => (StepTally::default(), Json::empty_map()),
        };
        let result = self.final_result(ctx, &row).await?;
        let (facts, view) = (row.facts, row.view);
        let elapsed =
            ExecutionDuration::from_start_to_end(facts.started_at, view.ended_at, self.infra.now());
        Ok(ExecutionStatusView {
            execution_id,
            status: view.status,
            current_step: view.last_node_name,
            progress: tally.progress,
            is_cancelled: view.status == ExecutionStatus::Cancelled,
            completed: view.status.is_terminal(),
            failed: view.status == ExecutionStatus::Failed,
            completed_steps: tally.completed_steps(),
            completion_inferred: false,
            variables,
            start_time: facts.started_at,
            end_time: view.ended_at,
            duration_seconds: elapsed.as_seconds(),
            duration_human: elapsed.to_human_text(),
            result,
            error: view.error,
        })
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
    /// Creates a page with the last events of a log, in order. Classic clients that send no paging
    /// parameters show this page only. It counts as the last one.
    fn newest(version: i64) -> Self {
        let size = ExecutionDetailQuery::DEFAULT_PAGE_SIZE;
        let number = u32::try_from(page_count(version, size)).unwrap_or(u32::MAX);
        let skipped_events = version.saturating_sub(size).max(0);
        Self { number: number.max(1), size, skipped_events, total: 0, events: Vec::new() }
    }

    fn new(query: &ExecutionDetailQuery) -> Self {
        let size = query
            .page_size
            .map_or(ExecutionDetailQuery::DEFAULT_PAGE_SIZE, |size| i64::from(size.get()));
        let number = query.page.unwrap_or(1).max(1);
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
        let total_pages = page_count(self.total, self.size);
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

fn page_count(events: i64, page_size: i64) -> i64 {
    events.div_euclid(page_size) + i64::from(events % page_size > 0)
}

/// Step counts of an execution.
#[derive(Debug, Default)]
pub(crate) struct StepTally {
    progress: StepProgress,
    /// Completed steps with the end of their last pass.
    completed: Vec<(Timestamp, Text)>,
    /// Skipped and cancelled steps, which count as done.
    skipped: u32,
}

impl StepTally {
    /// Counts the steps of an execution.
    pub(crate) fn count_steps(definition: &Definition, state: &ExecutionState) -> Self {
        let graph = definition.plan.graph();
        let mut tally = Self::default();
        tally.progress.total_steps = u32::try_from(graph.len()).unwrap_or(u32::MAX);
        for index in graph.steps() {
            let Some(step) = state.step_state(index) else {
                continue;
            };
            if step.run.is_some() {
                tally.progress.running_steps += 1;
            }
            let Some(latest) = &step.latest else {
                tally.skipped += u32::from(step.is_dead);
                continue;
            };
            match latest.status {
                StepStatus::Completed => {
                    let name = Text::from(&**graph.name(index));
                    tally.completed.push((latest.ended_at, name));
                    tally.progress.completed_steps += 1;
                }
                StepStatus::Failed => tally.progress.failed_steps += 1,
                StepStatus::Skipped | StepStatus::Cancelled => tally.skipped += 1,
            }
        }
        tally
    }

    /// Names of the completed steps in order of their ends. Steps that ended at the same time are
    /// in the order of the playbook.
    fn completed_steps(mut self) -> Vec<Text> {
        self.completed.sort_by_key(|(ended_at, _)| *ended_at);
        self.completed.into_iter().map(|(_, name)| name).collect()
    }

    /// Progress of a running execution, at most 99 percent.
    pub(crate) fn progress_percent(&self) -> u8 {
        let progress = self.progress;
        let done = progress.completed_steps + progress.failed_steps + self.skipped;
        let percent = u64::from(done) * 100 / u64::from(progress.total_steps.max(1));
        u8::try_from(percent.min(99)).unwrap_or(99)
    }
}

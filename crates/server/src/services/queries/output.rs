//! Reads and follows the output of tasks.

use std::sync::Arc;
use std::time::Duration;

use noetl_api::output::{OutputPage, OutputQuery, OutputView};
use noetl_store::{OutputChunk, OutputFilter};
use noetl_types::ExecutionId;
use noetl_types::limits::PageLimit;
use tokio::time::{Instant, sleep};

use crate::access::CallContext;
use crate::error::{Result, RuntimeError};
use crate::services::Queries;

/// Default and maximum number of chunks of a page.
const DEFAULT_PAGE_CHUNKS: u32 = 100;
const MAX_PAGE_CHUNKS: u32 = 500;
/// Interval at which a follower looks for new output. Workers send it at this interval too.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(500);

impl Queries {
    /// Returns a page of the output that tasks of an execution sent while they ran.
    pub async fn list_output(
        &self,
        ctx: &CallContext,
        execution_id: ExecutionId,
        query: OutputQuery,
    ) -> Result<OutputPage> {
        ctx.visible_execution(self.infra.store(), execution_id).await?;
        let filter = output_filter(execution_id, query)?;
        let limit = usize::try_from(filter.limit.get()).unwrap_or(usize::MAX);
        let chunks = self.infra.store().list_output(filter).await?;
        let next_after = chunks.last().map(|last| last.position).filter(|_| chunks.len() == limit);
        Ok(OutputPage { chunks: chunks.into_iter().map(to_output_view).collect(), next_after })
    }

    /// Follows the output of an execution from a position.
    pub(crate) async fn follow_output(
        self: &Arc<Self>,
        ctx: &CallContext,
        execution_id: ExecutionId,
        query: OutputQuery,
    ) -> Result<OutputFollower> {
        ctx.visible_execution(self.infra.store(), execution_id).await?;
        let filter = output_filter(execution_id, query)?;
        Ok(OutputFollower { queries: Arc::clone(self), filter, has_ended: false })
    }
}

fn output_filter(execution_id: ExecutionId, query: OutputQuery) -> Result<OutputFilter> {
    let OutputQuery { step, attempt, after, limit } = query;
    let limit = limit.unwrap_or(DEFAULT_PAGE_CHUNKS);
    if !(1..=MAX_PAGE_CHUNKS).contains(&limit) {
        let text = format!("limit = {limit} is out of range 1..{MAX_PAGE_CHUNKS}");
        return Err(RuntimeError::out_of_range(text));
    }
    let limit = PageLimit::clamped(limit.into());
    Ok(OutputFilter { execution_id, after: after.unwrap_or(0), step, attempt, limit })
}

fn to_output_view(chunk: OutputChunk) -> OutputView {
    OutputView {
        position: chunk.position,
        command_id: chunk.command_id,
        attempt: chunk.attempt,
        step: chunk.step_name.as_str().into(),
        index: chunk.iter_index,
        task: chunk.task,
        at: chunk.created_at,
        stdout: chunk.stdout,
        stderr: chunk.stderr,
        dropped_bytes: chunk.dropped_bytes,
        last: chunk.is_last,
    }
}

/// Returns every chunk of output of an execution once, in order, until its end.
pub(crate) struct OutputFollower {
    queries: Arc<Queries>,
    filter: OutputFilter,
    has_ended: bool,
}

impl OutputFollower {
    /// Returns the next chunks, an empty list after a timeout, or `None` once the execution has
    /// ended and all chunks were returned.
    pub(crate) async fn next(&mut self, max_wait: Duration) -> Result<Option<Vec<OutputView>>> {
        let deadline = Instant::now() + max_wait;
        let store = self.queries.infra.store();
        loop {
            let chunks = store.list_output(self.filter.clone()).await?;
            if let Some(last) = chunks.last() {
                self.filter.after = last.position;
                return Ok(Some(chunks.into_iter().map(to_output_view).collect()));
            }
            if self.has_ended {
                return Ok(None);
            }
            let execution = store.find_execution(self.filter.execution_id).await?;
            // Output that was stored before the end is read once more.
            self.has_ended = execution.is_none_or(|execution| execution.view.status.is_terminal());
            if self.has_ended {
                continue;
            }
            let remaining = deadline.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                return Ok(Some(Vec::new()));
            }
            sleep(remaining.min(FOLLOW_INTERVAL)).await;
        }
    }
}

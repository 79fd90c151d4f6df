//! Explanation of what an execution waits for, or of its end.
//!
//! Owns the answer of the route: open work according to the fold, the queue and the pools, as
//! readable text. Must not: decide or write anything.

mod cause;
mod suspended;
mod waiting;

use noetl_api::explain::{ExecutionExplanation, ExplainQuery, FailureView, WaitCondition};
use noetl_engine::ExecutionState;
use noetl_store::{Execution, ExecutionOrigin, LogHead};
use noetl_types::{ExecutionId, ExecutionStatus, Text};

use crate::access::CallContext;
use crate::error::{Result, RuntimeError};
use crate::services::Queries;
use crate::services::queries::execution::ExecutionDuration;

/// Maximum waits that are listed individually.
const MAX_LISTED_WAITS: usize = 50;

impl Queries {
    /// Explains what an execution waits for, or its end.
    pub async fn explain_execution(
        &self,
        ctx: &CallContext,
        execution_id: ExecutionId,
        query: ExplainQuery,
    ) -> Result<ExecutionExplanation> {
        let mut row = ctx.visible_execution(self.infra.store(), execution_id).await?;
        let folded = match query.at {
            None => self.load_driven_state(&row).await?,
            Some(at) => {
                let (definition, state, head) = self.driver.load_state_at(&row, at).await?;
                rewind_row(&mut row, &state, head);
                if let Some(observed) = ctx.observed_seq.as_ref() {
                    observed.record_requested(row.head.version);
                }
                Some((definition, state))
            }
        };
        let mut waiting_on = Vec::new();
        let mut failure = None;
        if let Some((definition, state)) = &folded {
            if let Some(step) = &query.step
                && definition.plan.find_step(step).is_none()
            {
                let text = format!("the playbook of this execution has no step `{step}`");
                return Err(RuntimeError::not_found(text));
            }
            if !row.view.status.is_terminal() {
                waiting_on = match query.at {
                    None => self.waiting_on(ctx, &row, definition, state).await?,
                    Some(_) => waiting::past_waits(definition, state),
                };
            }
            failure = cause::find_failure(definition, state);
        }
        if let Some(step) = &query.step {
            waiting_on.retain(|wait| wait.step.as_ref().is_none_or(|waiting| waiting == step));
        }
        let cause = self.causal_chain(&row, query.step.as_ref()).await?;
        let more = waiting_on.len().saturating_sub(MAX_LISTED_WAITS);
        let mut summary = self.summarize_execution(&row, &waiting_on, failure.as_ref());
        let ending = folded.as_ref().and_then(|(_, state)| state.ending_status());
        if let Some(status) = ending.filter(|_| !row.view.status.is_terminal()) {
            summary =
                Text::from_lossy(&format!("it ends {status} after its final step: {summary}"));
        }
        waiting_on.truncate(MAX_LISTED_WAITS);
        Ok(ExecutionExplanation {
            execution_id,
            status: row.view.status,
            summary,
            waiting_on,
            more: u64::try_from(more).unwrap_or(u64::MAX),
            failure,
            cause,
        })
    }

    fn summarize_execution(
        &self,
        row: &Execution,
        waiting_on: &[WaitCondition],
        failure: Option<&FailureView>,
    ) -> Text {
        let view = &row.view;
        let elapsed = ExecutionDuration::from_start_to_end(
            row.facts.started_at,
            view.ended_at,
            self.infra.now(),
        )
        .to_human_text();
        let text = match view.status {
            ExecutionStatus::Completed => format!("it completed after {elapsed}"),
            ExecutionStatus::Cancelled => match &view.error {
                Some(reason) => format!("it was cancelled after {elapsed}: {reason}"),
                None => format!("it was cancelled after {elapsed}"),
            },
            ExecutionStatus::Failed => {
                let error = view.error.as_deref().unwrap_or("no reason was recorded");
                match failure.and_then(|failure| failure.step.as_ref()) {
                    Some(step) => format!("step `{step}` failed: {error}"),
                    None => format!("it failed: {error}"),
                }
            }
            ExecutionStatus::Pending | ExecutionStatus::Running | ExecutionStatus::Paused => {
                summarize_waits(row, waiting_on)
            }
        };
        Text::from_lossy(&text)
    }
}

/// Resets a row to the state at an earlier position of the log.
fn rewind_row(row: &mut Execution, state: &ExecutionState, head: LogHead) {
    row.head = head;
    row.view.status = state.status();
    row.view.paused = state.is_paused();
    if !row.view.status.is_terminal() {
        row.view.ended_at = None;
        row.view.error = None;
    }
}

/// Summarizes the open waits in one sentence.
fn summarize_waits(row: &Execution, waiting_on: &[WaitCondition]) -> String {
    let Some((first, others)) = waiting_on.split_first() else {
        return match row.facts.origin {
            ExecutionOrigin::Driven => {
                "nothing is open; the next decision is in progress".to_owned()
            }
            _ => "its log is a copy of an execution that is driven elsewhere".to_owned(),
        };
    };
    let mut text = match &first.step {
        Some(step) => format!("step `{step}` {}", first.detail),
        None => first.detail.to_string(),
    };
    match others.len() {
        0 => {}
        1 => text.push_str("; and 1 more"),
        count => text.push_str(&format!("; and {count} more")),
    }
    text
}

//! Why an execution waits, or how it came to its end.
//!
//! Owns the answer of the route: what is open according to the fold, the queue and the pools, in
//! words for people. Must not: decide or write anything.

mod cause;
mod failure;
mod parked;
mod waiting;

use noetl_api::explain::{ExplainQuery, Explanation, FailureView, WaitingOn};
use noetl_engine::State;
use noetl_store::{Execution, Head, Origin};
use noetl_types::{ErrorCode, ExecutionId, ExecutionStatus, Text};

use super::elapsed::Elapsed;
use crate::runtime::{Runtime, RuntimeError};

/// Things that a run waits for that are told one by one.
const MAX_TOLD: usize = 50;

impl Runtime {
    /// Why an execution waits, or how it came to its end.
    pub async fn explain(
        &self,
        execution_id: ExecutionId,
        query: ExplainQuery,
    ) -> Result<Explanation, RuntimeError> {
        let mut row = self.execution_row(execution_id).await?;
        let folded = match query.at {
            None => self.state_of(execution_id).await?,
            Some(at) => {
                let (definition, state, head) = self.state_at(&row, at).await?;
                as_it_was(&mut row, &state, head);
                if let Some(seen) = self.seq_seen() {
                    seen.note_earlier(row.head.version);
                }
                Some((definition, state))
            }
        };
        let mut waiting_on = Vec::new();
        let mut failure = None;
        if let Some((definition, state)) = &folded {
            if let Some(step) = &query.step
                && definition.plan.find(step).is_none()
            {
                let text = format!("the playbook of this execution has no step `{step}`");
                return Err(RuntimeError::refused(ErrorCode::NotFound, text));
            }
            if !row.view.status.is_terminal() {
                waiting_on = match query.at {
                    None => self.waiting_on(&row, definition, state).await?,
                    Some(_) => waiting::then(definition, state),
                };
            }
            failure = failure::of(definition, state);
        }
        if let Some(step) = &query.step {
            waiting_on.retain(|waits| waits.step.as_ref().is_none_or(|of| of == step));
        }
        let cause = self.causes(&row, query.step.as_ref()).await?;
        let more = waiting_on.len().saturating_sub(MAX_TOLD);
        let summary = self.summary(&row, &waiting_on, failure.as_ref());
        waiting_on.truncate(MAX_TOLD);
        Ok(Explanation {
            execution_id,
            status: row.view.status,
            summary,
            waiting_on,
            more: u64::try_from(more).unwrap_or(u64::MAX),
            failure,
            cause,
        })
    }

    fn summary(
        &self,
        row: &Execution,
        waiting_on: &[WaitingOn],
        failure: Option<&FailureView>,
    ) -> Text {
        let view = &row.view;
        let took = Elapsed::between(row.facts.started_at, view.ended_at, self.now()).human();
        let text = match view.status {
            ExecutionStatus::Completed => format!("it completed after {took}"),
            ExecutionStatus::Cancelled => format!("it was cancelled after {took}"),
            ExecutionStatus::Failed => {
                let error = view.error.as_deref().unwrap_or("it gave no reason");
                match failure.and_then(|failure| failure.step.as_ref()) {
                    Some(step) => format!("step `{step}` failed: {error}"),
                    None => format!("it failed: {error}"),
                }
            }
            ExecutionStatus::Pending | ExecutionStatus::Running | ExecutionStatus::Paused => {
                what_hinders(row, waiting_on)
            }
        };
        Text::lossy(&text)
    }
}

/// Turns a run into what it was when its log ended there.
fn as_it_was(row: &mut Execution, state: &State, head: Head) {
    row.head = head;
    row.view.status = state.status();
    row.view.paused = state.is_paused();
    if !row.view.status.is_terminal() {
        row.view.ended_at = None;
        row.view.error = None;
    }
}

/// What a run waits for that has not ended, in one sentence.
fn what_hinders(row: &Execution, waiting_on: &[WaitingOn]) -> String {
    let Some((first, others)) = waiting_on.split_first() else {
        return match row.facts.origin {
            Origin::Driven => "nothing is open: the next decision is under way".to_owned(),
            _ => "its log is a copy of one that is driven elsewhere".to_owned(),
        };
    };
    let mut text = match &first.step {
        Some(step) => format!("step `{step}` {}", first.detail),
        None => first.detail.to_string(),
    };
    match others.len() {
        0 => {}
        1 => text.push_str("; 1 thing more is waited for"),
        count => text.push_str(&format!("; {count} things more are waited for")),
    }
    text
}

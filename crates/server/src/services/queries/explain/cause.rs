//! Cause of the state of an execution: the chain of events that led to it, and the error that it failed
//! with.

use noetl_api::explain::{CausalEvent, FailureView};
use noetl_engine::ExecutionState;
use noetl_playbook::find_error_span;
use noetl_playbook::source::DocumentText;
use noetl_store::Execution;
use noetl_types::{EventId, EventType, Json, Millis, StoredEvent, Text};

use crate::error::Result;
use crate::services::Queries;
use crate::services::catalog::Definition;

/// Maximum events in a chain.
const MAX_CHAIN_EVENTS: usize = 20;
/// Events at the end of a log that are searched for the last event of a step.
const TAIL_EVENTS: i64 = 1_000;

impl Queries {
    /// Returns the chain of events that ends at the current state of an execution or one of its
    /// steps.
    pub(crate) async fn causal_chain(
        &self,
        row: &Execution,
        step: Option<&Text>,
    ) -> Result<Vec<CausalEvent>> {
        let version = row.head.version.get();
        let after = version.saturating_sub(TAIL_EVENTS).max(0);
        let mut tail = self.read_log_chunk(row.execution_id, after, TAIL_EVENTS).await?;
        // The query may be about an earlier position of the log.
        tail.retain(|stored| stored.record.seq.get() <= version);
        let mut next = tail.iter().rev().find(|stored| can_start_chain(stored, step)).cloned();
        let mut chain = Vec::new();
        while let Some(stored) = next.take() {
            let parent = stored.record.event.parent_event_id;
            chain.push(to_cause(&stored));
            if chain.len() == MAX_CHAIN_EVENTS {
                break;
            }
            next = match parent {
                Some(parent) => self.find_event(row, parent, &tail).await?,
                None => implied_parent(&stored, &tail).cloned(),
            };
        }
        Ok(chain)
    }

    async fn find_event(
        &self,
        row: &Execution,
        event_id: EventId,
        tail: &[StoredEvent],
    ) -> Result<Option<StoredEvent>> {
        let mut events = tail.iter();
        if let Some(found) = events.find(|stored| stored.record.event.event_id == event_id) {
            return Ok(Some(found.clone()));
        }
        Ok(self.infra.store().find_event(row.execution_id, event_id).await?)
    }
}

/// True if a chain may start with the event: it changed something, and it belongs to the requested
/// step.
fn can_start_chain(stored: &StoredEvent, step: Option<&Text>) -> bool {
    let event = &stored.record.event;
    let is_audit = event.event_type.known_type().is_some_and(EventType::is_audit);
    let is_of_step = step.is_none_or(|step| event.node_name.as_ref() == Some(step));
    !is_audit && is_of_step
}

/// Returns the event that an event without a parent follows from, as far as the end of the log
/// contains it.
///
/// Events that enter a step or issue a command name their parent. A worker's report follows from
/// the command, the end of a step from its last call, and the end of the execution from the end of
/// a step.
fn implied_parent<'t>(stored: &StoredEvent, tail: &'t [StoredEvent]) -> Option<&'t StoredEvent> {
    let event_type = stored.record.event.event_type.known_type()?;
    let parent_types: &[EventType] = match event_type {
        EventType::PlaybookStarted => return None,
        _ if event_type.is_terminal() => &[EventType::StepExit, EventType::StepSkipped],
        EventType::StepExit | EventType::CommandCompleted | EventType::CommandFailed => {
            &[EventType::CallError, EventType::CallDone]
        }
        _ => &[EventType::CommandIssued],
    };
    let node = &stored.record.event.node_name;
    let is_parent = |other: &&StoredEvent| {
        let event = &other.record.event;
        let has_parent_type = event
            .event_type
            .known_type()
            .is_some_and(|parent_type| parent_types.contains(&parent_type));
        has_parent_type && (event_type.is_terminal() || event.node_name == *node)
    };
    let is_before = |other: &&StoredEvent| other.record.seq < stored.record.seq;
    tail.iter().rev().filter(is_before).find(is_parent)
}

fn to_cause(stored: &StoredEvent) -> CausalEvent {
    let event = &stored.record.event;
    let meta_text = |key: &str| event.meta.as_ref()?.get(key)?.as_str().map(str::to_owned);
    let mut reasons: Vec<String> = Vec::new();
    if let Some(error) = &event.error {
        reasons.push(error.to_string());
    }
    if let Some(reason) = meta_text("reason") {
        reasons.push(reason);
    }
    if let Some(actor) = meta_text("actor") {
        reasons.push(format!("by {actor}"));
    }
    if let Some(worker) = &event.worker_id {
        reasons.push(format!("by worker {worker}"));
    }
    let retry = event.meta.as_ref().and_then(|meta| meta.get("retry_in_ms"));
    if let Some(ms) = retry.and_then(Json::as_u64) {
        reasons.push(format!("retry in {}", Millis::from_ms(ms).to_human()));
    }
    CausalEvent {
        seq: stored.record.seq,
        event_type: event.event_type.clone(),
        step: event.node_name.clone(),
        at: event.created_at,
        why: Text::from_lossy(&reasons.join(", ")),
    }
}

/// Returns the first uncaught error.
pub(crate) fn find_failure(definition: &Definition, state: &ExecutionState) -> Option<FailureView> {
    let (error, steps) = state.uncaught_failure()?;
    let plan = &definition.plan;
    let step = steps.first().map(|step| plan.step_model(*step));
    let position = step.map(|step| {
        let text = &definition.entry.content;
        DocumentText::new(text).position(find_error_span(text, step, error).start)
    });
    Some(FailureView {
        step: steps.first().map(|step| Text::from(plan.step(*step).name.as_str())),
        error: error.to_json(),
        line: position.map(|position| position.line),
        column: position.map(|position| position.column),
    })
}

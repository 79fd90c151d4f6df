//! What led to where an execution stands: each event names the one that it follows from.

use noetl_api::explain::Cause;
use noetl_store::Execution;
use noetl_types::{EventId, EventType, Json, Millis, StoredEvent, Text};

use crate::runtime::{Runtime, RuntimeError};

/// Events of a chain that are told.
const MAX_CHAIN: usize = 20;
/// Events at the end of a log in which the last one of a step is looked for.
const TAIL: i64 = 1_000;

impl Runtime {
    /// The chain of events that ends where an execution, or one of its steps, stands.
    pub(super) async fn causes(
        &self,
        row: &Execution,
        step: Option<&Text>,
    ) -> Result<Vec<Cause>, RuntimeError> {
        let version = row.head.version.get();
        let after = version.saturating_sub(TAIL).max(0);
        let mut tail = self.log_chunk(row.execution_id, after, TAIL).await?;
        // A run may be asked about as it was before its log went on.
        tail.retain(|stored| stored.record.seq.get() <= version);
        let mut next = tail
            .iter()
            .rev()
            .find(|stored| begins(stored, step))
            .cloned();
        let mut chain = Vec::new();
        while let Some(stored) = next.take() {
            let parent = stored.record.event.parent_event_id;
            chain.push(cause(&stored));
            if chain.len() == MAX_CHAIN {
                break;
            }
            next = match parent {
                Some(parent) => self.event_of(row, parent, &tail).await?,
                None => before(&stored, &tail).cloned(),
            };
        }
        Ok(chain)
    }

    async fn event_of(
        &self,
        row: &Execution,
        event_id: EventId,
        tail: &[StoredEvent],
    ) -> Result<Option<StoredEvent>, RuntimeError> {
        let mut near = tail.iter();
        if let Some(found) = near.find(|stored| stored.record.event.event_id == event_id) {
            return Ok(Some(found.clone()));
        }
        Ok(self.store().event(row.execution_id, event_id).await?)
    }
}

/// Whether a chain may begin with an event: one that changed something, of the step that is meant.
fn begins(stored: &StoredEvent, step: Option<&Text>) -> bool {
    let event = &stored.record.event;
    let is_audit = event.event_type.known().is_some_and(EventType::is_audit);
    let is_of_step = step.is_none_or(|step| event.node_name.as_ref() == Some(step));
    !is_audit && is_of_step
}

/// The event that one without a parent follows from, as far as the end of the log tells.
///
/// An event that enters or issues names its parent. What a worker tells follows from the command that
/// it was given, the end of a step from the last call, and that of the run from the end of a step.
fn before<'t>(stored: &StoredEvent, tail: &'t [StoredEvent]) -> Option<&'t StoredEvent> {
    let kind = stored.record.event.event_type.known()?;
    let wanted: &[EventType] = match kind {
        EventType::PlaybookStarted => return None,
        _ if kind.is_terminal() => &[EventType::StepExit, EventType::StepSkipped],
        EventType::StepExit | EventType::CommandCompleted | EventType::CommandFailed => {
            &[EventType::CallError, EventType::CallDone]
        }
        _ => &[EventType::CommandIssued],
    };
    let node = &stored.record.event.node_name;
    let fits = |other: &&StoredEvent| {
        let event = &other.record.event;
        let is_wanted = event
            .event_type
            .known()
            .is_some_and(|it| wanted.contains(&it));
        is_wanted && (kind.is_terminal() || event.node_name == *node)
    };
    let is_before = |other: &&StoredEvent| other.record.seq < stored.record.seq;
    tail.iter().rev().filter(is_before).find(fits)
}

fn cause(stored: &StoredEvent) -> Cause {
    let event = &stored.record.event;
    let told = |key: &str| event.meta.as_ref()?.get(key)?.as_str().map(str::to_owned);
    let mut why: Vec<String> = Vec::new();
    if let Some(error) = &event.error {
        why.push(error.to_string());
    }
    if let Some(reason) = told("reason") {
        why.push(reason);
    }
    if let Some(actor) = told("actor") {
        why.push(format!("by {actor}"));
    }
    if let Some(worker) = &event.worker_id {
        why.push(format!("by worker {worker}"));
    }
    let retry = event.meta.as_ref().and_then(|meta| meta.get("retry_in_ms"));
    if let Some(ms) = retry.and_then(Json::as_u64) {
        why.push(format!("again in {}", Millis::from_ms(ms).human()));
    }
    Cause {
        seq: stored.record.seq,
        event_type: event.event_type.clone(),
        step: event.node_name.clone(),
        at: event.created_at,
        why: Text::lossy(&why.join(", ")),
    }
}

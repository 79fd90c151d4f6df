//! Ends of awaited child executions and of callbacks.

use std::sync::Arc;

use noetl_playbook::command_machine::ToolResult;
use noetl_types::{ExecutionId, ExecutionStatus, Json, TaskError, TaskErrorKind};

use super::begin::find_suspended;
use super::conclude::conclude_wait;
use crate::decide::draft::Draft;
use crate::decide::input::{CallbackResult, ChildEnded, ChildOutcome};
use crate::decide::{DecisionError, InputVerdict, Result, report};
use crate::event::{CHILD_ENDED_SIGNAL, EventKind, SignalDelivery, SignalReceived, SuspensionKind};
use crate::payload::EventData;

/// Accepts the end of an awaited child execution.
pub(in crate::decide) fn accept_child_end(
    draft: &mut Draft<'_>,
    ended: ChildEnded,
) -> Result<InputVerdict> {
    draft.ensure_not_ended()?;
    if draft.state.is_paused() {
        return Err(DecisionError::Paused);
    }
    let command = draft.state.find_command_awaiting(ended.child);
    let command = command.ok_or(DecisionError::UnknownChild(ended.child))?;
    let Some((at, _)) = find_suspended(draft, command) else {
        return Err(draft.invariant_error("wait"));
    };
    let (status, child_end) = child_tool_result(draft, ended)?;
    let payload = Json::object([
        ("execution_id", Json::from(child_end.child.to_string())),
        ("status", Json::from(status.as_str())),
    ]);
    draft.emit_event(EventKind::SignalReceived(Box::new(SignalReceived {
        name: CHILD_ENDED_SIGNAL.into(),
        key: None,
        payload,
        actor: None,
        broadcast: None,
        delivery: Some(SignalDelivery {
            consumer: at,
            awaited_index: 0,
            received_at: None,
            buffered_seq: None,
        }),
    })))?;
    if let Some(closed) = conclude_wait(draft, command, child_end.tool_result)? {
        report::advance_unless_paused(draft, closed)?;
    }
    Ok(InputVerdict::Accepted)
}

/// Result for the task that started a child.
struct ChildToolResult {
    child: ExecutionId,
    tool_result: ToolResult,
}

fn child_tool_result(
    draft: &Draft<'_>,
    ended: ChildEnded,
) -> Result<(ExecutionStatus, ChildToolResult)> {
    let child = ended.child;
    let failed = |status: ExecutionStatus, error: TaskError| {
        let tool_result = ToolResult::failed(error);
        (status, ChildToolResult { child, tool_result })
    };
    Ok(match ended.outcome {
        ChildOutcome::Completed { result } => {
            let status = ExecutionStatus::Completed;
            let data = child_result(draft, child, result)?;
            let tool_result = ToolResult::ok(data);
            (status, ChildToolResult { child, tool_result })
        }
        ChildOutcome::Failed { error } => {
            let status = ExecutionStatus::Failed;
            let message = format!("the child execution failed: {}", error.message);
            failed(status, child_error(child, status, message, Some(error)))
        }
        ChildOutcome::Cancelled { reason } => {
            let status = ExecutionStatus::Cancelled;
            let suffix = reason.map_or_else(String::new, |reason| format!(": {reason}"));
            let message = format!("the child execution was cancelled{suffix}");
            failed(status, child_error(child, status, message, None))
        }
        ChildOutcome::NotStarted { error } => failed(ExecutionStatus::Failed, error),
    })
}

fn child_error(
    child: ExecutionId,
    status: ExecutionStatus,
    message: String,
    cause: Option<TaskError>,
) -> TaskError {
    let mut details = vec![
        ("execution_id", Json::from(child.to_string())),
        ("status", Json::from(status.as_str())),
    ];
    details.extend(cause.map(|cause| ("error", cause.to_json())));
    TaskError {
        details: Some(Json::object(details)),
        ..TaskError::new(TaskErrorKind::Child, message)
    }
}

/// Returns the result of a child, with its id and status unless these names are used.
fn child_result(draft: &Draft<'_>, child: ExecutionId, result: EventData) -> Result<Json> {
    let result = match result {
        EventData::Inline(value) => value,
        EventData::External(reference) => match draft.payload_source().get(&reference) {
            Some(value) => value,
            None => return Err(DecisionError::NeedsPayload(reference.uri().into())),
        },
    };
    let mut data = match result {
        Json::Map(map) => map,
        other => Arc::new([("data".into(), other)].into()),
    };
    let status = ExecutionStatus::Completed.as_str();
    for (key, value) in
        [("execution_id", Json::from(child.to_string())), ("status", Json::from(status))]
    {
        if !data.contains_key(key) {
            Arc::make_mut(&mut data).insert(key.into(), value);
        }
    }
    Ok(Json::Map(data))
}

/// Accepts the callback of work that a worker started. Like the report of a worker, it is accepted
/// during a pause.
pub(in crate::decide) fn accept_callback(
    draft: &mut Draft<'_>,
    callback: CallbackResult,
) -> Result<InputVerdict> {
    draft.ensure_not_ended()?;
    let command = callback.command;
    let started = match find_suspended(draft, command) {
        Some((_, suspended)) => match suspended.kind {
            SuspensionKind::Callback(pending) => Some(pending.started),
            SuspensionKind::Sleep(_)
            | SuspensionKind::Wait(_)
            | SuspensionKind::Approval(_)
            | SuspensionKind::Child(_)
            | SuspensionKind::Broken(_) => None,
        },
        None => None,
    };
    let Some(started) = started else {
        return Err(DecisionError::UnknownCommand(command));
    };
    let result = ToolResult {
        data: merge_callback_data(started, callback.data),
        error: callback.error,
        ..ToolResult::default()
    };
    if let Some(closed) = conclude_wait(draft, command, result)? {
        report::advance_unless_paused(draft, closed)?;
    }
    Ok(InputVerdict::Accepted)
}

/// Merges the data of the callback over the data reported at the start.
fn merge_callback_data(started: Json, ended: Json) -> Json {
    match (started, ended) {
        (Json::Map(mut base), Json::Map(overlay)) => {
            let entries = overlay.iter().map(|(key, value)| (Arc::clone(key), value.clone()));
            Arc::make_mut(&mut base).extend(entries);
            Json::Map(base)
        }
        (started, Json::Null) => started,
        (_, ended) => ended,
    }
}

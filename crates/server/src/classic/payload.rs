//! Extracts command data from the payload of a classic event.

use noetl_api::classic::{ClassicEvent, ResultKind};
use noetl_playbook::command_machine::ToolResult;
use noetl_types::{CommandId, EventType, Json, JsonMap, TaskError, TaskErrorKind};

/// Payload keys that identify the command and carry no data.
const BOOKKEEPING_KEYS: [&str; 6] =
    ["command_id", "call_index", "worker_id", "attempt", "attempts", "status"];

/// Returns the command that an event names: by its digits or its label, in the payload or the
/// metadata.
pub(crate) fn find_command_id(event: &ClassicEvent) -> Option<CommandId> {
    let meta = event.meta.as_ref().and_then(|meta| meta.get("command_id"));
    let candidates = [event.payload.get("command_id"), meta];
    candidates.into_iter().flatten().find_map(|value| match value {
        Json::Str(text) => CommandId::from_digits_or_label(text).ok(),
        other => CommandId::from_json(other).ok(),
    })
}

/// Returns the attempt that an event names. `None`, like 0, means the current one.
pub(crate) fn find_attempt(event: &ClassicEvent) -> Option<u32> {
    let meta = event.meta.as_ref();
    let from_meta = |key: &str| meta.and_then(|meta| meta.get(key));
    let candidates = [
        from_meta("attempts"),
        from_meta("attempt"),
        event.payload.get("attempts"),
        event.payload.get("attempt"),
    ];
    let number = candidates.into_iter().flatten().find_map(Json::as_u64)?;
    u32::try_from(number).ok().filter(|attempt| *attempt > 0)
}

/// Returns the tool's answer, as far as the payload contains it.
pub(crate) fn tool_answer(event: &ClassicEvent, kind: EventType) -> ToolResult {
    let is_failure = matches!(kind, EventType::CallError | EventType::CommandFailed);
    ToolResult {
        data: result_data(event, is_failure),
        error: is_failure.then(|| reported_error(&event.payload)),
        ..ToolResult::default()
    }
}

/// Returns the data: under `result`, else under `response`, else the payload without bookkeeping
/// keys.
fn result_data(event: &ClassicEvent, is_failure: bool) -> Json {
    match event.result_kind {
        ResultKind::Data => {}
        ResultKind::Ref | ResultKind::Refs => return result_reference(event),
    }
    let payload = &event.payload;
    for key in ["result", "response"] {
        if let Some(data) = payload.get(key) {
            return data.clone();
        }
    }
    let Some(map) = payload.as_map() else {
        return payload.clone();
    };
    if is_failure {
        return Json::Null;
    }
    let is_data = |key: &str| !BOOKKEEPING_KEYS.contains(&key) && key != "set";
    let rest = map.iter().filter(|(key, _)| is_data(key));
    let rest: JsonMap = rest.map(|(key, part)| (key.clone(), part.clone())).collect();
    if rest.is_empty() {
        return Json::Null;
    }
    Json::from(rest)
}

/// Returns the reference to a result that is not in the payload.
pub(crate) fn result_reference(event: &ClassicEvent) -> Json {
    match event.result_kind {
        ResultKind::Data => Json::Null,
        ResultKind::Ref => {
            let uri = event.result_uri.as_deref().unwrap_or_default();
            let tier = match uri.split_once("://").map(|(scheme, _)| scheme) {
                Some("gs" | "gcs") => "gcs",
                Some("s3") => "s3",
                Some(_) | None => "artifact",
            };
            Json::object([("store_tier", Json::from(tier)), ("logical_uri", Json::from(uri))])
        }
        ResultKind::Refs => {
            let ids = event.event_ids.clone().unwrap_or_default();
            Json::object([("total_parts", Json::from(ids.len())), ("event_ids", Json::list(ids))])
        }
    }
}

/// Returns the variables that its tasks wrote, by the keys of their `set`.
pub(crate) fn written_variables(event: &ClassicEvent) -> JsonMap {
    let set = event.payload.get("set").and_then(Json::as_map);
    set.cloned().unwrap_or_default()
}

fn reported_error(payload: &Json) -> TaskError {
    let reported = ["error", "message", "reason"]
        .into_iter()
        .find_map(|key| payload.get(key).filter(|value| !value.is_null()));
    match reported {
        Some(error) => TaskError::from_json(error),
        None if payload.as_str().is_some() => TaskError::from_json(payload),
        None => TaskError::new(TaskErrorKind::Unknown, "the worker reported no error message"),
    }
}

#[cfg(test)]
mod tests;

//! Extracts command data from the payload of a classic event.

use noetl_api::classic::{ClassicEvent, ResultKind};
use noetl_types::{CommandId, EventType, Json, JsonMap};

use crate::classic::envelope::ReportedResult;

/// Payload keys that identify the command and carry no data.
const BOOKKEEPING_KEYS: [&str; 6] =
    ["command_id", "call_index", "worker_id", "attempt", "attempts", "set"];

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

/// Returns the result that an event reports, as its worker has it.
pub(super) fn reported_result(event: &ClassicEvent, kind: EventType) -> ReportedResult {
    match event.result_kind {
        ResultKind::Data => result_in_payload(&event.payload, is_failure(kind)),
        ResultKind::Ref | ResultKind::Refs => {
            let status = result_in_payload(&event.payload, is_failure(kind));
            let reference = Some(result_reference(event));
            ReportedResult { data: Json::Null, reference, ..status }
        }
    }
}

/// Returns the error of an event that reports a failure, or null if the event has none.
pub(super) fn reported_failure(event: &ClassicEvent, kind: EventType) -> Option<Json> {
    let payload = &event.payload;
    let error = ["error", "message", "reason"]
        .into_iter()
        .find_map(|key| payload.get(key).filter(|value| !value.is_null()));
    let error = error.or_else(|| payload.as_str().map(|_| payload));
    is_failure(kind).then(|| error.cloned().unwrap_or_default())
}

fn is_failure(kind: EventType) -> bool {
    matches!(kind, EventType::CallError | EventType::CommandFailed)
}

/// Opens the result: under `result`, else under `response`, else the payload itself, without its
/// bookkeeping keys.
fn result_in_payload(payload: &Json, is_failure: bool) -> ReportedResult {
    let inner = ["result", "response"].into_iter().find_map(|key| payload.get(key));
    let Some(map) = payload.as_map().filter(|_| inner.is_none()) else {
        return ReportedResult::open(inner.unwrap_or(payload).clone());
    };
    let without_keys = |keys: &[&str]| -> JsonMap {
        let rest = map.iter().filter(|(key, _)| !keys.contains(&&***key));
        rest.map(|(key, part)| (key.clone(), part.clone())).collect()
    };
    let opened = ReportedResult::open(Json::from(without_keys(&BOOKKEEPING_KEYS)));
    if opened.is_enveloped {
        return opened;
    }
    let mut rest = without_keys(&BOOKKEEPING_KEYS);
    rest.remove("status");
    if rest.is_empty() || is_failure {
        return ReportedResult::default();
    }
    ReportedResult { data: Json::from(rest), ..opened }
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

#[cfg(test)]
mod tests;

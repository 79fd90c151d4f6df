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
mod tests {
    use super::*;

    fn parse_event(text: &str) -> ClassicEvent {
        serde_json::from_str(text).unwrap()
    }

    fn parse_test_json(text: &str) -> Json {
        noetl_types::json::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn finds_command_id_by_digits_or_label() {
        for (text, id) in [
            (r#"{"event_type":"call.done","payload":{"command_id":34}}"#, Some(34)),
            (r#"{"event_type":"call.done","payload":{"command_id":"12:a:34:i5"}}"#, Some(34)),
            (r#"{"name":"call.done","meta":{"command_id":"34"}}"#, Some(34)),
            (r#"{"event_type":"call.done","payload":{"command_id":"a"}}"#, None),
            (r#"{"event_type":"call.done","payload":7}"#, None),
        ] {
            assert_eq!(find_command_id(&parse_event(text)).map(CommandId::get), id, "{text}");
        }
    }

    #[test]
    fn attempt_zero_is_none() {
        let attempt_from_meta = |meta: &str| {
            let text = format!(r#"{{"event_type":"call.done","meta":{meta}}}"#);
            find_attempt(&parse_event(&text))
        };
        assert_eq!(attempt_from_meta(r#"{"attempts":2}"#), Some(2));
        assert_eq!(attempt_from_meta(r#"{"attempts":0}"#), None);
        assert_eq!(attempt_from_meta("{}"), None);
    }

    #[test]
    fn finds_result_data() {
        for (payload, data) in [
            (r#"{"result":{"a":1},"command_id":"3"}"#, r#"{"a":1}"#),
            (r#"{"response":[1],"status":"ok"}"#, "[1]"),
            (r#"{"a":1,"command_id":"3","attempt":1}"#, r#"{"a":1}"#),
            (r#"{"command_id":"3"}"#, "null"),
            ("7", "7"),
        ] {
            let text = format!(r#"{{"event_type":"call.done","payload":{payload}}}"#);
            let answer = tool_answer(&parse_event(&text), EventType::CallDone);
            assert_eq!((answer.data, answer.error), (parse_test_json(data), None), "{payload}");
        }
    }

    #[test]
    fn parses_errors_from_texts_and_objects() {
        for (payload, message) in [
            (r#"{"error":"no"}"#, "no"),
            (r#"{"error":{"kind":"timeout","message":"slow"}}"#, "slow"),
            (r#""broken""#, "broken"),
            ("{}", "the worker reported no error message"),
        ] {
            let text = format!(r#"{{"event_type":"call.error","payload":{payload}}}"#);
            let error = tool_answer(&parse_event(&text), EventType::CallError).error.unwrap();
            assert_eq!(error.message, message, "{payload}");
        }
    }

    #[test]
    fn builds_result_references() {
        let by_ref = parse_event(
            r#"{"event_type":"call.done","result_kind":"ref","result_uri":"gs://b/k"}"#,
        );
        let expected = parse_test_json(r#"{"store_tier":"gcs","logical_uri":"gs://b/k"}"#);
        assert_eq!(tool_answer(&by_ref, EventType::CallDone).data, expected);
        let parts =
            parse_event(r#"{"event_type":"call.done","result_kind":"refs","event_ids":[1,"2"]}"#);
        let expected = parse_test_json(r#"{"total_parts":2,"event_ids":[1,"2"]}"#);
        assert_eq!(tool_answer(&parts, EventType::CallDone).data, expected);
    }
}

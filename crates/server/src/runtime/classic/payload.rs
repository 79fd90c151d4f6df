//! What the payload of an event says about the work of a command.

use noetl_api::classic::{ResultKind, TaleOfEvent};
use noetl_playbook::shift::Answer;
use noetl_types::{CommandId, EventType, Json, JsonMap, TaskError, TaskErrorKind};

/// Keys of a payload that say of which command it is, and no more.
const BOOKKEEPING: [&str; 6] = [
    "command_id",
    "call_index",
    "worker_id",
    "attempt",
    "attempts",
    "status",
];

/// The command that an event names: by its digits or by its label, in the payload or beside it.
pub(super) fn command_id(tale: &TaleOfEvent) -> Option<CommandId> {
    let meta = tale.meta.as_ref().and_then(|meta| meta.get("command_id"));
    let named = [tale.payload.get("command_id"), meta];
    named.into_iter().flatten().find_map(|value| match value {
        Json::Str(text) => CommandId::from_digits_or_label(text).ok(),
        other => CommandId::from_json(other).ok(),
    })
}

/// The attempt that an event names. None, like 0, means the one that goes on.
pub(super) fn attempt(tale: &TaleOfEvent) -> Option<u32> {
    let meta = tale.meta.as_ref();
    let of_meta = |key: &str| meta.and_then(|meta| meta.get(key));
    let named = [
        of_meta("attempts"),
        of_meta("attempt"),
        tale.payload.get("attempts"),
        tale.payload.get("attempt"),
    ];
    let number = named.into_iter().flatten().find_map(Json::as_u64)?;
    u32::try_from(number).ok().filter(|attempt| *attempt > 0)
}

/// What the worker's tool said, as far as the payload tells.
pub(super) fn answer(tale: &TaleOfEvent, kind: EventType) -> Answer {
    let is_failure = matches!(kind, EventType::CallError | EventType::CommandFailed);
    Answer {
        data: data(tale, is_failure),
        error: is_failure.then(|| error(&tale.payload)),
        ..Answer::default()
    }
}

/// The data: under `result`, else under `response`, else the payload without its bookkeeping.
fn data(tale: &TaleOfEvent, is_failure: bool) -> Json {
    match tale.result_kind {
        ResultKind::Data => {}
        ResultKind::Ref | ResultKind::Refs => return reference(tale),
    }
    let payload = &tale.payload;
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
    let is_data = |key: &str| !BOOKKEEPING.contains(&key) && key != "set";
    let rest = map.iter().filter(|(key, _)| is_data(key));
    let rest: JsonMap = rest
        .map(|(key, part)| (key.clone(), part.clone()))
        .collect();
    if rest.is_empty() {
        return Json::Null;
    }
    Json::from(rest)
}

/// Where a result is that is not in the payload.
pub(super) fn reference(tale: &TaleOfEvent) -> Json {
    match tale.result_kind {
        ResultKind::Data => Json::Null,
        ResultKind::Ref => {
            let uri = tale.result_uri.as_deref().unwrap_or_default();
            let tier = match uri.split_once("://").map(|(scheme, _)| scheme) {
                Some("gs" | "gcs") => "gcs",
                Some("s3") => "s3",
                Some(_) | None => "artifact",
            };
            Json::object([
                ("store_tier", Json::from(tier)),
                ("logical_uri", Json::from(uri)),
            ])
        }
        ResultKind::Refs => {
            let ids = tale.event_ids.clone().unwrap_or_default();
            Json::object([
                ("total_parts", Json::from(ids.len())),
                ("event_ids", Json::list(ids)),
            ])
        }
    }
}

/// What its tasks wrote, by the keys of their `set`.
pub(super) fn writes(tale: &TaleOfEvent) -> JsonMap {
    let set = tale.payload.get("set").and_then(Json::as_map);
    set.cloned().unwrap_or_default()
}

fn error(payload: &Json) -> TaskError {
    let told = ["error", "message", "reason"]
        .into_iter()
        .find_map(|key| payload.get(key).filter(|value| !value.is_null()));
    match told {
        Some(error) => TaskError::from_json(error),
        None if payload.as_str().is_some() => TaskError::from_json(payload),
        None => TaskError::new(
            TaskErrorKind::Unknown,
            "the worker does not say why it failed",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tale(text: &str) -> TaleOfEvent {
        serde_json::from_str(text).unwrap()
    }

    fn json(text: &str) -> Json {
        noetl_types::json::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_command_is_named_by_digits_or_label() {
        for (text, id) in [
            (
                r#"{"event_type":"call.done","payload":{"command_id":34}}"#,
                Some(34),
            ),
            (
                r#"{"event_type":"call.done","payload":{"command_id":"12:a:34:i5"}}"#,
                Some(34),
            ),
            (
                r#"{"name":"call.done","meta":{"command_id":"34"}}"#,
                Some(34),
            ),
            (
                r#"{"event_type":"call.done","payload":{"command_id":"a"}}"#,
                None,
            ),
            (r#"{"event_type":"call.done","payload":7}"#, None),
        ] {
            assert_eq!(command_id(&tale(text)).map(CommandId::get), id, "{text}");
        }
    }

    #[test]
    fn an_attempt_of_nought_is_none() {
        let of = |meta: &str| {
            let text = format!(r#"{{"event_type":"call.done","meta":{meta}}}"#);
            attempt(&tale(&text))
        };
        assert_eq!(of(r#"{"attempts":2}"#), Some(2));
        assert_eq!(of(r#"{"attempts":0}"#), None);
        assert_eq!(of("{}"), None);
    }

    #[test]
    fn data_is_found_where_workers_put_it() {
        for (payload, data) in [
            (r#"{"result":{"a":1},"command_id":"3"}"#, r#"{"a":1}"#),
            (r#"{"response":[1],"status":"ok"}"#, "[1]"),
            (r#"{"a":1,"command_id":"3","attempt":1}"#, r#"{"a":1}"#),
            (r#"{"command_id":"3"}"#, "null"),
            ("7", "7"),
        ] {
            let text = format!(r#"{{"event_type":"call.done","payload":{payload}}}"#);
            let answer = answer(&tale(&text), EventType::CallDone);
            assert_eq!((answer.data, answer.error), (json(data), None), "{payload}");
        }
    }

    #[test]
    fn errors_are_texts_or_objects() {
        for (payload, message) in [
            (r#"{"error":"no"}"#, "no"),
            (r#"{"error":{"kind":"timeout","message":"slow"}}"#, "slow"),
            (r#""broken""#, "broken"),
            ("{}", "the worker does not say why it failed"),
        ] {
            let text = format!(r#"{{"event_type":"call.error","payload":{payload}}}"#);
            let error = answer(&tale(&text), EventType::CallError).error.unwrap();
            assert_eq!(error.message, message, "{payload}");
        }
    }

    #[test]
    fn references_tell_where_a_result_is() {
        let by_ref =
            tale(r#"{"event_type":"call.done","result_kind":"ref","result_uri":"gs://b/k"}"#);
        let expected = json(r#"{"store_tier":"gcs","logical_uri":"gs://b/k"}"#);
        assert_eq!(answer(&by_ref, EventType::CallDone).data, expected);
        let parts = tale(r#"{"event_type":"call.done","result_kind":"refs","event_ids":[1,"2"]}"#);
        let expected = json(r#"{"total_parts":2,"event_ids":[1,"2"]}"#);
        assert_eq!(answer(&parts, EventType::CallDone).data, expected);
    }
}

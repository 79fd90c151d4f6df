use noetl_playbook::command_machine::ToolResult;

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

fn tool_answer(event: &ClassicEvent, kind: EventType) -> ToolResult {
    reported_result(event, kind).into_tool_result(None, reported_failure(event, kind))
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
    let by_ref =
        parse_event(r#"{"event_type":"call.done","result_kind":"ref","result_uri":"gs://b/k"}"#);
    let expected = parse_test_json(r#"{"store_tier":"gcs","logical_uri":"gs://b/k"}"#);
    assert_eq!(tool_answer(&by_ref, EventType::CallDone).data, expected);
    let parts =
        parse_event(r#"{"event_type":"call.done","result_kind":"refs","event_ids":[1,"2"]}"#);
    let expected = parse_test_json(r#"{"total_parts":2,"event_ids":[1,"2"]}"#);
    assert_eq!(tool_answer(&parts, EventType::CallDone).data, expected);
}

use noetl_types::ErrorCode;

use super::*;

fn parse_json_event(text: &str) -> Result<IncomingEvent> {
    let body = serde_json::from_str(text).unwrap();
    IncomingEvent::parse_event(ExecutionId::new(7).unwrap(), None, body)
}

#[test]
fn rejects_event_types_reserved_for_the_server() {
    for (text, code) in [
        (r#"{"event_type":"call.done"}"#, None),
        (r#"{"event_type":"step_completed"}"#, None),
        (r#"{"event_type":"frame.committed"}"#, None),
        (r#"{"event_type":"order.made","meta":{"business_object":{}}}"#, None),
        (r#"{"event_type":"order.made"}"#, Some(ErrorCode::Forbidden)),
        (r#"{"event_type":"playbook.completed"}"#, Some(ErrorCode::Forbidden)),
        (r#"{"event_type":"command_claimed"}"#, Some(ErrorCode::Forbidden)),
        (r#"{"event_type":"No Event"}"#, Some(ErrorCode::Validation)),
        (r#"{"event_type":"call.done","result_kind":"ref"}"#, Some(ErrorCode::Validation)),
    ] {
        let refused = parse_json_event(text).err().and_then(|error| error.code());
        assert_eq!(refused, code, "{text}");
    }
}

#[test]
fn digest_depends_on_body() {
    let one = parse_json_event(r#"{"event_type":"call.done","payload":{"a":1}}"#).unwrap();
    let same = parse_json_event(r#"{"payload":{"a":1},"name":"call.done"}"#).unwrap();
    let other = parse_json_event(r#"{"event_type":"call.done","payload":{"a":2}}"#).unwrap();
    assert_eq!(one.sha256, same.sha256);
    assert_ne!(one.sha256, other.sha256);
}

#[test]
fn wraps_non_map_payload() {
    let incoming =
        parse_json_event(r#"{"event_type":"loop.item","payload":[1],"step":"s"}"#).unwrap();
    let now = Timestamp::parse("2026-01-01T00:00:00Z").unwrap();
    let record = incoming.to_new_event(EventId::new(3).unwrap(), now).unwrap();
    let result = record.result.unwrap();
    assert_eq!(to_canonical(&result), br#"{"context":{"value":[1]},"status":"RUNNING"}"#);
    assert_eq!(record.node_name.as_deref(), Some("s"));
}

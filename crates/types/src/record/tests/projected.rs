//! Projected events: events copied from another system.

use proptest::prelude::*;

use super::*;
use crate::error::RejectCode;
use crate::json::to_canonical;

fn test_context() -> ProjectionContext {
    ProjectionContext {
        now: parse_time("2026-11-05T15:00:00Z"),
        tenant_id: "default".parse().unwrap(),
        organization_id: "default".parse().unwrap(),
    }
}

fn parse_projected(envelope: &str) -> ProjectedEvent {
    parse_projected_event(&parse_json(envelope), &test_context()).unwrap()
}

fn to_record(event: NewEvent) -> EventRecord {
    EventRecord {
        envelope_checksum: Some(event.envelope_checksum()),
        event,
        seq: Seq::new(12).unwrap(),
        ingest_time: test_context().now,
    }
}

#[test]
fn reads_classic_envelope() {
    let envelope = r#"{
        "event_id": "9", "execution_id": 7, "event_type": "step_enter", "node_name": "load",
        "timestamp": "2026-11-05 14:30:00.5", "status": null, "duration": 1.25,
        "context": {"a": 1}, "result": null, "error": {"code": 5}, "catalog_id": "3",
        "trace_component": {"span": "x"}, "worker_id": "w-1", "region": "eu", "extra": {"b": 2}
    }"#;
    let event = parse_projected(envelope).event;
    assert_eq!((event.execution_id.get(), event.event_id.get()), (7, 9));
    assert_eq!(event.event_type.as_str(), "step_enter");
    assert_eq!(event.status, StatusName::None);
    assert_eq!(event.event_time, parse_time("2026-11-05T14:30:00.5Z"));
    assert_eq!(event.created_at, event.event_time);
    assert_eq!(event.catalog_id.unwrap().get(), 3);
    assert_eq!(event.error.as_deref(), Some(r#"{"code":5}"#));
    assert_eq!(event.worker_id.as_deref(), Some("w-1"));
    let projected = event.projected.unwrap();
    assert_eq!(projected.trace_component, Some(parse_json(r#"{"span":"x"}"#)));
    assert_eq!(projected.extra, Some(parse_json(r#"{"region":"eu","b":2}"#)));
}

#[test]
fn event_type_is_kept_or_unknown() {
    let name = |field: &str| {
        let envelope = format!(r#"{{"event_id":9,"execution_id":7{field}}}"#);
        parse_projected(&envelope).event.event_type.as_str().to_owned()
    };
    assert_eq!(name(""), "unknown");
    assert_eq!(name(r#","event_type":null"#), "unknown");
    assert_eq!(name(r#","event_type":"Strange Thing""#), "Strange Thing");
}

#[test]
fn rejections_have_codes() {
    let rejection_text = |envelope: &str| {
        let rejection = parse_projected_event(&parse_json(envelope), &test_context()).unwrap_err();
        format!("{}: {rejection}", rejection.code)
    };
    let future = crate::id::first_id_at(test_context().now.as_unix_ms() + 5001);
    let rejections = [
        rejection_text("[]"),
        rejection_text(r#"{"execution_id":7}"#),
        rejection_text(r#"{"event_id":9}"#),
        rejection_text(r#"{"event_id":9,"execution_id":0}"#),
        rejection_text(r#"{"event_id":"nine","execution_id":7}"#),
        rejection_text(&format!(r#"{{"event_id":{future},"execution_id":7}}"#)),
        rejection_text(r#"{"event_id":9,"execution_id":7,"event_type":""}"#),
        rejection_text(r#"{"event_id":9,"execution_id":7,"timestamp":"soon"}"#),
        rejection_text(r#"{"event_id":9,"execution_id":7,"node_name":{}}"#),
        rejection_text(r#"{"event_id":9,"execution_id":7,"duration":"long"}"#),
    ];
    insta::assert_snapshot!(rejections.join("\n"));
}

#[test]
fn id_may_be_slightly_in_the_future() {
    let ahead = crate::id::first_id_at(test_context().now.as_unix_ms() + 5000);
    let envelope = format!(r#"{{"event_id":{ahead},"execution_id":7}}"#);
    assert!(parse_projected_event(&parse_json(&envelope), &test_context()).is_ok());
}

#[test]
fn invalid_columns_are_kept_as_extra() {
    let event = parse_projected(
        r#"{"event_id":9,"execution_id":7,"command_id":"abc","stage_id":5,"schema_version":"x","extra":[1]}"#,
    )
    .event;
    assert_eq!((event.command_id, &event.stage_id), (None, &None));
    assert_eq!(
        event.projected.unwrap().extra,
        Some(parse_json(r#"{"command_id":"abc","stage_id":5,"schema_version":"x","extra":[1]}"#))
    );
}

#[test]
fn reads_command_id_in_all_forms() {
    for field in [
        r#""command_id":34"#,
        r#""command_id":"34""#,
        r#""command_id":"7:load:34:i2""#,
        r#""meta":{"command_id":"34"}"#,
        r#""meta":{"command_id":34}"#,
        r#""meta":{"command_id":"7:load:34"}"#,
    ] {
        let envelope = format!(r#"{{"event_id":9,"execution_id":7,{field}}}"#);
        let projected = parse_projected(&envelope);
        assert_eq!(projected.event.command_id, Some(CommandId::new(34).unwrap()), "{field}");
        assert!(projected.is_same_as(&to_record(projected.event.clone())));
    }
}

#[test]
fn tenant_comes_from_caller() {
    let envelope = r#"{"event_id":9,"execution_id":7,"tenant_id":"acme","organization_id":"x y"}"#;
    let projected = parse_projected(envelope);
    assert_eq!(projected.event.tenant_id, "default");
    assert_eq!(projected.envelope_tenant.as_deref(), Some("acme"));
    assert_eq!(projected.envelope_organization.as_deref(), Some("x y"));
}

#[test]
fn implausible_times_use_arrival_time() {
    for time in ["0001-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "2026-11-06T15:00:00.001Z"] {
        let envelope = format!(r#"{{"event_id":9,"execution_id":7,"timestamp":"{time}"}}"#);
        let event = parse_projected(&envelope).event;
        assert_eq!(
            (event.event_time, event.created_at),
            (parse_time(time), test_context().now),
            "{time}"
        );
    }
}

#[test]
fn same_envelope_later_is_duplicate() {
    // Late enough that a time that was too far ahead is accepted now.
    let later = ProjectionContext { now: parse_time("2026-11-05T16:00:00Z"), ..test_context() };
    for envelope in [
        r#"{"event_id":9,"execution_id":7}"#,
        r#"{"event_id":9,"execution_id":7,"timestamp":" "}"#,
        r#"{"event_id":9,"execution_id":7,"timestamp":"0001-01-01T00:00:00Z"}"#,
        r#"{"event_id":9,"execution_id":7,"timestamp":"2026-11-05T14:30:00"}"#,
        r#"{"event_id":9,"execution_id":7,"timestamp":"2026-11-06T15:30:00Z"}"#,
        r#"{"event_id":9,"execution_id":7,"created_at":"2026-11-06T15:30:00Z"}"#,
        r#"{"event_id":9,"execution_id":7,"meta":{"command_id":"34"}}"#,
    ] {
        let first = to_record(parse_projected(envelope).event);
        let again = parse_projected_event(&parse_json(envelope), &later).unwrap();
        assert!(again.is_same_as(&first), "{envelope}");
    }
}

#[test]
fn same_id_with_other_body_is_no_duplicate() {
    let project =
        |field: &str| parse_projected(&format!(r#"{{"event_id":9,"execution_id":7,{field}}}"#));
    let first = to_record(project(r#""node_name":"a","timestamp":"2026-11-05T14:30:00Z""#).event);
    for other in [
        r#""node_name":"b","timestamp":"2026-11-05T14:30:00Z""#,
        r#""node_name":"a","timestamp":"2026-11-05T14:30:01Z""#,
        r#""node_name":"a","timestamp":"9999-01-01T00:00:00Z""#,
        r#""node_name":"a","timestamp":"2026-11-05T14:30:00Z","command_id":5"#,
        r#""node_name":"a","timestamp":"2026-11-05T14:30:00Z","extra":{"x":1}"#,
    ] {
        assert!(!project(other).is_same_as(&first), "{other}");
    }
}

#[test]
fn same_instant_in_other_zone_is_duplicate() {
    let utc =
        parse_projected(r#"{"event_id":9,"execution_id":7,"timestamp":"2026-11-05T14:30:00Z"}"#);
    let local = parse_projected(
        r#"{"event_id":"9","execution_id":"7","created_at":"2026-11-05T15:30:00+01:00"}"#,
    );
    assert!(local.is_same_as(&to_record(utc.event)));
}

#[test]
fn missing_execution_id_has_its_code() {
    let rejection =
        parse_projected_event(&parse_json(r#"{"event_id":9}"#), &test_context()).unwrap_err();
    assert_eq!(rejection.code, RejectCode::MissingExecutionId);
}

proptest! {
    /// An event that is streamed out and projected back is never a conflict.
    #[test]
    fn echoed_stream_event_is_duplicate(record in arb_record(), later_ms in 0_i64..1 << 36) {
        let now = Timestamp::from_unix_ms(test_context().now.as_unix_ms() + later_ms).unwrap();
        let echo = json::parse(&to_canonical(&record)).unwrap();
        let echoed = parse_projected_event(&echo, &ProjectionContext { now, ..test_context() }).unwrap();
        prop_assert!(echoed.is_same_as(&record));
    }

    #[test]
    fn reading_any_object_never_panics(envelope in json::tests::arb_json()) {
        let _ = parse_projected_event(&envelope, &test_context());
    }
}

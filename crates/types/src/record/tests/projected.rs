//! Events copied from elsewhere.

use proptest::prelude::*;

use super::*;
use crate::error::RejectCode;
use crate::json::to_canonical;

fn arrival() -> Arrival {
    Arrival {
        now: at("2026-11-05T15:00:00Z"),
        tenant_id: "default".parse().unwrap(),
        organization_id: "default".parse().unwrap(),
    }
}

fn projected(envelope: &str) -> Projected {
    read_projected(&read(envelope), &arrival()).unwrap()
}

fn stored(event: NewEvent) -> EventRecord {
    EventRecord {
        envelope_checksum: Some(event.envelope_checksum()),
        event,
        seq: Seq::new(12).unwrap(),
        ingest_time: arrival().now,
    }
}

#[test]
fn a_classic_envelope() {
    let envelope = r#"{
        "event_id": "9", "execution_id": 7, "event_type": "step_enter", "node_name": "load",
        "timestamp": "2026-11-05 14:30:00.5", "status": null, "duration": 1.25,
        "context": {"a": 1}, "result": null, "error": {"code": 5}, "catalog_id": "3",
        "trace_component": {"span": "x"}, "worker_id": "w-1", "region": "eu", "extra": {"b": 2}
    }"#;
    let event = projected(envelope).event;
    assert_eq!((event.execution_id.get(), event.event_id.get()), (7, 9));
    assert_eq!(event.event_type.as_str(), "step_enter");
    assert_eq!(event.status, StatusName::None);
    assert_eq!(event.event_time, at("2026-11-05T14:30:00.5Z"));
    assert_eq!(event.created_at, event.event_time);
    assert_eq!(event.catalog_id.unwrap().get(), 3);
    assert_eq!(event.error.as_deref(), Some(r#"{"code":5}"#));
    assert_eq!(event.worker_id.as_deref(), Some("w-1"));
    let copied = event.copied.unwrap();
    assert_eq!(copied.trace_component, Some(read(r#"{"span":"x"}"#)));
    assert_eq!(copied.extra, Some(read(r#"{"region":"eu","b":2}"#)));
}

#[test]
fn names_are_kept_and_missing_ones_filled_in() {
    let name = |field: &str| {
        let envelope = format!(r#"{{"event_id":9,"execution_id":7{field}}}"#);
        projected(&envelope).event.event_type.as_str().to_owned()
    };
    assert_eq!(name(""), "unknown");
    assert_eq!(name(r#","event_type":null"#), "unknown");
    assert_eq!(name(r#","event_type":"Strange Thing""#), "Strange Thing");
}

/// Hole P4.
#[test]
fn refusals_have_codes() {
    let refused = |envelope: &str| {
        let rejection = read_projected(&read(envelope), &arrival()).unwrap_err();
        format!("{}: {rejection}", rejection.code)
    };
    let future = crate::id::first_id_at(arrival().now.as_unix_ms() + 5001);
    let refusals = [
        refused("[]"),
        refused(r#"{"execution_id":7}"#),
        refused(r#"{"event_id":9}"#),
        refused(r#"{"event_id":9,"execution_id":0}"#),
        refused(r#"{"event_id":"nine","execution_id":7}"#),
        refused(&format!(r#"{{"event_id":{future},"execution_id":7}}"#)),
        refused(r#"{"event_id":9,"execution_id":7,"event_type":""}"#),
        refused(r#"{"event_id":9,"execution_id":7,"timestamp":"soon"}"#),
        refused(r#"{"event_id":9,"execution_id":7,"node_name":{}}"#),
        refused(r#"{"event_id":9,"execution_id":7,"duration":"long"}"#),
    ];
    insta::assert_snapshot!(refusals.join("\n"));
}

#[test]
fn an_id_may_be_a_little_ahead() {
    let ahead = crate::id::first_id_at(arrival().now.as_unix_ms() + 5000);
    let envelope = format!(r#"{{"event_id":{ahead},"execution_id":7}}"#);
    assert!(read_projected(&read(&envelope), &arrival()).is_ok());
}

#[test]
fn what_does_not_fit_a_column_of_ours_is_kept() {
    let event = projected(
        r#"{"event_id":9,"execution_id":7,"command_id":"abc","stage_id":5,"schema_version":"x","extra":[1]}"#,
    )
    .event;
    assert_eq!((event.command_id, &event.stage_id), (None, &None));
    assert_eq!(
        event.copied.unwrap().extra,
        Some(read(
            r#"{"command_id":"abc","stage_id":5,"schema_version":"x","extra":[1]}"#
        ))
    );
}

#[test]
fn the_command_is_found_in_all_its_forms() {
    for field in [
        r#""command_id":34"#,
        r#""command_id":"34""#,
        r#""command_id":"7:load:34:i2""#,
        r#""meta":{"command_id":"34"}"#,
        r#""meta":{"command_id":34}"#,
        r#""meta":{"command_id":"7:load:34"}"#,
    ] {
        let envelope = format!(r#"{{"event_id":9,"execution_id":7,{field}}}"#);
        let projected = projected(&envelope);
        assert_eq!(
            projected.event.command_id,
            Some(CommandId::new(34).unwrap()),
            "{field}"
        );
        assert!(projected.is_same_as(&stored(projected.event.clone())));
    }
}

#[test]
fn the_caller_says_whose_it_is() {
    let envelope = r#"{"event_id":9,"execution_id":7,"tenant_id":"acme","organization_id":"x y"}"#;
    let projected = projected(envelope);
    assert_eq!(projected.event.tenant_id, "default");
    assert_eq!(projected.said_tenant.as_deref(), Some("acme"));
    assert_eq!(projected.said_organization.as_deref(), Some("x y"));
}

#[test]
fn times_that_no_clock_can_mean() {
    for time in [
        "0001-01-01T00:00:00Z",
        "1970-01-01T00:00:00Z",
        "2026-11-06T15:00:00.001Z",
    ] {
        let envelope = format!(r#"{{"event_id":9,"execution_id":7,"timestamp":"{time}"}}"#);
        let event = projected(&envelope).event;
        assert_eq!(
            (event.event_time, event.created_at),
            (at(time), arrival().now),
            "{time}"
        );
    }
}

#[test]
fn the_same_envelope_later_is_a_duplicate() {
    // Late enough that a time which was too far ahead before is believed now.
    let later = Arrival {
        now: at("2026-11-05T16:00:00Z"),
        ..arrival()
    };
    for envelope in [
        r#"{"event_id":9,"execution_id":7}"#,
        r#"{"event_id":9,"execution_id":7,"timestamp":" "}"#,
        r#"{"event_id":9,"execution_id":7,"timestamp":"0001-01-01T00:00:00Z"}"#,
        r#"{"event_id":9,"execution_id":7,"timestamp":"2026-11-05T14:30:00"}"#,
        r#"{"event_id":9,"execution_id":7,"timestamp":"2026-11-06T15:30:00Z"}"#,
        r#"{"event_id":9,"execution_id":7,"created_at":"2026-11-06T15:30:00Z"}"#,
        r#"{"event_id":9,"execution_id":7,"meta":{"command_id":"34"}}"#,
    ] {
        let first = stored(projected(envelope).event);
        let again = read_projected(&read(envelope), &later).unwrap();
        assert!(again.is_same_as(&first), "{envelope}");
    }
}

#[test]
fn the_same_id_with_another_body_is_none() {
    let known = |field: &str| projected(&format!(r#"{{"event_id":9,"execution_id":7,{field}}}"#));
    let first = stored(known(r#""node_name":"a","timestamp":"2026-11-05T14:30:00Z""#).event);
    for other in [
        r#""node_name":"b","timestamp":"2026-11-05T14:30:00Z""#,
        r#""node_name":"a","timestamp":"2026-11-05T14:30:01Z""#,
        r#""node_name":"a","timestamp":"9999-01-01T00:00:00Z""#,
        r#""node_name":"a","timestamp":"2026-11-05T14:30:00Z","command_id":5"#,
        r#""node_name":"a","timestamp":"2026-11-05T14:30:00Z","extra":{"x":1}"#,
    ] {
        assert!(!known(other).is_same_as(&first), "{other}");
    }
}

#[test]
fn one_instant_in_another_zone_is_the_same() {
    let utc = projected(r#"{"event_id":9,"execution_id":7,"timestamp":"2026-11-05T14:30:00Z"}"#);
    let local = projected(
        r#"{"event_id":"9","execution_id":"7","created_at":"2026-11-05T15:30:00+01:00"}"#,
    );
    assert!(local.is_same_as(&stored(utc.event)));
}

#[test]
fn codes_are_those_of_the_answer() {
    let rejection = read_projected(&read(r#"{"event_id":9}"#), &arrival()).unwrap_err();
    assert_eq!(rejection.code, RejectCode::MissingExecutionId);
}

proptest! {
    /// What leaves through the stream and comes back through the projector is never a conflict.
    #[test]
    fn our_own_stream_echoed_is_a_duplicate(record in any_record(), later_ms in 0_i64..1 << 36) {
        let now = Timestamp::from_unix_ms(arrival().now.as_unix_ms() + later_ms).unwrap();
        let echo = json::parse(&to_canonical(&record)).unwrap();
        let echoed = read_projected(&echo, &Arrival { now, ..arrival() }).unwrap();
        prop_assert!(echoed.is_same_as(&record));
    }

    #[test]
    fn any_object_is_read_or_refused(envelope in json::tests::any_json()) {
        let _ = read_projected(&envelope, &arrival());
    }
}

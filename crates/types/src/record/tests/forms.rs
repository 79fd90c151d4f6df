//! Envelope and JSON form of records.

use proptest::prelude::*;

use super::*;
use crate::json::to_canonical;

fn envelope_text(event: &NewEvent) -> String {
    String::from_utf8(event.to_envelope()).unwrap()
}

#[test]
fn envelope_has_producer_fields_in_order() {
    assert_eq!(
        envelope_text(&first_record().event),
        r#"{"context":{"workload":{"a":[0.5,null],"b":1}},"event_id":8,"event_type":"playbook.started","execution_id":7,"node_name":"etl/nightly","organization_id":"default","schema_version":1,"status":"STARTED","tenant_id":"default","timestamp":"2026-11-05T14:30:00Z"}"#
    );
    assert_eq!(
        envelope_text(&second_record().event),
        r#"{"duration":12,"event_id":9,"event_type":"step.enter","execution_id":7,"node_name":"lo\"ad","organization_id":"default","schema_version":1,"status":"ENTERED","tenant_id":"default","timestamp":"2026-11-05T14:30:00.000250Z"}"#
    );
}

#[test]
fn null_fields_are_omitted() {
    let mut event = first_record().event;
    let before = envelope_text(&event);
    event.result = Some(Json::Null);
    event.projected = Some(Box::default());
    assert_eq!(envelope_text(&event), before);
}

#[test]
fn envelope_includes_implausible_time() {
    let mut event = first_record().event;
    event.event_time = Timestamp::MAX;
    assert!(envelope_text(&event).contains(r#""event_time":"9999-12-31T23:59:59.999999Z""#));
}

/// Both forms are stored and exchanged, so a changed snapshot is a change of the format.
#[test]
fn full_record_has_stable_forms() {
    let record = full_record();
    let forms = [record.event.to_envelope(), to_canonical(&record)]
        .map(|form| String::from_utf8(form).unwrap().replace(",\"", ",\n\""));
    insta::assert_snapshot!(forms.join("\n\n"));
    assert_eq!(EventRecord::from_json(&json::parse(&to_canonical(&record)).unwrap()), Ok(record));
}

#[test]
fn unknown_fields_are_preserved() {
    let mut body = parse_json(std::str::from_utf8(&to_canonical(&first_record())).unwrap());
    if let Json::Map(map) = &mut body {
        std::sync::Arc::make_mut(map).insert("mood".into(), Json::from("good"));
    }
    let record = EventRecord::from_json(&body).unwrap();
    assert_eq!(record.event.projected.unwrap().extra, Some(parse_json(r#"{"mood":"good"}"#)));
}

#[test]
fn invalid_record_error_names_field() {
    let message = |change: &str| {
        let mut map = match parse_json(std::str::from_utf8(&to_canonical(&first_record())).unwrap())
        {
            Json::Map(map) => map.as_ref().clone(),
            other => panic!("{other}"),
        };
        let changes = parse_json(change);
        map.extend(changes.as_map().unwrap().clone());
        EventRecord::from_json(&map.into()).unwrap_err().to_string()
    };
    let messages = [
        r#"{"event_id":null}"#,
        r#"{"event_id":0}"#,
        r#"{"execution_id":"x"}"#,
        r#"{"seq":0}"#,
        r#"{"seq":"1"}"#,
        r#"{"ingest_time":null}"#,
        r#"{"created_at":"2026-11-05T14:30:00"}"#,
        r#"{"event_type":""}"#,
        r#"{"tenant_id":"a.b"}"#,
        r#"{"node_name":5}"#,
        r#"{"duration":"1s"}"#,
        r#"{"schema_version":0}"#,
        r#"{"envelope_checksum":"abc"}"#,
        r#"{"current_index":1.5}"#,
    ]
    .map(message);
    insta::assert_snapshot!(messages.join("\n"));
    assert_eq!(
        EventRecord::from_json(&Json::Null).unwrap_err().to_string(),
        "an event is an object, not a null"
    );
}

proptest! {
    #[test]
    fn record_round_trips_through_json(record in arb_record()) {
        let body = to_canonical(&record);
        prop_assert_eq!(&EventRecord::from_json(&json::parse(&body).unwrap()).unwrap(), &record);

        let by_serde = serde_json::to_vec(&record).unwrap();
        prop_assert_eq!(&serde_json::from_slice::<EventRecord>(&by_serde).unwrap(), &record);
        prop_assert_eq!(to_canonical(&json::parse(&by_serde).unwrap()), body);
    }

    #[test]
    fn the_envelope_is_canonical(event in arb_event()) {
        let envelope = event.to_envelope();
        prop_assert_eq!(to_canonical(&json::parse(&envelope).unwrap()), envelope);
    }

    #[test]
    fn envelope_excludes_log_position(one in arb_record(), other in arb_record()) {
        let moved = EventRecord { event: one.event.clone(), ..other };
        prop_assert_eq!(moved.event.envelope_checksum(), one.event.envelope_checksum());
    }

    #[test]
    fn different_events_have_different_envelopes(one in arb_event(), other in arb_event()) {
        prop_assert_eq!(one == other, one.to_envelope() == other.to_envelope());
    }
}

//! Fixtures for records: fixed ones and strategies.

mod chain;
mod forms;
mod projected;

use proptest::prelude::*;

use super::*;
use crate::digest::sha256;
use crate::event::{EventName, EventType};
use crate::id::{CatalogId, CommandId, EventId, ExecutionId};
use crate::json::{self, Json};
use crate::status::StatusName;
use crate::text::Text;
use crate::time::Timestamp;

pub(super) fn parse_time(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

fn parse_json(text: &str) -> Json {
    json::parse(text.as_bytes()).unwrap()
}

/// The first event of a log.
pub(super) fn first_record() -> EventRecord {
    let event = NewEvent::new(
        ExecutionId::new(7).unwrap(),
        EventId::new(8).unwrap(),
        EventType::PlaybookStarted,
        parse_time("2026-11-05T14:30:00Z"),
    );
    EventRecord {
        event: NewEvent {
            node_name: Some("etl/nightly".into()),
            context: Some(parse_json(r#"{"workload":{"b":1.0,"a":[0.5,null]}}"#)),
            ..event
        },
        seq: Seq::FIRST,
        ingest_time: parse_time("2026-11-05T14:30:00.001Z"),
        envelope_checksum: None,
    }
}

/// The second event of a log.
fn second_record() -> EventRecord {
    let event = NewEvent::new(
        ExecutionId::new(7).unwrap(),
        EventId::new(9).unwrap(),
        EventType::StepEnter,
        parse_time("2026-11-05T14:30:00.000250Z"),
    );
    EventRecord {
        event: NewEvent {
            node_name: Some("lo\"ad".into()),
            duration: Some(ElapsedTime::from_ms(12.0).unwrap()),
            ..event
        },
        seq: Seq::new(2).unwrap(),
        ingest_time: parse_time("2026-11-05T14:30:00.002Z"),
        envelope_checksum: None,
    }
}

/// A record with every field set.
fn full_record() -> EventRecord {
    let text = |value: &str| Some(Text::from(value));
    let projected = ProjectedFields {
        current_index: Some(3),
        current_item: text("item"),
        context_key: text("key"),
        context_value: text("value"),
        distributed_state: text("state"),
        trace_component: Some(parse_json(r#"{"span":"s"}"#)),
        extra: Some(parse_json(r#"{"region":"eu"}"#)),
    };
    let event = NewEvent {
        event_time: parse_time("2026-11-05T14:29:59Z"),
        node_id: text("node"),
        node_type: text("http"),
        catalog_id: Some(CatalogId::new(11).unwrap()),
        parent_event_id: Some(EventId::new(12).unwrap()),
        parent_execution_id: Some(ExecutionId::new(13).unwrap()),
        prev_event_id: Some(EventId::new(14).unwrap()),
        command_id: Some(CommandId::new(15).unwrap()),
        stage_id: text("stage"),
        frame_id: text("frame"),
        aggregate_type: text("order"),
        aggregate_id: text("order/5"),
        stream_id: text("orders"),
        stream_version: Some(16),
        schema_name: text("noetl.event"),
        result: Some(parse_json("[1]")),
        meta: Some(parse_json(r#"{"run":1}"#)),
        payload_ref: Some(parse_json(r#"{"ref":"r"}"#)),
        error: text("error"),
        stack_trace: text("trace"),
        worker_id: text("worker"),
        producer: text("producer"),
        causation_id: text("cause"),
        correlation_id: text("correlation"),
        idempotency_key: text("idempotency"),
        context: Some(parse_json("{}")),
        projected: projected.into_option(),
        ..second_record().event
    };
    EventRecord { envelope_checksum: Some(event.envelope_checksum()), event, ..second_record() }
}

fn arb_text() -> impl Strategy<Value = Option<Text>> {
    prop::option::weighted(0.3, "[^\\x00]{0,12}".prop_map(Text::from))
}

fn arb_value() -> impl Strategy<Value = Option<Json>> {
    let present = json::tests::arb_json().prop_filter("present", |value| !value.is_null());
    prop::option::weighted(0.3, present)
}

fn arb_time() -> impl Strategy<Value = Timestamp> {
    let micros = Timestamp::MIN.as_micros()..=Timestamp::MAX.as_micros();
    prop_oneof![
        micros.prop_map(|micros| Timestamp::from_micros(micros).unwrap()),
        (0_i64..10).prop_map(|ms| Timestamp::from_unix_ms(1_793_889_000_000 + ms).unwrap()),
    ]
}

fn arb_projected_fields() -> impl Strategy<Value = Option<Box<ProjectedFields>>> {
    let extra = prop::collection::btree_map("x[a-z]{1,3}", arb_value(), 1..3).prop_map(|fields| {
        Json::object(fields.into_iter().map(|(key, value)| (key, Json::from(value))))
    });
    let fields = (
        prop::array::uniform4(arb_text()),
        prop::option::of(any::<i64>()),
        arb_value(),
        prop::option::of(extra),
    );
    let fields = fields.prop_map(|(texts, current_index, trace_component, extra)| {
        let [current_item, context_key, context_value, distributed_state] = texts;
        ProjectedFields {
            current_index,
            current_item,
            context_key,
            context_value,
            distributed_state,
            trace_component,
            extra,
        }
    });
    prop_oneof![3 => Just(None), 1 => fields.prop_map(ProjectedFields::into_option)]
}

fn arb_event_name() -> impl Strategy<Value = EventName> {
    prop_oneof![
        prop::sample::select(EventType::ALL).prop_map(EventName::from),
        "[^\\x00]{1,20}".prop_map(|text| EventName::parse_lenient(Some(&text)).unwrap()),
    ]
}

fn arb_event() -> impl Strategy<Value = NewEvent> {
    let ids = prop::array::uniform7(prop::option::weighted(0.4, 1_i64..1 << 40));
    let texts = prop::collection::vec(arb_text(), 15);
    let values = prop::array::uniform4(arb_value());
    let numbers = (prop::option::of(any::<i64>()), prop::option::of(-1e9..1e9_f64));
    let fixed = (arb_event_name(), "[^\\x00]{0,10}", arb_time(), arb_time());
    (ids, texts, values, numbers, fixed, arb_projected_fields()).prop_map(
        |(ids, mut texts, values, (stream_version, duration), fixed, projected)| {
            let (event_type, status, event_time, created_at) = fixed;
            let [context, result, meta, payload_ref] = values;
            let mut text = || texts.pop().flatten();
            let execution_id = ExecutionId::new(ids[0].unwrap_or(1)).unwrap();
            let event_id = EventId::new(ids[1].unwrap_or(1)).unwrap();
            NewEvent {
                status: StatusName::parse(&status).unwrap(),
                event_time,
                node_id: text(),
                node_name: text(),
                node_type: text(),
                catalog_id: ids[2].map(|id| CatalogId::new(id).unwrap()),
                parent_event_id: ids[3].map(|id| EventId::new(id).unwrap()),
                parent_execution_id: ids[4].map(|id| ExecutionId::new(id).unwrap()),
                prev_event_id: ids[5].map(|id| EventId::new(id).unwrap()),
                command_id: ids[6].map(|id| CommandId::new(id).unwrap()),
                stage_id: text(),
                frame_id: text(),
                aggregate_type: text(),
                aggregate_id: text(),
                stream_id: text(),
                stream_version,
                schema_name: text(),
                duration: duration.map(|ms| ElapsedTime::from_ms(ms).unwrap()),
                context,
                result,
                meta,
                payload_ref,
                error: text(),
                stack_trace: text(),
                worker_id: text(),
                producer: text(),
                causation_id: text(),
                correlation_id: text(),
                idempotency_key: text(),
                projected,
                ..NewEvent::new(execution_id, event_id, event_type, created_at)
            }
        },
    )
}

/// Any event at any position in its log.
fn arb_record() -> impl Strategy<Value = EventRecord> {
    (arb_event(), 1..=i64::MAX, arb_time(), any::<bool>()).prop_map(
        |(event, seq, ingest_time, is_from_client)| EventRecord {
            envelope_checksum: is_from_client.then(|| event.envelope_checksum()),
            event,
            seq: Seq::new(seq).unwrap(),
            ingest_time,
        },
    )
}

#[test]
fn event_size_is_limited() {
    assert!(size_of::<NewEvent>() <= 640, "{}", size_of::<NewEvent>());
    assert_eq!(
        sha256(first_record().event.to_envelope()),
        first_record().event.envelope_checksum()
    );
}

//! Values that databases tend to change.

use noetl_types::record::{ElapsedTime, ProjectedFields, SchemaVersion, verify_chain};
use noetl_types::{
    CatalogId, CommandId, EventId, EventName, EventType, ExecutionId, ExecutionVersion, Json,
    StatusName, Text, Timestamp, json,
};

use super::StoreFixture;
use super::fixture::{TestExecution, feed_message};
use super::replay::assert_replay_rows_match;
use super::stream::read_messages;
use crate::{AppendRequest, LogPageLimit, Store};

fn parse_json(text: &str) -> Json {
    json::parse(text.as_bytes()).unwrap()
}

async fn assert_round_trip(store: &dyn Store, run: &mut TestExecution, append: AppendRequest) {
    let sent = append.events.clone();
    run.append_to(store, append).await.unwrap();
    let events =
        store.read_events(run.id, ExecutionVersion::EMPTY, LogPageLimit::MAX).await.unwrap();
    let read: Vec<_> = events[events.len() - sent.len()..]
        .iter()
        .map(|event| event.record.event.clone())
        .collect();
    assert_eq!(read, sent);
    assert_eq!(verify_chain(&events), Ok(run.head.chain));
    // Messages are composed from the same columns.
    let expected: Vec<_> = events.iter().map(feed_message).collect();
    assert_eq!(read_messages(store, expected.len()).await, expected);
    assert_replay_rows_match(store, &events).await;
}

pub(crate) async fn unusual_numbers_round_trip(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut run = TestExecution::create_started(store, 1).await;
    let text = concat!(
        r#"{"a":18446744073709551615,"b":-9223372036854775808,"c":1e300,"d":9007199254740993,"#,
        r#""e":"9007199254740993","f":5e-324,"g":0.1,"h":1e+21,"i":-0.5,"j":"\\u0000 is text","k":1.0,"é":"日本"}"#
    );
    let mut append = run.step_request();
    append.events[0].context = Some(parse_json(text));
    append.events[0].result = Some(parse_json("[1.5,[],{},\"\",false]"));
    append.events[0].meta = Some(parse_json("\"just a text\""));
    append.events[0].duration = Some(ElapsedTime::from_ms(0.1 + 0.2).unwrap());
    append.view.error = Some(Text::from("quote ' \" \\ \u{1F600}\u{7f}\u{1}"));
    let error = append.view.error.clone();
    assert_round_trip(store, &mut run, append).await;
    let execution = store.find_execution(run.id).await.unwrap().unwrap();
    assert_eq!(execution.view.error, error);
}

pub(crate) async fn every_event_field_round_trips(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut run = TestExecution::create_started(store, 1).await;
    let text = |value: &str| Some(Text::from(value));
    let mut event = run.next_event(EventType::CallDone);
    event.event_type = EventName::parse_lenient(Some("Weird Name!")).unwrap();
    event.status = StatusName::parse("half done").unwrap();
    event.event_time = Timestamp::MIN;
    event.created_at = Timestamp::MAX;
    event.node_id = text("node");
    event.node_name = text("");
    event.node_type = text("http");
    event.catalog_id = CatalogId::new(i64::MAX).ok();
    event.parent_event_id = EventId::new(12).ok();
    event.parent_execution_id = ExecutionId::new(13).ok();
    event.prev_event_id = EventId::new(14).ok();
    event.command_id = CommandId::new(15).ok();
    event.stage_id = text("stage");
    event.frame_id = text("frame");
    event.aggregate_type = text("order");
    event.aggregate_id = text("order/5");
    event.stream_id = text("orders");
    event.stream_version = Some(i64::MIN);
    event.schema_name = text("other.schema");
    event.schema_version = SchemaVersion::new(i64::from(i32::MAX)).unwrap();
    event.payload_ref = Some(parse_json(r#"{"ref":"r"}"#));
    event.error = text("error\nline two");
    event.stack_trace = text("trace");
    event.worker_id = text("worker");
    event.producer = text("producer");
    event.causation_id = text("cause");
    event.correlation_id = text("correlation");
    event.idempotency_key = text("idempotency");
    event.projected = ProjectedFields {
        current_index: Some(-3),
        current_item: text("item"),
        context_key: text("key"),
        context_value: text("value"),
        distributed_state: text("state"),
        trace_component: Some(parse_json(r#"{"span":"s"}"#)),
        extra: Some(parse_json(r#"{"region":"eu"}"#)),
    }
    .into_option();
    let checksum = event.envelope_checksum();
    let mut append = run.append_request(vec![event]);
    append.keep_checksums = true;
    assert_round_trip(store, &mut run, append).await;
    let events = store.read_events(run.id, ExecutionVersion::EMPTY, LogPageLimit::MAX).await;
    let events = events.unwrap();
    assert_eq!(events[0].record.envelope_checksum, None);
    assert_eq!(events[1].record.envelope_checksum, Some(checksum));
}

/// No type of an append can contain NUL, so no backend has to handle it.
pub(crate) async fn nul_cannot_be_stored(fixture: &StoreFixture) {
    let store = &*fixture.store;
    assert!(Text::new("a\0b").is_err());
    assert!(Json::text("a\0b").is_err());
    assert!(json::parse(br#"{"a":"\u0000"}"#).is_err());
    assert!(json::parse(br#"{"\u0000":1}"#).is_err());
    let mut run = TestExecution::create_started(store, 1).await;
    let mut append = run.step_request();
    append.events[0].error = Some(Text::from_lossy("a\0b"));
    assert_round_trip(store, &mut run, append).await;
}

pub(crate) async fn long_deep_and_empty_values_round_trip(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut run = TestExecution::create_started(store, 1).await;
    let deep = format!("{}1{}", "[".repeat(63), "]".repeat(63));
    assert!(json::parse(format!("[[{deep}]]").as_bytes()).is_err());
    let long = "ü".repeat(500_000);
    let mut append = run.step_request();
    let event = &mut append.events[0];
    event.context = Some(parse_json(&deep));
    event.result = Some(Json::text(long.as_str()).unwrap());
    event.meta = Some(parse_json(r#"{"":"","a":{"":[]}}"#));
    event.error = Some(Text::from(""));
    event.stack_trace = Some(Text::from(long.as_str()));
    event.worker_id = Some(Text::from(""));
    append.view.error = Some(Text::from(""));
    append.view.last_node_name = Some(Text::from(long.as_str()));
    assert_round_trip(store, &mut run, append).await;
    let view = store.find_execution(run.id).await.unwrap().unwrap().view;
    assert_eq!(view.error, Some(Text::from("")));
    assert_eq!(view.last_node_name, Some(Text::from(long.as_str())));
}

pub(crate) async fn extreme_numbers_round_trip(fixture: &StoreFixture) {
    let store = &*fixture.store;
    assert!(ElapsedTime::from_ms(f64::NAN).is_err());
    assert!(ElapsedTime::from_ms(f64::INFINITY).is_err());
    for text in ["NaN", "Infinity", "-Infinity", "1e999", "[01]"] {
        assert!(json::parse(text.as_bytes()).is_err(), "{text}");
    }
    let mut run = TestExecution::create_started(store, 1).await;
    let text = "[-9223372036854775808,9223372036854775807,18446744073709551615,-0,-0.0,0.0,1e300,\
        -1e300,1.7976931348623157e308,2.2250738585072014e-308,5e-324,123456789012345680000,1e21]";
    let mut append = run.step_request();
    append.events[0].context = Some(parse_json(text));
    append.events[0].stream_version = Some(i64::MAX);
    append.events[0].duration = Some(ElapsedTime::from_ms(0.0).unwrap());
    append.events[0].projected =
        ProjectedFields { current_index: Some(i64::MIN), ..ProjectedFields::default() }
            .into_option();
    assert_round_trip(store, &mut run, append).await;
    // The stored text equals the hashed text, independent of the parser.
    let sent = parse_json(text).to_string();
    let events = store.read_events(run.id, ExecutionVersion::EMPTY, LogPageLimit::MAX).await;
    let context = events.unwrap()[1].record.event.context.clone();
    assert_eq!(context.unwrap().to_string(), sent);
}

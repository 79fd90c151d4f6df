use noetl_types::{EventId, EventType, NewEvent, Timestamp};

use super::*;

fn test_record(event_type: EventName) -> EventRecord {
    let (execution_id, event_id) = (ExecutionId::new(7).unwrap(), EventId::new(8).unwrap());
    EventRecord {
        event: NewEvent::new(execution_id, event_id, event_type, Timestamp::UNIX_EPOCH),
        seq: Seq::FIRST,
        ingest_time: Timestamp::UNIX_EPOCH,
        envelope_checksum: None,
    }
}

#[test]
fn message_id_is_unique_per_log_epoch() {
    let record = test_record(EventType::StepEnter.into());
    let execution_id = record.event.execution_id;
    let message_id = |epoch| event_message_id(epoch, execution_id, record.seq);
    assert_eq!(message_id(LogEpoch::FIRST), "1:7:1");
    assert_eq!(message_id(LogEpoch::new(5)), "5:7:1");
    let parse = |id| parse_event_message_id(LogEpoch::new(5), id);
    assert_eq!(parse("5:7:1"), Some((execution_id, record.seq)));
    for other in ["1:7:1", "5:7", "5:7:0", "5:order:1", "57:1", ""] {
        assert_eq!(parse(other), None, "{other}");
    }
    let body = encode_event_body(&record);
    let read = EventRecord::from_json(&json::parse(&body).unwrap()).unwrap();
    assert_eq!(read, record);
}

#[test]
fn subject_is_valid_for_any_event_name() {
    for odd in ["a b", "*", ">", "a..b", ".", "ä.*.>", "x\ty", "UP.per"] {
        let name = EventName::parse_lenient(Some(odd)).unwrap();
        let subject = event_subject(&TenantId::default(), &name);
        let is_token = |token: &str| {
            !token.is_empty()
                && token.chars().all(|it| it.is_ascii_alphanumeric() || "-_%=~".contains(it))
        };
        assert!(subject.split('.').all(is_token), "{odd}: {subject:?}");
    }
}

#[test]
fn tenants_have_separate_subjects() {
    let tenant = TenantId::new("acme").unwrap();
    let name = EventName::from(EventType::StepEnter);
    assert_eq!(event_subject(&tenant, &name), "noetl.t.acme.events.step.enter");
}

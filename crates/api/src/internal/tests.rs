use super::*;

#[test]
fn ids_are_numbers_and_absent_fields_are_omitted() {
    let row = OutboxMessage {
        outbox_id: OutboxId::new(1).unwrap().into(),
        event_id: EventId::new(2).unwrap().into(),
        execution_id: None,
        subject: None,
        message_id: "1:3:1".into(),
        payload: RawJson::default(),
        payload_codec: "json".into(),
        attempts: 1,
    };
    assert_eq!(
        serde_json::to_string(&row).unwrap(),
        r#"{"outbox_id":1,"event_id":2,"message_id":"1:3:1","payload":null,"payload_codec":"json","attempts":1}"#
    );
    let text = r#"{"outbox_id":"1","event_id":2,"message_id":"","payload":0,"attempts":0}"#;
    let read: OutboxMessage = serde_json::from_str(text).unwrap();
    assert_eq!(read.payload_codec, "arrow-feather");
    let ids: OutboxIds = serde_json::from_str(r#"{"outbox_ids":[1,"2"]}"#).unwrap();
    assert_eq!(ids.outbox_ids, [1, 2].map(|id| OutboxId::new(id).unwrap()));
}

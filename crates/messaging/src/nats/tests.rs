//! Tests of the NATS client against a real server.

use std::time::Duration;

use bytes::Bytes;
use noetl_testkit::nats::NatsServer;

use super::*;

const STREAM_CONFIG: StreamSpec = StreamSpec {
    name: "test",
    subjects: &["test", "test.>"],
    max_age: Duration::from_hours(1),
    duplicate_window: Duration::from_mins(2),
};

async fn connect_client(server: &NatsServer) -> NatsConnection {
    let settings = NatsConnectionSettings {
        url: server.url().into(),
        name: "test".into(),
        ..NatsConnectionSettings::default()
    };
    let mut connection = NatsConnection::connect(settings).await.unwrap();
    while !connection.connection_info().is_connected {
        connection.wait_for_change().await;
    }
    connection
}

fn outgoing_message(subject: &str, id: &str, body: impl Into<Bytes>) -> OutgoingMessage {
    OutgoingMessage { subject: subject.into(), message_id: id.into(), body: body.into() }
}

#[tokio::test]
async fn publishes_once_and_in_order() {
    let server = NatsServer::start_with_config("max_payload: 4096").unwrap();
    let connection = connect_client(&server).await;
    assert_eq!(connection.connection_info().max_payload, 4096);
    let created = connection.ensure_stream(&STREAM_CONFIG).await.unwrap();
    assert_eq!(
        connection.ensure_stream(&STREAM_CONFIG).await.unwrap().created_at,
        created.created_at
    );
    let messages: Vec<_> =
        (0..2500).map(|number| outgoing_message("test.a", &format!("m{number}"), "x")).collect();
    for (index, stored) in connection.publish_batch("test", messages).await.into_iter().enumerate()
    {
        let sequence = u64::try_from(index).unwrap() + 1;
        let is_duplicate = false;
        assert_eq!(stored, Ok(PublishReceipt { sequence, is_duplicate }));
    }
    let large = vec![b'x'; 5000];
    let mixed = vec![
        outgoing_message("test.a", "m7", "x"),
        outgoing_message("test.a", "large", large),
        outgoing_message("te st", "strange", "x"),
        outgoing_message("test.b", "good", "x"),
    ];
    let outcomes = connection.publish_batch("test", mixed).await;
    let (sequence, is_duplicate) = (8, true);
    assert_eq!(outcomes[0], Ok(PublishReceipt { sequence, is_duplicate }));
    assert_eq!(outcomes[1], Err(PublishFailure::TooLarge));
    assert!(matches!(outcomes[2], Err(PublishFailure::Impossible(_))), "{outcomes:?}");
    assert_eq!(outcomes[3].as_ref().map(|stored| stored.sequence), Ok(2501));
    let ids = connection.message_ids("test", 2499, 2501).await.unwrap();
    assert_eq!(ids, ["m2498", "m2499", "good"].map(str::to_owned).into());
    let other_subject =
        connection.publish_batch("test", vec![outgoing_message("other", "o", "x")]).await;
    assert_eq!(other_subject, [Err(PublishFailure::NoStream)]);
}

#[tokio::test]
async fn pipe_acks_carry_message_numbers() {
    let server = NatsServer::start_with_config("max_payload: 4096").unwrap();
    let connection = connect_client(&server).await;
    connection.ensure_stream(&STREAM_CONFIG).await.unwrap();
    let mut pipeline = connection.open_pipeline("test").await.unwrap();
    for number in 1..=2500 {
        let id = format!("m{number}");
        pipeline.send_message(number, outgoing_message("test.a", &id, "x")).await.unwrap();
    }
    let mut acked = Vec::new();
    while acked.len() < 2500 {
        let (number, outcome) = pipeline.next_ack().await.unwrap();
        // The messages were sent in order, so they are stored in order.
        let stored = outcome.unwrap();
        assert_eq!((stored.sequence, stored.is_duplicate), (number, false));
        acked.push(number);
        acked.extend(pipeline.try_next_ack().map(|(number, _)| number));
    }
    acked.sort_unstable();
    assert!(acked.into_iter().eq(1..=2500));
    let stored = |sequence, is_duplicate| Ok(PublishReceipt { sequence, is_duplicate });
    pipeline.send_message(7, outgoing_message("test.a", "m7", "x")).await.unwrap();
    assert_eq!(pipeline.next_ack().await, Some((7, stored(7, true))));
    pipeline.send_message(8, outgoing_message("other", "o", "x")).await.unwrap();
    let expected = Some((8, Err(PublishFailure::NoStream)));
    assert_eq!(pipeline.next_ack().await, expected);
    let large = pipeline.send_message(9, outgoing_message("test.a", "l", vec![b'x'; 5000])).await;
    assert_eq!(large, Err(PublishFailure::TooLarge));
    let strange = pipeline.send_message(9, outgoing_message("te st", "s", "x")).await;
    assert!(matches!(strange, Err(PublishFailure::Impossible(_))));
}

/// A message for one stream is not stored by another stream that has taken over its subjects.
#[tokio::test]
async fn publish_is_bound_to_expected_stream() {
    let server = NatsServer::start().unwrap();
    let connection = connect_client(&server).await;
    connection.ensure_stream(&STREAM_CONFIG).await.unwrap();
    let mut pipeline = connection.open_pipeline("elsewhere").await.unwrap();
    pipeline.send_message(1, outgoing_message("test.a", "e", "x")).await.unwrap();
    let expected = Some((1, Err(PublishFailure::NoStream)));
    assert_eq!(pipeline.next_ack().await, expected);
    let stream = connection.stream_info("test").await.unwrap();
    assert_eq!(stream.map(|stream| stream.messages), Some(0));
}

#[tokio::test]
async fn new_stream_has_planned_config() {
    let server = NatsServer::start().unwrap();
    let connection = connect_client(&server).await;
    let stream = connection.ensure_stream(&STREAM_CONFIG).await.unwrap();
    let expected = (STREAM_CONFIG.max_age, STREAM_CONFIG.duplicate_window, true);
    let limits_of =
        |stream: &StreamInfo| (stream.max_age, stream.duplicate_window, stream.is_on_disk);
    assert_eq!(limits_of(&stream), expected);
    // An existing stream is used unchanged.
    let other_spec = StreamSpec {
        max_age: Duration::from_hours(2),
        duplicate_window: Duration::from_mins(1),
        ..STREAM_CONFIG
    };
    assert_eq!(limits_of(&connection.ensure_stream(&other_spec).await.unwrap()), expected);
}

#[tokio::test]
async fn existing_stream_gets_missing_subjects() {
    let server = NatsServer::start().unwrap();
    let connection = connect_client(&server).await;
    let narrow = StreamSpec { subjects: &["test.a.>"], ..STREAM_CONFIG };
    let created = connection.ensure_stream(&narrow).await.unwrap();
    let ensured = connection.ensure_stream(&STREAM_CONFIG).await.unwrap();
    assert_eq!(ensured.created_at, created.created_at);
    let outcomes = connection.publish_batch("test", vec![outgoing_message("test", "m", "x")]).await;
    assert!(outcomes[0].is_ok(), "{outcomes:?}");
    assert_eq!(connection.stream_info("other").await, Ok(None));
}

#[tokio::test]
async fn reconnects_to_restarted_server() {
    let mut server = NatsServer::start().unwrap();
    server.kill_server().unwrap();
    let settings = NatsConnectionSettings {
        url: server.url().into(),
        name: "test".into(),
        ..NatsConnectionSettings::default()
    };
    let mut connection = NatsConnection::connect(settings).await.unwrap();
    let outcomes = connection.publish_batch("test", vec![outgoing_message("test", "m", "x")]).await;
    assert!(matches!(outcomes[0], Err(PublishFailure::Unconfirmed(_))), "{outcomes:?}");
    server.restart_server().unwrap();
    while !connection.connection_info().is_connected {
        connection.wait_for_change().await;
    }
    assert!(connection.connection_info().version.is_some());
    connection.ensure_stream(&STREAM_CONFIG).await.unwrap();
}

#[tokio::test]
async fn listener_skips_own_messages() {
    let server = NatsServer::start().unwrap();
    let (publisher, subscriber) = (connect_client(&server).await, connect_client(&server).await);
    publisher.ensure_stream(&STREAM_CONFIG).await.unwrap();
    let mut subscription = subscriber.subscribe("test.>").await.unwrap();
    // A round trip after the subscription ensures that the server has processed it.
    subscriber.stream_info("test").await.unwrap();
    subscriber.publish_batch("test", vec![outgoing_message("test.a", "own", "own")]).await;
    publisher.publish_batch("test", vec![outgoing_message("test.a", "other", "other")]).await;
    assert_eq!(subscription.next().await, Some(Bytes::from("other")));
}

#[tokio::test]
async fn rejects_invalid_url() {
    let settings =
        NatsConnectionSettings { url: "nats://[::1".into(), ..NatsConnectionSettings::default() };
    assert!(NatsConnection::connect(settings).await.is_err());
}

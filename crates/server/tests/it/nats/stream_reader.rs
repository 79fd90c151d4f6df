//! Reads the event stream as an external consumer.

use std::collections::BTreeMap;
use std::time::Duration;

use async_nats::jetstream::stream::RawMessageErrorKind;
use async_nats::jetstream::{self, Context};
use noetl_store::{FeedLimit, Store, encode_event_body, event_message_id, event_subject};
use noetl_testkit::nats::NatsServer;
use noetl_types::{FeedPosition, Json, json, sha256};

use crate::nats::cluster::{TEST_TIMEOUT, wait_until};

/// Opens a separate connection to the broker.
pub(crate) async fn connect_jetstream(nats: &NatsServer) -> Context {
    let client = async_nats::connect(nats.url()).await.unwrap();
    jetstream::new(client)
}

/// Returns the messages of the stream as subject and body by message id, and the total number of
/// messages.
pub(crate) async fn read_stream(nats: &NatsServer) -> (BTreeMap<String, (String, Vec<u8>)>, u64) {
    let context = connect_jetstream(nats).await;
    let mut found = BTreeMap::new();
    let Ok(stream) = context.get_stream("noetl_events").await else {
        return (found, 0);
    };
    let state = stream.cached_info().state.clone();
    if state.messages == 0 {
        return (found, 0);
    }
    let mut count = 0;
    for sequence in state.first_sequence..=state.last_sequence {
        let message = match stream.get_raw_message(sequence).await {
            Ok(message) => message,
            // The message was deleted.
            Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => continue,
            Err(error) => panic!("{error}"),
        };
        let id = message.headers.get("Nats-Msg-Id").unwrap();
        let content = (message.subject.to_string(), message.payload.to_vec());
        if let Some(before) = found.insert(id.as_str().to_owned(), content.clone()) {
            assert_eq!(before, content, "two events under one id");
        }
        count += 1;
    }
    (found, count)
}

/// Returns the messages that the stream should contain according to the log.
pub(crate) async fn expected_messages(store: &dyn Store) -> BTreeMap<String, (String, Vec<u8>)> {
    let epoch = store.log_epoch().await.unwrap();
    let mut after = FeedPosition::default();
    let mut all = BTreeMap::new();
    loop {
        let batch = store.read_feed(after, FeedLimit::MAX).await.unwrap();
        for event in &batch.events {
            let (record, new) = (&event.record, &event.record.event);
            let id = event_message_id(epoch, new.execution_id, record.seq);
            let subject = event_subject(&new.tenant_id, &new.event_type);
            all.insert(id.to_string(), (subject.to_string(), encode_event_body(record)));
        }
        after = batch.next;
        if !batch.is_full {
            return all;
        }
    }
}

/// Waits until the stream contains every event of the log, and checks subjects and bodies. Returns
/// the number of messages.
pub(crate) async fn assert_stream_complete(nats: &NatsServer, store: &dyn Store) -> u64 {
    // Other writers in the same cluster may briefly hold back the end of the log.
    wait_until("all written events are readable", || async {
        let lag = store.feed_lag(FeedPosition::default()).await.unwrap();
        lag.held_back_since.is_none()
    })
    .await;
    let expected = expected_messages(store).await;
    assert!(!expected.is_empty());
    let context = connect_jetstream(nats).await;
    let expected_count = u64::try_from(expected.len()).unwrap();
    wait_until("the stream has as many messages as the log has events", || async {
        match context.get_stream("noetl_events").await {
            Ok(stream) => stream.cached_info().state.messages >= expected_count,
            Err(_) => false,
        }
    })
    .await;
    // There may be duplicates, so the last messages may still be missing.
    let wait = async {
        loop {
            let (found, count) = read_stream(nats).await;
            if expected.keys().all(|id| found.contains_key(id)) {
                return (found, count);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let (found, count) = tokio::time::timeout(TEST_TIMEOUT, wait).await.expect("all messages");
    for (id, (subject, body)) in &expected {
        let (seen_subject, seen_body) = &found[id];
        assert_eq!(seen_subject, subject);
        if seen_body != body {
            assert_reference_to(seen_body, body);
        }
    }
    count
}

/// Checks that a body is a reference to a larger one.
pub(crate) fn assert_reference_to(reference: &[u8], body: &[u8]) {
    let reference = json::parse(reference).unwrap();
    let digest = Json::from(sha256(body).to_string());
    assert_eq!(reference.get("sha256"), Some(&digest), "{reference}");
    let bytes = Json::from(u64::try_from(body.len()).unwrap());
    assert_eq!(reference.get("bytes"), Some(&bytes));
}

//! Somebody outside who reads the stream.

use std::collections::BTreeMap;
use std::time::Duration;

use async_nats::jetstream::stream::RawMessageErrorKind;
use async_nats::jetstream::{self, Context};
use noetl_store::{FeedLimit, Message, Store};
use noetl_testkit::nats::Nats;
use noetl_types::{FeedPosition, Json, json, sha256};

use crate::house::{LONG, until};

/// A way to the broker of its own.
pub(crate) async fn jetstream(nats: &Nats) -> Context {
    let client = async_nats::connect(nats.url()).await.unwrap();
    jetstream::new(client)
}

/// What the stream holds: subject and body by message id, and how many messages there are in all.
pub(crate) async fn read(nats: &Nats) -> (BTreeMap<String, (String, Vec<u8>)>, u64) {
    let context = jetstream(nats).await;
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
            // Somebody took it out.
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

/// What the log holds, as the stream should carry it.
pub(crate) async fn expected(store: &dyn Store) -> BTreeMap<String, (String, Vec<u8>)> {
    let epoch = store.log_epoch().await.unwrap();
    let mut after = FeedPosition::default();
    let mut all = BTreeMap::new();
    loop {
        let batch = store.feed(after, FeedLimit::MAX).await.unwrap();
        for event in &batch.events {
            let message = Message::of(&event.record, epoch);
            let content = (message.subject.to_string(), message.body);
            all.insert(message.message_id.to_string(), content);
        }
        after = batch.next;
        if !batch.is_full {
            return all;
        }
    }
}

/// Waits until the stream has every event of the log, and checks that it has them as they are. Gives
/// how many messages there are.
pub(crate) async fn sees_everything(nats: &Nats, store: &dyn Store) -> u64 {
    // Whoever else writes in the same cluster may hold the end of the log back for a moment.
    until("all that was written can be read", || async {
        let lag = store.feed_lag(FeedPosition::default()).await.unwrap();
        lag.held_back_since.is_none()
    })
    .await;
    let wanted = expected(store).await;
    assert!(!wanted.is_empty());
    let context = jetstream(nats).await;
    let enough = u64::try_from(wanted.len()).unwrap();
    until(
        "the stream has as many messages as the log has events",
        || async {
            match context.get_stream("noetl_events").await {
                Ok(stream) => stream.cached_info().state.messages >= enough,
                Err(_) => false,
            }
        },
    )
    .await;
    // There may be duplicates among them, so the last ones may be still to come.
    let wait = async {
        loop {
            let (found, count) = read(nats).await;
            if wanted.keys().all(|id| found.contains_key(id)) {
                return (found, count);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let (found, count) = tokio::time::timeout(LONG, wait).await.expect("everything");
    for (id, (subject, body)) in &wanted {
        let (seen_subject, seen_body) = &found[id];
        assert_eq!(seen_subject, subject);
        if seen_body != body {
            assert_refers(seen_body, body);
        }
    }
    count
}

/// Checks that a body refers to a larger one.
pub(crate) fn assert_refers(reference: &[u8], body: &[u8]) {
    let reference = json::parse(reference).unwrap();
    let digest = Json::from(sha256(body).to_string());
    assert_eq!(reference.get("sha256"), Some(&digest), "{reference}");
    let bytes = Json::from(u64::try_from(body.len()).unwrap());
    assert_eq!(reference.get("bytes"), Some(&bytes));
}

//! An external consumer that reads the event stream, like a program of a user.
//!
//! It has an inbox that recognizes duplicates by message id and holds back events that arrive
//! before their predecessors in the run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::jetstream::{self, Context, Message};
use futures_util::StreamExt as _;
use noetl_store::{FeedLimit, Store, encode_event_body, event_message_id};
use noetl_testkit::nats::NatsServer;
use noetl_types::{Digest, FeedPosition, sha256};

const STREAM_NAME: &str = "noetl_events";

/// State that a consumer derives from the received messages.
#[derive(Debug, Default)]
pub(crate) struct ConsumerInbox {
    /// Digest of each message body, by message id.
    pub(crate) bodies: BTreeMap<String, Digest>,
    /// Last applied `seq` of each run.
    pub(crate) applied: BTreeMap<i64, i64>,
    /// Events that wait for their predecessors.
    out_of_order: BTreeSet<(i64, i64)>,
    /// Number of duplicate messages.
    pub(crate) duplicates: u64,
}

impl ConsumerInbox {
    fn record_message(&mut self, id: &str, body: &[u8]) {
        let digest = sha256(body);
        if let Some(previous) = self.bodies.insert(id.to_owned(), digest) {
            assert_eq!(previous, digest, "{id} has two different bodies");
            self.duplicates += 1;
            return;
        }
        let mut parts = id.split(':').skip(1).map(str::parse::<i64>);
        let (Some(Ok(run)), Some(Ok(seq))) = (parts.next(), parts.next()) else {
            panic!("{id} is not a message id")
        };
        self.out_of_order.insert((run, seq));
        let last = self.applied.entry(run).or_default();
        while self.out_of_order.remove(&(run, *last + 1)) {
            *last += 1;
        }
    }
}

/// Background reader that stops when it is dropped.
pub(crate) struct StreamReader {
    inbox: Arc<Mutex<ConsumerInbox>>,
    reader_task: tokio::task::JoinHandle<()>,
}

impl Drop for StreamReader {
    fn drop(&mut self) {
        self.reader_task.abort();
    }
}

impl StreamReader {
    /// Starts to read a broker, which may restart with or without its data.
    pub(crate) async fn start(nats: &NatsServer) -> Self {
        let client = async_nats::connect(nats.url()).await.expect("a broker");
        let context = jetstream::new(client);
        let inbox = Arc::new(Mutex::new(ConsumerInbox::default()));
        let reader_task = tokio::spawn({
            let inbox = Arc::clone(&inbox);
            async move {
                loop {
                    // The broker may be unavailable.
                    drop(read_available(&context, &inbox).await);
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        });
        Self { inbox, reader_task }
    }

    pub(crate) fn inbox(&self) -> MutexGuard<'_, ConsumerInbox> {
        lock_inbox(&self.inbox)
    }

    /// Asserts that exactly the events of the log were received unchanged, and that each run was
    /// applied from its first event to its last.
    pub(crate) fn assert_received(&self, expected: &BTreeMap<String, Digest>) {
        let inbox = self.inbox();
        let lost = expected.keys().filter(|id| !inbox.bodies.contains_key(*id));
        assert_eq!(lost.collect::<Vec<_>>(), Vec::<&String>::new(), "lost");
        assert!(inbox.bodies == *expected, "the stream contains only the log");
        assert!(inbox.out_of_order.is_empty(), "{:?}", inbox.out_of_order);
        let applied: i64 = inbox.applied.values().sum();
        assert_eq!(usize::try_from(applied).expect("a count"), expected.len());
    }
}

fn lock_inbox(inbox: &Mutex<ConsumerInbox>) -> MutexGuard<'_, ConsumerInbox> {
    inbox.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn read_available(
    context: &Context,
    inbox: &Mutex<ConsumerInbox>,
) -> Result<(), async_nats::Error> {
    let stream = context.get_stream(STREAM_NAME).await?;
    let config = pull::Config {
        durable_name: Some("outside".to_owned()),
        ack_policy: AckPolicy::Explicit,
        ack_wait: Duration::from_secs(10),
        ..pull::Config::default()
    };
    let consumer = stream.get_or_create_consumer("outside", config).await?;
    loop {
        let batch = consumer.batch().max_messages(500);
        let mut messages = batch.expires(Duration::from_secs(1)).messages().await?;
        let mut is_empty = true;
        while let Some(message) = messages.next().await {
            let message = message?;
            is_empty = false;
            lock_inbox(inbox).record_message(&message_id(&message), &message.payload);
            message.ack().await?;
        }
        if is_empty {
            // The stream may have been recreated.
            return Ok(());
        }
    }
}

fn message_id(message: &Message) -> String {
    let headers = message.headers.as_ref();
    let id = headers.and_then(|headers| headers.get(async_nats::header::NATS_MESSAGE_ID));
    id.expect("an id").as_str().to_owned()
}

/// Number of messages in the stream.
pub(crate) async fn count_messages(nats: &NatsServer) -> u64 {
    let client = async_nats::connect(nats.url()).await.expect("a broker");
    let stream = jetstream::new(client).get_stream(STREAM_NAME).await;
    stream.map_or(0, |stream| stream.cached_info().state.messages)
}

/// Returns the messages that the stream must contain for the log, by message id.
pub(crate) async fn expected_messages(store: &dyn Store) -> BTreeMap<String, Digest> {
    let epoch = store.log_epoch().await.expect("an epoch");
    let mut after = FeedPosition::default();
    let mut messages = BTreeMap::new();
    loop {
        let batch = store.read_feed(after, FeedLimit::MAX).await.expect("events");
        for event in &batch.events {
            let record = &event.record;
            let id = event_message_id(epoch, record.event.execution_id, record.seq);
            messages.insert(id.to_string(), sha256(encode_event_body(record)));
        }
        after = batch.next;
        if !batch.is_full {
            return messages;
        }
    }
}

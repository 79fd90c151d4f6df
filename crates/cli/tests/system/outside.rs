//! Somebody outside who reads the stream, as a program of a user does.
//!
//! It has an inbox: a message that it has had already is known by its id, and what comes too early
//! waits for what is before it in its run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::jetstream::{self, Context, Message as Received};
use futures_util::StreamExt as _;
use noetl_store::{FeedLimit, Message, Store};
use noetl_testkit::nats::Nats;
use noetl_types::{Digest, FeedPosition, sha256};

const STREAM: &str = "noetl_events";

/// What somebody has made of the messages that came.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// What each message said.
    pub(crate) bodies: BTreeMap<String, Digest>,
    /// How far each run is applied.
    pub(crate) applied: BTreeMap<i64, i64>,
    /// Events that wait for those before them.
    early: BTreeSet<(i64, i64)>,
    /// Messages that came once more.
    pub(crate) again: u64,
}

impl Inbox {
    fn take(&mut self, id: &str, body: &[u8]) {
        let digest = sha256(body);
        if let Some(before) = self.bodies.insert(id.to_owned(), digest) {
            assert_eq!(before, digest, "{id} is two messages");
            self.again += 1;
            return;
        }
        let mut parts = id.split(':').skip(1).map(str::parse::<i64>);
        let (Some(Ok(run)), Some(Ok(seq))) = (parts.next(), parts.next()) else {
            panic!("{id} is no id of a message")
        };
        self.early.insert((run, seq));
        let at = self.applied.entry(run).or_default();
        while self.early.remove(&(run, *at + 1)) {
            *at += 1;
        }
    }
}

/// A reader, until it is dropped.
pub(crate) struct Outside {
    inbox: Arc<Mutex<Inbox>>,
    reading: tokio::task::JoinHandle<()>,
}

impl Drop for Outside {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

impl Outside {
    /// Reads a broker, which may go away and come back, with all that it had or without.
    pub(crate) async fn reading(nats: &Nats) -> Self {
        let client = async_nats::connect(nats.url()).await.expect("a broker");
        let context = jetstream::new(client);
        let inbox = Arc::new(Mutex::new(Inbox::default()));
        let reading = tokio::spawn({
            let inbox = Arc::clone(&inbox);
            async move {
                loop {
                    // A broker that is away has nothing to say.
                    drop(read_some(&context, &inbox).await);
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        });
        Self { inbox, reading }
    }

    pub(crate) fn inbox(&self) -> MutexGuard<'_, Inbox> {
        opened(&self.inbox)
    }

    /// Checks that everything of a log was seen as it is, and nothing else; what was applied is each
    /// run from its first event to its last.
    pub(crate) fn has_seen_all(&self, wanted: &BTreeMap<String, Digest>) {
        let inbox = self.inbox();
        let lost = wanted.keys().filter(|id| !inbox.bodies.contains_key(*id));
        assert_eq!(lost.collect::<Vec<_>>(), Vec::<&String>::new(), "lost");
        assert!(inbox.bodies == *wanted, "the log has nothing else");
        assert!(inbox.early.is_empty(), "{:?}", inbox.early);
        let applied: i64 = inbox.applied.values().sum();
        assert_eq!(usize::try_from(applied).expect("a count"), wanted.len());
    }
}

fn opened(inbox: &Mutex<Inbox>) -> MutexGuard<'_, Inbox> {
    inbox.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn read_some(context: &Context, inbox: &Mutex<Inbox>) -> Result<(), async_nats::Error> {
    let stream = context.get_stream(STREAM).await?;
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
            opened(inbox).take(&id_of(&message), &message.payload);
            message.ack().await?;
        }
        if is_empty {
            // The stream may be another one by now.
            return Ok(());
        }
    }
}

fn id_of(message: &Received) -> String {
    let headers = message.headers.as_ref();
    let id = headers.and_then(|headers| headers.get(async_nats::header::NATS_MESSAGE_ID));
    id.expect("an id").as_str().to_owned()
}

/// How many messages the broker has.
pub(crate) async fn messages(nats: &Nats) -> u64 {
    let client = async_nats::connect(nats.url()).await.expect("a broker");
    let stream = jetstream::new(client).get_stream(STREAM).await;
    stream.map_or(0, |stream| stream.cached_info().state.messages)
}

/// What the log holds, as the stream should carry it.
pub(crate) async fn expected(store: &dyn Store) -> BTreeMap<String, Digest> {
    let epoch = store.log_epoch().await.expect("an epoch");
    let mut after = FeedPosition::default();
    let mut all = BTreeMap::new();
    loop {
        let batch = store.feed(after, FeedLimit::MAX).await.expect("events");
        for event in &batch.events {
            let message = Message::of(&event.record, epoch);
            all.insert(message.message_id.to_string(), sha256(&message.body));
        }
        after = batch.next;
        if !batch.is_full {
            return all;
        }
    }
}

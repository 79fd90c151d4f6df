//! A NATS server for measurements, with a consumer and a plain publisher.

use std::collections::VecDeque;
use std::time::Duration;

use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::consumer::pull::{Ordered, OrderedConfig};
use async_nats::jetstream::context::PublishAckFuture;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{Config, Stream};
use async_nats::jetstream::{self, Context};
use bytes::Bytes;
use futures_util::StreamExt as _;
use noetl_testkit::nats::NatsServer;
use noetl_types::ExecutionId;
use tokio::time::{Instant, sleep, timeout};

use crate::error::BenchError;

/// Stream that the product publishes to.
const STREAM_NAME: &str = "noetl_events";

/// Maximum time to wait for the broker.
const BROKER_TIMEOUT: Duration = Duration::from_mins(1);

/// Interval between two checks of a stream.
const STREAM_POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Maximum unacknowledged messages of a plain publisher.
const MAX_UNACKED_MESSAGES: usize = 1_000;

pub(crate) struct BenchBroker {
    server: NatsServer,
    jetstream: Context,
}

/// A published message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PublishedMessage {
    subject: String,
    message_id: String,
    body: Bytes,
}

/// New messages of a stream.
pub(crate) struct NewMessages(Ordered);

impl BenchBroker {
    pub(crate) async fn start() -> Result<Self, BenchError> {
        let started = tokio::task::spawn_blocking(NatsServer::start).await;
        let server = started.map_err(|error| BenchError::Harness(error.to_string()))??;
        let client = async_nats::connect(server.url()).await.map_err(broker_error)?;
        let jetstream = jetstream::new(client);
        Ok(Self { server, jetstream })
    }

    /// Address that the product connects to.
    pub(crate) fn url(&self) -> &str {
        self.server.url()
    }

    /// Number of messages in the product's stream, or 0 if the stream does not exist yet.
    pub(crate) async fn message_count(&self) -> u64 {
        match self.jetstream.get_stream(STREAM_NAME).await {
            Ok(stream) => stream.cached_info().state.messages,
            Err(_) => 0,
        }
    }

    /// Waits for the product's stream.
    async fn wait_for_stream(&self) -> Result<Stream, BenchError> {
        let started = Instant::now();
        loop {
            match self.jetstream.get_stream(STREAM_NAME).await {
                Ok(stream) => return Ok(stream),
                Err(error) if started.elapsed() > BROKER_TIMEOUT => {
                    return Err(broker_error(error));
                }
                Err(_) => sleep(STREAM_POLL_INTERVAL).await,
            }
        }
    }

    /// Consumes messages that are published from now on.
    pub(crate) async fn consume_new(&self) -> Result<NewMessages, BenchError> {
        Ok(NewMessages(self.create_consumer(DeliverPolicy::New).await?))
    }

    async fn create_consumer(&self, deliver_policy: DeliverPolicy) -> Result<Ordered, BenchError> {
        let config = OrderedConfig { deliver_policy, ..OrderedConfig::default() };
        let consumer = self.wait_for_stream().await?.create_consumer(config).await;
        consumer.map_err(broker_error)?.messages().await.map_err(broker_error)
    }

    /// Reads the first messages of the product's stream.
    pub(crate) async fn read_messages(
        &self,
        limit: usize,
    ) -> Result<Vec<PublishedMessage>, BenchError> {
        let limit =
            usize::try_from(self.message_count().await).map_or(limit, |count| limit.min(count));
        let mut messages = self.create_consumer(DeliverPolicy::All).await?;
        let mut read = Vec::with_capacity(limit);
        while read.len() < limit {
            let message = next_message(&mut messages).await?;
            read.push(PublishedMessage {
                subject: message.subject.to_string(),
                message_id: message_id(&message)?.to_owned(),
                body: message.payload.clone(),
            });
        }
        Ok(read)
    }

    /// Publishes messages without any other work, to a stream like that of the product, and waits
    /// for all acknowledgements.
    pub(crate) async fn publish_all(
        &self,
        messages: Vec<PublishedMessage>,
    ) -> Result<Duration, BenchError> {
        let config = Config {
            name: STREAM_NAME.to_owned(),
            subjects: vec!["noetl.events.>".to_owned()],
            max_age: Duration::from_hours(24),
            duplicate_window: Duration::from_mins(2),
            ..Config::default()
        };
        let created = self.jetstream.create_stream(config).await;
        created.map_err(broker_error)?;
        let started = Instant::now();
        let mut unacked: VecDeque<PublishAckFuture> = VecDeque::with_capacity(MAX_UNACKED_MESSAGES);
        for message in messages {
            if unacked.len() == MAX_UNACKED_MESSAGES
                && let Some(oldest) = unacked.pop_front()
            {
                oldest.await.map_err(broker_error)?;
            }
            let publish =
                PublishMessage::build().payload(message.body).message_id(message.message_id);
            let ack = self.jetstream.send_publish(message.subject, publish).await;
            unacked.push_back(ack.map_err(broker_error)?);
        }
        for ack in unacked {
            ack.await.map_err(broker_error)?;
        }
        Ok(started.elapsed())
    }
}

impl NewMessages {
    /// Waits for the first event of a run, and returns its time of arrival.
    pub(crate) async fn wait_for_first_event(
        &mut self,
        run: ExecutionId,
    ) -> Result<Instant, BenchError> {
        let suffix = format!(":{run}:1");
        loop {
            let message = next_message(&mut self.0).await?;
            let arrived = Instant::now();
            if message_id(&message)?.ends_with(&suffix) {
                return Ok(arrived);
            }
        }
    }
}

async fn next_message(messages: &mut Ordered) -> Result<jetstream::Message, BenchError> {
    let Ok(Some(message)) = timeout(BROKER_TIMEOUT, messages.next()).await else {
        let text = "the stream does not deliver its messages";
        return Err(BenchError::Harness(text.to_owned()));
    };
    message.map_err(broker_error)
}

/// Returns the `Nats-Msg-Id`: log epoch, execution id, seq.
fn message_id(message: &jetstream::Message) -> Result<&str, BenchError> {
    let headers = message.headers.as_ref();
    let id = headers.and_then(|headers| headers.get(async_nats::header::NATS_MESSAGE_ID));
    id.map(async_nats::HeaderValue::as_str)
        .ok_or_else(|| BenchError::Harness("a message has no id".to_owned()))
}

fn broker_error(error: impl std::error::Error) -> BenchError {
    BenchError::Harness(format!("NATS: {error}"))
}

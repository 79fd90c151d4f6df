//! A NATS server that is started for the occasion, seen as a consumer and as a plain publisher see it.

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
use noetl_testkit::nats::Nats;
use noetl_types::ExecutionId;
use tokio::time::{Instant, sleep, timeout};

use crate::error::BenchError;

/// The stream that the product publishes to.
const STREAM: &str = "noetl_events";

/// How long the broker may stay silent.
const PATIENCE: Duration = Duration::from_mins(1);

/// The pause between two looks at a stream.
const PAUSE: Duration = Duration::from_millis(2);

/// Messages of a plain publisher that are on their way at once.
const WINDOW: usize = 1_000;

/// A running broker.
pub(crate) struct Broker {
    server: Nats,
    jetstream: Context,
}

/// A message as it was published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sent {
    subject: String,
    message_id: String,
    body: Bytes,
}

/// The messages of a stream from now on.
pub(crate) struct Arrivals(Ordered);

impl Broker {
    /// Starts one.
    pub(crate) async fn start() -> Result<Self, BenchError> {
        let started = tokio::task::spawn_blocking(Nats::start).await;
        let server = started.map_err(|error| BenchError::Harness(error.to_string()))??;
        let client = async_nats::connect(server.url()).await.map_err(failed)?;
        let jetstream = jetstream::new(client);
        Ok(Self { server, jetstream })
    }

    /// Where the product connects to.
    pub(crate) fn url(&self) -> &str {
        self.server.url()
    }

    /// How many messages the product's stream has; none where there is no stream yet.
    pub(crate) async fn messages(&self) -> u64 {
        match self.jetstream.get_stream(STREAM).await {
            Ok(stream) => stream.cached_info().state.messages,
            Err(_) => 0,
        }
    }

    /// The product's stream, once there is one.
    async fn stream(&self) -> Result<Stream, BenchError> {
        let began = Instant::now();
        loop {
            match self.jetstream.get_stream(STREAM).await {
                Ok(stream) => return Ok(stream),
                Err(error) if began.elapsed() > PATIENCE => return Err(failed(error)),
                Err(_) => sleep(PAUSE).await,
            }
        }
    }

    /// Becomes a consumer of what is published from now on.
    pub(crate) async fn follow(&self) -> Result<Arrivals, BenchError> {
        Ok(Arrivals(self.consumer(DeliverPolicy::New).await?))
    }

    async fn consumer(&self, deliver_policy: DeliverPolicy) -> Result<Ordered, BenchError> {
        let config = OrderedConfig {
            deliver_policy,
            ..OrderedConfig::default()
        };
        let consumer = self.stream().await?.create_consumer(config).await;
        consumer.map_err(failed)?.messages().await.map_err(failed)
    }

    /// The first messages of the product's stream.
    pub(crate) async fn read(&self, most: usize) -> Result<Vec<Sent>, BenchError> {
        let most = usize::try_from(self.messages().await).map_or(most, |there| most.min(there));
        let mut messages = self.consumer(DeliverPolicy::All).await?;
        let mut read = Vec::with_capacity(most);
        while read.len() < most {
            let message = next(&mut messages).await?;
            read.push(Sent {
                subject: message.subject.to_string(),
                message_id: id_of(&message)?.to_owned(),
                body: message.payload.clone(),
            });
        }
        Ok(read)
    }

    /// Publishes messages as plainly as can be, to a stream like that of the product, and waits for
    /// all acknowledgements.
    pub(crate) async fn publish(&self, messages: Vec<Sent>) -> Result<Duration, BenchError> {
        let config = Config {
            name: STREAM.to_owned(),
            subjects: vec!["noetl.events.>".to_owned()],
            max_age: Duration::from_hours(24),
            duplicate_window: Duration::from_mins(2),
            ..Config::default()
        };
        let made = self.jetstream.create_stream(config).await;
        made.map_err(failed)?;
        let began = Instant::now();
        let mut open: VecDeque<PublishAckFuture> = VecDeque::with_capacity(WINDOW);
        for message in messages {
            if open.len() == WINDOW
                && let Some(oldest) = open.pop_front()
            {
                oldest.await.map_err(failed)?;
            }
            let publish = PublishMessage::build()
                .payload(message.body)
                .message_id(message.message_id);
            let sent = self.jetstream.send_publish(message.subject, publish).await;
            open.push_back(sent.map_err(failed)?);
        }
        for acknowledged in open {
            acknowledged.await.map_err(failed)?;
        }
        Ok(began.elapsed())
    }
}

impl Arrivals {
    /// Waits for the first event of a run, and says when it was there.
    pub(crate) async fn begin_of(&mut self, run: ExecutionId) -> Result<Instant, BenchError> {
        let wanted = format!(":{run}:1");
        loop {
            let message = next(&mut self.0).await?;
            let arrived = Instant::now();
            if id_of(&message)?.ends_with(&wanted) {
                return Ok(arrived);
            }
        }
    }
}

async fn next(messages: &mut Ordered) -> Result<jetstream::Message, BenchError> {
    let Ok(Some(message)) = timeout(PATIENCE, messages.next()).await else {
        let text = "the stream does not give its messages";
        return Err(BenchError::Harness(text.to_owned()));
    };
    message.map_err(failed)
}

/// The `Nats-Msg-Id`: life of the log, run, place.
fn id_of(message: &jetstream::Message) -> Result<&str, BenchError> {
    let headers = message.headers.as_ref();
    let id = headers.and_then(|headers| headers.get(async_nats::header::NATS_MESSAGE_ID));
    id.map(async_nats::HeaderValue::as_str)
        .ok_or_else(|| BenchError::Harness("a message without an id".to_owned()))
}

fn failed(error: impl std::error::Error) -> BenchError {
    BenchError::Harness(format!("NATS: {error}"))
}

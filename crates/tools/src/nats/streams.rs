//! Messages of streams.

use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::consumer::pull::Config as Pull;
use async_nats::jetstream::consumer::{AckPolicy, Consumer};
use async_nats::jetstream::context::{GetStreamErrorKind, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{RawMessageErrorKind, Stream};
use async_nats::jetstream::{self, Context};
use futures_util::StreamExt as _;
use noetl_types::{ByteSize, Json, TaskError, TaskErrorKind, Timestamp};

use super::fault::{failed, illegal, is_missing, not_found};
use super::value::{bytes, check_size, headers, value};
use super::{Talk, number, required, success};

/// Messages that one call takes at most, and what it takes unless it says so.
const MOST_MESSAGES: u64 = 1_000;
const SOME_MESSAGES: u64 = 10;

/// How long a call waits for messages at most, in milliseconds, and how long unless it says so.
const LONGEST_WAIT: u64 = 5_000;
const USUAL_WAIT: u64 = 1_000;

/// The header by which a server knows a message that it has already.
const MESSAGE_ID: &str = "Nats-Msg-Id";

/// What to fetch.
pub(crate) struct Fetch<'f> {
    pub(crate) stream: &'f str,
    pub(crate) consumer: &'f str,
    pub(crate) batch: u64,
    pub(crate) patience: Duration,
    pub(crate) most_bytes: ByteSize,
}

/// A message that was fetched.
pub(crate) struct Fetched {
    pub(crate) message: jetstream::Message,
    /// It as a task gets it.
    pub(crate) told: Json,
    /// What acknowledges it.
    pub(crate) ack_id: String,
}

impl Talk<'_> {
    pub(super) async fn js_publish(&self) -> Result<Json, TaskError> {
        let subject = required(self.config, "subject")?;
        if !async_nats::Subject::from(subject).is_valid() || subject.contains(['*', '>']) {
            return Err(illegal("subject", subject));
        }
        let data = bytes(self.config.0.get("data").unwrap_or(&Json::Null));
        let mut named = HeaderMap::new();
        for (name, text) in self.config.texts("headers")? {
            let header = name.parse::<async_nats::HeaderName>();
            let header = header.map_err(|_| illegal("header", &name))?;
            let value = text.parse::<async_nats::HeaderValue>();
            named.insert(
                header,
                value.map_err(|_| illegal("value of a header", &name))?,
            );
        }
        if named.get(MESSAGE_ID).is_none() {
            // The same over retries and lost workers, so that a second try adds nothing.
            named.insert(MESSAGE_ID, &*self.call.idempotency_key);
        }
        let publish = PublishMessage::build().payload(data).headers(named);
        let sent = self
            .jetstream
            .send_publish(subject.to_owned(), publish)
            .await;
        let refused = |error: &jetstream::context::PublishError| match error.kind() {
            PublishErrorKind::StreamNotFound => not_found("stream for the subject", subject),
            PublishErrorKind::MaxPayloadExceeded => TaskError::new(
                TaskErrorKind::Limit,
                "the message is larger than the server takes",
            ),
            _ => failed("the message cannot be published", error),
        };
        let stored = sent.map_err(|error| refused(&error))?.await;
        let stored = stored.map_err(|error| refused(&error))?;
        Ok(success([
            ("subject", Json::from(subject)),
            ("stream", Json::from(stored.stream)),
            ("seq", Json::from(stored.sequence)),
            ("duplicate", Json::from(stored.duplicate)),
        ]))
    }

    pub(super) async fn js_consume(&self) -> Result<Json, TaskError> {
        let (stream, consumer) = (
            required(self.config, "stream")?,
            required(self.config, "consumer")?,
        );
        let wish = Fetch {
            stream,
            consumer,
            batch: number(self.config, "batch", 1..=MOST_MESSAGES)?.unwrap_or(SOME_MESSAGES),
            patience: long_enough(self.config, USUAL_WAIT)?,
            most_bytes: self.settings.payload_cap,
        };
        let wants_ack = self.config.flag("ack")?.unwrap_or(true);
        let fetched = fetch(&self.jetstream, &wish).await?;
        let acked = if wants_ack {
            acknowledge(&fetched).await?
        } else {
            0
        };
        let messages: Vec<Json> = fetched.into_iter().map(|one| one.told).collect();
        Ok(success([
            ("stream", Json::from(stream)),
            ("consumer", Json::from(consumer)),
            ("count", Json::from(messages.len())),
            ("acked", Json::from(acked)),
            ("messages", Json::list(messages)),
        ]))
    }

    pub(super) async fn js_get_msg(&self) -> Result<Json, TaskError> {
        let name = required(self.config, "stream")?;
        let seq = number(self.config, "seq", 1..=u64::MAX)?;
        let stream = open(&self.jetstream, name).await?;
        let subject = match self.config.get("last") {
            Some(Json::Str(subject)) if !matches!(&**subject, "true" | "false") => Some(&**subject),
            _ => self.config.text("subject")?,
        };
        let found =
            match (seq, subject) {
                (Some(seq), _) => stream
                    .get_raw_message(seq)
                    .await
                    .map_err(|error| match error.kind() {
                        RawMessageErrorKind::NoMessageFound => {
                            not_found("message", &seq.to_string())
                        }
                        RawMessageErrorKind::JetStream(refused) if is_missing(&refused) => {
                            not_found("message", &seq.to_string())
                        }
                        _ => failed("the message cannot be read", &error),
                    })?,
                (None, subject) => {
                    let subject = subject.unwrap_or(">");
                    let last = stream.get_last_raw_message_by_subject(subject).await;
                    last.map_err(|error| match error.kind() {
                        RawMessageErrorKind::NoMessageFound => not_found("message on", subject),
                        RawMessageErrorKind::JetStream(refused) if is_missing(&refused) => {
                            not_found("message on", subject)
                        }
                        _ => failed("the message cannot be read", &error),
                    })?
                }
            };
        check_size(found.payload.len(), self.settings.payload_cap)?;
        Ok(success([
            ("stream", Json::from(name)),
            ("seq", Json::from(found.sequence)),
            ("subject", Json::from(found.subject.as_str())),
            ("data", value(&found.payload)),
            ("headers", headers(Some(&found.headers))),
            ("timestamp", time(found.time.unix_timestamp_nanos())),
        ]))
    }

    pub(super) async fn js_stream_info(&self) -> Result<Json, TaskError> {
        let name = required(self.config, "stream")?;
        let stream = open(&self.jetstream, name).await?;
        let info = stream.cached_info();
        let consumers = u64::try_from(info.state.consumer_count).unwrap_or(u64::MAX);
        Ok(success([
            ("stream", Json::from(name)),
            (
                "subjects",
                Json::list(info.config.subjects.iter().map(|it| Json::from(&**it))),
            ),
            ("messages", Json::from(info.state.messages)),
            ("bytes", Json::from(info.state.bytes)),
            ("first_seq", Json::from(info.state.first_sequence)),
            ("last_seq", Json::from(info.state.last_sequence)),
            ("consumers", Json::from(consumers)),
            ("created", time(info.created.unix_timestamp_nanos())),
        ]))
    }

    /// Whether a stream is there.
    pub(super) async fn has_stream(&self, name: &str) -> Result<bool, TaskError> {
        match open(&self.jetstream, name).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind == TaskErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// How long a call waits for messages.
pub(crate) fn long_enough(
    config: crate::config::Config<'_>,
    usual: u64,
) -> Result<Duration, TaskError> {
    let given = number(config, "timeout_ms", 1..=LONGEST_WAIT)?;
    Ok(Duration::from_millis(given.unwrap_or(usual)))
}

/// Takes messages from a durable consumer, which is made where it is missing. Nothing is
/// acknowledged yet.
pub(crate) async fn fetch(
    jetstream: &Context,
    wish: &Fetch<'_>,
) -> Result<Vec<Fetched>, TaskError> {
    let stream = open(jetstream, wish.stream).await?;
    let durable = Pull {
        durable_name: Some(wish.consumer.to_owned()),
        ack_policy: AckPolicy::Explicit,
        ..Pull::default()
    };
    let consumer: Result<Consumer<Pull>, _> =
        stream.get_or_create_consumer(wish.consumer, durable).await;
    let consumer = consumer.map_err(|error| failed("the consumer cannot be used", &error))?;
    let unreadable = |error: &dyn std::error::Error| failed("messages cannot be fetched", error);
    let batch = consumer
        .batch()
        .max_messages(usize::try_from(wish.batch).unwrap_or(1))
        .expires(wish.patience)
        .messages()
        .await;
    let mut batch = batch.map_err(|error| unreadable(&error))?;
    let (mut fetched, mut bytes) = (Vec::new(), 0);
    while let Some(message) = batch.next().await {
        let message = message.map_err(|error| unreadable(&*error))?;
        bytes += message.payload.len();
        check_size(bytes, wish.most_bytes)?;
        fetched.push(told(message)?);
    }
    Ok(fetched)
}

/// Acknowledges messages in their order; gives how many of them.
pub(crate) async fn acknowledge(fetched: &[Fetched]) -> Result<usize, TaskError> {
    count_settled(fetched.iter().map(async |one| {
        let acked = one.message.double_ack().await;
        acked.map_err(|error| failed("a message cannot be acknowledged", &*error))
    }))
    .await
}

/// How many of some orders were carried out until one could not be. Only of the first is that an
/// error: a server has forgotten the messages before, so that nobody would ever see them, while
/// those from there on come again.
async fn count_settled<F>(orders: impl Iterator<Item = F>) -> Result<usize, TaskError>
where
    F: Future<Output = Result<(), TaskError>>,
{
    let mut count = 0;
    for order in orders {
        match order.await {
            Ok(()) => count += 1,
            Err(error) if count == 0 => return Err(error),
            Err(error) => {
                tracing::warn!("{} after {count} of a batch: {}", error.kind, error.message);
                break;
            }
        }
    }
    Ok(count)
}

fn told(message: jetstream::Message) -> Result<Fetched, TaskError> {
    let info = message
        .info()
        .map_err(|error| failed("a message cannot be read", &*error))?;
    let reply = message.reply.as_ref();
    let ack_id = reply.map_or_else(String::new, ToString::to_string);
    let headers = headers(message.headers.as_ref());
    let id = headers.get(MESSAGE_ID).cloned();
    let told = Json::object([
        (
            "id",
            id.unwrap_or_else(|| Json::from(info.stream_sequence.to_string())),
        ),
        ("subject", Json::from(message.subject.as_str())),
        ("seq", Json::from(info.stream_sequence)),
        ("delivered", Json::from(info.delivered)),
        ("timestamp", time(info.published.unix_timestamp_nanos())),
        ("headers", headers),
        ("data", value(&message.payload)),
        ("ack_id", Json::from(&*ack_id)),
    ]);
    Ok(Fetched {
        message,
        told,
        ack_id,
    })
}

/// A stream that has to be there.
async fn open(jetstream: &Context, name: &str) -> Result<Stream, TaskError> {
    let found = jetstream.get_stream(name).await;
    found.map_err(|error| match error.kind() {
        GetStreamErrorKind::JetStream(refused) if is_missing(&refused) => not_found("stream", name),
        GetStreamErrorKind::EmptyName | GetStreamErrorKind::InvalidStreamName => {
            illegal("stream", name)
        }
        _ => failed("the stream cannot be used", &error),
    })
}

fn time(nanos: i128) -> Json {
    let micros = i64::try_from(nanos / 1_000).ok();
    let time = micros.and_then(|micros| Timestamp::from_micros(micros).ok());
    Json::from(time.map(|time| time.to_string()))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// What is acknowledged is given, whatever becomes of the rest.
    #[tokio::test]
    async fn an_acknowledgement_that_fails_ends_them_and_loses_none() {
        let counted = async |fails_at: usize| {
            let asked = Cell::new(0);
            let order = async |number: usize| {
                asked.set(asked.get() + 1);
                if number == fails_at {
                    return Err(TaskError::new(TaskErrorKind::Timeout, "no answer"));
                }
                Ok(())
            };
            let counted = count_settled((0..4).map(order)).await;
            (counted.map_err(|error| error.kind), asked.get())
        };
        assert_eq!(counted(0).await, (Err(TaskErrorKind::Timeout), 1));
        assert_eq!(counted(1).await, (Ok(1), 2));
        assert_eq!(counted(3).await, (Ok(3), 4));
        assert_eq!(counted(4).await, (Ok(4), 4));
    }
}

//! Operations on streams and their messages.

use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::consumer::pull::Config as PullConfig;
use async_nats::jetstream::consumer::{AckPolicy, Consumer};
use async_nats::jetstream::context::{GetStreamErrorKind, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{RawMessageErrorKind, Stream};
use async_nats::jetstream::{self, Context};
use futures_util::StreamExt as _;
use noetl_types::{ByteSize, Json, TaskError, TaskErrorKind, Timestamp};

use super::{NatsRequest, success_result};
use super::{NatsResult as _, invalid_name, is_not_found, nats_error, not_found};
use super::{check_payload_size, decode_payload, encode_payload, headers_to_json};
use crate::config::Config;

/// Maximum and default number of messages per call.
const MAX_FETCH_MESSAGES: u64 = 1_000;
const DEFAULT_FETCH_MESSAGES: u64 = 10;

/// Maximum and default wait time for messages, in milliseconds.
const MAX_WAIT_MS: u64 = 3_600_000;
const DEFAULT_WAIT_MS: u64 = 1_000;

/// Header with which a server detects duplicate messages.
const MESSAGE_ID_HEADER: &str = "Nats-Msg-Id";

pub(crate) struct FetchRequest<'f> {
    pub(crate) stream: &'f str,
    pub(crate) consumer: &'f str,
    pub(crate) batch: u64,
    pub(crate) max_wait: Duration,
    pub(crate) max_bytes: ByteSize,
}

pub(crate) struct FetchedMessage {
    pub(crate) message: jetstream::Message,
    /// Message in the form that a task receives.
    pub(crate) json: Json,
    /// Subject that acknowledges the message.
    pub(crate) ack_id: String,
}

impl NatsRequest<'_> {
    pub(super) async fn js_publish(&self) -> Result<Json, TaskError> {
        let subject = self.config.required_text("subject")?;
        if !async_nats::Subject::from(subject).is_valid() || subject.contains(['*', '>']) {
            return Err(invalid_name("subject", subject));
        }
        let data = encode_payload(self.config.0.get("data").unwrap_or(&Json::Null));
        let mut header_map = HeaderMap::new();
        for (name, text) in self.config.text_map("headers")? {
            let header = name.parse::<async_nats::HeaderName>();
            let header = header.map_err(|_| invalid_name("header", &name))?;
            let value = text.parse::<async_nats::HeaderValue>();
            header_map.insert(header, value.map_err(|_| invalid_name("header value", &name))?);
        }
        if header_map.get(MESSAGE_ID_HEADER).is_none() {
            // The key is the same across retries and lost workers, so that a second attempt adds
            // nothing.
            header_map.insert(MESSAGE_ID_HEADER, &*self.call.idempotency_key);
        }
        let publish = PublishMessage::build().payload(data).headers(header_map);
        let ack = self.jetstream.send_publish(subject.to_owned(), publish).await;
        let publish_error = |error: &jetstream::context::PublishError| match error.kind() {
            PublishErrorKind::StreamNotFound => not_found("stream for the subject", subject),
            PublishErrorKind::MaxPayloadExceeded => {
                TaskError::new(TaskErrorKind::Limit, "the message is larger than the server allows")
            }
            _ => nats_error("the message cannot be published", error),
        };
        let receipt = ack.map_err(|error| publish_error(&error))?.await;
        let receipt = receipt.map_err(|error| publish_error(&error))?;
        Ok(success_result([
            ("subject", Json::from(subject)),
            ("stream", Json::from(receipt.stream)),
            ("seq", Json::from(receipt.sequence)),
            ("duplicate", Json::from(receipt.duplicate)),
        ]))
    }

    pub(super) async fn js_consume(&self) -> Result<Json, TaskError> {
        let (stream, consumer) =
            (self.config.required_text("stream")?, self.config.required_text("consumer")?);
        let request = FetchRequest {
            stream,
            consumer,
            batch: self
                .config
                .number("batch", 1..=MAX_FETCH_MESSAGES)?
                .unwrap_or(DEFAULT_FETCH_MESSAGES),
            max_wait: read_wait_time(self.config, DEFAULT_WAIT_MS)?,
            max_bytes: self.settings.payload_cap,
        };
        let wants_ack = self.config.flag("ack")?.unwrap_or(true);
        let fetched = fetch_messages(&self.jetstream, &request).await?;
        let acked = if wants_ack { acknowledge_all(&fetched).await? } else { 0 };
        let messages: Vec<Json> = fetched.into_iter().map(|message| message.json).collect();
        Ok(success_result([
            ("stream", Json::from(stream)),
            ("consumer", Json::from(consumer)),
            ("count", Json::from(messages.len())),
            ("acked", Json::from(acked)),
            ("messages", Json::list(messages)),
        ]))
    }

    pub(super) async fn js_get_msg(&self) -> Result<Json, TaskError> {
        let name = self.config.required_text("stream")?;
        let seq = self.config.number("seq", 1..=u64::MAX)?;
        let stream = open_stream(&self.jetstream, name).await?;
        let subject = match self.config.get("last") {
            Some(Json::Str(subject)) if !matches!(&**subject, "true" | "false") => Some(&**subject),
            _ => self.config.text("subject")?,
        };
        let (message, missing) = if let Some(seq) = seq {
            (stream.get_raw_message(seq).await, not_found("message", &seq.to_string()))
        } else {
            let subject = subject.unwrap_or(">");
            let last = stream.get_last_raw_message_by_subject(subject).await;
            (last, not_found("message on", subject))
        };
        let message = message.map_err(|error| match error.kind() {
            RawMessageErrorKind::NoMessageFound => missing,
            RawMessageErrorKind::JetStream(inner) if is_not_found(&inner) => missing,
            _ => nats_error("the message cannot be read", &error),
        })?;
        check_payload_size(message.payload.len(), self.settings.payload_cap)?;
        Ok(success_result([
            ("stream", Json::from(name)),
            ("seq", Json::from(message.sequence)),
            ("subject", Json::from(message.subject.as_str())),
            ("data", decode_payload(&message.payload)),
            ("headers", headers_to_json(Some(&message.headers))),
            ("timestamp", format_time(message.time.unix_timestamp_nanos())),
        ]))
    }

    pub(super) async fn js_stream_info(&self) -> Result<Json, TaskError> {
        let name = self.config.required_text("stream")?;
        let stream = open_stream(&self.jetstream, name).await?;
        let info = stream.cached_info();
        let subjects = info.config.subjects.iter().map(|subject| Json::from(&**subject));
        Ok(success_result([
            ("stream", Json::from(name)),
            ("subjects", Json::list(subjects)),
            ("messages", Json::from(info.state.messages)),
            ("bytes", Json::from(info.state.bytes)),
            ("first_seq", Json::from(info.state.first_sequence)),
            ("last_seq", Json::from(info.state.last_sequence)),
            ("consumers", Json::from(info.state.consumer_count)),
            ("created", format_time(info.created.unix_timestamp_nanos())),
        ]))
    }
}

pub(crate) fn read_wait_time(config: Config<'_>, default_ms: u64) -> Result<Duration, TaskError> {
    let requested = config.number("timeout_ms", 1..=MAX_WAIT_MS)?;
    Ok(Duration::from_millis(requested.unwrap_or(default_ms)))
}

/// Fetches messages from a durable consumer, which is created if it does not exist. Nothing is
/// acknowledged yet.
pub(crate) async fn fetch_messages(
    jetstream: &Context,
    request: &FetchRequest<'_>,
) -> Result<Vec<FetchedMessage>, TaskError> {
    const FETCH_FAILED: &str = "messages cannot be fetched";
    let stream = open_stream(jetstream, request.stream).await?;
    let durable = PullConfig {
        durable_name: Some(request.consumer.to_owned()),
        ack_policy: AckPolicy::Explicit,
        ..PullConfig::default()
    };
    let consumer: Result<Consumer<PullConfig>, _> =
        stream.get_or_create_consumer(request.consumer, durable).await;
    let consumer = consumer.or_fail("the consumer cannot be opened")?;
    let batch = consumer
        .batch()
        .max_messages(usize::try_from(request.batch).unwrap_or(1))
        .expires(request.max_wait)
        .messages()
        .await;
    let mut batch = batch.or_fail(FETCH_FAILED)?;
    let (mut fetched, mut bytes) = (Vec::new(), 0);
    while let Some(message) = batch.next().await {
        let message = message.map_err(|error| nats_error(FETCH_FAILED, &*error))?;
        bytes += message.payload.len();
        check_payload_size(bytes, request.max_bytes)?;
        fetched.push(to_fetched_message(message)?);
    }
    Ok(fetched)
}

/// Acknowledges messages in order. Returns the number of acknowledged messages.
pub(crate) async fn acknowledge_all(fetched: &[FetchedMessage]) -> Result<usize, TaskError> {
    count_acknowledged(fetched.iter().map(async |message| {
        let acked = message.message.double_ack().await;
        acked.map_err(|error| nats_error("a message cannot be acknowledged", &*error))
    }))
    .await
}

/// Runs acknowledgements until one fails and returns the number that succeeded. A failure is an
/// error only if it is the first. The server never delivers acknowledged messages again, so an
/// error would lose them, while the remaining ones are redelivered.
async fn count_acknowledged<F>(acks: impl Iterator<Item = F>) -> Result<usize, TaskError>
where
    F: Future<Output = Result<(), TaskError>>,
{
    let mut count = 0;
    for ack in acks {
        match ack.await {
            Ok(()) => count += 1,
            Err(error) if count == 0 => return Err(error),
            Err(error) => {
                tracing::warn!(
                    "{} after {count} acknowledged messages of a batch: {}",
                    error.kind,
                    error.message
                );
                break;
            }
        }
    }
    Ok(count)
}

fn to_fetched_message(message: jetstream::Message) -> Result<FetchedMessage, TaskError> {
    let info = message.info().map_err(|error| nats_error("a message cannot be read", &*error))?;
    let reply = message.reply.as_ref();
    let ack_id = reply.map_or_else(String::new, ToString::to_string);
    let headers = headers_to_json(message.headers.as_ref());
    let id = headers.get(MESSAGE_ID_HEADER).cloned();
    let json = Json::object([
        ("id", id.unwrap_or_else(|| Json::from(info.stream_sequence.to_string()))),
        ("subject", Json::from(message.subject.as_str())),
        ("seq", Json::from(info.stream_sequence)),
        ("delivered", Json::from(info.delivered)),
        ("timestamp", format_time(info.published.unix_timestamp_nanos())),
        ("headers", headers),
        ("data", decode_payload(&message.payload)),
        ("ack_id", Json::from(&*ack_id)),
    ]);
    Ok(FetchedMessage { message, json, ack_id })
}

/// Opens an existing stream.
pub(super) async fn open_stream(jetstream: &Context, name: &str) -> Result<Stream, TaskError> {
    let stream = jetstream.get_stream(name).await;
    stream.map_err(|error| match error.kind() {
        GetStreamErrorKind::JetStream(inner) if is_not_found(&inner) => not_found("stream", name),
        GetStreamErrorKind::EmptyName | GetStreamErrorKind::InvalidStreamName => {
            invalid_name("stream", name)
        }
        _ => nats_error("the stream cannot be opened", &error),
    })
}

fn format_time(nanos: i128) -> Json {
    let micros = i64::try_from(nanos / 1_000).ok();
    let time = micros.and_then(|micros| Timestamp::from_micros(micros).ok());
    Json::from(time.map(|time| time.to_string()))
}

#[cfg(test)]
mod tests;

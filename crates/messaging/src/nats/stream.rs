//! Creation and inspection of streams.

use std::collections::HashSet;
use std::time::Duration;

use async_nats::jetstream::consumer::pull::{Config as PullConfig, OrderedConfig};
use async_nats::jetstream::consumer::{AckPolicy, Consumer, DeliverPolicy};
use async_nats::jetstream::context::GetStreamErrorKind;
use async_nats::jetstream::stream::{
    Config, Info, RawMessageErrorKind, RetentionPolicy, StorageType,
};
use async_nats::jetstream::{self, ErrorCode};
use bytes::Bytes;
use futures_util::StreamExt as _;
use noetl_types::Timestamp;

use super::connection::NatsConnection;
use super::error::NatsError;

/// Maximum silence of a stream while it is read.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Configuration of a stream that is created if it does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamSpec {
    /// Name of the stream.
    pub name: &'static str,
    /// Subjects of the stream. Added to an existing stream if missing.
    pub subjects: &'static [&'static str],
    /// Maximum age of a message.
    pub max_age: Duration,
    /// Window for deduplication by message id.
    pub duplicate_window: Duration,
}

/// Configuration of a durable consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerSpec {
    /// Name of the consumer.
    pub name: &'static str,
    /// Time to acknowledge a message before it is redelivered.
    pub ack_wait: Duration,
    /// Maximum deliveries of a message.
    pub max_deliver: i64,
}

/// State of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamInfo {
    /// Creation time. A different time means a different stream.
    pub created_at: Timestamp,
    /// Sequence number of the first message.
    pub first_sequence: u64,
    /// Sequence number of the last message.
    pub last_sequence: u64,
    /// Number of messages.
    pub messages: u64,
    /// Size of the messages in bytes.
    pub bytes: u64,
    /// Maximum age of a message; zero is unlimited.
    pub max_age: Duration,
    /// Window for deduplication by message id.
    pub duplicate_window: Duration,
    /// True if the stream is stored on disk, so that it survives a restart of the broker.
    pub is_on_disk: bool,
    /// Policy by which messages are removed.
    pub retention: MessageRetention,
}

/// A message of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamedMessage {
    /// Message id, if it has one.
    pub message_id: Option<String>,
    /// Body of the message.
    pub body: Bytes,
}

/// Policy by which a stream removes messages, apart from explicit deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageRetention {
    /// Messages are removed by age only.
    AgeOnly,
    /// Messages are also removed when a size or count limit is reached.
    Limits,
    /// Messages are removed when consumers acknowledge them.
    Consumption,
}

impl NatsConnection {
    /// Creates a stream if it does not exist, and adds missing subjects to an existing one. Limits
    /// of an existing stream are not changed, because an operator may have set them deliberately.
    pub async fn ensure_stream(&self, spec: &StreamSpec) -> Result<StreamInfo, NatsError> {
        let info = match self.jetstream.get_stream(spec.name).await {
            Ok(stream) => stream.cached_info().clone(),
            Err(error) if is_stream_missing(&error.kind()) => self.create_stream(spec).await?,
            Err(error) => return Err(NatsError::from_error(&error)),
        };
        let missing: Vec<String> = spec
            .subjects
            .iter()
            .filter(|subject| {
                !info.config.subjects.iter().any(|existing| subject_covers(existing, subject))
            })
            .map(|subject| (*subject).to_owned())
            .collect();
        if missing.is_empty() {
            return to_stream_info(&info);
        }
        tracing::info!(stream = spec.name, ?missing, "adding subjects to the stream");
        let mut config = info.config;
        // A subject that a new one covers must not be listed in addition.
        config.subjects.retain(|existing| !missing.iter().any(|new| subject_covers(new, existing)));
        config.subjects.extend(missing);
        let updated = self.jetstream.update_stream(config).await;
        to_stream_info(&updated.map_err(|error| NatsError::from_error(&error))?)
    }

    async fn create_stream(&self, spec: &StreamSpec) -> Result<Info, NatsError> {
        let config = Config {
            name: spec.name.to_owned(),
            subjects: spec.subjects.iter().map(|subject| (*subject).to_owned()).collect(),
            storage: StorageType::File,
            max_age: spec.max_age,
            duplicate_window: spec.duplicate_window,
            ..Config::default()
        };
        // Another server may create the same stream concurrently, which has the same effect.
        let created = self.jetstream.get_or_create_stream(config).await;
        let created = created.map_err(|error| NatsError::from_error(&error))?;
        Ok(created.cached_info().clone())
    }

    /// Creates a consumer for all messages of a stream if it does not exist. An existing one is
    /// used as it is. Returns false if the stream does not exist.
    pub async fn ensure_consumer(
        &self,
        stream: &str,
        spec: &ConsumerSpec,
    ) -> Result<bool, NatsError> {
        let stream = match self.jetstream.get_stream(stream).await {
            Ok(stream) => stream,
            Err(error) if is_stream_missing(&error.kind()) => return Ok(false),
            Err(error) => return Err(NatsError::from_error(&error)),
        };
        let config = PullConfig {
            durable_name: Some(spec.name.to_owned()),
            ack_policy: AckPolicy::Explicit,
            ack_wait: spec.ack_wait,
            max_deliver: spec.max_deliver,
            ..PullConfig::default()
        };
        let created: Result<Consumer<PullConfig>, _> =
            stream.get_or_create_consumer(spec.name, config).await;
        created.map_err(|error| NatsError::from_error(&error))?;
        Ok(true)
    }

    /// Returns the state of a stream; `None` if it does not exist.
    pub async fn stream_info(&self, name: &str) -> Result<Option<StreamInfo>, NatsError> {
        match self.jetstream.get_stream(name).await {
            Ok(stream) => to_stream_info(stream.cached_info()).map(Some),
            Err(error) if is_stream_missing(&error.kind()) => Ok(None),
            Err(error) => Err(NatsError::from_error(&error)),
        }
    }

    /// Returns a message by its sequence number; `None` if the stream no longer has it.
    pub async fn find_message(
        &self,
        name: &str,
        sequence: u64,
    ) -> Result<Option<StreamedMessage>, NatsError> {
        let stream = self.jetstream.get_stream_no_info(name).await;
        let stream = stream.map_err(|error| NatsError::from_error(&error))?;
        match stream.get_raw_message(sequence).await {
            Ok(message) => Ok(Some(StreamedMessage {
                message_id: message
                    .headers
                    .get(async_nats::header::NATS_MESSAGE_ID)
                    .map(|id| id.as_str().to_owned()),
                body: message.payload,
            })),
            Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(NatsError::from_error(&error)),
        }
    }

    /// Returns the ids of the messages in a range of sequence numbers.
    pub async fn message_ids(
        &self,
        name: &str,
        first: u64,
        last: u64,
    ) -> Result<HashSet<String>, NatsError> {
        let mut ids = HashSet::new();
        if first > last {
            return Ok(ids);
        }
        let stream = self.jetstream.get_stream_no_info(name).await;
        let stream = stream.map_err(|error| NatsError::from_error(&error))?;
        let consumer = stream
            .create_consumer(OrderedConfig {
                deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: first.max(1) },
                headers_only: true,
                ..OrderedConfig::default()
            })
            .await
            .map_err(|error| NatsError::from_error(&error))?;
        let messages = consumer.messages().await;
        let mut messages = messages.map_err(|error| NatsError::from_error(&error))?;
        loop {
            let Ok(Some(message)) = tokio::time::timeout(READ_TIMEOUT, messages.next()).await
            else {
                return Err(NatsError::from_text(
                    "the stream did not deliver its messages in time",
                ));
            };
            let message = message.map_err(|error| NatsError::from_error(&error))?;
            if let Some(id) = message_id(&message) {
                ids.insert(id);
            }
            let Ok(info) = message.info() else {
                return Err(NatsError::from_text("a message has no stream sequence number"));
            };
            if info.stream_sequence >= last || info.pending == 0 {
                return Ok(ids);
            }
        }
    }
}

fn message_id(message: &jetstream::Message) -> Option<String> {
    let headers = message.headers.as_ref()?;
    let id = headers.get(async_nats::header::NATS_MESSAGE_ID)?;
    Some(id.as_str().to_owned())
}

fn is_stream_missing(kind: &GetStreamErrorKind) -> bool {
    matches!(kind, GetStreamErrorKind::JetStream(error)
        if error.error_code() == ErrorCode::STREAM_NOT_FOUND)
}

fn to_stream_info(info: &Info) -> Result<StreamInfo, NatsError> {
    let micros = i64::try_from(info.created.unix_timestamp_nanos() / 1_000).ok();
    let created_at = micros.and_then(|micros| Timestamp::from_micros(micros).ok());
    Ok(StreamInfo {
        created_at: created_at
            .ok_or_else(|| NatsError::from_text("the creation time of the stream is invalid"))?,
        first_sequence: info.state.first_sequence,
        last_sequence: info.state.last_sequence,
        messages: info.state.messages,
        bytes: info.state.bytes,
        max_age: info.config.max_age,
        duplicate_window: info.config.duplicate_window,
        is_on_disk: info.config.storage == StorageType::File,
        retention: classify_retention(&info.config),
    })
}

fn classify_retention(config: &Config) -> MessageRetention {
    let bounds = [config.max_messages, config.max_bytes, config.max_messages_per_subject];
    match config.retention {
        RetentionPolicy::Interest | RetentionPolicy::WorkQueue => MessageRetention::Consumption,
        RetentionPolicy::Limits if bounds.iter().any(|bound| *bound > 0) => {
            MessageRetention::Limits
        }
        RetentionPolicy::Limits => MessageRetention::AgeOnly,
    }
}

/// True if a subject pattern covers all subjects of another one.
fn subject_covers(pattern: &str, subject: &str) -> bool {
    let (mut pattern, mut subject) = (pattern.split('.'), subject.split('.'));
    loop {
        match (pattern.next(), subject.next()) {
            (Some(">"), Some(_)) | (None, None) => return true,
            (Some("*"), Some(token)) if token != ">" => {}
            (Some(left), Some(right)) if left == right => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests;

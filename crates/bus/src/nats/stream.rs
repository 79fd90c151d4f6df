//! Streams: made where they are missing, and looked at.

use std::collections::HashSet;
use std::time::Duration;

use async_nats::jetstream::consumer::pull::{Config as PullConfig, OrderedConfig};
use async_nats::jetstream::consumer::{AckPolicy, Consumer, DeliverPolicy};
use async_nats::jetstream::context::GetStreamErrorKind;
use async_nats::jetstream::stream::{Config, Info, RetentionPolicy, StorageType};
use async_nats::jetstream::{self, ErrorCode};
use futures_util::StreamExt as _;
use noetl_types::Timestamp;

use super::fault::NatsError;
use super::link::Link;

/// How long a stream may stay silent while it is read.
const SILENCE: Duration = Duration::from_secs(5);

/// A stream as it is made where there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamPlan {
    /// Its name.
    pub name: &'static str,
    /// The subjects that it keeps. They are added to one that is there already.
    pub subjects: &'static [&'static str],
    /// How long it keeps a message.
    pub max_age: Duration,
    /// For how long it knows a message by its id.
    pub duplicate_window: Duration,
}

/// Somebody who takes messages of a stream and says what became of them, known by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerPlan {
    /// Its name.
    pub name: &'static str,
    /// How long it may have a message before others get it.
    pub ack_wait: Duration,
    /// How often a message is given out at most.
    pub max_deliver: i64,
}

/// A stream as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamFacts {
    /// When it was made. Another time means another stream.
    pub created_at: Timestamp,
    /// The number of its first message.
    pub first: u64,
    /// The number of its last one.
    pub last: u64,
    /// How many there are.
    pub messages: u64,
    /// How many bytes they take.
    pub bytes: u64,
    /// How long it keeps a message; zero is for ever.
    pub max_age: Duration,
    /// For how long it knows a message by its id.
    pub duplicate_window: Duration,
    /// Whether it outlives the broker.
    pub is_on_disk: bool,
    /// What makes it let go of messages.
    pub lets_go: LetsGo,
}

/// What makes a stream let go of messages, besides somebody who takes them out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LetsGo {
    /// Their age, and nothing else.
    OfOld,
    /// Newer ones too, for which it lacks room.
    ForNewer,
    /// Those who read it.
    OfRead,
}

impl Link {
    /// Makes a stream where there is none; one that is there is used, and given the subjects that it
    /// lacks. How long it keeps and knows messages stays: whoever made it may have had a reason.
    pub async fn ensure(&self, plan: &StreamPlan) -> Result<StreamFacts, NatsError> {
        let found = match self.jetstream.get_stream(plan.name).await {
            Ok(stream) => stream.cached_info().clone(),
            Err(error) if is_missing(&error.kind()) => self.make(plan).await?,
            Err(error) => return Err(NatsError::of(&error)),
        };
        let missing: Vec<String> = plan
            .subjects
            .iter()
            .filter(|subject| !found.config.subjects.iter().any(|has| covers(has, subject)))
            .map(|subject| (*subject).to_owned())
            .collect();
        if missing.is_empty() {
            return facts(&found);
        }
        tracing::info!(
            stream = plan.name,
            ?missing,
            "subjects are added to a stream"
        );
        let mut config = found.config;
        // What a new one includes may not be listed beside it.
        config
            .subjects
            .retain(|has| !missing.iter().any(|new| covers(new, has)));
        config.subjects.extend(missing);
        let updated = self.jetstream.update_stream(config).await;
        facts(&updated.map_err(|error| NatsError::of(&error))?)
    }

    async fn make(&self, plan: &StreamPlan) -> Result<Info, NatsError> {
        let config = Config {
            name: plan.name.to_owned(),
            subjects: plan.subjects.iter().map(|it| (*it).to_owned()).collect(),
            storage: StorageType::File,
            max_age: plan.max_age,
            duplicate_window: plan.duplicate_window,
            ..Config::default()
        };
        // Another server may make the same one right now, which is as good.
        let made = self.jetstream.get_or_create_stream(config).await;
        let made = made.map_err(|error| NatsError::of(&error))?;
        Ok(made.cached_info().clone())
    }

    /// Makes a consumer of all of a stream where there is none; one that is there is used as it is.
    /// Whether there is such a stream.
    pub async fn ensure_consumer(
        &self,
        stream: &str,
        plan: &ConsumerPlan,
    ) -> Result<bool, NatsError> {
        let stream = match self.jetstream.get_stream(stream).await {
            Ok(stream) => stream,
            Err(error) if is_missing(&error.kind()) => return Ok(false),
            Err(error) => return Err(NatsError::of(&error)),
        };
        let config = PullConfig {
            durable_name: Some(plan.name.to_owned()),
            ack_policy: AckPolicy::Explicit,
            ack_wait: plan.ack_wait,
            max_deliver: plan.max_deliver,
            ..PullConfig::default()
        };
        let made: Result<Consumer<PullConfig>, _> =
            stream.get_or_create_consumer(plan.name, config).await;
        made.map_err(|error| NatsError::of(&error))?;
        Ok(true)
    }

    /// A stream as it is; nothing where there is none.
    pub async fn stream(&self, name: &str) -> Result<Option<StreamFacts>, NatsError> {
        match self.jetstream.get_stream(name).await {
            Ok(stream) => facts(stream.cached_info()).map(Some),
            Err(error) if is_missing(&error.kind()) => Ok(None),
            Err(error) => Err(NatsError::of(&error)),
        }
    }

    /// The ids of the messages of a stream, from one number to another.
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
        let stream = stream.map_err(|error| NatsError::of(&error))?;
        let consumer = stream
            .create_consumer(OrderedConfig {
                deliver_policy: DeliverPolicy::ByStartSequence {
                    start_sequence: first.max(1),
                },
                headers_only: true,
                ..OrderedConfig::default()
            })
            .await
            .map_err(|error| NatsError::of(&error))?;
        let messages = consumer.messages().await;
        let mut messages = messages.map_err(|error| NatsError::of(&error))?;
        loop {
            let Ok(Some(message)) = tokio::time::timeout(SILENCE, messages.next()).await else {
                return Err(NatsError::told("the stream does not give its messages"));
            };
            let message = message.map_err(|error| NatsError::of(&error))?;
            if let Some(id) = message_id(&message) {
                ids.insert(id);
            }
            let Ok(info) = message.info() else {
                return Err(NatsError::told("a message has no number"));
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

fn is_missing(kind: &GetStreamErrorKind) -> bool {
    matches!(kind, GetStreamErrorKind::JetStream(error)
        if error.error_code() == ErrorCode::STREAM_NOT_FOUND)
}

fn facts(info: &Info) -> Result<StreamFacts, NatsError> {
    let micros = i64::try_from(info.created.unix_timestamp_nanos() / 1_000).ok();
    let created_at = micros.and_then(|micros| Timestamp::from_micros(micros).ok());
    Ok(StreamFacts {
        created_at: created_at
            .ok_or_else(|| NatsError::told("the stream was made at no time that can be read"))?,
        first: info.state.first_sequence,
        last: info.state.last_sequence,
        messages: info.state.messages,
        bytes: info.state.bytes,
        max_age: info.config.max_age,
        duplicate_window: info.config.duplicate_window,
        is_on_disk: info.config.storage == StorageType::File,
        lets_go: lets_go(&info.config),
    })
}

fn lets_go(config: &Config) -> LetsGo {
    let bounds = [
        config.max_messages,
        config.max_bytes,
        config.max_messages_per_subject,
    ];
    match config.retention {
        RetentionPolicy::Interest | RetentionPolicy::WorkQueue => LetsGo::OfRead,
        RetentionPolicy::Limits if bounds.iter().any(|bound| *bound > 0) => LetsGo::ForNewer,
        RetentionPolicy::Limits => LetsGo::OfOld,
    }
}

/// Whether a subject with wildcards includes all of another one.
fn covers(pattern: &str, subject: &str) -> bool {
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
mod tests {
    use super::*;

    #[test]
    fn what_a_stream_lets_go_of() {
        assert_eq!(lets_go(&Config::default()), LetsGo::OfOld);
        // As the broker tells of what has no bounds.
        let unbounded = Config {
            max_messages: -1,
            max_bytes: -1,
            max_messages_per_subject: -1,
            ..Config::default()
        };
        assert_eq!(lets_go(&unbounded), LetsGo::OfOld);
        let bounded = Config {
            max_bytes: 1 << 30,
            ..unbounded.clone()
        };
        assert_eq!(lets_go(&bounded), LetsGo::ForNewer);
        let queue = Config {
            retention: RetentionPolicy::WorkQueue,
            ..unbounded
        };
        assert_eq!(lets_go(&queue), LetsGo::OfRead);
    }

    #[test]
    fn what_a_pattern_includes() {
        for (pattern, subject) in [
            ("a.b", "a.b"),
            ("a.>", "a.b.>"),
            (">", "a"),
            ("a.*", "a.b"),
            ("a.*.c", "a.*.c"),
        ] {
            assert!(covers(pattern, subject), "{pattern} {subject}");
        }
        for (pattern, subject) in [("a.>", "a"), ("a.*", "a.>"), ("a", "a.b"), ("a.b", "a")] {
            assert!(!covers(pattern, subject), "{pattern} {subject}");
        }
    }
}

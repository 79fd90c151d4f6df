//! The kind `subscription`: takes messages from where others put them, and says what became of them.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::{AckKind, Context};
use async_trait::async_trait;
use bytes::Bytes;
use noetl_types::{Json, TaskError, TaskErrorKind};

use crate::call::{Call, Outcome};
use crate::config::{Config, missing, wrong};
use crate::nats::{
    Fetch, Lines, Target, acknowledge, failed, fetch, long_enough, number, required,
};
use crate::settings::Settings;
use crate::tool::{Scope, Tool};

/// Messages that one poll takes at most, and what it takes unless it says so.
const MOST_MESSAGES: u64 = 1_000;
const SOME_MESSAGES: u64 = 100;

/// How long a poll waits unless it says so, in milliseconds.
const USUAL_WAIT: u64 = 1_000;

/// The longest time that a message may be put off, in milliseconds.
const LONGEST_DELAY: u64 = 86_400_000;

/// Where the messages of a server are acknowledged.
const ACKNOWLEDGE: &str = "$JS.ACK.";

/// Polls sources of messages.
pub(crate) struct Subscription {
    settings: Arc<Settings>,
    lines: Arc<Lines>,
}

impl Subscription {
    pub(crate) fn new(settings: Arc<Settings>, lines: Arc<Lines>) -> Self {
        Self { settings, lines }
    }

    async fn work(&self, call: &Call) -> Result<Json, TaskError> {
        let config = Config(&call.config);
        let source = required(config, "source")?;
        if source != "nats" {
            let message = format!("this worker has no way to messages of '{source}', only of nats");
            return Err(TaskError::new(TaskErrorKind::Unsupported, message));
        }
        let operation = config.text("operation")?.unwrap_or("poll");
        let target = Target::read(config, &self.settings)?;
        let jetstream = self.lines.open(&target, &self.settings).await?;
        match operation {
            "poll" => self.poll(&jetstream, config).await,
            "ack" => settle(&jetstream, config, operation, AckKind::Ack).await,
            "nack" => {
                let delay = number(config, "nack_delay_ms", 0..=LONGEST_DELAY)?;
                let delay = delay.map(Duration::from_millis);
                settle(&jetstream, config, operation, AckKind::Nak(delay)).await
            }
            other => Err(TaskError::new(
                TaskErrorKind::Schema,
                format!("'{other}' is no operation of a subscription"),
            )),
        }
    }

    async fn poll(&self, jetstream: &Context, config: Config<'_>) -> Result<Json, TaskError> {
        let wish = Fetch {
            stream: required(config, "stream")?,
            consumer: required(config, "consumer")?,
            batch: number(config, "batch", 1..=MOST_MESSAGES)?.unwrap_or(SOME_MESSAGES),
            patience: long_enough(config, USUAL_WAIT)?,
            most_bytes: self.settings.payload_cap,
        };
        let mode = match config.text("ack")?.unwrap_or("on_success") {
            "on_success" | "auto" => "on_success",
            "manual" => "manual",
            "none" => "none",
            other => {
                return Err(wrong(
                    "ack",
                    "on_success, manual or none",
                    &Json::from(other),
                ));
            }
        };
        let fetched = fetch(jetstream, &wish).await?;
        let acked = if mode == "on_success" {
            acknowledge(&fetched).await?
        } else {
            0
        };
        // Whoever gets the messages can still settle those that are not.
        let ack_ids: Vec<Json> = fetched[acked..]
            .iter()
            .map(|one| Json::from(&*one.ack_id))
            .collect();
        let messages: Vec<Json> = fetched.into_iter().map(|one| one.told).collect();
        Ok(Json::object([
            ("status", Json::from("success")),
            ("source", Json::from("nats")),
            ("operation", Json::from("poll")),
            ("count", Json::from(messages.len())),
            ("messages", Json::list(messages)),
            ("acked", Json::from(acked)),
            ("ack_mode", Json::from(mode)),
            ("ack_ids", Json::list(ack_ids)),
        ]))
    }
}

/// Says what became of messages of an earlier poll.
async fn settle(
    jetstream: &Context,
    config: Config<'_>,
    operation: &str,
    kind: AckKind,
) -> Result<Json, TaskError> {
    let given = config.get("ack_ids").ok_or_else(|| missing("'ack_ids'"))?;
    let ids = given
        .as_list()
        .ok_or_else(|| wrong("ack_ids", "a list", given))?;
    let word = Bytes::from(kind);
    let mut acked = 0_u64;
    for id in ids {
        let subject = id.as_str().filter(|id| id.starts_with(ACKNOWLEDGE));
        // Anything else would let a task say something somewhere.
        let subject = subject.ok_or_else(|| wrong("ack_ids", "a list of ids from a poll", id))?;
        let told = jetstream
            .client()
            .request(subject.to_owned(), word.clone())
            .await;
        told.map_err(|error| failed("a message cannot be settled", &error))?;
        acked += 1;
    }
    Ok(Json::object([
        ("status", Json::from("success")),
        ("source", Json::from("nats")),
        ("operation", Json::from(operation)),
        (
            "count",
            Json::from(u64::try_from(ids.len()).unwrap_or(u64::MAX)),
        ),
        ("messages", Json::list([])),
        ("acked", Json::from(acked)),
        ("ack_mode", Json::from("manual")),
        ("ack_ids", Json::list(ids.iter().cloned())),
    ]))
}

#[async_trait]
impl Tool for Subscription {
    async fn run(&self, call: &Call, _scope: &Scope) -> Outcome {
        match self.work(call).await {
            Ok(data) => Outcome::ok(data),
            Err(error) => error.into(),
        }
    }
}
